"""The store: which partitions exist on disk, and the one place that opens, creates and removes
them.

A partition is opened when it is first asked for. After a clean stop that costs a folder listing;
after an unclean one, the partitions that changed since their recovery point are checked before the
broker listens, several at a time. With 10,000 partitions only the files in use are open.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from kbroker.clock import Clock
from kbroker.config import TopicSettings
from kbroker.protocol.errors import KafkaStorageError, UnknownTopicOrPartition
from kbroker.storage.checkpoint import Checkpoint
from kbroker.storage.disk import Disk, FileCache
from kbroker.storage.flusher import Flusher
from kbroker.storage.log import Log
from kbroker.storage.partition import Partition
from kbroker.storage.recovery import Cut
from kbroker.storage.waiters import WaitingRoom

log = logging.getLogger("kbroker.storage")

_REPORT_FULL_EVERY_MS = 10_000


class Store:
    """All partitions of a data folder."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Disk,
        clock: Clock,
        folder: str,
        *,
        max_open_files: int = 2000,
    ) -> None:
        self.loop = loop
        self.disk = disk
        self.clock = clock
        self.folder = folder
        self.epoch = 0
        self.files = FileCache(max_open_files)
        self.checkpoint = Checkpoint(disk, folder)
        self.executor = ThreadPoolExecutor(4, thread_name_prefix="kbroker-disk")
        self.flusher = Flusher(loop, self.executor, disk, self.checkpoint)
        self.waiting_room = WaitingRoom(loop)
        self.trimming = asyncio.Lock()
        self.queued: list[Partition] = []
        self._after_write: list[Callable[[], None]] = []
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._full_reported_ms = -_REPORT_FULL_EVERY_MS

    # Opening

    def partition(
        self, topic: str, index: int, topic_id: bytes, settings: TopicSettings
    ) -> Partition:
        """An open partition; opened now if it is not. The caller knows that it exists."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            log_ = self._new_log(topic, index, topic_id)
            try:
                changed = log_.load(self.checkpoint.points.get(log_.key))
            except OSError as problem:
                log.error("open_failed partition=%s-%d error=%s", topic, index, problem)
                raise KafkaStorageError(f"{topic}-{index} cannot be read") from problem
            partition = self.adopt(topic, index, log_, settings)
            if changed:
                self._recovered(partition)
                self.report_cuts(log_.cuts)
        return partition

    def _new_log(self, topic: str, index: int, topic_id: bytes) -> Log:
        return Log(self.disk, self.files, f"{self.folder}/{topic}-{index}", topic_id)

    def adopt(self, topic: str, index: int, log_: Log, settings: TopicSettings) -> Partition:
        """Makes a loaded log a partition."""
        partition = Partition(self, topic, index, log_, settings)
        self._partitions[topic, index] = partition
        return partition

    def opened(self) -> Iterable[Partition]:
        """The partitions that are open now."""
        return self._partitions.values()

    def recover(
        self,
        wanted: Iterable[tuple[str, int, bytes, TopicSettings]],
        progress: Callable[[int, int], None],
    ) -> list[Cut]:
        """After an unclean stop: checks every partition that changed since its recovery point."""
        jobs = list(wanted)

        def check(job: tuple[str, int, bytes, TopicSettings]) -> tuple[Log, bool]:
            topic, index, topic_id, _ = job
            log_ = self._new_log(topic, index, topic_id)
            return log_, log_.load(self.checkpoint.points.get(log_.key))

        cuts: list[Cut] = []
        for done, (job, (log_, changed)) in enumerate(
            zip(jobs, self.executor.map(check, jobs), strict=True), 1
        ):
            cuts += log_.cuts
            if changed:
                topic, index, _, settings = job
                self._recovered(self.adopt(topic, index, log_, settings))
            else:
                log_.close()
            progress(done, len(jobs))
        self.report_cuts(cuts)
        return cuts

    def _recovered(self, partition: Partition) -> None:
        """What was found after an unclean stop is whole, but perhaps not on disk yet."""
        partition.synced_end = partition.log.start
        if partition.log.cuts:
            self.checkpoint.points.pop(partition.log.key, None)  # it vouched for what is gone
        self.flusher.start(partition)

    def report_cuts(self, cuts: list[Cut]) -> None:
        """One line for each torn tail: what went, and where it can be looked at.

        The stored recovery points vouch for what was cut: they are replaced before anything is
        written in its place.
        """
        if cuts:
            self._save_points(self.checkpoint.to_bytes())
        for cut in cuts:
            log.warning(
                "tail_cut file=%s at=%d removed_bytes=%d next_offset=%d reason=%r kept_in=%s",
                os.path.relpath(cut.path, self.folder),
                cut.position,
                cut.removed_bytes,
                cut.next_offset,
                cut.reason,
                os.path.relpath(cut.kept_in, self.folder) if cut.kept_in else "-",
            )

    # Writing

    def after_write(self, action: Callable[[], None]) -> None:
        """Runs `action` once the batches queued so far have been written, or have failed."""
        self._after_write.append(action)

    def write(self) -> None:
        """Writes everything queued, then runs the actions that waited for it."""
        if self.queued:
            queued, self.queued = self.queued, []
            for partition in queued:
                partition.write()
        if self._after_write:
            actions, self._after_write = self._after_write, []
            for action in actions:
                action()

    def report_full(self, partition: Partition, problem: OSError) -> None:
        """Says that the disk is full, but not for each refused request."""
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._full_reported_ms >= _REPORT_FULL_EVERY_MS:
            self._full_reported_ms = now_ms
            log.error(
                "disk_full partition=%s error=%r hint=%s",
                partition,
                problem.strerror,
                "reading goes on; writing resumes by itself when there is room",
            )

    # Removing

    def detach(self, topic: str, index: int, topic_id: bytes) -> None:
        """Takes a partition out of use at once, so that a topic of the same name can be made.

        Its files wait under another name until `discard`: the deletion may not be durable yet.
        """
        partition = self._partitions.pop((topic, index), None)
        log_ = partition.log if partition is not None else self._new_log(topic, index, topic_id)
        self.checkpoint.points.pop(log_.key, None)
        if partition is not None:
            partition.deleted = True
            partition.synced_thresholds.fail(UnknownTopicOrPartition(f"{topic} was deleted"))
            self.waiting_room.wake_all(partition)
            log_.close()
        with suppress(FileNotFoundError):
            self.disk.rename(log_.folder, self._leaving(index, topic_id))

    def discard(self, index: int, topic_id: bytes) -> None:
        """Removes a detached partition's files, in a thread."""
        path = self._leaving(index, topic_id)
        self.loop.run_in_executor(self.executor, self.disk.remove_folder, path)

    def _leaving(self, index: int, topic_id: bytes) -> str:
        return f"{self.folder}/.{topic_id.hex()}-{index}.deleted"

    def sweep(self, name_of: Callable[[bytes], str | None]) -> None:
        """At the start: finishes deletions that a crash has interrupted.

        `name_of` gives the name of a topic that exists: then its deletion never became durable.
        """
        for name in self.disk.list(self.folder):
            if not (name.startswith(".") and name.endswith(".deleted")):
                continue
            id_text, _, index = name[1:].removesuffix(".deleted").partition("-")
            if len(id_text) != 32 or not index.isdigit():
                continue
            topic = name_of(bytes.fromhex(id_text))
            if topic is None:
                self.discard(int(index), bytes.fromhex(id_text))
            else:
                self.disk.rename(f"{self.folder}/{name}", f"{self.folder}/{topic}-{index}")

    async def in_thread(self, work: Callable[[int], None], argument: int) -> None:
        """Does work that waits for the disk where the loop does not wait with it."""
        await self.loop.run_in_executor(self.executor, work, argument)

    # Checkpoints

    async def save_checkpoint(self) -> None:
        """Saves the recovery points reached so far."""
        content = self.checkpoint.to_bytes()  # here: a thread must not walk what the loop changes
        await self.loop.run_in_executor(self.executor, self._save_points, content)

    def _save_points(self, content: bytes) -> None:
        try:
            self.checkpoint.save(content)
        except OSError as problem:
            log.warning("checkpoint_failed error=%s hint='the next start checks more'", problem)

    async def close(self) -> None:
        """A clean stop: everything synced, recovery points complete, the mark set."""
        self.write()
        clean = True
        partitions = list(self._partitions.values())
        syncs = (self.flusher.sync_now(partition) for partition in partitions)
        outcomes = await asyncio.gather(*syncs, return_exceptions=True)
        self.flusher.stop()
        for partition, outcome in zip(partitions, outcomes, strict=True):
            try:
                if outcome is not None:
                    raise outcome
                point = partition.save()
            except Exception as problem:
                clean = False
                log.error("unclean_close partition=%s error=%s", partition, problem)
                continue
            if point is not None:
                self.checkpoint.points[partition.log.key] = point
            partition.log.close()
        self.executor.shutdown()  # a periodic checkpoint may still be under way
        try:
            self.checkpoint.save(self.checkpoint.to_bytes(), clean=clean)
        except OSError as problem:
            log.error("unclean_close error=%s hint='the next start checks everything'", problem)
