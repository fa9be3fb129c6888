"""HOT. Produce, decoded without objects for topics and partitions; the batches stay views.

The answer repeats the topic as it came (a counted name, or an id from version 13 on), so its bytes
are carried through unopened. Measured: `python -m bench.micro`.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError

from kbroker.protocol.errors import FrameError
from kbroker.protocol.primitives import read_uvarint, skip_tagged_fields, uvarint

FIRST_FLEXIBLE = 9
FIRST_TOPIC_ID = 13

_ACKS_TIMEOUT_COUNT = Struct(">hii").unpack_from
_ACKS_TIMEOUT = Struct(">hi").unpack_from
_INT16 = Struct(">h").unpack_from
_INT32 = Struct(">i").unpack_from
_pack_int32 = Struct(">i").pack
_pack_partition = Struct(">ihqqq").pack  # index, error, base offset, append time, log start
_pack_partition_v3 = Struct(">ihqq").pack
_pack_int16 = Struct(">h").pack

Topics = list[tuple[bytes, list[tuple[int, memoryview | None]]]]
"""[(topic as it came: name in UTF-8, or id), [(partition, batch bytes)]]"""

PartitionAnswer = tuple[int, int, int, int, int, str | None]
"""(partition, error, base offset, append time ms, log start, error message)"""


def decode_request(
    view: memoryview, position: int, version: int
) -> tuple[str | None, int, int, Topics]:
    """(transactional id, acks, timeout ms, topics) of a Produce body."""
    try:
        if version >= FIRST_FLEXIBLE:
            single = _decode_single(view, position, version)
            return single if single is not None else _decode_flexible(view, position, version)
        return _decode_plain(view, position)
    except (IndexError, StructError, UnicodeDecodeError) as problem:
        raise FrameError(f"ProduceRequest v{version} is cut short or malformed") from problem


def _decode_plain(view: memoryview, position: int) -> tuple[str | None, int, int, Topics]:
    end = len(view)
    length = _INT16(view, position)[0]
    position += 2
    transactional_id = None
    if length >= 0:
        transactional_id = str(_slice(view, position, length), "utf-8")
        position += length
    acks, timeout_ms, count = _ACKS_TIMEOUT_COUNT(view, position)
    position += 10
    topics: Topics = []
    for _ in range(_count(count, end - position)):
        length = _INT16(view, position)[0]
        name = bytes(_slice(view, position + 2, length))
        position += 2 + length
        partitions: list[tuple[int, memoryview | None]] = []
        count = _INT32(view, position)[0]
        position += 4
        for _ in range(_count(count, end - position)):
            index = _INT32(view, position)[0]
            length = _INT32(view, position + 4)[0]
            position += 8
            if length < 0:
                partitions.append((index, None))
            else:
                partitions.append((index, _slice(view, position, length)))
                position += length
        topics.append((name, partitions))
    return transactional_id, acks, timeout_ms, topics


def _decode_single(
    view: memoryview, position: int, version: int
) -> tuple[str | None, int, int, Topics] | None:
    """The everyday request, one batch for one partition, in a third of the time; else None."""
    if view[position] or view[position + 7] != 2:
        return None
    acks, timeout_ms = _ACKS_TIMEOUT(view, position + 1)
    position += 8
    if version >= FIRST_TOPIC_ID:
        stop = position + 16
    else:
        length = view[position]
        position += 1
        stop = position + length - 1
        if not 0 < length < 128:
            return None
    if view[stop] != 2:
        return None
    index = _INT32(view, stop + 1)[0]
    length, start = read_uvarint(view, stop + 5)
    end = start + length - 1
    if length == 0 or end + 3 != len(view) or any(view[end:]):
        return None
    return None, acks, timeout_ms, [(bytes(view[position:stop]), [(index, view[start:end])])]


def _decode_flexible(
    view: memoryview, position: int, version: int
) -> tuple[str | None, int, int, Topics]:
    end = len(view)
    length, position = _uvarint(view, position)
    transactional_id = None
    if length:
        transactional_id = str(_slice(view, position, length - 1), "utf-8")
        position += length - 1
    acks, timeout_ms = _ACKS_TIMEOUT(view, position)
    count, position = _uvarint(view, position + 6)
    topics: Topics = []
    for _ in range(_count(count - 1, end - position)):
        if version >= FIRST_TOPIC_ID:
            name = bytes(_slice(view, position, 16))
            position += 16
        else:
            length, position = _uvarint(view, position)
            name = bytes(_slice(view, position, length - 1))
            position += length - 1
        partitions: list[tuple[int, memoryview | None]] = []
        count, position = _uvarint(view, position)
        for _ in range(_count(count - 1, end - position)):
            index = _INT32(view, position)[0]
            length, position = _uvarint(view, position + 4)
            if length == 0:
                partitions.append((index, None))
            else:
                partitions.append((index, _slice(view, position, length - 1)))
                position += length - 1
            position = (
                position + 1 if not view[position] else skip_tagged_fields(view, position, end)
            )
        position = position + 1 if not view[position] else skip_tagged_fields(view, position, end)
        topics.append((name, partitions))
    position = position + 1 if not view[position] else skip_tagged_fields(view, position, end)
    return transactional_id, acks, timeout_ms, topics


def _uvarint(view: memoryview, position: int) -> tuple[int, int]:
    value = view[position]
    return (value, position + 1) if value < 128 else read_uvarint(view, position)


def _slice(view: memoryview, position: int, length: int) -> memoryview:
    stop = position + length
    if length < 0 or stop > len(view):
        raise FrameError("a field of ProduceRequest is null or runs over the end")
    return view[position:stop]


def _count(count: int, bytes_left: int) -> int:
    # Each element takes at least a byte: a count beyond that is a lie, not a reason to loop.
    if count < 0 or count > bytes_left:
        raise FrameError("an array of ProduceRequest is null or longer than the request")
    return count


def encode_response(
    topics: Sequence[tuple[bytes, Sequence[PartitionAnswer]]], version: int
) -> bytes:
    """The body of the answer."""
    flexible = version >= FIRST_FLEXIBLE
    if len(topics) == 1 and len(topics[0][1]) == 1 and topics[0][1][0][5] is None and version >= 5:
        return _encode_single(topics[0][0], topics[0][1][0], version)
    out = bytearray(_array_length(len(topics), flexible))
    for name, partitions in topics:
        if version >= FIRST_TOPIC_ID:
            out += name
        elif flexible:
            out += uvarint(len(name) + 1) + name
        else:
            out += _pack_int16(len(name)) + name
        out += _array_length(len(partitions), flexible)
        for index, error, base_offset, append_time_ms, log_start, message in partitions:
            if version < 5:
                out += _pack_partition_v3(index, error, base_offset, append_time_ms)
                continue
            out += _pack_partition(index, error, base_offset, append_time_ms, log_start)
            if version < 8:
                continue
            out += _array_length(0, flexible)  # no single record is ever to blame
            if flexible:
                if message is None:
                    out += b"\0\0"  # no message, no tags
                else:
                    text = message.encode()
                    out += uvarint(len(text) + 1) + text + b"\0"
            elif message is None:
                out += b"\xff\xff"
            else:
                text = message.encode()
                out += _pack_int16(len(text)) + text
        if flexible:
            out.append(0)
    out += b"\0\0\0\0"  # throttle time
    if flexible:
        out.append(0)
    return bytes(out)


def _encode_single(name: bytes, answer: PartitionAnswer, version: int) -> bytes:
    """The everyday answer: one partition, and no error message."""
    fixed = _pack_partition(*answer[:5])
    if version >= FIRST_TOPIC_ID:
        return b"\2%b\2%b\1\0\0\0\0\0\0\0\0" % (name, fixed)
    if version >= FIRST_FLEXIBLE:
        return b"\2%b%b\2%b\1\0\0\0\0\0\0\0\0" % (uvarint(len(name) + 1), name, fixed)
    no_records = b"\0\0\0\0\xff\xff" if version >= 8 else b""
    length = _pack_int16(len(name))
    return b"\0\0\0\1%b%b\0\0\0\1%b%b\0\0\0\0" % (length, name, fixed, no_records)


def _array_length(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else _pack_int32(count)
