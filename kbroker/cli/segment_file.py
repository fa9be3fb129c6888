"""Reads segment and index files for `dump`, and never changes them.

Recovery checks the same things, but cuts what it finds and stops there; here the place is told, and
reading goes on at the next whole batch, so that one sees how much lies behind the damage. The file
may be Kafka's own `.log`: the batches are the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kbroker.protocol.batch import HEADER_SIZE, MAGIC, BatchHeader, batch_size, is_whole, peek
from kbroker.storage import index as index_file
from kbroker.storage.index import Index

SEGMENT_SUFFIXES = (".meta", ".log")
INDEX_SUFFIX = ".index"

_CHUNK_BYTES = 8 << 20
_BATCH_BYTES_MAX = 1 << 28
_MAGIC_POSITION = 16
_NAME_DIGITS = 20
_INDEX_COVERS = slice(8, 16)  # the segment's size, in the index file's layout


@dataclass(frozen=True, slots=True)
class Batch:
    """An intact batch and where it lies."""

    position: int
    header: BatchHeader
    data: memoryview


@dataclass(frozen=True, slots=True)
class Damage:
    """A place that makes no sense, and where whole batches go on (None: nowhere)."""

    position: int
    reason: str
    goes_on_at: int | None


class SegmentFile:
    """One segment, opened for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        stem = path.stem
        self.base_offset = int(stem) if stem.isdigit() and len(stem) == _NAME_DIGITS else None
        # Kafka compacts its logs, which leaves gaps; here a gap is damage, as recovery sees it.
        self._may_have_gaps = path.suffix == ".log"
        self._chunk = memoryview(b"")
        self._chunk_start = 0

    def walk(self) -> Iterator[Batch | Damage]:
        """Every batch in order, and every place that is damaged."""
        log_start = _log_start(self.path.parent)
        expected, epoch = self.base_offset, None
        position = 0
        with self.path.open("rb", buffering=0) as file:
            while position < self.size:
                reason, batch = self._look(file.fileno(), position)
                if batch is not None and expected is not None and not self._may_have_gaps:
                    reason = _gap(batch.header, expected, epoch, log_start)
                if reason or batch is None:
                    goes_on_at = self._next_whole(file.fileno(), position, batch)
                    yield Damage(position, reason, goes_on_at)
                    if goes_on_at is None:
                        return
                    position, expected = goes_on_at, None
                    continue
                yield batch
                expected, epoch = batch.header.last_offset + 1, batch.header.leader_epoch
                position += batch.header.size

    def _look(self, descriptor: int, position: int) -> tuple[str, Batch | None]:
        """The batch at a position, or why there is none."""
        left = self.size - position
        if left < HEADER_SIZE:
            # A running broker may have written on since: then the rest is there now.
            self.size = max(self.size, os.fstat(descriptor).st_size)
            left = self.size - position
        if left < HEADER_SIZE:
            return f"{left} bytes are too few for a batch", None
        head = self._bytes(descriptor, position, HEADER_SIZE)
        size = batch_size(head, 0)
        if size > left:
            self.size = max(self.size, os.fstat(descriptor).st_size)
            left = self.size - position
        if not HEADER_SIZE <= size <= min(left, _BATCH_BYTES_MAX):
            return f"a batch of {size} bytes does not fit the {left} that are left", None
        header = peek(head)
        if header.magic != MAGIC:
            return f"message format {header.magic} is not {MAGIC}", None
        data = self._bytes(descriptor, position, size)
        if not is_whole(data):
            return "the batch's checksum is wrong", None
        return "", Batch(position, header, data)

    def _next_whole(self, descriptor: int, position: int, skipped: Batch | None) -> int | None:
        """Where the next intact batch begins.

        It is first looked for where the damaged one says that it ends, for a record may hold what
        looks like a batch; then at every byte that could be a batch's magic.
        """
        if skipped is not None:
            return position  # the batch itself is whole, only its offset is not the one expected
        if self.size - position >= HEADER_SIZE:
            end = position + batch_size(self._bytes(descriptor, position, HEADER_SIZE), 0)
            if position < end < self.size and self._look(descriptor, end)[1] is not None:
                return end
        start = position + 1
        while self.size - start >= HEADER_SIZE:
            window = bytes(self._bytes(descriptor, start, min(_CHUNK_BYTES, self.size - start)))
            found = window.find(MAGIC, _MAGIC_POSITION)
            while found >= 0:
                candidate = start + found - _MAGIC_POSITION
                if self._look(descriptor, candidate)[1] is not None:
                    return candidate
                found = window.find(MAGIC, found + 1)
            start += len(window) - _MAGIC_POSITION
        return None

    def _bytes(self, descriptor: int, position: int, size: int) -> memoryview:
        inside = position - self._chunk_start
        if inside < 0 or inside + size > len(self._chunk):
            wanted = max(size, min(_CHUNK_BYTES, self.size - position))
            self._chunk = memoryview(_read(descriptor, position, wanted))
            self._chunk_start, inside = position, 0
        return self._chunk[inside : inside + size]


def _read(descriptor: int, position: int, size: int) -> bytes:
    data = os.pread(descriptor, size, position)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def _gap(header: BatchHeader, expected: int, epoch: int | None, log_start: int) -> str:
    """Offsets are dense, except where a new reign begins and below the log's start."""
    offset = header.base_offset
    if offset == expected:
        return ""
    opens = epoch is not None and header.leader_epoch > epoch
    if offset > expected and (opens or offset <= log_start):
        return ""
    return f"offset {offset} is where {expected} should be"


def _log_start(folder: Path) -> int:
    try:
        text = (folder / "log-start").read_bytes()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


# The index


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an index file says, and what is wrong with it."""

    entries: int
    covers_bytes: int
    next_offset: int
    max_timestamp_ms: int
    is_stale: bool
    damage: str


def check_index(path: Path) -> IndexReport:
    """Reads an index file and compares each entry with the segment beside it.

    An index that covers another number of bytes than the segment has is stale, which is no damage:
    the broker writes it at a clean stop and rebuilds it whenever it does not fit.
    """
    data = path.read_bytes()
    covers = int.from_bytes(data[_INDEX_COVERS], "big", signed=True)
    index = index_file.from_bytes(data, covers)
    if index is None:
        return IndexReport(0, 0, -1, -1, False, "its checksum or format is wrong")
    segment = path.with_suffix(SEGMENT_SUFFIXES[0])
    segment_size = segment.stat().st_size if segment.exists() else -1
    damage = ""
    if segment_size < 0:
        damage = f"there is no segment {segment.name}"
    elif covers <= segment_size:
        damage = _wrong_entry(index, segment)
    return IndexReport(
        entries=len(index.offsets),
        covers_bytes=covers,
        next_offset=index.next_offset,
        max_timestamp_ms=index.max_timestamp_ms,
        is_stale=covers != segment_size,
        damage=damage,
    )


def _wrong_entry(index: Index, segment: Path) -> str:
    with segment.open("rb", buffering=0) as file:
        for offset, position in zip(index.offsets, index.positions, strict=True):
            head = os.pread(file.fileno(), HEADER_SIZE, position)
            if len(head) < HEADER_SIZE or peek(head).base_offset != offset:
                return f"offset {offset} is not at position {position} of {segment.name}"
    return ""
