"""The wire's smallest parts that a `struct` format cannot express: variable-length integers.

Everything else (fixed integers, strings, arrays) is unrolled by `schema` into the compiled codecs;
what is here is called only for the rare long form, because a length below 128 is read in line.
"""

from typing import Final

from kbroker.protocol.errors import FrameError

Buffer = bytes | bytearray | memoryview

ZERO_UUID: Final = bytes(16)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most five bytes; gives (value, next position)."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise FrameError("a varint does not fit 32 bits")


def uvarint(value: int) -> bytes:
    """Writes an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tagged_fields(buffer: Buffer, position: int, end: int) -> int:
    """Steps over a tag section whose content nobody wants; gives the next position."""
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            raise FrameError("a tagged field runs over the end of the message")
    return position
