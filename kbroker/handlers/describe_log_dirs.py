"""DescribeLogDirs (35): what each partition takes of the data folder, and how much room there
is."""

from __future__ import annotations

import os

from kbroker.broker import Broker
from kbroker.handlers.registry import Call, api
from kbroker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@api(DescribeLogDirsRequest, DescribeLogDirsResponse)
def describe_log_dirs(call: Call[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
    """The one data folder."""
    broker, asked = call.broker, call.request.topics
    wanted: dict[str, set[int]] = {}
    if asked is None:
        wanted = {t.name: set(range(t.partition_count)) for t in broker.catalog.topics.values()}
    for topic in asked or []:
        wanted.setdefault(topic.topic, set()).update(topic.partitions)
    room = os.statvfs(broker.store.folder)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=os.path.abspath(broker.store.folder),
                topics=[
                    described
                    for name, indexes in wanted.items()
                    if (described := _topic(broker, name, sorted(indexes))).partitions
                ],
                total_bytes=room.f_blocks * room.f_frsize,
                usable_bytes=room.f_bavail * room.f_frsize,
            )
        ]
    )


def _topic(broker: Broker, name: str, indexes: list[int]) -> DescribeLogDirsTopic:
    topic = broker.topic(name)
    known = [i for i in indexes if topic is not None and 0 <= i < topic.partition_count]
    return DescribeLogDirsTopic(
        name=name,
        partitions=[
            DescribeLogDirsPartition(
                partition_index=index,
                partition_size=broker.catalog.partition_of(topic, index).log.size,
                offset_lag=0,
                is_future_key=False,
            )
            for index in known
            if topic is not None
        ],
    )
