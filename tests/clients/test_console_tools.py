"""Kafka's own command lines, release 4.3.1: what an administrator types.

kafka-console-consumer works with `--partition N --offset earliest`, which assigns the partition and
asks only for Metadata, ListOffsets and Fetch. Without --partition it joins a group, and so does
kafka-consumer-perf-test always: they end with "The node does not support FIND_COORDINATOR".
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.handlers.registry import APIS
from tests.clients.java_driver import JavaDriver
from tests.support.broker_process import BrokerProcess
from tests.support.java import Finished, Java, KafkaTool

pytestmark = pytest.mark.slow

Run = Callable[..., Finished]


@pytest.fixture
def run(java_driver: JavaDriver, broker: BrokerProcess) -> Run:
    """Runs a tool against the broker."""

    def run_tool(tool: KafkaTool, *arguments: str, stdin: bytes = b"") -> Finished:
        server = ("--bootstrap-server", broker.bootstrap)
        return java_driver.run(tool, *server, *arguments, stdin=stdin)

    return run_tool


def test_topics_are_created_listed_described_altered_and_deleted(run: Run, topic_name: str) -> None:
    topic = ("--topic", topic_name)
    create = (*topic, "--create", "--partitions", "3", "--config", "retention.ms=12345")
    assert f"Created topic {topic_name}." in run(KafkaTool.TOPICS, *create).check().stdout
    again = run(KafkaTool.TOPICS, *create)
    assert again.exit_code == 1
    assert topic_name in again.stdout  # in the words of the broker
    run(KafkaTool.TOPICS, *create, "--if-not-exists").check()
    assert topic_name in run(KafkaTool.TOPICS, "--list").check().stdout.splitlines()

    run(KafkaTool.TOPICS, *topic, "--alter", "--partitions", "5").check()
    fewer = run(KafkaTool.TOPICS, *topic, "--alter", "--partitions", "2")
    assert fewer.exit_code == 1
    assert topic_name in fewer.stdout
    summary, *partitions = run(KafkaTool.TOPICS, *topic, "--describe").check().stdout.splitlines()
    assert re.search(r"TopicId: [\w-]{22}\tPartitionCount: 5\tReplicationFactor: 1\t", summary)
    assert summary.endswith("Configs: retention.ms=12345")
    assert len(partitions) == 5
    assert "Partition: 4\tLeader: 0\tReplicas: 0\tIsr: 0" in partitions[4]
    broken = run(KafkaTool.TOPICS, "--describe", "--unavailable-partitions").check()
    assert broken.stdout.strip() == ""

    run(KafkaTool.TOPICS, *topic, "--delete").check()
    assert topic_name not in run(KafkaTool.TOPICS, "--list").check().stdout.splitlines()
    gone = run(KafkaTool.TOPICS, *topic, "--describe")
    assert gone.exit_code == 1
    assert "does not exist as expected" in gone.stdout


def test_a_topic_of_thousands_of_partitions_is_described_in_pages(
    java_driver: JavaDriver, fresh_broker: BrokerProcess
) -> None:
    topic = ("--bootstrap-server", fresh_broker.bootstrap, "--topic", "wide")
    java_driver.run(KafkaTool.TOPICS, *topic, "--create", "--partitions", "4500").check()
    _, *partitions = (
        java_driver.run(KafkaTool.TOPICS, *topic, "--describe").check().stdout.splitlines()
    )
    numbers = [int(line.split("Partition: ")[1].split("\t")[0]) for line in partitions]
    assert numbers == list(range(4500))


def test_a_topic_that_cannot_be_made_is_refused_with_the_reason(run: Run, topic_name: str) -> None:
    many = run(KafkaTool.TOPICS, "--create", "--topic", topic_name, "--replication-factor", "3")
    assert many.exit_code == 1
    assert "3" in many.stdout
    wrong = run(
        KafkaTool.TOPICS, "--create", "--topic", topic_name, "--config", "retention.ms=long"
    )
    assert wrong.exit_code == 1
    assert "retention.ms" in wrong.stdout
    assert topic_name not in run(KafkaTool.TOPICS, "--list").check().stdout.splitlines()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_console_producer_writes_what_the_console_consumer_prints(
    run: Run, java: Java, broker: BrokerProcess, topic_name: str, acks: str
) -> None:
    reader = [
        f"--reader-property={setting}"
        for setting in ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    ]
    lines = ["h1:v1,h2:v2\tkey\tvälue ☃", "h:\tNULL\tno key", "NULL\tno value\tNULL"]
    run(
        KafkaTool.CONSOLE_PRODUCER,
        *("--topic", topic_name, "--command-property", f"acks={acks}", "--compression-codec=zstd"),
        *reader,
        stdin="\n".join(lines).encode(),
    ).check()
    formatter = [
        f"--formatter-property={setting}=true"
        for setting in ("print.key", "print.headers", "print.offset", "print.partition")
    ]
    from_start = ("--partition", "0", "--offset", "earliest", "--max-messages", "3")
    # It counts the messages in a static field: a JVM of its own for each run.
    printed = java.run(
        KafkaTool.CONSOLE_CONSUMER,
        *("--bootstrap-server", broker.bootstrap, "--topic", topic_name),
        *from_start,
        *formatter,
    ).check()
    assert printed.stdout.splitlines() == [
        "Partition:0\tOffset:0\th1:v1,h2:v2\tkey\tvälue ☃",
        "Partition:0\tOffset:1\th:\tnull\tno key",
        "Partition:0\tOffset:2\tNO_HEADERS\tno value\tnull",
    ]


def test_a_group_is_refused_with_a_clear_error(
    run: Run, java: Java, broker: BrokerProcess, topic_name: str
) -> None:
    run(KafkaTool.TOPICS, "--create", "--topic", topic_name)
    topic = ("--bootstrap-server", broker.bootstrap, "--topic", topic_name)
    consumer = java.run(KafkaTool.CONSOLE_CONSUMER, *topic, "--from-beginning")
    assert "The node does not support FIND_COORDINATOR" in consumer.stderr
    measured = java.run(KafkaTool.CONSUMER_PERFORMANCE, *topic, "--num-records", "1")
    assert "The node does not support FIND_COORDINATOR" in measured.stderr


def test_load_is_produced_and_its_offsets_are_found(run: Run, topic_name: str) -> None:
    run(KafkaTool.TOPICS, "--create", "--topic", topic_name, "--partitions", "2")
    load = ("--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    done = run(KafkaTool.PRODUCER_PERFORMANCE, "--topic", topic_name, *load).check()
    assert done.stdout.startswith("2000 records sent")

    def offsets(time: str) -> list[int]:
        found = run(KafkaTool.GET_OFFSETS, "--topic", topic_name, "--time", time).check().stdout
        return [int(line.rpartition(":")[2]) for line in found.splitlines()]

    assert offsets("earliest") == [0, 0]
    assert sum(offsets("latest")) == 2000
    assert all(offset < 2000 for offset in offsets("max-timestamp"))
    assert offsets("1") == [0 for offset in offsets("latest") if offset > 0]
    assert offsets("4102444800000") == []  # the year 2100


def test_records_are_deleted_up_to_an_offset(run: Run, topic_name: str, tmp_path: Path) -> None:
    lines = "".join(f"{i}\n" for i in range(10)).encode()
    run(KafkaTool.CONSOLE_PRODUCER, "--topic", topic_name, stdin=lines).check()
    request = tmp_path / "offsets.json"

    def delete(offset: int) -> str:
        up_to = {"topic": topic_name, "partition": 0, "offset": offset}
        request.write_text(json.dumps({"partitions": [up_to], "version": 1}))
        return run(KafkaTool.DELETE_RECORDS, "--offset-json-file", str(request)).check().stdout

    assert f"partition: {topic_name}-0\tlow_watermark: 4" in delete(4)
    earliest = run(KafkaTool.GET_OFFSETS, "--topic", topic_name, "--time", "earliest").check()
    assert earliest.stdout.strip() == f"{topic_name}:0:4"
    assert "OffsetOutOfRangeException" in delete(11)
    assert f"partition: {topic_name}-0\tlow_watermark: 10" in delete(-1)


def test_topic_settings_are_altered_described_and_deleted(run: Run, topic_name: str) -> None:
    run(KafkaTool.TOPICS, "--create", "--topic", topic_name)
    topic = ("--entity-type", "topics", "--entity-name", topic_name)
    change = "retention.ms=12345,cleanup.policy=[compact,delete]"
    run(KafkaTool.CONFIGS, *topic, "--alter", "--add-config", change).check()
    run(KafkaTool.CONFIGS, *topic, "--alter", "--add-config", "segment.bytes=100000").check()
    run(KafkaTool.CONFIGS, *topic, "--alter", "--delete-config", "retention.ms").check()
    described = run(KafkaTool.CONFIGS, *topic, "--describe").check().stdout
    assert "cleanup.policy=compact,delete" in described
    assert "segment.bytes=100000" in described
    assert "retention.ms" not in described
    wrong = run(KafkaTool.CONFIGS, *topic, "--alter", "--add-config", "nonsense=1")
    assert wrong.exit_code == 1
    assert "nonsense" in wrong.stderr


def test_broker_settings_are_described_and_altered(
    java_driver: JavaDriver, fresh_broker: BrokerProcess
) -> None:
    def configs(*arguments: str) -> str:
        server = ("--bootstrap-server", fresh_broker.bootstrap, "--entity-type", "brokers")
        return java_driver.run(KafkaTool.CONFIGS, *server, *arguments).check().stdout

    everything = configs("--entity-name", "0", "--describe", "--all")
    assert re.search(r"message\.max\.bytes=1048588 sensitive=false synonyms=\{DEFAULT", everything)
    configs("--entity-default", "--alter", "--add-config", "message.max.bytes=2000000")
    assert "message.max.bytes=2000000" in configs("--entity-default", "--describe")
    everything = configs("--entity-name", "0", "--describe", "--all")
    assert "synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=2000000" in everything


def test_log_folders_are_described(run: Run, broker: BrokerProcess, topic_name: str) -> None:
    run(KafkaTool.CONSOLE_PRODUCER, "--topic", topic_name, stdin=b"x\n").check()
    printed = run(KafkaTool.LOG_DIRS, "--describe", "--topic-list", topic_name).check().stdout
    (folder,) = json.loads(printed.splitlines()[-1])["brokers"][0]["logDirs"]
    assert folder["logDir"] == str(broker.data_dir)
    (partition,) = folder["partitions"]
    (segment,) = (broker.data_dir / f"{topic_name}-0").glob("*.meta")
    assert partition["partition"] == f"{topic_name}-0"
    assert partition["size"] == segment.stat().st_size > 0


def test_the_api_versions_that_are_printed_are_those_in_the_registry(run: Run) -> None:
    printed = run(KafkaTool.BROKER_API_VERSIONS).check().stdout
    found = {
        int(key): (int(first), int(last or first))
        for key, first, last in re.findall(r"\((\d+)\): (\d+)(?: to (\d+))? \[usable", printed)
    }
    assert found == {
        entry.key: (entry.advertised[0], entry.advertised[-1]) for entry in APIS.values()
    }
