"""Reads record batches from partitions (key 1).

Versions: 4 isolation level; 5 log start offset; 7 fetch sessions (KIP-227); 9 leader epochs; 10
zstd; 11 rack and preferred replica; 12 flexible, divergence found by epoch; 13 topic ids instead
of names; 15 replica state replaces the replica id; 16 tells where the leader went; 17 directory
id; 18 high watermark of the fetcher. This is the readable codec; the hot path has a hand-written
one that is tested against it.
"""

from __future__ import annotations

from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.schema import (
    Message,
    array,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
    wire,
)


class ReplicaState(Message):
    """Which replica is fetching; a consumer leaves it out."""

    replica_id: int = wire(int32, "15+", default=-1)
    replica_epoch: int = wire(int64, "15+", default=-1)


class FetchPartition(Message):
    """Where to read one partition, and how much."""

    partition: int = wire(int32, "0+")
    current_leader_epoch: int = wire(int32, "9+", default=-1)
    fetch_offset: int = wire(int64, "0+")
    last_fetched_epoch: int = wire(int32, "12+", default=-1)
    log_start_offset: int = wire(int64, "5+", default=-1)
    partition_max_bytes: int = wire(int32, "0+")
    replica_directory_id: bytes = wire(uuid, "17+", tag=0, default=ZERO_UUID)
    high_watermark: int = wire(int64, "18+", tag=1, default=(1 << 63) - 1)


class FetchTopic(Message):
    """A topic's partitions to read."""

    topic: str = wire(string, "0-12", default="")
    topic_id: bytes = wire(uuid, "13+", default=ZERO_UUID)
    partitions: list[FetchPartition] = wire(array(FetchPartition), "0+")


class ForgottenTopic(Message):
    """Partitions that leave the fetch session."""

    topic: str = wire(string, "7-12", default="")
    topic_id: bytes = wire(uuid, "13+", default=ZERO_UUID)
    partitions: list[int] = wire(array(int32), "7+")


class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
    """What to read, how long to wait for it and how much to send at most."""

    cluster_id: str | None = wire(string, "12+", nullable="12+", tag=0, default=None)
    replica_id: int = wire(int32, "0-14", default=-1)
    replica_state: ReplicaState = wire(struct(ReplicaState), "15+", tag=1, default=ReplicaState)
    max_wait_ms: int = wire(int32, "0+")
    min_bytes: int = wire(int32, "0+")
    max_bytes: int = wire(int32, "3+", default=0x7FFFFFFF)
    isolation_level: int = wire(int8, "4+", default=0)
    session_id: int = wire(int32, "7+", default=0)
    session_epoch: int = wire(int32, "7+", default=-1)
    topics: list[FetchTopic] = wire(array(FetchTopic), "0+")
    forgotten_topics_data: list[ForgottenTopic] = wire(array(ForgottenTopic), "7+", default=list)
    rack_id: str = wire(string, "11+", default="")


class EpochEndOffset(Message):
    """Where the fetcher's last epoch ended on the leader, if the logs part."""

    epoch: int = wire(int32, "12+", default=-1)
    end_offset: int = wire(int64, "12+", default=-1)


class LeaderIdAndEpoch(Message):
    """The partition's leader now, when the one asked is not."""

    leader_id: int = wire(int32, "12+", default=-1)
    leader_epoch: int = wire(int32, "12+", default=-1)


class SnapshotId(Message):
    """A snapshot to load instead; only Kafka's own metadata log has them."""

    end_offset: int = wire(int64, "0+", default=-1)
    epoch: int = wire(int32, "0+", default=-1)


class AbortedTransaction(Message):
    """A transaction whose records a read-committed consumer skips."""

    producer_id: int = wire(int64, "4+")
    first_offset: int = wire(int64, "4+")


class FetchPartitionData(Message):
    """A partition's record batches and offsets, or an error."""

    partition_index: int = wire(int32, "0+")
    error_code: int = wire(int16, "0+", default=0)
    high_watermark: int = wire(int64, "0+")
    last_stable_offset: int = wire(int64, "4+", default=-1)
    log_start_offset: int = wire(int64, "5+", default=-1)
    diverging_epoch: EpochEndOffset = wire(
        struct(EpochEndOffset), "12+", tag=0, default=EpochEndOffset
    )
    current_leader: LeaderIdAndEpoch = wire(
        struct(LeaderIdAndEpoch), "12+", tag=1, default=LeaderIdAndEpoch
    )
    snapshot_id: SnapshotId = wire(struct(SnapshotId), "12+", tag=2, default=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = wire(
        array(AbortedTransaction), "4+", nullable="4+", default=None
    )
    preferred_read_replica: int = wire(int32, "11+", default=-1)
    records: bytes | memoryview | None = wire(records, "0+", nullable="0+")


class FetchableTopicResponse(Message):
    """A topic's partitions."""

    topic: str = wire(string, "0-12", default="")
    topic_id: bytes = wire(uuid, "13+", default=ZERO_UUID)
    partitions: list[FetchPartitionData] = wire(array(FetchPartitionData), "0+")


class NodeEndpoint(Message):
    """Address of a broker named as a current leader."""

    node_id: int = wire(int32, "16+")
    host: str = wire(string, "16+")
    port: int = wire(int32, "16+")
    rack: str | None = wire(string, "16+", nullable="16+", default=None)


class FetchResponse(Message, key=1, versions="4-18", flexible="12+"):
    """What was read, and the fetch session it belongs to."""

    throttle_time_ms: int = wire(int32, "1+", default=0)
    error_code: int = wire(int16, "7+", default=0)
    session_id: int = wire(int32, "7+", default=0)
    responses: list[FetchableTopicResponse] = wire(array(FetchableTopicResponse), "0+")
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "16+", tag=0, default=list)
