"""DeleteRecords (21): moves a partition's log start up; -1 deletes everything that can be read."""

from __future__ import annotations

from kbroker.broker import Broker
from kbroker.catalog import INTERNAL_TOPICS
from kbroker.handlers.list_offsets import find
from kbroker.handlers.registry import Call, api
from kbroker.protocol.errors import InvalidTopicException, KafkaError, PolicyViolation
from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


@api(DeleteRecordsRequest, DeleteRecordsResponse)
async def delete_records(call: Call[DeleteRecordsRequest]) -> DeleteRecordsResponse:
    """Trims each partition; durable before the answer."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    await _trim(call.broker, topic.name, asked) for asked in topic.partitions
                ],
            )
            for topic in call.request.topics
        ]
    )


async def _trim(
    broker: Broker, topic_name: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    try:
        partition = find(broker, topic_name, asked.partition_index)
        if topic_name in INTERNAL_TOPICS:
            raise InvalidTopicException(f"{topic_name} holds the broker's own state")
        if not partition.settings.deletes:
            raise PolicyViolation(f"{topic_name} is compacted and not deleted")
        result.low_watermark = await partition.trim(asked.offset)
    except KafkaError as problem:
        result.error_code = problem.code
    return result
