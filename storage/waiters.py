"""The waiting room: a request parks until enough has happened or its deadline has come.

A long poll parks as one `Waiter` on all the partitions it asked for; each append to one of them
counts down the bytes it still needs. Waiters that have enough run together once the current burst
of input has been dealt with, so that many small appends make one answer. Waiting for a sync (or,
with slaves, for the high watermark) is a threshold on one number of one partition: `Thresholds`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbroker.storage.partition import Partition


class Waiter:
    """One parked request; `action` runs once, with enough bytes, at the deadline or on a change."""

    __slots__ = ("action", "needed_bytes", "partitions", "ready", "timer")

    def __init__(self, needed_bytes: int, action: Callable[[], None]) -> None:
        self.needed_bytes = needed_bytes
        self.action = action
        self.partitions: list[Partition] = []
        self.timer: asyncio.TimerHandle | None = None
        self.ready = False


class WaitingRoom:
    """All parked requests of a broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: list[Waiter] = []
        self.parked_count = 0

    def park(self, waiter: Waiter, partitions: Iterable[Partition], wait_ms: int) -> None:
        """Waits on these partitions for at most `wait_ms`."""
        for partition in partitions:
            waiter.partitions.append(partition)
            partition.waiters.append(waiter)
        waiter.timer = self._loop.call_later(wait_ms / 1000, self._run, waiter)
        self.parked_count += 1

    def leave(self, waiter: Waiter) -> None:
        """Takes a waiter out without running it: its client has gone."""
        if waiter.timer is not None:
            waiter.timer.cancel()
            waiter.timer = None
            self.parked_count -= 1
        for partition in waiter.partitions:
            partition.waiters.remove(waiter)
        waiter.partitions.clear()

    def count(self, partition: Partition, size: int) -> None:
        """`size` more bytes can be read from a partition."""
        for waiter in partition.waiters:
            waiter.needed_bytes -= size
            if waiter.needed_bytes <= 0 and not waiter.ready:
                self._wake(waiter)

    def wake_all(self, partition: Partition) -> None:
        """Something else has changed (deleted, offline, trimmed): everyone must look again."""
        for waiter in partition.waiters:
            if not waiter.ready:
                self._wake(waiter)

    def _wake(self, waiter: Waiter) -> None:
        waiter.ready = True
        if not self._ready:
            self._loop.call_soon(self._run_ready)
        self._ready.append(waiter)

    def _run_ready(self) -> None:
        ready, self._ready = self._ready, []
        for waiter in ready:
            if waiter.timer is not None:
                self._run(waiter)

    def _run(self, waiter: Waiter) -> None:
        self.leave(waiter)
        waiter.action()


class Thresholds:
    """Callbacks that wait until a number which only grows has reached theirs.

    Thresholds come in rising order, as offsets do; one that does not waits with the one before it.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Callable[[BaseException | None], None]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, threshold: int, callback: Callable[[BaseException | None], None]) -> None:
        """Calls back with None once the number has reached `threshold`, or with an error."""
        waiting = self._waiting
        if waiting and waiting[-1][0] > threshold:  # a batch that was sent again
            threshold = waiting[-1][0]
        waiting.append((threshold, callback))

    def reached(self, value: int) -> None:
        """The number has grown to `value`."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= value:
            waiting.popleft()[1](None)

    def fail(self, error: BaseException) -> None:
        """The number will not grow any more."""
        waiting, self._waiting = self._waiting, deque()
        for _, callback in waiting:
            callback(error)
