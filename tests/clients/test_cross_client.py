"""What one client produces, every other one reads: all pairs, all compressions."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.handlers.registry import APIS
from kbroker.protocol.batch import peek
from tests.clients.adapters import Aiokafka, Client, Confluent, JavaClient, KafkaPython, Kcat
from tests.clients.java_driver import JavaDriver
from tests.clients.messages import CODECS, Message
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.slow

NAMES = (
    "kafka_python",
    "aiokafka",
    "confluent",
    "kcat",
    pytest.param("java", marks=pytest.mark.java),
)
FIND_COORDINATOR = 10
ClientOf = Callable[[str], Client]


@pytest.fixture(scope="module")
def client_of(broker: BrokerProcess, request: pytest.FixtureRequest) -> ClientOf:
    """A client by its name; kcat and Java are looked for only when a test wants them."""

    def make(name: str) -> Client:
        if name == "kcat":
            kcat: Path = request.getfixturevalue("kcat")
            return Kcat(broker.bootstrap, kcat)
        if name == "java":
            driver: JavaDriver = request.getfixturevalue("java_driver")
            return JavaClient(broker.bootstrap, driver)
        python_clients: dict[str, Callable[[str], Client]] = {
            "kafka_python": KafkaPython,
            "aiokafka": Aiokafka,
            "confluent": Confluent,
        }
        return python_clients[name](broker.bootstrap)

    return make


@pytest.fixture(scope="module")
def produced_by(
    client_of: ClientOf, broker: BrokerProcess
) -> Callable[[str], dict[str, list[Message]]]:
    """The topics that a client has filled, one for each codec, and what it sent; done only once."""
    done: dict[str, dict[str, list[Message]]] = {}

    def topics(name: str) -> dict[str, list[Message]]:
        if name not in done:
            client = client_of(name)
            done[name] = {}
            for codec in CODECS:
                topic = f"by-{name}-{codec}"
                client.produce(topic, client.samples, codec)
                wanted, stored = stored_codec(name, codec), stored_codecs(broker, topic)
                assert wanted in stored
                # librdkafka leaves a batch as it is if compressing would make it larger.
                assert stored <= {wanted, 0}
                done[name][topic] = client.samples
        return done[name]

    return topics


def stored_codec(client_name: str, codec: str) -> int:
    """The number of the codec that a client uses when asked for `codec`.

    librdkafka takes lz4 for understood only by a broker that lists FindCoordinator, and otherwise
    sends the batch uncompressed.
    """
    if codec == "lz4" and client_name in ("confluent", "kcat") and FIND_COORDINATOR not in APIS:
        return 0
    return CODECS.index(codec)


def stored_codecs(broker: BrokerProcess, topic: str) -> set[int]:
    """The codecs of the batches in the topic's only file: did the client really compress?"""
    (segment,) = (broker.data_dir / f"{topic}-0").glob("*.meta")
    stored = memoryview(segment.read_bytes())
    codecs = set()
    while stored:
        header = peek(stored)
        codecs.add(header.codec)
        stored = stored[header.size :]
    return codecs


@pytest.mark.parametrize("consumer", NAMES)
@pytest.mark.parametrize("producer", NAMES)
def test_what_one_client_sends_another_reads(
    producer: str,
    consumer: str,
    client_of: ClientOf,
    produced_by: Callable[[str], dict[str, list[Message]]],
) -> None:
    sent = produced_by(producer)
    counts = {topic: len(messages) for topic, messages in sent.items()}
    read = client_of(consumer).consume(counts)
    if not client_of(producer).sends_times:
        read, sent = without_times(read), without_times(sent)
    assert read == sent


def without_times(topics: dict[str, list[Message]]) -> dict[str, list[Message]]:
    return {
        topic: [replace(message, timestamp_ms=0) for message in messages]
        for topic, messages in topics.items()
    }


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_what_the_broker_compresses_itself_is_read_by_every_client(
    codec: str, client_of: ClientOf, broker: BrokerProcess
) -> None:
    topic = f"compressed-by-the-broker-{codec}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = {"compression.type": codec}
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result()
    producer = client_of("aiokafka")
    sent = producer.samples
    producer.produce(topic, sent, "gzip" if codec == "uncompressed" else "none")
    assert stored_codecs(broker, topic) == {CODECS.index(codec.replace("uncompressed", "none"))}
    for name in ("kafka_python", "aiokafka", "confluent", "kcat"):
        assert client_of(name).consume({topic: len(sent)}) == {topic: sent}


@pytest.mark.java
def test_a_key_goes_to_the_same_partition_with_every_client(
    client_of: ClientOf, broker: BrokerProcess, java_driver: JavaDriver
) -> None:
    partitions, keys = range(7), [f"schlüssel-{i}".encode() for i in range(100)]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    placed: dict[str, dict[bytes | None, int]] = {}
    for name in ("kafka_python", "aiokafka", "confluent", "kcat", "java"):
        topic = f"keys-of-{name}"
        admin.create_topics([NewTopic(topic, len(partitions), 1)])[topic].result()
        messages = [Message(key, b"x", Kcat.headers[:3]) for key in keys]
        if name == "kcat":
            messages = [replace(message, headers=Kcat.headers) for message in messages]
        client_of(name).produce(topic, messages, "none", partition=None)
        starts = {(topic, partition): 0 for partition in partitions}
        found = java_driver.consume(broker.bootstrap, starts, len(keys))
        placed[name] = {
            message.key: partition
            for (_, partition), records in found.items()
            for _, message in records
        }
        assert len(placed[name]) == len(keys)
    assert set(placed["java"].values()) == set(partitions)
    assert all(places == placed["java"] for places in placed.values())
