"""Where a leader epoch ended, so that a reader notices a truncated log (key 23).

Versions: 2 fencing by the reader's epoch; 3 the replica that asks; 4 flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, array, int16, int32, int64, string, wire


class OffsetForLeaderPartition(Message):
    """The epoch whose end is asked for."""

    partition: int = wire(int32, "0+")
    current_leader_epoch: int = wire(int32, "2+", default=-1)
    leader_epoch: int = wire(int32, "0+")


class OffsetForLeaderTopic(Message):
    """A topic's partitions."""

    topic: str = wire(string, "0+")
    partitions: list[OffsetForLeaderPartition] = wire(array(OffsetForLeaderPartition), "0+")


class OffsetForLeaderEpochRequest(Message, key=23, versions="2-4", flexible="4+"):
    """Epochs whose ends are asked for."""

    replica_id: int = wire(int32, "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = wire(array(OffsetForLeaderTopic), "0+")


class EpochEndOffset(Message):
    """The last offset of the epoch, or of the highest one below it; -1 if unknown."""

    error_code: int = wire(int16, "0+", default=0)
    partition: int = wire(int32, "0+")
    leader_epoch: int = wire(int32, "1+", default=-1)
    end_offset: int = wire(int64, "0+", default=-1)


class OffsetForLeaderTopicResult(Message):
    """A topic's partitions."""

    topic: str = wire(string, "0+")
    partitions: list[EpochEndOffset] = wire(array(EpochEndOffset), "0+")


class OffsetForLeaderEpochResponse(Message, key=23, versions="2-4", flexible="4+"):
    """Where the epochs ended."""

    throttle_time_ms: int = wire(int32, "2+", default=0)
    topics: list[OffsetForLeaderTopicResult] = wire(array(OffsetForLeaderTopicResult), "0+")
