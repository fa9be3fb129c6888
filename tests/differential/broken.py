"""Batches with one thing wrong: made of a right one, with or without a right checksum."""

from struct import pack, pack_into

from crc32c import crc32c

CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT = 17, 21, 23, 57
MAGIC_AT, LENGTH_AT, PRODUCER_AT = 16, 8, 43


def changed(batch: bytes, position: int, form: str, *values: int, reseal: bool = True) -> bytes:
    """A batch with other values at a position; `reseal` makes the checksum right again."""
    copy = bytearray(batch)
    pack_into(f">{form}", copy, position, *values)
    if reseal:
        pack_into(">I", copy, CRC_AT, crc32c(bytes(copy[ATTRIBUTES_AT:])))
    return bytes(copy)


def with_body(batch: bytes, body: bytes, count: int | None = None) -> bytes:
    """A batch's header before other record bytes; length and checksum are right."""
    copy = batch[:61] + body
    if count is not None:
        copy = copy[:LAST_DELTA_AT] + pack(">i", count - 1) + copy[LAST_DELTA_AT + 4 :]
        copy = copy[:COUNT_AT] + pack(">i", count) + copy[COUNT_AT + 4 :]
    return changed(copy, LENGTH_AT, "i", len(copy) - 12)


def old_message(magic: int, value: bytes = b"old") -> bytes:
    """A message set of one record in format 0 or 1, as clients before 0.11 sent it."""
    from zlib import crc32

    stamp = pack(">q", 1_700_000_000_000) if magic == 1 else b""
    content = pack(">bb", magic, 0) + stamp + pack(">i", -1) + pack(">i", len(value)) + value
    message = pack(">I", crc32(content)) + content
    return pack(">qi", 0, len(message)) + message
