"""A thousand topics, made on purpose and by the way: listed, produced to, read, and there after a
restart."""

import time

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.slow

TOPIC_COUNT = 1000
TIMEOUT_S = 40


def produce_one_to_each(broker: BrokerProcess, topics: list[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: KafkaMessage) -> None:
        if error is not None:
            errors.append(error)

    for topic in topics:
        producer.produce(topic, topic.encode(), on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == []


def read_one_of_each(broker: BrokerProcess, topics: list[str]) -> list[str]:
    """The values of the first records, sorted."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    values: list[str] = []
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < len(topics) and time.monotonic() < deadline:
            for record in consumer.consume(len(topics) - len(values), 0.2):
                assert record.error() is None
                value = record.value()
                assert value is not None
                values.append(value.decode())
    finally:
        consumer.close()
    return sorted(values)


def topics_of(broker: BrokerProcess) -> list[str]:
    listed = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=TIMEOUT_S)
    return sorted(listed.topics)


def test_a_thousand_topics_are_created_in_one_request(fresh_broker: BrokerProcess) -> None:
    topics = [f"topic-{i:04}" for i in range(TOPIC_COUNT)]
    admin = AdminClient({"bootstrap.servers": fresh_broker.bootstrap})
    created = admin.create_topics([NewTopic(topic, 1, 1) for topic in topics])
    for future in created.values():
        future.result(TIMEOUT_S)
    assert topics_of(fresh_broker) == topics
    produce_one_to_each(fresh_broker, topics)
    assert read_one_of_each(fresh_broker, topics) == topics

    deleted = admin.delete_topics(topics[::2])
    for deletion in deleted.values():
        deletion.result(TIMEOUT_S)
    assert topics_of(fresh_broker) == topics[1::2]
    fresh_broker.restart()
    assert topics_of(fresh_broker) == topics[1::2]
    assert read_one_of_each(fresh_broker, topics[1::2]) == topics[1::2]


def test_a_thousand_topics_are_made_by_producing_to_them(fresh_broker: BrokerProcess) -> None:
    topics = [f"auto-{i:04}" for i in range(TOPIC_COUNT)]
    produce_one_to_each(fresh_broker, topics)
    assert topics_of(fresh_broker) == topics
    assert read_one_of_each(fresh_broker, topics) == topics
