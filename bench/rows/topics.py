"""A thousand topics of one partition each, against one topic.

Measured twice: with librdkafka, which sends one request for each partition, so batches shrink; and
raw, one record a request at 32 in flight, where every request goes to another topic than the last.
"""

import time
from contextlib import closing

from bench.librdkafka import CheckedProducer
from bench.rows.base import (
    RUN_DEADLINE_S,
    Metric,
    Row,
    Sizes,
    at_least,
    fresh_topic,
    metered,
)
from bench.servers import Server
from bench.wire import BenchError, build_batch, plan_produce, value_of


class ThousandTopics(Row):
    """The rate over all topics, and which share of the one-topic rate it is."""

    # Topics are new in every run: a second pass over the same ones, with files open and indexes
    # mapped, was seen anywhere between a tenth and several times the first on Apache Kafka.
    warm_runs = 0
    max_rounds = 3
    TOPICS = 1_000
    IN_FLIGHT = 32

    def __init__(self, sizes: Sizes) -> None:
        """100 B records."""
        metrics = (
            Metric("rate", "records/s", at_least(10)),
            Metric("share", "of one topic", at_least(0.6), "kbroker"),
            Metric("cpu", "CPU-s/M records"),
            Metric("raw rate", "requests/s"),
            Metric("raw share", "of one topic"),
            Metric("creation", "s for all"),
        )
        super().__init__(sizes, "topics-1000", "librdkafka produce, 100 B, 1,000 topics", metrics)
        # Every topic gets the same number of records, so that offsets can be foretold.
        self._count = max(1, sizes(100_000) // self.TOPICS) * self.TOPICS
        self._raw_count = max(1, sizes(10_000) // self.TOPICS) * self.TOPICS
        self._batch = build_batch(100, 0)

    def run(self, server: Server) -> dict[str, float]:
        """One topic, then all, first by librdkafka, then raw."""
        topics = [server.new_topic_name("many") for _ in range(self.TOPICS)]
        with fresh_topic(server, "many") as (client, topic):
            began = time.perf_counter()
            client.create_topics(topics, RUN_DEADLINE_S)
            creation_s = time.perf_counter() - began
            one = self._by_librdkafka(server, [topic])
            all_topics = self._by_librdkafka(server, topics)
            raw_one = self._raw(server, [topic])
            raw_all = self._raw(server, topics)
            client.delete_topics(topics)
        server.settle(topics, deadline_s=30)
        return {
            **all_topics,
            "share": all_topics["rate"] / one["rate"],
            "raw rate": raw_all,
            "raw share": raw_all / raw_one,
            "creation": creation_s,
        }

    def _by_librdkafka(self, server: Server, topics: list[str]) -> dict[str, float]:
        connect = closing(CheckedProducer(server, {}, RUN_DEADLINE_S))
        with connect as producer, metered(server) as meter:
            producer.send(topics, value_of(100), self._count)
        return meter.figures(self._count, 1e6)

    def _raw(self, server: Server, topics: list[str]) -> float:
        plan = plan_produce(topics, self._batch, acks=1, slots=max(64, len(topics)))
        with server.connect() as client:
            starts = {client.end_offset(topic) for topic in (topics[0], topics[-1])}
            if len(starts) != 1:
                raise BenchError(f"topics end at different offsets: {starts}")
            with metered(server) as meter:
                client.produce(plan, self._raw_count, self.IN_FLIGHT, starts.pop())
        return self._raw_count / meter.elapsed_s
