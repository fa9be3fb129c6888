"""What a fetch answers: whole batches, at least one, in every version (COMPAT.md 40, 41, 44,
48)."""

from __future__ import annotations

import pytest

from kbroker.protocol.messages.fetch import FetchPartitionData
from tests.net.running import Running, StartBroker
from tests.net.wire import WireClient, batch_of, fetch_request, fetched, values_in

OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 1, 74, 75


async def fetch_one(client: WireClient, offset: int, **options: int) -> FetchPartitionData:
    request = fetch_request({("t", 0): offset}, **options)  # type: ignore[arg-type]
    return fetched(await client.fetch(request))["t", 0]


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_of_fetch_reads_what_was_written(
    version: int, running: Running
) -> None:
    client = await running.connect()
    topic_id = await client.create_topic("t")
    await client.append("t", b"one", b"two")
    name = topic_id if version >= 13 else "t"
    response = await client.fetch(fetch_request({(name, 0): 0}), version)
    data = fetched(response)[name, 0]
    assert values_in(data) == [b"one", b"two"]
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 2, 2)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.preferred_read_replica == -1


@pytest.mark.parametrize(("max_bytes", "partition_max_bytes"), [(1, 1 << 20), (1 << 20, 1), (0, 0)])
async def test_at_least_one_batch_comes_however_small_the_limits(
    max_bytes: int, partition_max_bytes: int, running: Running
) -> None:
    """KIP-74, redpanda#1532: a consumer with small limits would be stuck for ever."""
    client = await running.connect()
    await client.create_topic("t")
    await client.append("t", b"x" * 5000)
    await client.append("t", b"y" * 5000)
    limits = {"max_bytes": max_bytes, "partition_max_bytes": partition_max_bytes}
    assert values_in(await fetch_one(client, 0, **limits)) == [b"x" * 5000]
    assert values_in(await fetch_one(client, 1, **limits)) == [b"y" * 5000]


async def test_only_the_first_partition_may_go_over_the_limit(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t", partitions=3)
    for index in range(3):
        await client.append("t", b"x" * 1000, partition=index)
    wanted = {("t", index): 0 for index in range(3)}
    found = fetched(await client.fetch(fetch_request(wanted, max_bytes=10)))
    assert [len(values_in(found["t", index])) for index in range(3)] == [1, 0, 0]
    two = 2 * len(batch_of(b"x" * 1000))
    found = fetched(await client.fetch(fetch_request(wanted, max_bytes=two)))
    assert [len(values_in(found["t", index])) for index in range(3)] == [1, 1, 0]


async def test_batches_are_never_cut(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    for number in range(10):
        await client.append("t", b"%d" % number * 700)
    size = len(batch_of(b"0" * 700))
    for limit in range(1, 5 * size, size // 3):
        data = await fetch_one(client, 0, partition_max_bytes=limit)
        assert len(values_in(data)) == max(limit // size, 1)
        assert len(data.records or b"") % size == 0


async def test_an_offset_inside_a_batch_brings_the_whole_batch(running: Running) -> None:
    """nisshi: consumers that resume in the middle of a batch hung for ever."""
    client = await running.connect()
    await client.create_topic("t")
    await client.append("t", b"0", b"1", b"2", b"3")
    await client.append("t", b"4", b"5")
    for offset in range(4):
        assert values_in(await fetch_one(client, offset)) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    for offset in (4, 5):
        assert values_in(await fetch_one(client, offset)) == [b"4", b"5"]
    assert values_in(await fetch_one(client, 6)) == []


async def test_offsets_beyond_the_ends_are_out_of_range(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    await client.append("t", b"0", b"1")
    for offset in (-1, 3, 1 << 62):
        data = await fetch_one(client, offset)
        assert (data.error_code, data.high_watermark) == (OFFSET_OUT_OF_RANGE, -1)
        assert not data.records


async def test_a_consumer_with_another_idea_of_the_epoch_is_told(running: Running) -> None:
    """KIP-320: else truncation is silent."""
    client = await running.connect()
    await client.create_topic("t")
    await client.append("t", b"0")
    await running.restart()
    client = await running.connect()
    epoch = running.broker.store.epoch
    assert (await fetch_one(client, 0, current_leader_epoch=epoch)).error_code == 0
    data = await fetch_one(client, 0, current_leader_epoch=epoch - 1)
    assert data.error_code == FENCED_LEADER_EPOCH
    data = await fetch_one(client, 0, current_leader_epoch=epoch + 1)
    assert data.error_code == UNKNOWN_LEADER_EPOCH


async def test_a_consumer_whose_history_differs_is_told_where_the_logs_part(
    running: Running,
) -> None:
    client = await running.connect()
    await client.create_topic("t")
    await client.append("t", b"0", b"1")
    first_epoch = running.broker.store.epoch
    await running.restart()
    client = await running.connect()
    await client.append("t", b"2")
    # It claims to have read up to 5 in the first epoch, which ended at 2.
    request = fetch_request({("t", 0): 3}, last_fetched_epoch=first_epoch)
    data = fetched(await client.fetch(request))["t", 0]
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (first_epoch, 2)
    assert not data.records
    request = fetch_request({("t", 0): 2}, last_fetched_epoch=first_epoch)
    data = fetched(await client.fetch(request))["t", 0]
    assert values_in(data) == [b"2"]
    assert data.diverging_epoch.end_offset == -1


async def test_reading_goes_on_across_segments(start_broker: StartBroker) -> None:
    running = await start_broker({"log.segment.bytes": 1024})
    client = await running.connect()
    await client.create_topic("t")
    for number in range(30):
        await client.append("t", b"%03d" % number * 100)
    assert len(list(running.folder.glob("t-0/*.meta"))) > 5
    assert await client.read_all("t") == [b"%03d" % number * 100 for number in range(30)]


async def test_a_partition_asked_for_twice_is_answered_without_harm(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    await client.append("t", b"0")
    request = fetch_request([(("t", 0), 0), (("t", 0), 0)])
    response = await client.fetch(request, 11)
    answers = [data for topic in response.responses for data in topic.partitions]
    assert all(values_in(data) == [b"0"] for data in answers)
    assert await client.append("t", b"1") == 1
