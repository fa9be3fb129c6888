"""Fuzz: the batch checker, and reading the records inside.

The bytes are tried as they are, and again with magic, length and checksum put right, so that the
fuzzer gets past the checksum and into records and codecs. Nothing but a KafkaError may come out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kbroker.protocol import records
from kbroker.protocol.batch import CRC_START, HEADER_SIZE, MAGIC, PREFIX_SIZE, is_whole, verify
from kbroker.protocol.checksum import crc32c
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.records import Header, NewRecord

NAME = "batches"
MAX_SIZE = 1 << 20


def check(data: bytes) -> None:
    """The bytes as they are, and with a header that adds up."""
    try:
        verify(memoryview(data))
    except KafkaError:
        assert not is_whole(memoryview(data))
    else:
        assert is_whole(memoryview(data))
    if len(data) < HEADER_SIZE:
        return
    batch = bytearray(data)
    batch[16] = MAGIC
    struct.pack_into(">i", batch, 8, len(batch) - PREFIX_SIZE)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[CRC_START:]))
    header = verify(memoryview(batch))
    try:
        found = list(records.iterate(memoryview(batch), max_size=MAX_SIZE))
    except KafkaError:
        found = []
    else:
        assert len(found) == header.record_count
        assert all(header.base_offset <= record.offset <= header.last_offset for record in found)
    try:
        newest = records.max_timestamp_record(memoryview(batch))
    except KafkaError:
        return
    if found:
        assert newest is not None
        assert newest[1] == max(record.timestamp_ms for record in found)


def seeds() -> Iterator[bytes]:
    """Batches of every codec, with keys, headers, nulls and gaps in time."""
    several = [
        NewRecord(1_700_000_000_000, b"key", b"value", (Header("name", b"text"),)),
        NewRecord(1_699_999_999_000, None, None),
        NewRecord(1_700_000_100_000, b"", b"", (Header("", None), Header("é", b""))),
    ]
    for codec in range(5):
        yield records.build(several, compression=codec)
        yield records.build(several[:1], compression=codec, producer_id=5, base_sequence=0)
    yield records.build(several, control=True, transactional=True)
    yield records.build(several, log_append_time_ms=5, base_offset=1 << 40)
    yield bytes(HEADER_SIZE)
    yield b"\xff" * 100


if __name__ == "__main__":
    from tests.fuzz.engine import run

    run(NAME, check, seeds())
