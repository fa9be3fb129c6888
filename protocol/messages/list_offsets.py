"""The offset at a time, or at the start or end of a partition (key 2).

Versions: 2 isolation level; 4 leader epochs; 6 flexible; 7 timestamp -3 asks for the record with
the highest timestamp, 8 adds -4 (local start), 9 adds -5 (last tiered), 11 adds -6 (next to be
tiered); 10 a timeout.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, int8, int16, int32, int64, string, wire


class ListOffsetsPartition(Message):
    """The time, or special position, to look up in one partition."""

    partition_index: int = wire(int32, "0+")
    current_leader_epoch: int = wire(int32, "4+", default=-1)
    timestamp: int = wire(int64, "0+")


class ListOffsetsTopic(Message):
    """A topic's partitions to look up."""

    name: str = wire(string, "0+")
    partitions: list[ListOffsetsPartition] = wire(array(ListOffsetsPartition), "0+")


class ListOffsetsRequest(Message, key=2, versions="1-11", flexible="6+"):
    """Positions to look up."""

    replica_id: int = wire(int32, "0+")
    isolation_level: int = wire(int8, "2+")
    topics: list[ListOffsetsTopic] = wire(array(ListOffsetsTopic), "0+")
    timeout_ms: int = wire(int32, "10+")


class ListOffsetsPartitionResponse(Message):
    """The offset found; -1 if there is none."""

    partition_index: int = wire(int32, "0+")
    error_code: int = wire(int16, "0+", default=0)
    timestamp: int = wire(int64, "1+", default=-1)
    offset: int = wire(int64, "1+", default=-1)
    leader_epoch: int = wire(int32, "4+", default=-1)


class ListOffsetsTopicResponse(Message):
    """A topic's partitions."""

    name: str = wire(string, "0+")
    partitions: list[ListOffsetsPartitionResponse] = wire(array(ListOffsetsPartitionResponse), "0+")


class ListOffsetsResponse(Message, key=2, versions="1-11", flexible="6+"):
    """The offsets found."""

    throttle_time_ms: int = wire(int32, "2+", default=0)
    topics: list[ListOffsetsTopicResponse] = wire(array(ListOffsetsTopicResponse), "0+")
