"""OffsetForLeaderEpoch (23): where an epoch ended, so that a reader can find out what was
truncated."""

from __future__ import annotations

from kbroker.broker import Broker
from kbroker.handlers.list_offsets import find
from kbroker.handlers.registry import Call, api
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse)
def offset_for_leader_epoch(
    call: Call[OffsetForLeaderEpochRequest],
) -> OffsetForLeaderEpochResponse:
    """Looks up each partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end(call.broker, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in call.request.topics
        ]
    )


def _end(broker: Broker, topic_name: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = find(broker, topic_name, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.end_of_epoch(asked.leader_epoch)
    except KafkaError as problem:
        answer.error_code = problem.code
    return answer
