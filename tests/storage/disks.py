"""Disks that count, fail or fill up when a test says so; all else is the real file system."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from kbroker.protocol.primitives import Buffer
from kbroker.storage.disk import Disk, OpenFile


class NamedFile(OpenFile):
    """An open file that remembers what it is called."""

    __slots__ = ("path",)

    def __init__(self, fd: int, path: str) -> None:
        super().__init__(fd)
        self.path = path


class CountingDisk(Disk):
    """Counts what is opened and read, by the last part of the file's name."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        self.read_bytes: Counter[str] = Counter()

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self.opened[_suffix(path)] += 1
        return NamedFile(os.open(path, flags, 0o644), path)

    def read(self, file: OpenFile, position: int, size: int) -> bytes:
        data = super().read(file, position, size)
        assert isinstance(file, NamedFile)
        self.read_bytes[_suffix(file.path)] += len(data)
        return data

    def read_small(self, path: str) -> bytes | None:
        data = super().read_small(path)
        self.read_bytes[_suffix(path)] += len(data or b"")
        return data


class Fault:
    """What goes wrong: the operation, on which files, the error, after how many that go well."""

    def __init__(self, operation: str, code: int, part_of_path: str, after: int, torn: int) -> None:
        self.operation = operation
        self.code = code
        self.part_of_path = part_of_path
        self.left = after
        self.torn_bytes = torn
        self.hits = 0

    def __repr__(self) -> str:
        return f"{errno.errorcode[self.code]} on {self.operation}"


class FaultyDisk(Disk):
    """Fails as it was told to, until it is healed. A failing write leaves some bytes behind."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def fail(
        self,
        operation: str,
        code: int = errno.EIO,
        *,
        on: str = "",
        after: int = 0,
        torn_bytes: int = 0,
    ) -> Fault:
        """From the operation after the next `after` ones on, `operation` fails with `code`.

        Only where the path contains `on`. A write puts `torn_bytes` into the file all the same.
        """
        fault = Fault(operation, code, on, after, torn_bytes)
        self.faults.append(fault)
        return fault

    def heal(self) -> None:
        """All is well from now on."""
        self.faults.clear()

    def _meet(self, operation: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.operation == operation and fault.part_of_path in path:
                if fault.left == 0:
                    fault.hits += 1
                    return fault
                fault.left -= 1
        return None

    def _check(self, operation: str, path: str) -> None:
        fault = self._meet(operation, path)
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code))

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        self._check("open", path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return NamedFile(os.open(path, flags, 0o644), path)

    def write(self, file: OpenFile, buffers: Sequence[Buffer], position: int) -> None:
        fault = self._meet("write", path_of(file))
        if fault is not None:
            os.pwrite(file.fd, b"".join(buffers)[: fault.torn_bytes], position)
            raise OSError(fault.code, os.strerror(fault.code))
        super().write(file, buffers, position)

    def read(self, file: OpenFile, position: int, size: int) -> bytes:
        self._check("read", path_of(file))
        return super().read(file, position, size)

    def sync(self, file: OpenFile) -> None:
        self._check("sync", path_of(file))
        super().sync(file)

    def sync_folder(self, path: str) -> None:
        self._check("sync_folder", path)
        super().sync_folder(path)

    def truncate(self, file: OpenFile, size: int) -> None:
        self._check("truncate", path_of(file))
        super().truncate(file, size)

    def write_small(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._check("write_small", path)
        super().write_small(path, content, durable=durable)


class SmallDisk(FaultyDisk):
    """A disk with so much room and no more: writes that do not fit are torn, as on a real one."""

    def __init__(self, room_bytes: int) -> None:
        super().__init__()
        self.room_bytes = room_bytes

    def write(self, file: OpenFile, buffers: Sequence[Buffer], position: int) -> None:
        whole = b"".join(buffers)
        grows = max(position + len(whole) - os.fstat(file.fd).st_size, 0)
        if grows > self.room_bytes:
            os.pwrite(file.fd, whole[: self.room_bytes], position)
            self.room_bytes = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room_bytes -= grows
        super().write(file, [whole], position)

    def truncate(self, file: OpenFile, size: int) -> None:
        before = os.fstat(file.fd).st_size
        super().truncate(file, size)
        self.room_bytes += before - size

    def write_small(self, path: str, content: bytes, *, durable: bool = True) -> None:
        replaced = 0
        with suppress(FileNotFoundError):
            replaced = os.stat(path).st_size
        if len(content) - replaced > self.room_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room_bytes -= len(content) - replaced
        super().write_small(path, content, durable=durable)


class GatedDisk(Disk):
    """Syncs wait at a gate, so that a test sees what happens while they are under way."""

    def __init__(self) -> None:
        self.syncs_begun = 0
        self._passes = threading.Semaphore(0)
        self._open = False

    def sync(self, file: OpenFile) -> None:
        self.syncs_begun += 1
        if not self._open:
            assert self._passes.acquire(timeout=20), "nobody opened the gate"
        super().sync(file)

    def let_one_through(self) -> None:
        """Lets one sync pass."""
        self._passes.release()

    def open_gate(self) -> None:
        """Lets all pass, now and later."""
        self._open = True
        self._passes.release(1000)


def path_of(file: OpenFile) -> str:
    """The path under which a file was opened."""
    assert isinstance(file, NamedFile)
    return file.path


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1] or os.path.basename(path)
