"""Moves the start of partitions forward, so that older records are gone (key 21).

Versions: 2 flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, int16, int32, int64, string, wire


class DeleteRecordsPartition(Message):
    """The new start of a partition; -1 means its high watermark."""

    partition_index: int = wire(int32, "0+")
    offset: int = wire(int64, "0+")


class DeleteRecordsTopic(Message):
    """A topic's partitions to cut."""

    name: str = wire(string, "0+")
    partitions: list[DeleteRecordsPartition] = wire(array(DeleteRecordsPartition), "0+")


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    """Partitions to cut."""

    topics: list[DeleteRecordsTopic] = wire(array(DeleteRecordsTopic), "0+")
    timeout_ms: int = wire(int32, "0+")


class DeleteRecordsPartitionResult(Message):
    """The start that the partition has now."""

    partition_index: int = wire(int32, "0+")
    low_watermark: int = wire(int64, "0+")
    error_code: int = wire(int16, "0+", default=0)


class DeleteRecordsTopicResult(Message):
    """A topic's partitions."""

    name: str = wire(string, "0+")
    partitions: list[DeleteRecordsPartitionResult] = wire(array(DeleteRecordsPartitionResult), "0+")


class DeleteRecordsResponse(Message, key=21, versions="0-2", flexible="2+"):
    """The outcome for each partition."""

    throttle_time_ms: int = wire(int32, "0+", default=0)
    topics: list[DeleteRecordsTopicResult] = wire(array(DeleteRecordsTopicResult), "0+")
