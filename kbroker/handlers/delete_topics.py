"""DeleteTopics (20): topics go, by name or (from version 6) by id; durable before the answer.

A topic of the same name can be made at once and has another id, so clients do not mix the two up.
Versions: 5 error messages; 6 ids.
"""

from __future__ import annotations

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
    DeleteTopicState,
)
from kbroker.protocol.primitives import ZERO_UUID


@api(DeleteTopicsRequest, DeleteTopicsResponse)
async def delete_topics(call: Call[DeleteTopicsRequest]) -> DeleteTopicsResponse:
    """Deletes one after the other."""
    asked = [DeleteTopicState(name=name) for name in call.request.topic_names]
    asked += call.request.topics
    return DeleteTopicsResponse(responses=[await _delete(call.broker, state) for state in asked])


async def _delete(broker: Broker, asked: DeleteTopicState) -> DeletableTopicResult:
    result = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id)
    try:
        if asked.name is not None and asked.topic_id != ZERO_UUID:
            raise InvalidRequest("give a topic's name or its id, not both")
        if asked.name is not None:
            topic = broker.catalog.topics.get(asked.name)
            if topic is None:
                raise UnknownTopicOrPartition("This server does not host this topic-partition.")
        else:
            topic = broker.catalog.by_id.get(asked.topic_id)
            if topic is None:
                raise UnknownTopicId("This server does not host this topic ID.")
        result.name, result.topic_id = topic.name, topic.id
        if not broker.settings.flag("delete.topic.enable"):
            raise TopicDeletionDisabled("delete.topic.enable is false")
        if topic.is_internal:
            raise InvalidTopicException(f"{topic.name} holds the broker's own state")
        await broker.catalog.delete(topic)
    except KafkaError as problem:
        result.error_code = problem.code
        result.error_message = str(problem) or None
    return result
