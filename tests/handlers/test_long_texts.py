"""Texts that a client sends come back in error messages; the longest must still fit its answer."""

from __future__ import annotations

import pytest

from kbroker.protocol import records
from kbroker.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kbroker.protocol.messages.produce import ProduceResponse
from kbroker.protocol.records import NewRecord
from tests.net.running import Running
from tests.net.wire import batch_of, fetch_request, fetched, produce_request

LONGEST = "\x01" * 32767  # each character takes four in a quoted form


@pytest.mark.parametrize("version", [3, 8, 9, 12])
async def test_a_transactional_id_of_the_largest_size(version: int, running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    batch = records.build(
        [NewRecord(1_700_000_000_000, None, b"x")],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    request = produce_request("t", batch, transactional_id=LONGEST)
    response = await client.ask(request, ProduceResponse, version)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code != 0
    assert len(answer.error_message or "") < 2000


@pytest.mark.parametrize("version", [3, 8, 9])
async def test_produce_to_a_topic_name_of_the_largest_size(version: int, running: Running) -> None:
    client = await running.connect()
    request = produce_request("x" * 32767, batch_of(b"x"))
    response = await client.ask(request, ProduceResponse, version)
    assert response.responses[0].name == "x" * 32767
    assert response.responses[0].partition_responses[0].error_code == 3


@pytest.mark.parametrize("version", [4, 11, 12])
async def test_fetch_from_a_topic_name_of_the_largest_size(version: int, running: Running) -> None:
    client = await running.connect()
    response = await client.fetch(fetch_request({("x" * 32767, 0): 0}), version)
    assert fetched(response)["x" * 32767, 0].error_code == 3


@pytest.mark.parametrize("version", [11, 12])
async def test_a_fetch_of_the_empty_name_is_told_the_empty_name(
    version: int, running: Running
) -> None:
    client = await running.connect()
    response = await client.fetch(fetch_request({("", 0): 0}), version)
    assert [topic.topic for topic in response.responses] == [""]
    assert response.responses[0].partitions[0].error_code == 3


@pytest.mark.parametrize("version", [1, 9])
async def test_metadata_of_a_name_of_the_largest_size(version: int, running: Running) -> None:
    client = await running.connect()
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=LONGEST)],
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    response = await client.ask(request, MetadataResponse, version)
    assert response.topics[0].error_code == 17


@pytest.mark.parametrize("version", [2, 4, 5, 7])
@pytest.mark.parametrize("what", ["topic", "config name", "config value"])
async def test_create_topics_with_texts_of_the_largest_size(
    what: str, version: int, running: Running
) -> None:
    client = await running.connect()
    configs = []
    if what == "config name":
        configs = [CreatableTopicConfig(name=LONGEST, value="1")]
    elif what == "config value":
        configs = [CreatableTopicConfig(name="retention.ms", value=LONGEST)]
    name = LONGEST if what == "topic" else "t"
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
    request = CreateTopicsRequest(topics=[topic])
    response = await client.ask(request, CreateTopicsResponse, version)
    assert response.topics[0].error_code != 0
    assert len(response.topics[0].error_message or "") < 2000


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("kind", [2, 4, 99])
async def test_alter_configs_with_texts_of_the_largest_size(
    kind: int, version: int, running: Running
) -> None:
    client = await running.connect()
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=LONGEST,
        configs=[AlterableConfig(name=LONGEST, value=LONGEST)],
    )
    request = AlterConfigsRequest(resources=[resource], validate_only=False)
    response = await client.ask(request, AlterConfigsResponse, version)
    assert response.responses[0].error_code != 0
    assert len(response.responses[0].error_message or "") < 2000
