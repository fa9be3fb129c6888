"""Fuzz: a byte stream cut into pieces gives the frames that it gives uncut.

The first byte says how many of the following bytes are sizes of pieces; the rest is the stream.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.protocol.frame import Framer, SharedBuffer

NAME = "framer"
MAX_BYTES = 2000
_SHARED = SharedBuffer()


def check(data: bytes) -> None:
    """The same stream whole and in pieces."""
    if not data:
        return
    count = data[0]
    sizes, stream = data[1 : 1 + count], data[1 + count :]
    pieces = []
    position = 0
    for size in sizes:
        pieces.append(stream[position : position + size])
        position += size
    pieces.append(stream[position:])
    whole, whole_problem = _frames([stream])
    cut, cut_problem = _frames(pieces)
    assert cut == whole
    assert cut_problem == whole_problem
    used = sum(4 + len(frame) for frame in whole)
    assert stream[:used] == b"".join(len(f).to_bytes(4, "big") + f for f in whole)
    if not whole_problem and len(stream) - used >= 4:
        assert int.from_bytes(stream[used : used + 4], "big") > len(stream) - used - 4


def _frames(pieces: list[bytes]) -> tuple[list[bytes], bool]:
    framer = Framer(_SHARED, MAX_BYTES)
    frames: list[bytes] = []
    for piece in pieces:
        position = 0
        while position < len(piece) and framer.problem is None:
            buffer = framer.buffer()
            count = min(len(buffer), len(piece) - position)
            buffer[:count] = piece[position : position + count]
            position += count
            frames += [bytes(frame) for frame in framer.received(count)]
    problem = framer.problem is not None
    framer.close()
    return frames, problem


def seeds() -> Iterator[bytes]:
    """Streams with frames of many sizes, and with bad lengths."""
    stream = b"".join(size.to_bytes(4, "big") + b"x" * size for size in (0, 1, 5, 100, 0, 1500))
    for sizes in (b"", b"\1" * 40, b"\3\5\7" * 20, b"\xff" * 10):
        yield bytes([len(sizes)]) + sizes + stream
        yield bytes([len(sizes)]) + sizes + stream + b"\xff\xff\xff\xff" + b"rest"
        yield bytes([len(sizes)]) + sizes + b"GET / HTTP/1.1\r\n\r\n"


if __name__ == "__main__":
    from tests.fuzz.engine import run

    run(NAME, check, seeds())
