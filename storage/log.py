"""A log is the ordered list of a partition's segments: find by bisection, roll, truncate, trim.

Folder layout (`<topic>-<partition>/`):

    <20 digits of the base offset>.meta        batches; the last file is writable
    <20 digits of the base offset>.index       sparse index of a sealed (or cleanly closed) segment
    <20 digits of an offset>.snapshot          producers as they were when the log ended there
    leader-epoch-checkpoint                    which epoch began where; saved with the next sync
    log-start                                  the first offset, once records were deleted

The folder and the first segment appear with the first append: a topic that nobody writes to costs
no file, and the first write of a new topic makes only these two.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kbroker.protocol.batch import BatchHeader
from kbroker.storage import epochs as epochs_file
from kbroker.storage import producers as producers_file
from kbroker.storage.checkpoint import RecoveryPoint
from kbroker.storage.disk import Disk, FileCache, OpenFile
from kbroker.storage.epochs import Epochs
from kbroker.storage.producers import Producers
from kbroker.storage.recovery import Cut, recover
from kbroker.storage.segment import FileSlice, Segment

_NAME_DIGITS = 20


def file_name(offset: int, suffix: str) -> str:
    """`00000000000000000042.meta`"""
    return f"{offset:0{_NAME_DIGITS}}{suffix}"


def _offsets(names: list[str], suffix: str) -> list[int]:
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isdigit() and len(stem) == _NAME_DIGITS)


class SyncWork(NamedTuple):
    """One sync, as a thread does it: sync files, write small ones, then sync the folder.

    Sealed segments are named and not open: after a crash there may be very many of them.
    """

    active: OpenFile
    sealed: list[str]
    small_files: list[tuple[str, bytes]]
    folder: str | None
    point: RecoveryPoint


class Log:
    """The segments of one partition, in order of their base offsets."""

    def __init__(self, disk: Disk, files: FileCache, folder: str, topic_id: bytes) -> None:
        self.disk = disk
        self.files = files
        self.folder = folder
        self.key = f"{folder.rpartition('/')[2]}:{topic_id.hex()}"  # in the recovery points
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self.start = 0
        self.epochs = Epochs()
        self.cuts: list[Cut] = []
        self.producers: Producers | None = None  # as recovery found them, if it could
        self._unsynced: list[Segment] = []
        self._folder_changed = self._epochs_changed = False

    # Loading

    def load(self, known: RecoveryPoint | None) -> bool:
        """Finds the segments; checks those that `known` does not vouch for. True if it had to."""
        names = self.disk.list(self.folder)
        if not names:
            return False
        bases = _offsets(names, ".meta")
        for base in bases:
            path = self._path(base, ".meta")
            sealed = base != bases[-1]
            segment = Segment(self.disk, self.files, path, base, self.disk.size(path), sealed)
            self._add(segment)
        self.start = max(self._stored_start(), bases[0] if bases else 0)
        if not self.segments:
            return False
        stored = self.disk.read_small(self._epochs_path)
        epochs = epochs_file.from_bytes(stored) if stored is not None else None
        if epochs is not None:
            self.epochs = epochs
        else:
            known = None  # the batches carry their epochs: go through them all
        active = self.segments[-1]
        if known is not None and known == (active.base_offset, active.size):
            return False
        self._recover(known.segment if known is not None else 0)
        return True

    def _stored_start(self) -> int:
        text = self.disk.read_small(f"{self.folder}/log-start") or b""
        return int(text) if text.isdigit() else 0

    @property
    def _epochs_path(self) -> str:
        return f"{self.folder}/leader-epoch-checkpoint"

    def _recover(self, first_base: int) -> None:
        unsure = [segment for segment in self.segments if segment.base_offset >= first_base]
        self.producers = producers = self._producers_at(unsure[0]) if unsure else None

        def seen(header: BatchHeader) -> None:
            self.epochs.begin(header.leader_epoch, header.base_offset)
            if producers is not None and header.producer_id >= 0:
                producers.note(header, header.base_offset)

        for segment in unsure:
            cut = recover(segment, self.start, seen)
            if cut is not None:
                self.cuts.append(cut)
            self._unsynced.append(segment)
        end = self.end
        self.epochs.truncate(end + 1)
        self._epochs_changed = True
        for offset in self.snapshot_offsets():
            if offset > end:  # it tells of batches that are gone
                self.disk.remove(self._path(offset, ".snapshot"))

    def _producers_at(self, segment: Segment) -> Producers | None:
        """The producers before a segment's first batch, if they are known without a walk."""
        offsets = self.snapshot_offsets()
        if not offsets and segment is self.segments[0]:
            return Producers()
        if segment.base_offset in offsets:
            return producers_file.from_bytes(self.read_snapshot(segment.base_offset) or b"")
        return None

    def _add(self, segment: Segment) -> None:
        self.segments.append(segment)
        self._bases.append(segment.base_offset)

    def _path(self, offset: int, suffix: str) -> str:
        return f"{self.folder}/{file_name(offset, suffix)}"

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return max(self.segments[-1].next_offset, self.start) if self.segments else self.start

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def headers(self, offset: int) -> Iterator[BatchHeader]:
        """The headers of all batches from the one that holds `offset` on."""
        for segment in self.segments[max(bisect_right(self._bases, offset) - 1, 0) :]:
            for _, header in segment.walk(segment.find(offset)):
                if header.last_offset >= offset:
                    yield header

    # Appending

    def writable(
        self, size: int, timestamp_ms: int, segment_bytes: int, segment_ms: int
    ) -> Segment:
        """The active segment; a new one if these bytes would overfill it or it is too old."""
        if not self.segments:
            return self._open_first()
        active = self.segments[-1]
        if active.size:
            full = active.size + size > segment_bytes
            first_ms = active.first_timestamp_ms
            if first_ms is None:
                first_ms = active.starts_at_ms or 0
            if full or timestamp_ms - first_ms > segment_ms:
                return self.roll()
        return active

    def _open_first(self) -> Segment:
        self.disk.make_folder(self.folder)
        return self._open_segment(self.start)

    def _open_segment(self, base_offset: int) -> Segment:
        path = self._path(base_offset, ".meta")
        segment = Segment(self.disk, self.files, path, base_offset, 0, sealed=False)
        segment.open()
        self._add(segment)
        self._folder_changed = True
        return segment

    def roll(self) -> Segment:
        """Seals the active segment and opens the next one."""
        active = self.segments[-1]
        next_base = active.next_offset
        active.seal()
        if active not in self._unsynced:
            self._unsynced.append(active)
        return self._open_segment(next_base)

    def begin_epoch(self, epoch: int) -> None:
        """Notes that batches of a new epoch follow, before the first of them is appended."""
        if self.epochs.begin(epoch, self.end):
            self._epochs_changed = True

    # Syncing: what to sync is taken on the loop, the sync itself runs in a thread

    def take_unsynced(self) -> SyncWork:
        """What is not certain to be on disk yet, and the point reached once it is."""
        active = self.segments[-1]
        file = active.open()
        sealed = [segment.path for segment in self._unsynced if segment is not active]
        self._unsynced.clear()
        folder = self.folder if self._folder_changed or self._epochs_changed else None
        small_files = [(self._epochs_path, self.epochs.to_bytes())] if self._epochs_changed else []
        self._folder_changed = self._epochs_changed = False
        point = RecoveryPoint(active.base_offset, active.size)
        return SyncWork(file, sealed, small_files, folder, point)

    def epochs_unsaved(self) -> None:
        """There was no room for the epochs: the next sync tries again."""
        self._epochs_changed = True

    def save_epochs(self) -> None:
        """Stores the epochs if no sync has done so since they changed."""
        if self._epochs_changed:
            self.disk.write_small(self._epochs_path, self.epochs.to_bytes())
            self._epochs_changed = False

    # Reading

    def read(self, offset: int, max_bytes: int, end: int, at_least_one: bool) -> FileSlice | None:
        """Whole batches from `offset` to at most `end`, from one segment; None if there are
        none."""
        number = max(bisect_right(self._bases, offset) - 1, 0)
        while number < len(self.segments):
            segment = self.segments[number]
            number += 1
            last = number == len(self.segments)
            stop = segment.size if (not last or end >= segment.next_offset) else segment.find(end)
            found = segment.slice(offset, max_bytes, stop, at_least_one)
            if found.length or last:
                return found
            if found.position < stop:
                return None  # the next batch is too large for what the request has left
        return None

    def segments_from(self, offset: int) -> list[Segment]:
        """The segments that may hold `offset` or later ones."""
        return self.segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    # Cutting

    def store_start(self, offset: int) -> None:
        """Makes a log start durable that `trim` will move to. Blocks: call it in a thread."""
        self.disk.write_small(f"{self.folder}/log-start", b"%d" % offset)

    def trim(self, offset: int) -> None:
        """Moves the log start up, once it is stored, and removes the segments that lie below it."""
        self.start = offset
        while len(self.segments) > 1 and self.segments[1].base_offset <= offset:
            self._drop(self.segments.pop(0))
            self._bases.pop(0)
        self.epochs.trim(offset)
        self._epochs_changed = True

    def _drop(self, segment: Segment) -> None:
        segment.close()
        if segment in self._unsynced:
            self._unsynced.remove(segment)
        self.disk.remove(segment.path)
        self.disk.remove(segment.index_path)

    def close(self) -> None:
        """Lets go of all files."""
        for segment in self.segments:
            segment.close()

    # Snapshots of producers

    def snapshot_offsets(self) -> list[int]:
        """Where snapshots exist, in order."""
        return _offsets(self.disk.list(self.folder), ".snapshot")

    def read_snapshot(self, offset: int) -> bytes | None:
        """A stored snapshot."""
        return self.disk.read_small(self._path(offset, ".snapshot"))

    def write_snapshot(self, offset: int, content: bytes) -> None:
        """Stores a snapshot; only the newest two are kept."""
        self.disk.write_small(self._path(offset, ".snapshot"), content, durable=False)
        for old in self.snapshot_offsets()[:-2]:
            self.disk.remove(self._path(old, ".snapshot"))
