"""kafka-python as its users write it: producer, consumer and admin client.

Consumers work here without a group: `KafkaConsumer(topic)` has none by default (group_id=None),
reads all partitions of the topic and commits nothing, and so does assign(). A group_id needs the
group APIs, which the broker does not list yet; the client says IncompatibleBrokerVersion then.
"""

import gc
import logging
import os
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.clients.messages import CODECS, COMMON_SAMPLES, FIRST_TIMESTAMP_MS, Message, texts
from tests.clients.restarts import check_survives_restart
from tests.support.broker_process import BrokerProcess

TIMEOUT_S = 20
MEGABYTE = 1 << 20


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def produce(
    broker: BrokerProcess, topic: str, messages: list[Message], **settings: object
) -> list[Any]:
    with KafkaProducer(bootstrap_servers=broker.bootstrap, **settings) as producer:
        sent = [
            producer.send(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        return [future.get(TIMEOUT_S) for future in sent]


def read(broker: BrokerProcess, topic: str, count: int, **settings: object) -> list[Any]:
    """The first `count` records of the topic, the way the README of kafka-python does it."""
    with KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
        **settings,
    ) as consumer:
        return list(islice(consumer, count))


def values(records: list[Any]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.slow
def test_the_line_that_the_broker_prints_produces_and_consumes(broker: BrokerProcess) -> None:
    (line,) = (line for line in broker.stdout_text().splitlines() if "KafkaProducer" in line)
    _, _, without_installation = line.partition("&& ")
    done = subprocess.run(
        without_installation,
        shell=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert "b'hello'" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    broker: BrokerProcess, topic_name: str, codec: str
) -> None:
    compression = None if codec == "none" else codec
    sent = produce(broker, topic_name, COMMON_SAMPLES, compression_type=compression)
    records = read(broker, topic_name, len(COMMON_SAMPLES))
    assert [
        Message(record.key, record.value, tuple(record.headers), record.timestamp)
        for record in records
    ] == COMMON_SAMPLES
    assert [record.offset for record in records] == [answer.offset for answer in sent]
    assert [record.offset for record in records] == list(range(len(COMMON_SAMPLES)))


@pytest.mark.parametrize(
    ("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)]
)
def test_every_level_of_acknowledgement_stores_the_records(
    broker: BrokerProcess, topic_name: str, acks: int | str, idempotent: bool
) -> None:
    messages = texts(20)
    sent = produce(broker, topic_name, messages, acks=acks, enable_idempotence=idempotent)
    if acks != 0:  # without an answer kafka-python makes the offsets up
        assert [answer.offset for answer in sent] == list(range(20))
    assert values(read(broker, topic_name, 20)) == [message.value for message in messages]


def test_a_topic_is_made_when_a_producer_names_it(
    broker: BrokerProcess, topic_name: str, admin: Any
) -> None:
    assert topic_name not in admin.list_topics()
    produce(broker, topic_name, texts(1))
    assert topic_name in admin.list_topics()
    (described,) = admin.describe_topics([topic_name])
    assert [partition["partition_index"] for partition in described["partitions"]] == [0]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_message_of_a_megabyte_comes_back(
    broker: BrokerProcess, topic_name: str, admin: Any, codec: str
) -> None:
    admin.create_topics({topic_name: {"configs": {"max.message.bytes": str(2 * MEGABYTE)}}})
    large = Message(b"key", os.urandom(MEGABYTE))
    produce(
        broker,
        topic_name,
        [large],
        max_request_size=2 * MEGABYTE,
        compression_type=None if codec == "none" else codec,
    )
    (record,) = read(broker, topic_name, 1)
    assert record.value == large.value


def test_a_message_that_is_too_large_is_refused_and_the_next_one_is_stored(
    broker: BrokerProcess, topic_name: str
) -> None:
    # After any refusal an idempotent kafka-python producer refuses all further work, on Kafka too.
    with KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        max_request_size=4 * MEGABYTE,
        enable_idempotence=False,
    ) as producer:
        producer.send(topic_name, b"before").get(TIMEOUT_S)
        too_large = producer.send(topic_name, os.urandom(2 * MEGABYTE))
        with pytest.raises(MessageSizeTooLargeError):
            too_large.get(TIMEOUT_S)
        assert producer.send(topic_name, b"after").get(TIMEOUT_S).offset == 1
    assert values(read(broker, topic_name, 2)) == [b"before", b"after"]


def test_offsets_are_found_by_time_and_a_consumer_seeks_to_them(
    broker: BrokerProcess, topic_name: str
) -> None:
    produce(broker, topic_name, texts(10), compression_type="gzip")
    partition = TopicPartition(topic_name, 0)
    with KafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 10}
        times = consumer.offsets_for_times({partition: FIRST_TIMESTAMP_MS + 4})
        assert (times[partition].offset, times[partition].timestamp) == (4, FIRST_TIMESTAMP_MS + 4)
        assert consumer.offsets_for_times({partition: FIRST_TIMESTAMP_MS + 10})[partition] is None
        consumer.seek(partition, 4)
        assert next(consumer).value == b"value-4"
        consumer.seek_to_beginning(partition)
        assert next(consumer).value == b"value-0"
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 10


def test_a_long_poll_ends_when_a_record_arrives(broker: BrokerProcess, topic_name: str) -> None:
    partition = TopicPartition(topic_name, 0)
    produce(broker, topic_name, texts(1))
    with KafkaConsumer(bootstrap_servers=broker.bootstrap, fetch_max_wait_ms=15_000) as consumer:
        consumer.assign([partition])
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 1
        consumer.poll(50)  # sends the fetch that waits
        produce(broker, topic_name, [Message(None, b"news")])
        (records,) = consumer.poll(5000).values()
        assert values(records) == [b"news"]


def test_partitions_come_and_go_in_an_assignment(
    broker: BrokerProcess, topic_name: str, admin: Any
) -> None:
    """Each change is news for the fetch session (KIP-227), which then must serve just these."""
    admin.create_topics({topic_name: {"num_partitions": 3}})
    partitions = [TopicPartition(topic_name, index) for index in range(3)]
    expected: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    found: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    with (
        KafkaProducer(bootstrap_servers=broker.bootstrap) as producer,
        KafkaConsumer(bootstrap_servers=broker.bootstrap, fetch_max_wait_ms=50) as consumer,
    ):
        for step, assigned in enumerate([[0, 1, 2], [1], [0, 1], [2], [2, 0], [0, 1, 2]]):
            for index in range(3):
                value = b"%d of %d" % (step, index)
                producer.send(topic_name, value, partition=index).get(TIMEOUT_S)
                expected[index].append(value)
            consumer.assign([partitions[index] for index in assigned])
            for index in assigned:
                consumer.seek(partitions[index], len(found[index]))
            wanted = sum(len(expected[index]) - len(found[index]) for index in assigned)
            for record in islice(consumer, wanted):
                found[record.partition].append(record.value)
            assert {i: found[i] for i in assigned} == {i: expected[i] for i in assigned}
    assert found == expected


def test_no_topic_is_made_where_that_is_switched_off(tmp_path: Path, topic_name: str) -> None:
    settings = {"auto.create.topics.enable": "false"}
    broker = BrokerProcess(tmp_path / "broker", settings=settings).start()
    try:
        with KafkaProducer(bootstrap_servers=broker.bootstrap, max_block_ms=300) as producer:
            with pytest.raises(KafkaTimeoutError):
                producer.send(topic_name, b"value").get(TIMEOUT_S)
            admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
            assert admin.list_topics() == []
            admin.create_topics([topic_name])
            admin.close()
            assert producer.send(topic_name, b"value").get(TIMEOUT_S).offset == 0
    finally:
        broker.close()


def test_a_group_is_refused_with_a_clear_error(broker: BrokerProcess, topic_name: str) -> None:
    with KafkaConsumer(
        topic_name, bootstrap_servers=broker.bootstrap, group_id="some-group"
    ) as consumer:
        with pytest.raises(IncompatibleBrokerVersion, match="FindCoordinator"):
            consumer.poll(1000)
        consumer.unsubscribe()


def test_the_admin_client_creates_describes_grows_and_deletes_topics(
    topic_name: str, admin: Any
) -> None:
    created = admin.create_topics(
        {topic_name: {"num_partitions": 3, "configs": {"retention.ms": "12345"}}}
    )["topics"][0]
    assert (created["num_partitions"], created["replication_factor"]) == (3, 1)
    assert created["configs"]["retention.ms"]["value"] == "12345"
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic_name])
    admin.create_partitions({topic_name: 5})
    (described,) = admin.describe_topics([topic_name])
    assert described["topic_id"] == created["topic_id"]
    assert [partition["partition_index"] for partition in described["partitions"]] == [*range(5)]
    paged = admin.describe_topic_partitions([topic_name])["topics"][0]
    assert len(paged["partitions"]) == 5

    admin.delete_topics([topic_name])
    assert topic_name not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic_name])


@pytest.mark.parametrize("incremental", [True, False])
def test_the_admin_client_alters_and_resets_settings(
    topic_name: str, admin: Any, incremental: bool
) -> None:
    admin.create_topics([topic_name])

    def alter(name: str, value: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic_name, {name: value})
        answer = admin.alter_configs([resource], incremental=incremental)
        outcome: str = answer["topic"][topic_name]
        return outcome

    def altered() -> dict[str, str]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic_name)
        found = admin.describe_configs([resource])["topic"][topic_name]
        return {name: setting["value"] for name, setting in found.items()}

    assert altered() == {}
    assert alter("retention.ms", "12345") == "OK"
    assert alter("cleanup.policy", "compact,delete") == "OK"
    assert "InvalidConfig" in alter("segment.bytes", "many")
    assert altered() == {"retention.ms": "12345", "cleanup.policy": "compact,delete"}
    reset = ConfigResource(ConfigResourceType.TOPIC, topic_name, {"retention.ms": None})
    admin.reset_configs([reset], incremental=incremental)
    assert altered() == {"cleanup.policy": "compact,delete"}


def test_the_admin_client_describes_the_cluster(broker: BrokerProcess, admin: Any) -> None:
    cluster = admin.describe_cluster()
    (node,) = cluster["brokers"]
    assert f"{node['host']}:{node['port']}" == broker.bootstrap
    assert cluster["controller_id"] == node["broker_id"]
    (described,) = admin.describe_log_dirs()
    assert described["log_dirs"][0]["log_dir"] == str(broker.data_dir)


def test_the_admin_client_deletes_records_and_lists_offsets(
    broker: BrokerProcess, topic_name: str, admin: Any
) -> None:
    produce(broker, topic_name, texts(10))
    partition = TopicPartition(topic_name, 0)
    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4

    def offset(spec: OffsetSpec | int) -> int:
        found: int = admin.list_partition_offsets({partition: spec})[partition].offset
        return found

    assert offset(OffsetSpec.EARLIEST) == 4
    assert offset(OffsetSpec.LATEST) == 10
    assert offset(OffsetSpec.MAX_TIMESTAMP) == 9
    assert offset(FIRST_TIMESTAMP_MS + 7) == 7
    assert [record.offset for record in read(broker, topic_name, 6)] == [4, 5, 6, 7, 8, 9]


def test_a_topic_made_again_has_a_new_id_and_the_clients_go_on(
    broker: BrokerProcess, topic_name: str, admin: Any
) -> None:
    partition = TopicPartition(topic_name, 0)
    first = admin.create_topics([topic_name])["topics"][0]["topic_id"]
    with (
        KafkaProducer(bootstrap_servers=broker.bootstrap) as producer,
        KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([partition])
        for value in (b"old-0", b"old-1", b"old-2"):
            producer.send(topic_name, value).get(TIMEOUT_S)
        assert values(list(islice(consumer, 3))) == [b"old-0", b"old-1", b"old-2"]
        admin.delete_topics([topic_name])
        assert admin.create_topics([topic_name])["topics"][0]["topic_id"] != first
        assert producer.send(topic_name, b"new-0").get(TIMEOUT_S).offset == 0
        # This client fetches by name, so it stands at offset 3 and is told that the log diverges
        # there. Kafka has it go on at the new end: it may miss new-0, and must not stick.
        consumer.poll(200)
        producer.send(topic_name, b"new-1")
        assert next(consumer).value in (b"new-0", b"new-1")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_restart_of_the_broker_loses_nothing(
    fresh_broker: BrokerProcess, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    # kafka-python drops the sockets of refused connections without closing them. Collect them here,
    # where the warning is ignored; a captured log record would keep them.
    caplog.set_level(logging.CRITICAL, logger="kafka")
    produce_and_read_across_a_restart(fresh_broker, topic_name)
    gc.collect()


def produce_and_read_across_a_restart(fresh_broker: BrokerProcess, topic_name: str) -> None:
    answers = []
    with (
        KafkaProducer(bootstrap_servers=fresh_broker.bootstrap) as producer,
        KafkaConsumer(
            topic_name, bootstrap_servers=fresh_broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer,
    ):

        def send(number: int) -> None:
            answers.append(producer.send(topic_name, b"%d" % number))

        def poll() -> list[int]:
            found = consumer.poll(10).values()
            return [int(record.value) for records in found for record in records]

        check_survives_restart(fresh_broker, send, poll)
        assert [answer.get(TIMEOUT_S).offset for answer in answers] == [*range(len(answers))]
