"""One segment file: what is appended is found, in whole batches, and never anything else."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol.batch import peek, stamp
from kbroker.storage.disk import Disk, FileCache
from kbroker.storage.segment import Segment
from tests.storage.batches import batch, batch_of_size, split
from tests.storage.disks import CountingDisk, FaultyDisk
from tests.storage.shelf import loaded, scan

INTERVAL_BYTES = 256


def new_segment(folder: str | Path, base_offset: int = 0, disk: Disk | None = None) -> Segment:
    path = f"{folder}/{base_offset:020}.meta"
    return Segment(disk or Disk(), FileCache(16), path, base_offset, 0, sealed=False)


def fill(segment: Segment, batches: list[bytes]) -> None:
    """Appends batches as a partition does: stamped, written, told to the index."""
    for content in batches:
        view = memoryview(bytearray(content))
        offset = segment.next_offset
        stamp(view, offset, 0)
        segment.append([view], len(view))
        header = peek(view)
        segment.index.add(
            offset, header.last_offset, header.size, header.max_timestamp, INTERVAL_BYTES
        )


def sizes(draw: st.DrawFn) -> list[bytes]:
    shapes = draw(
        st.lists(st.tuples(st.integers(1, 5), st.integers(0, 300)), min_size=1, max_size=30)
    )
    return [batch(*[b"v" * size] * count) for count, size in shapes]


batch_lists = st.composite(sizes)()


@settings(deadline=None)
@given(batch_lists, st.integers(0, 1000))
def test_find_gives_what_a_linear_scan_gives_for_every_offset(
    batches: list[bytes], base: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        segment = new_segment(folder, base)
        fill(segment, batches)
        known = scan(Path(segment.path))
        for offset in range(base - 1, segment.next_offset + 2):
            expected = next((p for p, one in known if peek(one).last_offset >= offset), None)
            assert segment.find(offset) == (segment.size if expected is None else expected)


@settings(deadline=None)
@given(batch_lists, st.data())
def test_a_slice_holds_the_whole_batches_that_fit_and_at_least_one_if_asked(
    batches: list[bytes], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        segment = new_segment(folder)
        fill(segment, batches)
        known = scan(Path(segment.path))
        for _ in range(20):  # of one segment: what one read leaves behind must not bend the next
            offset = data.draw(st.integers(0, segment.next_offset - 1))
            max_bytes = data.draw(st.integers(0, 2000))
            at_least_one = data.draw(st.booleans())
            wanted = [one for _, one in known if peek(one).last_offset >= offset]
            part = segment.slice(offset, max_bytes, segment.size, at_least_one)
            got = split(loaded(part))
            assert got == wanted[: len(got)]
            assert sum(map(len, got)) <= max_bytes or (at_least_one and len(got) == 1)
            fits = len(wanted[0]) <= max_bytes
            assert bool(got) == (fits or at_least_one)


def test_a_read_that_got_nothing_does_not_mislead_a_reader_from_the_start(tmp_path: Path) -> None:
    """A fetch whose other partitions filled it asks for 0 bytes here, somewhere in the middle. The
    place where it stopped was noted as the place of offset 0, and the next consumer that began at 0
    was given the middle of the log."""
    segment = new_segment(tmp_path)
    fill(segment, [batch(b"first"), batch(b"second"), batch(b"third")])
    assert segment.slice(2, 0, segment.size, False).length == 0
    part = segment.slice(0, 1 << 20, segment.size, True)
    assert [peek(one).base_offset for one in split(loaded(part))] == [0, 1, 2]


def test_the_first_batch_comes_whole_even_if_it_is_larger_than_asked(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    fill(segment, [batch_of_size(5000), batch_of_size(100)])
    assert segment.slice(0, 10, segment.size, True).length == 5000
    assert segment.slice(0, 5099, segment.size, True).length == 5000
    assert segment.slice(0, 5100, segment.size, True).length == 5100


def test_a_slice_stays_readable_when_its_file_is_removed_and_pushed_out(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    fill(segment, [batch(b"kept")])
    part = segment.slice(0, 1 << 20, segment.size, True)
    segment.close()
    Path(segment.path).unlink()
    assert len(split(loaded(part))) == 1


def test_a_sealed_segment_finds_its_index_again_and_rebuilds_it_without_the_file(
    tmp_path: Path,
) -> None:
    segment = new_segment(tmp_path)
    fill(segment, [batch_of_size(300) for _ in range(40)])
    segment.seal()
    before = {offset: segment.find(offset) for offset in range(41)}
    segment.close()
    assert {offset: segment.find(offset) for offset in range(41)} == before
    segment.close()
    Path(segment.index_path).unlink()
    assert {offset: segment.find(offset) for offset in range(41)} == before


def test_a_failed_write_leaves_no_byte_behind(tmp_path: Path) -> None:
    disk = FaultyDisk()
    segment = new_segment(tmp_path, disk=disk)
    fill(segment, [batch(b"first")])
    before = Path(segment.path).read_bytes()
    disk.fail("write", errno.ENOSPC, torn_bytes=30)
    with pytest.raises(OSError, match="No space"):
        segment.append([batch(b"second")], len(batch(b"second")))
    assert Path(segment.path).read_bytes() == before
    assert segment.size == len(before)
    disk.heal()
    fill(segment, [batch(b"third")])
    assert [peek(one).base_offset for _, one in scan(Path(segment.path))] == [0, 1]


def test_very_many_buffers_are_written_in_order(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    buffers = [b"%06d" % number for number in range(3000)]
    segment.append(buffers, 18_000)
    assert Path(segment.path).read_bytes() == b"".join(buffers)


def test_no_more_files_are_open_than_the_cache_allows(tmp_path: Path) -> None:
    files = FileCache(16)
    segments = []
    for number in range(100):
        path = str(tmp_path / f"{number}.meta")
        segments.append(Segment(Disk(), files, path, 0, 0, sealed=False))
        fill(segments[-1], [batch(b"in file %d" % number)])
        assert len(files) <= 16
    assert sum(segment.file is not None for segment in segments) == 16
    for number, segment in enumerate(segments):  # all can still be read, and written
        part = segment.slice(0, 1 << 20, segment.size, True)
        assert b"in file %d" % number in loaded(part)
        fill(segment, [batch(b"more")])
    assert sum(segment.file is not None for segment in segments) == 16


def test_a_file_in_use_is_not_pushed_out_by_others_that_come_and_go(tmp_path: Path) -> None:
    files, disk = FileCache(16), CountingDisk()
    busy = Segment(disk, files, str(tmp_path / "log.busy"), 0, 0, sealed=False)
    for number in range(400):
        busy.open()
        Segment(disk, files, str(tmp_path / f"{number}.other"), 0, 0, sealed=False).open()
    assert disk.opened[".other"] == 400
    assert disk.opened[".busy"] == 1  # a plain queue would push it out every 16 openings
