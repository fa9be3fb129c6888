"""aiokafka as its users write it: producer, consumer and admin client.

Consumers work here without a group: `AIOKafkaConsumer(topic)` has none by default (group_id=None)
and reads all partitions of the topic; so does assign(). A group_id needs the group APIs, which the
broker does not list yet.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IncompatibleBrokerVersion, MessageSizeTooLargeError

from tests.clients.messages import CODECS, FIRST_TIMESTAMP_MS, SAMPLES, Message, texts
from tests.clients.restarts import READ_BEFORE_AND_AFTER, RESTART_TIMEOUT_S
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.slow

TIMEOUT_S = 20
MEGABYTE = 1 << 20
SENDABLE = SAMPLES[:-1]  # it refuses to send a record with neither key nor value


@pytest.fixture
async def admin(broker: BrokerProcess) -> AsyncIterator[Any]:
    client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await client.start()
    yield client
    await client.close()


async def produce(
    broker: BrokerProcess, topic: str, messages: list[Message], **settings: object
) -> list[Any]:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **settings) as producer:
        sent = [
            await producer.send(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                timestamp_ms=message.timestamp_ms,
            )
            for message in messages
        ]
        return await asyncio.wait_for(asyncio.gather(*sent), TIMEOUT_S)


async def read(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    """The first `count` records of the topic, the way the README of aiokafka does it."""
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
    ) as consumer:
        return [await asyncio.wait_for(consumer.getone(), TIMEOUT_S) for _ in range(count)]


def values(records: list[Any]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.parametrize("codec", CODECS)
async def test_records_come_back_as_they_were_sent(
    broker: BrokerProcess, topic_name: str, codec: str
) -> None:
    compression = None if codec == "none" else codec
    sent = await produce(broker, topic_name, SENDABLE, compression_type=compression)
    records = await read(broker, topic_name, len(SENDABLE))
    assert [
        Message(record.key, record.value, tuple(record.headers), record.timestamp)
        for record in records
    ] == SENDABLE
    assert [record.offset for record in records] == [answer.offset for answer in sent]
    assert [record.offset for record in records] == list(range(len(SENDABLE)))


@pytest.mark.parametrize(
    ("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)]
)
async def test_every_level_of_acknowledgement_stores_the_records(
    broker: BrokerProcess, topic_name: str, acks: int | str, idempotent: bool
) -> None:
    messages = texts(20)
    sent = await produce(broker, topic_name, messages, acks=acks, enable_idempotence=idempotent)
    if acks == 0:
        assert sent == [None] * 20
    else:
        assert [answer.offset for answer in sent] == list(range(20))
    assert values(await read(broker, topic_name, 20)) == [message.value for message in messages]


async def test_a_topic_is_made_when_a_producer_names_it(
    broker: BrokerProcess, topic_name: str, admin: Any
) -> None:
    assert topic_name not in await admin.list_topics()
    await produce(broker, topic_name, texts(1))
    assert topic_name in await admin.list_topics()


@pytest.mark.parametrize("codec", ["none", "lz4"])
async def test_a_message_of_a_megabyte_comes_back(
    broker: BrokerProcess, topic_name: str, admin: Any, codec: str
) -> None:
    settings = {"max.message.bytes": str(2 * MEGABYTE)}
    await admin.create_topics([NewTopic(topic_name, 1, 1, topic_configs=settings)])
    large = Message(b"key", os.urandom(MEGABYTE))
    await produce(
        broker,
        topic_name,
        [large],
        max_request_size=2 * MEGABYTE,
        compression_type=None if codec == "none" else codec,
    )
    (record,) = await read(broker, topic_name, 1)
    assert record.value == large.value


async def test_a_message_that_is_too_large_is_refused_and_the_next_one_is_stored(
    broker: BrokerProcess, topic_name: str
) -> None:
    # An idempotent aiokafka producer counts the refused batch, so that Kafka too refuses what
    # follows.
    async with AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap, max_request_size=4 * MEGABYTE
    ) as producer:
        await producer.send_and_wait(topic_name, b"before")
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic_name, os.urandom(2 * MEGABYTE))
        assert (await producer.send_and_wait(topic_name, b"after")).offset == 1
    assert values(await read(broker, topic_name, 2)) == [b"before", b"after"]


async def test_offsets_are_found_by_time_and_a_consumer_seeks_to_them(
    broker: BrokerProcess, topic_name: str
) -> None:
    await produce(broker, topic_name, texts(10), compression_type="snappy")
    partition = TopicPartition(topic_name, 0)
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([partition])
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: 10}
        times = await consumer.offsets_for_times({partition: FIRST_TIMESTAMP_MS + 4})
        assert (times[partition].offset, times[partition].timestamp) == (4, FIRST_TIMESTAMP_MS + 4)
        late = await consumer.offsets_for_times({partition: FIRST_TIMESTAMP_MS + 10})
        assert late[partition] is None
        consumer.seek(partition, 4)
        assert (await consumer.getone()).value == b"value-4"
        await consumer.seek_to_beginning(partition)
        assert (await consumer.getone()).value == b"value-0"
        await consumer.seek_to_end(partition)
        assert await consumer.position(partition) == 10


async def test_a_long_poll_ends_when_a_record_arrives(
    broker: BrokerProcess, topic_name: str
) -> None:
    await produce(broker, topic_name, texts(1))
    partition = TopicPartition(topic_name, 0)
    async with AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, fetch_max_wait_ms=15_000
    ) as consumer:
        consumer.assign([partition])
        await consumer.seek_to_end(partition)
        waiting = asyncio.create_task(consumer.getone())
        await produce(broker, topic_name, [Message(None, b"news")])
        assert (await asyncio.wait_for(waiting, 5)).value == b"news"


async def test_a_group_is_refused_with_an_error(broker: BrokerProcess, topic_name: str) -> None:
    consumer = AIOKafkaConsumer(
        topic_name, bootstrap_servers=broker.bootstrap, group_id="some-group"
    )
    with pytest.raises(IncompatibleBrokerVersion, match="FindCoordinator"):
        await consumer.start()
    await consumer.stop()


async def test_the_admin_client_creates_describes_grows_and_deletes_topics(
    topic_name: str, admin: Any
) -> None:
    settings = {"retention.ms": "12345"}
    created = await admin.create_topics([NewTopic(topic_name, 3, 1, topic_configs=settings)])
    assert created.topic_errors == [(topic_name, 0, None)]
    again = await admin.create_topics([NewTopic(topic_name, 3, 1)])
    assert again.topic_errors[0][1] == 36  # TOPIC_ALREADY_EXISTS
    grown = await admin.create_partitions({topic_name: NewPartitions(total_count=5)})
    assert grown.topic_errors[0][1] == 0
    (described,) = await admin.describe_topics([topic_name])
    assert [partition["partition"] for partition in described["partitions"]] == [*range(5)]

    deleted = await admin.delete_topics([topic_name])
    assert deleted.topic_error_codes == [(topic_name, 0)]
    assert topic_name not in await admin.list_topics()


async def test_the_admin_client_alters_settings(topic_name: str, admin: Any) -> None:
    await admin.create_topics([NewTopic(topic_name, 1, 1)])
    change = ConfigResource(ConfigResourceType.TOPIC, topic_name, {"retention.ms": "12345"})
    (answer,) = await admin.alter_configs([change])
    assert answer.resources[0][0] == 0
    asked = ConfigResource(ConfigResourceType.TOPIC, topic_name)
    (described,) = await admin.describe_configs([asked])
    found = {config[0]: config[1] for config in described.resources[0][4]}
    assert found["retention.ms"] == "12345"
    assert found["cleanup.policy"] == "delete"


async def test_the_admin_client_describes_the_cluster(broker: BrokerProcess, admin: Any) -> None:
    cluster = await admin.describe_cluster()
    (node,) = cluster["brokers"]
    assert f"{node['host']}:{node['port']}" == broker.bootstrap
    assert cluster["controller_id"] == node["node_id"]


async def test_the_admin_client_deletes_records(
    broker: BrokerProcess, topic_name: str, admin: Any
) -> None:
    await produce(broker, topic_name, texts(10))
    partition = TopicPartition(topic_name, 0)
    deleted = await admin.delete_records({partition: RecordsToDelete(before_offset=4)})
    assert deleted == {partition: 4}
    assert [record.offset for record in await read(broker, topic_name, 6)] == [4, 5, 6, 7, 8, 9]


async def test_a_topic_made_again_is_read_from_its_start(
    broker: BrokerProcess, topic_name: str, admin: Any
) -> None:
    await admin.create_topics([NewTopic(topic_name, 1, 1)])
    async with (
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer,
        AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50
        ) as consumer,
    ):
        consumer.assign([TopicPartition(topic_name, 0)])
        for value in (b"old-0", b"old-1", b"old-2"):
            await producer.send_and_wait(topic_name, value)
            assert (await consumer.getone()).value == value
        await admin.delete_topics([topic_name])
        await admin.create_topics([NewTopic(topic_name, 1, 1)])
        assert (await producer.send_and_wait(topic_name, b"new")).offset == 0
        # The consumer stands at offset 3, which the new topic does not have: it starts over.
        assert (await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value == b"new"


async def test_a_restart_of_the_broker_loses_nothing(
    fresh_broker: BrokerProcess, topic_name: str
) -> None:
    read_after_restart = asyncio.Event()
    numbers: list[int] = []

    async with (
        AIOKafkaProducer(
            bootstrap_servers=fresh_broker.bootstrap, enable_idempotence=True
        ) as producer,
        AIOKafkaConsumer(
            topic_name,
            bootstrap_servers=fresh_broker.bootstrap,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        ) as consumer,
    ):

        async def send_all() -> list[int]:
            """One after the other, until some that were sent after the restart have been read."""
            offsets: list[int] = []
            while not read_after_restart.is_set():
                answer = await producer.send_and_wait(topic_name, b"%d" % len(offsets))
                offsets.append(answer.offset)
            return offsets

        async def read_some(count: int) -> None:
            while len(numbers) < count:
                numbers.append(int((await consumer.getone()).value))

        async with asyncio.timeout(RESTART_TIMEOUT_S):
            sending = asyncio.create_task(send_all())
            await read_some(READ_BEFORE_AND_AFTER)
            await asyncio.to_thread(fresh_broker.restart)
            await read_some(len(numbers) + READ_BEFORE_AND_AFTER)
            read_after_restart.set()
            offsets = await sending
            await read_some(len(offsets))
    assert offsets == list(range(len(offsets)))
    assert numbers == offsets
