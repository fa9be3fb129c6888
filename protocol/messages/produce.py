"""Appends record batches to partitions (key 0).

Versions 0-2 are only announced (librdkafka wants to see them) and never decoded, so they are not
here. 3 transactional id and record batches v2; 5 log start offset; 7 zstd; 8 errors per record; 9
flexible; 10 tells where the leader went (KIP-951); 12 may add the partition to a transaction; 13
topic ids instead of names. This is the readable codec; the hot path has a hand-written one that
is tested against it.
"""

from __future__ import annotations

from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.schema import (
    Message,
    array,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
    wire,
)


class PartitionProduceData(Message):
    """Record batches for one partition."""

    index: int = wire(int32, "0+")
    records: bytes | memoryview | None = wire(records, "0+", nullable="0+")


class TopicProduceData(Message):
    """A topic's partitions to append to."""

    name: str = wire(string, "0-12", default="")
    topic_id: bytes = wire(uuid, "13+", default=ZERO_UUID)
    partition_data: list[PartitionProduceData] = wire(array(PartitionProduceData), "0+")


class ProduceRequest(Message, key=0, versions="3-13", flexible="9+"):
    """Record batches to append, and how safe they must be before the answer."""

    transactional_id: str | None = wire(string, "3+", nullable="3+", default=None)
    acks: int = wire(int16, "0+")
    timeout_ms: int = wire(int32, "0+")
    topic_data: list[TopicProduceData] = wire(array(TopicProduceData), "0+")


class BatchIndexAndErrorMessage(Message):
    """A record that made its whole batch be refused."""

    batch_index: int = wire(int32, "8+")
    batch_index_error_message: str | None = wire(string, "8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Message):
    """The partition's leader now, when the one asked is not."""

    leader_id: int = wire(int32, "10+", default=-1)
    leader_epoch: int = wire(int32, "10+", default=-1)


class PartitionProduceResponse(Message):
    """Where a partition's batches went, or why they did not."""

    index: int = wire(int32, "0+")
    error_code: int = wire(int16, "0+", default=0)
    base_offset: int = wire(int64, "0+")
    log_append_time_ms: int = wire(int64, "2+", default=-1)
    log_start_offset: int = wire(int64, "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = wire(
        array(BatchIndexAndErrorMessage), "8+", default=list
    )
    error_message: str | None = wire(string, "8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = wire(
        struct(LeaderIdAndEpoch), "10+", tag=0, default=LeaderIdAndEpoch
    )


class TopicProduceResponse(Message):
    """A topic's partitions."""

    name: str = wire(string, "0-12", default="")
    topic_id: bytes = wire(uuid, "13+", default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse] = wire(
        array(PartitionProduceResponse), "0+"
    )


class NodeEndpoint(Message):
    """Address of a broker named as a current leader."""

    node_id: int = wire(int32, "10+")
    host: str = wire(string, "10+")
    port: int = wire(int32, "10+")
    rack: str | None = wire(string, "10+", nullable="10+", default=None)


class ProduceResponse(Message, key=0, versions="3-13", flexible="9+"):
    """The outcome for each partition."""

    responses: list[TopicProduceResponse] = wire(array(TopicProduceResponse), "0+")
    throttle_time_ms: int = wire(int32, "1+", default=0)
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "10+", tag=0, default=list)
