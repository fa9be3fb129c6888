"""Disks that are slow on demand, or that remember what was asked of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from kbroker.protocol.primitives import Buffer
from kbroker.storage.disk import Disk, OpenFile

_GIVE_UP_S = 20


def path_of(file: OpenFile) -> str:
    """The file's path."""
    return os.readlink(f"/proc/self/fd/{file.fd}")


class GatedDisk(Disk):
    """Syncs of files whose path holds `gated` wait until the gate is opened."""

    def __init__(self) -> None:
        self.gated = "/nothing/"
        self.gate = threading.Event()
        self.started_count = 0
        self.finished_count = 0

    def close_for(self, part_of_path: str) -> None:
        """From now on syncs of such files wait."""
        self.gate.clear()
        self.gated = part_of_path
        self.started_count = self.finished_count = 0

    def open_again(self) -> None:
        """Lets the waiting syncs, and all that follow, go on."""
        self.gate.set()

    def sync(self, file: OpenFile) -> None:
        if self.gated in path_of(file):
            self.started_count += 1
            assert self.gate.wait(_GIVE_UP_S), "nobody opened the gate"
            super().sync(file)
            self.finished_count += 1
        else:
            super().sync(file)


class WatchedDisk(Disk):
    """Knows which files have bytes that were written and not synced since."""

    def __init__(self) -> None:
        self.unsynced: set[str] = set()

    def write(self, file: OpenFile, buffers: Sequence[Buffer], position: int) -> None:
        self.unsynced.add(path_of(file))
        super().write(file, buffers, position)

    def sync(self, file: OpenFile) -> None:
        path = path_of(file)
        super().sync(file)
        self.unsynced.discard(path)
