"""Which partition a record goes to, as Kafka's Java client decides it.

Records with a key go by murmur2 of the key, so that a key's records stay in order whichever client
sends them; records without one stay on one partition for a batch and then move to the next.
(murmur2 is another function than the murmur3 of the `mmh3` package.)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from struct import iter_unpack

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash that Kafka's default partitioner uses, as an unsigned number of 32 bits."""
    size = len(data)
    whole = size & ~3
    value = _SEED ^ size
    for (word,) in iter_unpack("<I", data[:whole]):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ word
    if whole < size:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of_key(key: bytes, partition_count: int) -> int:
    """The partition of a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class Sticky:
    """Where records without a key go: one partition until it moves on."""

    def __init__(self, partitions: Sequence[int]) -> None:
        """`partitions` are those that have a leader now."""
        self._partitions = partitions
        self._place = random.randrange(len(partitions))

    @property
    def partition(self) -> int:
        """The partition of the moment."""
        return self._partitions[self._place]

    def move_on(self) -> None:
        """The next batch goes elsewhere."""
        self._place = (self._place + 1) % len(self._partitions)
