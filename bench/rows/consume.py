"""Reading what is stored: with an ordinary client (librdkafka), and with raw fetches.

Each server is filled once, with the same bytes, and read again in every round: reading changes
nothing, and what a fresh topic would add is only the time to fill it. Data is in the page cache.
"""

import time

from confluent_kafka import Consumer

from bench.librdkafka import connected_consumer, read_from_start
from bench.rows.base import (
    RUN_DEADLINE_S,
    Metric,
    Prepared,
    Row,
    Sizes,
    at_least,
    at_most,
    metered,
)
from bench.servers import Server
from bench.wire import Batch, BenchError, build_batch, plan_fetch, plan_produce


def fill(server: Server, label: str, batch: Batch, batches: int) -> str:
    """A new topic with `batches` equal batches in partition 0."""
    topic = server.new_topic_name(label)
    with server.connect() as client:
        client.create_topics([topic])
        client.produce(plan_produce([topic], batch, acks=1, slots=8), batches, in_flight=5)
    return topic


class Consume(Row):
    """librdkafka reads a partition from its beginning to its end, assigned, without a group."""

    STORED_BATCH_BYTES = 64 << 10

    def __init__(self, sizes: Sizes, name: str, record_bytes: int, count: int) -> None:
        """About `count` records of one size."""
        metrics = (
            Metric("rate", "records/s", at_least(1.0)),
            Metric("cpu", "CPU-s/M records", at_most(0.5)),
        )
        super().__init__(sizes, name, f"librdkafka consume, {record_bytes} B", metrics)
        self._batch = build_batch(record_bytes, self.STORED_BATCH_BYTES)
        self._batches = max(1, sizes(count) // self._batch.records)
        self._prepared = Prepared()

    def prepare(self, server: Server) -> None:
        """Fill the topic."""
        topic = fill(server, "consume", self._batch, self._batches)
        self._prepared.topics[server.name] = [topic]

    def run(self, server: Server) -> dict[str, float]:
        """A new consumer each time; offsets must come without gap or error."""
        (topic,) = self._prepared.topics[server.name]
        count = self._batches * self._batch.records
        consumer = connected_consumer(server, topic)
        try:
            with metered(server) as meter:
                read_from_start(consumer, topic)
                self._read(consumer, count)
        finally:
            consumer.close()
        return meter.figures(count, 1e6)

    def _read(self, consumer: Consumer, count: int) -> None:
        deadline = time.monotonic() + RUN_DEADLINE_S
        seen = 0
        while seen < count:
            messages = consumer.consume(min(10_000, count - seen), timeout=1.0)
            if messages:
                # An error event carries no such offset, so this finds it as well.
                ends = (messages[0].offset(), messages[-1].offset())
                if ends != (seen, seen + len(messages) - 1):
                    raise BenchError(f"at {seen} came {ends} {messages[0].error()}")
                seen += len(messages)
            if time.monotonic() > deadline:
                raise BenchError(f"the consumer saw {seen} of {count} records in time")

    def clean(self, server: Server) -> None:
        """Delete the topic."""
        self._prepared.drop(server)


class RawFetch(Row):
    """One fetch after the other over one connection, each asking for exactly one stored batch."""

    def __init__(
        self,
        sizes: Sizes,
        name: str,
        batch_bytes: int,
        stored: int,
        count: int,
        *,
        goal_rate: float,
    ) -> None:
        """`stored` batches in the topic, `count` fetches around and around them."""
        self._batch = build_batch(1024, batch_bytes)
        title = f"raw fetch, one batch of {len(self._batch.data):,} B a request, 1 in flight"
        metrics = (Metric("rate", "requests/s", at_least(goal_rate)), Metric("cpu", "CPU-s/M req"))
        super().__init__(sizes, name, title, metrics)
        self._stored = sizes(stored)
        self._count = sizes(count)
        self._prepared = Prepared()

    def prepare(self, server: Server) -> None:
        """Fill the topic."""
        topic = fill(server, "fetch", self._batch, self._stored)
        self._prepared.topics[server.name] = [topic]

    def run(self, server: Server) -> dict[str, float]:
        """A new connection each time."""
        (topic,) = self._prepared.topics[server.name]
        batch_bytes, records = len(self._batch.data), self._batch.records
        with server.connect() as client:
            plan = plan_fetch(topic, batch_bytes)
            with metered(server) as meter:
                client.fetch(plan, batch_bytes, records, self._stored * records, self._count)
        return meter.figures(self._count, 1e6)

    def clean(self, server: Server) -> None:
        """Delete the topic."""
        self._prepared.drop(server)
