"""Kafka's four codecs, for the few who must look inside a compressed batch.

Batches are stored and sent as they came, so a broker may live without ever needing this file;
`cramjam` is imported when the first compressed batch is opened (10 ms that start-up does not pay).
Sizes are bounded: the compressed bytes come from a stranger, and a few kilobytes of zstd can hold
gigabytes. The output never exceeds `max_size`, whatever the frame's own header promises.

    codec   bytes                                            also read, because Kafka reads it
    gzip    one member                                       several members in a row
    snappy  snappy-java's framing, blocks of 32 KiB          a bare snappy block (librdkafka)
    lz4     one frame, independent blocks (Kafka insists)    -
    zstd    one frame                                        several in a row, without content size

lz4 frames in a row or with linked blocks are read here though Apache Kafka refuses them, and bytes
behind a gzip member or lz4 frame are refused here though Apache Kafka does not look at them.
"""

from collections.abc import Callable
from typing import Final

from kbroker.protocol.errors import CorruptMessage, UnsupportedCompressionType
from kbroker.protocol.primitives import Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

# Kafka has no limit here. 64 times its default max.message.bytes leaves room for very repetitive
# records, and a hostile batch can take neither more memory than a small machine has nor a second.
DEFAULT_MAX_SIZE: Final = 64 * 1024 * 1024

# snappy-java's framing: 8 bytes of magic, version and lowest compatible version (int32 each), then
# blocks, each an int32 length and a bare snappy block. A header may come again between blocks.
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEADER: Final = _SNAPPY_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))
_SNAPPY_BLOCK_SIZE: Final = 32 * 1024

_SMALLEST_GUESS: Final = 64 * 1024


def decompress(codec: int, data: Buffer, max_size: int = DEFAULT_MAX_SIZE) -> bytes:
    """Gives the plain bytes; CorruptMessage if they are damaged or would exceed `max_size`."""
    if codec == NONE:
        if len(data) > max_size:
            raise _too_large(max_size)
        return bytes(data)
    if codec == SNAPPY:
        return _decompress_snappy(data, max_size)

    import cramjam

    if codec == GZIP:
        return _decompress_bounded(cramjam.gzip.decompress_into, data, max_size)
    if codec == LZ4:
        return _decompress_bounded(cramjam.lz4.decompress_into, data, max_size)
    if codec == ZSTD:
        return _decompress_bounded(cramjam.zstd.decompress_into, data, max_size)
    raise _unknown(codec)


def compress(codec: int, data: Buffer) -> bytes:
    """Compresses as the Java client does, at each codec's usual level."""
    if codec == NONE:
        return bytes(data)

    import cramjam

    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec == SNAPPY:
        return _compress_snappy(data)
    if codec == LZ4:
        # Kafka's reader refuses frames whose blocks refer to one another: cramjam's default.
        compressor = cramjam.lz4.Compressor(block_linked=False)
        compressor.compress(bytes(data))  # takes no other buffer, though its stub says so
        return bytes(compressor.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    raise _unknown(codec)


def _decompress_bounded(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, max_size: int
) -> bytes:
    """Tries ever larger outputs: no frame says reliably how large its content is, and an output of
    fixed size is the only limit that cramjam knows. Fourfold growth wastes a third of the work."""
    import cramjam

    size = min(max(_SMALLEST_GUESS, 8 * len(data)), max_size)
    while True:
        output = bytearray(size)
        try:
            return bytes(memoryview(output)[: decompress_into(data, output)])
        except cramjam.DecompressionError as error:
            # Rust's own words for an output that is full; anything else is damage.
            if str(error) != "failed to write whole buffer":
                raise _damaged(error) from None
        if size == max_size:
            raise _too_large(max_size)
        del output  # before the next is made, or the peak would be both
        size = min(4 * size, max_size)


def _decompress_snappy(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _SNAPPY_MAGIC:
        return _decompress_snappy_block(view, 0, max_size)
    blocks = []
    size = position = 0
    while position < len(view):
        if bytes(view[position : position + 8]) == _SNAPPY_MAGIC:
            # The versions are not read: Redpanda wrote them in the wrong order (kafka-python#2414).
            position += len(_SNAPPY_HEADER)
            continue
        start = position + 4
        position = start + int.from_bytes(view[position:start], "big")
        if position > len(view):
            raise _damaged("a snappy block is cut off")
        block = _decompress_snappy_block(view[start:position], size, max_size)
        size += len(block)
        blocks.append(block)
    return b"".join(blocks)


def _decompress_snappy_block(block: memoryview, size_before: int, max_size: int) -> bytes:
    """A snappy block says its size first, and its reader holds it to that."""
    import cramjam

    try:
        if size_before + cramjam.snappy.decompress_raw_len(block) > max_size:
            raise _too_large(max_size)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged(error) from None


def _compress_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    pieces = [_SNAPPY_HEADER]
    for start in range(0, len(view) or 1, _SNAPPY_BLOCK_SIZE):  # aiokafka wants a block at least
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _SNAPPY_BLOCK_SIZE]))
        pieces += (len(block).to_bytes(4, "big"), block)
    return b"".join(pieces)


def _too_large(max_size: int) -> CorruptMessage:
    return CorruptMessage(f"compressed records hold more than {max_size} bytes")


def _damaged(why: object) -> CorruptMessage:
    return CorruptMessage(f"compressed records are damaged: {why}")


def _unknown(codec: int) -> UnsupportedCompressionType:
    return UnsupportedCompressionType(f"there is no codec {codec}")


CODEC_IDS: Final = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
"""Numbers by the names that `compression.type` knows."""
