"""The port to the file system: everything the storage does to files goes through a `Disk`.

Tests replace it to make writes and syncs fail at a chosen moment. An `OpenFile` closes itself when
the last reference goes, so a slice that is on its way to a socket keeps its file readable even if
the segment was deleted or pushed out of the file cache meanwhile; there is no counting by hand.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kbroker.protocol.primitives import Buffer

if TYPE_CHECKING:
    from kbroker.storage.segment import Segment

IOV_MAX = 1024


class OpenFile:
    """An open file descriptor that lives as long as somebody holds it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class Disk:
    """The real file system."""

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """Opens a file for reading and writing."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OpenFile(os.open(path, flags, 0o644))

    def write(self, file: OpenFile, buffers: Sequence[Buffer], position: int) -> None:
        """Writes all buffers one after the other, starting at `position`; OSError if it cannot."""
        size = sum(map(len, buffers))
        if len(buffers) <= IOV_MAX:
            written = os.pwritev(file.fd, buffers, position)
            if written == size:
                return
        else:
            written = 0
        # The rare rest: a short write (a signal, a disk that fills up) or very many buffers.
        whole = memoryview(b"".join(buffers))
        while written < size:
            written += os.pwrite(file.fd, whole[written:], position + written)

    def read(self, file: OpenFile, position: int, size: int) -> bytes:
        """Reads up to `size` bytes at `position`; fewer only at the end of the file."""
        data = os.pread(file.fd, size, position)
        while data and len(data) < size:
            more = os.pread(file.fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def sync(self, file: OpenFile) -> None:
        """Makes a file's bytes durable. Blocks: call it in a thread."""
        os.fdatasync(file.fd)

    def sync_folder(self, path: str) -> None:
        """Makes a folder's entries (new, renamed, removed files) durable. Blocks."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def truncate(self, file: OpenFile, size: int) -> None:
        """Cuts a file."""
        os.ftruncate(file.fd, size)

    def size(self, path: str) -> int:
        """A file's size in bytes; FileNotFoundError if there is none."""
        return os.stat(path).st_size

    def list(self, path: str) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def make_folder(self, path: str) -> None:
        """Makes a folder and its parents."""
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Renames a file or folder, replacing a file that is there."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """Removes a file; fine if it is gone already."""
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Removes a folder with all in it. Blocks."""
        import shutil

        shutil.rmtree(path, ignore_errors=True)

    def read_small(self, path: str) -> bytes | None:
        """The whole content of a small file, or None if there is no such file."""
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write_small(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replaces a small file at once: a crash leaves the old content or the new one."""
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if durable:
            self.sync_folder(os.path.dirname(path))


class FileCache:
    """Bounds the number of open segment files: beyond the limit, those unused longest are closed.

    A segment opens its file through `opened` and sets its `used` mark on each use; eviction gives
    a marked segment a second chance, so the hot path pays one attribute store and no reordering.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: OrderedDict[int, Segment] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, segment: Segment) -> None:
        """Notes that a segment has opened its file, and closes another one if there are too
        many."""
        self._open[id(segment)] = segment
        chances = len(self._open)
        while len(self._open) > self.limit:
            key, oldest = self._open.popitem(last=False)
            chances -= 1
            if oldest is segment or (oldest.used and chances > 0):
                oldest.used = False
                self._open[key] = oldest
            else:
                oldest.close()

    def forget(self, segment: Segment) -> None:
        """A segment has closed its file by itself."""
        self._open.pop(id(segment), None)
