"""HOT. Fetch: the request becomes plain tuples, the answer a list of pieces, some of which are
files.

A piece is bytes, or whatever object stands for stored bytes (it has a `length`); the connection
sends it without loading it. Measured: `python -m bench.micro`.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, Protocol

from kbroker.protocol.errors import FrameError
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.primitives import uvarint

FIRST_FLEXIBLE = 12
FIRST_TOPIC_ID = 13

_pack_int16 = Struct(">h").pack
_pack_int32 = Struct(">i").pack
_pack_top = Struct(">ihi").pack  # throttle, error, session id
_pack_partition = Struct(">ihqqq").pack  # index, error, high watermark, stable offset, log start
_pack_partition_v4 = Struct(">ihqq").pack
_pack_diverging = Struct(">iq").pack


class Stored(Protocol):
    """Stored bytes that a connection can send."""

    @property
    def length(self) -> int:
        """How many."""


class FetchPartition(NamedTuple):
    """What a request, or a session, wants of one partition."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_bytes: int


class Fetch(NamedTuple):
    """A decoded request."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[bytes, list[FetchPartition]]]
    forgotten: list[tuple[bytes, list[int]]]
    rack_id: str


class FetchAnswer(NamedTuple):
    """What the answer says about one partition."""

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    stored: Stored | None
    diverging: tuple[int, int] | None = None  # (epoch, its end), KIP-595
    preferred_replica: int = -1


_V11_HEAD = Struct(">iiiibiii").unpack_from
_V11_PARTITION = Struct(">iiqqi").unpack_from
_FLEXIBLE_HEAD = Struct(">iiibii").unpack_from
_FLEXIBLE_PARTITION = Struct(">iiqiqi").unpack_from
_PLAIN_HEAD_SIZE = 29
_PLAIN_PARTITION_SIZE = 28
_FLEXIBLE_PARTITION_SIZE = 32


def decode_request(view: memoryview, position: int, version: int) -> Fetch:
    """Reads a Fetch body: the versions in common use by hand, the rest by the compiled codec."""
    try:
        if version >= 15:
            fast = _decode_flexible(view, position, version)
            if fast is not None:
                return fast
        elif version == 11:
            return _decode_v11(view, position)
    except (IndexError, StructError, UnicodeDecodeError) as problem:
        raise FrameError(f"FetchRequest v{version} is cut short or malformed") from problem
    return _from_message(FetchRequest.decode(view, version, position), version >= FIRST_TOPIC_ID)


def _from_message(request: FetchRequest, by_id: bool) -> Fetch:
    replica_id = request.replica_id
    if replica_id < 0:
        replica_id = request.replica_state.replica_id
    return Fetch(
        replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [
            (
                topic.topic_id if by_id else topic.topic.encode(),
                [
                    FetchPartition(
                        part.partition,
                        part.current_leader_epoch,
                        part.fetch_offset,
                        part.last_fetched_epoch,
                        part.partition_max_bytes,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        [
            (topic.topic_id if by_id else topic.topic.encode(), topic.partitions)
            for topic in request.forgotten_topics_data
        ],
        request.rack_id,
    )


def _decode_v11(view: memoryview, position: int) -> Fetch:
    """What librdkafka before 2.4, aiokafka and kafkajs send."""
    replica_id, wait_ms, min_bytes, max_bytes, isolation, session, epoch, count = _V11_HEAD(
        view, position
    )
    position += _PLAIN_HEAD_SIZE
    topics = []
    for _ in range(_bounded(count, view, position)):
        name, position = _plain_string(view, position)
        count = int.from_bytes(view[position : position + 4], "big", signed=True)
        position += 4
        partitions = []
        for _ in range(_bounded(count, view, position)):
            index, leader_epoch, offset, _, part_max = _V11_PARTITION(view, position)
            position += _PLAIN_PARTITION_SIZE
            partitions.append(FetchPartition(index, leader_epoch, offset, -1, part_max))
        topics.append((name, partitions))
    forgotten = []
    count = int.from_bytes(view[position : position + 4], "big", signed=True)
    position += 4
    for _ in range(_bounded(count, view, position)):
        name, position = _plain_string(view, position)
        count = int.from_bytes(view[position : position + 4], "big", signed=True)
        position += 4
        indexes = list(Struct(f">{_bounded(count, view, position)}i").unpack_from(view, position))
        position += 4 * count
        forgotten.append((name, indexes))
    rack, _ = _plain_string(view, position)
    return Fetch(
        replica_id,
        wait_ms,
        min_bytes,
        max_bytes,
        isolation,
        session,
        epoch,
        topics,
        forgotten,
        str(rack, "utf-8"),
    )


def _plain_string(view: memoryview, position: int) -> tuple[bytes, int]:
    length = int.from_bytes(view[position : position + 2], "big", signed=True)
    position += 2
    stop = position + length
    if length < 0 or stop > len(view):
        raise FrameError("a string of FetchRequest is null or runs over the end")
    name = bytes(view[position:stop])
    name.decode()  # names are text, for those who look them up
    return name, stop


def _bounded(count: int, view: memoryview, position: int) -> int:
    if count < 0 or count > len(view) - position:
        raise FrameError("an array of FetchRequest is null or longer than the request")
    return count


def _decode_flexible(view: memoryview, position: int, version: int) -> Fetch | None:
    """What Java and librdkafka send now; None when it is not the plain consumer's short form
    (long arrays, tags of a replica), which the compiled codec reads."""
    wait_ms, min_bytes, max_bytes, isolation, session, epoch = _FLEXIBLE_HEAD(view, position)
    position += 21
    count = view[position]
    position += 1
    topics = []
    if not 0 < count < 128:
        return None
    for _ in range(count - 1):
        topic_id = bytes(view[position : position + 16])
        parts = view[position + 16]
        position += 17
        if not 0 < parts < 128:
            return None
        partitions = []
        for _ in range(parts - 1):
            index, leader_epoch, offset, last_epoch, _, part_max = _FLEXIBLE_PARTITION(
                view, position
            )
            position += _FLEXIBLE_PARTITION_SIZE
            if view[position]:
                return None
            position += 1
            partitions.append(FetchPartition(index, leader_epoch, offset, last_epoch, part_max))
        if view[position]:
            return None
        position += 1
        topics.append((topic_id, partitions))
    if view[position] != 1:
        return None  # forgotten partitions
    rack_length = view[position + 1]
    if not 0 < rack_length < 128:
        return None
    position += 2
    rack = str(view[position : position + rack_length - 1], "utf-8")
    if view[position + rack_length - 1]:
        return None
    return Fetch(-1, wait_ms, min_bytes, max_bytes, isolation, session, epoch, topics, [], rack)


def encode_response(
    version: int,
    error: int,
    session_id: int,
    topics: Sequence[tuple[bytes, Sequence[FetchAnswer]]],
    read_committed: bool = False,
) -> list[bytes | Stored]:
    """The body of the answer, as pieces in order."""
    flexible = version >= FIRST_FLEXIBLE
    # No aborted transactions: an empty list for a reader of committed ones, null for others.
    aborted = _array_length(0 if read_committed else -1, flexible)
    out = bytearray(_pack_top(0, error, session_id) if version >= 7 else b"\0\0\0\0")
    out += _array_length(len(topics), flexible)
    pieces: list[bytes | Stored] = []
    for name, partitions in topics:
        if version >= FIRST_TOPIC_ID:
            out += name
        elif flexible:
            out += uvarint(len(name) + 1) + name
        else:
            out += _pack_int16(len(name)) + name
        out += _array_length(len(partitions), flexible)
        for answer in partitions:
            index, code, high_watermark, stable, log_start, stored, diverging, preferred = answer
            if version >= 5:
                out += _pack_partition(index, code, high_watermark, stable, log_start)
            else:
                out += _pack_partition_v4(index, code, high_watermark, stable)
            out += aborted
            if version >= 11:
                out += _pack_int32(preferred)
            length = stored.length if stored is not None else 0
            out += uvarint(length + 1) if flexible else _pack_int32(length)
            if stored is not None and length:
                pieces.append(bytes(out))
                pieces.append(stored)
                out.clear()
            if flexible:
                if diverging is not None:
                    out += b"\1\0\x0d" + _pack_diverging(*diverging) + b"\0"
                else:
                    out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out:
        pieces.append(bytes(out))
    return pieces


def _array_length(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else _pack_int32(count)
