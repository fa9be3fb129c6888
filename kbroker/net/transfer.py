"""HOT. How answers reach a socket: bytes by write(2), stored bytes by sendfile(2).

One ordered queue per connection, written straight to the socket; when the kernel's buffer is full,
the rest goes when the socket is writable again. The choice of the system call lives here only:

- stored bytes up to 32 KiB are read and leave in one write together with the header before them;
- larger ones go by `os.sendfile`, the header held back with MSG_MORE so that both share packets;
- stored bytes that are not in the page cache are read by a thread first, so the loop never waits
  for a disk (`preadv` with RWF_NOWAIT tells).

uvloop offers no sendfile of its own and does not let anyone watch a transport's descriptor, so
watching uses a duplicate. Measured (PERFORMANCE.md): sendfile 0.26-0.30 CPU-s/GB, mmap and write
0.36-0.39, pread 1.86 at 16 KB and 0.53 at 900 KB.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from kbroker.storage.segment import FileSlice

Piece = bytes | bytearray | FileSlice

_READ_MAX = 32 * 1024
_WRITE_MAX = 256 * 1024
_CHUNK_BYTES = 128 * 1024
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)


class Outbox:
    """The unsent pieces of one connection."""

    __slots__ = (
        "_blocked",
        "_closed",
        "_executor",
        "_fd",
        "_loop",
        "_on_drained",
        "_on_error",
        "_pieces",
        "_socket",
        "_warm",
        "sent_bytes",
        "unsent_bytes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        fd: int,
        on_drained: Callable[[], None],
        on_error: Callable[[OSError], None],
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._fd = fd
        self._on_drained = on_drained
        self._on_error = on_error
        self._pieces: deque[Piece] = deque()
        self._socket: socket.socket | None = None
        self._blocked = False
        self._closed = False
        self._warm: FileSlice | None = None  # known to be in the page cache
        self.unsent_bytes = 0
        self.sent_bytes = 0

    def send(self, pieces: Iterable[Piece], size: int) -> None:
        """Queues pieces of `size` bytes altogether, and sends what the socket takes."""
        if self._closed:
            return
        self._pieces.extend(pieces)
        self.unsent_bytes += size
        if not self._blocked:
            self._flush()

    def close(self) -> None:
        """Drops everything; nothing is written from now on."""
        self._closed = True
        self._pieces.clear()
        if self._socket is not None:
            if self._blocked:
                self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _flush(self) -> None:
        pieces = self._pieces
        try:
            while pieces:
                if isinstance(pieces[0], FileSlice) and pieces[0].length > _READ_MAX:
                    if not self._send_file(pieces[0]):
                        return
                elif not self._send_bytes():
                    return
        except BlockingIOError:
            self._block()
            return
        except OSError as problem:
            self.close()
            self._on_error(problem)
            return
        self._on_drained()

    def _send_bytes(self) -> bool:
        """Sends the pieces up to the next large file in one call; False if it must wait."""
        pieces = self._pieces
        parts: list[bytes | bytearray] = []
        size = 0
        while pieces and size < _WRITE_MAX:
            piece = pieces[0]
            if isinstance(piece, FileSlice):
                if piece.length > _READ_MAX:
                    break
                try:
                    data = _read_now(piece, wait=piece is self._warm)
                except BlockingIOError:
                    if not parts:
                        self._warm_up(piece)
                        return False
                    break
                if len(data) != piece.length:
                    raise OSError("a stored batch is shorter than it was")
                piece = data
            pieces.popleft()
            parts.append(piece)
            size += len(piece)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        try:
            if pieces:
                sent = self._real_socket().send(data, socket.MSG_MORE)
            else:
                sent = os.write(self._fd, data)
        except BlockingIOError:
            pieces.appendleft(data)
            raise
        self.unsent_bytes -= sent
        self.sent_bytes += sent
        if sent < size:
            pieces.appendleft(data[sent:])
        return True

    def _send_file(self, piece: FileSlice) -> bool:
        if piece is not self._warm and not _is_cached(piece):
            self._warm_up(piece)
            return False
        file, position, length = piece
        sent = os.sendfile(self._fd, file.fd, position, length)
        if sent == 0:
            raise OSError("a stored batch is shorter than it was")
        self.unsent_bytes -= sent
        self.sent_bytes += sent
        if sent == length:
            self._pieces.popleft()
        else:
            self._warm = self._pieces[0] = FileSlice(file, position + sent, length - sent)
        return True

    def _real_socket(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(fileno=os.dup(self._fd))
        return self._socket

    def _block(self) -> None:
        self._blocked = True
        self._loop.add_writer(self._real_socket().fileno(), self._writable)

    def _writable(self) -> None:
        self._blocked = False
        self._loop.remove_writer(self._real_socket().fileno())
        self._flush()

    def _warm_up(self, piece: FileSlice) -> None:
        """Has a thread read cold bytes; the queue goes on when they are in the page cache."""
        self._blocked = True
        future = self._loop.run_in_executor(self._executor, _read_through, piece)

        def done(result: asyncio.Future[None]) -> None:
            if self._closed:
                return
            self._blocked = False
            problem = result.exception()
            if isinstance(problem, OSError):
                self.close()
                self._on_error(problem)
                return
            self._warm = piece
            self._flush()

        # The duplicate keeps remove_writer in close() harmless: nothing is being watched.
        self._real_socket()
        future.add_done_callback(done)


def _read_now(piece: FileSlice, wait: bool) -> bytes | bytearray:
    """Reads stored bytes if they are in memory; BlockingIOError if a disk would be asked."""
    file, position, length = piece
    if wait or not _NOWAIT:
        return os.pread(file.fd, length, position)
    buffer = bytearray(length)
    try:
        count = os.preadv(file.fd, [buffer], position, _NOWAIT)
    except BlockingIOError:
        raise
    except OSError:
        return os.pread(file.fd, length, position)  # a file system without RWF_NOWAIT
    if count < length:
        raise BlockingIOError
    return buffer


def _is_cached(piece: FileSlice) -> bool:
    """Whether probes at its start, middle and end find the slice in the page cache."""
    if not _NOWAIT:
        return True
    file, position, length = piece
    probe = [bytearray(1)]
    for at in (position, position + length // 2, position + length - 1):
        try:
            os.preadv(file.fd, probe, at, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
    return True


def _read_through(piece: FileSlice) -> None:
    file, position, length = piece
    end = position + length
    while position < end:
        count = len(os.pread(file.fd, min(_CHUNK_BYTES, end - position), position))
        if not count:
            return
        position += count
