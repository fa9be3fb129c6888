"""Memory follows the bytes that arrive, never the lengths that are claimed."""

from __future__ import annotations

import gc
import random
import struct
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbroker.net.connection import Connection
from tests.net import bad_inputs
from tests.net.running import Connect, Running
from tests.net.wire import batch_of, fetch_request, frame_of, produce_request, until
from tests.support.broker_process import BrokerProcess

CLAIMED_BYTES = 100_000_000  # just below socket.request.max.bytes
MEGABYTE = 1 << 20


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data").start()
    try:
        yield process
    finally:
        process.close()


def memory_bytes(process: BrokerProcess, field: str = "VmRSS") -> int:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field}")


@pytest.mark.slow
async def test_200_connections_that_claim_100_megabytes_each_cost_what_they_send(
    process: BrokerProcess, connect: Connect
) -> None:
    good = await connect(process.port)
    await good.create_topic("t")
    before = memory_bytes(process)
    clients = []
    for number in range(200):
        clients.append(await connect(process.port))
        clients[-1].send_raw(struct.pack(">i", CLAIMED_BYTES) + bytes(1000))
        assert await good.append("t", b"meanwhile") == number
        # Looked at each time: if this fails, it must not take the machine with it.
        grown = memory_bytes(process) - before
        assert grown < 40 * MEGABYTE, f"{grown >> 20} MB for {number + 1} KB of input"
    for client in clients:
        client.close()
    assert await good.append("t", b"after") == 200


@pytest.mark.slow
async def test_hostile_lengths_inside_of_requests_cost_nothing(
    process: BrokerProcess, connect: Connect
) -> None:
    good = await connect(process.port)
    await good.create_topic("t")
    for round_number in range(3):
        for name, data, _ in bad_inputs.ALL:
            bad = await connect(process.port)
            bad.send_raw(data)
            assert await bad.is_closed(), name
            bad.close()
        if round_number == 0:
            before = memory_bytes(process)
    assert memory_bytes(process) - before < 8 * MEGABYTE
    assert await good.append("t", b"after") == 0


@pytest.mark.slow
async def test_a_whole_frame_of_90_megabytes_is_refused_and_its_memory_given_back(
    process: BrokerProcess, connect: Connect
) -> None:
    client = await connect(process.port)
    await client.create_topic("t")
    await client.append("t", b"before")
    before = memory_bytes(process)
    batch = batch_of(random.Random(1).randbytes(90_000_000))
    answer = await client.produce("t", batch)
    assert answer.error_code == 10  # MESSAGE_TOO_LARGE
    for number in range(1, 300):
        assert await client.append("t", b"after") == number
    assert memory_bytes(process) - before < 20 * MEGABYTE


@pytest.mark.slow
async def test_a_client_that_leaves_in_the_middle_of_a_large_frame_takes_its_memory_along(
    process: BrokerProcess, connect: Connect
) -> None:
    good = await connect(process.port)
    await good.create_topic("t")
    before = memory_bytes(process)
    for _ in range(5):
        client = await connect(process.port)
        client.send_raw(struct.pack(">i", CLAIMED_BYTES) + bytes(CLAIMED_BYTES // 2))
        await client.writer.drain()
        client.close()
    await until(lambda: memory_bytes(process) - before < 20 * MEGABYTE, "the memory to be free")
    assert await good.append("t", b"after") == 0


def lost_now(reference: weakref.ref[Connection]) -> Callable[[], bool]:
    return lambda: reference() is None


async def test_a_lost_connection_is_freed_at_once_and_not_when_the_collector_runs(
    running: Running,
) -> None:
    good = await running.connect()
    await good.create_topic("t")
    (connection,) = running.server.listener.connections
    known = {id(connection)}
    gc.collect()
    gc.disable()
    try:
        for data in (
            b"\0\0\1\0half a frame",
            b"GET / HTTP/1.1\r\n\r\n",
            frame_of(fetch_request({("t", 0): 0}, max_wait_ms=600_000), 12),
            frame_of(produce_request("t", b"not a batch"), 9),
            b"",
        ):
            client = await running.connect()
            await until(lambda: len(running.server.listener.connections) == 2, "the connection")
            (lost,) = [
                weakref.ref(connection)
                for connection in running.server.listener.connections
                if id(connection) not in known
            ]
            client.send_raw(data)
            await good.append("t", b"meanwhile")
            client.close()
            await until(lost_now(lost), f"the connection that sent {data[:20]!r}")
    finally:
        gc.enable()


@pytest.mark.slow
async def test_connections_that_come_and_go_leave_no_memory_behind(
    process: BrokerProcess, connect: Connect
) -> None:
    async def many(count: int) -> None:
        for _ in range(count):
            client = await connect(process.port)
            client.send_raw(frame_of(produce_request("t", batch_of(b"x" * 2000)), 9) + b"\0")
            assert await client.read_frame()
            client.close()

    good = await connect(process.port)
    await good.create_topic("t")
    await many(300)
    before = memory_bytes(process)
    await many(1500)
    assert memory_bytes(process) - before < 6 * MEGABYTE
