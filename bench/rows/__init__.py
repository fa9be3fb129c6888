"""All rows of the bench, in the order of PERFORMANCE.md; a row's name is what --rows takes."""

from bench.rows.base import Row, Sizes
from bench.rows.consume import Consume, RawFetch
from bench.rows.java import JavaProduce
from bench.rows.latency import EndToEnd, OneAtATime
from bench.rows.lifecycle import Memory, Start
from bench.rows.produce import Produce, RawProduce
from bench.rows.topics import ThousandTopics

KIB = 1024


def all_rows(sizes: Sizes) -> list[Row]:
    """One object per row, its amounts of work scaled by `sizes`."""
    return [
        Produce(sizes, "produce-100-default", 100, 1_000_000, {}),
        Produce(sizes, "produce-100-big", 100, 1_000_000, Produce.BIG_BATCHES),
        Produce(sizes, "produce-1k-default", KIB, 300_000, {}),
        Produce(sizes, "produce-1k-big", KIB, 300_000, Produce.BIG_BATCHES),
        JavaProduce(sizes, "java-100", 100, 1_000_000),
        JavaProduce(sizes, "java-1k", KIB, 300_000),
        Produce(sizes, "produce-100-small", 100, 300_000, Produce.SMALL_BATCHES),
        RawProduce(sizes, "raw-produce-1", 100, 0, 8_000, in_flight=1, goal_rate=2.0),
        RawProduce(sizes, "raw-produce-32", 100, 0, 20_000, in_flight=32, goal_rate=4.0),
        RawProduce(sizes, "raw-produce-16k", KIB, 16 * KIB, 8_000, in_flight=5, goal_rate=3.0),
        RawProduce(sizes, "raw-produce-900k", KIB, 900_000, 300, in_flight=5, goal_rate=2.5),
        Consume(sizes, "consume-100", 100, 1_000_000),
        Consume(sizes, "consume-1k", KIB, 300_000),
        RawFetch(sizes, "raw-fetch-16k", 16 * KIB, 2_000, 8_000, goal_rate=2.0),
        RawFetch(sizes, "raw-fetch-900k", 900_000, 100, 1_000, goal_rate=1.3),
        OneAtATime(sizes, "one-at-a-time-acks-1", "1", goal_rate=1.3),
        OneAtATime(sizes, "one-at-a-time-acks-all", "all", goal_rate=1.5),
        EndToEnd(sizes, "latency-acks-1", "1", goal_p99=0.3),
        EndToEnd(sizes, "latency-acks-all", "all", goal_p99=0.5),
        ThousandTopics(sizes),
        Start(sizes),
        Memory(sizes),
    ]
