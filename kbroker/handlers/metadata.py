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

from kbroker.broker import Broker
from kbroker.catalog import Topic
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


@api(MetadataRequest, MetadataResponse)
def metadata(call: Call[MetadataRequest]) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Describes the cluster and the topics asked for."""
    request, catalog = call.request, call.broker.catalog
    before = len(catalog.topics)
    if request.topics is None or (call.version == 0 and not request.topics):
        topics = [_describe(call, topic) for topic in catalog.topics.values()]
    else:
        topics = [_asked(call, asked) for asked in request.topics]
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=call.broker.node_id,
                host=call.client.local_host,
                port=call.client.local_port,
            )
        ],
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.node_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if len(catalog.topics) > before:
        return _when_durable(call.broker, response)
    return response


async def _when_durable(broker: Broker, response: MetadataResponse) -> MetadataResponse:
    await broker.catalog.synced()
    return response


def _asked(call: Call[MetadataRequest], asked: MetadataRequestTopic) -> MetadataResponseTopic:
    name, topic_id = asked.name, asked.topic_id
    try:
        if topic_id != ZERO_UUID or name is None:
            if call.version < 12:
                raise InvalidRequest("topics can be asked for by id from version 12 on")
            topic = call.broker.topic_by_id(topic_id)
            if topic is None:
                raise UnknownTopicId
        else:
            topic = call.broker.topic(name)
            if topic is None:
                topic = auto_create(call.broker, name, call.request.allow_auto_topic_creation)
    except KafkaError as problem:
        shown = name if name is not None or call.version >= 12 else ""
        return MetadataResponseTopic(
            error_code=problem.code, name=shown, topic_id=topic_id, partitions=[]
        )
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
