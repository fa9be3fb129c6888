"""DescribeTopicPartitions (75): Metadata for many partitions, in pages; what kafka-topics asks.

Topics come sorted by name; a page ends after `response_partition_limit` partitions with a cursor.
"""

from __future__ import annotations

from kbroker.broker import Broker
from kbroker.handlers.metadata import TOPIC_OPERATIONS
from kbroker.handlers.registry import Call, api
from kbroker.handlers.topic_rules import check_name
from kbroker.protocol.errors import (
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    UnknownTopicOrPartition,
)
from kbroker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_LIMIT_MAX = 2000


@api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse)
def describe_topic_partitions(
    call: Call[DescribeTopicPartitionsRequest],
) -> DescribeTopicPartitionsResponse:
    """One page."""
    request, broker = call.request, call.broker
    names = sorted({topic.name for topic in request.topics}) or sorted(broker.catalog.topics)
    cursor, first = request.cursor, 0
    if cursor is not None:
        asked = {topic.name for topic in request.topics}
        if cursor.partition_index < 0 or (asked and cursor.topic_name not in asked):
            return _refusal(names if asked else [])
        names = [name for name in names if name >= cursor.topic_name]
        first = cursor.partition_index if names[:1] == [cursor.topic_name] else 0
    room = max(1, min(request.response_partition_limit, _LIMIT_MAX))
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor = None
    for name in names:
        if room == 0:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        described, stopped_at = _describe(broker, name, first, room)
        topics.append(described)
        room -= len(described.partitions)
        first = 0
        if stopped_at is not None:
            next_cursor = Cursor(topic_name=name, partition_index=stopped_at)
            break
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def _refusal(names: list[str]) -> DescribeTopicPartitionsResponse:
    """A cursor that nobody gave out: an error for every topic."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=InvalidRequest.code, name=name, partitions=[]
            )
            for name in names
        ]
    )


def _describe(
    broker: Broker, name: str, first: int, room: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    topic = broker.topic(name)
    if topic is None:
        error: type[KafkaError] = UnknownTopicOrPartition
        try:
            check_name(name)
        except InvalidTopicException:
            error = InvalidTopicException
        missing = DescribeTopicPartitionsResponseTopic(
            error_code=error.code,
            name=name,
            partitions=[],
            topic_authorized_operations=TOPIC_OPERATIONS,
        )
        return missing, None
    last = min(topic.partition_count, first + room)
    alone = [broker.node_id]
    described = DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=broker.node_id,
                leader_epoch=broker.store.epoch,
                replica_nodes=alone,
                isr_nodes=alone,
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for index in range(first, last)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    return described, last if last < topic.partition_count else None
