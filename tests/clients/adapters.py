"""The clients behind one interface, for tests in which one produces and another consumes.

Everything else about a client is in the test file of its name, which uses it as its users do.
"""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaTopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.clients.java_driver import JavaDriver
from tests.clients.messages import COMMON_SAMPLES, SAMPLES, Message

READ_TIMEOUT_S = 20
MAX_WAIT_MS = 50  # a fetch that waits for more than there is only costs the tests time

Messages = dict[str, list[Message]]


class Client(Protocol):
    """A client that talks to one broker."""

    @property
    def samples(self) -> list[Message]:
        """Messages that this client is able to send."""

    @property
    def sends_times(self) -> bool:
        """Whether its user can choose a record's timestamp."""

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, partition: int | None = 0
    ) -> None:
        """Sends in order, and returns when all are acknowledged.

        Without a partition the client chooses it by the key, with the hash of the Java client where
        the user has to ask for that.
        """

    def consume(self, counts: Mapping[str, int]) -> Messages:
        """Reads the first so many records of partition 0 of each topic."""


class KafkaPython:
    """kafka-python."""

    samples = COMMON_SAMPLES
    sends_times = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, partition: int | None = 0
    ) -> None:
        """See Client."""
        compression = None if codec == "none" else codec
        with KafkaProducer(
            bootstrap_servers=self._bootstrap, compression_type=compression, linger_ms=20
        ) as producer:
            sent = [
                producer.send(
                    topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            for future in sent:
                future.get(READ_TIMEOUT_S)

    def consume(self, counts: Mapping[str, int]) -> Messages:
        """See Client."""
        partitions = [TopicPartition(topic, 0) for topic in counts]
        found: Messages = {topic: [] for topic in counts}
        with KafkaConsumer(
            bootstrap_servers=self._bootstrap, fetch_max_wait_ms=MAX_WAIT_MS
        ) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            deadline = time.monotonic() + READ_TIMEOUT_S
            while _missing(found, counts) and time.monotonic() < deadline:
                for partition, records in consumer.poll(200).items():
                    found[partition.topic] += [
                        Message(r.key, r.value, tuple(r.headers), r.timestamp) for r in records
                    ]
        return found


class Aiokafka:
    """aiokafka."""

    samples = SAMPLES[:-1]  # NEITHER_KEY_NOR_VALUE cannot be sent
    sends_times = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, partition: int | None = 0
    ) -> None:
        """See Client."""
        asyncio.run(self._produce(topic, messages, None if codec == "none" else codec, partition))

    async def _produce(
        self, topic: str, messages: Sequence[Message], codec: str | None, partition: int | None
    ) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, compression_type=codec, linger_ms=20
        ) as producer:
            sent = [
                await producer.send(
                    topic,
                    key=message.key,
                    value=message.value,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message in messages
            ]
            await asyncio.gather(*sent)

    def consume(self, counts: Mapping[str, int]) -> Messages:
        """See Client."""
        return asyncio.run(self._consume(counts))

    async def _consume(self, counts: Mapping[str, int]) -> Messages:
        partitions = [AiokafkaTopicPartition(topic, 0) for topic in counts]
        found: Messages = {topic: [] for topic in counts}
        async with AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, fetch_max_wait_ms=MAX_WAIT_MS
        ) as consumer:
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            deadline = time.monotonic() + READ_TIMEOUT_S
            while _missing(found, counts) and time.monotonic() < deadline:
                for partition, records in (await consumer.getmany(timeout_ms=200)).items():
                    found[partition.topic] += [
                        Message(r.key, r.value, tuple(r.headers), r.timestamp) for r in records
                    ]
        return found


class Confluent:
    """confluent-kafka (librdkafka)."""

    samples = SAMPLES
    sends_times = True

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, partition: int | None = 0
    ) -> None:
        """See Client."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "compression.type": codec,
                "linger.ms": 20,
                "partitioner": "murmur2_random",
            }
        )
        errors: list[object] = []
        for message in messages:
            producer.produce(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                partition=-1 if partition is None else partition,
                timestamp=message.timestamp_ms,
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(READ_TIMEOUT_S) == 0
        assert errors == [None] * len(messages)

    def consume(self, counts: Mapping[str, int]) -> Messages:
        """See Client."""
        found: Messages = {topic: [] for topic in counts}
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "none is joined: partitions are assigned",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": MAX_WAIT_MS,
            }
        )
        try:
            consumer.assign([ConfluentTopicPartition(topic, 0, 0) for topic in counts])
            deadline = time.monotonic() + READ_TIMEOUT_S
            while _missing(found, counts) and time.monotonic() < deadline:
                record = consumer.poll(0.2)
                if record is None:
                    continue
                if record.error():
                    raise AssertionError(record.error())
                topic = record.topic()
                assert topic is not None
                found[topic].append(
                    Message(
                        record.key(),
                        record.value(),
                        tuple(record.headers() or ()),  # type: ignore[arg-type]  # never a dict
                        record.timestamp()[1],
                    )
                )
        finally:
            consumer.close()
        return found


class Kcat:
    """The kcat program: one call for each batch sent and each topic read."""

    headers: tuple[tuple[str, bytes | None], ...] = (
        ("same", b"1"),
        ("same", b"2"),
        ("empty", b""),
        ("nothing", None),
    )
    sends_times = False

    def __init__(self, bootstrap: str, program: Path) -> None:
        self._bootstrap = bootstrap
        self._program = program

    @property
    def samples(self) -> list[Message]:
        """Lines of text, one set of headers for all; with -Z what is empty is sent as null."""
        pairs = [
            (b"key", b"value"),
            (None, b"no key"),
            (b"no value", None),
            (None, None),
            ("schlüssel-☃-🔑".encode(), "größe ☃ 📦".encode()),
            (b"long", b"0123456789" * 3000),
        ]
        return [Message(key, value, self.headers) for key, value in pairs]

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, partition: int | None = 0
    ) -> None:
        """See Client; the messages must be this client's samples in kind."""
        assert all(message.headers == self.headers for message in messages)
        lines = [(m.key or b"") + b"|" + (m.value or b"") for m in messages]
        headers = [
            f"-H{name}" + ("" if value is None else f"={value.decode()}")
            for name, value in self.headers
        ]
        chosen = "-1" if partition is None else str(partition)
        options = ("-p", chosen, "-z", codec, "-K|", "-Z", "-X", "topic.partitioner=murmur2_random")
        self.run("-P", "-t", topic, *options, *headers, stdin=b"\n".join(lines))

    def consume(self, counts: Mapping[str, int]) -> Messages:
        """See Client."""
        return {topic: self._consume(topic, count) for topic, count in counts.items()}

    def _consume(self, topic: str, count: int) -> list[Message]:
        options = ("-C", "-q", "-J", "-o", "beginning", "-c", str(count))
        printed = self.run(*options, "-t", topic, "-p", "0", "-X", "fetch.wait.max.ms=50")
        return [message for _, message in kcat_records(printed)]

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """kcat with these arguments; what it printed."""
        done = subprocess.run(
            [self._program, "-b", self._bootstrap, *arguments],
            input=stdin,
            capture_output=True,
            timeout=READ_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def kcat_records(printed: bytes) -> list[tuple[int, Message]]:
    """The offsets and records of what kcat -J printed. Bytes that are no text come as they are."""
    records = []
    for line in printed.splitlines():
        record = json.loads(line.decode("utf-8", "surrogateescape"))
        names, values = record.get("headers", [])[::2], record.get("headers", [])[1::2]
        message = Message(
            _raw(record["key"]),
            _raw(record["payload"]),
            tuple(zip(names, map(_raw, values), strict=True)),
            record["ts"],
        )
        records.append((record["offset"], message))
    return records


def _raw(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


class JavaClient:
    """The Java client, in the JVM that the tests share."""

    samples = SAMPLES
    sends_times = True

    def __init__(self, bootstrap: str, driver: JavaDriver) -> None:
        self._bootstrap = bootstrap
        self._driver = driver

    def produce(
        self, topic: str, messages: Sequence[Message], codec: str, partition: int | None = 0
    ) -> None:
        """See Client."""
        settings = {"compression.type": codec, "linger.ms": "20"}
        results = self._driver.produce(
            self._bootstrap, topic, messages, settings, partition=partition
        )
        assert [result.error for result in results] == [""] * len(messages)

    def consume(self, counts: Mapping[str, int]) -> Messages:
        """See Client."""
        starts = {(topic, 0): 0 for topic in counts}
        found = self._driver.consume(self._bootstrap, starts, sum(counts.values()))
        return {topic: [m for _, m in records] for (topic, _), records in found.items()}


def _missing(found: Mapping[str, Iterable[Message]], counts: Mapping[str, int]) -> bool:
    return any(len(list(found[topic])) < count for topic, count in counts.items())
