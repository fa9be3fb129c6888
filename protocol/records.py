"""The records inside a batch, for those few that must look: time lookups, compaction, the CLI.

A batch's records may be compressed as a whole and hold numbers relative to the batch's header (see
`batch` for its layout), so reading one means decoding from the first. One record:

    length            varint    bytes that follow
    attributes        int8      unused
    timestamp_delta   varlong   from base_timestamp; may be negative
    offset_delta      varint    from base_offset; has gaps after compaction
    key               varint length (-1: null), bytes
    value             varint length (-1: null), bytes
    headers           varint count, then for each a name (UTF-8) and a value, both with lengths

Varints are zigzag-coded. Producers are strangers and nobody has looked inside before us: whatever
the bytes are, reading gives records or raises a KafkaError. The checksum is not checked here:
`batch.verify` has done it when the bytes came in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kbroker.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    peek,
)
from kbroker.protocol.checksum import crc32c
from kbroker.protocol.compression import DEFAULT_MAX_SIZE, compress, decompress
from kbroker.protocol.errors import CorruptMessage, InvalidRecord
from kbroker.protocol.primitives import Buffer, uvarint

_INT64_END = 1 << 63


@dataclass(slots=True, frozen=True)
class Header:
    """A name and value that travel with a record; names may repeat."""

    key: str
    value: bytes | None


@dataclass(slots=True, frozen=True)
class Record:
    """A record as a consumer sees it. A value of None deletes the key in a compacted topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(slots=True, frozen=True)
class NewRecord:
    """A record that has no offset yet: `build` numbers them."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def iterate(batch: Buffer, *, max_size: int = DEFAULT_MAX_SIZE) -> Iterator[Record]:
    """Reads the records of one whole batch, in order; KafkaError if the content is malformed.

    Faults show when reached: records before the malformed one have been given by then.
    `max_size` bounds the decompressed bytes.
    """
    header = _checked_header(batch)
    if header.record_count == 0 and header.size == HEADER_SIZE:
        return  # compaction and promotions leave such batches; no codec reads zero bytes
    data = decompress(header.codec, memoryview(batch)[HEADER_SIZE:], max_size)
    position = 0
    for _ in range(header.record_count):
        try:
            record, position = _read_record(data, position, header)
        except IndexError:
            raise InvalidRecord("the batch ends inside a record") from None
        yield record
    if position != len(data):
        raise InvalidRecord("the batch holds more than the records that it counts")


def first_at_or_after(batch: Buffer, timestamp_ms: int, *, from_offset: int = 0) -> Record | None:
    """Gives the first record of that time or later, and not below `from_offset`: the log may start
    in the middle of a batch. The header's maximum is not asked: some producers leave it unset."""
    for record in iterate(batch):
        if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
            return record
    return None


def max_timestamp_record(batch: Buffer) -> tuple[int, int] | None:
    """Gives offset and timestamp of the newest record, the first of equals; None if empty."""
    newest = max(iterate(batch), key=lambda record: record.timestamp_ms, default=None)
    return (newest.offset, newest.timestamp_ms) if newest else None


def build(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    compression: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Makes one batch of at least one record, numbered from `base_offset` without gaps."""
    base_timestamp = records[0].timestamp_ms
    body = bytearray()
    for index, record in enumerate(records):
        _write_record(body, record, index, record.timestamp_ms - base_timestamp)
    payload = compress(compression, body)

    attributes = compression | TRANSACTIONAL * transactional | CONTROL * control
    max_timestamp = max(record.timestamp_ms for record in records)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms

    batch = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_SIZE - PREFIX_SIZE + len(payload),
            leader_epoch,
            MAGIC,
            0,  # the checksum covers what follows it
            attributes,
            len(records) - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
    )
    batch += payload
    batch[CRC_START - 4 : CRC_START] = crc32c(memoryview(batch)[CRC_START:]).to_bytes(4, "big")
    return bytes(batch)


def _checked_header(batch: Buffer) -> BatchHeader:
    if len(batch) < HEADER_SIZE:
        raise CorruptMessage(f"{len(batch)} bytes cannot hold a record batch")
    header = peek(batch)
    if header.magic != MAGIC:
        raise CorruptMessage(f"a batch of format {header.magic} cannot be opened")
    if header.size != len(batch):
        raise CorruptMessage(f"the batch says {header.size} bytes and there are {len(batch)}")
    if header.record_count < 0:
        raise InvalidRecord(f"the batch counts {header.record_count} records")
    return header


def _read_record(data: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    """Reads one record; IndexError at the end of data. A length may point outside: slices are
    checked against the record's end, and what varints step over is seen when the ends are compared.
    """
    size, position = _varint(data, position, 32)
    end = position + size
    if size < 0 or end > len(data):
        raise InvalidRecord(f"a record of {size} bytes does not fit in its batch")
    timestamp_delta, position = _varint(data, position + 1, 64)
    offset_delta, position = _varint(data, position, 32)
    key, position = _bytes(data, position, end)
    value, position = _bytes(data, position, end)
    count, position = _varint(data, position, 32)
    headers, position = _read_headers(data, position, end, count) if count else ((), position)
    if position != end:
        raise InvalidRecord(f"a record of {size} bytes has content of another size")
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise InvalidRecord(f"a record's offset delta {offset_delta} lies outside of its batch")
    offset = header.base_offset + offset_delta
    timestamp_ms = (
        header.max_timestamp
        if header.attributes & LOG_APPEND_TIME
        else header.base_timestamp + timestamp_delta
    )
    if offset >= _INT64_END or not -_INT64_END <= timestamp_ms < _INT64_END:
        raise InvalidRecord("a record's offset or timestamp does not fit 64 bits")
    return Record(offset, timestamp_ms, key, value, headers), end


def _read_headers(
    data: bytes, position: int, end: int, count: int
) -> tuple[tuple[Header, ...], int]:
    if not 0 <= count <= end - position:
        raise InvalidRecord(f"a record counts {count} headers")
    headers = []
    for _ in range(count):
        key, position = _bytes(data, position, end)
        if key is None:
            raise InvalidRecord("a header without a name")
        value, position = _bytes(data, position, end)
        # Kafka does not refuse names that are not UTF-8; escaped, they survive being rewritten.
        headers.append(Header(key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def _bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Reads a length and that many bytes; any negative length is null, as for Kafka."""
    size, position = _varint(data, position, 32)
    if size < 0:
        return None, position
    if position + size > end:
        raise InvalidRecord("a length runs over the end of its record")
    return data[position : position + size], position + size


def _varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Reads a zigzag-coded number; surplus bits of the last byte are dropped, as by Kafka."""
    byte = data[position]
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift >= bits:
            raise InvalidRecord(f"a varint does not fit {bits} bits")
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
    value &= (1 << bits) - 1
    return value >> 1 ^ -(value & 1), position + 1


def _write_record(
    out: bytearray, record: NewRecord, offset_delta: int, timestamp_delta: int
) -> None:
    body = bytearray(1)  # attributes
    body += _zigzag(timestamp_delta)
    body += _zigzag(offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    body += _zigzag(len(record.headers))
    for header in record.headers:
        _write_bytes(body, header.key.encode("utf-8", "surrogateescape"))
        _write_bytes(body, header.value)
    out += _zigzag(len(body))
    out += body


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\x01"  # -1, zigzag-coded
    else:
        out += _zigzag(len(value))
        out += value


def _zigzag(value: int) -> bytes:
    return uvarint(value << 1 ^ value >> 63)


def recompress(batch: Buffer, codec: int) -> bytes:
    """The same batch with its records compressed by another codec."""
    header = _checked_header(batch)
    raw = decompress(header.codec, memoryview(batch)[HEADER_SIZE:], DEFAULT_MAX_SIZE)
    payload = compress(codec, raw)
    attributes = header.attributes & ~CODEC_MASK | codec
    fields = list(header)
    fields[1] = HEADER_SIZE - PREFIX_SIZE + len(payload)
    fields[4], fields[5] = 0, attributes
    out = bytearray(HEADER.pack(*fields)) + payload
    out[17:21] = crc32c(memoryview(out)[CRC_START:]).to_bytes(4, "big")
    return bytes(out)
