"""A fetch that finds too little waits: until there is enough, until its time is up, or until its
client has gone (kop#768: it never completed)."""

from __future__ import annotations

import time

import pytest

from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kbroker.protocol.messages.fetch import FetchResponse
from tests.net.running import Running
from tests.net.wire import batch_of, fetch_request, fetched, until, values_in

FOREVER_MS = 600_000


async def test_a_long_poll_ends_empty_when_its_time_is_up(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    await client.append("t", b"old")
    for version in (4, 11, 12):
        started = time.monotonic()
        response = await client.fetch(fetch_request({("t", 0): 1}, max_wait_ms=80), version)
        waited_s = time.monotonic() - started
        assert 0.07 <= waited_s < 3
        data = fetched(response)["t", 0]
        assert (data.error_code, data.high_watermark, values_in(data)) == (0, 1, [])
    assert running.parked_count == 0


async def test_a_long_poll_ends_as_soon_as_there_is_something(running: Running) -> None:
    consumer, producer = await running.connect(), await running.connect()
    topic_id = await producer.create_topic("t")
    for version in (4, 11, 12, 13, 18):
        name = topic_id if version >= 13 else "t"
        end = running.broker.catalog.partition_of(running.broker.catalog.topics["t"], 0).log_end
        correlation_id = consumer.send(
            fetch_request({(name, 0): end}, max_wait_ms=FOREVER_MS), version
        )
        await until(lambda: running.parked_count == 1, "the fetch to park")
        await producer.append("t", b"v%d" % version)
        response = await consumer.receive(FetchResponse, version, correlation_id)
        data = fetched(response)[name, 0]
        assert values_in(data) == [b"v%d" % version]
        assert data.high_watermark == end + 1
        assert running.parked_count == 0


async def test_min_bytes_is_reached_over_several_appends(running: Running) -> None:
    consumer, producer = await running.connect(), await running.connect()
    await producer.create_topic("t")
    size = len(batch_of(b"x" * 100))
    correlation_id = consumer.send(
        fetch_request({("t", 0): 0}, max_wait_ms=FOREVER_MS, min_bytes=2 * size + 1), 12
    )
    for number in range(2):
        await producer.append("t", b"%d" % number * 100)
        assert running.parked_count == 1
    await producer.append("t", b"2" * 100)
    response = await consumer.receive(FetchResponse, 12, correlation_id)
    assert values_in(fetched(response)["t", 0]) == [b"0" * 100, b"1" * 100, b"2" * 100]


async def test_min_bytes_counts_what_was_there_before_and_what_comes_to_any_partition(
    running: Running,
) -> None:
    consumer, producer = await running.connect(), await running.connect()
    await producer.create_topic("t", partitions=3)
    await producer.append("t", b"x" * 100, partition=0)
    size = len(batch_of(b"x" * 100))
    wanted = {("t", 0): 0, ("t", 1): 0, ("t", 2): 0}
    correlation_id = consumer.send(
        fetch_request(wanted, max_wait_ms=FOREVER_MS, min_bytes=3 * size), 12
    )
    await until(lambda: running.parked_count == 1, "the fetch to park")
    await producer.append("t", b"y" * 100, partition=1)
    assert running.parked_count == 1
    await producer.append("t", b"z" * 100, partition=2)
    found = fetched(await consumer.receive(FetchResponse, 12, correlation_id))
    values = [values_in(data) for _, data in sorted(found.items())]
    assert values == [[b"x" * 100], [b"y" * 100], [b"z" * 100]]


async def test_what_has_come_by_then_is_told_when_the_time_is_up_before_min_bytes(
    running: Running,
) -> None:
    consumer, producer = await running.connect(), await running.connect()
    await producer.create_topic("t")
    correlation_id = consumer.send(
        fetch_request({("t", 0): 0}, max_wait_ms=300, min_bytes=1_000_000), 12
    )
    await producer.append("t", b"little")
    response = await consumer.receive(FetchResponse, 12, correlation_id)
    assert values_in(fetched(response)["t", 0]) == [b"little"]


@pytest.mark.parametrize(
    ("max_wait_ms", "min_bytes"), [(0, 1), (-1, 1), (FOREVER_MS, 0), (FOREVER_MS, -1)]
)
async def test_a_fetch_that_need_not_wait_is_answered_at_once(
    max_wait_ms: int, min_bytes: int, running: Running
) -> None:
    client = await running.connect()
    await client.create_topic("t")
    request = fetch_request({("t", 0): 0}, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
    assert fetched(await client.fetch(request))["t", 0].error_code == 0


@pytest.mark.parametrize("offset", [5, -5])
async def test_an_offset_out_of_range_ends_the_wait_for_all(offset: int, running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    await client.create_topic("quiet")
    wanted = {("quiet", 0): 0, ("t", 0): offset}
    found = fetched(await client.fetch(fetch_request(wanted, max_wait_ms=FOREVER_MS)))
    assert found["quiet", 0].error_code == 0
    assert found["t", 0].error_code == 1


@pytest.mark.parametrize(("topic", "partition"), [("t", 9), ("t", -1), ("missing", 0)])
async def test_an_unknown_partition_is_told_beside_the_others(
    topic: str, partition: int, running: Running
) -> None:
    client = await running.connect()
    await client.create_topic("t")
    found = fetched(await client.fetch(fetch_request({("t", 0): 0, (topic, partition): 0})))
    assert found["t", 0].error_code == 0
    assert found[topic, partition].error_code == 3
    # Alone, there is nothing to wait for.
    request = fetch_request({(topic, partition): 0}, max_wait_ms=FOREVER_MS)
    assert fetched(await client.fetch(request))[topic, partition].error_code == 3


async def test_waiters_go_with_their_client(running: Running) -> None:
    producer = await running.connect()
    await producer.create_topic("t", partitions=2)
    wanted = {("t", 0): 0, ("t", 1): 0}
    clients = [await running.connect() for _ in range(10)]
    for client in clients:
        for _ in range(3):
            client.send(fetch_request(wanted, max_wait_ms=FOREVER_MS), 12)
    await until(lambda: running.parked_count == 30, "the fetches to park")
    for number, client in enumerate(clients):
        if number % 2:
            client.close()  # a reset
        else:
            client.writer.close()  # a farewell
    await until(lambda: running.parked_count == 0, "the waiters to leave")
    topic = running.broker.catalog.topics["t"]
    for index in range(2):
        assert not running.broker.catalog.partition_of(topic, index).waiters
    await producer.append("t", b"nobody waits for this")


async def test_waiters_of_a_client_that_turns_to_garbage_go_too(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    client.send(fetch_request({("t", 0): 0}, max_wait_ms=FOREVER_MS), 12)
    await until(lambda: running.parked_count == 1, "the fetch to park")
    client.send_raw(b"\xff" * 100)
    assert await client.is_closed()
    await until(lambda: running.parked_count == 0, "the waiter to leave")


async def test_one_append_wakes_all_who_wait_for_it(running: Running) -> None:
    producer = await running.connect()
    await producer.create_topic("t")
    clients = [await running.connect() for _ in range(50)]
    sent = [
        client.send(fetch_request({("t", 0): 0}, max_wait_ms=FOREVER_MS), 12) for client in clients
    ]
    await until(lambda: running.parked_count == 50, "the fetches to park")
    await producer.append("t", b"news")
    for client, correlation_id in zip(clients, sent, strict=True):
        response = await client.receive(FetchResponse, 12, correlation_id)
        assert values_in(fetched(response)["t", 0]) == [b"news"]
    assert running.parked_count == 0


@pytest.mark.parametrize(("version", "code"), [(12, 3), (13, 100)])
async def test_deleting_the_topic_ends_the_wait(version: int, code: int, running: Running) -> None:
    consumer, admin = await running.connect(), await running.connect()
    name = "t" if version < 13 else await admin.create_topic("t")
    if version < 13:
        await admin.create_topic("t")
    correlation_id = consumer.send(fetch_request({(name, 0): 0}, max_wait_ms=FOREVER_MS), version)
    await until(lambda: running.parked_count == 1, "the fetch to park")
    assert await admin.delete_topic("t") == 0
    response = await consumer.receive(FetchResponse, version, correlation_id)
    assert fetched(response)[name, 0].error_code == code


async def test_a_long_poll_beside_a_trimmed_log_start_goes_on(running: Running) -> None:
    """DeleteRecords up to the end moves the log start to where the consumer waits: no error."""
    consumer, other = await running.connect(), await running.connect()
    await other.create_topic("t")
    await other.append("t", b"old")
    correlation_id = consumer.send(fetch_request({("t", 0): 1}, max_wait_ms=FOREVER_MS), 12)
    await until(lambda: running.parked_count == 1, "the fetch to park")
    topics = [
        DeleteRecordsTopic(
            name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)]
        )
    ]
    response = await other.ask(
        DeleteRecordsRequest(topics=topics, timeout_ms=1000), DeleteRecordsResponse, 2
    )
    assert response.topics[0].partitions[0].low_watermark == 1
    await other.append("t", b"new")
    data = fetched(await consumer.receive(FetchResponse, 12, correlation_id))["t", 0]
    assert (data.error_code, data.log_start_offset, values_in(data)) == (0, 1, [b"new"])
