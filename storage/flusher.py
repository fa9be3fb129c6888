"""Who is synced up to where, and when the next sync is due.

A written partition is synced `flush.ms` later at the latest, at once when `flush.messages` records
are waiting, and at once with group commit: then everything that arrives while a sync runs is
covered by the next one, so the disk sets the pace and not the number of producers. The sync itself
runs in a thread; the loop never waits for a disk. A running sync holds its file open, so only a few
run at once and the others wait in line: thousands of partitions may be due in the same moment.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextlib import suppress

from kbroker.storage.checkpoint import Checkpoint, RecoveryPoint
from kbroker.storage.disk import Disk
from kbroker.storage.log import SyncWork
from kbroker.storage.partition import NO_SPACE, Partition

_SYNCS_AT_ONCE = 8  # twice the threads: none of them waits for the loop


class Flusher:
    """Syncs partitions, one sync at a time for each."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        disk: Disk,
        checkpoint: Checkpoint,
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._disk = disk
        self._checkpoint = checkpoint
        self._running = 0
        self._line: dict[Partition, None] = {}  # in order, each once
        self._stopped = False
        self.sync_count = 0

    def wrote(self, partition: Partition, now: bool) -> None:
        """A partition has new bytes: sync it now, or in its time."""
        if now:
            self.start(partition)
        elif partition.sync_timer is None:
            delay_s = min(partition.settings.flush_ms / 1000, 1e9)
            partition.sync_timer = self._loop.call_later(delay_s, self.start, partition)

    def start(self, partition: Partition) -> None:
        """Has a sync follow what is written by now: one that starts, or the next one."""
        if partition.sync_timer is not None:
            partition.sync_timer.cancel()
            partition.sync_timer = None
        if partition.syncing:
            partition.sync_again = True
        elif self._running >= _SYNCS_AT_ONCE:
            self._line[partition] = None
        else:
            self._begin(partition)

    def _begin(self, partition: Partition) -> None:
        if partition.offline is not None or partition.deleted or not partition.log.segments:
            return
        if self._stopped:
            return
        end = partition.log_end
        partition.unsynced_records = 0
        try:
            work = partition.log.take_unsynced()
        except OSError as problem:
            partition.fail(problem)
            return
        partition.syncing = True
        self._running += 1
        future = self._loop.run_in_executor(self._executor, self._sync, work)
        future.add_done_callback(lambda done: self._done(partition, end, work.point, done))

    def _sync(self, work: SyncWork) -> bool:
        """In a thread. False if there was no room for the small files."""
        for path in work.sealed:
            with suppress(FileNotFoundError):  # deleted meanwhile
                self._disk.sync(self._disk.open(path))
        self._disk.sync(work.active)
        complete = True
        for path, content in work.small_files:
            try:
                self._disk.write_small(path, content, durable=False)
            except OSError as problem:
                if problem.errno not in NO_SPACE:
                    raise
                complete = False
        if work.folder is not None:
            self._disk.sync_folder(work.folder)
            self._disk.sync_folder(work.folder.rpartition("/")[0])
        return complete

    def _done(
        self,
        partition: Partition,
        end: int,
        point: RecoveryPoint,
        done: asyncio.Future[bool],
    ) -> None:
        partition.syncing = False
        self.sync_count += 1
        self._running -= 1
        if partition.sync_again:
            partition.sync_again = False
            self._line[partition] = None  # behind those who wait already
        try:
            self._finish(partition, end, point, done)
        finally:
            while self._line and self._running < _SYNCS_AT_ONCE:
                waiting = next(iter(self._line))
                del self._line[waiting]
                self._begin(waiting)

    def _finish(
        self,
        partition: Partition,
        end: int,
        point: RecoveryPoint,
        done: asyncio.Future[bool],
    ) -> None:
        problem = done.exception()
        if partition.deleted:
            return
        if problem is not None:
            if not isinstance(problem, OSError):
                raise problem
            partition.fail(problem)
            return
        partition.synced_end = end
        if done.result():
            self._checkpoint.points[partition.log.key] = point
        else:
            partition.log.epochs_unsaved()
        partition.synced_thresholds.reached(end)

    def stop(self) -> None:
        """Begins no more syncs: everything is synced, or has failed."""
        self._stopped = True

    async def sync_now(self, partition: Partition) -> None:
        """Returns when everything written so far is on disk; raises if it cannot be."""
        waiting: asyncio.Future[None] = self._loop.create_future()

        def answer(error: BaseException | None) -> None:
            if waiting.done():
                return
            if error is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(error)

        if partition.offline is not None:
            raise partition.offline
        if partition.synced_end >= partition.log_end and not partition.syncing:
            return
        partition.synced_thresholds.add(partition.log_end, answer)
        self.start(partition)
        await waiting
