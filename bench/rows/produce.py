"""Producing: with an ordinary client (librdkafka), and with raw prebuilt requests."""

from contextlib import closing
from typing import ClassVar

from bench.librdkafka import CheckedProducer, Settings
from bench.rows.base import (
    RUN_DEADLINE_S,
    Metric,
    Row,
    Sizes,
    at_least,
    at_most,
    fresh_topic,
    metered,
)
from bench.servers import Server
from bench.wire import BenchError, build_batch, plan_produce, value_of


class Produce(Row):
    """librdkafka sends records as fast as it can to one partition, acks=all as is its default."""

    # Defaults are 5 ms, 1 MB and 10,000 records: big ones wait for as much as a request may hold.
    BIG_BATCHES: ClassVar[Settings] = {"linger.ms": 50, "batch.num.messages": 100_000}
    SMALL_BATCHES: ClassVar[Settings] = {"batch.size": 4096}

    def __init__(
        self, sizes: Sizes, name: str, record_bytes: int, count: int, settings: Settings
    ) -> None:
        """Records of one size, with these settings of the producer."""
        small = settings is self.SMALL_BATCHES
        metrics = (
            Metric("rate", "records/s", at_least(2.0 if small else 1.0)),
            Metric("cpu", "CPU-s/M records", at_most(0.25 if small else 0.4)),
        )
        shown = ", ".join(f"{key}={value}" for key, value in settings.items()) or "default batches"
        super().__init__(sizes, name, f"librdkafka produce, {record_bytes} B, {shown}", metrics)
        self._value = value_of(record_bytes)
        self._count = sizes(count)
        self._settings = settings

    def run(self, server: Server) -> dict[str, float]:
        """A new producer and a new topic each time."""
        with fresh_topic(server, "produce") as (client, topic):
            connect = closing(CheckedProducer(server, self._settings, RUN_DEADLINE_S))
            with connect as producer, metered(server) as meter:
                producer.send([topic], self._value, self._count)
            stored = client.end_offset(topic)
            if stored != self._count:
                raise BenchError(f"{self._count} records sent, {stored} stored")
        return meter.figures(self._count, 1e6)


class RawProduce(Row):
    """Prebuilt requests over one connection, so the client costs next to nothing; acks=1."""

    def __init__(
        self,
        sizes: Sizes,
        name: str,
        record_bytes: int,
        batch_bytes: int,
        count: int,
        *,
        in_flight: int,
        goal_rate: float,
    ) -> None:
        """One batch a request; `batch_bytes` 0 means one record."""
        self._batch = build_batch(record_bytes, batch_bytes)
        what = f"{self._batch.records} x {record_bytes} B a request, {in_flight} in flight"
        metrics = (Metric("rate", "requests/s", at_least(goal_rate)), Metric("cpu", "CPU-s/M req"))
        super().__init__(sizes, name, f"raw produce, {what}", metrics)
        self._count = sizes(count)
        self._in_flight = in_flight

    def run(self, server: Server) -> dict[str, float]:
        """A new topic each time."""
        with fresh_topic(server, "raw") as (client, topic):
            slots = 64 if len(self._batch.data) < 4096 else 8
            plan = plan_produce([topic], self._batch, acks=1, slots=slots)
            with metered(server) as meter:
                client.produce(plan, self._count, self._in_flight)
            if client.end_offset(topic) != self._count * self._batch.records:
                raise BenchError("the topic does not end where the acknowledgements said")
        return meter.figures(self._count, 1e6)
