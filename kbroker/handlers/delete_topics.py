"""DeleteTopics (20): topics go, by name or (from version 6) by id; durable before the answer.

A topic of the same name can be made at once and has another id, so clients do not mix the two up.
Versions: 5 error messages; 6 ids.
"""

from __future__ import annotations

from collections import Counter

from kbroker.broker import Broker
from kbroker.handlers.registry import Call, api
from kbroker.protocol.errors import (
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kbroker.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kbroker.protocol.primitives import ZERO_UUID


@api(DeleteTopicsRequest, DeleteTopicsResponse)
async def delete_topics(call: Call[DeleteTopicsRequest]) -> DeleteTopicsResponse:
    """Deletes one after the other, but nothing of what is asked for twice."""
    broker, request = call.broker, call.request
    asked = Counter((state.name, state.topic_id) for state in request.topics)
    asked.update((name, ZERO_UUID) for name in request.topic_names)
    for topic in [topic for name, _ in asked if (topic := broker.catalog.topics.get(name or ""))]:
        if (None, topic.id) in asked and (topic.name, ZERO_UUID) in asked:
            del asked[None, topic.id], asked[topic.name, ZERO_UUID]
            asked[topic.name, topic.id] = 2
    responses = [await _delete(broker, *named, count) for named, count in asked.items()]
    return DeleteTopicsResponse(responses=responses)


async def _delete(
    broker: Broker, name: str | None, topic_id: bytes, count: int
) -> DeletableTopicResult:
    result = DeletableTopicResult(name=name, topic_id=topic_id)
    try:
        if count > 1:
            raise InvalidRequest("a topic is named twice")
        if (name is None) == (topic_id == ZERO_UUID):
            raise InvalidRequest("give a topic's name or its id, one of the two")
        if name is not None:
            topic = broker.catalog.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartition(f"there is no topic {name}")
        else:
            topic = broker.catalog.by_id.get(topic_id)
            if topic is None:
                raise UnknownTopicId("no topic has this id")
        result.name, result.topic_id = topic.name, topic.id
        if not broker.settings.flag("delete.topic.enable"):
            raise TopicDeletionDisabled("delete.topic.enable is false")
        if topic.is_internal:
            raise InvalidTopicException(f"{topic.name} holds the broker's own state")
        await broker.catalog.delete(topic)
    except KafkaError as problem:
        result.error_code = problem.code
        result.error_message = problem.message
    return result
