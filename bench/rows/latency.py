"""Waiting times with librdkafka: one record at a time, and from producer to consumer."""

import struct
import threading
import time
from contextlib import closing

from confluent_kafka import Consumer

from bench.librdkafka import CheckedProducer, Settings, connected_consumer, read_from_start
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
from bench.wire import BenchError, value_of


class OneAtATime(Row):
    """Produce one record, wait for its acknowledgement, produce the next."""

    def __init__(self, sizes: Sizes, name: str, acks: str, *, goal_rate: float) -> None:
        """100 B records, no lingering."""
        metrics = (
            Metric("rate", "records/s", at_least(goal_rate)),
            Metric("cpu", "CPU-s/M records"),
        )
        super().__init__(
            sizes, name, f"librdkafka, one 100 B record at a time, acks={acks}", metrics
        )
        self._count = sizes(4_000)
        self._settings: Settings = {"acks": acks, "linger.ms": 0}

    def run(self, server: Server) -> dict[str, float]:
        """A new producer and topic each time; the first record, which connects, is not timed."""
        value = value_of(100)
        with fresh_topic(server, "single") as (client, topic):
            with closing(CheckedProducer(server, self._settings, RUN_DEADLINE_S)) as producer:
                producer.send([topic], value, 1)
                with metered(server) as meter:
                    for _ in range(self._count):
                        producer.send_one(topic, value)
                        producer.flush()
            if client.end_offset(topic) != self._count + 1:
                raise BenchError("not every record was stored once")
        return meter.figures(self._count, 1e6)


class EndToEnd(Row):
    """A steady 1,000 records a second; the time from handing one over to having it in a consumer.

    The producer keeps to its timetable whatever the server does, so a slow moment of the server is
    counted in every record that it delays.
    """

    RECORDS_PER_S = 1_000

    def __init__(self, sizes: Sizes, name: str, acks: str, *, goal_p99: float) -> None:
        """100 B records, no lingering."""
        metrics = (
            Metric("p50", "ms"),
            Metric("p99", "ms", at_most(goal_p99)),
            Metric("cpu", "CPU-s/M records"),
        )
        title = f"end to end at {self.RECORDS_PER_S:,} records/s, librdkafka, acks={acks}"
        super().__init__(sizes, name, title, metrics)
        self._count = sizes(5_000)
        self._settings: Settings = {"acks": acks, "linger.ms": 0}

    def run(self, server: Server) -> dict[str, float]:
        """A new producer, consumer and topic each time, connected before the clock starts."""
        padding = value_of(92)
        with fresh_topic(server, "latency") as (_, topic):
            producer = CheckedProducer(server, self._settings, RUN_DEADLINE_S)
            consumer = connected_consumer(server, topic)
            listener = _Listener(consumer, self._count)
            try:
                read_from_start(consumer, topic)
                producer.send([topic], padding, 1)
                listener.wait_for_first()
                listener.start()
                with metered(server) as meter:
                    due_s = time.perf_counter()
                    for _ in range(self._count):
                        due_s += 1 / self.RECORDS_PER_S
                        time.sleep(max(0.0, due_s - time.perf_counter()))
                        now = struct.pack(">q", time.perf_counter_ns())
                        producer.send_one(topic, now + padding)
                    producer.flush()
                    listener.join(30)
            finally:
                listener.stop()
                consumer.close()
                producer.close()
        waits_ms = sorted(listener.waits_ms)
        if len(waits_ms) != self._count:
            raise BenchError(f"{len(waits_ms)} of {self._count} records arrived {listener.failure}")
        figures = meter.figures(self._count, 1e6)
        figures["p50"] = waits_ms[len(waits_ms) // 2]
        figures["p99"] = waits_ms[len(waits_ms) * 99 // 100]
        return figures


class _Listener(threading.Thread):
    """Reads records and notes how old each is."""

    def __init__(self, consumer: Consumer, count: int) -> None:
        super().__init__(daemon=True)
        self._consumer = consumer
        self._count = count
        self._stopping = False
        self.waits_ms: list[float] = []
        self.failure = ""

    def wait_for_first(self) -> None:
        deadline = time.monotonic() + 30
        while (message := self._consumer.poll(0.1)) is None or message.error():
            if time.monotonic() > deadline:
                raise BenchError("the consumer did not get its first record")

    def run(self) -> None:
        poll, now_ns, waits_ms = self._consumer.poll, time.perf_counter_ns, self.waits_ms
        while len(waits_ms) < self._count and not self._stopping:
            message = poll(0.2)
            if message is None:
                continue
            arrived_ns = now_ns()
            value = message.value()
            if message.error() or not isinstance(value, bytes):
                self.failure = str(message.error())
                return
            waits_ms.append((arrived_ns - struct.unpack_from(">q", value)[0]) / 1e6)

    def stop(self) -> None:
        """Let the thread end before the consumer is closed under it."""
        self._stopping = True
        if self.is_alive():
            self.join(5)
