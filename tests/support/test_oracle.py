"""The oracle itself: Apache Kafka, its command lines and the Java client, as the tests run them.

When a client test against kbroker fails, these tell whether the tool or the broker is at fault.
"""

import json
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.java import Java, KafkaTool
from tests.support.java_round_trip import expected_java_records, run_java_round_trip

pytestmark = pytest.mark.slow


@pytest.fixture
def topic_of_three(java: Java, apache_kafka: ApacheKafka, topic_name: str) -> str:
    """A topic with the records one, two and dreißig at offsets 0 to 2 of its only partition."""
    create = ("--create", "--topic", topic_name, "--partitions", "1")
    java.run(KafkaTool.TOPICS, "--bootstrap-server", apache_kafka.bootstrap, *create).check()
    produce = ("--bootstrap-server", apache_kafka.bootstrap, "--topic", topic_name)
    java.run(KafkaTool.CONSOLE_PRODUCER, *produce, stdin="one\ntwo\ndreißig\n".encode()).check()
    return topic_name


def test_the_console_tools_create_describe_produce_and_consume(
    java: Java, apache_kafka: ApacheKafka, topic_of_three: str
) -> None:
    server = ("--bootstrap-server", apache_kafka.bootstrap)
    topic = ("--topic", topic_of_three)
    described = java.run(KafkaTool.TOPICS, *server, "--describe", *topic).check()
    assert f"Topic: {topic_of_three}" in described.stdout
    assert "PartitionCount: 1" in described.stdout

    from_start = ("--partition", "0", "--offset", "earliest", "--max-messages", "3")
    consumed = java.run(KafkaTool.CONSOLE_CONSUMER, *server, *topic, *from_start).check()
    assert consumed.stdout.splitlines() == ["one", "two", "dreißig"]


def test_offsets_follow_the_records_that_were_produced_and_deleted(
    java: Java, apache_kafka: ApacheKafka, topic_of_three: str, tmp_path: Path
) -> None:
    server = ("--bootstrap-server", apache_kafka.bootstrap)
    topic = ("--topic", topic_of_three)
    latest = java.run(KafkaTool.GET_OFFSETS, *server, *topic, "--time", "latest").check()
    assert latest.stdout.strip() == f"{topic_of_three}:0:3"

    up_to = {"topic": topic_of_three, "partition": 0, "offset": 2}
    request = tmp_path / "offsets.json"
    request.write_text(json.dumps({"partitions": [up_to], "version": 1}))
    java.run(KafkaTool.DELETE_RECORDS, *server, "--offset-json-file", str(request)).check()
    earliest = java.run(KafkaTool.GET_OFFSETS, *server, *topic, "--time", "earliest").check()
    assert earliest.stdout.strip() == f"{topic_of_three}:0:2"


def test_a_topic_config_that_was_altered_is_described(
    java: Java, apache_kafka: ApacheKafka, topic_of_three: str
) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic_of_three)
    server = ("--bootstrap-server", apache_kafka.bootstrap)
    change = ("--alter", "--add-config", "retention.ms=12345")
    java.run(KafkaTool.CONFIGS, *server, *entity, *change).check()
    described = java.run(KafkaTool.CONFIGS, *server, *entity, "--describe").check()
    assert "retention.ms=12345" in described.stdout


def test_a_segment_on_disk_is_dumped_with_its_records(
    java: Java, apache_kafka: ApacheKafka, topic_of_three: str
) -> None:
    segment = apache_kafka.data_dir / f"{topic_of_three}-0" / "00000000000000000000.log"
    arguments = ("--files", str(segment), "--print-data-log")
    dumped = java.run(KafkaTool.DUMP_LOG_SEGMENTS, *arguments).check().stdout
    assert "payload: one" in dumped
    assert "payload: dreißig" in dumped
    assert "isvalid: true" in dumped


def test_log_dirs_and_api_versions_are_answered(
    java: Java, apache_kafka: ApacheKafka, topic_of_three: str
) -> None:
    server = ("--bootstrap-server", apache_kafka.bootstrap)
    topics = ("--describe", "--topic-list", topic_of_three)
    described = java.run(KafkaTool.LOG_DIRS, *server, *topics).check()
    assert f'"partition":"{topic_of_three}-0"' in described.stdout.replace(": ", ":")

    versions = java.run(KafkaTool.BROKER_API_VERSIONS, *server).check()
    assert "Produce(0): 0 to" in versions.stdout
    assert "ApiVersions(18): 0 to" in versions.stdout


def test_the_performance_tools_produce_and_consume(
    java: Java, apache_kafka: ApacheKafka, topic_name: str
) -> None:
    load = ("--num-records", "500", "--record-size", "100", "--throughput", "-1")
    server = ("--bootstrap-server", apache_kafka.bootstrap)
    produced = java.run(
        KafkaTool.PRODUCER_PERFORMANCE, *server, "--topic", topic_name, *load
    ).check()
    assert produced.stdout.startswith("500 records sent")

    consumed = java.run(
        KafkaTool.CONSUMER_PERFORMANCE, *server, "--topic", topic_name, "--num-records", "500"
    ).check()
    assert ", 500, " in consumed.stdout.splitlines()[1]


def test_the_java_client_reads_back_what_it_wrote(
    java: Java, apache_kafka: ApacheKafka, topic_name: str
) -> None:
    count = 30
    settings = {"compression.type": "zstd", "acks": "all", "linger.ms": "20"}
    trip = run_java_round_trip(
        java, apache_kafka.bootstrap, topic_name, count, value_bytes=200, producer=settings
    )
    assert trip.records == expected_java_records(count, value_bytes=200)
    assert trip.offsets == list(range(count))
    assert trip.acknowledged_offsets == trip.offsets


def test_the_java_client_writes_without_acknowledgements(
    java: Java, apache_kafka: ApacheKafka, topic_name: str
) -> None:
    trip = run_java_round_trip(java, apache_kafka.bootstrap, topic_name, 10, producer={"acks": "0"})
    assert trip.records == expected_java_records(10)
    assert trip.acknowledged_offsets == [-1] * 10


def test_a_kafka_that_cannot_start_says_why(java: Java, tmp_path: Path) -> None:
    kafka = ApacheKafka(java, tmp_path, jvm_options=("-XX:+NoSuchFlag",))
    with pytest.raises(RuntimeError, match="Unrecognized VM option 'NoSuchFlag'"):
        kafka.start()
