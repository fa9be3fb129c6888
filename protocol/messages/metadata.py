"""Which brokers there are, and which of them leads each partition (key 3).

Versions: in 0 an empty topic list means all topics, from 1 null means all and empty means none; 4
lets the client forbid auto-creation; 8 authorized operations (the cluster's until 10); 9
flexible; 10 topic ids on the wire, 12 topic ids that may be asked by; 13 an error for the whole
answer.
"""

from __future__ import annotations

from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.schema import Message, array, boolean, int16, int32, string, uuid, wire


class MetadataRequestTopic(Message):
    """A topic asked for, by id or by name."""

    topic_id: bytes = wire(uuid, "10+", default=ZERO_UUID)
    name: str | None = wire(string, "0+", nullable="10+")


class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
    """Which topics to describe."""

    topics: list[MetadataRequestTopic] | None = wire(
        array(MetadataRequestTopic), "0+", nullable="1+"
    )
    allow_auto_topic_creation: bool = wire(boolean, "4+", default=True)
    include_cluster_authorized_operations: bool = wire(boolean, "8-10")
    include_topic_authorized_operations: bool = wire(boolean, "8+")


class MetadataResponseBroker(Message):
    """A broker's address."""

    node_id: int = wire(int32, "0+")
    host: str = wire(string, "0+")
    port: int = wire(int32, "0+")
    rack: str | None = wire(string, "1+", nullable="1+", default=None)


class MetadataResponsePartition(Message):
    """Who leads a partition and who holds its copies."""

    error_code: int = wire(int16, "0+", default=0)
    partition_index: int = wire(int32, "0+")
    leader_id: int = wire(int32, "0+")
    leader_epoch: int = wire(int32, "7+", default=-1)
    replica_nodes: list[int] = wire(array(int32), "0+")
    isr_nodes: list[int] = wire(array(int32), "0+")
    offline_replicas: list[int] = wire(array(int32), "5+", default=list)


class MetadataResponseTopic(Message):
    """A topic with its partitions, or the reason why it cannot be told."""

    error_code: int = wire(int16, "0+", default=0)
    name: str | None = wire(string, "0+", nullable="12+")
    topic_id: bytes = wire(uuid, "10+", default=ZERO_UUID)
    is_internal: bool = wire(boolean, "1+", default=False)
    partitions: list[MetadataResponsePartition] = wire(array(MetadataResponsePartition), "0+")
    topic_authorized_operations: int = wire(int32, "8+", default=-2147483648)


class MetadataResponse(Message, key=3, versions="0-13", flexible="9+"):
    """Brokers, controller and topics."""

    throttle_time_ms: int = wire(int32, "3+", default=0)
    brokers: list[MetadataResponseBroker] = wire(array(MetadataResponseBroker), "0+")
    cluster_id: str | None = wire(string, "2+", nullable="2+", default=None)
    controller_id: int = wire(int32, "1+", default=-1)
    topics: list[MetadataResponseTopic] = wire(array(MetadataResponseTopic), "0+")
    cluster_authorized_operations: int = wire(int32, "8-10", default=-2147483648)
    error_code: int = wire(int16, "13+", default=0)
