"""Record batches as producers send them, and stored bytes taken apart again."""

from __future__ import annotations

from typing import NamedTuple

from kbroker.protocol import records
from kbroker.protocol.batch import HEADER_SIZE, batch_size, is_whole
from kbroker.protocol.records import NewRecord, Record

NOW_MS = 1_700_000_000_000


class Sender(NamedTuple):
    """Who numbers a batch: an idempotent producer's id, its epoch and the first sequence."""

    producer_id: int
    epoch: int
    sequence: int


def batch(
    *values: bytes,
    time_ms: int = NOW_MS,
    times_ms: list[int] | None = None,
    sender: Sender | None = None,
    codec: int = 0,
) -> bytes:
    """One batch with a record for each value; `times_ms` gives each its own time."""
    times = times_ms or [time_ms] * len(values)
    new = [NewRecord(at, None, value) for at, value in zip(times, values, strict=True)]
    producer_id, epoch, sequence = sender or Sender(-1, -1, -1)
    return records.build(
        new,
        compression=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def batch_of_size(size: int) -> bytes:
    """A batch of one record that takes exactly so many bytes."""
    for overhead in range(HEADER_SIZE + 7, HEADER_SIZE + 20):
        made = batch(b"x" * (size - overhead))
        if len(made) == size:
            return made
    raise AssertionError(f"no batch has {size} bytes")


def split(data: bytes | memoryview) -> list[bytes]:
    """The batches in stored bytes, each of which must be whole."""
    rest, found = memoryview(data), []
    while rest:
        size = batch_size(rest, 0) if len(rest) >= HEADER_SIZE else len(rest)
        assert is_whole(rest[:size]), f"{len(rest)} bytes do not begin with a whole batch"
        found.append(bytes(rest[:size]))
        rest = rest[size:]
    return found


def records_in(data: bytes | memoryview) -> list[Record]:
    """The records in stored bytes."""
    return [record for one in split(data) for record in records.iterate(one)]
