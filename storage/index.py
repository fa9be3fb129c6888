"""The sparse index of a segment: from an offset, or a time, to a position near it.

An entry stands for one batch, about every `index.interval.bytes`: (base offset, position, largest
timestamp of all batches before it in the segment). All three never decrease, so one bisection
answers each question, and the caller walks the few batches that follow. Plain arrays in memory and
no mapped files: with 1,000 partitions that is the difference between 62 % and 2 % of the
one-partition rate (PERFORMANCE.md).

On disk, written when a segment is sealed and at a clean stop, never trusted when in doubt:

    magic "KBI1" | crc32c of the rest u32 | segment size it covers i64 | largest timestamp i64 |
    position of the batch that has it i64 | next offset i64 | count i64 |
    offsets i64... | positions i64... | timestamps i64...                        (big-endian)
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from kbroker.protocol.checksum import crc32c

_MAGIC = b"KBI1"
_HEAD = Struct(">4sI")
_BODY = Struct(">qqqqq")

NO_TIMESTAMP = -1


class Index:
    """What is known about the batches of one segment without reading it."""

    __slots__ = (
        "max_timestamp_ms",
        "max_timestamp_position",
        "next_offset",
        "offsets",
        "positions",
        "size",
        "timestamps",
    )

    def __init__(self, base_offset: int) -> None:
        self.offsets = array("q")
        self.positions = array("q")
        self.timestamps = array("q")
        self.size = 0
        self.next_offset = base_offset
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_position = 0

    def add(
        self, offset: int, last_offset: int, size: int, max_timestamp_ms: int, interval_bytes: int
    ) -> None:
        """Counts a batch that follows all others, and notes it if the last note is far enough."""
        position = self.size
        positions = self.positions
        if not positions or position - positions[-1] >= interval_bytes:
            self.offsets.append(offset)
            positions.append(position)
            self.timestamps.append(self.max_timestamp_ms)
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_position = position
        self.size = position + size
        self.next_offset = last_offset + 1

    def before_offset(self, offset: int) -> int:
        """A position from which walking forward meets the batch that holds `offset`."""
        found = bisect_right(self.offsets, offset)
        return self.positions[found - 1] if found else 0

    def before_time(self, timestamp_ms: int) -> int:
        """A position before which no batch has a timestamp as large as this."""
        found = bisect_left(self.timestamps, timestamp_ms)
        return self.positions[found - 1] if found else 0

    def last_boundary(self, stop: int) -> tuple[int, int]:
        """The last known batch boundary that is not beyond `stop`, and the offset that starts
        there."""
        if stop >= self.size:
            return self.size, self.next_offset
        found = bisect_right(self.positions, stop) - 1
        return self.positions[found], self.offsets[found]

    def to_bytes(self) -> bytes:
        """The index as it is stored."""
        parts = []
        for values in (self.offsets, self.positions, self.timestamps):
            copy = array("q", values)
            if sys.byteorder == "little":
                copy.byteswap()
            parts.append(copy.tobytes())
        body = _BODY.pack(
            self.size,
            self.max_timestamp_ms,
            self.max_timestamp_position,
            self.next_offset,
            len(self.offsets),
        ) + b"".join(parts)
        return _HEAD.pack(_MAGIC, crc32c(body)) + body


def from_bytes(data: bytes, segment_size: int) -> Index | None:
    """Reads a stored index; None if it is damaged or covers another number of bytes."""
    if len(data) < _HEAD.size + _BODY.size:
        return None
    magic, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or crc32c(body) != crc:
        return None
    size, max_timestamp_ms, max_timestamp_position, next_offset, count = _BODY.unpack_from(body)
    if size != segment_size or len(body) != _BODY.size + 24 * count:
        return None
    index = Index(next_offset)
    index.size = size
    index.max_timestamp_ms = max_timestamp_ms
    index.max_timestamp_position = max_timestamp_position
    start = _BODY.size
    for values in (index.offsets, index.positions, index.timestamps):
        values.frombytes(body[start : start + 8 * count])
        if sys.byteorder == "little":
            values.byteswap()
        start += 8 * count
    return index
