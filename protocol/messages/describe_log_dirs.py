"""Sizes of partitions per log directory (key 35).

Versions: 2 flexible; 3 an error for the whole answer; 4 size of the disk; 5 cordoned directories.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, boolean, int16, int32, int64, string, wire


class DescribableLogDirTopic(Message):
    """A topic's partitions asked for."""

    topic: str = wire(string, "0+")
    partitions: list[int] = wire(array(int32), "0+")


class DescribeLogDirsRequest(Message, key=35, versions="1-5", flexible="2+"):
    """Partitions to measure; null means all."""

    topics: list[DescribableLogDirTopic] | None = wire(
        array(DescribableLogDirTopic), "0+", nullable="0+"
    )


class DescribeLogDirsPartition(Message):
    """The size of one partition's copy in this directory."""

    partition_index: int = wire(int32, "0+")
    partition_size: int = wire(int64, "0+")
    offset_lag: int = wire(int64, "0+")
    is_future_key: bool = wire(boolean, "0+")


class DescribeLogDirsTopic(Message):
    """A topic's partitions."""

    name: str = wire(string, "0+")
    partitions: list[DescribeLogDirsPartition] = wire(array(DescribeLogDirsPartition), "0+")


class DescribeLogDirsResult(Message):
    """One log directory: its partitions and its disk."""

    error_code: int = wire(int16, "0+", default=0)
    log_dir: str = wire(string, "0+")
    topics: list[DescribeLogDirsTopic] = wire(array(DescribeLogDirsTopic), "0+")
    total_bytes: int = wire(int64, "4+", default=-1)
    usable_bytes: int = wire(int64, "4+", default=-1)
    is_cordoned: bool = wire(boolean, "5+", default=False)


class DescribeLogDirsResponse(Message, key=35, versions="1-5", flexible="2+"):
    """The log directories of the broker."""

    throttle_time_ms: int = wire(int32, "0+", default=0)
    error_code: int = wire(int16, "3+", default=0)
    results: list[DescribeLogDirsResult] = wire(array(DescribeLogDirsResult), "0+")
