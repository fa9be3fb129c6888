"""The segments of a log: rolled by size and by age, sealed for ever, dropped from the front."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol.batch import peek
from kbroker.protocol.errors import KafkaStorageError, OffsetOutOfRange
from kbroker.storage.log import file_name
from tests.storage.batches import NOW_MS, batch, batch_of_size
from tests.storage.disks import FaultyDisk
from tests.storage.running import in_a_folder
from tests.storage.shelf import Shelf, loaded, scan


def bases(shelf: Shelf) -> list[int]:
    return [int(path.stem) for path in shelf.files(".meta")]


async def test_segments_are_named_by_twenty_digits_of_their_first_offset(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for _ in range(12):
            shelf.append(batch_of_size(400))
        assert [path.name for path in shelf.files(".meta")] == [
            f"{base:020}.meta" for base in (0, 2, 4, 6, 8, 10)
        ]
        assert file_name(42, ".meta") == "00000000000000000042.meta"


async def test_a_batch_that_fits_exactly_stays_and_one_byte_more_rolls(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}, partition_count=2) as shelf:
        shelf.append(batch_of_size(512))
        shelf.append(batch_of_size(512))
        assert bases(shelf) == [0]
        shelf.append(batch_of_size(512), 1)
        shelf.append(batch_of_size(513), 1)
        assert [path.stem for path in shelf.files(".meta", 1)] == [f"{0:020}", f"{1:020}"]


async def test_a_batch_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for size in (100, 5000, 100):
            shelf.append(batch_of_size(size))
        assert [path.stat().st_size for path in shelf.files(".meta")] == [100, 5000, 100]


async def test_batches_of_one_burst_roll_as_if_they_came_one_by_one(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        appends = [shelf.queue(batch_of_size(400)) for _ in range(5)]
        shelf.store.write()
        assert [append.base_offset for append in appends] == [0, 1, 2, 3, 4]
        assert all(append.error is None for append in appends)
        assert bases(shelf) == [0, 2, 4]
        assert len(shelf.stored()) == 5


async def test_a_segment_is_rolled_when_a_batch_is_too_much_later_than_its_first(
    tmp_path: Path,
) -> None:
    async with Shelf(tmp_path, {"segment.ms": 1000}) as shelf:
        for after_ms in (0, 1000, 1001, 1500, 3000):
            shelf.append(batch(b"x", time_ms=NOW_MS + after_ms))
        assert bases(shelf) == [0, 2, 4]


async def test_the_age_of_a_segment_is_remembered_over_a_restart(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.ms": 1000}) as shelf:
        shelf.append(batch(b"x", time_ms=NOW_MS))
        await shelf.stop()
        shelf.start()
        shelf.append(batch(b"x", time_ms=NOW_MS + 999))
        assert bases(shelf) == [0]
        shelf.restart()
        shelf.append(batch(b"x", time_ms=NOW_MS + 1001))
        assert bases(shelf) == [0, 2]


async def test_sealed_segments_never_change(tmp_path: Path) -> None:
    """Whatever happens later: appends, reads, clean stops, crashes, a moved log start."""

    def digests() -> dict[str, str]:
        found = shelf.files(".meta")
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}

    async with Shelf(tmp_path, {"segment.bytes": 2000}) as shelf:
        seen: dict[str, str] = {}
        for round_number in range(12):
            for size in (300, 700, 450, 90):
                shelf.append(batch_of_size(size))
            now = digests()
            active = max(now)
            for name, digest in seen.items():
                assert now.get(name, digest) == digest, name
            seen |= {name: digest for name, digest in now.items() if name != active}
            assert len(shelf.stored()) > 0
            match round_number % 4:
                case 0:
                    await shelf.stop()
                    shelf.start()
                case 1:
                    shelf.restart()
                case 2:
                    await shelf[0].trim(shelf[0].log_start + 3)
        assert len(seen) > 10


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 700)), min_size=1, max_size=40),
    st.sampled_from([1024, 1500, 4000]),
    st.sampled_from([1, 300, 4096]),
    st.data(),
)
def test_every_offset_is_read_from_its_batch_across_segments(
    shapes: list[tuple[int, int]], segment_bytes: int, index_interval: int, data: st.DataObject
) -> None:
    async def check(folder: Path) -> None:
        topic = {"segment.bytes": segment_bytes, "index.interval.bytes": index_interval}
        async with Shelf(folder, topic) as shelf:
            expected: list[bytes] = []
            for count, size in shapes:
                shelf.append(batch(*[b"v" * size] * count))
            for path in shelf.files(".meta"):
                expected += [one for _, one in scan(path)]
            if data.draw(st.booleans()):
                shelf.restart()
            assert shelf.stored() == expected
            for offset in range(shelf[0].log_end):
                part = shelf[0].read(offset, 1, True)
                assert part is not None
                (one,) = [b for b in expected if peek(b).base_offset <= offset <= last(b)]
                assert loaded(part) == one

    in_a_folder(check)


def last(one: bytes) -> int:
    return peek(one).last_offset


async def test_the_log_start_moves_up_and_takes_whole_segments_with_it(tmp_path: Path) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for _ in range(12):
            shelf.append(batch_of_size(400))
        assert await shelf[0].trim(5) == 5
        assert bases(shelf) == [4, 6, 8, 10]
        assert [path.stem for path in shelf.files(".index")] == [f"{b:020}" for b in (4, 6, 8)]
        with pytest.raises(OffsetOutOfRange):
            shelf[0].read(4, 100, True)
        assert [record.offset for record in shelf.records()] == list(range(5, 12))
        for restart in (shelf.restart, shelf.restart):
            restart()
            assert shelf[0].log_start == 5
            assert [record.offset for record in shelf.records()] == list(range(5, 12))
        assert await shelf[0].trim(-1) == 12
        assert shelf.records() == []
        assert shelf.append().base_offset == 12
        shelf.restart()
        assert (shelf[0].log_start, shelf[0].log_end) == (12, 13)


@pytest.mark.parametrize("offset", [-2, 5, 1 << 40])
async def test_the_log_start_cannot_leave_what_is_readable(tmp_path: Path, offset: int) -> None:
    async with Shelf(tmp_path) as shelf:
        for _ in range(4):
            shelf.append()
        with pytest.raises(OffsetOutOfRange):
            await shelf[0].trim(offset)
        await shelf[0].trim(3)
        assert await shelf[0].trim(1) == 3  # it never moves back


async def test_a_log_start_that_could_not_be_stored_has_not_moved(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with Shelf(tmp_path, disk=disk) as shelf:
        for _ in range(4):
            shelf.append()
        disk.fail("write_small", 28, on="log-start")
        for _ in range(2):  # the second one too: it must not take the first one's word for it
            with pytest.raises(KafkaStorageError):
                await shelf[0].trim(2)
        assert shelf[0].log_start == 0
        disk.heal()
        assert await shelf[0].trim(2) == 2
        shelf.restart()
        assert shelf[0].log_start == 2


async def test_the_log_start_is_kept_even_if_the_tail_below_it_is_lost(tmp_path: Path) -> None:
    """DeleteRecords is synced at once, the records it deletes perhaps not yet: after a power cut
    the log may end below its start. Offsets go on from the start, and stay readable ever after."""
    async with Shelf(tmp_path) as shelf:
        for _ in range(10):
            shelf.append()
        await shelf[0].trim(8)
        path = shelf.files(".meta")[-1]
        shelf.crash()
        path.write_bytes(b"".join(one for _, one in scan(path)[:5]))
        shelf.start()
        assert (shelf[0].log_start, shelf[0].log_end) == (8, 8)
        assert shelf.append(batch(b"after")).base_offset == 8
        for _ in range(2):
            shelf.restart()
            assert shelf.cuts == []
            assert [(r.offset, r.value) for r in shelf.records()] == [(8, b"after")]


async def test_files_of_other_people_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append(batch(b"mine"))
        shelf.crash()
        for name in ("backup.meta", "old.snapshot", "notes.txt", "1.meta", "-5.meta", ".meta"):
            (shelf.partition_folder() / name).write_bytes(b"not mine")
        shelf.start()
        assert shelf.values() == [b"mine"]
        shelf.append(batch(b"more"))
        await shelf.stop()
        shelf.start()
        assert shelf.values() == [b"mine", b"more"]
        assert (shelf.partition_folder() / "backup.meta").read_bytes() == b"not mine"
