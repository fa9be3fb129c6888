"""Epochs: which reign began where, against the rules of KIP-101 and KIP-279 written out plainly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol.batch import peek
from kbroker.protocol.errors import FencedLeaderEpoch, UnknownLeaderEpoch
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kbroker.storage import epochs as epochs_file
from kbroker.storage.epochs import Epochs
from tests.storage.batches import batch
from tests.storage.shelf import Shelf
from tests.storage.wire import FETCH_VERSION, fetch_request, produce
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

UNDEFINED = (-1, -1)


def model_end(written: list[tuple[int, int]], asked: int, log_end: int) -> tuple[int, int]:
    """KIP-101 over (epoch, first offset) pairs: the largest epoch not above the one asked for ends
    where the next larger one begins, the last one at the log end."""
    if asked < 0 or not written or asked > written[-1][0]:
        return UNDEFINED
    if asked == written[-1][0]:
        return asked, log_end
    end = min(offset for epoch, offset in written if epoch > asked)
    floor = [epoch for epoch, _ in written if epoch <= asked]
    return (floor[-1] if floor else asked), end


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    """(epoch, first offset) of epochs that wrote something, and the log end."""
    epochs = sorted(draw(st.sets(st.integers(0, 40), max_size=8)))
    offset, written = draw(st.integers(0, 5)), []
    for epoch in epochs:
        written.append((epoch, offset))
        offset += draw(st.integers(1, 5))
    return written, offset


@settings(deadline=None)
@given(logs())
def test_an_epoch_ends_where_the_rules_say(log: tuple[list[tuple[int, int]], int]) -> None:
    written, log_end = log
    epochs = Epochs()
    for epoch, offset in written:
        assert epochs.begin(epoch, offset)
    for asked in range(-2, 44):
        assert epochs.end_of(asked, log_end) == model_end(written, asked, log_end)


@settings(deadline=None)
@given(logs(), st.integers(0, 50))
def test_after_a_truncation_the_rules_hold_for_what_is_left(
    log: tuple[list[tuple[int, int]], int], cut: int
) -> None:
    written, log_end = log
    epochs = Epochs(list(written))
    epochs.truncate(cut)
    left = [(epoch, offset) for epoch, offset in written if offset < cut]
    for asked in range(-2, 44):
        assert epochs.end_of(asked, min(cut, log_end)) == model_end(left, asked, min(cut, log_end))


@settings(deadline=None)
@given(logs(), st.integers(0, 50))
def test_after_a_trim_the_covering_epoch_begins_at_the_log_start(
    log: tuple[list[tuple[int, int]], int], start: int
) -> None:
    written, _ = log
    epochs = Epochs(list(written))
    epochs.trim(start)
    covering = [epoch for epoch, offset in written if offset <= start]
    kept = [(epoch, offset) for epoch, offset in written if offset > start]
    assert epochs.entries == ([(covering[-1], start)] if covering else []) + kept


def test_an_epoch_that_wrote_nothing_gives_way_and_an_old_one_is_refused() -> None:
    epochs = Epochs()
    assert epochs.begin(3, 10)
    assert epochs.begin(5, 10)
    assert epochs.entries == [(5, 10)]
    assert not epochs.begin(5, 20)
    assert not epochs.begin(4, 20)
    assert epochs.begin(8, 20)
    assert epochs.entries == [(5, 10), (8, 20)]


def test_the_file_is_in_kafkas_form() -> None:
    epochs = Epochs([(0, 0), (16, 42), (32, 99)])
    assert epochs.to_bytes() == b"0\n3\n0 0\n16 42\n32 99\n"
    again = epochs_file.from_bytes(epochs.to_bytes())
    assert again is not None
    assert again.entries == epochs.entries


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"0\n",
        b"0\nmany\n",
        b"0\n\n",
        b"1\n1\n0 0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\n0 x\n",
        b"0\n2\n5 10\n6 3\n",
        b"0\n2\n5 10\n5 12\n",
        b"0\n2\n5 10\n6 10\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n0 -5\n",
        b"\xff\xfe\n1\n",
        bytes(30),
    ],
)
def test_a_damaged_file_is_not_believed(damaged: bytes) -> None:
    assert epochs_file.from_bytes(damaged) is None


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_garbage_never_raises(garbage: bytes) -> None:
    epochs_file.from_bytes(garbage)
    epochs_file.from_bytes(b"0\n" + garbage)


# In a partition


async def test_each_start_opens_an_epoch_that_batches_carry(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        for _ in range(3):
            shelf.append(batch(b"a", b"b"))
            await shelf.stop()
            shelf.start()
        assert [peek(one).leader_epoch for one in shelf.stored()] == [0, 16, 32]
        assert shelf[0].log.epochs.entries == [(0, 0), (16, 2), (32, 4)]


async def test_a_start_that_writes_nothing_leaves_no_epoch(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append()
        for _ in range(3):
            shelf.restart()
        shelf.append()
        assert shelf[0].log.epochs.entries == [(0, 0), (48, 1)]


async def test_readers_are_told_where_epochs_ended(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append(batch(b"0", b"1", b"2"))
        shelf.restart()  # 16
        shelf.append(batch(b"3", b"4"))
        shelf.restart()  # 32: has written nothing yet
        partition = shelf[0]
        answers = {epoch: partition.end_of_epoch(epoch) for epoch in (-1, 0, 5, 16, 20, 32, 33)}
        assert answers == {
            -1: UNDEFINED,
            0: (0, 3),
            5: (0, 3),
            16: (16, 5),
            20: (16, 5),
            32: (32, 5),
            33: UNDEFINED,
        }
        shelf.append(batch(b"5"))
        assert [partition.end_of_epoch(epoch) for epoch in (16, 20, 32)] == [
            (16, 5),
            (16, 5),
            (32, 6),
        ]
        assert [partition.epoch_at(offset) for offset in range(7)] == [0, 0, 0, 16, 16, 32, 32]


async def test_a_partition_without_records_answers_as_one_that_has_just_begun(
    tmp_path: Path,
) -> None:
    """As Apache Kafka: its leader notes its epoch at the log end before the first record."""
    async with Shelf(tmp_path) as shelf:
        shelf.restart()
        assert shelf.epoch == 16
        answers = [shelf[0].end_of_epoch(epoch) for epoch in (-1, 5, 16, 17)]
        assert answers == [UNDEFINED, (5, 0), (16, 0), UNDEFINED]


async def test_a_reader_of_another_epoch_is_sent_to_look_again(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.restart()
        shelf[0].check_epoch(-1)
        shelf[0].check_epoch(16)
        with pytest.raises(FencedLeaderEpoch):
            shelf[0].check_epoch(15)
        with pytest.raises(UnknownLeaderEpoch):
            shelf[0].check_epoch(17)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"0\nx\n", b"\0" * 40, b"0\n2\n9 9\n3 3\n"])
async def test_a_lost_or_damaged_file_is_rebuilt_from_the_batches(
    tmp_path: Path, clean: bool, content: bytes | None
) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for _ in range(3):
            for _ in range(5):
                shelf.append(batch(b"v" * 300))
            shelf.restart()
        if clean:
            await shelf.stop()
        else:
            shelf.crash()
        path = shelf.partition_folder() / "leader-epoch-checkpoint"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        shelf.start()
        assert shelf[0].log.epochs.entries == [(0, 0), (16, 5), (32, 10)]
        await shelf.stop()
        assert path.read_bytes() == b"0\n3\n0 0\n16 5\n32 10\n"


async def test_the_file_is_complete_after_a_clean_stop_whatever_happened_before(
    tmp_path: Path,
) -> None:
    async with Shelf(tmp_path) as shelf:
        path = shelf.partition_folder() / "leader-epoch-checkpoint"
        shelf.append(batch(b"0", b"1", b"2", b"3"))
        shelf.restart()
        shelf.append(batch(b"4"))
        await shelf.stop()
        assert path.read_bytes() == b"0\n2\n0 0\n16 4\n"
        shelf.start()
        await shelf[0].trim(2)
        await shelf.stop()
        assert path.read_bytes() == b"0\n2\n0 2\n16 4\n"
        shelf.start()
        assert shelf[0].log.epochs.entries == [(0, 2), (16, 4)]


async def test_epochs_of_a_tail_that_was_cut_are_forgotten(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append(batch(b"0"))
        shelf.restart()
        shelf.append(batch(b"1"))
        shelf.restart()
        shelf.append(batch(b"2"))
        await shelf.stop()
        path = shelf.files(".meta")[0]
        path.write_bytes(path.read_bytes()[: len(batch(b"0"))])
        shelf.start()
        assert shelf[0].log_end == 1
        assert shelf[0].end_of_epoch(0) == (0, 1)
        await shelf.stop()
        shelf.start()
        assert shelf[0].log.epochs.entries in ([(0, 0)], [(0, 0), (16, 1)])
        assert shelf[0].end_of_epoch(32) == (shelf[0].log.epochs.latest, 1)
        shelf.append(batch(b"new"))
        assert shelf[0].log.epochs.entries == [(0, 0), (shelf.epoch, 1)]


@pytest.mark.slow
def test_a_broker_opens_a_new_epoch_with_each_start_and_tells_where_the_old_ones_ended(
    fresh_broker: BrokerProcess,
) -> None:
    epochs: list[int] = []
    for number, ending in enumerate((fresh_broker.stop, fresh_broker.kill, fresh_broker.kill)):
        with RawClient(fresh_broker.bootstrap) as client:
            answer = produce(client, "things", batch(b"a", b"b"), create=number == 0)
            assert answer.base_offset == 2 * number
            request = fetch_request("things", 2 * number)
            data = client.ask(request, FETCH_VERSION, FetchResponse).responses[0].partitions[0]
            epochs.append(peek(bytes(data.records or b"")).leader_epoch)
        ending()
        fresh_broker.start()
    assert epochs == sorted(set(epochs))
    asked = [*epochs, epochs[0] + 1, epochs[-1] + 1, epochs[-1] + 1000]
    with RawClient(fresh_broker.bootstrap) as client:
        partitions = [
            OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
            for epoch in asked
        ]
        ends = []
        for partition in partitions:  # one by one: a partition is not to be named twice
            topic = OffsetForLeaderTopic(topic="things", partitions=[partition])
            request_ends = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
            answer_ends = client.ask(request_ends, 4, OffsetForLeaderEpochResponse)
            (end,) = answer_ends.topics[0].partitions
            assert end.error_code == 0
            ends.append((end.leader_epoch, end.end_offset))
    first, second, third = epochs
    assert ends == [(first, 2), (second, 4), (third, 6), (first, 2), (third, 6), UNDEFINED]
