"""Partitions of topics, page by page (key 75). Kafka's own command lines use it.

Versions: 0 only, flexible. A cursor says where the next page begins.
"""

from __future__ import annotations

from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.schema import (
    Message,
    array,
    boolean,
    int16,
    int32,
    string,
    struct,
    uuid,
    wire,
)


class DescribeTopicPartitionsRequestTopic(Message):
    """A topic asked for."""

    name: str = wire(string, "0+")


class Cursor(Message):
    """The partition at which a page begins."""

    topic_name: str = wire(string, "0+")
    partition_index: int = wire(int32, "0+")


class DescribeTopicPartitionsRequest(Message, key=75, versions="0", flexible="0+"):
    """Topics to describe, how many partitions at most, and where to begin."""

    topics: list[DescribeTopicPartitionsRequestTopic] = wire(
        array(DescribeTopicPartitionsRequestTopic), "0+"
    )
    response_partition_limit: int = wire(int32, "0+", default=2000)
    cursor: Cursor | None = wire(struct(Cursor), "0+", nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Message):
    """Who leads a partition and who holds its copies."""

    error_code: int = wire(int16, "0+", default=0)
    partition_index: int = wire(int32, "0+")
    leader_id: int = wire(int32, "0+")
    leader_epoch: int = wire(int32, "0+", default=-1)
    replica_nodes: list[int] = wire(array(int32), "0+")
    isr_nodes: list[int] = wire(array(int32), "0+")
    eligible_leader_replicas: list[int] | None = wire(
        array(int32), "0+", nullable="0+", default=None
    )
    last_known_elr: list[int] | None = wire(array(int32), "0+", nullable="0+", default=None)
    offline_replicas: list[int] = wire(array(int32), "0+", default=list)


class DescribeTopicPartitionsResponseTopic(Message):
    """A topic with the partitions of this page."""

    error_code: int = wire(int16, "0+", default=0)
    name: str | None = wire(string, "0+", nullable="0+")
    topic_id: bytes = wire(uuid, "0+", default=ZERO_UUID)
    is_internal: bool = wire(boolean, "0+", default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition] = wire(
        array(DescribeTopicPartitionsResponsePartition), "0+"
    )
    topic_authorized_operations: int = wire(int32, "0+", default=-2147483648)


class DescribeTopicPartitionsResponse(Message, key=75, versions="0", flexible="0+"):
    """One page of partitions, and where the next begins."""

    throttle_time_ms: int = wire(int32, "0+", default=0)
    topics: list[DescribeTopicPartitionsResponseTopic] = wire(
        array(DescribeTopicPartitionsResponseTopic), "0+"
    )
    next_cursor: Cursor | None = wire(struct(Cursor), "0+", nullable="0+", default=None)
