"""Requests to a real broker: one by one over a blocking socket, or pipelined on the test's loop."""

from __future__ import annotations

import asyncio
from struct import Struct
from types import TracebackType
from typing import Self, TypeVar

from kbroker.protocol.header import is_flexible, is_response_header_flexible
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kbroker.protocol.records import Record
from kbroker.protocol.schema import Message
from tests.storage.batches import records_in
from tests.support.ports import LOOPBACK
from tests.support.raw_client import RawClient

CREATE_VERSION = 7
PRODUCE_VERSION = 9
FETCH_VERSION = 12
ANSWER_TIMEOUT_S = 20

_pack_header = Struct(">ihhih").pack
Answer = TypeVar("Answer", bound=Message)


def create_request(
    name: str, partition_count: int = 1, configs: dict[str, object] | None = None
) -> CreateTopicsRequest:
    """One topic; configs by Kafka's names."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=1,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key, value=str(value))
            for key, value in (configs or {}).items()
        ],
    )
    return CreateTopicsRequest(topics=[topic])


def create_topic(
    client: RawClient,
    name: str,
    partition_count: int = 1,
    configs: dict[str, object] | None = None,
) -> None:
    """Makes a topic."""
    request = create_request(name, partition_count, configs)
    answer = client.ask(request, CREATE_VERSION, CreateTopicsResponse)
    assert answer.topics[0].error_code == 0, answer


def produce_request(
    topic: str, content: bytes, partition: int = 0, acks: int = -1
) -> ProduceRequest:
    """One batch for one partition."""
    data = PartitionProduceData(index=partition, records=content)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)


def produce(
    client: RawClient,
    topic: str,
    content: bytes,
    partition: int = 0,
    *,
    acks: int = -1,
    create: bool = False,
) -> PartitionProduceResponse:
    """Sends a batch; gives its partition's part of the answer."""
    if create:
        create_topic(client, topic)
    request = produce_request(topic, content, partition, acks)
    answer = client.ask(request, PRODUCE_VERSION, ProduceResponse)
    return answer.responses[0].partition_responses[0]


def fetch_request(
    topic: str, offset: int, partition: int = 0, max_bytes: int = 64 << 20
) -> FetchRequest:
    """Reads one partition without waiting."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=topics)


def read_all(client: RawClient, topic: str, partition: int = 0) -> list[Record]:
    """Every record of a partition, from offset 0 on."""
    found: list[Record] = []
    while True:
        offset = found[-1].offset + 1 if found else 0
        answer = client.ask(fetch_request(topic, offset, partition), FETCH_VERSION, FetchResponse)
        data = answer.responses[0].partitions[0]
        assert data.error_code == 0, data.error_code
        if not data.records:
            assert offset == data.high_watermark
            return found
        found += [one for one in records_in(bytes(data.records)) if one.offset >= offset]


class Pipeline:
    """One connection on the test's loop; requests may be sent before others are answered."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sent: list[int] = []
        self._correlation_id = 0
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(LOOPBACK, self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()
        await asyncio.wait([asyncio.ensure_future(self._writer.wait_closed())])

    def send(self, request: Message, version: int) -> None:
        """Sends without waiting."""
        self._correlation_id += 1
        self._sent.append(self._correlation_id)
        body = (b"\0" if is_flexible(type(request), version) else b"") + request.encode(version)
        header = _pack_header(len(body) + 10, request.api_key, version, self._correlation_id, -1)
        self._writer.write(header + body)

    async def receive(self, answer: type[Answer], version: int) -> Answer:
        """The next answer, which must be the one to the oldest request that has none yet."""
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            frame = await self._reader.readexactly(size)
        assert int.from_bytes(frame[:4], "big") == self._sent.pop(0), "an answer out of turn"
        start = 5 if is_response_header_flexible(answer, version) else 4
        return answer.decode(frame, version, start)

    async def ask(self, request: Message, version: int, answer: type[Answer]) -> Answer:
        """A request and its answer."""
        self.send(request, version)
        return await self.receive(answer, version)

    # What tests do most

    async def create_topic(self, name: str, partition_count: int = 1) -> None:
        """Makes a topic."""
        request = create_request(name, partition_count)
        answer = await self.ask(request, CREATE_VERSION, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0, answer

    async def produced(self) -> PartitionProduceResponse:
        """The next answer to a produce request, of its only partition."""
        answer = await self.receive(ProduceResponse, PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0]

    async def produce(
        self, topic: str, content: bytes, partition: int = 0
    ) -> PartitionProduceResponse:
        """Sends a batch; gives the answer."""
        self.send(produce_request(topic, content, partition), PRODUCE_VERSION)
        return await self.produced()

    async def append(self, topic: str, content: bytes, partition: int = 0) -> int:
        """Sends a batch that must be stored; gives its offset."""
        answer = await self.produce(topic, content, partition)
        assert answer.error_code == 0, answer
        return answer.base_offset

    async def read_all(self, topic: str, partition: int = 0) -> dict[int, bytes | None]:
        """The value of each record by its offset."""
        found: dict[int, bytes | None] = {}
        while True:
            request = fetch_request(topic, max(found, default=-1) + 1, partition)
            answer = await self.ask(request, FETCH_VERSION, FetchResponse)
            data = answer.responses[0].partitions[0]
            assert data.error_code == 0, data.error_code
            if not data.records:
                return found
            found |= {record.offset: record.value for record in records_in(bytes(data.records))}
