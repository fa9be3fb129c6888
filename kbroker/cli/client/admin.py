"""Questions about topics and changes to them, each a plain function on a cluster.

A function asks every broker that must be asked (offsets come from leaders, sizes from whoever holds
the files) and gives one answer; an error number becomes a Failure that says what was tried.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kbroker.cli.client.cluster import Cluster, Topic
from kbroker.cli.client.failure import BrokerRefusal, Failure
from kbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kbroker.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST, EARLIEST = -1, -2
CHANGE_TIMEOUT_MS = 30_000
CHANGE_ANSWER_TIMEOUT_S = 40.0
_PARTITIONS_PER_REQUEST = 5_000

TopicPartition = tuple[str, int]


# Topics


def create_topic(
    cluster: Cluster, name: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> tuple[int, int]:
    """Makes a topic; -1 leaves a count to the broker. Gives the counts it got, -1 if not told."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replicas,
                configs=[
                    CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=CHANGE_TIMEOUT_MS,
    )
    response = cluster.ask_controller(
        request, CreateTopicsResponse, timeout_s=CHANGE_ANSWER_TIMEOUT_S
    )
    result = response.topics[0]
    if result.error_code:
        raise BrokerRefusal(result.error_code, f"cannot create topic {name}", result.error_message)
    return result.num_partitions, result.replication_factor


def delete_topic(cluster: Cluster, name: str) -> None:
    """Deletes a topic with all its records."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=CHANGE_TIMEOUT_MS
    )
    response = cluster.ask_controller(
        request, DeleteTopicsResponse, timeout_s=CHANGE_ANSWER_TIMEOUT_S
    )
    result = response.responses[0]
    if result.error_code:
        raise BrokerRefusal(result.error_code, f"cannot delete topic {name}", result.error_message)


def grow_topic(cluster: Cluster, name: str, partitions: int) -> None:
    """Gives a topic more partitions, `partitions` in all."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=partitions)],
        timeout_ms=CHANGE_TIMEOUT_MS,
        validate_only=False,
    )
    response = cluster.ask_controller(
        request, CreatePartitionsResponse, timeout_s=CHANGE_ANSWER_TIMEOUT_S
    )
    result = response.results[0]
    if result.error_code:
        raise BrokerRefusal(
            result.error_code,
            f"cannot give topic {name} {partitions} partitions",
            result.error_message,
        )


# Offsets


def by_leader(topics: Iterable[Topic]) -> dict[int, dict[str, list[int]]]:
    """Partitions that have a leader, by leader and topic."""
    grouped: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic in topics:
        for partition in topic.partitions:
            if partition.leader >= 0:
                grouped[partition.leader][topic.name].append(partition.index)
    return grouped


def offsets_at(
    cluster: Cluster, topics: Sequence[Topic], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """The first offset at or after a time, for EARLIEST the first and for LATEST the next one.

    -1 where no record is as late. Partitions without a leader are left out.
    """
    found: dict[TopicPartition, int] = {}
    for leader, wanted in by_leader(topics).items():
        for part in _pieces(wanted):
            _ask_offsets(cluster, leader, part, timestamp_ms, found)
    return found


def _ask_offsets(
    cluster: Cluster,
    leader: int,
    wanted: Mapping[str, list[int]],
    timestamp_ms: int,
    found: dict[TopicPartition, int],
) -> None:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=timestamp_ms)
                    for index in indexes
                ],
            )
            for name, indexes in wanted.items()
        ],
        timeout_ms=CHANGE_TIMEOUT_MS,
    )
    for topic in cluster.node(leader).ask(request, ListOffsetsResponse).topics:
        for part in topic.partitions:
            if part.error_code:
                raise BrokerRefusal(
                    part.error_code,
                    f"cannot look up offsets of {topic.name} partition {part.partition_index}",
                )
            found[topic.name, part.partition_index] = part.offset


def _pieces(wanted: Mapping[str, list[int]]) -> Iterable[dict[str, list[int]]]:
    """Splits a large question, so that no request is larger than brokers like."""
    piece: dict[str, list[int]] = {}
    room = _PARTITIONS_PER_REQUEST
    for name, indexes in wanted.items():
        rest = indexes
        while rest:
            piece[name], rest = rest[:room], rest[room:]
            room -= len(piece[name])
            if room == 0:
                yield piece
                piece, room = {}, _PARTITIONS_PER_REQUEST
    if piece:
        yield piece


# Sizes


@dataclass(frozen=True, slots=True)
class LogFolder:
    """A broker's data folder: the bytes of each partition in it, and the disk's room."""

    broker: int
    path: str
    sizes: Mapping[TopicPartition, int]
    total_bytes: int
    usable_bytes: int


def log_folders(
    cluster: Cluster, broker: int, topics: Iterable[Topic] | None = None
) -> list[LogFolder]:
    """The data folders of one broker; with `topics` only their sizes are told. -1: not told."""
    wanted = None
    if topics is not None:
        wanted = [
            DescribableLogDirTopic(
                topic=topic.name, partitions=[part.index for part in topic.partitions]
            )
            for topic in topics
        ]
    response = cluster.node(broker).ask(
        DescribeLogDirsRequest(topics=wanted), DescribeLogDirsResponse
    )
    if response.error_code:
        raise BrokerRefusal(response.error_code, f"cannot see the data folders of broker {broker}")
    folders = []
    for result in response.results:
        if result.error_code:
            raise BrokerRefusal(result.error_code, f"cannot read {result.log_dir}")
        sizes = {
            (topic.name, part.partition_index): part.partition_size
            for topic in result.topics
            for part in topic.partitions
            if not part.is_future_key
        }
        folders.append(
            LogFolder(broker, result.log_dir, sizes, result.total_bytes, result.usable_bytes)
        )
    return folders


def leader_sizes(cluster: Cluster, topics: Sequence[Topic]) -> dict[TopicPartition, int]:
    """Bytes of each partition's copy on its leader; left out where a broker does not tell."""
    sizes: dict[TopicPartition, int] = {}
    for leader, wanted in by_leader(topics).items():
        try:
            folders = log_folders(cluster, leader, topics)
        except Failure:
            continue
        for folder in folders:
            sizes |= {
                (name, index): size
                for (name, index), size in folder.sizes.items()
                if index in wanted.get(name, ())
            }
    return sizes
