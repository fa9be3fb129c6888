"""After an unclean stop: check a segment batch by batch, and cut it where it stops making sense.

A torn last write leaves half a batch; nobody was told that it is stored, so it goes. Damage further
up is cut the same way, but whole batches behind it may have been acknowledged: the removed bytes
are then kept beside the segment (`.cut`), and the report says so.

A batch's own offset is not covered by its checksum. What covers it is that offsets are dense: a gap
is damage, unless a new reign opens after one (rule R7) or all below it was deleted. (A compacted
segment will have gaps; there is none yet.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kbroker.protocol.batch import HEADER_SIZE, MAGIC, BatchHeader, batch_size, is_whole, peek
from kbroker.storage.index import Index
from kbroker.storage.segment import Segment

_CHUNK_BYTES = 8 << 20
_MAGIC_POSITION = 16


@dataclass(frozen=True, slots=True)
class Cut:
    """What recovery removed from the end of a segment."""

    path: str
    position: int
    removed_bytes: int
    next_offset: int
    reason: str
    kept_in: str | None


def recover(segment: Segment, log_start: int, seen: Callable[[BatchHeader], None]) -> Cut | None:
    """Checks every batch, rebuilds the index, and cuts the segment at the first bad one."""
    index = Index(segment.base_offset)
    chunk = memoryview(b"")
    chunk_start = position = 0
    epoch: int | None = None
    reason = ""
    while position < segment.size:
        left = segment.size - position
        inside = position - chunk_start
        if len(chunk) - inside < min(left, HEADER_SIZE):
            chunk, chunk_start, inside = _load(segment, position, HEADER_SIZE), position, 0
        if left < HEADER_SIZE:
            reason = f"{left} bytes are too few for a batch"
            break
        size = batch_size(chunk, inside)
        if not HEADER_SIZE <= size <= left:
            reason = f"a batch of {size} bytes does not fit the {left} that are left"
            break
        if len(chunk) - inside < size:
            chunk, chunk_start, inside = _load(segment, position, size), position, 0
        batch = chunk[inside : inside + size]
        if not is_whole(batch):
            reason = "a batch's checksum or format is wrong"
            break
        header = peek(batch)
        offset = header.base_offset
        if offset != index.next_offset:
            opens = epoch is not None and header.leader_epoch > epoch
            if offset < index.next_offset or not (opens or offset <= log_start):
                reason = f"offset {offset} is where {index.next_offset} should be"
                break
        epoch = header.leader_epoch
        index.add(header.base_offset, header.last_offset, size, header.max_timestamp, 4096)
        seen(header)
        position += size
    cut = _cut(segment, position, index, reason) if position < segment.size else None
    segment.adopt_index(index)
    return cut


def _load(segment: Segment, position: int, at_least: int) -> memoryview:
    size = min(max(at_least, _CHUNK_BYTES), segment.size - position)
    return memoryview(segment.read(position, size))


def _cut(segment: Segment, position: int, index: Index, reason: str) -> Cut:
    removed = segment.size - position
    kept_in = None
    if _holds_whole_batch(segment, position):
        kept_in = f"{segment.path.removesuffix('.meta')}-{position}.cut"
        segment.disk.write_small(kept_in, segment.read(position, removed))
    segment.disk.truncate(segment.open(), position)
    segment.disk.remove(segment.index_path)
    segment.size = position
    return Cut(segment.path, position, removed, index.next_offset, reason, kept_in)


def _holds_whole_batch(segment: Segment, position: int) -> bool:
    """Whether an intact batch lies somewhere in what goes.

    The damage may have hit a length, so batches are looked for at every byte that could be a magic.
    """
    tail = memoryview(segment.read(position, segment.size - position))
    magic = bytes([MAGIC])
    data = tail.obj
    assert isinstance(data, bytes)
    found = data.find(magic, _MAGIC_POSITION)
    while found >= 0:
        start = found - _MAGIC_POSITION
        if len(data) - start < HEADER_SIZE:
            return False
        size = batch_size(data, start)
        if HEADER_SIZE <= size <= len(data) - start and is_whole(tail[start : start + size]):
            return True
        found = data.find(magic, found + 1)
    return False
