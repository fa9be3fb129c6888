"""`kbroker dump`: reads the files of a data folder without a broker, and checks them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from kbroker.cli import record_format
from kbroker.cli.client.failure import Failure
from kbroker.cli.options import json_option
from kbroker.cli.output import bytes_text, count_text, json_line, time_text
from kbroker.cli.progress import Progress
from kbroker.cli.segment_file import (
    INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    Batch,
    Damage,
    SegmentFile,
    check_index,
)
from kbroker.protocol import records
from kbroker.protocol.compression import CODEC_IDS
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.records import Record

CODEC_NAMES = {number: name for name, number in CODEC_IDS.items()} | {0: "none"}
_PARTITION_FOLDER = re.compile(r".+-\d+")


@dataclass(slots=True)
class Totals:
    """What was read of all files."""

    files: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    damaged_places: int = 0


@click.command("dump")
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH..."
)
@click.option("--records", "with_records", is_flag=True, help="Also the records of each batch.")
@click.option("--check", is_flag=True, help="Print only a line for each file, and what is damaged.")
@json_option("one JSON object a line: batches, indexes, damage, and a summary at the end")
def command(paths: Sequence[Path], with_records: bool, check: bool, as_json: bool) -> int:
    """Read and check the files of a data folder.

    PATH is a data folder, a partition's folder in it, a segment (.meta, or .log of Apache Kafka) or
    an index (.index). Every checksum is verified; nothing is changed. The exit code is 1 if
    anything is damaged, and the output says where.

    \b
      kbroker dump kbroker-data --check
      kbroker dump kbroker-data/orders-0 --records
    """
    files = [file for path in paths for file in _files(path)]
    printer = _JsonPrinter(check, with_records) if as_json else _Printer(check, with_records)
    total_bytes = sum(file.stat().st_size for file in files)
    drawn = check or not sys.stdout.isatty()  # or the bar would stand between the batches
    with Progress("reading", total_bytes, wanted=drawn) as progress:
        for file in files:
            if file.suffix == INDEX_SUFFIX:
                _dump_index(file, printer)
            else:
                _dump_segment(file, printer, progress)
    printer.end()
    return 1 if printer.totals.damaged_places else 0


def _files(path: Path) -> Iterator[Path]:
    """The segments and indexes that a path stands for."""
    if not path.exists():
        raise Failure(f"{path} does not exist; give a data folder, a folder in it or a file")
    if path.is_file():
        if not _is_ours(path):
            raise Failure(f"{path} is neither a segment (.meta, .log) nor an index of kbroker's")
        yield path
        return
    found = sorted(filter(_is_ours, path.iterdir()))
    folders = sorted(
        folder
        for folder in path.iterdir()
        if folder.is_dir() and _PARTITION_FOLDER.fullmatch(folder.name)
    )
    if not found and not folders and not (path / "meta.properties").exists():
        raise Failure(f"{path} is no data folder: there are no partitions and no segments in it")
    yield from found
    for folder in folders:
        yield from sorted(filter(_is_ours, folder.iterdir()))


def _is_ours(file: Path) -> bool:
    """Whether a file can be read; an index beside a `.log` is Kafka's and has another format."""
    if file.suffix == INDEX_SUFFIX:
        return not file.with_suffix(".log").exists()
    return file.suffix in SEGMENT_SUFFIXES


def _dump_segment(path: Path, printer: _Printer, progress: Progress) -> None:
    segment = SegmentFile(path)
    printer.begin(path, f"segment, {bytes_text(segment.size)}")
    done_before = printer.totals.bytes
    for found in segment.walk():
        if isinstance(found, Damage):
            printer.damage(found.position, found.reason, found.goes_on_at)
        else:
            printer.batch(found)
            progress.show(done_before + found.position + found.header.size)
    printer.totals.bytes = done_before + segment.size
    printer.segment_end()


def _dump_index(path: Path, printer: _Printer) -> None:
    report = check_index(path)
    printer.begin(path, "index")
    printer.totals.bytes += path.stat().st_size
    if report.damage:
        printer.damage(None, report.damage, None)
        return
    printer.index(
        {
            "entries": report.entries,
            "covers_bytes": report.covers_bytes,
            "next_offset": report.next_offset,
            "max_timestamp_ms": report.max_timestamp_ms,
            "stale": report.is_stale,
        }
    )


def _facts(batch: Batch) -> dict[str, object]:
    header = batch.header
    return {
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "size": header.size,
        "codec": CODEC_NAMES.get(header.codec, str(header.codec)),
        "leader_epoch": header.leader_epoch,
        "max_timestamp_ms": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": f"{header.crc:08x}",
    }


class _Printer:
    """Lines for people."""

    def __init__(self, check: bool, with_records: bool) -> None:
        self.totals = Totals()
        self._check = check
        self._with_records = with_records
        self._path = Path()
        self._batches = self._records = 0
        self._first = self._last = -1

    def begin(self, path: Path, what: str) -> None:
        """A file begins."""
        self._path = path
        self._batches = self._records = 0
        self._first = self._last = -1
        self.totals.files += 1
        self._write_begin(what)

    def batch(self, batch: Batch) -> None:
        """An intact batch."""
        header = batch.header
        self._batches += 1
        self._records += header.record_count
        self._first = header.base_offset if self._first < 0 else self._first
        self._last = header.last_offset
        self.totals.batches += 1
        self.totals.records += header.record_count
        inside: list[Record] = []
        problem = None
        if self._with_records:
            try:
                inside.extend(records.iterate(batch.data))
            except KafkaError as error:
                problem = error
        if not self._check:
            self._write_batch(batch, inside)
        if problem is not None:
            self.damage(batch.position, f"the records cannot be read: {problem}", None)

    def damage(self, position: int | None, reason: str, goes_on_at: int | None) -> None:
        """A damaged place."""
        self.totals.damaged_places += 1
        self._write_damage(position, reason, goes_on_at)

    # How it looks; the JSON printer has these in its own way

    def _write_begin(self, what: str) -> None:
        print(f"{self._path}: {what}")

    def _write_batch(self, batch: Batch, inside: list[Record]) -> None:
        header = batch.header
        parts = [
            f"  at {batch.position}: offsets {header.base_offset} to {header.last_offset}",
            count_text(header.record_count, "record"),
            f"{header.size} bytes",
            CODEC_NAMES.get(header.codec, f"codec {header.codec}"),
            time_text(header.max_timestamp),
            f"epoch {header.leader_epoch}",
        ]
        if header.producer_id >= 0:
            parts.append(
                f"producer {header.producer_id}/{header.producer_epoch}"
                f" sequence {header.base_sequence}"
            )
        if header.is_control:
            parts.append("transaction marker")
        elif header.is_transactional:
            parts.append("transactional")
        print(", ".join(parts))
        for record in inside:
            line = f"    {record.offset}  {time_text(record.timestamp_ms)}"
            line += f"  key {_quoted(record.key)}  value {_quoted(record.value)}"
            for header_ in record.headers:
                line += f"  {_quoted(header_.key.encode('utf-8', 'surrogateescape'))}"
                line += f"={_quoted(header_.value)}"
            print(line)

    def _write_damage(self, position: int | None, reason: str, goes_on_at: int | None) -> None:
        where = f"at {position}: " if position is not None else ""
        after = ""
        if goes_on_at is not None and position is not None and goes_on_at > position:
            after = f"; whole batches go on at {goes_on_at}"
        print(f"  DAMAGED {where}{reason}{after}")

    def index(self, facts: dict[str, object]) -> None:
        """An intact index."""
        stale = ", stale: the broker rebuilds it" if facts["stale"] else ""
        print(
            f"  {count_text(_number(facts['entries']), 'entry')} for the first"
            f" {facts['covers_bytes']} bytes, up to offset {facts['next_offset']}{stale}"
        )

    def segment_end(self) -> None:
        """A segment was read to its end."""
        offsets = f", offsets {self._first} to {self._last}" if self._batches else ""
        counts = f"{count_text(self._batches, 'batch')}, {count_text(self._records, 'record')}"
        print(f"  {counts}{offsets}")

    def end(self) -> None:
        """All files were read."""
        totals = self.totals
        damage = (
            f"DAMAGED in {count_text(totals.damaged_places, 'place')}"
            if totals.damaged_places
            else "no damage"
        )
        print(
            f"{count_text(totals.files, 'file')}, {count_text(totals.batches, 'batch')},"
            f" {count_text(totals.records, 'record')}, {bytes_text(totals.bytes)}: {damage}"
        )


class _JsonPrinter(_Printer):
    """One JSON object a line."""

    def _write_begin(self, what: str) -> None:
        pass

    def _write_batch(self, batch: Batch, inside: list[Record]) -> None:
        document: dict[str, object] = {"file": str(self._path), **_facts(batch)}
        if self._with_records:
            document["records"] = [record_format.document(record) for record in inside]
        _put(document)

    def _write_damage(self, position: int | None, reason: str, goes_on_at: int | None) -> None:
        _put(
            {
                "file": str(self._path),
                "position": position,
                "damage": reason,
                "goes_on_at": goes_on_at,
            }
        )

    def index(self, facts: dict[str, object]) -> None:
        """An intact index."""
        _put({"file": str(self._path), "index": facts})

    def segment_end(self) -> None:
        """A segment was read to its end."""

    def end(self) -> None:
        """All files were read."""
        _put({"summary": asdict(self.totals)})


def _put(document: dict[str, object]) -> None:
    sys.stdout.buffer.write(json_line(document))


def _quoted(data: bytes | None) -> str:
    if data is None:
        return "null"
    return json.dumps(data.decode("utf-8", "backslashreplace"), ensure_ascii=False)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
