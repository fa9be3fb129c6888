"""What producers may send and what they may not: each refused batch has a Kafka error of its own,
nothing of it is stored, and the connection goes on."""

from __future__ import annotations

import asyncio
import struct
import time
import zlib

import pytest

from kbroker.protocol import records
from kbroker.protocol.batch import HEADER_SIZE, MAGIC
from kbroker.protocol.checksum import crc32c
from kbroker.protocol.compression import GZIP, LZ4, SNAPPY, ZSTD
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kbroker.protocol.messages.produce import ProduceResponse
from kbroker.protocol.records import NewRecord
from tests.net.disks import GatedDisk
from tests.net.running import Running, StartBroker
from tests.net.wire import (
    WireClient,
    batch_of,
    fetch_request,
    fetched,
    produce_request,
    until,
    values_in,
)

CORRUPT_MESSAGE, UNKNOWN_TOPIC, MESSAGE_TOO_LARGE, INVALID_TOPIC = 2, 3, 10, 17
INVALID_REQUIRED_ACKS, INVALID_TIMESTAMP, OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH = (
    21,
    32,
    45,
    47,
)
UNSUPPORTED_COMPRESSION, INVALID_RECORD = 76, 87
LARGEST_SEQUENCE = (1 << 31) - 1

# Where the fields of a batch header lie; those from 21 on are covered by the checksum.
LENGTH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT = 8, 16, 17, 21, 23, 57
MAX_TIMESTAMP_AT = 35


def patched(batch: bytes, at: int, layout: str, value: int) -> bytes:
    """A field changed; the checksum made right again if it covers the field."""
    data = bytearray(batch)
    struct.pack_into(">" + layout, data, at, value)
    if at >= ATTRIBUTES_AT:
        struct.pack_into(">I", data, CRC_AT, crc32c(memoryview(data)[ATTRIBUTES_AT:]))
    return bytes(data)


def old_message(magic: int) -> bytes:
    """A message set of format 0 or 1, as clients before Kafka 0.11 sent."""
    body = struct.pack(">bb", magic, 0) + (b"\0" * 8 if magic else b"")
    body += struct.pack(">ii", -1, 3) + b"old"
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def idempotent(producer_id: int, sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    now_ms = int(time.time() * 1000)
    return records.build(
        [NewRecord(now_ms, None, value) for value in values or (b"x",)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


GOOD = batch_of(b"one", b"two")

REFUSED: list[tuple[str, bytes | None, int, int]] = [
    ("wrong checksum", GOOD[:-1] + b"!", 9, CORRUPT_MESSAGE),
    ("wrong stored checksum", patched(GOOD, CRC_AT, "I", 1), 9, CORRUPT_MESSAGE),
    ("length too small", patched(GOOD, LENGTH_AT, "i", 10), 9, CORRUPT_MESSAGE),
    ("length zero", patched(GOOD, LENGTH_AT, "i", 0), 9, CORRUPT_MESSAGE),
    ("length negative", patched(GOOD, LENGTH_AT, "i", -1), 9, CORRUPT_MESSAGE),
    ("length too large", patched(GOOD, LENGTH_AT, "i", len(GOOD)), 9, INVALID_RECORD),
    ("cut short", GOOD[:-5], 9, INVALID_RECORD),
    ("cut in its header", GOOD[: HEADER_SIZE - 1], 9, INVALID_RECORD),
    ("a few bytes", b"abc", 9, INVALID_RECORD),
    ("no bytes", b"", 9, INVALID_RECORD),
    ("null", None, 9, INVALID_RECORD),
    ("null in an old version", None, 3, INVALID_RECORD),
    ("two batches", GOOD + GOOD, 9, INVALID_RECORD),
    ("bytes behind the batch", GOOD + b"rest", 9, INVALID_RECORD),
    ("unknown format", patched(GOOD, MAGIC_AT, "b", 3), 9, CORRUPT_MESSAGE),
    ("negative format", patched(GOOD, MAGIC_AT, "b", -1), 9, CORRUPT_MESSAGE),
    ("format 0", old_message(0), 9, INVALID_RECORD),
    ("format 1", old_message(1), 9, INVALID_RECORD),
    ("format 1 in an old version", old_message(1), 3, INVALID_RECORD),
    ("unknown codec", patched(GOOD, ATTRIBUTES_AT, "h", 5), 9, UNSUPPORTED_COMPRESSION),
    (
        "zstd before version 7",
        records.build([NewRecord(1_700_000_000_000, None, b"z" * 99)], compression=ZSTD),
        6,
        UNSUPPORTED_COMPRESSION,
    ),
    ("a control batch", patched(GOOD, ATTRIBUTES_AT, "h", 0x20), 9, INVALID_RECORD),
    ("too many offsets", patched(GOOD, LAST_DELTA_AT, "i", 7), 9, INVALID_RECORD),
    ("no records", patched(patched(GOOD, COUNT_AT, "i", 0), LAST_DELTA_AT, "i", -1), 9, 87),
    ("negative count", patched(GOOD, COUNT_AT, "i", -2), 9, INVALID_RECORD),
    (
        "from the future",
        batch_of(b"late", time_ms=int(time.time() * 1000) + 2 * 3_600_000),
        9,
        INVALID_TIMESTAMP,
    ),
]


@pytest.mark.parametrize(
    ("batch", "version", "code"),
    [(batch, version, code) for _, batch, version, code in REFUSED],
    ids=[name for name, _, _, _ in REFUSED],
)
async def test_a_bad_batch_is_refused_and_nothing_of_it_is_stored(
    batch: bytes | None, version: int, code: int, running: Running
) -> None:
    client = await running.connect()
    await client.create_topic("t")
    await client.append("t", b"before")
    answer = await client.produce("t", batch, version=version)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    if version >= 8:
        assert answer.error_message, "the producer must be told why"
    assert await client.append("t", b"after") == 1
    assert await client.read_all("t") == [b"before", b"after"]
    await running.restart()
    again = await running.connect()
    assert await again.read_all("t") == [b"before", b"after"]


async def test_a_bad_batch_does_not_harm_the_good_ones_of_its_request(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t", partitions=3)
    request = produce_request("t", batch_of(b"good"))
    bad = produce_request("t", GOOD[:-1] + b"!", partition=1).topic_data[0].partition_data
    missing = produce_request("t", batch_of(b"x"), partition=7).topic_data[0].partition_data
    good = produce_request("t", batch_of(b"good too"), partition=2).topic_data[0].partition_data
    request.topic_data[0].partition_data += [*bad, *missing, *good]
    response = await client.ask(request, ProduceResponse, 9)
    answers = response.responses[0].partition_responses
    assert [(a.index, a.error_code, a.base_offset) for a in answers] == [
        (0, 0, 0),
        (1, CORRUPT_MESSAGE, -1),
        (7, UNKNOWN_TOPIC, -1),
        (2, 0, 0),
    ]
    assert await client.read_all("t", 0) == [b"good"]
    assert await client.read_all("t", 1) == []
    assert await client.read_all("t", 2) == [b"good too"]


@pytest.mark.parametrize(
    "name",
    ["missing", "a/b", "../../etc/passwd", "x" * 300, "", "naïve"],
    ids=lambda n: repr(n)[:20],
)
@pytest.mark.parametrize("version", [3, 9])
async def test_produce_makes_no_topic_whatever_its_name(
    name: str, version: int, running: Running
) -> None:
    client = await running.connect()
    before = {path.name for path in running.folder.rglob("*")}
    answer = await client.produce(name, batch_of(b"x"), version=version)
    assert answer.error_code in (UNKNOWN_TOPIC, INVALID_TOPIC)
    assert {path.name for path in running.folder.rglob("*")} == before


async def test_the_brokers_own_log_cannot_be_written(running: Running) -> None:
    client = await running.connect()
    answer = await client.produce("__kbroker_meta", batch_of(b"{}", key=b'{"topic": "evil"}'))
    assert answer.error_code in (UNKNOWN_TOPIC, INVALID_TOPIC)
    await running.restart()
    assert not running.broker.catalog.topics


@pytest.mark.parametrize("acks", [2, -2, 32767])
async def test_acks_are_0_1_or_all(acks: int, running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    request = produce_request("t", batch_of(b"x"), acks=acks)
    response = await client.ask(request, ProduceResponse, 9)
    assert response.responses[0].partition_responses[0].error_code == INVALID_REQUIRED_ACKS
    assert await client.read_all("t") == []


async def test_a_batch_above_max_message_bytes_is_too_large(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t", configs={"max.message.bytes": 500})
    overhead = len(batch_of(b"x" * 400)) - 400
    largest, too_large = batch_of(b"x" * (500 - overhead)), batch_of(b"x" * (501 - overhead))
    assert (len(largest), len(too_large)) == (500, 501)
    assert (await client.produce("t", largest)).error_code == 0
    assert (await client.produce("t", too_large)).error_code == MESSAGE_TOO_LARGE


async def test_a_compacted_topic_wants_keys(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t", configs={"cleanup.policy": "compact"})
    assert (await client.produce("t", batch_of(b"x"))).error_code == INVALID_RECORD
    assert (await client.produce("t", batch_of(b"x", key=b"k"))).error_code == 0
    mixed = records.build([NewRecord(1, b"k", b"1"), NewRecord(1, None, b"2")], compression=GZIP)
    assert (await client.produce("t", mixed)).error_code == INVALID_RECORD


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
async def test_a_batch_is_stored_and_sent_as_it_came(codec: int, running: Running) -> None:
    """kafka-python#2414: Redpanda framed snappy anew, with the wrong byte order."""
    client = await running.connect()
    await client.create_topic("t")
    batch = records.build(
        [NewRecord(1_700_000_000_000 + n, b"k%d" % n, b"v" * 50) for n in range(20)],
        compression=codec,
    )
    assert (await client.produce("t", batch)).error_code == 0
    data = fetched(await client.fetch(fetch_request({("t", 0): 0})))["t", 0]
    stored = bytes(data.records or b"")
    # Only what the broker stamps differs: base offset and leader epoch, both outside the checksum.
    assert stored[8:12] + stored[MAGIC_AT:] == batch[8:12] + batch[MAGIC_AT:]
    assert stored[MAGIC_AT] == MAGIC


async def test_a_producer_that_leaves_max_timestamp_unset_is_found_by_time(
    running: Running,
) -> None:
    """sarama (redpanda#25200): the broker works it out, else time lookups miss the batch."""
    client = await running.connect()
    await client.create_topic("t")
    batch = batch_of(b"x", time_ms=1_700_000_000_123)
    assert (await client.produce("t", patched(batch, MAX_TIMESTAMP_AT, "q", -1))).error_code == 0
    data = fetched(await client.fetch(fetch_request({("t", 0): 0})))["t", 0]
    stored = bytes(data.records or b"")
    assert struct.unpack_from(">q", stored, MAX_TIMESTAMP_AT)[0] == 1_700_000_000_123
    assert struct.unpack_from(">I", stored, CRC_AT)[0] == crc32c(memoryview(stored)[21:])


async def test_log_append_time_is_stamped_on_the_batch_and_told(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    answer = await client.produce("t", batch_of(b"x", time_ms=5))
    assert before_ms <= answer.log_append_time_ms <= int(time.time() * 1000)
    data = fetched(await client.fetch(fetch_request({("t", 0): 0})))["t", 0]
    stored = bytes(data.records or b"")
    assert struct.unpack_from(">h", stored, ATTRIBUTES_AT)[0] & 0x08
    assert struct.unpack_from(">q", stored, MAX_TIMESTAMP_AT)[0] == answer.log_append_time_ms
    assert struct.unpack_from(">I", stored, CRC_AT)[0] == crc32c(memoryview(stored)[21:])


# Idempotence


async def outcome(client: WireClient, batch: bytes) -> tuple[int, int]:
    answer = await client.produce("t", batch)
    return answer.error_code, answer.base_offset


async def test_each_of_the_last_five_batches_may_come_again(running: Running) -> None:
    """redpanda#3038: a duplicate is answered with its first offset and not stored twice."""
    client = await running.connect()
    await client.create_topic("t")
    batches = [idempotent(7, 3 * n, b"a", b"b", b"c") for n in range(6)]
    for number, batch in enumerate(batches):
        assert await outcome(client, batch) == (0, 3 * number)
    for number in (5, 1, 3, 2, 4, 5):
        assert await outcome(client, batches[number]) == (0, 3 * number)
    assert len(await client.read_all("t")) == 18


async def test_the_window_survives_a_restart(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    batches = [idempotent(7, n) for n in range(5)]
    for batch in batches:
        await client.produce("t", batch)
    await running.restart()
    client = await running.connect()
    for number, batch in enumerate(batches):
        assert await outcome(client, batch) == (0, number)
    assert await outcome(client, idempotent(7, 5)) == (0, 5)


async def test_a_gap_is_out_of_order(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    assert await outcome(client, idempotent(7, 0)) == (0, 0)
    assert await outcome(client, idempotent(7, 2)) == (OUT_OF_ORDER_SEQUENCE, -1)
    assert await outcome(client, idempotent(7, 1)) == (0, 1)


async def test_an_unknown_producer_may_start_anywhere(running: Running) -> None:
    """redpanda#22687: librdkafka takes error 45 for fatal, and Kafka accepts here."""
    client = await running.connect()
    await client.create_topic("t")
    assert await outcome(client, idempotent(9, 1234)) == (0, 0)
    assert await outcome(client, idempotent(9, 1235)) == (0, 1)


async def test_sequences_wrap(running: Running) -> None:
    """redpanda#4854"""
    client = await running.connect()
    await client.create_topic("t")
    assert await outcome(client, idempotent(7, LARGEST_SEQUENCE - 1, b"a", b"b")) == (0, 0)
    assert await outcome(client, idempotent(7, 0)) == (0, 2)
    # A batch that wraps in its middle.
    assert await outcome(client, idempotent(8, LARGEST_SEQUENCE, b"a", b"b", b"c")) == (0, 3)
    assert await outcome(client, idempotent(8, 2)) == (0, 6)
    assert await outcome(client, idempotent(8, LARGEST_SEQUENCE, b"a", b"b", b"c")) == (0, 3)


async def test_a_new_epoch_starts_at_0_and_fences_the_old_one(running: Running) -> None:
    """KIP-360"""
    client = await running.connect()
    await client.create_topic("t")
    assert await outcome(client, idempotent(7, 0)) == (0, 0)
    assert await outcome(client, idempotent(7, 5, epoch=1)) == (OUT_OF_ORDER_SEQUENCE, -1)
    assert await outcome(client, idempotent(7, 0, epoch=1)) == (0, 1)
    assert await outcome(client, idempotent(7, 1, epoch=0)) == (INVALID_PRODUCER_EPOCH, -1)


async def test_a_duplicate_in_the_same_burst_is_stored_once(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    batch = idempotent(7, 0, b"once")
    sent = [client.send(produce_request("t", batch), 9) for _ in range(4)]
    for correlation_id in sent:
        response = await client.receive(ProduceResponse, 9, correlation_id)
        answer = response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert await client.read_all("t") == [b"once"]


async def test_offsets_are_dense_across_producers_segments_and_restarts(
    start_broker: StartBroker,
) -> None:
    """kop#765: gaps hung Druid and trip Spark's failOnDataLoss."""
    running = await start_broker({"log.segment.bytes": 2048})
    client = await running.connect()
    await client.create_topic("t")
    expected = 0
    for round_number in range(3):
        for number in range(20):
            assert await client.append("t", *[b"x" * 40] * (1 + number % 4)) == expected
            expected += 1 + number % 4
        if round_number < 2:
            await running.restart()
            client = await running.connect()
    assert len(list(running.folder.glob("t-0/*.meta"))) > 2
    offset = 0
    while offset < expected:
        data = fetched(await client.fetch(fetch_request({("t", 0): offset})))["t", 0]
        rest = memoryview(bytes(data.records or b""))
        assert len(rest)
        while len(rest):
            size = 12 + int.from_bytes(rest[8:12], "big")
            for record in records.iterate(rest[:size]):
                assert record.offset == offset
                offset += 1
            rest = rest[size:]


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_version_of_produce_stores_and_answers(version: int, running: Running) -> None:
    client = await running.connect()
    topic_id = await client.create_topic("t")
    answer = await client.produce(topic_id if version >= 13 else "t", GOOD, version=version)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    data = fetched(await client.fetch(fetch_request({("t", 0): 0})))["t", 0]
    assert values_in(data) == [b"one", b"two"]


async def test_a_topic_id_that_is_not_there_is_unknown(running: Running) -> None:
    client = await running.connect()
    answer = await client.produce(bytes(range(16)), GOOD, version=13)
    assert answer.error_code == 100


async def test_records_of_a_new_topic_are_not_lost_to_the_deletion_of_its_namesake(
    start_broker: StartBroker,
) -> None:
    """The deletion waits for its sync while the name is taken again and written to."""
    disk = GatedDisk()
    running = await start_broker(disk=disk)
    deleting, creating, producing = [await running.connect() for _ in range(3)]
    old_id = await deleting.create_topic("t")
    await producing.append("t", b"old 0", b"old 1", b"old 2")

    disk.close_for("__kbroker_meta")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000)
    deleted = deleting.send(request, 6)
    await until(lambda: "t" not in running.broker.catalog.topics, "the deletion to begin")
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=[])
    created = creating.send(CreateTopicsRequest(topics=[topic]), 7)
    await until(lambda: "t" in running.broker.catalog.topics, "the topic to be made again")
    assert await producing.append("t", b"new 0") == 0
    disk.open_again()
    assert (await deleting.receive(DeleteTopicsResponse, 6, deleted)).responses[0].error_code == 0
    result = (await creating.receive(CreateTopicsResponse, 7, created)).topics[0]
    assert result.error_code == 0
    assert result.topic_id != old_id

    assert await producing.append("t", b"new 1") == 1
    assert await producing.read_all("t") == [b"new 0", b"new 1"]
    await running.restart()
    again = await running.connect()
    assert await again.read_all("t") == [b"new 0", b"new 1"]


async def test_a_topic_deleted_and_made_again_in_a_race_keeps_only_the_new_records(
    running: Running,
) -> None:
    """The old topic's files go while the new one's come: they must not be taken for one another."""
    client, other = await running.connect(), await running.connect()
    for round_number in range(5):
        await client.create_topic("t")
        await client.append("t", b"old %d" % round_number)
        deleting = asyncio.create_task(client.delete_topic("t"))
        while True:
            created = await create(other, "t")
            if created == 0:
                break
        await other.append("t", b"new")
        assert await deleting == 0
        assert await other.append("t", b"newer") == 1
        assert await other.read_all("t") == [b"new", b"newer"]
        await running.restart()
        client, other = await running.connect(), await running.connect()
        assert await other.read_all("t") == [b"new", b"newer"]
        assert await client.delete_topic("t") == 0


async def create(client: WireClient, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[])
    response = await client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    return response.topics[0].error_code


async def test_a_delete_whose_client_leaves_at_once_is_done_all_the_same(running: Running) -> None:
    client = await running.connect()
    for round_number in range(5):
        await client.create_topic("t")
        await client.append("t", b"old %d" % round_number)
        hasty = await running.connect()
        hasty.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000), 6)
        await hasty.writer.drain()
        hasty.writer.close()
        await until(lambda: "t" not in running.broker.catalog.topics, "the topic to go")
        await client.create_topic("t")
        assert await client.read_all("t") == []
        await client.append("t", b"new")
        assert await client.read_all("t") == [b"new"]
        await client.delete_topic("t")
