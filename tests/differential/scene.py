"""What a scenario works with: one broker, topics of its own, and answers made plain.

A scenario is a function of a Scene; it runs against Apache Kafka and against kbroker and returns
what it was told. Topic names are the same on both, so they need no translation; ids are learned
when a topic is made.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import kbroker.handlers  # noqa: F401  # fills the registry
from kbroker.handlers.registry import APIS
from kbroker.protocol.batch import batch_size
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kbroker.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kbroker.protocol.records import NewRecord, build, iterate
from kbroker.protocol.schema import Message
from tests.differential.plain import Plain, plain
from tests.support.raw_client import Closed, RawClient
from tests.support.waiting import wait_until

CLOSED = "<the broker closed the connection>"
# A broker may answer from a metadata cache that its controller has not reached yet.
SETTLE_TIMEOUT_S = 15
LATEST = -1

Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as requests name it."""

    name: str
    id: bytes


class Scene:
    """One broker, as one scenario sees it."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap = bootstrap
        self.prefix = prefix
        self._names: dict[bytes, str] = {}
        self._client = RawClient(bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    # Asking

    def ask(self, request: Message, version: int | None = None) -> Plain:
        """The plain answer to a request, in the newest version unless told otherwise."""
        try:
            return self.plain(self.raw(request, version))
        except Closed:
            self.reconnect()
            return CLOSED

    def raw(self, request: Message, version: int | None = None) -> Message:
        """The decoded answer."""
        api = APIS[request.api_key]
        return self._client.ask(
            request, api.versions[-1] if version is None else version, api.response
        )

    def told(self, request: Message, answer: type[Answer], version: int | None = None) -> Answer:
        """The decoded answer, for a scenario that goes on with what it says."""
        decoded = self.raw(request, version)
        assert isinstance(decoded, answer)
        return decoded

    def plain(self, message: object) -> Plain:
        """A message without what may differ between brokers."""
        return plain(message, self._name_of_id)

    @property
    def client(self) -> RawClient:
        """The connection, for what is not a whole and right request."""
        return self._client

    def reconnect(self) -> None:
        """A new connection: the old one was closed, or is out of step."""
        self._client.close()
        self._client = RawClient(self.bootstrap)

    def _name_of_id(self, topic_id: bytes) -> str:
        return f"<id of {self._names.get(topic_id, 'no topic of this scene')}>"

    def call_id(self, topic_id: bytes, name: str) -> None:
        """Let an id be shown as this name from now on."""
        self._names[topic_id] = name

    # Topics

    def name(self, label: str) -> str:
        """A topic name of this scenario's own."""
        return f"{self.prefix}-{label}"

    def create(self, label: str = "topic", partitions: int = 1, **configs: str) -> Topic:
        """A new topic that the broker leads; `configs` are written with _ for the dot."""
        name = self.name(label)
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
        result = self.told(request, CreateTopicsResponse).topics[0]
        assert result.error_code == 0, result
        self.wait_for(name, partitions)
        self._names[result.topic_id] = name
        return Topic(name, result.topic_id)

    def describe(self, *names: str) -> list[MetadataResponseTopic]:
        """What Metadata says of topics, without making them."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        return self.told(request, MetadataResponse).topics

    def wait_for(self, name: str, partitions: int = 1) -> None:
        """Return once the broker leads all partitions of a topic, and learn its id."""

        def led() -> bool:
            topic = self.describe(name)[0]
            self._names[topic.topic_id] = name
            if topic.error_code or len(topic.partitions) != partitions:
                return False
            # Metadata runs ahead of the part of Apache Kafka that holds the logs.
            asked = [
                ListOffsetsPartition(partition_index=index, timestamp=LATEST)
                for index in range(partitions)
            ]
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=0,
                topics=[ListOffsetsTopic(name=name, partitions=asked)],
                timeout_ms=10_000,
            )
            told = self.told(request, ListOffsetsResponse).topics[0].partitions
            return all(partition.error_code == 0 for partition in told)

        wait_until(led, timeout_s=SETTLE_TIMEOUT_S, what=f"{name} to have a leader")

    def wait_until_gone(self, name: str) -> None:
        """Return once the broker has forgotten a topic."""
        wait_until(
            lambda: self.describe(name)[0].error_code != 0,
            timeout_s=SETTLE_TIMEOUT_S,
            what=f"{name} to be gone",
        )

    def delete(self, topic: Topic) -> None:
        """Delete a topic, and return once the broker has forgotten it."""
        request = DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=10_000)
        assert self.told(request, DeleteTopicsResponse, 5).responses[0].error_code == 0
        self.wait_until_gone(topic.name)

    # Records

    def produce(self, topic: Topic, records: bytes | None, index: int = 0) -> Plain:
        """The plain outcome of appending bytes to one partition with acks=all."""
        return self.plain(self.append(topic, records, index))

    def append(
        self, topic: Topic, records: bytes | None, index: int = 0
    ) -> PartitionProduceResponse:
        """The outcome of appending bytes to one partition with acks=all."""
        request = produce_request(topic, records, index=index)
        return self.told(request, ProduceResponse).responses[0].partition_responses[0]

    def read(self, topic: Topic, index: int = 0, offset: int = 0) -> FetchPartitionData:
        """All that a partition holds from an offset on."""
        request = fetch_request(
            (
                topic,
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20),
            )
        )
        return self.told(request, FetchResponse).responses[0].partitions[0]

    def values(self, topic: Topic, index: int = 0) -> Plain:
        """(offset, value) of each record that a partition holds."""
        data = memoryview(self.read(topic, index).records or b"")
        found: list[Plain] = []
        while data:
            size = batch_size(data, 0)
            found += [[record.offset, record.value] for record in iterate(data[:size])]
            data = data[size:]
        return found

    def fill(self, topic: Topic, *batches: bytes, index: int = 0) -> None:
        """Append batches that must be accepted."""
        for batch in batches:
            answer = self.append(topic, batch, index)
            assert answer.error_code == 0, answer

    def trim(self, topic: Topic, offset: int, index: int = 0) -> None:
        """Delete the records below an offset."""
        asked = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic.name, partitions=[asked])], timeout_ms=10_000
        )
        result = self.told(request, DeleteRecordsResponse).topics[0].partitions[0]
        assert result.error_code == 0, result


def produce_request(
    topic: Topic,
    records: bytes | None,
    *,
    index: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A request with the records of one partition; it names the topic and its id, as any version
    may want."""
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=[data])],
    )


def fetch_request(
    *wanted: tuple[Topic, FetchPartition],
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: list[tuple[Topic, list[int]]] | None = None,
) -> FetchRequest:
    """A consumer's request; `session` is (id, epoch). Partitions of one topic in a row share an
    entry, which names the topic and its id, as any version may want."""
    topics: list[FetchTopic] = []
    for topic, partition in wanted:
        if not topics or topics[-1].topic != topic.name:
            topics.append(FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[]))
        topics[-1].partitions.append(partition)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten_topics_data=[
            ForgottenTopic(topic=topic.name, topic_id=topic.id, partitions=indexes)
            for topic, indexes in forgotten or []
        ],
    )


def batch(
    *values: bytes,
    timestamps_ms: list[int] | None = None,
    key: bytes | None = b"key",
    compression: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """One batch with these values; `producer` is (id, epoch, first sequence number)."""
    times_ms = timestamps_ms or [TIME_MS + index for index in range(len(values))]
    return build(
        [NewRecord(time_ms, key, value) for time_ms, value in zip(times_ms, values, strict=True)],
        compression=compression,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
        control=control,
    )


TIME_MS = 1_700_000_000_000
