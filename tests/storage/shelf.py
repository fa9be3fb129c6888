"""A store on a folder with the partitions of one topic: started, stopped and crashed by the test.

A crash here drops everything that lives in memory, as a killed process does, and keeps what was
handed to the kernel. Each start opens a new epoch, as the broker does (rule R1).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from kbroker.clock import Clock
from kbroker.config import Settings
from kbroker.protocol.batch import HEADER_SIZE, peek, verify
from kbroker.protocol.records import Record
from kbroker.settings_table import TOPIC_SETTINGS
from kbroker.storage.disk import Disk
from kbroker.storage.partition import Append, Partition
from kbroker.storage.recovery import Cut
from kbroker.storage.segment import FileSlice
from kbroker.storage.store import Store
from tests.storage.batches import NOW_MS, batch, records_in, split

TOPIC = "things"
TOPIC_ID = bytes(range(16))
EPOCH_STEP = 16


class ManualClock(Clock):
    """Wall time stands still until a test moves it."""

    def __init__(self) -> None:
        self.time_ms = NOW_MS

    def now_ms(self) -> int:
        return self.time_ms


class Shelf:
    """Partitions `things-0`, `things-1`, ... in `folder`, with topic settings by Kafka's names."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object] | None = None,
        *,
        disk: Disk | None = None,
        partition_count: int = 1,
        max_open_files: int = 2000,
        topic_id: bytes = TOPIC_ID,
    ) -> None:
        self.folder = folder
        self.disk = disk or Disk()
        self.clock = ManualClock()
        self.partition_count = partition_count
        self.topic_id = topic_id
        self.cuts: list[Cut] = []
        self.epoch = -EPOCH_STEP
        self._max_open_files = max_open_files
        self.settings = Settings().for_topic(
            {name: TOPIC_SETTINGS[name].parse(str(v)) for name, v in (settings or {}).items()}
        )
        self.store: Store

    def start(self) -> Self:
        """Loads what is there, after checking it if the last stop was not clean."""
        loop = asyncio.get_running_loop()
        self.store = Store(
            loop, self.disk, self.clock, str(self.folder), max_open_files=self._max_open_files
        )
        self.disk.make_folder(str(self.folder))
        self.store.checkpoint.load()
        self.cuts = []
        if not self.store.checkpoint.clean:
            numbers = range(self.partition_count)
            wanted = [(TOPIC, number, self.topic_id, self.settings) for number in numbers]
            self.cuts = self.store.recover(wanted, lambda done, total: None)
        self.epoch += EPOCH_STEP
        self.store.epoch = self.epoch
        return self

    async def stop(self) -> None:
        """A clean stop."""
        await self.store.close()

    def crash(self) -> None:
        """The process is gone: nothing more is written, synced or remembered."""
        for partition in self.store.opened():
            if partition.sync_timer is not None:
                partition.sync_timer.cancel()
            partition.deleted = True  # a sync that is under way reports to nobody
            partition.log.close()
        self.store.executor.shutdown()

    def restart(self) -> Self:
        """A crash and a start."""
        self.crash()
        return self.start()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.crash()
        await asyncio.sleep(0)  # callbacks of ended syncs run on this loop, not on a closed one

    # Partitions

    def __getitem__(self, number: int) -> Partition:
        return self.store.partition(TOPIC, number, self.topic_id, self.settings)

    def partition_folder(self, number: int = 0) -> Path:
        """Where a partition's files are."""
        return self.folder / f"{TOPIC}-{number}"

    def files(self, suffix: str, number: int = 0) -> list[Path]:
        """The partition's files whose names end like this, in order."""
        return sorted(self.partition_folder(number).glob(f"*{suffix}"))

    # What tests do most

    def queue(self, content: bytes, number: int = 0) -> Append:
        """Appends a batch without writing it yet, as requests within a burst do."""
        view = memoryview(bytearray(content))
        return self[number].append(view, verify(view))

    def append(self, content: bytes | None = None, number: int = 0) -> Append:
        """Appends and writes one batch, by default with one small record."""
        append = self.queue(batch(b"value") if content is None else content, number)
        self.store.write()
        return append

    def stored(self, number: int = 0) -> list[bytes]:
        """All batches that a reader gets from the log start on."""
        return [one for part in slices(self[number]) for one in split(loaded(part))]

    def records(self, number: int = 0) -> list[Record]:
        """All records that a reader gets, those below the log start left out."""
        found = [record for one in self.stored(number) for record in records_in(one)]
        return [record for record in found if record.offset >= self[number].log_start]

    def values(self, number: int = 0) -> list[bytes | None]:
        """The values of all records."""
        return [record.value for record in self.records(number)]


def slices(
    partition: Partition, offset: int | None = None, max_bytes: int = 1 << 20
) -> Iterator[FileSlice]:
    """What fetches one after the other are given, until there is nothing more."""
    at = partition.log_start if offset is None else offset
    while True:
        part = partition.read(at, max_bytes, True)
        if part is None or not part.length:
            assert at >= partition.high_watermark, f"nothing to read at {at}"
            return
        yield part
        at = peek(split(loaded(part))[-1]).last_offset + 1


def loaded(part: FileSlice) -> bytes:
    """The bytes that a slice names, as sendfile would send them."""
    data = os.pread(part.file.fd, part.length, part.position)
    assert len(data) == part.length, "a slice names bytes that are not there"
    return data


def scan(path: Path) -> list[tuple[int, bytes]]:
    """Position and bytes of each batch of a segment, by a plain walk through the file."""
    data, found, position = path.read_bytes(), [], 0
    while position + HEADER_SIZE <= len(data):
        size = peek(data, position).size
        found.append((position, data[position : position + size]))
        position += size
    return found


async def until(condition: Callable[[], object], what: str, timeout_s: float = 10) -> None:
    """Waits for a condition with a deadline, while the loop goes on."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting for {what} after {timeout_s:g} s")
        await asyncio.sleep(0.001)
