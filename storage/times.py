"""Finding records by their time: the one read that looks inside batches.

The index names a place before which nothing is late enough; from there headers are walked, and only
the batch that holds the answer is opened.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.protocol import records
from kbroker.storage.log import Log


class Found(NamedTuple):
    """A record that was looked up by time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def first_at_or_after(log: Log, timestamp_ms: int, end: int) -> Found | None:
    """The first record before offset `end` that is as late as this; None if none is."""
    for segment in log.segments:
        if segment.index.max_timestamp_ms < timestamp_ms:
            continue
        for position, header in segment.walk(segment.index.before_time(timestamp_ms)):
            if header.max_timestamp < timestamp_ms or header.last_offset < log.start:
                continue
            batch = segment.read(position, header.size)
            record = records.first_at_or_after(batch, timestamp_ms, from_offset=log.start)
            if record is not None:
                found = Found(record.offset, record.timestamp_ms, header.leader_epoch)
                return found if record.offset < end else None
    return None


def latest(log: Log) -> Found | None:
    """The record with the largest timestamp, the first of equals; None if there is none."""
    segments = [segment for segment in log.segments if segment.index.max_timestamp_ms >= 0]
    if not segments:
        return None
    segment = max(segments, key=lambda segment: segment.index.max_timestamp_ms)
    position = segment.index.max_timestamp_position
    header = next(segment.walk(position))[1]
    newest = records.max_timestamp_record(segment.read(position, header.size))
    return Found(*newest, header.leader_epoch) if newest is not None else None
