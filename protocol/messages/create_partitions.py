"""Raises the number of partitions of topics (key 37).

Versions: 2 flexible; 3 may answer that a quota was exceeded.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, boolean, int16, int32, string, wire


class CreatePartitionsAssignment(Message):
    """The brokers that shall hold one new partition."""

    broker_ids: list[int] = wire(array(int32), "0+")


class CreatePartitionsTopic(Message):
    """A topic and how many partitions it shall have in all."""

    name: str = wire(string, "0+")
    count: int = wire(int32, "0+")
    assignments: list[CreatePartitionsAssignment] | None = wire(
        array(CreatePartitionsAssignment), "0+", nullable="0+", default=None
    )


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    """Topics to grow, or only to check."""

    topics: list[CreatePartitionsTopic] = wire(array(CreatePartitionsTopic), "0+")
    timeout_ms: int = wire(int32, "0+")
    validate_only: bool = wire(boolean, "0+")


class CreatePartitionsTopicResult(Message):
    """The outcome for one topic."""

    name: str = wire(string, "0+")
    error_code: int = wire(int16, "0+", default=0)
    error_message: str | None = wire(string, "0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message, key=37, versions="0-3", flexible="2+"):
    """The outcome for each topic."""

    throttle_time_ms: int = wire(int32, "0+", default=0)
    results: list[CreatePartitionsTopicResult] = wire(array(CreatePartitionsTopicResult), "0+")
