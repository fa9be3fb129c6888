"""CreatePartitions (37): a topic grows; a result for each topic. It cannot shrink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable

from kbroker.broker import Broker
from kbroker.handlers.durable import when_durable
from kbroker.handlers.registry import Call, api
from kbroker.handlers.topic_rules import check_room
from kbroker.protocol.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)
from kbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


@api(CreatePartitionsRequest, CreatePartitionsResponse)
def create_partitions(
    call: Call[CreatePartitionsRequest],
) -> CreatePartitionsResponse | Awaitable[CreatePartitionsResponse]:
    """Grows what can grow."""
    request, broker = call.request, call.broker
    names = Counter(topic.name for topic in request.topics)
    results = []
    for name in names:
        wanted = next(topic for topic in request.topics if topic.name == name)
        result = CreatePartitionsTopicResult(name=name)
        try:
            if names[name] > 1:
                raise InvalidRequest(f"{name} is named twice")
            _grow(broker, wanted, request.validate_only)
        except KafkaError as problem:
            result.error_code = problem.code
            result.error_message = problem.message
        results.append(result)
    response = CreatePartitionsResponse(results=results)
    if request.validate_only:
        return response
    return when_durable(broker, response)


def _grow(broker: Broker, wanted: CreatePartitionsTopic, validate_only: bool) -> None:
    topic = broker.catalog.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition
    added = wanted.count - topic.partition_count
    if added == 0:
        raise InvalidPartitions(f"{topic.name} has {topic.partition_count} partitions already")
    if added < 0:
        raise InvalidPartitions(
            f"{topic.name} has {topic.partition_count} partitions and cannot have {wanted.count}"
        )
    if wanted.assignments is not None:
        if len(wanted.assignments) != added:
            raise InvalidReplicaAssignment(
                f"{added} partitions are added and {len(wanted.assignments)} assignments are given"
            )
        for assignment in wanted.assignments:
            if assignment.broker_ids != [broker.node_id]:
                raise InvalidReplicaAssignment(f"the only broker is {broker.node_id}")
    check_room(broker, added)
    if not validate_only:
        broker.catalog.grow(topic, wanted.count)
