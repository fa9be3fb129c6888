"""A partition is what handlers see: a log plus what is known about it while it is open.

Appending has two steps. `append` checks a batch, gives it its offsets and puts it in a queue;
`write` puts the queue on disk with one system call. A connection calls `write` (through the store)
once per burst of input, after the last request of the burst and before the first answer leaves: an
answer never runs ahead of its bytes.

    log start <= high watermark <= log end <= next offset        synced end <= log end

A failed write or sync takes the partition offline: nothing is acknowledged until a restart has
recovered it. A full disk is different: the bytes are taken back, producers are told to retry, and
the next produce tries again. Reading goes on in both cases.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import TYPE_CHECKING

from kbroker.config import TopicSettings
from kbroker.protocol import records
from kbroker.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    BatchHeader,
    peek,
    restamp_time,
    stamp,
)
from kbroker.protocol.compression import CODEC_IDS
from kbroker.protocol.errors import (
    FencedLeaderEpoch,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from kbroker.setting import LONG_MAX
from kbroker.storage import times
from kbroker.storage.checkpoint import RecoveryPoint
from kbroker.storage.log import Log
from kbroker.storage.producer_loading import load_producers
from kbroker.storage.producers import Producers
from kbroker.storage.segment import FileSlice
from kbroker.storage.times import Found
from kbroker.storage.waiters import Thresholds, Waiter

if TYPE_CHECKING:
    from kbroker.storage.store import Store

log = logging.getLogger("kbroker.storage")

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_LONG_WALK = 1000  # batches


class Append:
    """The fate of one batch: where it went, or why it did not."""

    __slots__ = ("base_offset", "error", "last_offset", "log_append_time_ms", "must_sync")

    def __init__(self, base_offset: int, last_offset: int, log_append_time_ms: int) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.must_sync = False
        self.error: KafkaError | None = None


class Partition:
    """One ordered log of a topic."""

    __slots__ = (
        "_appends",
        "_buffers",
        "_producers",
        "_queue",
        "_queued_bytes",
        "_snapshot",
        "deleted",
        "high_watermark",
        "index",
        "log",
        "log_end",
        "next_offset",
        "offline",
        "settings",
        "store",
        "sync_again",
        "sync_timer",
        "synced_end",
        "synced_thresholds",
        "syncing",
        "topic",
        "unsynced_records",
        "waiters",
    )

    def __init__(
        self, store: Store, topic: str, index: int, log: Log, settings: TopicSettings
    ) -> None:
        self.store = store
        self.topic = topic
        self.index = index
        self.log = log
        self.settings = settings
        self.next_offset = self.log_end = self.high_watermark = log.end
        self.synced_end = log.end
        self.unsynced_records = 0
        self.offline: KafkaError | None = None
        self.deleted = False
        self.waiters: list[Waiter] = []
        self.synced_thresholds = Thresholds()
        self.syncing = self.sync_again = False
        self.sync_timer: asyncio.TimerHandle | None = None
        self._producers = log.producers
        self._snapshot: tuple[int, bytes] | None = None
        self._buffers: list[memoryview] = []
        self._queue: list[tuple[BatchHeader, int]] = []
        self._appends: list[Append] = []
        self._queued_bytes = 0

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def log_start(self) -> int:
        """The first offset that can be read."""
        return self.log.start

    # Appending

    def append(self, view: memoryview, header: BatchHeader) -> Append:
        """Queues a verified batch of a producer under the next offsets; `write` makes it real."""
        if self.offline is not None:
            raise self.offline
        settings = self.settings
        if len(view) > settings.max_message_bytes:
            raise MessageTooLarge(
                f"a batch of {len(view)} bytes is larger than {self.topic}'s max.message.bytes"
                f" {settings.max_message_bytes}"
            )
        (_, _, _, _, _, attributes, last_delta, base_time, max_time, producer_id, _, _, count) = (
            header
        )
        if count != last_delta + 1 or count <= 0:
            raise InvalidRecord(f"{count} records with a last offset delta of {last_delta}")
        if attributes & CONTROL:
            raise InvalidRecord("only the broker writes control batches")
        producers = self._producers
        if producers is None:
            producers = self.producers
        if producer_id >= 0:
            if header.base_sequence < 0 or header.producer_epoch < 0:
                raise InvalidRecord("an idempotent batch needs an epoch and a sequence number")
            first_offset = producers.check(header)
            if first_offset is not None:
                return self._repeated(Append(first_offset, first_offset + last_delta, -1))
        log_append_time_ms = -1
        if settings.log_append_time:
            log_append_time_ms = max_time = self.store.clock.now_ms()
            restamp_time(view, attributes | LOG_APPEND_TIME, max_time)
        elif max_time < base_time or attributes & LOG_APPEND_TIME:
            newest = records.max_timestamp_record(view)
            max_time = newest[1] if newest is not None else -1
            restamp_time(view, attributes & ~LOG_APPEND_TIME, max_time)
        if not settings.log_append_time:
            self._check_time(max_time)
        if settings.compacted:
            for record in records.iterate(view):
                if record.key is None:
                    raise InvalidRecord(f"{self.topic} is compacted: each record needs a key")
        wanted = settings.compression_type
        if wanted != "producer" and CODEC_IDS[wanted] != attributes & CODEC_MASK:
            view = memoryview(bytearray(records.recompress(view, CODEC_IDS[wanted])))
        if header.max_timestamp != max_time or len(view) != header.size:
            header = peek(view)
        return self._enqueue(view, header, log_append_time_ms)

    def _enqueue(self, view: memoryview, header: BatchHeader, log_append_time_ms: int) -> Append:
        size = len(view)
        settings = self.settings
        log_ = self.log
        try:
            if log_.segments:
                filled = log_.segments[-1].size + self._queued_bytes + size
                if filled > settings.segment_bytes and self._queue:
                    error = self.write()
                    if error is not None:
                        raise error  # not this one without those before it
            if not self._queue:
                segments = len(log_.segments)
                log_.writable(
                    size, header.max_timestamp, settings.segment_bytes, settings.segment_ms
                )
                if len(log_.segments) > segments > 0:
                    self._rolled()
                if log_.epochs.latest != self.store.epoch or segments == 0:
                    log_.begin_epoch(self.store.epoch)
                self.store.queued.append(self)
        except OSError as problem:
            raise self._storage_error(problem) from problem
        base_offset = self.next_offset
        stamp(view, base_offset, self.store.epoch)
        append = Append(base_offset, base_offset + header.last_offset_delta, log_append_time_ms)
        self.next_offset = append.last_offset + 1
        self._buffers.append(view)
        self._queue.append((header, base_offset))
        self._appends.append(append)
        self._queued_bytes += size
        if header.producer_id >= 0:
            self.producers.note(header, base_offset)
        return append

    def _check_time(self, max_time_ms: int) -> None:
        settings = self.settings
        now_ms = self.store.clock.now_ms()
        if max_time_ms - now_ms > settings.timestamp_after_max_ms:
            raise InvalidTimestamp(
                f"a record's time {max_time_ms} lies more than message.timestamp.after.max.ms"
                f" {settings.timestamp_after_max_ms} ahead of the broker's"
            )
        if max_time_ms >= 0 and now_ms - max_time_ms > settings.timestamp_before_max_ms:
            raise InvalidTimestamp(
                f"a record's time {max_time_ms} lies more than message.timestamp.before.max.ms"
                f" {settings.timestamp_before_max_ms} behind the broker's"
            )

    def _repeated(self, append: Append) -> Append:
        """A batch that is here already is acknowledged no sooner than its first copy."""
        settings = self.settings
        if append.last_offset >= self.log_end:
            self._appends.append(append)  # it shares the fate of the queue
        elif append.last_offset >= self.synced_end and (
            settings.group_commit or settings.flush_messages < LONG_MAX
        ):
            append.must_sync = True
            self.store.flusher.start(self)
        return append

    def write(self) -> KafkaError | None:
        """Puts the queued batches on disk. On failure each of them carries the error."""
        queue, appends, size = self._queue, self._appends, self._queued_bytes
        if not queue:
            return None
        buffers = self._buffers
        self._queue, self._appends, self._buffers, self._queued_bytes = [], [], [], 0
        segment = self.log.segments[-1]
        try:
            segment.append(buffers, size)
        except OSError as problem:
            error = self._storage_error(problem)
            self.next_offset = self.log_end
            self._producers = None  # it has counted batches that are not there: rebuilt when needed
            for append in appends:
                append.error = error
            return error
        index, interval = segment.index, self.settings.index_interval_bytes
        if segment.first_timestamp_ms is None:
            segment.first_timestamp_ms = queue[0][0].max_timestamp
        for header, base_offset in queue:
            last_offset = base_offset + header[6]
            index.add(base_offset, last_offset, header[1] + 12, header[8], interval)
        self.unsynced_records += self.next_offset - self.log_end
        self.log_end = self.high_watermark = self.next_offset
        must_sync = self.settings.group_commit or (
            self.unsynced_records >= self.settings.flush_messages
        )
        if must_sync:
            for append in appends:
                append.must_sync = True
        if self.waiters:
            self.store.waiting_room.count(self, size)
        if self.sync_timer is None or must_sync:
            self.store.flusher.wrote(self, must_sync)
            if self.offline is not None:  # the sync could not even start
                for append in appends:
                    append.error = self.offline
        return self.offline

    def _rolled(self) -> None:
        self._snapshot = None
        if self._producers is not None:
            self.log.write_snapshot(self.log.end, self._producers.to_bytes())

    def _storage_error(self, problem: OSError) -> KafkaError:
        """A full disk is said to be retried; anything else takes the partition offline."""
        if problem.errno in NO_SPACE:
            self.store.report_full(self, problem)
            return KafkaStorageError(
                f"no space left for {self}; make room and the producer goes on"
            )
        return self.fail(problem)

    def fail(self, problem: OSError) -> KafkaError:
        """A write or sync has failed: what is on disk is uncertain, so nothing more is
        acknowledged."""
        if self.offline is None:
            self.offline = KafkaStorageError(
                f"{self} is offline after an I/O error ({problem.strerror}); restart the broker"
            )
            log.error(
                "partition_offline partition=%s error=%r hint=%s",
                self,
                problem.strerror,
                "check the disk, then restart the broker: it recovers the partition",
            )
        self.synced_thresholds.fail(self.offline)
        return self.offline

    # Producers

    @property
    def producers(self) -> Producers:
        """The state of idempotent producers: the newest snapshot plus the batches after it."""
        if self._producers is None:
            try:
                self._producers = self._load_producers()
            except OSError as problem:
                raise self._storage_error(problem) from problem
        return self._producers

    def _load_producers(self) -> Producers:
        state, walked = load_producers(self.log, self.log_end, self._snapshot)
        if walked > _LONG_WALK:
            # A full disk makes one write after the other fail, and each failure asks for the state
            # before it: the next walk starts here.
            self._snapshot = (self.log_end, state.to_bytes())
        return state

    def expire_producers(self, before_ms: int) -> None:
        """Forgets producers that have been idle since before then."""
        if self._producers is not None:
            self._producers.expire(before_ms)

    def save(self) -> RecoveryPoint | None:
        """Stores what a clean restart wants to find; the bytes are synced already."""
        if not self.log.segments:
            return None
        if self._producers is not None:
            self.log.write_snapshot(self.log_end, self._producers.to_bytes())
        self.log.save_epochs()
        active = self.log.segments[-1]
        active.save_index()
        return RecoveryPoint(active.base_offset, active.size)

    # Reading

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuses a client whose idea of the leader is older or newer than ours (KIP-320)."""
        if current_leader_epoch >= 0:
            if current_leader_epoch < self.store.epoch:
                raise FencedLeaderEpoch(f"{self} has epoch {self.store.epoch}")
            if current_leader_epoch > self.store.epoch:
                raise UnknownLeaderEpoch(f"{self} has epoch {self.store.epoch}")

    def read(self, offset: int, max_bytes: int, at_least_one: bool) -> FileSlice | None:
        """Whole batches from `offset` up to the high watermark; None if there are none yet."""
        if offset < self.log.start or offset > self.log_end:
            raise OffsetOutOfRange(
                f"{self} holds {self.log.start} to {self.log_end}; {offset} was asked for"
            )
        if offset >= self.high_watermark:
            if offset == self.log_end and self.log.segments:
                self.log.segments[-1].expect(offset)  # a reader that waits here comes back here
            return None
        return self.log.read(offset, max_bytes, self.high_watermark, at_least_one)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Where an epoch ended in this log; the present one counts from its start on."""
        if epoch == self.store.epoch:
            return epoch, self.log_end
        known, end = self.log.epochs.end_of(epoch, self.log_end)
        if known < 0 <= epoch < self.store.epoch:
            # Newer than all that wrote something, older than ours: it ended where ours begins.
            latest = self.log.epochs.latest
            return (latest if latest >= 0 else epoch), self.log_end
        return known, end

    def epoch_at(self, offset: int) -> int:
        """The epoch in which an offset was, or will be, written."""
        epoch = self.store.epoch
        if offset < self.log_end:
            for known, start in self.log.epochs.entries:
                if start <= offset:
                    epoch = known
        return epoch

    def first_at_or_after(self, timestamp_ms: int) -> Found | None:
        """The first record that is as late as this."""
        return times.first_at_or_after(self.log, timestamp_ms, self.high_watermark)

    def latest_timestamp(self) -> Found | None:
        """The record with the largest timestamp."""
        return times.latest(self.log)

    async def trim(self, offset: int) -> int:
        """Moves the log start up to `offset` (-1: the high watermark), durably; gives it back."""
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"{self} holds {self.log.start} to {self.high_watermark}; cannot delete to {offset}"
            )
        async with self.store.trimming:  # one after the other: the last one stored counts
            if offset > self.log.start:
                try:
                    await self.store.in_thread(self.log.store_start, offset)
                except OSError as problem:
                    raise self._storage_error(problem) from problem
                self.log.trim(offset)
        return self.log.start
