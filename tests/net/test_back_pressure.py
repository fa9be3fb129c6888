"""A client that does not read its answers is not read either; what it is owed stays bounded,
arrives whole in the end, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.net.running import Running, StartBroker
from tests.net.wire import (
    LOOPBACK,
    batch_of,
    fetch_request,
    fetched,
    frame_of,
    until,
)

UNSENT_LIMIT = 1 << 20
ALL_TOPICS = MetadataRequest(
    topics=None,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)

NO_TOPICS = MetadataRequest(
    topics=[],
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)


class SlowClient:
    """A bare socket with small kernel buffers: it takes only what it is told to read."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def read(self, size: int, chunk_bytes: int = 1 << 16) -> bytes:
        data = bytearray()
        async with asyncio.timeout(20):
            while len(data) < size:
                part = await self._loop.sock_recv(self.socket, min(chunk_bytes, size - len(data)))
                assert part, "the broker closed the connection"
                data += part
        return bytes(data)

    async def read_frame(self, chunk_bytes: int = 1 << 16) -> bytes:
        size = int.from_bytes(await self.read(4), "big")
        return await self.read(size, chunk_bytes)


@asynccontextmanager
async def slow_client(port: int) -> AsyncIterator[SlowClient]:
    with socket.socket() as connection:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, (LOOPBACK, port))
        client = SlowClient(connection)
        # Once this is answered, the broker reads what follows as it comes, not as one burst.
        await client.send(frame_of(NO_TOPICS, 9))
        await client.read_frame()
        yield client


def unsent_bytes(running: Running) -> int:
    """What the broker owes to all its clients together."""
    connections = running.server.listener.connections
    return sum(c._outbox.unsent_bytes for c in connections if c._outbox is not None)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def fill(running: Running, topic: str, sizes: list[int]) -> bytes:
    """Appends one batch of random bytes for each size; gives the stored bytes of partition 0."""
    source = random.Random(len(sizes))
    client = await running.connect()
    await client.create_topic(topic)
    for size in sizes:
        await client.append(topic, source.randbytes(size))
    segments = sorted(running.folder.glob(f"{topic}-0/*.meta"))
    return b"".join(segment.read_bytes() for segment in segments)


async def test_a_client_that_does_not_read_is_not_read_and_later_gets_every_answer(
    start_broker: StartBroker,
) -> None:
    running = await start_broker({"kbroker.connection.max.unsent.bytes": UNSENT_LIMIT})
    stored = await fill(running, "t", [200_000] * 4)
    good = await running.connect()
    requests = 60  # each answered with all 800 kB: 48 MB altogether
    request = fetch_request({("t", 0): 0}, max_bytes=1 << 20)
    async with slow_client(running.port) as slow:
        before = running.broker.request_count
        for number in range(requests):
            await slow.send(frame_of(request, 12, number))
            await good.fetch(fetch_request({("t", 0): 4}))
            assert unsent_bytes(running) <= UNSENT_LIMIT + len(stored) + 1000
        handled = running.broker.request_count - before - requests
        assert 0 < handled < requests, "the broker reads on though nothing is taken from it"

        for number in range(requests):
            frame = await slow.read_frame()
            assert int.from_bytes(frame[:4], "big") == number
            data = fetched(FetchResponse.decode(frame, 12, 5))["t", 0]
            assert bytes(data.records or b"") == stored
        assert unsent_bytes(running) == 0


async def test_a_burst_of_small_requests_for_large_answers_stays_bounded(
    start_broker: StartBroker,
) -> None:
    """Five thousand Metadata requests fit into one read, and each answer has 26 kB."""
    running = await start_broker({"kbroker.connection.max.unsent.bytes": UNSENT_LIMIT})
    admin = await running.connect()
    await admin.create_topic("wide", partitions=1000)
    await admin.ask(ALL_TOPICS, MetadataResponse, 1)
    count = 5000
    async with slow_client(running.port) as slow:
        sending = asyncio.create_task(
            slow.send(b"".join(frame_of(ALL_TOPICS, 1, number) for number in range(count)))
        )
        await until(lambda: unsent_bytes(running) > UNSENT_LIMIT, "answers to pile up")
        for _ in range(5):
            await admin.ask(ALL_TOPICS, MetadataResponse, 1)
        answer = await slow.read_frame()
        per_turn = running.broker.max_parked_requests * (len(answer) + 4)
        assert unsent_bytes(running) <= UNSENT_LIMIT + per_turn
        for number in range(1, 150):
            assert (await slow.read_frame())[:4] == number.to_bytes(4, "big")
            assert unsent_bytes(running) <= UNSENT_LIMIT + per_turn
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


@pytest.mark.parametrize(
    "sizes",
    [
        [3_000_000 // 8] * 8,  # large slices: sendfile
        [900] * 300,  # many small batches in one slice
        [30_000, 100, 900_000, 10, 40_000],
    ],
    ids=["large", "small", "mixed"],
)
async def test_stored_bytes_reach_a_slow_reader_unchanged(
    sizes: list[int], running: Running
) -> None:
    stored = await fill(running, "t", sizes)
    request = fetch_request({("t", 0): 0}, max_bytes=1 << 30, partition_max_bytes=1 << 30)
    async with slow_client(running.port) as slow:
        for version in (4, 11, 12):
            await slow.send(frame_of(request, version, version))
            frame = await slow.read_frame(chunk_bytes=9_000)
            assert int.from_bytes(frame[:4], "big") == version
            data = fetched(FetchResponse.decode(frame, version, 5 if version >= 12 else 4))["t", 0]
            assert bytes(data.records or b"") == stored


async def test_small_and_large_pieces_of_several_partitions_keep_their_order(
    running: Running,
) -> None:
    """One answer with slices on both sides of the size where sendfile begins, twice in a
    pipeline."""
    sizes = {"a": [100], "b": [500_000], "c": [31_000], "d": [33_000, 20], "e": [5, 5]}
    stored = {name: await fill(running, name, batches) for name, batches in sizes.items()}
    request = fetch_request({(name, 0): 0 for name in sizes}, max_bytes=1 << 30)
    async with slow_client(running.port) as slow:
        await slow.send(frame_of(request, 12, 1) + frame_of(request, 12, 2))
        for number in (1, 2):
            frame = await slow.read_frame(chunk_bytes=5_000)
            assert int.from_bytes(frame[:4], "big") == number
            found = fetched(FetchResponse.decode(frame, 12, 5))
            assert {name: bytes(found[name, 0].records or b"") for name in sizes} == stored


async def test_bytes_on_their_way_survive_the_deletion_of_their_topic(running: Running) -> None:
    stored = await fill(running, "t", [400_000] * 8)
    admin = await running.connect()
    request = fetch_request({("t", 0): 0}, max_bytes=1 << 30, partition_max_bytes=1 << 30)
    async with slow_client(running.port) as slow:
        await slow.send(frame_of(request, 12))
        first = await slow.read(10_000)
        assert await admin.delete_topic("t") == 0
        await until(lambda: not list(running.folder.glob("*.deleted")), "the files to go")
        assert not list(running.folder.glob("t-0"))
        rest = await slow.read(int.from_bytes(first[:4], "big") + 4 - len(first), 9_000)
        data = fetched(FetchResponse.decode((first + rest)[4:], 12, 5))["t", 0]
        assert bytes(data.records or b"") == stored


@pytest.mark.parametrize("sizes", [[300_000] * 4, [2_000] * 5], ids=["large", "small"])
async def test_bytes_that_are_not_in_the_page_cache_arrive_too(
    sizes: list[int], running: Running
) -> None:
    stored = await fill(running, "t", sizes)
    (segment,) = running.folder.glob("t-0/*.meta")
    client = await running.connect()
    request = fetch_request({("t", 0): 0}, max_bytes=1 << 30, partition_max_bytes=1 << 30)
    for number in range(3):
        descriptor = os.open(segment, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        sent = [client.send(request, 12) for _ in range(number + 1)]
        for correlation_id in sent:
            data = fetched(await client.receive(FetchResponse, 12, correlation_id))["t", 0]
            assert bytes(data.records or b"") == stored


async def test_clients_that_leave_with_answers_unread_leave_no_open_file_behind(
    running: Running,
) -> None:
    await fill(running, "t", [400_000] * 4)
    good = await running.connect()
    await good.fetch(fetch_request({("t", 0): 0}))
    request = fetch_request({("t", 0): 0}, max_bytes=1 << 30, partition_max_bytes=1 << 30)
    before, connected = open_files(), len(running.server.listener.connections)
    for number in range(20):
        async with slow_client(running.port) as slow:
            await slow.send(frame_of(request, 12) * 3)
            await slow.read(1 + number * 500)
    await until(
        lambda: len(running.server.listener.connections) == connected, "the clients to be gone"
    )
    await until(lambda: open_files() <= before, "their files to be closed")
    assert unsent_bytes(running) == 0
    assert await good.append("t", batch_of(b"still here")) == 4


async def test_nobody_waits_for_a_slow_reader(running: Running) -> None:
    await fill(running, "t", [400_000] * 4)
    good = await running.connect()
    await good.create_topic("other")
    request = fetch_request({("t", 0): 0}, max_bytes=1 << 30, partition_max_bytes=1 << 30)
    async with slow_client(running.port) as slow:
        await slow.send(frame_of(request, 12) * 5)
        await until(lambda: unsent_bytes(running) > 0, "the slow reader to be behind")
        for number in range(50):
            assert await good.append("other", b"%d" % number) == number
        assert unsent_bytes(running) > 0


async def test_a_large_answer_that_is_not_a_file_reaches_a_slow_reader_too(
    running: Running,
) -> None:
    admin = await running.connect()
    await admin.create_topic("wide", partitions=20_000)
    async with slow_client(running.port) as slow:
        await slow.send(frame_of(ALL_TOPICS, 9, 1) + frame_of(ALL_TOPICS, 9, 2))
        for number in (1, 2):
            frame = await slow.read_frame(chunk_bytes=20_000)
            assert int.from_bytes(frame[:4], "big") == number
            (topic,) = MetadataResponse.decode(frame, 9, 5).topics
            assert [p.partition_index for p in topic.partitions] == list(range(20_000))
