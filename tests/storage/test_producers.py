"""Idempotence: a window of five batches for each producer, the same after every kind of restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol.batch import peek
from kbroker.protocol.errors import InvalidProducerEpoch, KafkaError, OutOfOrderSequenceNumber
from kbroker.storage import producers as producers_file
from kbroker.storage.producers import Producers
from tests.storage.batches import Sender, batch, batch_of_size
from tests.storage.running import in_a_folder
from tests.storage.shelf import Shelf

WRAP = 1 << 31


@dataclass
class Model:
    """The rules, written as plainly as possible: the whole history of each producer."""

    history: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    log_end: int = 0

    def send(self, sender: Sender, count: int) -> int | type[KafkaError]:
        """The offset that the batch is answered with, or the error."""
        producer_id, epoch, first = sender
        last = (first + count - 1) % WRAP
        known = self.history.get(producer_id, [])
        newest_epoch = max((entry[0] for entry in known), default=-1)
        if known and epoch < newest_epoch:
            return InvalidProducerEpoch
        if known and epoch > newest_epoch and first != 0:
            return OutOfOrderSequenceNumber
        of_epoch = [entry for entry in known if entry[0] == epoch]
        for _, known_first, known_last, offset in of_epoch[-5:]:
            if (known_first, known_last) == (first, last):
                return offset
        if of_epoch and first != (of_epoch[-1][2] + 1) % WRAP:
            return OutOfOrderSequenceNumber
        offset, self.log_end = self.log_end, self.log_end + count
        self.history.setdefault(producer_id, []).append((epoch, first, last, offset))
        return offset


def send(shelf: Shelf, sender: Sender, count: int = 1, size: int = 5) -> int | type[KafkaError]:
    """What a partition answers, in the words of the model."""
    try:
        append = shelf.append(batch(*[b"v" * size] * count, sender=sender))
    except (InvalidProducerEpoch, OutOfOrderSequenceNumber) as problem:
        return type(problem)
    assert append.error is None
    assert append.last_offset == append.base_offset + count - 1
    return append.base_offset


# The rules one by one


async def test_a_repeated_batch_is_answered_with_its_first_offset_and_not_stored(
    tmp_path: Path,
) -> None:
    async with Shelf(tmp_path) as shelf:
        send(shelf, Sender(9, 0, 100), 3)
        for number in range(5):
            assert send(shelf, Sender(7, 0, number * 2), 2) == 3 + number * 2
        for number in range(5):
            assert send(shelf, Sender(7, 0, number * 2), 2) == 3 + number * 2
        assert shelf[0].log_end == 13
        assert len(shelf.stored()) == 6


async def test_the_window_is_five_batches_and_the_sixth_is_out_of_order(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        for number in range(6):
            send(shelf, Sender(7, 0, number))
        assert send(shelf, Sender(7, 0, 0)) is OutOfOrderSequenceNumber
        assert [send(shelf, Sender(7, 0, number)) for number in range(1, 6)] == [1, 2, 3, 4, 5]


async def test_a_gap_is_refused_and_the_right_batch_is_still_welcome(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        send(shelf, Sender(7, 0, 0), 3)
        for wrong in (4, 5, 2, 1):
            assert send(shelf, Sender(7, 0, wrong)) is OutOfOrderSequenceNumber
        assert send(shelf, Sender(7, 0, 3)) == 3


async def test_a_batch_with_the_same_start_and_another_end_is_no_repetition(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        send(shelf, Sender(7, 0, 0), 3)
        assert send(shelf, Sender(7, 0, 0), 2) is OutOfOrderSequenceNumber


async def test_sequence_numbers_wrap_after_the_largest_int(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        assert send(shelf, Sender(7, 0, WRAP - 3), 2) == 0
        assert send(shelf, Sender(7, 0, WRAP - 1), 4) == 2  # WRAP - 1, 0, 1, 2
        assert send(shelf, Sender(7, 0, 4)) is OutOfOrderSequenceNumber
        assert send(shelf, Sender(7, 0, WRAP - 1), 4) == 2
        assert send(shelf, Sender(7, 0, 3)) == 6
        shelf.restart()
        assert send(shelf, Sender(7, 0, WRAP - 1), 4) == 2
        assert send(shelf, Sender(7, 0, 4)) == 7


async def test_the_last_sequence_of_all_is_followed_by_zero(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        send(shelf, Sender(7, 0, WRAP - 1))
        assert send(shelf, Sender(7, 0, 0)) == 1


async def test_a_new_epoch_starts_at_zero_and_the_old_one_is_fenced(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        send(shelf, Sender(7, 3, 0), 2)
        assert send(shelf, Sender(7, 4, 2)) is OutOfOrderSequenceNumber
        assert send(shelf, Sender(7, 4, 0)) == 2
        assert send(shelf, Sender(7, 3, 2)) is InvalidProducerEpoch
        assert send(shelf, Sender(7, 3, 0), 2) is InvalidProducerEpoch
        assert send(shelf, Sender(7, 4, 1)) == 3


async def test_an_unknown_producer_may_start_anywhere(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        assert send(shelf, Sender(7, 5, 12345)) == 0
        assert send(shelf, Sender(7, 5, 12346)) == 1
        assert send(shelf, Sender(7, 5, 12348)) is OutOfOrderSequenceNumber


async def test_producers_do_not_disturb_each_other_within_one_burst(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        appends = [
            shelf.queue(batch(b"v", sender=Sender(producer_id, 0, number)))
            for number in range(4)
            for producer_id in (1, 2, 3)
        ]
        again = shelf.queue(batch(b"v", sender=Sender(2, 0, 1)))
        shelf.store.write()
        assert [append.base_offset for append in appends] == list(range(12))
        assert again.base_offset == 4
        assert shelf[0].log_end == 12


async def test_an_expired_producer_is_forgotten_and_may_start_anywhere(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        send(shelf, Sender(7, 0, 0))
        shelf[0].expire_producers(shelf.clock.now_ms())
        assert send(shelf, Sender(7, 0, 5)) is OutOfOrderSequenceNumber
        shelf[0].expire_producers(shelf.clock.now_ms() + 1)
        assert send(shelf, Sender(7, 0, 5)) == 1


# Any history at all

steps = st.lists(
    st.one_of(
        st.tuples(st.just("next"), st.integers(1, 2), st.integers(1, 4)),
        st.tuples(st.just("again"), st.integers(1, 2), st.integers(1, 7)),
        st.tuples(st.just("gap"), st.integers(1, 2), st.integers(1, 3)),
        st.tuples(st.just("bump"), st.integers(1, 2), st.integers(0, 1)),
        st.tuples(st.just("plain"), st.just(-1), st.integers(1, 3)),
        st.tuples(st.sampled_from(["stop", "crash"]), st.just(-1), st.just(0)),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=120, deadline=None)
@given(steps, st.sampled_from([1024, 1 << 20]), st.sampled_from([0, WRAP - 5]))
def test_any_history_is_answered_as_the_rules_say_over_rolls_stops_and_crashes(
    history: list[tuple[str, int, int]], segment_bytes: int, first_sequence: int
) -> None:
    async def check(folder: Path) -> None:
        model = Model()
        at = {1: Sender(1, 0, first_sequence), 2: Sender(2, 0, first_sequence)}
        sent: dict[int, list[tuple[Sender, int]]] = {1: [], 2: []}
        async with Shelf(folder, {"segment.bytes": segment_bytes}) as shelf:

            def both(sender: Sender, count: int) -> None:
                expected = model.send(sender, count)
                assert send(shelf, sender, count, size=100) == expected
                if expected == model.log_end - count:  # stored now, or earlier as the last one
                    after = (sender.sequence + count) % WRAP
                    at[sender.producer_id] = sender._replace(sequence=after)
                    sent[sender.producer_id].append((sender, count))

            for action, producer_id, number in history:
                match action:
                    case "next":
                        both(at[producer_id], number)
                    case "again" if len(sent[producer_id]) >= number:
                        both(*sent[producer_id][-number])
                    case "gap":
                        one = at[producer_id]
                        both(one._replace(sequence=(one.sequence + number) % WRAP), 1)
                    case "bump":
                        at[producer_id] = Sender(producer_id, at[producer_id].epoch + 1, number)
                        both(at[producer_id], 1)
                    case "plain":
                        model.log_end += number
                        shelf.append(batch(*[b"v" * 200] * number))
                    case "stop":
                        await shelf.stop()
                        shelf.start()
                    case "crash":
                        shelf.restart()
                assert shelf[0].log_end == model.log_end

    in_a_folder(check)


# Snapshots


def some_producers() -> Producers:
    state = Producers()
    for number in range(12):
        header = peek(batch(b"v", b"w", sender=Sender(number % 3, number // 9, number * 2)))
        state.note(header, number * 2)
    return state


def test_a_snapshot_comes_back_as_it_was() -> None:
    state = some_producers()
    again = producers_file.from_bytes(state.to_bytes())
    assert again is not None
    assert again.to_bytes() == state.to_bytes()
    assert {pid: list(entry.batches) for pid, entry in again.entries.items()} == {
        pid: list(entry.batches) for pid, entry in state.entries.items()
    }


def test_a_snapshot_with_any_byte_changed_or_missing_is_not_used() -> None:
    stored = some_producers().to_bytes()
    for at in range(len(stored)):
        for bit in range(8):
            damaged = bytearray(stored)
            damaged[at] ^= 1 << bit
            assert producers_file.from_bytes(bytes(damaged)) is None, (at, bit)
        assert producers_file.from_bytes(stored[:at]) is None, at


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_no_snapshot(garbage: bytes) -> None:
    assert producers_file.from_bytes(garbage) is None


async def test_a_roll_leaves_a_snapshot_and_only_the_newest_two_stay(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for number in range(20):
            send(shelf, Sender(7, 0, number), size=400)
        rolled = [path.stem for path in shelf.files(".meta")]
        assert [path.stem for path in shelf.files(".snapshot")] == rolled[-2:]


@pytest.mark.parametrize("newest_only", [True, False])
async def test_a_damaged_snapshot_is_passed_over(tmp_path: Path, newest_only: bool) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for number in range(20):
            send(shelf, Sender(7, 0, number), size=400)
        snapshots = shelf.files(".snapshot")
        shelf.crash()
        for path in snapshots[-1:] if newest_only else snapshots:
            path.write_bytes(path.read_bytes()[:-7])
        shelf.start()
        assert send(shelf, Sender(7, 0, 14)) is OutOfOrderSequenceNumber
        assert [send(shelf, Sender(7, 0, number), size=400) for number in (15, 19)] == [15, 19]
        assert send(shelf, Sender(7, 0, 20)) == 20


async def test_a_snapshot_of_records_that_were_lost_is_not_believed(tmp_path: Path) -> None:
    """A clean stop stores a snapshot at the log end. If the tail is damaged after that, the log
    ends earlier, grows again past the snapshot's offset, and the snapshot speaks of batches that
    are gone: a producer that sends one of them again would be told that it is stored."""
    async with Shelf(tmp_path) as shelf:
        for number in range(6):
            send(shelf, Sender(7, 0, number))
        await shelf.stop()
        path = shelf.files(".meta")[0]
        path.write_bytes(path.read_bytes()[:-1])
        shelf.start()
        assert shelf[0].log_end == 5
        assert send(shelf, Sender(8, 0, 0)) == 5  # another producer takes the place
        shelf.restart()
        assert send(shelf, Sender(7, 0, 5)) == 6
        assert [record.offset for record in shelf.records()] == list(range(7))


async def test_a_big_log_is_not_read_again_for_its_producers_after_a_clean_stop(
    tmp_path: Path,
) -> None:
    from tests.storage.disks import CountingDisk

    disk = CountingDisk()
    async with Shelf(tmp_path, disk=disk) as shelf:
        send(shelf, Sender(7, 0, 0))
        for _ in range(50):
            shelf.append(batch_of_size(9000))
        await shelf.stop()
        disk.read_bytes.clear()
        shelf.start()
        assert send(shelf, Sender(7, 0, 1)) == 51
        assert disk.read_bytes[".meta"] <= 64 << 10  # a look at the first batch, for its age
