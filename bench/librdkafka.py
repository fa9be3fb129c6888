"""librdkafka through confluent-kafka, as the rows of ordinary clients use it.

Settings are the library's defaults except for what a row is about. Success reports are left to the
library (`delivery.report.only.error`): a Python call for each record would measure Python. Every
failed record is still reported, and the row compares the topic's end offset with what was sent.
"""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.servers import Server
from bench.wire import BenchError

Settings = Mapping[str, str | int | bool]


class CheckedProducer:
    """A connected producer that remembers the first failure."""

    def __init__(self, server: Server, settings: Settings, deadline_s: float) -> None:
        """Connect and learn the server's topics before any clock starts."""
        self._failure = ""
        self._deadline = time.monotonic() + deadline_s
        self._producer = Producer(
            {
                "bootstrap.servers": server.bootstrap,
                "on_delivery": self._delivered,
                "delivery.report.only.error": True,
                **settings,
            }
        )
        self._producer.list_topics(timeout=30)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failure = self._failure or str(error)

    def send(self, topics: list[str], value: bytes, count: int) -> None:
        """Send `count` records round-robin over the topics, and wait for all acknowledgements."""
        produce, poll, number_of_topics = self._producer.produce, self._producer.poll, len(topics)
        for number in range(count):
            topic = topics[number % number_of_topics]
            while True:
                try:
                    produce(topic, value)
                    break
                except BufferError:
                    poll(0.001)
                    self._check()
        self.flush()

    def send_one(self, topic: str, value: bytes) -> None:
        """Hand over one record; it is on its way, not acknowledged."""
        self._producer.produce(topic, value)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until everything handed over is acknowledged."""
        left = self._producer.flush(max(0.1, self._deadline - time.monotonic()))
        self._check()
        if left:
            raise BenchError(f"{left} records were not acknowledged in time")

    def close(self) -> None:
        """Drop what is still queued (after a failure) and disconnect, without waiting for it."""
        self._producer.purge()
        self._producer.close()

    def _check(self) -> None:
        if self._failure:
            raise BenchError(f"a record was refused: {self._failure}")
        if time.monotonic() > self._deadline:
            raise BenchError("the producer ran out of time")


def connected_consumer(server: Server, topic: str) -> Consumer:
    """A consumer that knows the topic but reads nothing yet; see `read_from_start`."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "kbroker-bench",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            # By default a full local queue stops fetching for a whole second, and a reader that
            # empties it in a tenth of one measures that pause instead of the server.
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.list_topics(topic, timeout=30)
    return consumer


def read_from_start(consumer: Consumer, topic: str) -> None:
    """Assign partition 0 from offset 0, without group membership or commits."""
    consumer.assign([TopicPartition(topic, 0, 0)])
