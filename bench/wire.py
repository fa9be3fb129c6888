"""Bytes of the few Kafka messages that the raw rows send, built once before the clock starts.

The raw client must cost so little that the broker is what is measured, so everything of one plan
has a fixed length: requests lie one after another in a single block, and answers are checked by
one struct over whole runs of them. Written by hand and apart from kbroker's own codecs on purpose:
a fault that both ends share would otherwise measure as speed.
"""

import random
import struct
import time
from dataclasses import dataclass

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 2, 18, 19, 20
CLIENT_ID = b"kbroker-bench"

# A v2 record batch begins: base offset, length, leader epoch, magic, CRC; the CRC covers the rest.
_BATCH_HEAD = struct.Struct(">qiibI")
_BATCH_TAIL = struct.Struct(">hiqqqhii")


class BenchError(RuntimeError):
    """A server answered wrongly, died, or was too slow: the run does not count."""


def value_of(record_bytes: int) -> bytes:
    """Bytes that do not compress and are the same in every run."""
    return random.Random(record_bytes).randbytes(record_bytes)


def _varint(number: int) -> bytes:
    """Zigzag varint, as records use it."""
    return _uvarint((number << 1) ^ (number >> 63))


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch and how many records are in it."""

    data: bytes
    records: int


def build_batch(record_bytes: int, batch_bytes: int) -> Batch:
    """As many records of `record_bytes` as fit into `batch_bytes`, at least one, uncompressed."""
    value = value_of(record_bytes)
    records = bytearray()
    count = 0
    while True:
        # attributes, timestamp delta, offset delta, null key, value, no headers
        body = b"\0\0" + _varint(count) + _varint(-1) + _varint(len(value)) + value + b"\0"
        record = _varint(len(body)) + body
        if count and _BATCH_HEAD.size + _BATCH_TAIL.size + len(records) + len(record) > batch_bytes:
            break
        records += record
        count += 1
        if batch_bytes <= record_bytes:
            break
    now_ms = int(time.time() * 1000)
    tail = _BATCH_TAIL.pack(0, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    head = _BATCH_HEAD.pack(0, 9 + len(tail), -1, 2, crc32c.crc32c(tail))
    return Batch(head + tail, count)


def request(api_key: int, version: int, correlation_id: int, body: bytes, flexible: bool) -> bytes:
    """A whole frame: length, header (with a tag section in flexible versions), body."""
    head = struct.pack(">hhih", api_key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    if flexible:
        head += b"\0"
    return struct.pack(">i", len(head) + len(body)) + head + body


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _compact_string(text: str) -> bytes:
    raw = text.encode()
    return _uvarint(len(raw) + 1) + raw


@dataclass(frozen=True, slots=True)
class ProducePlan:
    """Produce v9 requests of one length each, and the shape of their answers.

    Request number n goes to topic n % topics; slot numbers are the correlation ids.
    """

    requests: bytes
    request_bytes: int
    slots: int
    topics: int
    batch: Batch
    answer: struct.Struct


def plan_produce(topics: list[str], batch: Batch, acks: int, slots: int) -> ProducePlan:
    """Prebuild `slots` requests round-robin over `topics`, whose names must be of one length."""
    lengths = {len(topic.encode()) for topic in topics}
    if len(lengths) != 1 or slots % len(topics):
        raise ValueError("topic names must have one length and divide the slots evenly")
    blocks = []
    for slot in range(slots):
        body = b"".join(
            (
                b"\0" + struct.pack(">hi", acks, 30_000),
                b"\2" + _compact_string(topics[slot % len(topics)]) + b"\2" + struct.pack(">i", 0),
                _uvarint(len(batch.data) + 1) + batch.data,
                b"\0\0\0",
            )
        )
        blocks.append(request(PRODUCE, 9, slot, body, flexible=True))
    # length, correlation id | tags, topics, name, partitions | index, error, base offset, append
    # time, log start | record errors, message, tags, tags | throttle | tags
    skipped = 3 + lengths.pop() + 1
    answer = struct.Struct(f">ii{skipped}xihqqq4xix")
    return ProducePlan(b"".join(blocks), len(blocks[0]), slots, len(topics), batch, answer)


@dataclass(slots=True)
class FetchPlan:
    """One Fetch v12 request whose offset is patched in place, and where the answer's parts lie."""

    frame: bytearray
    offset_at: int
    error_at: int
    records_at: int


def plan_fetch(topic: str, max_bytes: int) -> FetchPlan:
    """A fetch of partition 0 outside any fetch session, waiting for no more than is there."""
    before = struct.pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1)
    before += b"\2" + _compact_string(topic) + b"\2" + struct.pack(">ii", 0, -1)
    after = struct.pack(">iqi", -1, -1, max_bytes) + b"\0\0" + b"\1" + b"\1" + b"\0"
    frame = request(FETCH, 12, 0, before + struct.pack(">q", 0) + after, flexible=True)
    name_bytes = len(topic.encode())
    # length, correlation id, tags | throttle, error, session | topics, name, partitions, index
    error_at = 9 + 10 + 1 + 1 + name_bytes + 1 + 4
    # error, high watermark, last stable, log start | aborted | preferred replica | record bytes
    return FetchPlan(
        bytearray(frame), len(frame) - len(after) - 8, error_at, error_at + 2 + 24 + 1 + 4
    )


def create_topics_body(topics: list[str]) -> bytes:
    """CreateTopics v4: one partition and one replica each."""
    parts = [struct.pack(">i", len(topics))]
    parts += [_string(topic) + struct.pack(">ihii", 1, 1, 0, 0) for topic in topics]
    return b"".join(parts) + struct.pack(">ib", 30_000, 0)


def delete_topics_body(topics: list[str]) -> bytes:
    """DeleteTopics v3."""
    names = b"".join(_string(topic) for topic in topics)
    return struct.pack(">i", len(topics)) + names + struct.pack(">i", 30_000)


def list_offsets_body(topics: list[str]) -> bytes:
    """ListOffsets v2: the end of partition 0 of each topic."""
    parts = [struct.pack(">ibi", -1, 0, len(topics))]
    parts += [_string(topic) + struct.pack(">iiq", 1, 0, -1) for topic in topics]
    return b"".join(parts)


class Reader:
    """Reads the answers of the set-up requests, which are not timed."""

    def __init__(self, data: bytes) -> None:
        """Start at the first byte after the correlation id."""
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        """The next integers, by their struct letters."""
        numbers: tuple[int, ...] = struct.unpack_from(">" + layout, self._data, self._at)
        self._at += struct.calcsize(">" + layout)
        return numbers

    def string(self) -> str:
        """The next string; a null one reads as empty."""
        (length,) = self.take("h")
        start, self._at = self._at, self._at + max(length, 0)
        return self._data[start : self._at].decode()
