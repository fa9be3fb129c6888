"""Idempotence: the last five batches of each producer of a partition.

A producer numbers its batches; a batch that comes again (its answer was lost) is answered with the
offset it got the first time, and a gap is refused. Five, because clients keep at most five requests
in flight. The state is never the only copy: each batch header carries producer, epoch and sequence,
so it is rebuilt from a snapshot and the batches after it.
"""

from __future__ import annotations

from collections import deque

from kbroker.protocol.batch import BatchHeader
from kbroker.protocol.checksum import crc32c
from kbroker.protocol.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber

WINDOW = 5
_SEQUENCE_MODULUS = 1 << 31


class ProducerEntry:
    """One producer: its epoch and (first sequence, last sequence, base offset) of recent
    batches."""

    __slots__ = ("batches", "epoch", "last_timestamp_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[tuple[int, int, int]] = deque(maxlen=WINDOW)
        self.last_timestamp_ms = -1


class Producers:
    """All producers that wrote to a partition lately."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}

    def check(self, header: BatchHeader) -> int | None:
        """None if the batch is the producer's next one; the first offset if it is a repetition.

        An unknown producer may start anywhere: its state may have expired (COMPAT.md 33).
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None
        epoch, first = header.producer_epoch, header.base_sequence
        if epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} has epoch {entry.epoch}, not {epoch}"
            )
        if epoch > entry.epoch:
            if first != 0:
                raise OutOfOrderSequenceNumber(
                    f"producer {header.producer_id} starts its epoch {epoch} with sequence {first}"
                )
            return None
        last = last_sequence(header)
        for known_first, known_last, base_offset in entry.batches:
            if known_first == first and known_last == last:
                return base_offset
        if entry.batches:
            expected = (entry.batches[-1][1] + 1) % _SEQUENCE_MODULUS
            if first != expected:
                raise OutOfOrderSequenceNumber(
                    f"producer {header.producer_id} sent sequence {first}; {expected} was expected"
                )
        return None

    def note(self, header: BatchHeader, base_offset: int) -> None:
        """Remembers a batch that was appended at `base_offset`."""
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_epoch)
        entry.batches.append((header.base_sequence, last_sequence(header), base_offset))
        entry.last_timestamp_ms = header.max_timestamp

    def expire(self, before_ms: int) -> None:
        """Forgets producers whose last batch is older."""
        old = [pid for pid, entry in self.entries.items() if entry.last_timestamp_ms < before_ms]
        for producer_id in old:
            del self.entries[producer_id]

    def to_bytes(self) -> bytes:
        """A snapshot: a line with the checksum of what follows, then JSON."""
        import json

        content = json.dumps(
            {
                "version": 1,
                "producers": [
                    [pid, entry.epoch, entry.last_timestamp_ms, *map(list, entry.batches)]
                    for pid, entry in self.entries.items()
                ],
            }
        ).encode()
        return b"%08x\n" % crc32c(content) + content


def last_sequence(header: BatchHeader) -> int:
    """The sequence number of a batch's last record; numbers wrap at 2^31."""
    return (header.base_sequence + header.last_offset_delta) % _SEQUENCE_MODULUS


def from_bytes(data: bytes) -> Producers | None:
    """Reads a snapshot; None if it is damaged."""
    import json

    checksum, _, content_bytes = data.partition(b"\n")
    if checksum != b"%08x" % crc32c(content_bytes):
        return None
    producers = Producers()
    try:
        content = json.loads(content_bytes)
        for pid, epoch, timestamp_ms, *batches in content["producers"]:
            entry = producers.entries[int(pid)] = ProducerEntry(int(epoch))
            entry.last_timestamp_ms = int(timestamp_ms)
            entry.batches.extend((int(f), int(last), int(o)) for f, last, o in batches)
    except (ValueError, TypeError, KeyError):  # not ours, though the checksum is right
        return None
    return producers
