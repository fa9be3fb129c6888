"""Who is synced up to where, and when the next sync is due.

A written partition is synced `flush.ms` later at the latest, at once when `flush.messages` records
are waiting, and at once with group commit: then everything that arrives while a sync runs is
covered by the next one, so the disk sets the pace and not the number of producers. The sync itself
runs in a thread; the loop never waits for a disk.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

from kbroker.storage.checkpoint import Checkpoint, RecoveryPoint
from kbroker.storage.disk import Disk
from kbroker.storage.log import SyncWork
from kbroker.storage.partition import Partition


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
        self.sync_count = 0

    def wrote(self, partition: Partition, now: bool) -> None:
        """A partition has new bytes: sync it now, or in its time."""
        if now:
            self.start(partition)
        elif partition.sync_timer is None:
            delay_s = min(partition.settings.flush_ms / 1000, 1e9)
            partition.sync_timer = self._loop.call_later(delay_s, self.start, partition)

    def start(self, partition: Partition) -> None:
        """Starts a sync, or notes that another one must follow the one that runs."""
        if partition.sync_timer is not None:
            partition.sync_timer.cancel()
            partition.sync_timer = None
        if partition.syncing:
            partition.sync_again = True
            return
        if partition.offline is not None or partition.deleted:
            return
        if not partition.log.segments:
            return
        end = partition.log_end
        partition.unsynced_records = 0
        try:
            work = partition.log.take_unsynced()
        except OSError as problem:
            partition.fail(problem)
            return
        partition.syncing = True
        future = self._loop.run_in_executor(self._executor, self._sync, work)
        future.add_done_callback(lambda done: self._done(partition, end, work.point, done))

    def _sync(self, work: SyncWork) -> None:
        for file in work.files:
            self._disk.sync(file)
        for path, content in work.small_files:
            self._disk.write_small(path, content, durable=False)
        if work.folder is not None:
            self._disk.sync_folder(work.folder)
            self._disk.sync_folder(work.folder.rpartition("/")[0])

    def _done(
        self,
        partition: Partition,
        end: int,
        point: RecoveryPoint,
        done: asyncio.Future[None],
    ) -> None:
        partition.syncing = False
        self.sync_count += 1
        problem = done.exception()
        if partition.deleted:
            return
        if problem is not None:
            if not isinstance(problem, OSError):
                raise problem
            partition.fail(problem)
            return
        partition.synced_end = end
        self._checkpoint.points[partition.log.key] = point
        if partition.sync_again:
            partition.sync_again = False
            self.start(partition)
        partition.synced_thresholds.reached(end)

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
        if partition.synced_end >= partition.log_end:
            return
        partition.synced_thresholds.add(partition.log_end, answer)
        self.start(partition)
        await waiting
