"""confluent-kafka (librdkafka) as its users write it: producer, consumer and admin client.

It demands a group.id of every consumer, though it joins no group when partitions are assigned.
Until the broker lists the group APIs, assign() needs an offset (OFFSET_BEGINNING and the like, for
the default asks the group where to start) and `enable.auto.commit` must be off (close() would wait
for somebody to commit to). subscribe() waits without an error and without end.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.clients.messages import CODECS, FIRST_TIMESTAMP_MS, SAMPLES, Message, texts
from tests.clients.restarts import check_survives_restart
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

TIMEOUT_S = 20
MEGABYTE = 1 << 20
MAX_WAIT_MS = 50  # a fetch that waits for more than there is only costs the tests time

T = TypeVar("T")


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def only(futures: dict[Any, Future[T]]) -> T:
    """The result of a call on one topic or partition."""
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def produce(
    broker: BrokerProcess, topic: str, messages: list[Message], **settings: object
) -> list[int | None]:
    """The offsets that were acknowledged (None each with acks=0)."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    offsets: list[int | None] = []

    def delivered(error: KafkaError | None, answer: KafkaMessage) -> None:
        if error is not None:
            raise KafkaException(error)
        offsets.append(answer.offset())

    for message in messages:
        producer.produce(
            topic,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            timestamp=message.timestamp_ms,
            on_delivery=delivered,
        )
    assert producer.flush(TIMEOUT_S) == 0
    return offsets


@contextmanager
def consumer_of(broker: BrokerProcess, *partitions: TopicPartition) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none is joined",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": MAX_WAIT_MS,
        }
    )
    try:
        consumer.assign(list(partitions))
        yield consumer
    finally:
        consumer.close()


def event_of(consumer: Consumer) -> KafkaMessage:
    """The next record or error that the consumer reports."""

    def event() -> list[KafkaMessage]:
        record = consumer.poll(0.2)
        return [] if record is None else [record]  # a record without a value counts as false

    return wait_until(event, timeout_s=TIMEOUT_S, what="a record")[0]


def next_of(consumer: Consumer) -> KafkaMessage:
    record = event_of(consumer)
    error = record.error()
    if error is not None:
        raise KafkaException(error)
    return record


def read(broker: BrokerProcess, topic: str, count: int) -> list[KafkaMessage]:
    with consumer_of(broker, TopicPartition(topic, 0, OFFSET_BEGINNING)) as consumer:
        return [next_of(consumer) for _ in range(count)]


def values(records: list[KafkaMessage]) -> list[Any]:
    return [record.value() for record in records]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    broker: BrokerProcess, topic_name: str, codec: str
) -> None:
    offsets = produce(broker, topic_name, SAMPLES, compression_type=codec)
    records = read(broker, topic_name, len(SAMPLES))
    assert [
        Message(r.key(), r.value(), tuple(r.headers() or ()), r.timestamp()[1])  # type: ignore[arg-type]  # its stubs allow text, which only a deserializer makes
        for r in records
    ] == SAMPLES
    assert [record.offset() for record in records] == offsets == list(range(len(SAMPLES)))


@pytest.mark.parametrize(
    ("acks", "idempotent"), [("0", False), ("1", False), ("all", False), ("all", True)]
)
def test_every_level_of_acknowledgement_stores_the_records(
    broker: BrokerProcess, topic_name: str, acks: str, idempotent: bool
) -> None:
    messages = texts(20)
    offsets = produce(broker, topic_name, messages, acks=acks, enable_idempotence=idempotent)
    assert offsets == ([None] * 20 if acks == "0" else list(range(20)))
    assert values(read(broker, topic_name, 20)) == [message.value for message in messages]


def test_a_topic_is_made_when_a_producer_names_it(
    broker: BrokerProcess, topic_name: str, admin: AdminClient
) -> None:
    assert topic_name not in admin.list_topics(timeout=TIMEOUT_S).topics
    produce(broker, topic_name, texts(1))
    topic = admin.list_topics(timeout=TIMEOUT_S).topics[topic_name]
    assert list(topic.partitions) == [0]


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_a_message_of_a_megabyte_comes_back(
    broker: BrokerProcess, topic_name: str, admin: AdminClient, codec: str
) -> None:
    settings = {"max.message.bytes": str(2 * MEGABYTE)}
    only(admin.create_topics([NewTopic(topic_name, 1, 1, config=settings)]))
    large = Message(b"key", os.urandom(MEGABYTE))
    produce(broker, topic_name, [large], message_max_bytes=2 * MEGABYTE, compression_type=codec)
    assert values(read(broker, topic_name, 1)) == [large.value]


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_message_that_is_too_large_is_refused_and_the_next_one_is_stored(
    broker: BrokerProcess, topic_name: str, idempotent: bool
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "message.max.bytes": 4 * MEGABYTE,
            "enable.idempotence": idempotent,
        }
    )
    outcomes: list[int] = []

    def delivered(error: KafkaError | None, answer: KafkaMessage) -> None:
        outcomes.append(0 if error is None else error.code())

    for value in (b"before", os.urandom(2 * MEGABYTE), b"after"):
        producer.produce(topic_name, value, on_delivery=delivered)
        assert producer.flush(TIMEOUT_S) == 0
    assert outcomes == [0, KafkaError.MSG_SIZE_TOO_LARGE, 0]
    assert values(read(broker, topic_name, 2)) == [b"before", b"after"]


def test_offsets_are_found_by_time_and_a_consumer_seeks_to_them(
    broker: BrokerProcess, topic_name: str
) -> None:
    produce(broker, topic_name, texts(10), compression_type="zstd")
    with consumer_of(broker, TopicPartition(topic_name, 0, OFFSET_END)) as consumer:
        partition = TopicPartition(topic_name, 0)
        assert consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S) == (0, 10)

        def offset_at(time_ms: int) -> int:
            asked = TopicPartition(topic_name, 0, time_ms)
            return consumer.offsets_for_times([asked], timeout=TIMEOUT_S)[0].offset

        assert offset_at(FIRST_TIMESTAMP_MS + 4) == 4
        assert offset_at(FIRST_TIMESTAMP_MS + 10) == OFFSET_END
        consumer.assign([TopicPartition(topic_name, 0, 4)])
        assert next_of(consumer).value() == b"value-4"
        consumer.seek(TopicPartition(topic_name, 0, 0))
        assert next_of(consumer).value() == b"value-0"


def test_a_topic_with_the_brokers_time_gives_every_record_that_time(
    broker: BrokerProcess, topic_name: str, admin: AdminClient
) -> None:
    settings = {"message.timestamp.type": "LogAppendTime"}
    only(admin.create_topics([NewTopic(topic_name, 1, 1, config=settings)]))
    before_ms = int(time.time() * 1000)
    produce(broker, topic_name, texts(10), compression_type="gzip")
    records = read(broker, topic_name, 10)
    assert {record.timestamp()[0] for record in records} == {TIMESTAMP_LOG_APPEND_TIME}
    times = {record.timestamp()[1] for record in records}
    assert before_ms <= min(times) <= max(times) <= int(time.time() * 1000)
    with consumer_of(broker, TopicPartition(topic_name, 0, OFFSET_END)) as consumer:
        asked = TopicPartition(topic_name, 0, min(times))
        assert consumer.offsets_for_times([asked], timeout=TIMEOUT_S)[0].offset == 0


def test_many_large_messages_come_back_in_order(broker: BrokerProcess, topic_name: str) -> None:
    """More than any socket buffer or fetch limit takes at once."""
    noise = os.urandom(900_000)
    messages = [Message(b"%d" % i, b"%d " % i + noise) for i in range(40)]
    produce(broker, topic_name, messages, message_max_bytes=MEGABYTE)
    records = read(broker, topic_name, len(messages))
    assert values(records) == [message.value for message in messages]


def test_an_end_of_partition_is_reported(broker: BrokerProcess, topic_name: str) -> None:
    produce(broker, topic_name, texts(1))
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "none is joined",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": MAX_WAIT_MS,
        }
    )
    try:
        consumer.assign([TopicPartition(topic_name, 0, OFFSET_BEGINNING)])
        assert next_of(consumer).value() == b"value-0"
        end = event_of(consumer).error()
        assert end is not None
        assert end.code() == KafkaError._PARTITION_EOF
    finally:
        consumer.close()


def test_the_admin_client_creates_describes_grows_and_deletes_topics(
    topic_name: str, admin: AdminClient
) -> None:
    only(admin.create_topics([NewTopic(topic_name, 3, 1, config={"retention.ms": "12345"})]))
    with pytest.raises(KafkaException) as refused:
        only(admin.create_topics([NewTopic(topic_name, 3, 1)]))
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    only(admin.create_partitions([NewPartitions(topic_name, 5)]))
    described = only(admin.describe_topics(TopicCollection([topic_name])))
    assert [partition.id for partition in described.partitions] == [*range(5)]
    assert not described.is_internal

    only(admin.delete_topics([topic_name]))
    assert topic_name not in admin.list_topics(timeout=TIMEOUT_S).topics
    with pytest.raises(KafkaException) as unknown:
        only(admin.delete_topics([topic_name]))
    assert unknown.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def altered(admin: AdminClient, topic: str) -> dict[str, str]:
    """The settings of a topic that are its own."""
    found = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return {name: entry.value for name, entry in found.items() if not entry.is_default}


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
def test_the_admin_client_replaces_settings(topic_name: str, admin: AdminClient) -> None:
    only(admin.create_topics([NewTopic(topic_name, 1, 1, config={"segment.bytes": "100000"})]))
    change = ConfigResource(ResourceType.TOPIC, topic_name, {"retention.ms": "12345"})
    only(admin.alter_configs([change]))
    assert altered(admin, topic_name) == {"retention.ms": "12345"}


def test_the_admin_client_sets_appends_subtracts_and_deletes_settings(
    topic_name: str, admin: AdminClient
) -> None:
    only(admin.create_topics([NewTopic(topic_name, 1, 1, config={"segment.bytes": "100000"})]))

    def alter(name: str, value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic_name, incremental_configs=[entry])
        only(admin.incremental_alter_configs([resource]))

    alter("retention.ms", "12345", AlterConfigOpType.SET)
    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    assert altered(admin, topic_name) == {
        "segment.bytes": "100000",
        "retention.ms": "12345",
        "cleanup.policy": "delete,compact",
    }
    alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    alter("segment.bytes", None, AlterConfigOpType.DELETE)
    assert altered(admin, topic_name) == {"retention.ms": "12345", "cleanup.policy": "compact"}
    with pytest.raises(KafkaException) as refused:
        alter("retention.ms", "a while", AlterConfigOpType.SET)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_the_admin_client_describes_the_cluster_and_its_broker(
    broker: BrokerProcess, admin: AdminClient
) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    (node,) = cluster.nodes
    assert f"{node.host}:{node.port}" == broker.bootstrap
    assert cluster.controller.id == node.id
    settings = only(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node.id))]))
    assert settings["node.id"].value == str(node.id)
    assert settings["auto.create.topics.enable"].value == "true"


def test_the_admin_client_deletes_records_and_lists_offsets(
    broker: BrokerProcess, topic_name: str, admin: AdminClient
) -> None:
    produce(broker, topic_name, texts(10))
    partition = TopicPartition(topic_name, 0)
    assert only(admin.delete_records([TopicPartition(topic_name, 0, 4)])).low_watermark == 4

    def offset(spec: OffsetSpec) -> int:
        found: int = only(
            admin.list_offsets({partition: spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        ).offset
        return found

    assert offset(OffsetSpec.earliest()) == 4  # type: ignore[no-untyped-call]  # untyped there
    assert offset(OffsetSpec.latest()) == 10  # type: ignore[no-untyped-call]  # untyped there
    assert offset(OffsetSpec.max_timestamp()) == 9  # type: ignore[no-untyped-call]  # untyped there
    assert offset(OffsetSpec.for_timestamp(FIRST_TIMESTAMP_MS + 7)) == 7
    assert [record.offset() for record in read(broker, topic_name, 6)] == [4, 5, 6, 7, 8, 9]


def test_a_topic_made_again_has_a_new_id_and_the_clients_go_on(
    broker: BrokerProcess, topic_name: str, admin: AdminClient
) -> None:
    def topic_id() -> str:
        return str(only(admin.describe_topics(TopicCollection([topic_name]))).topic_id)

    only(admin.create_topics([NewTopic(topic_name, 1, 1)]))
    first = topic_id()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    with consumer_of(broker, TopicPartition(topic_name, 0, OFFSET_BEGINNING)) as consumer:
        for value in (b"old-0", b"old-1", b"old-2"):
            producer.produce(topic_name, value)
            assert producer.flush(TIMEOUT_S) == 0
            assert next_of(consumer).value() == value
        only(admin.delete_topics([topic_name]))
        only(admin.create_topics([NewTopic(topic_name, 1, 1)]))
        assert topic_id() != first
        producer.produce(topic_name, b"new")
        assert producer.flush(TIMEOUT_S) == 0
        # The consumer stands at offset 3, which the new topic does not have: it starts over.
        assert next_of(consumer).value() == b"new"


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_restart_of_the_broker_loses_nothing(
    fresh_broker: BrokerProcess, topic_name: str, idempotent: bool
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": fresh_broker.bootstrap,
            "enable.idempotence": idempotent,
            # Without idempotence a retry may overtake another batch; order is part of the promise.
            "max.in.flight.requests.per.connection": 5 if idempotent else 1,
        }
    )
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: KafkaMessage) -> None:
        if error is not None:
            errors.append(error)

    with consumer_of(fresh_broker, TopicPartition(topic_name, 0, OFFSET_BEGINNING)) as consumer:

        def send(number: int) -> None:
            producer.produce(topic_name, b"%d" % number, on_delivery=delivered)
            producer.poll(0)

        def poll() -> list[int]:
            record = consumer.poll(0.01)
            if record is None or record.error() is not None:
                return []  # librdkafka reports the lost connection and goes on
            value = record.value()
            assert value is not None
            return [int(value)]

        check_survives_restart(fresh_broker, send, poll)
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == []
