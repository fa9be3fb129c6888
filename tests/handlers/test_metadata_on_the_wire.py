"""Which topics a Metadata request means, and which it makes (COMPAT.md 16, 17, 18, 20)."""

from __future__ import annotations

import pytest

from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.net.running import Running, StartBroker
from tests.net.wire import LOOPBACK

UNKNOWN_TOPIC, INVALID_REQUEST, UNKNOWN_TOPIC_ID = 3, 42, 100


def asking(
    topics: list[MetadataRequestTopic] | None, *, allow_auto_topic_creation: bool = True
) -> MetadataRequest:
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=allow_auto_topic_creation,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def by_name(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


async def test_an_empty_list_means_all_topics_in_version_0_and_none_later(
    running: Running,
) -> None:
    """sarama#1352, kafkajs#1184, kafka-python#867"""
    client = await running.connect()
    await client.create_topic("a")
    await client.create_topic("b")
    for version in MetadataRequest.versions:
        response = await client.ask(asking([]), MetadataResponse, version)
        assert [t.name for t in response.topics] == (["a", "b"] if version == 0 else [])
        if version >= 1:
            response = await client.ask(asking(None), MetadataResponse, version)
            assert [t.name for t in response.topics] == ["a", "b"]


async def test_the_client_is_told_the_address_at_which_it_reached_the_broker(
    running: Running,
) -> None:
    client = await running.connect()
    for version in MetadataRequest.versions:
        response = await client.ask(asking([]), MetadataResponse, version)
        (broker,) = response.brokers
        assert (broker.host, broker.port) == (LOOPBACK, running.port)
        if version >= 1:
            assert response.controller_id == broker.node_id


@pytest.mark.parametrize("version", MetadataRequest.versions)
async def test_an_unknown_topic_is_made_only_if_the_client_allows_it(
    version: int, running: Running
) -> None:
    client = await running.connect()
    if version >= 4:
        request = asking(by_name("wanted"), allow_auto_topic_creation=False)
        response = await client.ask(request, MetadataResponse, version)
        assert response.topics[0].error_code == UNKNOWN_TOPIC
        assert not running.broker.catalog.topics
    response = await client.ask(asking(by_name("wanted")), MetadataResponse, version)
    assert response.topics[0].name == "wanted"
    assert "wanted" in running.broker.catalog.topics
    assert await client.append("wanted", b"at once") == 0


async def test_nothing_is_made_when_the_broker_forbids_it(start_broker: StartBroker) -> None:
    running = await start_broker({"auto.create.topics.enable": "false"})
    client = await running.connect()
    response = await client.ask(asking(by_name("wanted")), MetadataResponse, 9)
    assert response.topics[0].error_code == UNKNOWN_TOPIC
    assert not running.broker.catalog.topics


@pytest.mark.parametrize("version", [10, 11])
async def test_a_null_name_before_version_12_is_an_error_and_not_a_crash(
    version: int, running: Running
) -> None:
    """kafka#10584"""
    client = await running.connect()
    request = asking([MetadataRequestTopic(name=None, topic_id=bytes(range(16)))])
    response = await client.ask(request, MetadataResponse, version)
    assert [topic.error_code for topic in response.topics] == [INVALID_REQUEST]
    assert (await client.ask(asking([]), MetadataResponse, version)).brokers


async def test_topics_are_found_by_id_from_version_12_on(running: Running) -> None:
    client = await running.connect()
    topic_id = await client.create_topic("t", partitions=2)
    for version in (12, 13):
        request = asking([MetadataRequestTopic(name=None, topic_id=topic_id)])
        (topic,) = (await client.ask(request, MetadataResponse, version)).topics
        assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "t", 2)
        request = asking([MetadataRequestTopic(name=None, topic_id=bytes(15) + b"\x07")])
        (topic,) = (await client.ask(request, MetadataResponse, version)).topics
        assert (topic.error_code, topic.name) == (UNKNOWN_TOPIC_ID, None)


async def test_a_topic_made_again_has_another_id_and_an_epoch_that_does_not_go_back(
    running: Running,
) -> None:
    """kafka#10952 #11552, librdkafka#5022: else clients stick to what they knew."""
    client = await running.connect()
    first_id = await client.create_topic("t")
    request = asking(by_name("t"))
    before = (await client.ask(request, MetadataResponse, 12)).topics[0].partitions[0].leader_epoch
    await client.delete_topic("t")
    second_id = await client.create_topic("t")
    assert second_id != first_id
    (topic,) = (await client.ask(request, MetadataResponse, 12)).topics
    assert topic.topic_id == second_id
    assert topic.partitions[0].leader_epoch >= before


async def test_the_brokers_own_log_is_not_listed(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    response = await client.ask(asking(None), MetadataResponse, 12)
    assert [topic.name for topic in response.topics] == ["t"]
