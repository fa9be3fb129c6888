"""All partitions of a folder: opened when asked for, taken away at once, found again."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from kbroker.protocol.errors import KafkaError, KafkaStorageError, UnknownTopicOrPartition
from kbroker.storage.waiters import Waiter
from tests.storage.batches import batch, batch_of_size
from tests.storage.disks import CountingDisk, FaultyDisk, GatedDisk
from tests.storage.shelf import TOPIC, TOPIC_ID, Shelf, until

OTHER_ID = bytes(range(100, 116))


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.getMessage().startswith(event)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Opening


async def test_a_partition_that_nobody_writes_to_costs_no_file(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=100) as shelf:
        for number in range(100):
            assert shelf[number].log_end == 0
            assert shelf[number].read(0, 100, True) is None
        assert names(tmp_path) == []
        shelf.append(number=7)
        assert names(tmp_path) == ["things-7"]
        assert names(shelf.partition_folder(7)) == [f"{0:020}.meta"]
        await shelf.stop()
        shelf.start()
        assert [shelf[number].log_end for number in (6, 7, 8)] == [0, 1, 0]


async def test_a_partition_is_opened_once(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=2) as shelf:
        assert shelf[0] is shelf[0]
        assert shelf[0] is not shelf[1]
        assert set(shelf.store.opened()) == {shelf[0], shelf[1]}


async def test_after_a_clean_stop_a_start_opens_nothing(tmp_path: Path) -> None:
    disk = CountingDisk()
    async with Shelf(tmp_path, disk=disk, partition_count=50) as shelf:
        for number in range(50):
            shelf.append(number=number)
        await shelf.stop()
        disk.opened.clear()
        shelf.start()
        assert list(shelf.store.opened()) == []
        assert sum(disk.opened.values()) == 0


async def test_a_partition_that_cannot_be_opened_is_an_error_of_its_own(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with Shelf(tmp_path, disk=disk, partition_count=2) as shelf:
        for number in (0, 1):
            shelf.append(number=number)
        await shelf.stop()
        shelf.start()
        (shelf.partition_folder(0) / "leader-epoch-checkpoint").unlink()  # so it must be read
        disk.fail("read", on="things-0")
        with pytest.raises(KafkaStorageError):
            shelf[0]
        assert shelf[1].log_end == 1
        disk.heal()
        assert shelf[0].log_end == 1


async def test_hundreds_of_partitions_share_a_few_open_files(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=300, max_open_files=16) as shelf:
        for round_number in range(3):
            for number in range(300):
                shelf.append(batch(b"%d/%d" % (round_number, number)), number)
            assert len(shelf.store.files) <= 16
        for number in range(300):
            assert shelf.values(number) == [b"%d/%d" % (r, number) for r in range(3)]
        await shelf.stop()
        shelf.start()
        for number in range(0, 300, 7):
            assert len(shelf.values(number)) == 3
            assert shelf.append(number=number).base_offset == 3
        shelf.restart()
        for number in range(0, 300, 7):
            assert shelf[number].log_end == 4


# Taking away


async def test_a_partition_taken_away_is_gone_at_once_and_its_files_follow(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=2) as shelf:
        for number in (0, 1):
            shelf.append(batch(b"old"), number)
        shelf.store.detach(TOPIC, 0, TOPIC_ID)
        assert not shelf.partition_folder(0).exists()
        fresh = shelf.store.partition(TOPIC, 0, OTHER_ID, shelf.settings)
        assert fresh.log_end == 0, "a new topic of the same name starts empty"
        shelf.store.discard(0, TOPIC_ID)
        await until(lambda: not list(tmp_path.glob(".*")), "the files to go")
        assert shelf.values(1) == [b"old"]


async def test_a_reader_of_a_partition_taken_away_is_woken(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append()
        woken: list[bool] = []
        shelf.store.waiting_room.park(Waiter(1, lambda: woken.append(True)), [shelf[0]], 60_000)
        shelf.store.detach(TOPIC, 0, TOPIC_ID)
        await until(lambda: woken, "the waiter")


async def test_a_producer_that_waits_for_a_sync_is_told_that_the_topic_is_gone(
    tmp_path: Path,
) -> None:
    disk = GatedDisk()
    settings = {"kbroker.flush.group.commit": "true"}
    async with Shelf(tmp_path, settings, disk=disk) as shelf:
        partition = shelf[0]
        shelf.append()
        told: list[BaseException | None] = []
        partition.synced_thresholds.add(1, told.append)
        shelf.store.detach(TOPIC, 0, TOPIC_ID)
        assert [type(error) for error in told] == [UnknownTopicOrPartition]
        disk.open_gate()
        await until(lambda: not partition.syncing, "the sync")
        assert len(told) == 1
        assert shelf.store.checkpoint.points == {}


@pytest.mark.parametrize("exists", [True, False])
async def test_a_deletion_that_a_crash_interrupted_is_finished_or_undone(
    tmp_path: Path, exists: bool
) -> None:
    """Detached and not discarded: the catalog knows whether the topic exists."""
    async with Shelf(tmp_path) as shelf:
        shelf.append(batch(b"kept?"))
        shelf.store.detach(TOPIC, 0, TOPIC_ID)
        shelf.crash()
        shelf.start()
        shelf.store.sweep(lambda topic_id: TOPIC if exists and topic_id == TOPIC_ID else None)
        if exists:
            assert shelf.values() == [b"kept?"]
        else:
            await until(lambda: not list(tmp_path.glob(".*deleted")), "the files to go")
            assert shelf.values() == []


# Stopping


async def test_a_stop_writes_what_is_queued_and_syncs_everything(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=20) as shelf:
        for number in range(20):
            shelf.append(number=number)
            shelf.queue(batch(b"queued"), number)
        partitions = list(shelf.store.opened())
        await shelf.stop()
        assert all(partition.synced_end == 2 for partition in partitions)
        shelf.start()
        assert shelf.store.checkpoint.clean
        assert [shelf[number].log_end for number in range(20)] == [2] * 20


async def test_a_stop_with_a_broken_partition_is_not_clean_but_saves_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with Shelf(tmp_path, disk=disk, partition_count=2) as shelf:
        for number in (0, 1):
            shelf.append(batch_of_size(200), number)
        disk.fail("sync", on="things-0")
        await shelf.stop()
        assert len(lines(caplog, "unclean_close partition=things-0")) == 1
        disk.heal()
        shelf.start()
        assert not shelf.store.checkpoint.clean
        assert [shelf[number].log_end for number in (0, 1)] == [1, 1]
        assert [shelf[number].synced_end for number in (0, 1)] == [0, 1]


async def test_a_stop_on_a_full_disk_ends_all_the_same_and_the_next_start_checks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with Shelf(tmp_path, disk=disk) as shelf:
        shelf.append(batch(b"safe"))
        disk.fail("write_small", errno.ENOSPC)
        await shelf.stop()
        assert lines(caplog, "unclean_close")
        disk.heal()
        shelf.start()
        assert not shelf.store.checkpoint.clean
        assert shelf.values() == [b"safe"]


async def test_recovery_points_that_cannot_be_saved_are_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    async with Shelf(tmp_path, disk=disk) as shelf:
        shelf.append()
        await shelf.store.flusher.sync_now(shelf[0])
        disk.fail("write_small", errno.ENOSPC, on="recovery-points")
        await shelf.store.save_checkpoint()
        assert len(lines(caplog, "checkpoint_failed")) == 1
        disk.heal()
        await shelf.store.save_checkpoint()
        shelf.restart()
        assert shelf[0].synced_end == 1


# Recovery of many


async def test_recovery_checks_all_partitions_and_tells_how_far_it_is(tmp_path: Path) -> None:
    async with Shelf(tmp_path, partition_count=30) as shelf:
        for number in range(30):
            for _ in range(number % 4):
                shelf.append(number=number)
        shelf.crash()
        shelf.start()
        seen: list[tuple[int, int]] = []
        shelf.crash()
        shelf.store = type(shelf.store)(
            shelf.store.loop, shelf.disk, shelf.clock, str(shelf.folder)
        )
        wanted = [(TOPIC, number, TOPIC_ID, shelf.settings) for number in range(30)]
        shelf.store.recover(wanted, lambda done, total: seen.append((done, total)))
        assert seen == [(done, 30) for done in range(1, 31)]
        assert [shelf[number].log_end for number in range(30)] == [n % 4 for n in range(30)]


async def test_each_cut_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with Shelf(tmp_path, partition_count=3) as shelf:
        for number in range(3):
            shelf.append(batch_of_size(200), number)
            shelf.append(batch_of_size(300), number)
        shelf.crash()
        for number in (0, 2):
            (path,) = shelf.files(".meta", number)
            path.write_bytes(path.read_bytes()[:-100])
        shelf.start()
        said = lines(caplog, "tail_cut")
        assert len(said) == 2
        for number, line in zip((0, 2), said, strict=True):
            start = f"tail_cut file=things-{number}/{0:020}.meta at=200 removed_bytes=200"
            assert line.startswith(f"{start} next_offset=1 reason=")
            assert line.endswith("kept_in=-")


async def test_a_point_does_not_vouch_for_what_grew_where_a_tail_was_cut(tmp_path: Path) -> None:
    """The point says 500 bytes; they are damaged, cut to 200, and 300 others are written there. A
    crash before the next checkpoint must not find the old point and believe it."""
    async with Shelf(tmp_path) as shelf:
        shelf.append(batch_of_size(200))
        shelf.append(batch_of_size(300))
        await shelf.stop()
        (path,) = shelf.files(".meta")
        path.write_bytes(path.read_bytes()[:-1])
        shelf.start()
        assert shelf[0].log_end == 1
        shelf.append(batch_of_size(100))
        shelf.append(batch_of_size(100))
        shelf.append(batch_of_size(100))
        shelf.crash()
        assert path.stat().st_size == 500
        content = bytearray(path.read_bytes())
        content[450] ^= 1
        path.write_bytes(content)
        shelf.start()
        assert [record.offset for record in shelf.records()] == [0, 1, 2]


async def test_an_error_is_kafkas_wherever_the_disk_gives_up(tmp_path: Path) -> None:
    """Handlers turn KafkaError into an answer; anything else would look like a bug of ours."""
    for operation in ("open", "write", "truncate"):
        disk = FaultyDisk()
        async with Shelf(tmp_path / operation, disk=disk) as shelf:
            shelf.append()
            shelf[0].log.close()
            disk.fail(operation)
            if operation == "truncate":
                disk.fail("write", errno.ENOSPC, torn_bytes=10)
            try:
                error = shelf.append().error
            except KafkaError as problem:
                error = problem
            assert isinstance(error, KafkaStorageError)
            assert shelf[0].offline is not None
