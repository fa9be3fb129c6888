"""Codecs: what others compress we read, what we compress others read, and no bytes do harm."""

import gzip
import importlib
import resource
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from kbroker.protocol.errors import CorruptMessage, UnsupportedCompressionType

# kafka-python loads its schemas, at import, by calls that Python has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:(open|read)_text is deprecated:DeprecationWarning")

MIB = 1 << 20
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
COMPRESSING = {name: codec for name, codec in CODECS.items() if codec != NONE}
# kafka-python's other codecs want packages of their own; aiokafka's share cramjam with us, so
# the independent witnesses for those are the captured batches in test_records.
OTHERS = [
    ("kafka.codec", "gzip"),
    ("aiokafka.codec", "gzip"),
    ("aiokafka.codec", "snappy"),
    ("aiokafka.codec", "lz4"),
    ("aiokafka.codec", "zstd"),
]

each_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
each_compressing_codec = pytest.mark.parametrize(
    "codec", COMPRESSING.values(), ids=COMPRESSING.keys()
)
each_other = pytest.mark.parametrize(("module", "name"), OTHERS)

# No deadline: the first example imports a client, and the machine may be busy.
unhurried = settings(max_examples=50, deadline=None)

# Repetitive enough to compress, long enough to cross snappy's and lz4's blocks.
plain_bytes = st.builds(
    lambda piece, times, tail: piece * times + tail,
    st.binary(max_size=300),
    st.integers(0, 600),
    st.binary(max_size=300),
)


def foreign(module: str, function: str) -> Callable[[bytes], Any]:
    found: Callable[[bytes], Any] = getattr(importlib.import_module(module), function)
    return found


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def zstd_blocks_of_zeros(count: int, content_size: int | None = None) -> bytes:
    """A zstd frame of run-length blocks: each says in four bytes "128 KiB of zeros"."""
    block = struct.pack("<I", 128 * 1024 << 3 | 0b010)[:3] + b"\x00"
    end = b"\x01\x00\x00"
    one_mib_window = b"\x00\x50"
    header = one_mib_window if content_size is None else b"\xe0" + struct.pack("<Q", content_size)
    return b"\x28\xb5\x2f\xfd" + header + block * count + end


@each_codec
@unhurried
@given(data=plain_bytes)
def test_what_was_compressed_comes_back(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data)))) == data
    assert decompress(codec, bytearray(compress(codec, bytearray(data))), len(data)) == data


@each_other
@unhurried
@given(data=plain_bytes)
def test_we_read_what_other_clients_compress(module: str, name: str, data: bytes) -> None:
    assert decompress(CODECS[name], foreign(module, f"{name}_encode")(data)) == data


@each_other
@unhurried
@given(data=plain_bytes)
def test_other_clients_read_what_we_compress(module: str, name: str, data: bytes) -> None:
    assert bytes(foreign(module, f"{name}_decode")(compress(CODECS[name], data))) == data


@each_codec
def test_content_far_larger_than_its_compressed_form_is_read_whole(codec: int) -> None:
    data = bytes(30 * MIB) + b"end"
    assert decompress(codec, compress(codec, data)) == data


@each_codec
@unhurried
@given(data=st.binary(min_size=1, max_size=100_000))
def test_the_limit_is_exact(codec: int, data: bytes) -> None:
    compressed = compress(codec, data)
    assert decompress(codec, compressed, len(data)) == data
    with pytest.raises(CorruptMessage, match=f"more than {len(data) - 1} bytes"):
        decompress(codec, compressed, len(data) - 1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, ZSTD], ids=["gzip", "snappy", "zstd"])
def test_streams_in_a_row_are_one_as_for_apache_kafka(codec: int) -> None:
    assert decompress(codec, compress(codec, b"one, ") + compress(codec, b"two")) == b"one, two"


def test_a_bare_snappy_block_is_read() -> None:
    data = b"librdkafka and Go clients send snappy without snappy-java's framing" * 9
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_a_snappy_header_in_the_wrong_byte_order_is_read() -> None:
    right = compress(SNAPPY, b"as Redpanda wrote it")
    assert right[8:16] == bytes((0, 0, 0, 1, 0, 0, 0, 1))
    wrong = right[:8] + bytes((1, 0, 0, 0, 1, 0, 0, 0)) + right[16:]
    assert decompress(SNAPPY, wrong) == b"as Redpanda wrote it"


def test_a_snappy_block_shorter_than_it_says_is_refused() -> None:
    whole = compress(SNAPPY, b"whole")
    size = int.from_bytes(whole[16:20], "big")
    with pytest.raises(CorruptMessage, match="cut off"):
        decompress(SNAPPY, whole[:16] + (size + 1).to_bytes(4, "big") + whole[20:])


def test_zstd_without_a_content_size_is_read() -> None:
    assert decompress(ZSTD, zstd_blocks_of_zeros(3)) == bytes(3 * 128 * 1024)


def test_lz4_blocks_are_independent_because_apache_kafka_refuses_others() -> None:
    frame = compress(LZ4, b"block after block " * 20_000)
    assert frame[:4] == bytes.fromhex("04224d18")
    assert frame[4] & 0b0010_0000


def bombs() -> dict[str, tuple[int, bytes]]:
    """A gigabyte or more for each codec, made without ever holding it."""
    mebibyte = bytes(MIB)
    snappy = compress(SNAPPY, mebibyte)
    return {
        "gzip": (GZIP, gzip.compress(mebibyte) * 1024),
        "snappy-blocks": (SNAPPY, snappy + snappy[16:] * 1023),
        "snappy-claim": (SNAPPY, b"\xff\xff\xff\xff\x07" + bytes(20)),
        "lz4": (LZ4, compress(LZ4, mebibyte) * 1024),
        "zstd": (ZSTD, zstd_blocks_of_zeros(30_000)),
        "zstd-claim": (ZSTD, zstd_blocks_of_zeros(30_000, content_size=30_000 * 128 * 1024)),
    }


@pytest.mark.parametrize("name", bombs())
def test_a_bomb_is_refused_before_it_takes_memory(name: str) -> None:
    codec, bomb = bombs()[name]
    before = peak_memory()
    with pytest.raises(CorruptMessage):
        decompress(codec, bomb, 4 * MIB)
    assert peak_memory() - before < 64 * MIB


@pytest.mark.parametrize("codec", [-1, 5, 6, 7, 99])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionType, match=f"codec {codec}"):
        decompress(codec, b"anything")
    with pytest.raises(UnsupportedCompressionType, match=f"codec {codec}"):
        compress(codec, b"anything")


@each_compressing_codec
def test_nothing_at_all_is_damage(codec: int) -> None:
    with pytest.raises(CorruptMessage):
        decompress(codec, b"")


@each_compressing_codec
def test_a_cut_at_any_byte_is_damage_or_a_shorter_whole(codec: int) -> None:
    data = b"".join(b"line %d of a text that compresses a little\n" % i for i in range(2000))
    compressed = compress(codec, data)
    for size in range(0, len(compressed), 1 + len(compressed) // 500):
        with suppress(CorruptMessage):
            # snappy-java's framing has no end mark: a cut between blocks goes unseen there.
            assert data.startswith(decompress(codec, compressed[:size]))
            assert codec == SNAPPY


@each_compressing_codec
@unhurried
@given(data=st.binary(max_size=2000))
def test_garbage_raises_only_what_kafka_has_a_number_for(codec: int, data: bytes) -> None:
    with suppress(CorruptMessage):
        decompress(codec, data, MIB)


@each_compressing_codec
@unhurried
@given(
    data=plain_bytes,
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=4),
)
def test_flipped_bits_raise_only_what_kafka_has_a_number_for(
    codec: int, data: bytes, flips: list[tuple[int, int]]
) -> None:
    damaged = bytearray(compress(codec, data))
    for position, bits in flips:
        damaged[position % len(damaged)] ^= bits
    with suppress(CorruptMessage):
        assert len(decompress(codec, damaged, MIB)) <= MIB
