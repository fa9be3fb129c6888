"""Bytes in, whole requests out.

Every request is a 4-byte length and that many bytes. All connections receive into one shared
buffer; a connection gets a buffer of its own only while a frame is arriving in parts, and then
exactly as large as the frame. So idle connections cost nothing, and a request that arrives whole is
not copied. Such a buffer is mapped, not filled with zeros: it takes memory as bytes arrive, however
large the frame claims to be.

The views handed out are valid until the next call of `buffer`.
"""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

from kbroker.protocol.errors import FrameError

SHARED_BYTES: Final = 256 * 1024
_SPARE_BYTES: Final = 1 << 20
_SPARES_MAX: Final = 4


class SharedBuffer:
    """What all connections receive into, and a few spare buffers for frames in parts."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(SHARED_BYTES))
        self._spares: list[memoryview] = []

    def take(self, size: int) -> memoryview:
        """A buffer of at least `size` bytes."""
        if size <= _SPARE_BYTES:
            if self._spares:
                return self._spares.pop()
            size = _SPARE_BYTES
        return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))

    def give_back(self, buffer: memoryview) -> None:
        """A buffer that `take` gave is free again."""
        if len(buffer) == _SPARE_BYTES and len(self._spares) < _SPARES_MAX:
            self._spares.append(buffer)


class Framer:
    """Cuts one connection's input into frames."""

    __slots__ = ("_filled", "_max_bytes", "_own", "_shared", "_wanted", "problem")

    def __init__(self, shared: SharedBuffer, max_bytes: int) -> None:
        self._shared = shared
        self._max_bytes = max_bytes
        self._own: memoryview | None = None  # a frame in parts, its length included
        self._filled = 0
        self._wanted = 0
        self.problem: FrameError | None = None  # after the frames that came before it

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        if self._own is None:
            return self._shared.view
        return self._own[self._filled : self._wanted]

    def close(self) -> None:
        """No more bytes will come: the buffer of a half-received frame is free."""
        if self._own is not None:
            self._shared.give_back(self._own)
            self._own = None

    def received(self, count: int) -> list[memoryview]:
        """`count` bytes have arrived in the buffer: the frames that are whole now.

        A length that cannot be sets `problem`; the frames in front of it are still given out.
        """
        own = self._own
        if own is None:
            return self._split(self._shared.view[:count])
        self._filled += count
        if self._filled < self._wanted:
            return []
        if self._wanted == 4:
            length = self._length(own[:4], 0)
            if length < 0:
                return []
            self._wanted += length
            if self._wanted > len(own):
                larger = self._shared.take(self._wanted)
                larger[:4] = own[:4]
                self._shared.give_back(own)
                self._own = larger
            if self._wanted > 4:
                return []
            own = self._own
            assert own is not None
        # The views of the frame stay valid: the buffer is handed on only by a later `take`.
        frame = own[4 : self._wanted]
        self._own = None
        self._shared.give_back(own)
        return [frame]

    def _split(self, data: memoryview) -> list[memoryview]:
        frames: list[memoryview] = []
        position, end = 0, len(data)
        while end - position >= 4:
            length = self._length(data, position)
            if length < 0:
                return frames
            stop = position + 4 + length
            if stop > end:
                self._keep(data[position:], 4 + length)
                return frames
            frames.append(data[position + 4 : stop])
            position = stop
        if position < end:
            self._keep(data[position:], 4)
        return frames

    def _length(self, data: memoryview, position: int) -> int:
        """The length that stands there; -1, and the problem is noted, if it cannot be."""
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        if not 0 <= length <= self._max_bytes:
            start = bytes(data[position : position + 16])
            self.problem = FrameError(_what_came(start, length, self._max_bytes))
            return -1
        return length

    def _keep(self, part: memoryview, wanted: int) -> None:
        own = self._shared.take(wanted)
        own[: len(part)] = part
        self._own, self._filled, self._wanted = own, len(part), wanted


def _what_came(start: bytes, length: int, max_bytes: int) -> str:
    """Guesses who knocked: most frames of two gigabytes are other protocols."""
    if start[:4] in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PRI "):
        return "this is HTTP, and the port speaks Kafka's protocol"
    if start[:2] == b"\x16\x03":
        return "this is TLS, and the port speaks plain text: set security.protocol=PLAINTEXT"
    if start[:4] == b"SSH-":
        return "this is SSH, and the port speaks Kafka's protocol"
    if length < 0:
        return f"a frame of {length} bytes is not Kafka's protocol"
    return f"a frame of {length} bytes is larger than socket.request.max.bytes {max_bytes}"
