"""Deletes topics by name or, from version 6, by topic id (key 20).

Versions: 4 flexible; 5 error messages; 6 a list of (name, id) replaces the list of names.
"""

from __future__ import annotations

from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.schema import Message, array, int16, int32, string, uuid, wire


class DeleteTopicState(Message):
    """A topic to delete, by name or by id."""

    name: str | None = wire(string, "6+", nullable="6+", default=None)
    topic_id: bytes = wire(uuid, "6+", default=ZERO_UUID)


class DeleteTopicsRequest(Message, key=20, versions="1-6", flexible="4+"):
    """Topics to delete."""

    topics: list[DeleteTopicState] = wire(array(DeleteTopicState), "6+", default=list)
    topic_names: list[str] = wire(array(string), "0-5", default=list)
    timeout_ms: int = wire(int32, "0+")


class DeletableTopicResult(Message):
    """The outcome for one topic."""

    name: str | None = wire(string, "0+", nullable="6+")
    topic_id: bytes = wire(uuid, "6+", default=ZERO_UUID)
    error_code: int = wire(int16, "0+", default=0)
    error_message: str | None = wire(string, "5+", nullable="5+", default=None)


class DeleteTopicsResponse(Message, key=20, versions="1-6", flexible="4+"):
    """The outcome for each topic."""

    throttle_time_ms: int = wire(int32, "1+", default=0)
    responses: list[DeletableTopicResult] = wire(array(DeletableTopicResult), "0+")
