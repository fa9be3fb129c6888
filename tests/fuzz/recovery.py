"""Fuzz: a log whose last segment was damaged is recovered to whole batches, in order, and stays so.

The bytes are orders to spoil a segment of known batches: cut it, append to it, change bytes, swap
pieces. Afterwards the log loads without an exception; what it kept is whole, in order and unchanged
in content; and loading it again changes nothing.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator

from kbroker.protocol import records
from kbroker.protocol.batch import CRC_START, is_whole, peek, stamp
from kbroker.protocol.records import NewRecord
from kbroker.storage.disk import Disk, FileCache
from kbroker.storage.log import Log, file_name

NAME = "recovery"
TOPIC_ID = bytes(range(16))
CUT, APPEND, CHANGE, SWAP, ZERO, TRUNCATE_START = range(6)

_folder = ""


def _batches() -> list[bytes]:
    batches = []
    offset = 0
    for number, count in enumerate((1, 3, 2, 1, 5)):
        batch = bytearray(
            records.build(
                [NewRecord(1_700_000_000_000 + n, None, b"v" * (20 * number)) for n in range(count)]
            )
        )
        stamp(memoryview(batch), offset, 16 * (number // 2))
        offset += count
        batches.append(bytes(batch))
    return batches


BATCHES = _batches()
WHOLE = b"".join(BATCHES)
# What the checksum covers of each batch: damage may cut batches off, but never change this.
CONTENTS = {batch[CRC_START:] for batch in BATCHES}


def spoil(orders: bytes) -> bytes:
    """The segment after the damage."""
    data = bytearray(WHOLE)
    position = 0
    while position + 4 <= len(orders) and data:
        order, high, low, value = orders[position : position + 4]
        at = (high << 8 | low) % len(data)
        position += 4
        match order % 6:
            case 0:
                del data[at:]
            case 1:
                data += orders[position : position + value]
                position += value
            case 2:
                data[at] = value
            case 3:
                data[at : at + value], data[:value] = data[:value], data[at : at + value]
            case 4:
                data[at : at + value] = bytes(len(data[at : at + value]))
            case _:
                del data[:at]
    return bytes(data)


def check(data: bytes) -> None:
    """Spoils, recovers, looks."""
    folder = f"{_working_folder()}/t-0"
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    path = f"{folder}/{file_name(0, '.meta')}"
    with open(path, "wb") as file:
        file.write(spoil(data))

    log = _load(folder)
    with open(path, "rb") as file:
        kept = file.read()
    assert spoil(data).startswith(kept), "recovery only cuts"
    offset = 0
    position = 0
    for header in log.headers(0):
        batch = memoryview(kept)[position : position + header.size]
        assert is_whole(batch)
        assert bytes(batch[CRC_START:]) in CONTENTS, "the content has changed"
        assert header == peek(batch)
        assert header.base_offset >= offset, "offsets go back"
        assert header.last_offset >= header.base_offset - 1
        offset = header.last_offset + 1
        position += header.size
    assert position == len(kept), "bytes are left that no batch accounts for"
    assert log.end == max(offset, 0)
    if spoil(data) == WHOLE:
        assert kept == WHOLE
    log.close()

    again = _load(folder)
    assert not again.cuts, "what was recovered is damaged"
    assert again.end == log.end
    again.close()


def _load(folder: str) -> Log:
    log = Log(Disk(), FileCache(16), folder, TOPIC_ID)
    log.load(None)
    return log


def _working_folder() -> str:
    global _folder
    if not _folder:
        _folder = tempfile.mkdtemp(prefix="fuzz-recovery-")
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    return _folder


def seeds() -> Iterator[bytes]:
    """No damage, and one order of each kind at the interesting places."""
    yield b""
    starts = []
    start = 0
    for batch in BATCHES:
        starts.append(start)
        start += len(batch)
    for start in starts:
        for inside in (0, 7, 8, 11, 12, 16, 17, 21, 23, 57, 60, 61, 70):
            place = (start + inside).to_bytes(2, "big")
            for order in range(6):
                yield bytes([order]) + place + b"\x05" + b"extra"
    yield bytes([APPEND, 0, 0, 200]) + BATCHES[0] + bytes(200)
    yield bytes([APPEND, 0, 0, len(BATCHES[0])]) + BATCHES[0]


if __name__ == "__main__":
    from tests.fuzz.engine import run

    run(NAME, check, seeds())
