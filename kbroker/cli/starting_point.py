"""Where reading begins, as a user writes it: beginning, latest, an offset, a number from the end, a
time, or a time ago."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kbroker.cli.client import admin
from kbroker.cli.client.cluster import Cluster, Topic

FORMS: Final = (
    "beginning, latest, an offset such as 42, the last records such as -10,"
    " a time such as 2026-01-31T12:00, or a time ago such as -15m"
)
_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_AGO: Final = re.compile(r"-(\d+)(ms|s|m|h|d|w)")
_NUMBER: Final = re.compile(r"-?\d{1,18}")


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """One of: a time (Kafka's -1 latest and -2 earliest included), an offset, a count from the
    end."""

    timestamp_ms: int | None = None
    offset: int | None = None
    from_end: int | None = None


def parse(text: str, now_ms: int) -> StartingPoint:
    """Reads a starting point; ValueError names the forms that there are."""
    if text in ("beginning", "earliest"):
        return StartingPoint(timestamp_ms=admin.EARLIEST)
    if text in ("latest", "end"):
        return StartingPoint(timestamp_ms=admin.LATEST)
    if _NUMBER.fullmatch(text):
        number = int(text)
        if text.startswith("-"):
            return StartingPoint(from_end=-number)
        return StartingPoint(offset=number)
    ago = _AGO.fullmatch(text)
    if ago:
        return StartingPoint(timestamp_ms=max(0, now_ms - int(ago[1]) * _UNITS_MS[ago[2]]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is none of: {FORMS}") from None
    return StartingPoint(timestamp_ms=max(0, int(moment.timestamp() * 1000)))


def place(
    cluster: Cluster, topic: Topic, point: StartingPoint
) -> tuple[dict[int, int], dict[int, int]]:
    """Where each partition begins to be read, and where it ends now; by partition.

    An offset outside of a partition is moved to its nearest end.
    """
    earliest = _by_partition(admin.offsets_at(cluster, [topic], admin.EARLIEST))
    latest = _by_partition(admin.offsets_at(cluster, [topic], admin.LATEST))
    if point.timestamp_ms == admin.EARLIEST:
        return earliest, latest
    if point.timestamp_ms == admin.LATEST:
        return dict(latest), latest
    wanted: dict[int, int]
    if point.timestamp_ms is not None:
        found = _by_partition(admin.offsets_at(cluster, [topic], point.timestamp_ms))
        wanted = {index: found[index] if found[index] >= 0 else latest[index] for index in found}
    elif point.from_end is not None:
        wanted = {index: end - point.from_end for index, end in latest.items()}
    else:
        assert point.offset is not None
        wanted = dict.fromkeys(latest, point.offset)
    starts = {
        index: min(max(offset, earliest[index]), latest[index]) for index, offset in wanted.items()
    }
    return starts, latest


def only(topic: Topic, partitions: Sequence[int]) -> Topic:
    """A topic with some of its partitions, for those who ask about these alone."""
    kept = tuple(part for part in topic.partitions if part.index in partitions)
    return Topic(topic.name, topic.id, topic.is_internal, kept)


def _by_partition(offsets: dict[admin.TopicPartition, int]) -> dict[int, int]:
    return {index: offset for (_, index), offset in offsets.items()}
