"""The waiting room: each waiter is woken once, by enough bytes, its deadline or a change."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from kbroker.storage.waiters import Thresholds, Waiter, WaitingRoom
from tests.storage.batches import batch_of_size
from tests.storage.shelf import Shelf, until


class Guest:
    """A parked request that counts how often it was woken."""

    def __init__(self, shelf: Shelf, needed_bytes: int, wait_ms: int, *numbers: int) -> None:
        self.woken = 0
        self.room = shelf.store.waiting_room
        self.waiter = Waiter(needed_bytes, self._wake)
        self.room.park(self.waiter, [shelf[number] for number in numbers or (0,)], wait_ms)

    def _wake(self) -> None:
        self.woken += 1


async def turns(count: int = 3) -> None:
    """Lets everything that is due on the loop run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_waiter_is_woken_when_enough_bytes_have_come(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        guest = Guest(shelf, 250, 60_000)
        for expected in (0, 0, 1, 1):
            shelf.append(batch_of_size(100))
            await turns()
            assert guest.woken == expected
        assert guest.room.parked_count == 0
        assert shelf[0].waiters == []


async def test_bytes_of_all_its_partitions_count_together(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=3) as shelf:
        guest = Guest(shelf, 250, 60_000, 0, 1, 2)
        shelf.append(batch_of_size(100), 0)
        shelf.append(batch_of_size(100), 2)
        await turns()
        assert guest.woken == 0
        shelf.append(batch_of_size(100), 1)
        await turns()
        assert guest.woken == 1
        assert all(shelf[number].waiters == [] for number in range(3))


async def test_many_appends_of_one_burst_make_one_awakening(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=2) as shelf:
        guest = Guest(shelf, 1, 60_000, 0, 1)
        for number in (0, 1, 0, 1):
            shelf.append(batch_of_size(100), number)
        assert guest.woken == 0, "not in the middle of the burst"
        await turns()
        assert guest.woken == 1


async def test_what_is_only_queued_wakes_nobody(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        guest = Guest(shelf, 1, 60_000)
        shelf.queue(batch_of_size(100))
        await turns()
        assert guest.woken == 0
        shelf.store.write()
        await turns()
        assert guest.woken == 1


async def test_the_deadline_wakes_a_waiter_that_got_too_little(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        began = time.monotonic()
        guest = Guest(shelf, 1000, 50)
        shelf.append(batch_of_size(100))
        await until(lambda: guest.woken, "the deadline")
        assert time.monotonic() - began >= 0.045
        assert guest.room.parked_count == 0
        shelf.append(batch_of_size(2000))
        await turns()
        assert guest.woken == 1


async def test_a_client_that_leaves_is_never_woken(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=2) as shelf:
        early, late = Guest(shelf, 1, 60_000, 0, 1), Guest(shelf, 1, 60_000, 0)
        early.room.leave(early.waiter)
        shelf.append(batch_of_size(100))
        late.room.leave(late.waiter)  # it was about to be woken
        late.room.leave(late.waiter)
        await turns()
        assert (early.woken, late.woken) == (0, 0)
        assert early.room.parked_count == 0
        assert shelf[0].waiters == shelf[1].waiters == []


async def test_a_change_wakes_everyone_on_that_partition_once(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=2) as shelf:
        here = [Guest(shelf, 1000, 60_000, 0) for _ in range(5)]
        there = Guest(shelf, 1000, 60_000, 1)
        room = shelf.store.waiting_room
        room.wake_all(shelf[0])
        room.wake_all(shelf[0])
        await turns()
        assert [guest.woken for guest in here] == [1] * 5
        assert there.woken == 0
        assert room.parked_count == 1
        room.leave(there.waiter)


async def test_a_waiter_may_name_a_partition_twice(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        guest = Guest(shelf, 150, 60_000, 0, 0)
        shelf.append(batch_of_size(100))
        await turns()
        assert guest.woken == 1
        assert shelf[0].waiters == []


async def test_a_waiter_woken_by_another_may_park_again_at_once(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        room: WaitingRoom = shelf.store.waiting_room
        woken: list[str] = []

        def again() -> None:
            woken.append("first")
            room.park(Waiter(1, lambda: woken.append("second")), [shelf[0]], 60_000)

        room.park(Waiter(1, again), [shelf[0]], 60_000)
        shelf.append(batch_of_size(100))
        await turns()
        assert woken == ["first"]
        shelf.append(batch_of_size(100))
        await turns()
        assert woken == ["first", "second"]


# Thresholds


class Calls:
    """What callbacks were told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, BaseException | None]] = []

    def add(self, thresholds: Thresholds, threshold: int, name: str) -> None:
        """Waits for a number."""
        thresholds.add(threshold, lambda error: self.told.append((name, error)))


def test_thresholds_are_told_in_order_when_the_number_reaches_them() -> None:
    thresholds, calls = Thresholds(), Calls()
    for threshold in (3, 5, 5, 9):
        calls.add(thresholds, threshold, f"at {threshold}")
    thresholds.reached(4)
    assert calls.told == [("at 3", None)]
    thresholds.reached(5)
    assert calls.told == [("at 3", None), ("at 5", None), ("at 5", None)]
    assert thresholds
    thresholds.reached(100)
    assert len(calls.told) == 4
    assert not thresholds


def test_a_threshold_below_the_last_one_waits_with_it() -> None:
    """A batch that is sent again waits for its first copy, while later ones wait already."""
    thresholds, calls = Thresholds(), Calls()
    calls.add(thresholds, 9, "later")
    calls.add(thresholds, 3, "sent again")
    thresholds.reached(3)
    assert calls.told == []
    thresholds.reached(9)
    assert [name for name, _ in calls.told] == ["later", "sent again"]


def test_a_failure_is_told_to_all_who_wait_and_to_none_of_those_who_are_done() -> None:
    thresholds, calls = Thresholds(), Calls()
    for threshold in (1, 2, 3):
        calls.add(thresholds, threshold, str(threshold))
    thresholds.reached(1)
    problem = OSError("broken")
    thresholds.fail(problem)
    assert calls.told == [("1", None), ("2", problem), ("3", problem)]
    thresholds.reached(10)
    assert len(calls.told) == 3


async def test_thousands_may_wait_on_one_partition(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        guests = [Guest(shelf, 1, 60_000) for _ in range(10_000)]
        shelf.append(batch_of_size(100))
        await turns()
        assert all(guest.woken == 1 for guest in guests)
