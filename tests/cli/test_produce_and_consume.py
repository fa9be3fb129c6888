"""Records through the command line: what goes in comes out, in every form asked for."""

import json
import signal
import subprocess
import warnings
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path

import pytest

from kbroker.cli import consume
from kbroker.cli.client.address import parse
from kbroker.cli.client.cluster import Cluster
from kbroker.cli.client.consumer import Consumer, Span
from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.cli.commands import (
    Done,
    Run,
    command_line,
    run_process,
    start_process,
    without_what_varies,
)
from tests.support.broker_process import BrokerProcess
from tests.support.needs import ROOT
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until

with warnings.catch_warnings():
    # kafka-python loads its schemas, at import, by a call that Python has deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

WAIT_S = 20


def lines(done: Done) -> list[str]:
    return done.check().out.splitlines()


def test_lines_are_written_and_read_back(ask: Run, topic_name: str) -> None:
    written = ask("produce", topic_name, stdin=b"one\n\ntwo words\nlast without an end").check()
    assert written.err.splitlines() == [
        f"kbroker: there was no topic {topic_name}; the broker has made it with 1 partition",
        f"kbroker: wrote 4 records to {topic_name}: partition 0 offsets 0 to 3",
    ]
    assert written.out == ""
    assert ask("consume", topic_name).check().out == "one\n\ntwo words\nlast without an end\n"


def test_keys_headers_times_and_offsets_stand_before_the_value(ask: Run, topic_name: str) -> None:
    ask(
        *("produce", topic_name, "--key-separator", ":", "--header", "source=test"),
        *("--header", "empty="),
        stdin=b"a:one\nb:two:three\n",
    ).check()
    shown = ask("consume", topic_name, "--times", "--offsets", "--keys", "--headers")
    assert without_what_varies(shown.check().out) == (
        "TIME\t0:0\ta\tsource=test,empty=\tone\nTIME\t0:1\tb\tsource=test,empty=\ttwo:three\n"
    )
    assert lines(ask("consume", topic_name, "--keys", "--format", "hex")) == [
        "61\t6f6e65",
        "62\t74776f3a7468726565",
    ]


def test_a_record_is_told_as_json(ask: Run, topic_name: str) -> None:
    ask("produce", topic_name, "--key", "k", "--header", "h=v", stdin=b"gr\xc3\xbc\xc3\x9fe\n")
    ask("produce", topic_name, "--null", "NIL", stdin=b"\xff\xfe\nNIL\n").check()
    first, second, third = map(json.loads, lines(ask("consume", topic_name, "--json")))
    moment = datetime.fromisoformat(first.pop("time"))
    assert first.pop("timestamp_ms") == pytest.approx(moment.timestamp() * 1000)
    assert first == {
        "topic": topic_name,
        "partition": 0,
        "offset": 0,
        "key": "k",
        "value": "grüße",
        "headers": [{"key": "h", "value": "v"}],
    }
    assert (second["value"], second["value_encoding"]) == ("//4=", "base64")
    assert (second["key"], third["value"]) == (None, None)


def test_what_was_written_is_told_as_json(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name, "--partitions", "2").check()
    written = ask("produce", topic_name, "--partition", "1", "--json", stdin=b"one\ntwo\n")
    told = json.loads(written.check().out)
    assert told.pop("seconds") >= 0
    assert told == {
        "topic": topic_name,
        "records": 2,
        "bytes": 6,
        "partitions": [{"partition": 1, "records": 2, "first_offset": 0, "last_offset": 1}],
    }


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_files_are_written_in_every_compression(
    ask: Run, topic_name: str, tmp_path: Path, compression: str
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("".join(f"line {number}\n" for number in range(12_000)))
    second.write_bytes(b"one more\n")
    ask("produce", topic_name, str(first), str(second), "--compression", compression).check()
    expected = first.read_bytes() + second.read_bytes()
    assert ask("consume", topic_name).check().out.encode() == expected


def test_whole_files_are_one_record_each(ask: Run, topic_name: str, tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("a", "b")]
    for name in names:
        name.write_bytes(b"several\nlines of " + name.name.encode())
    ask("produce", topic_name, "--whole", *map(str, names)).check()
    values = [json.loads(line)["value"] for line in lines(ask("consume", topic_name, "--json"))]
    assert values == ["several\nlines of a", "several\nlines of b"]


def test_a_record_larger_than_a_batch_is_written_and_one_too_large_is_refused(
    ask: Run, topic_name: str
) -> None:
    ask("produce", topic_name, stdin=b"x" * 700_000).check()
    said = ask("produce", topic_name, stdin=b"y" * 1_100_000).refused()
    assert f"kbroker configs set --topic {topic_name} max.message.bytes=" in said
    assert ask("consume", topic_name).check().out == "x" * 700_000 + "\n"


def test_batches_shrink_to_what_the_topic_allows(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name, "--config", "max.message.bytes=1000").check()
    content = b"".join(b"%d %s\n" % (number, b"z" * 50) for number in range(200))
    ask("produce", topic_name, stdin=content).check()
    assert ask("consume", topic_name).check().out.encode() == content


def test_acks_0_1_and_all_all_write(ask: Run, topic_name: str) -> None:
    for acks in ("1", "all", "0"):
        done = ask("produce", topic_name, "--acks", acks, stdin=b"acks %s\n" % acks.encode())
        assert ("without acknowledgement" in done.check().err) == (acks == "0")
    wait_until(
        lambda: lines(ask("consume", topic_name)) == ["acks 1", "acks all", "acks 0"],
        timeout_s=WAIT_S,
        what="the record that nobody acknowledged",
    )


def test_a_rate_spreads_records_over_time(ask: Run, topic_name: str) -> None:
    ask("produce", topic_name, "--rate", "20", stdin=b"0\n1\n2\n3\n4\n").check()
    times = [
        json.loads(line)["timestamp_ms"] for line in lines(ask("consume", topic_name, "--json"))
    ]
    assert 190 <= times[-1] - times[0] < 2_000
    assert times == sorted(set(times))


def test_keys_go_where_other_clients_send_them(
    ask: Run, broker: BrokerProcess, topic_name: str
) -> None:
    ask("topics", "create", topic_name, "--partitions", "7").check()
    keys = [f"key {number}" for number in range(40)] + ["", "ü", "1", "12", "123", "1234"]
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for key in keys:
            producer.send(topic_name, key=key.encode(), value=b"kafka-python")
    ask(
        *("produce", topic_name, "--key-separator", "="),
        stdin="".join(f"{key}=kbroker\n" for key in keys).encode(),
    ).check()
    places: dict[str, set[int]] = {}
    for line in lines(ask("consume", topic_name, "--json")):
        record = json.loads(line)
        places.setdefault(record["key"], set()).add(record["partition"])
    assert set(places) == set(keys)
    assert all(len(partitions) == 1 for partitions in places.values())
    assert len(set.union(*places.values())) == 7


def test_records_without_a_key_spread_over_the_partitions(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name, "--partitions", "3").check()
    content = b"".join(b"%s\n" % (b"x" * 60_000) for _ in range(20))
    told = json.loads(ask("produce", topic_name, "--json", stdin=content).check().out)
    assert [part["partition"] for part in told["partitions"]] == [0, 1, 2]
    assert told["records"] == 20


def test_kafka_python_and_kcat_read_what_was_written_and_the_other_way_round(
    ask: Run, broker: BrokerProcess, kcat: Path, topic_name: str
) -> None:
    ask(
        *("produce", topic_name, "--key", "k", "--header", "h=v", "--compression", "gzip"),
        stdin=b"from kbroker\n",
    ).check()
    with KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type="gzip") as producer:
        producer.send(topic_name, key=b"p", value=b"from python", headers=[("a", b"b")])
    subprocess.run(
        [kcat, "-P", "-q", "-b", broker.bootstrap, "-t", topic_name, "-K:", "-H", "c=d"],
        input=b"q:from kcat\n",
        check=True,
        timeout=WAIT_S,
    )
    assert lines(ask("consume", topic_name, "--keys", "--headers")) == [
        "k\th=v\tfrom kbroker",
        "p\ta=b\tfrom python",
        "q\tc=d\tfrom kcat",
    ]
    with KafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic_name, 0)])
        consumer.seek_to_beginning()
        first = next(consumer)
        assert (first.key, first.value) == (b"k", b"from kbroker")
        assert list(first.headers) == [("h", b"v")]
    read = subprocess.run(
        [kcat, "-C", "-e", "-q", "-b", broker.bootstrap, "-t", topic_name, "-f", "%k %h %s\n"],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    assert read.stdout.splitlines()[0] == "k h=v from kbroker"


# Where reading begins and ends


def test_reading_begins_where_it_is_told(ask: Run, broker: BrokerProcess, topic_name: str) -> None:
    begin = datetime.now(UTC) - timedelta(minutes=50)
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(5):  # one every ten minutes, the last ten minutes ago
            moment = begin + timedelta(minutes=10 * number)
            producer.send(
                topic_name, value=b"%d" % number, timestamp_ms=int(moment.timestamp() * 1000)
            ).get(WAIT_S)

    def read(*words: str) -> str:
        return "".join(lines(ask("consume", topic_name, *words)))

    assert read("--from", "beginning") == "01234"
    assert read("--from", "latest") == ""
    assert read("--from", "3") == "34"
    assert read("--from", "-2") == "34"
    assert read("--from", "-100") == "01234"
    assert read("--from", "-35m") == "234"
    assert read("--from", "-1h") == "01234"
    assert read("--from", "-5m") == ""
    assert read("--from", (begin + timedelta(minutes=15)).isoformat()) == "234"
    assert read("--from", (begin - timedelta(days=2)).date().isoformat()) == "01234"
    assert read("--max", "2") == "01"
    assert read("--from", "1", "--max", "2") == "12"
    assert read("--max", "0") == ""
    shown = ask("consume", topic_name, "--times", "--max", "1").check().out.split("\t")[0]
    assert read("--from", shown) == "01234"


def test_an_offset_beyond_the_end_or_before_the_start_is_said(ask: Run, topic_name: str) -> None:
    ask("produce", topic_name, stdin=b"one\ntwo\n").check()
    beyond = ask("consume", topic_name, "--from", "7").check()
    assert beyond.out == ""
    assert f"{topic_name} partition 0 ends at offset 2, before 7" in beyond.err


def test_one_partition_is_read_alone(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name, "--partitions", "3").check()
    for number in range(3):
        ask("produce", topic_name, "--partition", str(number), stdin=b"in %d\n" % number).check()
    assert lines(ask("consume", topic_name, "--partition", "1")) == ["in 1"]
    both = ask("consume", topic_name, "--partition", "0", "--partition", "2")
    assert sorted(lines(both)) == ["in 0", "in 2"]
    said = ask("consume", topic_name, "--partition", "3").refused()
    assert f"topic {topic_name} has no partition 3; it has 0 to 2" in said


def test_a_line_without_a_key_ends_it_after_the_lines_before(ask: Run, topic_name: str) -> None:
    said = ask("produce", topic_name, "--key-separator", "\\t", stdin=b"a\tb\nno tab\n")
    assert said.code == 1
    assert "line 2 of standard input has no '\\t' between key and value" in said.err
    assert lines(ask("consume", topic_name, "--keys")) == ["a\tb"]


def test_a_reader_goes_on_where_records_were_deleted_under_it(
    ask: Run, broker: BrokerProcess, topic_name: str
) -> None:
    ask("produce", topic_name, stdin=b"0\n1\n2\n3\n").check()
    delete_records(broker, topic_name, before=2)
    clipped = ask("consume", topic_name, "--from", "1").check()
    assert clipped.out == "2\n3\n"
    assert "partition 0 begins at offset 2; reading from there" in clipped.err

    addresses = parse(broker.bootstrap)
    with Cluster(addresses) as cluster:
        # It had come to offset 1 when the records before 2 went.
        consumer = Consumer(cluster, cluster.topic(topic_name), {0: Span(1, None)})
        following = filter(None, consume._follow(consumer, addresses))
        assert [record.value for _, record in islice(following, 2)] == [b"2", b"3"]


def delete_records(broker: BrokerProcess, topic: str, *, before: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=1000
    )
    with RawClient(broker.bootstrap) as client:
        answer = client.ask(request, 2, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].low_watermark == before


def test_a_write_that_fails_on_the_way_says_what_was_written(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name, "--config", "max.message.bytes=500").check()
    content = b"small\n" * 3 + b"x" * 600 + b"\nnever sent\n"
    said = ask("produce", topic_name, stdin=content).refused()
    assert "is too large for topic" in said
    assert "(3 records were written before)" in said
    assert lines(ask("consume", topic_name)) == ["small"] * 3


# Processes: typed lines, signals, pipes, restarts


def shown_ends_with(shown: Path, line: bytes) -> bool:
    return shown.read_bytes().endswith(line)


@pytest.mark.slow
def test_a_follower_shows_typed_lines_at_once_and_ctrl_c_ends_both_cleanly(
    broker: BrokerProcess, ask: Run, topic_name: str, tmp_path: Path
) -> None:
    ask("topics", "create", topic_name).check()
    address = ("--bootstrap", broker.bootstrap)
    shown = tmp_path / "shown"
    follower = start_process(("consume", topic_name, "--follow", *address), shown)
    writer = start_process(("produce", topic_name, *address), tmp_path / "written")
    assert writer.stdin is not None
    assert follower.stdin is not None
    try:
        for line in (b"first\n", b"second\n"):
            writer.stdin.write(line)
            writer.stdin.flush()
            wait_until(
                partial(shown_ends_with, shown, line),
                timeout_s=WAIT_S,
                what="a typed line to be shown",
            )
        for process in (writer, follower):
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 0
    finally:
        for process in (writer, follower):
            process.stdin.close() if process.stdin else None
            process.kill()
            process.wait()
    assert shown.read_bytes() == b"first\nsecond\n"
    assert "wrote 2 records" in (tmp_path / "written").read_text()


@pytest.mark.slow
def test_a_follower_goes_on_after_a_restart_of_the_broker(
    fresh_broker: BrokerProcess, ask_fresh: Run, tmp_path: Path
) -> None:
    ask_fresh("produce", "t", stdin=b"before\n").check()
    shown = tmp_path / "shown"
    words = ("consume", "t", "--follow", "--max", "2", "--bootstrap", fresh_broker.bootstrap)
    follower = start_process(words, shown)
    try:
        wait_until(lambda: b"before" in shown.read_bytes(), timeout_s=WAIT_S, what="a record")
        fresh_broker.restart()
        ask_fresh("produce", "t", stdin=b"after\n").check()
        assert follower.wait(WAIT_S) == 0
    finally:
        follower.kill()
        follower.wait()
        if follower.stdin:
            follower.stdin.close()
    assert shown.read_text().splitlines()[0] == "before"
    assert shown.read_text().splitlines()[-1] == "after"
    assert "trying again" in shown.read_text()


@pytest.mark.slow
def test_a_reader_that_has_had_enough_is_no_failure(
    broker: BrokerProcess, ask: Run, topic_name: str
) -> None:
    ask("produce", topic_name, stdin=b"".join(b"%d\n" % n for n in range(50_000))).check()
    words = ("consume", topic_name, "--bootstrap", broker.bootstrap)
    process = subprocess.Popen(
        command_line(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(WAIT_S), said) == (0, b"")


@pytest.mark.slow
def test_a_pipe_is_written_and_read_by_processes_of_their_own(
    broker: BrokerProcess, topic_name: str
) -> None:
    """The first thing that a user tries: echo hello | kbroker produce, and kbroker consume."""
    address = {"KBROKER_BOOTSTRAP": broker.bootstrap}
    run_process("produce", topic_name, stdin=b"hello\n", environment=address).check()
    assert run_process("consume", topic_name, environment=address).check().out == "hello\n"
