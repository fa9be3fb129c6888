"""`kbroker produce`: writes lines, or whole files, as records."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence

import click

from kbroker.cli.client.address import Address
from kbroker.cli.client.cluster import Cluster
from kbroker.cli.client.failure import Failure
from kbroker.cli.client.producer import Producer, Written
from kbroker.cli.line_reader import Line, read_lines, read_whole
from kbroker.cli.options import bootstrap_option, json_option, read_pairs, topic_argument
from kbroker.cli.output import count_text, note, print_json
from kbroker.cli.progress import Progress
from kbroker.protocol.compression import CODEC_IDS
from kbroker.protocol.records import Header, NewRecord

ACKS = {"0": 0, "1": 1, "all": -1}
CODECS = {"none": 0, **{name: number for name, number in CODEC_IDS.items() if number}}
_FLUSH_EVERY_S = 0.2


@click.command("produce")
@topic_argument
@click.argument(
    "files", nargs=-1, type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True)
)
@click.option("--key", help="The key of every record.")
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="Each line is KEY, this text, VALUE; for example : or a tab (\\t).",
)
@click.option(
    "--header",
    "headers",
    callback=read_pairs,
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of every record; may be repeated.",
)
@click.option("--null", metavar="TEXT", help="A value of just this text means none: a tombstone.")
@click.option("--whole", is_flag=True, help="Each file is one record, not one record a line.")
@click.option(
    "--partition", type=click.IntRange(min=0), metavar="N", help="Write to this one; else by key."
)
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Records per second."
)
@click.option("--compression", type=click.Choice(list(CODECS)), default="none")
@click.option(
    "--acks",
    type=click.Choice(list(ACKS)),
    default="all",
    help="Who must have a record before it counts as written: nobody, the leader, all copies.",
)
@json_option("what was written as one JSON document")
@bootstrap_option
def command(
    topic: str,
    files: Sequence[str],
    key: str | None,
    key_separator: str | None,
    headers: Sequence[tuple[str, str]],
    null: str | None,
    whole: bool,
    partition: int | None,
    rate: float | None,
    compression: str,
    acks: str,
    as_json: bool,
    bootstrap: list[Address],
) -> None:
    """Write records: lines or files.

    Reads FILES, or standard input if there are none (or for a dash), and writes each line as a
    record. A topic that does not exist is made by the broker, if its settings allow that.

    \b
      echo hello | kbroker produce greetings
      kbroker produce orders --key-separator : orders.txt
    """
    if key is not None and key_separator is not None:
        raise click.UsageError("Give only one of --key and --key-separator.")
    if key_separator is not None:
        key_separator = key_separator.replace("\\t", "\t")
        if not key_separator:
            raise click.UsageError("--key-separator is empty.")
    shape = _Shape(key, key_separator, headers, null)
    with Cluster(bootstrap) as cluster:
        found, is_new = cluster.find_or_create_topic(topic)
        if found.is_internal:
            raise Failure(f"{topic} is written by the broker only; choose a topic of your own")
        if is_new:
            count = count_text(len(found.partitions), "partition")
            note(f"there was no topic {topic}; the broker has made it with {count}")
        if partition is not None and partition >= len(found.partitions):
            count = count_text(len(found.partitions), "partition")
            raise Failure(f"topic {topic} has {count}, so --partition is below that number")
        producer = Producer(
            cluster, found, acks=ACKS[acks], codec=CODECS[compression], partition=partition
        )
        begin_s = time.monotonic()
        interrupted = _write(producer, files, shape, whole, rate)
        seconds = time.monotonic() - begin_s
    _report(topic, producer, seconds, as_json)
    if interrupted and files:
        raise Failure(f"interrupted after {count_text(producer.record_count, 'record')}")


class _Shape:
    """How a line becomes a record."""

    def __init__(
        self,
        key: str | None,
        key_separator: str | None,
        headers: Sequence[tuple[str, str]],
        null: str | None,
    ) -> None:
        # Command lines are text, records are bytes: what was no text comes back as it was.
        self._key = os.fsencode(key) if key is not None else None
        self._separator = os.fsencode(key_separator) if key_separator is not None else None
        self._headers = tuple(Header(name, os.fsencode(value)) for name, value in headers)
        self._null = os.fsencode(null) if null is not None else None

    def record(self, line: Line) -> NewRecord:
        """The record of a line; Failure if it has no key where it should have one."""
        key, value = self._key, line.content
        if self._separator is not None:
            key, separator, value = line.content.partition(self._separator)
            if not separator:
                raise Failure(
                    f"{line.where} has no {self._separator.decode(errors='replace')!r} between"
                    " key and value; the lines before it are written"
                )
        now_ms = int(time.time() * 1000)
        return NewRecord(now_ms, key, value if value != self._null else None, self._headers)


def _write(
    producer: Producer, files: Sequence[str], shape: _Shape, whole: bool, rate: float | None
) -> bool:
    """Sends everything; True if Ctrl-C ended it, after what was read has been sent."""
    total_bytes = None if not files or "-" in files else sum(map(os.path.getsize, files))
    if not files and sys.stdin.isatty():
        note("type records, one a line; Ctrl-D ends")
    try:
        with Progress("writing", total_bytes) as progress:
            _write_lines(producer, _paced(_lines(files, whole), producer, rate), shape, progress)
    except KeyboardInterrupt:
        producer.flush()
        return True
    except Failure as problem:
        if producer.record_count == 0:
            raise
        written = count_text(producer.record_count, "record")
        raise Failure(f"{problem} ({written} were written before)") from None
    return False


def _write_lines(
    producer: Producer, lines: Iterator[Line], shape: _Shape, progress: Progress
) -> None:
    shown = 0
    for line in lines:
        try:
            record = shape.record(line)
        except Failure:
            producer.flush()
            raise
        producer.add(record)
        if not line.more_at_hand:
            producer.flush()
        if producer.record_count != shown:
            shown = producer.record_count
            progress.show(line.done_bytes, count_text(shown, "record"))
    producer.flush()


def _lines(files: Sequence[str], whole: bool) -> Iterator[Line]:
    done_bytes = 0
    for name in files or ("-",):
        reader = read_whole if whole else read_lines
        line = None
        for line in reader(name, done_bytes):
            yield line
        done_bytes = line.done_bytes if line is not None else done_bytes


def _paced(lines: Iterator[Line], producer: Producer, rate: float | None) -> Iterator[Line]:
    """Lets lines through at most at `rate` a second, and what is due never waits for the rest."""
    if rate is None:
        yield from lines
        return
    begin_s = flushed_s = time.monotonic()
    for number, line in enumerate(lines):
        due_s = begin_s + number / rate
        now_s = time.monotonic()
        if now_s < due_s or now_s - flushed_s > _FLUSH_EVERY_S:
            producer.flush()
            flushed_s = now_s
        if now_s < due_s:
            time.sleep(due_s - now_s)
        yield line


def _report(topic: str, producer: Producer, seconds: float, as_json: bool) -> None:
    written = dict(sorted(producer.written.items()))
    if as_json:
        print_json(
            {
                "topic": topic,
                "records": producer.record_count,
                "bytes": producer.byte_count,
                "seconds": round(seconds, 3),
                "partitions": [
                    {
                        "partition": index,
                        "records": part.count,
                        "first_offset": part.first_offset if part.first_offset >= 0 else None,
                        "last_offset": part.last_offset if part.last_offset >= 0 else None,
                    }
                    for index, part in written.items()
                ],
            }
        )
        return
    where = "; ".join(f"partition {index} {_offsets(part)}" for index, part in written.items())
    where = f": {where}" if where and len(written) <= 5 else ""
    note(f"wrote {count_text(producer.record_count, 'record')} to {topic}{where}")


def _offsets(written: Written) -> str:
    if written.first_offset < 0:
        return "without acknowledgement"
    if written.first_offset == written.last_offset:
        return f"offset {written.first_offset}"
    return f"offsets {written.first_offset} to {written.last_offset}"
