"""After an unclean stop: what is whole is served, what is torn is cut and reported, and on it goes.

The big loops run on a small log of four batches, over every byte that a crash or bad disk can hit.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kbroker.protocol.batch import peek
from kbroker.protocol.compression import LZ4
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.storage.recovery import Cut
from tests.storage.batches import Sender, batch, batch_of_size, records_in
from tests.storage.disks import CountingDisk
from tests.storage.shelf import Shelf, scan
from tests.storage.wire import fetch_request, produce
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

BATCHES = [
    batch(b"first", b"of two"),
    batch(b"second", sender=Sender(7, 0, 0)),
    batch(b"third" * 3, b"fourth", b"fifth", codec=LZ4),
    batch(b"last", sender=Sender(7, 0, 1)),
]


class Damaged:
    """A log of four batches that is copied for each kind of damage."""

    def __init__(self, folder: Path) -> None:
        self._original = folder / "original"
        self._copy = folder / "copy"
        self.batches: list[tuple[int, bytes]] = []
        self.content = b""

    async def make(self, *, clean: bool = False) -> None:
        """Writes the log, and stops as told."""
        shelf = Shelf(self._original).start()
        for content in BATCHES:
            shelf.append(content)
        if clean:
            await shelf.stop()
        else:
            shelf.crash()
        (path,) = shelf.files(".meta")
        self.batches = scan(path)
        self.content = path.read_bytes()

    def start(self, content: bytes) -> Shelf:
        """A store on a copy whose segment holds `content` instead."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._original, self._copy)
        shelf = Shelf(self._copy)
        shelf.epoch = 0  # the copied log's; the next start opens another
        shelf.files(".meta")[0].write_bytes(content)
        return shelf.start()

    def whole_before(self, position: int) -> list[bytes]:
        """The batches that end before a damaged byte."""
        return [one for at, one in self.batches if at + len(one) <= position]

    async def check(self, shelf: Shelf, whole: list[bytes], removed_bytes: int) -> None:
        """It serves exactly these, has reported what it removed, and goes on over restarts."""
        assert shelf.stored() == whole
        assert sum(cut.removed_bytes for cut in shelf.cuts) == removed_bytes
        assert (len(shelf.cuts) == 0) == (removed_bytes == 0)
        end = peek(whole[-1]).last_offset + 1 if whole else 0
        for cut in shelf.cuts:
            assert cut.reason
            assert cut.next_offset == end
            assert cut.position == sum(map(len, whole))
        assert shelf[0].log_end == end
        assert shelf.append(batch(b"goes on")).base_offset == end
        shelf.restart()
        assert shelf.cuts == [], "what was left is whole"
        assert shelf.stored()[:-1] == whole
        assert shelf.values()[-1] == b"goes on"
        assert shelf.append().base_offset == end + 1
        await shelf.stop()
        shelf.start()
        assert shelf.cuts == []
        assert shelf.stored()[:-2] == whole
        shelf.crash()


@pytest.mark.slow
async def test_a_segment_cut_at_any_byte_serves_what_was_whole(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.make()
    for size in range(len(damaged.content) + 1):
        shelf = damaged.start(damaged.content[:size])
        whole = damaged.whole_before(size)
        await damaged.check(shelf, whole, size - sum(map(len, whole)))


@pytest.mark.slow
@pytest.mark.parametrize("clean", [False, True])
async def test_a_bit_flipped_in_any_byte_is_found_and_cut(tmp_path: Path, clean: bool) -> None:
    """Also after a clean stop, if only the file's size tells that something has happened since."""
    damaged = Damaged(tmp_path)
    await damaged.make(clean=clean)
    grown = b"\0" if clean else b""
    for position in range(len(damaged.content)):
        start = max(at for at, _ in damaged.batches if at <= position)
        if 12 <= position - start < 16:
            continue  # the epoch: see the next test
        content = bytearray(damaged.content + grown)
        content[position] ^= 1 << position % 8
        shelf = damaged.start(bytes(content))
        assert shelf.cuts or clean
        whole = damaged.whole_before(position)
        assert shelf.stored() == whole, f"bit {position % 8} of byte {position - start}"
        if clean:
            assert shelf[0].log.cuts, "lazily opened, and cut all the same"
            shelf.cuts = shelf[0].log.cuts
        await damaged.check(shelf, whole, len(damaged.content) + len(grown) - start)


async def test_a_bit_flipped_in_the_epoch_harms_no_record(tmp_path: Path) -> None:
    """The epoch lies outside of the checksum, as in Apache Kafka, and nothing contradicts a high
    one: records and offsets stay as they were."""
    damaged = Damaged(tmp_path)
    await damaged.make()
    expected = [record for _, one in damaged.batches for record in records_in(one)]
    for start, _ in damaged.batches:
        for bit in range(32):
            content = bytearray(damaged.content)
            content[start + 12 + bit // 8] ^= 1 << bit % 8
            shelf = damaged.start(bytes(content))
            assert shelf.records() == expected
            assert shelf.append().base_offset == 7
            shelf.restart()
            assert shelf.records()[:-1] == expected
            shelf.crash()


@pytest.mark.parametrize("seed", range(60))
async def test_a_tail_of_zeros_or_noise_is_cut(tmp_path: Path, seed: int) -> None:
    """After a power cut a file can be longer than what was written into it."""
    rng = random.Random(seed)
    damaged = Damaged(tmp_path)
    await damaged.make()
    size = rng.choice([1, 11, 12, 60, 61, 62, 4096, 100_000])
    tail = bytes(size) if seed % 2 else rng.randbytes(size)
    shelf = damaged.start(damaged.content + tail)
    await damaged.check(shelf, [one for _, one in damaged.batches], size)


def only(cuts: list[Cut]) -> Cut:
    assert len(cuts) == 1
    return cuts[0]


async def test_a_torn_last_batch_is_not_kept(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.make()
    shelf = damaged.start(damaged.content[:-1])
    assert only(shelf.cuts).kept_in is None
    assert shelf.files(".cut") == []
    shelf.crash()


@pytest.mark.parametrize("byte", [0, 5, 9, 11, 16, 17, 20, 30, 61, 70])
async def test_whole_batches_behind_the_damage_are_kept_in_a_file(
    tmp_path: Path, byte: int
) -> None:
    """Whatever was hit of the second batch: also its length, by which the third would be found."""
    damaged = Damaged(tmp_path)
    await damaged.make()
    start = damaged.batches[1][0]
    content = bytearray(damaged.content)
    content[start + byte] ^= 0x40
    shelf = damaged.start(bytes(content))
    cut = only(shelf.cuts)
    assert cut.kept_in is not None
    (kept,) = shelf.files(".cut")
    assert str(kept) == cut.kept_in
    assert kept.read_bytes() == bytes(content[start:])
    shelf.append()
    shelf.restart()
    assert len(shelf.stored()) == 2
    assert len(shelf.files(".cut")) == 1
    shelf.crash()


async def test_damage_in_a_sealed_segment_costs_its_tail_and_not_the_later_segments(
    tmp_path: Path,
) -> None:
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for _ in range(9):
            shelf.append(batch_of_size(300))
        shelf.crash()
        second = shelf.files(".meta")[1]
        content = bytearray(second.read_bytes())
        content[450] ^= 1
        second.write_bytes(content)
        shelf.start()
        cut = only(shelf.cuts)
        assert (Path(cut.path), cut.position, cut.next_offset) == (second, 300, 4)
        assert [record.offset for record in shelf.records()] == [0, 1, 2, 3, 6, 7, 8]
        for offset in (4, 5, 6):  # a consumer that stood there goes on behind the hole
            part = shelf[0].read(offset, 1, True)
            assert part is not None
            assert part.length == 300
        assert shelf.append().base_offset == 9
        shelf.restart()
        assert shelf.cuts == []
        assert [record.offset for record in shelf.records()] == [0, 1, 2, 3, 6, 7, 8, 9]


async def test_the_producers_of_a_cut_batch_may_send_it_again(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path)
    await damaged.make()
    shelf = damaged.start(damaged.content[:-1])
    assert shelf.append(BATCHES[3]).base_offset == 6  # not a duplicate: it is gone
    assert shelf.append(BATCHES[3]).base_offset == 6
    assert shelf[0].log_end == 7
    shelf.crash()


# What need not be checked


async def test_after_a_clean_stop_no_segment_is_read(tmp_path: Path) -> None:
    disk = CountingDisk()
    async with Shelf(tmp_path, {"segment.bytes": 4000}, disk=disk, partition_count=5) as shelf:
        for number in range(5):
            for _ in range(40):
                shelf.append(batch_of_size(500), number)
        await shelf.stop()
        disk.read_bytes.clear()
        disk.opened.clear()
        shelf.start()
        assert [shelf[number].log_end for number in range(5)] == [40] * 5
        assert disk.read_bytes[".meta"] == 0
        assert disk.opened[".meta"] == 0


async def test_only_segments_from_the_recovery_point_on_are_read(tmp_path: Path) -> None:
    disk = CountingDisk()
    async with Shelf(tmp_path, {"segment.bytes": 4000}, disk=disk) as shelf:
        for _ in range(40):
            shelf.append(batch_of_size(500))
        await shelf.store.flusher.sync_now(shelf[0])
        await shelf.store.save_checkpoint()
        shelf.append(batch_of_size(500))
        disk.read_bytes.clear()
        shelf.restart()
        assert shelf[0].log_end == 41
        sizes = [path.stat().st_size for path in shelf.files(".meta")]
        assert sizes == [4000] * 5 + [500]
        # The point names the fifth segment, which was full, and whose end it was.
        assert disk.read_bytes[".meta"] <= 4500


async def test_a_partition_unchanged_since_its_recovery_point_is_not_read(tmp_path: Path) -> None:
    disk = CountingDisk()
    async with Shelf(tmp_path, disk=disk, partition_count=3) as shelf:
        for number in range(3):
            shelf.append(batch_of_size(500), number)
            await shelf.store.flusher.sync_now(shelf[number])
        await shelf.store.save_checkpoint()
        shelf.append(batch_of_size(600), 1)
        disk.read_bytes.clear()
        shelf.restart()
        assert disk.read_bytes[".meta"] == 1100
        assert [len(shelf.stored(number)) for number in range(3)] == [1, 2, 1]


async def test_what_recovery_found_is_synced_before_it_counts_as_synced(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append()
        shelf.restart()
        partition = shelf[0]
        assert partition.synced_end == 0
        await shelf.store.flusher.sync_now(partition)
        assert partition.synced_end == 1
        await shelf.store.save_checkpoint()
        shelf.restart()
        assert not shelf.store.checkpoint.clean
        assert shelf[0].synced_end == 1, "the point vouches for it"


async def test_the_mark_of_a_clean_stop_is_used_once(tmp_path: Path) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append()
        await shelf.stop()
        assert (tmp_path / "clean-stop").exists()
        shelf.start()
        assert shelf.store.checkpoint.clean
        assert not (tmp_path / "clean-stop").exists()
        shelf.restart()
        assert not shelf.store.checkpoint.clean


# Small files


@pytest.mark.parametrize("seed", range(80))
async def test_garbage_in_the_small_files_never_stops_a_start(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with Shelf(tmp_path, {"segment.bytes": 1024}) as shelf:
        for number in range(12):
            shelf.append(batch(b"v" * 200, sender=Sender(7, 0, number)))
            if number == 6:
                shelf.restart()
        expected = shelf.values()
        if rng.random() < 0.5:
            await shelf.stop()
        else:
            await shelf.store.save_checkpoint()
            shelf.crash()
        small = small_files(tmp_path)
        names = {path.name for path in small}
        assert "leader-epoch-checkpoint" in names
        assert "recovery-points" in names
        for path in small:
            spoil(path, rng)
        (shelf.partition_folder() / "log-start").write_bytes(rng.choice([b"", b"x", b"-1", b"\0"]))
        shelf.start()
        assert shelf.values() == expected
        assert shelf[0].log_start == 0
        assert shelf.append(batch(b"more", sender=Sender(7, 0, 12))).base_offset == 12
        shelf.restart()
        assert shelf.values() == [*expected, b"more"]


def small_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".meta"]


def spoil(path: Path, rng: random.Random) -> None:
    """Some way in which a file can go bad."""
    content = path.read_bytes()
    match rng.randrange(6):
        case 0:
            path.unlink()
        case 1:
            path.write_bytes(b"")
        case 2:
            path.write_bytes(bytes(len(content)))
        case 3:
            path.write_bytes(rng.randbytes(rng.randrange(1, 200)))
        case 4:
            path.write_bytes(content[: rng.randrange(len(content) + 1)])
        case 5:
            path.write_bytes(content + rng.randbytes(3))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"7",
        b"null",
        b'{"partitions": []}',
        b'{"partitions": 5}',
        b'{"partitions": {"things-0:x": null}}',
        b'{"partitions": {"things-0:x": [1]}}',
        b'{"partitions": {"things-0:x": ["a", "b"]}}',
        b'{"partitions": {"things-0:x": [Infinity, 0]}}',
        b'{"partitions": {"things-0:x": {"a": 1}}}',
        b"\xff\xfe\xfd",
    ],
)
@pytest.mark.parametrize("marked", [True, False])
async def test_damaged_recovery_points_mean_that_everything_is_checked(
    tmp_path: Path, content: bytes, marked: bool
) -> None:
    async with Shelf(tmp_path) as shelf:
        shelf.append(batch(b"safe"))
        shelf.append(batch(b"torn"))
        await shelf.stop()
        path = shelf.files(".meta")[0]
        path.write_bytes(path.read_bytes()[:-1])
        key = shelf[0].log.key.encode()
        (tmp_path / "recovery-points").write_bytes(content.replace(b"things-0:x", key))
        if not marked:
            (tmp_path / "clean-stop").unlink()
        shelf.start()
        assert not shelf.store.checkpoint.clean
        assert len(shelf.cuts) == 1
        assert shelf.values() == [b"safe"]


# Through the whole broker


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["torn", "flipped in the middle", "zeros"])
def test_a_broker_starts_on_a_damaged_log_serves_the_rest_and_says_what_it_cut(
    fresh_broker: BrokerProcess, damage: str
) -> None:
    with RawClient(fresh_broker.bootstrap) as client:
        for number in range(5):
            answer = produce(client, "things", batch(b"value %d" % number), create=number == 0)
            assert (answer.error_code, answer.base_offset) == (0, number)
    fresh_broker.kill()
    path = fresh_broker.data_dir / "things-0" / f"{0:020}.meta"
    content, size = bytearray(path.read_bytes()), len(batch(b"value 0"))
    match damage:
        case "torn":
            del content[-3:]
            left, kept, removed = 4, False, size - 3
        case "flipped in the middle":
            content[3 * size + 61] ^= 4
            left, kept, removed = 3, True, 2 * size
        case _:
            content += bytes(5000)
            left, kept, removed = 5, False, 5000
    path.write_bytes(content)
    fresh_broker.start()
    (line,) = [line for line in fresh_broker.log_text().splitlines() if " tail_cut " in line]
    assert f"file=things-0/{0:020}.meta" in line
    assert f"at={left * size} removed_bytes={removed} next_offset={left} " in line
    assert ("kept_in=-" in line) == (not kept)
    if kept:
        kept_path = fresh_broker.data_dir / line.rpartition("kept_in=")[2].strip()
        assert kept_path.read_bytes() == bytes(content[left * size :])
    with RawClient(fresh_broker.bootstrap) as client:
        data = client.ask(fetch_request("things", 0), 12, FetchResponse).responses[0].partitions[0]
        assert (data.error_code, data.high_watermark) == (0, left)
        values = [record.value for record in records_in(bytes(data.records or b""))]
        assert values == [b"value %d" % number for number in range(left)]
        assert produce(client, "things", batch(b"goes on")).base_offset == left
