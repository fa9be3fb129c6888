"""Creates topics (key 19).

Versions: 4 accepts -1 for counts, meaning the broker's defaults; 5 flexible, and the answer tells
the new topic's size and configs; 6 may answer that a quota was exceeded; 7 answers the topic id.
"""

from __future__ import annotations

from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.schema import Message, array, boolean, int8, int16, int32, string, uuid, wire


class CreatableReplicaAssignment(Message):
    """The brokers that shall hold one partition."""

    partition_index: int = wire(int32, "0+")
    broker_ids: list[int] = wire(array(int32), "0+")


class CreatableTopicConfig(Message):
    """A setting to give to the new topic."""

    name: str = wire(string, "0+")
    value: str | None = wire(string, "0+", nullable="0+")


class CreatableTopic(Message):
    """A topic to create: by counts, or by assignments with both counts -1."""

    name: str = wire(string, "0+")
    num_partitions: int = wire(int32, "0+")
    replication_factor: int = wire(int16, "0+")
    assignments: list[CreatableReplicaAssignment] = wire(
        array(CreatableReplicaAssignment), "0+", default=list
    )
    configs: list[CreatableTopicConfig] = wire(array(CreatableTopicConfig), "0+", default=list)


class CreateTopicsRequest(Message, key=19, versions="2-7", flexible="5+"):
    """Topics to create, or only to check."""

    topics: list[CreatableTopic] = wire(array(CreatableTopic), "0+")
    timeout_ms: int = wire(int32, "0+", default=60000)
    validate_only: bool = wire(boolean, "1+", default=False)


class CreatableTopicConfigs(Message):
    """A setting of the new topic and where its value comes from."""

    name: str = wire(string, "5+")
    value: str | None = wire(string, "5+", nullable="5+")
    read_only: bool = wire(boolean, "5+")
    config_source: int = wire(int8, "5+", default=-1)
    is_sensitive: bool = wire(boolean, "5+")


class CreatableTopicResult(Message):
    """The new topic, or why there is none."""

    name: str = wire(string, "0+")
    topic_id: bytes = wire(uuid, "7+", default=ZERO_UUID)
    error_code: int = wire(int16, "0+", default=0)
    error_message: str | None = wire(string, "1+", nullable="0+", default=None)
    topic_config_error_code: int = wire(int16, "5+", tag=0, default=0)
    num_partitions: int = wire(int32, "5+", default=-1)
    replication_factor: int = wire(int16, "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = wire(
        array(CreatableTopicConfigs), "5+", nullable="5+", default=list
    )


class CreateTopicsResponse(Message, key=19, versions="2-7", flexible="5+"):
    """The outcome for each topic."""

    throttle_time_ms: int = wire(int32, "2+", default=0)
    topics: list[CreatableTopicResult] = wire(array(CreatableTopicResult), "0+")
