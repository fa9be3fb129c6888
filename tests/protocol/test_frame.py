"""Any cut of a byte stream into pieces gives the same frames, and memory is given back."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbroker.protocol.errors import FrameError
from kbroker.protocol.frame import SHARED_BYTES, Framer, SharedBuffer

MAX_BYTES = 3 << 20
MEGABYTE = 1 << 20


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


class Feed:
    """Receives a stream as a transport does: into the buffer that the framer offers."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.shared = SharedBuffer()
        self.framer = Framer(self.shared, max_bytes)
        self.frames: list[bytes] = []

    def receive(self, data: bytes) -> None:
        """One piece of the stream; a buffer smaller than the piece takes several reads."""
        position = 0
        while position < len(data) and self.framer.problem is None:
            buffer = self.framer.buffer()
            assert len(buffer) > 0
            count = min(len(buffer), len(data) - position)
            buffer[:count] = data[position : position + count]
            position += count
            self.frames += [bytes(frame) for frame in self.framer.received(count)]

    def receive_in_pieces(self, data: bytes, sizes: list[int]) -> None:
        position = 0
        for size in [*sizes, len(data)]:
            self.receive(data[position : position + size])
            position += size


contents = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.sampled_from([b"", b"x", b"y" * 1000, b"z" * 70_000]),
    ),
    max_size=12,
)
pieces = st.lists(st.integers(1, 2000), max_size=60)


@settings(max_examples=200, deadline=None)
@given(contents, pieces)
@example([b"", b"", b""], [1] * 12)
@example([b"a" * (SHARED_BYTES - 4)], [])
@example([b"a" * (SHARED_BYTES - 3)], [])
@example([b"a" * (SHARED_BYTES - 4), b"b"], [])
@example([b"a" * (SHARED_BYTES - 6), b"b"], [SHARED_BYTES])
@example([b"a" * (1 << 20), b"b" * ((1 << 20) - 4), b"c" * ((1 << 20) - 3)], [3, 7])
@example([b"a" * (2 << 20), b"b"], [2, 2])
def test_any_pieces_give_the_same_frames(contents: list[bytes], pieces: list[int]) -> None:
    feed = Feed()
    feed.receive_in_pieces(b"".join(map(framed, contents)), pieces)
    assert feed.frames == contents
    assert feed.framer.problem is None


@settings(max_examples=200, deadline=None)
@given(
    contents,
    st.one_of(st.integers(-(1 << 31), -1), st.integers(MAX_BYTES + 1, (1 << 31) - 1)),
    st.binary(max_size=100),
    pieces,
)
def test_an_impossible_length_is_a_problem_after_the_frames_before_it(
    contents: list[bytes], length: int, rest: bytes, pieces: list[int]
) -> None:
    feed = Feed()
    stream = b"".join(map(framed, contents)) + struct.pack(">i", length) + rest
    feed.receive_in_pieces(stream, pieces)
    assert feed.frames == contents
    assert isinstance(feed.framer.problem, FrameError)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), pieces)
def test_garbage_gives_frames_or_a_problem_whatever_its_pieces(
    data: bytes, pieces: list[int]
) -> None:
    whole, cut = Feed(1000), Feed(1000)
    whole.receive(data)
    cut.receive_in_pieces(data, pieces)
    assert cut.frames == whole.frames
    assert (cut.framer.problem is None) == (whole.framer.problem is None)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3000)), max_size=80), st.data())
def test_connections_that_share_a_buffer_do_not_mix_their_frames(
    turns: list[tuple[int, int]], data: st.DataObject
) -> None:
    shared = SharedBuffer()
    feeds = []
    streams = []
    for number in range(4):
        feed = Feed()
        feed.shared = shared
        feed.framer = Framer(shared, MAX_BYTES)
        feeds.append(feed)
        sizes = data.draw(st.lists(st.sampled_from([0, 1, 5, 900, 40_000]), max_size=5))
        streams.append(b"".join(framed(bytes([number]) * size) for size in sizes))
    positions = [0] * 4
    for number, size in turns:
        position = positions[number]
        feeds[number].receive(streams[number][position : position + size])
        positions[number] += size
    for number, feed in enumerate(feeds):
        feed.receive(streams[number][positions[number] :])
        assert b"".join(map(framed, feed.frames)) == streams[number]


def test_a_frame_that_arrives_whole_is_not_copied() -> None:
    feed = Feed()
    buffer = feed.framer.buffer()
    buffer[:7] = framed(b"abc")
    (frame,) = feed.framer.received(7)
    buffer[4] = ord("A")
    assert bytes(frame) == b"Abc"


def test_frames_can_be_written_to() -> None:
    """The broker stamps offsets into a producer's bytes where they lie."""
    for pieces in ([], [5], [2, 2]):
        feed = Feed()
        data = framed(b"abc")
        position = 0
        frames: list[memoryview] = []
        for size in [*pieces, 7 - sum(pieces)]:
            buffer = feed.framer.buffer()
            buffer[:size] = data[position : position + size]
            frames = feed.framer.received(size)
            position += size
        frames[0][0] = ord("X")
        assert bytes(frames[0]) == b"Xbc"


def test_a_claimed_length_costs_no_memory() -> None:
    """4 bytes from each of 200 connections claimed 100 MB each; the broker took 20 GB for them."""
    shared = SharedBuffer()
    resident = resident_bytes()
    framers = []
    for _ in range(200):
        framer = Framer(shared, 200 << 20)
        buffer = framer.buffer()
        buffer[:8] = struct.pack(">i", 100 << 20) + b"body"
        assert framer.received(8) == []
        framers.append(framer)
        assert resident_bytes() - resident < 20 * MEGABYTE
    assert all(len(framer.buffer()) == (100 << 20) - 4 for framer in framers)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_small_frames_in_parts_use_the_same_few_buffers() -> None:
    feed = Feed()
    feed.receive_in_pieces(framed(b"warm") * 10, [5] * 20)
    tracemalloc.start()
    try:
        feed.receive_in_pieces(framed(b"a frame in parts") * 2000, [7] * 5000)
        feed.frames.clear()
        assert tracemalloc.get_traced_memory()[0] < MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_buffer_is_free_again_when_its_connection_closes() -> None:
    shared = SharedBuffer()
    first = Framer(shared, MAX_BYTES)
    first.buffer()[:2] = b"\0\0"
    first.received(2)
    held = first.buffer().obj
    first.close()
    second = Framer(shared, MAX_BYTES)
    second.buffer()[:2] = b"\0\0"
    second.received(2)
    assert second.buffer().obj is held


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"SSH-2.0-x", "SSH"),
        (b"\xff\xff\xff\xfe", "-2 bytes"),
        (b"\x7f\xff\xff\xff", "2147483647 bytes"),
    ],
)
def test_a_problem_says_who_may_have_knocked(start: bytes, said: str) -> None:
    for pieces in ([], [1], [2, 1, 1], [3]):
        feed = Feed()
        feed.receive_in_pieces(start, pieces)
        assert said in str(feed.framer.problem)
        assert feed.frames == []
