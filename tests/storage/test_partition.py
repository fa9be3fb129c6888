"""A partition as handlers use it: dense offsets, whole batches, times, and an order that holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol import records
from kbroker.protocol.batch import LOG_APPEND_TIME, is_whole, peek
from kbroker.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kbroker.protocol.errors import (
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    OffsetOutOfRange,
)
from kbroker.protocol.records import Record
from tests.storage.batches import NOW_MS, Sender, batch, batch_of_size, split
from tests.storage.running import in_a_folder
from tests.storage.shelf import Shelf, loaded, slices

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]


def check_order(shelf: Shelf) -> None:
    """What DESIGN.md says must always hold."""
    partition = shelf[0]
    assert partition.log_start <= partition.high_watermark <= partition.log_end
    assert partition.log_end <= partition.next_offset
    assert partition.synced_end <= partition.log_end


# Appending


async def test_offsets_are_dense_whatever_the_batches_hold(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        expected = 0
        for count in (1, 7, 3, 1, 40, 2) * 3:
            append = shelf.append(batch(*[b"v"] * count))
            assert (append.base_offset, append.last_offset) == (expected, expected + count - 1)
            expected += count
            check_order(shelf)
        assert [record.offset for record in shelf.records()] == list(range(expected))


async def test_bytes_are_stored_as_they_came_but_for_offset_and_epoch(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append()
        shelf.restart()
        sent = batch(b"a", b"b", codec=LZ4)
        shelf.append(sent)
        got = shelf.stored()[1]
        assert got[8:12] + got[16:] == sent[8:12] + sent[16:]
        assert (peek(got).base_offset, peek(got).leader_epoch) == (1, 16)


async def test_nothing_is_readable_before_it_is_written(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append()
        append = shelf.queue(batch(b"later"))
        assert append.base_offset == 1
        check_order(shelf)
        assert shelf[0].log_end == 1
        assert len(shelf.stored()) == 1
        shelf.store.write()
        assert shelf[0].log_end == 2
        assert len(shelf.stored()) == 2


async def test_actions_run_after_the_batches_before_them_were_written(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=2) as shelf:
        ends: list[tuple[int, int]] = []
        shelf.queue(batch(b"a"))
        shelf.queue(batch(b"b"), 1)
        shelf.store.after_write(lambda: ends.append((shelf[0].log_end, shelf[1].log_end)))
        assert ends == []
        shelf.store.write()
        assert ends == [(1, 1)]


async def test_a_batch_above_the_limit_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"max.message.bytes": 500}) as shelf:
        assert shelf.append(batch_of_size(500)).base_offset == 0
        with pytest.raises(MessageTooLarge):
            shelf.append(batch_of_size(501))
        assert shelf.append(batch_of_size(100)).base_offset == 1
        assert [len(one) for one in shelf.stored()] == [500, 100]


async def test_batches_that_only_the_broker_may_write_are_refused(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        new = [records.NewRecord(NOW_MS, b"k", b"v")]
        with pytest.raises(InvalidRecord):
            shelf.append(records.build(new, control=True))
        with pytest.raises(InvalidRecord, match="sequence"):
            shelf.append(batch(b"v", sender=Sender(5, 0, -1)))
        with pytest.raises(InvalidRecord, match="epoch"):
            shelf.append(batch(b"v", sender=Sender(5, -1, 0)))
        assert shelf[0].log_end == 0


# Reading


async def test_a_fetch_inside_a_batch_gets_the_whole_batch(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append(batch(b"0", b"1", b"2"))
        shelf.append(batch(b"3", b"4", b"5", b"6"))
        for offset in (3, 4, 5, 6):
            part = shelf[0].read(offset, 1 << 20, True)
            assert part is not None
            (one,) = split(loaded(part))
            assert [record.offset for record in records.iterate(one)] == [3, 4, 5, 6]


async def test_a_reader_at_the_end_gets_nothing_and_beyond_it_an_error(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        assert shelf[0].read(0, 100, True) is None
        with pytest.raises(OffsetOutOfRange):
            shelf[0].read(1, 100, True)
        shelf.append(batch(b"0", b"1"))
        assert shelf[0].read(2, 100, True) is None
        for offset in (-1, 3):
            with pytest.raises(OffsetOutOfRange):
                shelf[0].read(offset, 100, True)


async def test_a_reader_that_waits_at_the_end_gets_exactly_what_comes(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for number in range(50):
            assert shelf[0].read(number, 1 << 20, True) is None
            shelf.append(batch(b"number %d" % number))
            part = shelf[0].read(number, 1 << 20, True)
            assert part is not None
            assert b"number %d" % number in split(loaded(part))[0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 500)), min_size=1, max_size=30),
    st.integers(0, 3000),
)
def test_fetches_of_any_size_give_each_batch_once_whole_and_in_order(
    shapes: list[tuple[int, int]], max_bytes: int
) -> None:
    async def check(folder: Path) -> None:
        topic = {"segment.bytes": 2000, "index.interval.bytes": 300}
        async with Shelf(folder, topic) as shelf:
            for count, size in shapes:
                shelf.append(batch(*[b"v" * size] * count))
            got: list[bytes] = []
            for part in slices(shelf[0], max_bytes=max_bytes):
                batches = split(loaded(part))
                assert part.length <= max_bytes or len(batches) == 1
                got += batches
            assert [(peek(b).record_count, len(b)) for b in got] == [
                (count, len(batch(*[b"v" * size] * count))) for count, size in shapes
            ]

    in_a_folder(check)


async def test_a_fetch_that_has_no_room_left_gets_nothing_and_no_error(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for _ in range(8):
            shelf.append(batch_of_size(400))
        for offset in range(8):
            part = shelf[0].read(offset, 399, False)
            assert part is None or part.length == 0
            part = shelf[0].read(offset, 400, False)
            assert part is not None
            assert part.length == 400
            assert peek(loaded(part)).base_offset == offset


# Times

time_lists = st.lists(
    st.tuples(
        st.lists(st.integers(NOW_MS - 60, NOW_MS + 60), min_size=1, max_size=5),
        st.sampled_from(CODECS),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(time_lists, st.booleans(), st.integers(0, 30))
def test_lookups_by_time_give_what_looking_at_every_record_gives(
    shapes: list[tuple[list[int], int]], restarted: bool, trimmed: int
) -> None:
    async def check(folder: Path) -> None:
        topic = {"segment.bytes": 1024, "index.interval.bytes": 150}
        async with Shelf(folder, topic) as shelf:
            for times, codec in shapes:
                values = [b"v"] * len(times)
                shelf.append(batch(*values, times_ms=times, codec=codec))
            if trimmed < shelf[0].log_end:
                await shelf[0].trim(trimmed)
            if restarted:
                shelf.restart()
            everything = shelf.records()
            for time_ms in range(NOW_MS - 62, NOW_MS + 63):
                late = [record for record in everything if record.timestamp_ms >= time_ms]
                expected = found(late[0]) if late else None
                assert shelf[0].first_at_or_after(time_ms) == expected

    in_a_folder(check)


@settings(max_examples=60, deadline=None)
@given(time_lists, st.booleans())
def test_the_newest_record_is_the_first_of_those_with_the_largest_time(
    shapes: list[tuple[list[int], int]], restarted: bool
) -> None:
    async def check(folder: Path) -> None:
        async with Shelf(folder, {"segment.bytes": 1024}) as shelf:
            for times, codec in shapes:
                values = [b"v"] * len(times)
                shelf.append(batch(*values, times_ms=times, codec=codec))
            if restarted:
                shelf.restart()
            newest = max(shelf.records(), key=lambda record: record.timestamp_ms)
            assert shelf[0].latest_timestamp() == found(newest)

    in_a_folder(check)


def found(record: Record) -> tuple[int, int, int]:
    """As lookups answer: offset, time and the epoch, which is 0 until a restart appends."""
    return record.offset, record.timestamp_ms, 0


async def test_an_empty_partition_has_no_times(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        assert shelf[0].first_at_or_after(0) is None
        assert shelf[0].latest_timestamp() is None


async def test_lookups_name_the_epoch_in_which_the_record_was_written(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append(batch(b"a", time_ms=NOW_MS))
        shelf.restart()
        shelf.append(batch(b"b", time_ms=NOW_MS + 5))
        assert shelf[0].first_at_or_after(NOW_MS) == (0, NOW_MS, 0)
        assert shelf[0].first_at_or_after(NOW_MS + 1) == (1, NOW_MS + 5, 16)
        assert shelf[0].latest_timestamp() == (1, NOW_MS + 5, 16)


@pytest.mark.parametrize("codec", CODECS)
async def test_log_append_time_is_the_brokers_and_the_checksum_stays_right(
    tmp_path: Path, codec: int
) -> None:
    async with Shelf(tmp_path, {"message.timestamp.type": "LogAppendTime"}) as shelf:
        old = [NOW_MS - 10**9, NOW_MS - 5]
        first = shelf.append(batch(b"a", b"b", times_ms=old, codec=codec))
        shelf.clock.time_ms += 1000
        second = shelf.append(batch(b"c", b"d", times_ms=old, codec=codec))
        assert first.log_append_time_ms == NOW_MS
        assert second.log_append_time_ms == NOW_MS + 1000
        for one in shelf.stored():
            assert is_whole(memoryview(one))
            assert peek(one).attributes & LOG_APPEND_TIME
        times = [(record.offset, record.timestamp_ms) for record in shelf.records()]
        assert times == [(0, NOW_MS), (1, NOW_MS), (2, NOW_MS + 1000), (3, NOW_MS + 1000)]
        assert shelf[0].first_at_or_after(NOW_MS + 1) == (2, NOW_MS + 1000, 0)
        assert shelf[0].latest_timestamp() == (2, NOW_MS + 1000, 0)


async def test_times_too_far_from_the_brokers_clock_are_refused(tmp_path: Path) -> None:
    limits = {"message.timestamp.after.max.ms": 1000, "message.timestamp.before.max.ms": 5000}
    async with Shelf(tmp_path, limits) as shelf:
        for refused in (NOW_MS + 1001, NOW_MS - 5001):
            with pytest.raises(InvalidTimestamp):
                shelf.append(batch(b"x", time_ms=refused))
        for accepted in (NOW_MS + 1000, NOW_MS - 5000):
            shelf.append(batch(b"x", time_ms=accepted))
        assert shelf[0].log_end == 2


async def test_a_maximum_time_that_the_producer_left_unset_is_found_out(tmp_path: Path) -> None:
    """sarama sends batches whose largest timestamp is -1; lookups by time must still work."""
    from kbroker.protocol.batch import restamp_time

    async with Shelf(tmp_path) as shelf:
        view = memoryview(bytearray(batch(b"a", b"b", times_ms=[NOW_MS, NOW_MS + 9])))
        restamp_time(view, 0, -1)
        shelf.append(bytes(view))
        assert peek(shelf.stored()[0]).max_timestamp == NOW_MS + 9
        assert shelf[0].first_at_or_after(NOW_MS + 1) == (1, NOW_MS + 9, 0)


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
async def test_a_topic_with_a_codec_of_its_own_stores_every_batch_in_it(
    tmp_path: Path, name: str
) -> None:
    async with Shelf(tmp_path, {"compression.type": name}) as shelf:
        for codec in CODECS:
            shelf.append(batch(b"x" * 300, b"y" * 300, codec=codec))
        shelf.restart()
        assert len({peek(one).codec for one in shelf.stored()}) == 1
        assert shelf.values() == [b"x" * 300, b"y" * 300] * len(CODECS)
