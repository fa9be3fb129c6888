"""The Java client of Apache Kafka 4.3.1, in one JVM for all tests (JavaDriver.java).

It consumes here with assign() and seek(), which need no group. subscribe() needs the group APIs,
which the broker does not list yet: the client says UnsupportedVersionException for
FIND_COORDINATOR.
"""

import os

import pytest

from tests.clients.java_driver import JavaDriver, Offsets, Produced
from tests.clients.messages import CODECS, FIRST_TIMESTAMP_MS, SAMPLES, Message, texts
from tests.clients.restarts import READ_BEFORE_AND_AFTER, RESTART_TIMEOUT_S
from tests.support.broker_process import BrokerProcess
from tests.support.java import Java, KafkaTool
from tests.support.java_round_trip import expected_java_records, run_java_round_trip
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

MEGABYTE = 1 << 20
TIMEOUT_S = 20


def read(driver: JavaDriver, broker: BrokerProcess, topic: str, count: int) -> list[Message]:
    found = driver.consume(broker.bootstrap, {(topic, 0): 0}, count)
    return [message for _, message in found[topic, 0]]


def test_a_program_with_the_default_settings_reads_back_what_it_wrote(
    java: Java, broker: BrokerProcess, topic_name: str
) -> None:
    trip = run_java_round_trip(java, broker.bootstrap, topic_name, 30)
    assert trip.records == expected_java_records(30)
    assert trip.offsets == trip.acknowledged_offsets == list(range(30))


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    java_driver: JavaDriver, broker: BrokerProcess, topic_name: str, codec: str
) -> None:
    settings = {"compression.type": codec, "linger.ms": "20"}
    sent = java_driver.produce(broker.bootstrap, topic_name, SAMPLES, settings)
    assert sent == [Produced(0, offset) for offset in range(len(SAMPLES))]
    found = java_driver.consume(broker.bootstrap, {(topic_name, 0): 0}, len(SAMPLES))
    assert found[topic_name, 0] == list(enumerate(SAMPLES))


@pytest.mark.parametrize(
    ("acks", "idempotent"), [("0", "false"), ("1", "false"), ("all", "false"), ("all", "true")]
)
def test_every_level_of_acknowledgement_stores_the_records(
    java_driver: JavaDriver, broker: BrokerProcess, topic_name: str, acks: str, idempotent: str
) -> None:
    messages = texts(20)
    settings = {"acks": acks, "enable.idempotence": idempotent}
    sent = java_driver.produce(broker.bootstrap, topic_name, messages, settings)
    assert sent == [Produced(0, -1 if acks == "0" else offset) for offset in range(20)]
    assert read(java_driver, broker, topic_name, 20) == messages


def test_a_message_that_is_too_large_is_refused_and_the_next_one_is_stored(
    java_driver: JavaDriver, broker: BrokerProcess, topic_name: str
) -> None:
    large = [Message(None, os.urandom(MEGABYTE - 200)), Message(None, os.urandom(2 * MEGABYTE))]
    settings = {"max.request.size": str(4 * MEGABYTE), "batch.size": "0"}
    messages = [texts(1)[0], *large, texts(1)[0]]
    sent = java_driver.produce(broker.bootstrap, topic_name, messages, settings)
    assert sent == [
        Produced(0, 0),
        Produced(0, 1),
        Produced(error="RecordTooLargeException"),
        Produced(0, 2),
    ]
    assert read(java_driver, broker, topic_name, 3) == [messages[0], messages[1], messages[3]]


def test_offsets_are_found_by_time_and_a_consumer_seeks_to_them(
    java_driver: JavaDriver, broker: BrokerProcess, topic_name: str
) -> None:
    messages = texts(10)
    settings = {"compression.type": "lz4", "linger.ms": "20"}
    java_driver.produce(broker.bootstrap, topic_name, messages, settings)
    time_ms = FIRST_TIMESTAMP_MS + 4
    found = java_driver.offsets(broker.bootstrap, topic_name, 0, time_ms)
    assert found == Offsets(0, 10, 4, time_ms)
    found = java_driver.offsets(broker.bootstrap, topic_name, 0, FIRST_TIMESTAMP_MS + 10)
    assert found == Offsets(0, 10, -1, -1)
    read_from_4 = java_driver.consume(broker.bootstrap, {(topic_name, 0): 4}, 6)
    assert read_from_4[topic_name, 0] == list(enumerate(messages))[4:]


@pytest.mark.parametrize("acks", ["0", "all"])
def test_a_producer_finds_a_topic_that_was_made_again(
    java_driver: JavaDriver, broker: BrokerProcess, topic_name: str, acks: str
) -> None:
    """Its requests name a topic id that is gone, and with acks=0 no answer can tell."""
    topic = ("--bootstrap-server", broker.bootstrap, "--topic", topic_name)

    def has_records() -> bool:
        found = java_driver.run(KafkaTool.GET_OFFSETS, *topic).stdout.strip()
        return found != "" and not found.endswith(":0")

    java_driver.start_load(
        broker.bootstrap, topic_name, {"acks": acks, "enable.idempotence": "false"}
    )
    wait_until(has_records, timeout_s=TIMEOUT_S, what="records")
    java_driver.run(KafkaTool.TOPICS, *topic, "--delete").check()
    # The producer's next look at the metadata may have made it already.
    java_driver.run(KafkaTool.TOPICS, *topic, "--create", "--if-not-exists").check()
    wait_until(has_records, timeout_s=TIMEOUT_S, what="records in the new topic")
    java_driver.stop_load()


def test_a_restart_of_the_broker_loses_nothing(
    java_driver: JavaDriver, fresh_broker: BrokerProcess, topic_name: str
) -> None:
    def acknowledged() -> int:
        return java_driver.load_size()

    def wait_for_more() -> None:
        enough = acknowledged() + READ_BEFORE_AND_AFTER
        wait_until(
            lambda: acknowledged() >= enough,
            timeout_s=RESTART_TIMEOUT_S,
            what=f"{enough} acknowledged records",
        )

    java_driver.start_load(fresh_broker.bootstrap, topic_name, {"linger.ms": "0"})
    wait_for_more()
    fresh_broker.restart()
    wait_for_more()
    offsets = java_driver.stop_load()
    assert offsets == list(range(len(offsets)))
    stored = read(java_driver, fresh_broker, topic_name, len(offsets))
    assert [message.value for message in stored] == [b"%d" % number for number in offsets]
