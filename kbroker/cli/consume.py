"""`kbroker consume`: prints the records of a topic, to its end or as they come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence

import click

from kbroker.cli import record_format, starting_point
from kbroker.cli.client import admin
from kbroker.cli.client.address import Address
from kbroker.cli.client.cluster import Cluster
from kbroker.cli.client.consumer import Consumer, OutOfRange, Span
from kbroker.cli.client.failure import Failure, Unreachable
from kbroker.cli.options import bootstrap_option, json_option, topic_argument
from kbroker.cli.output import note
from kbroker.cli.record_format import FORMATS, Fields
from kbroker.cli.starting_point import FORMS, StartingPoint
from kbroker.protocol.records import Record

RECONNECT_FOR_S = 60.0
RECONNECT_EVERY_S = 0.5

Show = Callable[[int, Record], bytes]


def _read_start(ctx: click.Context, param: click.Parameter, text: str) -> StartingPoint:
    """Where reading begins."""
    try:
        return starting_point.parse(text, int(time.time() * 1000))
    except ValueError as problem:
        raise click.BadParameter(str(problem), ctx, param) from None


@click.command("consume")
@topic_argument
@click.option(
    "--from",
    "start",
    callback=_read_start,
    default="beginning",
    metavar="WHERE",
    help=f"Where to begin: {FORMS}.",
)
@click.option("--follow", is_flag=True, help="Go on with records as they come; Ctrl-C ends.")
@click.option(
    "--max", "max_count", type=click.IntRange(min=0), metavar="N", help="End after so many records."
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this one; may be repeated.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text")
@click.option("--keys", is_flag=True, help="Print keys before values.")
@click.option("--headers", is_flag=True, help="Print headers before values.")
@click.option("--times", is_flag=True, help="Print times before values.")
@click.option("--offsets", is_flag=True, help="Print PARTITION:OFFSET before values.")
@json_option("one JSON object a line, with all fields; the same as --format json")
@bootstrap_option
def command(
    topic: str,
    start: StartingPoint,
    follow: bool,
    max_count: int | None,
    partitions: Sequence[int],
    form: str,
    keys: bool,
    headers: bool,
    times: bool,
    offsets: bool,
    as_json: bool,
    bootstrap: list[Address],
) -> None:
    """Read records, to the end or as they come.

    Prints one record a line and ends where the topic ended when the command began, unless --follow
    is given. Fields asked for stand before the value, with tabs between.

    \b
      kbroker consume orders --from -15m --keys --times
      kbroker consume orders --follow --format json
    """
    show = _shower("json" if as_json else form, topic, Fields(times, offsets, keys, headers))
    try:
        with Cluster(bootstrap) as cluster:
            consumer = _consumer(cluster, topic, start, partitions, follow)
            records = _follow(consumer, bootstrap) if follow else _read(consumer)
            _print(records, show, max_count)
            consumer.cluster.close()
    except KeyboardInterrupt:
        pass  # a clean end: what was read has been printed


def _shower(form: str, topic: str, fields: Fields) -> Show:
    if form == "json":
        return lambda partition, record: record_format.as_json(topic, partition, record)
    show = record_format.as_hex if form == "hex" else record_format.as_text
    return lambda partition, record: show(partition, record, fields)


def _consumer(
    cluster: Cluster, name: str, start: StartingPoint, partitions: Sequence[int], follow: bool
) -> Consumer:
    topic = cluster.topic(name)
    indexes = [part.index for part in topic.partitions]
    for partition in partitions:
        if partition not in indexes:
            raise Failure(
                f"topic {name} has no partition {partition}; it has {indexes[0]} to {indexes[-1]}"
            )
    wanted = starting_point.only(topic, partitions or indexes)
    starts, ends = starting_point.place(cluster, wanted, start)
    if start.offset is not None:
        _tell_moved(name, start.offset, starts, ends)
    missing = [part.index for part in wanted.partitions if part.index not in starts]
    if missing:
        note(f"{name} partitions {missing} have no leader now and are left out")
    spans = {index: Span(starts[index], None if follow else ends[index]) for index in starts}
    return Consumer(cluster, topic, spans)


def _tell_moved(topic: str, offset: int, starts: dict[int, int], ends: dict[int, int]) -> None:
    for index, begins_at in starts.items():
        if begins_at > offset:
            note(f"{topic} partition {index} begins at offset {begins_at}; reading from there")
        elif begins_at < offset:
            note(f"{topic} partition {index} ends at offset {ends[index]}, before {offset}")


def _read(consumer: Consumer) -> Iterator[tuple[int, Record] | None]:
    """Records up to where the partitions ended; None after each answer."""
    while not consumer.is_done():
        yield from consumer.poll()
        yield None


def _follow(
    consumer: Consumer, bootstrap: Sequence[Address]
) -> Iterator[tuple[int, Record] | None]:
    """Records for ever: through restarts of the broker, and past records that were deleted."""
    while True:
        try:
            yield from consumer.poll()
        except OutOfRange as problem:
            _place_anew(consumer, problem)
        except Unreachable as problem:
            note(f"{problem}; trying again")
            consumer.cluster.close()
            consumer.cluster = _connect_again(bootstrap)
            consumer.topic = consumer.cluster.topic(consumer.topic.name)
        yield None


def _place_anew(consumer: Consumer, problem: OutOfRange) -> None:
    """Old records were deleted under the reader, or the log got shorter."""
    topic = starting_point.only(consumer.topic, [problem.partition])
    key = (topic.name, problem.partition)
    earliest = admin.offsets_at(consumer.cluster, [topic], admin.EARLIEST)[key]
    latest = admin.offsets_at(consumer.cluster, [topic], admin.LATEST)[key]
    span = consumer.spans[problem.partition]
    span.position = min(max(span.position, earliest), latest)
    note(f"{problem}; going on at offset {span.position}")


def _connect_again(bootstrap: Sequence[Address]) -> Cluster:
    deadline = time.monotonic() + RECONNECT_FOR_S
    while True:
        try:
            return Cluster(bootstrap)
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(RECONNECT_EVERY_S)


def _print(records: Iterator[tuple[int, Record] | None], show: Show, max_count: int | None) -> None:
    left = max_count if max_count is not None else -1
    if left == 0:
        return
    # A buffer of its own: standard output may have none (PYTHONUNBUFFERED), and then a system call
    # for each record is half of the time.
    with open(sys.stdout.fileno(), "wb", closefd=False) as out:
        for item in records:
            if item is None:
                out.flush()  # whoever watches sees a record as soon as it is here
                continue
            out.write(show(*item))
            left -= 1
            if left == 0:
                break
