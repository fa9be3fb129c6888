"""`kbroker dump`: reads what a broker wrote, and finds what time did to it."""

import json
import os
from pathlib import Path

import pytest

from kbroker.protocol.batch import HEADER_SIZE, batch_size
from tests.cli.commands import Run, without_what_varies
from tests.support.broker_process import BrokerProcess

SEGMENT = "00000000000000000000.meta"
INDEX = "00000000000000000000.index"


@pytest.fixture
def folder(run: Run, fresh_broker: BrokerProcess) -> Path:
    """A stopped broker's partition of three batches: offsets 0 and 1, 2, 3 to 5."""
    address = ("--bootstrap", fresh_broker.bootstrap)
    for content in (b"a:one\nb:two\n", b"c:three\n", b"d:4\ne:5\nf:6\n"):
        run("produce", "t", "--key-separator", ":", *address, stdin=content).check()
    fresh_broker.stop()
    return fresh_broker.data_dir / "t-0"


def positions(segment: Path) -> list[int]:
    """Where each batch begins, and the end."""
    data = segment.read_bytes()
    found = [0]
    while found[-1] < len(data):
        found.append(found[-1] + batch_size(data, found[-1]))
    return found


def overwrite(file: Path, position: int, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(content)


def test_batches_and_records_are_printed(run: Run, folder: Path) -> None:
    _, second, third, end = positions(folder / SEGMENT)
    done = run("dump", str(folder), "--records").check()
    text = without_what_varies(done.out).replace(str(folder), "FOLDER")
    assert text.splitlines() == [
        f"FOLDER/{INDEX}: index",
        f"  1 entry for the first {end} bytes, up to offset 6",
        f"FOLDER/{SEGMENT}: segment, {end} B",
        f"  at 0: offsets 0 to 1, 2 records, {second} bytes, none, TIME, epoch 0",
        '    0  TIME  key "a"  value "one"',
        '    1  TIME  key "b"  value "two"',
        f"  at {second}: offsets 2 to 2, 1 record, {third - second} bytes, none, TIME, epoch 0",
        '    2  TIME  key "c"  value "three"',
        f"  at {third}: offsets 3 to 5, 3 records, {end - third} bytes, none, TIME, epoch 0",
        '    3  TIME  key "d"  value "4"',
        '    4  TIME  key "e"  value "5"',
        '    5  TIME  key "f"  value "6"',
        "  3 batches, 6 records, offsets 0 to 5",
        f"2 files, 3 batches, 6 records, {end + (folder / INDEX).stat().st_size} B: no damage",
    ]


def test_everything_is_told_as_json_lines(run: Run, folder: Path) -> None:
    done = run("dump", str(folder / SEGMENT), "--records", "--json").check()
    *batches, summary = map(json.loads, done.out.splitlines())
    assert [batch["base_offset"] for batch in batches] == [0, 2, 3]
    assert [record["value"] for record in batches[2]["records"]] == ["4", "5", "6"]
    assert batches[0]["codec"] == "none"
    assert summary["summary"]["records"] == 6
    assert summary["summary"]["damaged_places"] == 0


def test_a_data_folder_is_checked_whole(run: Run, folder: Path) -> None:
    done = run("dump", str(folder.parent), "--check").check()
    assert f"{folder.parent}/__kbroker_meta-0/{SEGMENT}: segment" in done.out
    assert f"{folder}/{SEGMENT}: segment" in done.out
    assert "at 0:" not in done.out
    assert done.out.endswith(": no damage\n")


def test_a_flipped_bit_is_found_and_reading_goes_on_behind_it(run: Run, folder: Path) -> None:
    _, second, third, _ = positions(folder / SEGMENT)
    overwrite(folder / SEGMENT, third - 3, b"\xff")
    done = run("dump", str(folder / SEGMENT))
    assert done.code == 1
    assert (
        f"  DAMAGED at {second}: the batch's checksum is wrong; whole batches go on at {third}"
        in done.out.splitlines()
    )
    assert "  2 batches, 5 records, offsets 0 to 5" in done.out.splitlines()
    assert done.out.endswith("DAMAGED in 1 place\n")


def test_a_broken_length_does_not_hide_the_batches_behind_it(run: Run, folder: Path) -> None:
    _, second, third, _ = positions(folder / SEGMENT)
    overwrite(folder / SEGMENT, second + 8, b"\x7f\xff\xff\xff")
    *batches, damage, last, summary = map(
        json.loads, run("dump", str(folder / SEGMENT), "--json").out.splitlines()
    )
    assert [batch["base_offset"] for batch in (*batches, last)] == [0, 3]
    assert (damage["position"], damage["goes_on_at"]) == (second, third)
    assert "does not fit" in damage["damage"]
    assert summary["summary"]["damaged_places"] == 1


def test_a_torn_tail_is_found(run: Run, folder: Path) -> None:
    *_, third, end = positions(folder / SEGMENT)
    os.truncate(folder / SEGMENT, end - 1)
    done = run("dump", str(folder / SEGMENT))
    assert done.code == 1
    assert f"  DAMAGED at {third}: a batch of {end - third} bytes does not fit" in done.out
    os.truncate(folder / SEGMENT, third + HEADER_SIZE - 1)
    done = run("dump", str(folder / SEGMENT))
    assert f"  DAMAGED at {third}: {HEADER_SIZE - 1} bytes are too few for a batch" in done.out
    assert done.code == 1


def test_an_offset_that_does_not_follow_is_found(run: Run, folder: Path) -> None:
    _, second, *_ = positions(folder / SEGMENT)
    overwrite(folder / SEGMENT, second, (9).to_bytes(8, "big"))
    done = run("dump", str(folder / SEGMENT))
    assert done.code == 1
    assert f"  DAMAGED at {second}: offset 9 is where 2 should be" in done.out


def test_records_that_cannot_be_read_are_damage_even_if_the_checksum_is_right(
    run: Run, folder: Path
) -> None:
    from kbroker.protocol.batch import CRC_START
    from kbroker.protocol.checksum import crc32c

    data = bytearray((folder / SEGMENT).read_bytes()[: positions(folder / SEGMENT)[1]])
    data[HEADER_SIZE] = 0x7E  # a record longer than its batch
    data[17:21] = crc32c(memoryview(data)[CRC_START:]).to_bytes(4, "big")
    (folder / SEGMENT).write_bytes(data)
    run("dump", str(folder / SEGMENT)).check()
    done = run("dump", str(folder / SEGMENT), "--records")
    assert done.code == 1
    assert "DAMAGED at 0: the records cannot be read: INVALID_RECORD" in done.out


def test_a_damaged_index_and_one_that_lies_are_found_and_a_stale_one_is_none(
    run: Run, folder: Path
) -> None:
    index = folder / INDEX
    good = index.read_bytes()
    overwrite(index, len(good) - 1, b"\x77")
    done = run("dump", str(index))
    assert done.code == 1
    assert "DAMAGED its checksum or format is wrong" in done.out

    index.write_bytes(good)
    overwrite(folder / SEGMENT, 0, (1).to_bytes(8, "big"))
    done = run("dump", str(index))
    assert done.code == 1
    assert f"DAMAGED offset 0 is not at position 0 of {SEGMENT}" in done.out

    overwrite(folder / SEGMENT, 0, bytes(8))
    with (folder / SEGMENT).open("ab") as segment:
        segment.write(b"more")
    assert "stale: the broker rebuilds it" in run("dump", str(index)).check().out


def test_what_cannot_be_dumped_is_said_in_a_sentence(run: Run, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert f"{gone} does not exist" in run("dump", str(gone)).refused()
    assert f"{tmp_path} is no data folder" in run("dump", str(tmp_path)).refused()
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    assert f"{other} is neither a segment" in run("dump", str(other)).refused()
    locked = tmp_path / SEGMENT
    locked.write_bytes(b"")
    run("dump", str(locked)).check()
    assert "Missing argument 'PATH...'" in run("dump").refused(2)
