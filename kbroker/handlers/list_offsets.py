"""ListOffsets (2): the earliest and latest offset, the first one at or after a time, and others.

Timestamps below zero are questions: -1 latest, -2 earliest, -3 the record with the largest
timestamp, -4 earliest local (the same as earliest: nothing is tiered), -5 latest tiered and -6
earliest pending upload (none here). By time: the first record inside its batch that is as late;
none gives -1, -1.
Versions: 2 isolation level; 4 leader epochs; 7 adds -3, 8 adds -4, 9 adds -5, 11 adds -6.
"""

from __future__ import annotations

from kbroker.broker import Broker
from kbroker.handlers.registry import Call, api
from kbroker.protocol.errors import (
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kbroker.storage.partition import Partition

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
_FIRST_VERSION = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


@api(ListOffsetsRequest, ListOffsetsResponse)
def list_offsets(call: Call[ListOffsetsRequest]) -> ListOffsetsResponse:
    """Looks up each partition; one that is asked for twice is refused."""
    wanted: dict[str, dict[int, list[ListOffsetsPartition]]] = {}
    for topic in call.request.topics:
        of_topic = wanted.setdefault(topic.name, {})
        for asked in topic.partitions:
            of_topic.setdefault(asked.partition_index, []).append(asked)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=name,
                partitions=[
                    _partition(call.broker, name, asked, call.version)
                    for asked in partitions.values()
                ],
            )
            for name, partitions in wanted.items()
        ]
    )


def find(broker: Broker, topic_name: str, index: int) -> Partition:
    """A partition by name and number."""
    topic = broker.topic(topic_name)
    if topic is None or not 0 <= index < topic.partition_count:
        raise UnknownTopicOrPartition(f"there is no partition {topic_name}-{index}")
    return broker.catalog.partition_of(topic, index)


def _partition(
    broker: Broker, topic_name: str, all_asked: list[ListOffsetsPartition], version: int
) -> ListOffsetsPartitionResponse:
    asked = all_asked[0]
    response = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    try:
        if len(all_asked) > 1:
            raise InvalidRequest(f"{topic_name}-{asked.partition_index} is asked for twice")
        partition = find(broker, topic_name, asked.partition_index)
        partition.check_epoch(asked.current_leader_epoch)
        found = look_up(partition, asked.timestamp, version)
    except KafkaError as problem:
        response.error_code = problem.code
        return response
    if found is not None:
        response.offset, response.timestamp, response.leader_epoch = found
    return response


def look_up(partition: Partition, timestamp: int, version: int) -> tuple[int, int, int] | None:
    """(offset, timestamp, leader epoch), or None if there is no such record."""
    if version < _FIRST_VERSION.get(timestamp, 0) or timestamp < EARLIEST_PENDING_UPLOAD:
        raise UnsupportedVersion(f"timestamp {timestamp} has no meaning in ListOffsets v{version}")
    if timestamp == LATEST:
        return partition.high_watermark, -1, partition.store.epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log_start, -1, partition.epoch_at(partition.log_start)
    if timestamp == MAX_TIMESTAMP:
        return partition.latest_timestamp()
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    return partition.first_at_or_after(timestamp)
