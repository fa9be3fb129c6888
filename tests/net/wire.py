"""A client that sends what no real client sends: half frames, pipelines, wrong bytes, slow reads.

Requests and answers go through kbroker's own message classes, which other tests compare with kio,
kafka-python and Apache Kafka; everything around them (lengths, headers, order) is done by hand
here.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kbroker.protocol import records
from kbroker.protocol.header import is_response_header_flexible
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
from kbroker.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.records import NewRecord
from kbroker.protocol.schema import Message

LOOPBACK = "127.0.0.1"
CLIENT_ID = "tester"
ANSWER_TIMEOUT_S = 10

Topic = str | bytes
"""A topic's name, or its id where the version wants one."""

Wanted = (
    Mapping[tuple[str, int], int]
    | Mapping[tuple[Topic, int], int]
    | Sequence[tuple[tuple[Topic, int], int]]
)
"""From which offset to read each (topic, partition)."""

ResponseType = TypeVar("ResponseType", bound=Message)


def header(
    key: int, version: int, correlation_id: int, flexible: bool, client_id: str | None = CLIENT_ID
) -> bytes:
    """The header of a request."""
    out = struct.pack(">hhi", key, version, correlation_id)
    if client_id is None:
        out += b"\xff\xff"
    else:
        out += struct.pack(">h", len(client_id.encode())) + client_id.encode()
    return out + b"\0" if flexible else out


def framed(body: bytes) -> bytes:
    """A frame: length and content."""
    return struct.pack(">i", len(body)) + body


def frame_of(
    request: Message, version: int, correlation_id: int = 1, client_id: str | None = CLIENT_ID
) -> bytes:
    """A whole request as it goes over the wire."""
    flexible = version in request.flexible
    head = header(request.api_key, version, correlation_id, flexible, client_id)
    return framed(head + request.encode(version))


def batch_of(*values: bytes | None, key: bytes | None = None, time_ms: int | None = None) -> bytes:
    """A record batch with these values."""
    now_ms = int(time.time() * 1000) if time_ms is None else time_ms
    return records.build([NewRecord(now_ms, key, value) for value in values])


def produce_request(
    topic: Topic,
    batch: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One batch for one partition."""
    data = TopicProduceData(
        name=topic if isinstance(topic, str) else "",
        topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
        partition_data=[PartitionProduceData(index=partition, records=batch)],
    )
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=30_000, topic_data=[data]
    )


def fetch_request(
    wanted: Wanted,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
    forgotten: Sequence[tuple[Topic, int]] = (),
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    isolation_level: int = 0,
) -> FetchRequest:
    """A fetch of these partitions, at once and without a session unless told otherwise."""
    pairs = wanted.items() if isinstance(wanted, Mapping) else wanted
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=current_leader_epoch,
                        last_fetched_epoch=last_fetched_epoch,
                    )
                ],
            )
            for (topic, index), offset in pairs
        ],
        forgotten_topics_data=[
            ForgottenTopic(
                topic=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                partitions=[index],
            )
            for topic, index in forgotten
        ],
    )


def fetched(response: FetchResponse) -> dict[tuple[Topic, int], FetchPartitionData]:
    """An answer's partitions by (topic name or id, number)."""
    found: dict[tuple[Topic, int], FetchPartitionData] = {}
    for topic in response.responses:
        name: Topic = topic.topic or topic.topic_id
        for partition in topic.partitions:
            assert (name, partition.partition_index) not in found, "a partition came twice"
            found[name, partition.partition_index] = partition
    return found


def values_in(data: FetchPartitionData) -> list[bytes | None]:
    """The values of all records of a fetched partition, in order."""
    values: list[bytes | None] = []
    rest = memoryview(bytes(data.records or b""))
    while len(rest):
        size = 12 + int.from_bytes(rest[8:12], "big")
        values += [record.value for record in records.iterate(rest[:size])]
        rest = rest[size:]
    return values


async def until(condition: Callable[[], object], what: str, timeout_s: float = 10) -> None:
    """Waits for a condition with a deadline, while the loop (and the broker on it) runs."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting for {what} after {timeout_s:g} s")
        await asyncio.sleep(0.002)


class WireClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.client_id: str | None = CLIENT_ID
        self._correlation_id = 0

    @classmethod
    async def connect(cls, port: int, host: str = LOOPBACK) -> WireClient:
        """Connects to a broker."""
        return cls(*await asyncio.open_connection(host, port))

    @property
    def address(self) -> str:
        """This side's address, as the broker's log names it."""
        host, port = self.writer.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    def close(self) -> None:
        """Leaves at once, with a reset if something is unread."""
        self.writer.transport.abort()

    # Sending

    def send_raw(self, data: bytes) -> None:
        """Any bytes."""
        self.writer.write(data)

    def send(self, request: Message, version: int) -> int:
        """A request, without waiting for its answer; gives its correlation id."""
        self._correlation_id += 1
        self.send_raw(frame_of(request, version, self._correlation_id, self.client_id))
        return self._correlation_id

    # Receiving

    async def read_frame(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bytes:
        """The next answer without its length; b"" if the broker has closed the connection."""
        async with asyncio.timeout(timeout_s):
            try:
                size = int.from_bytes(await self.reader.readexactly(4), "big")
                return await self.reader.readexactly(size)
            except asyncio.IncompleteReadError as problem:
                if problem.partial:
                    raise AssertionError("the connection ended inside of an answer") from problem
                return b""
            except (ConnectionResetError, BrokenPipeError):
                return b""

    async def receive(
        self, response: type[ResponseType], version: int, correlation_id: int
    ) -> ResponseType:
        """The next answer, which must be the one to that request."""
        frame = await self.read_frame()
        assert frame, f"the connection was closed instead of a {response.__name__}"
        assert int.from_bytes(frame[:4], "big") == correlation_id, "an answer out of turn"
        return response.decode(
            frame, version, 5 if is_response_header_flexible(response, version) else 4
        )

    async def ask(
        self, request: Message, response: type[ResponseType], version: int
    ) -> ResponseType:
        """A request and its answer."""
        return await self.receive(response, version, self.send(request, version))

    async def is_closed(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bool:
        """Waits for the broker to close the connection; False if it answers instead."""
        return await self.read_frame(timeout_s) == b""

    # The few requests that most tests need

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None
    ) -> bytes:
        """Makes a topic; gives its id."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=key, value=str(value))
                for key, value in (configs or {}).items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic])
        result = (await self.ask(request, CreateTopicsResponse, 7)).topics[0]
        assert result.error_code == 0, result
        return result.topic_id

    async def delete_topic(self, name: str) -> int:
        """Deletes a topic; gives the error code."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        response = await self.ask(request, DeleteTopicsResponse, 6)
        return response.responses[0].error_code

    async def produce(
        self, topic: Topic, batch: bytes | None, *, partition: int = 0, version: int = 9
    ) -> PartitionProduceResponse:
        """Appends a batch; gives its partition's part of the answer."""
        request = produce_request(topic, batch, partition=partition)
        response = await self.ask(request, ProduceResponse, version)
        return response.responses[0].partition_responses[0]

    async def append(self, topic: Topic, *values: bytes | None, partition: int = 0) -> int:
        """Appends records, which must succeed; gives the offset of the first."""
        answer = await self.produce(topic, batch_of(*values), partition=partition)
        assert answer.error_code == 0, answer
        return answer.base_offset

    async def fetch(self, request: FetchRequest, version: int = 12) -> FetchResponse:
        """Fetches."""
        return await self.ask(request, FetchResponse, version)

    async def read_all(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """All values of a partition from offset 0."""
        values: list[bytes | None] = []
        while True:
            request = fetch_request({(topic, partition): len(values)})
            data = fetched(await self.fetch(request))[topic, partition]
            assert data.error_code == 0, data
            more = values_in(data)
            if not more:
                return values
            values += more
