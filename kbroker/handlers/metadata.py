"""Metadata (3): which brokers there are, which topics, and who leads their partitions.

A client is told the address at which it reached this broker. An unknown topic is made if both the
request and `auto.create.topics.enable` allow it; it is durable, and named in the same answer,
before the client hears of it (Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION first and lets it ask
again).
Versions: 0 an empty list means all topics; from 1 null does and an empty list means none; 4 the
client may forbid auto-creation; 10 topic ids; 12 topics may be asked for by id.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kbroker.catalog import Topic
from kbroker.handlers.durable import when_durable
from kbroker.handlers.registry import Call, api
from kbroker.handlers.topic_rules import auto_create
from kbroker.protocol.errors import InvalidRequest, KafkaError, UnknownTopicId
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kbroker.protocol.primitives import ZERO_UUID

# Without an authorizer everything is allowed: the bits of all operations that Kafka knows for each.
TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
_FIRST_BY_ID = 12


@api(MetadataRequest, MetadataResponse)
def metadata(call: Call[MetadataRequest]) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describes the cluster and the topics asked for."""
    request, catalog = call.request, call.broker.catalog
    before = len(catalog.topics)
    if request.topics is None or (call.version == 0 and not request.topics):
        topics = [_describe(call, topic) for topic in catalog.topics.values()]
    elif call.version < _FIRST_BY_ID and any(map(_is_by_id, request.topics)):
        return _refusal(request.topics)
    else:
        described = [_asked(call, asked) for asked in request.topics]
        topics = list({(topic.name, topic.topic_id): topic for topic in described}.values())
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=call.broker.node_id,
                host=call.client.advertised_host,
                port=call.client.advertised_port,
            )
        ],
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.node_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if len(catalog.topics) > before:
        return when_durable(call.broker, response)
    return response


def _is_by_id(asked: MetadataRequestTopic) -> bool:
    return asked.name is None or asked.topic_id != ZERO_UUID


def _refusal(asked: list[MetadataRequestTopic]) -> MetadataResponse:
    """Versions 10 and 11 carry ids that nobody may use yet: an error for every topic (KIP-516)."""
    return MetadataResponse(
        brokers=[],
        topics=[
            MetadataResponseTopic(
                error_code=InvalidRequest.code,
                name=topic.name or "",
                topic_id=topic.topic_id,
                partitions=[],
            )
            for topic in asked
        ],
    )


def _asked(call: Call[MetadataRequest], asked: MetadataRequestTopic) -> MetadataResponseTopic:
    broker, name = call.broker, asked.name
    by_id = _is_by_id(asked)
    try:
        topic: Topic | None
        if by_id or name is None:
            topic = broker.topic_by_id(asked.topic_id)
            if topic is None:
                raise UnknownTopicId
        else:
            topic = broker.topic(name)
            if topic is None:
                topic = auto_create(broker, name, call.request.allow_auto_topic_creation)
    except KafkaError as problem:
        response = MetadataResponseTopic(
            error_code=problem.code,
            name=None if by_id else name,
            topic_id=asked.topic_id,
            partitions=[],
        )
        if call.request.include_topic_authorized_operations and not by_id:
            response.topic_authorized_operations = TOPIC_OPERATIONS
        return response
    return _describe(call, topic)


def _describe(call: Call[MetadataRequest], topic: Topic) -> MetadataResponseTopic:
    broker = call.broker
    alone = [broker.node_id]
    response = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=broker.node_id,
                leader_epoch=broker.store.epoch,
                replica_nodes=alone,
                isr_nodes=alone,
            )
            for index in range(topic.partition_count)
        ],
    )
    if call.request.include_topic_authorized_operations:
        response.topic_authorized_operations = TOPIC_OPERATIONS
    return response
