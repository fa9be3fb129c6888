"""`kbroker status`, and the same commands against an Apache Kafka."""

import json
from pathlib import Path

import pytest

from kbroker.cli.status import flush_promise
from tests.cli.commands import Run, without_what_varies
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

KILLED = "         a killed broker process loses nothing that was acknowledged"


def test_status_of_an_empty_broker_and_of_one_with_records(
    ask_fresh: Run, fresh_broker: BrokerProcess
) -> None:
    def lines() -> list[str]:
        text = without_what_varies(ask_fresh("status").check().out)
        return [line for line in text.splitlines() if not line.startswith("broker")]

    place = f"disk     ROOM at {fresh_broker.data_dir}"
    default = "a power cut loses at most the last 10 s (flush.ms=10000)"
    assert lines() == [
        "cluster  ID",
        place,
        "topics   0 topics, 0 partitions",
        "records  0 records, 0 B",
        f"flush    {default}: new topics",
        KILLED,
    ]
    ask_fresh("topics", "create", "safe", "--config", "kbroker.flush.group.commit=true").check()
    ask_fresh("topics", "create", "wide", "--partitions", "3").check()
    ask_fresh("produce", "wide", stdin=b"one\ntwo\n").check()
    assert lines() == [
        "cluster  ID",
        place,
        "topics   2 topics, 4 partitions",
        "records  2 records, 81 B",
        "flush    a power cut loses nothing that was acknowledged (group commit): safe",
        f"         {default}: wide",
        KILLED,
    ]


def test_status_is_told_as_json(ask_fresh: Run, fresh_broker: BrokerProcess) -> None:
    ask_fresh("produce", "t", stdin=b"one\n").check()
    told = json.loads(ask_fresh("status", "--json").check().out)
    (broker,) = told["brokers"]
    assert broker["id"] == 0
    assert broker["address"] == fresh_broker.bootstrap
    assert broker["product"].startswith("kbroker")
    (folder,) = broker["folders"]
    assert folder["path"] == str(fresh_broker.data_dir)
    assert 0 < folder["usable_bytes"] < folder["total_bytes"]
    assert (told["topics"], told["partitions"], told["records"]) == (1, 1, 1)
    assert [entry["topics"] for entry in told["flush"]] == [["t"]]
    meta = (fresh_broker.data_dir / "meta.properties").read_text()
    assert f"cluster.id={told['cluster_id']}\n" in meta


@pytest.mark.parametrize(
    ("values", "promise"),
    [
        ({"kbroker.flush.group.commit": "true", "flush.ms": "10"}, "loses nothing"),
        ({"flush.messages": "1", "flush.ms": "10"}, "loses nothing"),
        ({"flush.messages": "9223372036854775807", "flush.ms": "10000"}, "at most the last 10 s"),
        ({"flush.messages": "1000", "flush.ms": "60000"}, "the last 60 s (flush.ms=60000) or the"),
        ({"flush.messages": "1000"}, "at most the last 1,000 records"),
        ({"flush.ms": "9223372036854775807"}, "the operating system has not written"),
        ({}, "the operating system has not written"),
    ],
)
def test_what_a_power_cut_costs_follows_from_the_settings(
    values: dict[str, str], promise: str
) -> None:
    assert promise in flush_promise(values)


@pytest.mark.slow
def test_the_commands_work_with_an_apache_kafka(
    run: Run, apache_kafka: ApacheKafka, topic_name: str, tmp_path: Path
) -> None:
    def ask(*words: str, stdin: bytes = b"") -> str:
        return run(*words, "--bootstrap", apache_kafka.bootstrap, stdin=stdin).check().out

    created = ask("topics", "create", topic_name, "--partitions", "2", "--config", "flush.ms=99")
    assert created == f"created topic {topic_name} with 2 partitions\n"
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        content = b"a:%s\nd:%s\n" % (codec.encode(), codec.encode())
        ask("produce", topic_name, "--key-separator", ":", "--compression", codec, stdin=content)
    ask("produce", f"{topic_name}-auto", stdin=b"made by the broker\n")
    assert ask("consume", f"{topic_name}-auto") == "made by the broker\n"

    records = [json.loads(line) for line in ask("consume", topic_name, "--json").splitlines()]
    assert len(records) == 10
    assert {(record["key"], record["partition"]) for record in records} == {("a", 0), ("d", 1)}
    assert ask("consume", topic_name, "--from", "-5m", "--partition", "1", "--max", "1") == "none\n"

    (described,) = json.loads(ask("topics", "describe", topic_name, "--json"))
    assert [part["latest"] for part in described["partitions"]] == [5, 5]
    assert all(part["bytes"] > 0 for part in described["partitions"])
    assert described["configs"] == {"flush.ms": "99"}
    listed = json.loads(ask("topics", "list", "--json"))
    assert described["id"] in [topic["id"] for topic in listed]

    ask("topics", "alter", topic_name, "--partitions", "3")
    ask("configs", "set", "--topic", topic_name, "retention.ms=123456")
    shown = [line.split() for line in ask("configs", "show", "--topic", topic_name).splitlines()]
    assert ["retention.ms", "123456", "topic"] in shown
    ask("configs", "unset", "--topic", topic_name, "retention.ms")
    assert "node.id" in ask("configs", "show")

    status = ask("status")
    assert f"broker   1 at {apache_kafka.bootstrap}, Apache Kafka, metadata.version " in status
    assert "loses what the operating system has not written yet" in status
    assert str(apache_kafka.data_dir) in status

    segment = apache_kafka.data_dir / f"{topic_name}-0" / "00000000000000000000.log"
    dumped = run("dump", str(segment), "--records").check().out
    assert '  key "a"  value "zstd"' in dumped
    assert "5 batches, 5 records, offsets 0 to 4" in dumped

    ask("topics", "delete", topic_name, f"{topic_name}-auto")
