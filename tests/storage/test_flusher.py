"""When a partition is synced, what one sync covers, and how many files that takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbroker.protocol.errors import KafkaStorageError
from kbroker.storage.checkpoint import RecoveryPoint
from tests.storage.batches import Sender, batch, batch_of_size
from tests.storage.disks import FaultyDisk, GatedDisk
from tests.storage.shelf import Shelf, until

GROUP_COMMIT = {"kbroker.flush.group.commit": "true"}


async def test_a_written_partition_is_synced_after_its_time(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"flush.ms": 30}) as shelf:
        shelf.append()
        shelf.append()
        assert shelf[0].synced_end == 0
        await until(lambda: shelf[0].synced_end == 2, "the timed sync")
        assert shelf.store.flusher.sync_count == 1
        shelf.append()
        await until(lambda: shelf[0].synced_end == 3, "the next timed sync")


async def test_a_partition_is_synced_at_once_when_enough_records_wait(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"flush.messages": 5, "flush.ms": 600_000}) as shelf:
        appends = [shelf.append(batch(b"a", b"b")) for _ in range(2)]
        assert not any(append.must_sync for append in appends)
        assert shelf.append(batch(b"c")).must_sync
        await until(lambda: shelf[0].synced_end == 5, "the sync")
        assert not shelf.append().must_sync
        assert shelf[0].synced_end == 5


async def test_with_group_commit_one_sync_covers_all_that_came_during_the_last(
    tmp_path: Path,
) -> None:
    disk = GatedDisk()
    async with Shelf(tmp_path, GROUP_COMMIT, disk=disk) as shelf:
        told: list[int] = []

        def append(number: int) -> None:
            outcome = shelf.append(batch(b"%d" % number))
            assert outcome.must_sync
            end = outcome.last_offset + 1
            shelf[0].synced_thresholds.add(end, lambda error: told.append(end))

        append(0)
        await until(lambda: disk.syncs_begun == 1, "the first sync")
        for number in range(1, 50):
            append(number)
        assert told == []
        disk.let_one_through()
        await until(lambda: disk.syncs_begun == 2, "the second sync")
        assert told == [1], "what came later is not covered by the first sync"
        disk.open_gate()
        await until(lambda: len(told) == 50, "the second sync's end")
        assert told == list(range(1, 51))
        assert disk.syncs_begun == 2


async def test_a_batch_sent_again_is_not_acknowledged_before_its_first_copy_is_synced(
    tmp_path: Path,
) -> None:
    """The connection broke while the sync ran, and the producer sends the batch again."""
    disk = GatedDisk()
    async with Shelf(tmp_path, GROUP_COMMIT, disk=disk) as shelf:
        content = batch(b"once", sender=Sender(7, 0, 0))
        shelf.append(content)
        shelf.append(batch(b"another"))
        again = shelf.append(content)
        assert again.base_offset == 0
        assert again.must_sync
        disk.open_gate()
        await until(lambda: shelf[0].synced_end == 2, "the sync")
        assert not shelf.append(content).must_sync


async def test_a_new_file_and_its_folder_are_synced_before_the_end_counts(tmp_path: Path) -> None:
    synced: list[str] = []

    class Watching(FaultyDisk):
        def sync_folder(self, path: str) -> None:
            synced.append(path)
            super().sync_folder(path)

    async with Shelf(tmp_path, {"segment.bytes": 1024}, disk=Watching()) as shelf:
        shelf.append(batch_of_size(900))
        await shelf.store.flusher.sync_now(shelf[0])
        assert synced == [str(shelf.partition_folder()), str(tmp_path)]
        shelf.append(batch_of_size(50 + 61))
        await shelf.store.flusher.sync_now(shelf[0])
        assert len(synced) == 2, "nothing new in the folder"
        shelf.append(batch_of_size(900))
        await shelf.store.flusher.sync_now(shelf[0])
        assert len(synced) == 4


async def test_segments_that_were_sealed_since_the_last_sync_are_synced_too(tmp_path: Path) -> None:
    synced: list[str] = []

    class Watching(FaultyDisk):
        def sync(self, file: object) -> None:
            synced.append(os.path.basename(file.path))  # type: ignore[attr-defined]  # NamedFile
            super().sync(file)  # type: ignore[arg-type]  # as above

    async with Shelf(tmp_path, {"segment.bytes": 1024}, disk=Watching()) as shelf:
        for _ in range(6):
            shelf.append(batch_of_size(900))
        await shelf.store.flusher.sync_now(shelf[0])
        assert sorted(synced) == [path.name for path in shelf.files(".meta")]


async def test_the_recovery_point_follows_the_sync_and_not_the_write(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with Shelf(tmp_path, GROUP_COMMIT, disk=disk) as shelf:
        points = shelf.store.checkpoint.points
        shelf.append(batch_of_size(100))
        await until(lambda: disk.syncs_begun == 1, "the sync")
        shelf.append(batch_of_size(100))
        assert points == {}
        disk.let_one_through()
        await until(lambda: points, "the first point")
        assert points[shelf[0].log.key] == RecoveryPoint(0, 100)
        disk.open_gate()
        await until(lambda: points[shelf[0].log.key].size == 200, "the second point")


async def test_sync_now_waits_for_all_that_is_written(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        await shelf.store.flusher.sync_now(shelf[0])  # nothing there, nothing to do
        for count in (1, 2, 3):
            shelf.append()
            await shelf.store.flusher.sync_now(shelf[0])
            assert shelf[0].synced_end == count
        assert shelf.store.flusher.sync_count == 3
        await shelf.store.flusher.sync_now(shelf[0])
        assert shelf.store.flusher.sync_count == 3


async def test_sync_now_raises_what_the_sync_met(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with Shelf(tmp_path, disk=disk) as shelf:
        shelf.append()
        disk.fail("sync")
        with pytest.raises(KafkaStorageError):
            await shelf.store.flusher.sync_now(shelf[0])
        with pytest.raises(KafkaStorageError):
            await shelf.store.flusher.sync_now(shelf[0])


def open_segments(folder: Path) -> int:
    """How many segment files of a folder this process has open."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue  # the one that lists
        count += path.startswith(str(folder)) and path.endswith(".meta")
    return count


async def test_hundreds_of_syncs_due_at_once_do_not_hold_hundreds_of_files(tmp_path: Path) -> None:
    disk = GatedDisk()
    shelf = Shelf(tmp_path, GROUP_COMMIT, disk=disk, partition_count=300, max_open_files=20)
    async with shelf:
        for number in range(300):
            shelf.append(number=number)
        await until(lambda: disk.syncs_begun == 4, "the threads to be busy")
        assert open_segments(tmp_path) <= 20 + 8
        disk.open_gate()
        await until(
            lambda: all(shelf[number].synced_end == 1 for number in range(300)), "all syncs"
        )
        assert open_segments(tmp_path) <= 20
        assert disk.syncs_begun == 300


async def test_the_syncs_after_a_crash_do_not_hold_hundreds_of_files(tmp_path: Path) -> None:
    before = Shelf(tmp_path, {"segment.bytes": 1024}, partition_count=100).start()
    for number in range(100):
        for _ in range(5):  # segments each
            before.append(batch_of_size(900), number)
    before.crash()
    disk = GatedDisk()
    async with Shelf(tmp_path, disk=disk, partition_count=100, max_open_files=20) as shelf:
        await until(lambda: disk.syncs_begun == 4, "the threads to be busy")
        assert open_segments(tmp_path) <= 20 + 8 + 4
        disk.open_gate()
        await until(lambda: all(shelf[n].synced_end == 5 for n in range(100)), "all syncs")


async def test_a_partition_in_line_is_not_overtaken_for_ever_by_a_busy_one(tmp_path: Path) -> None:
    async with Shelf(tmp_path, GROUP_COMMIT, partition_count=40) as shelf:
        for number in range(40):
            shelf.append(number=number)

        def load() -> bool:
            for number in range(10):
                shelf.append(number=number)
            return all(shelf[number].synced_end == 1 for number in range(10, 40))

        await until(load, "the quiet ones to be synced")
