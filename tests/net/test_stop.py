"""A clean stop: no new requests, long polls end, answers leave, everything is synced, a mark is
set."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.produce import ProduceResponse
from tests.net.disks import GatedDisk, WatchedDisk
from tests.net.running import Connect, Running, StartBroker
from tests.net.wire import (
    LOOPBACK,
    WireClient,
    batch_of,
    fetch_request,
    fetched,
    frame_of,
    produce_request,
    until,
    values_in,
)
from tests.support.broker_process import BrokerProcess

FOREVER_MS = 600_000
STOP_DEADLINE_S = 30  # far below FOREVER_MS, far above what a busy machine needs


async def stop_without_grace(running: Running) -> None:
    """Stops a broker whose clock stands still: its grace for slow clients never runs out, so this
    ends only if there was nobody to wait for."""
    clock = running.server.clock
    now_ms = clock.monotonic_ms()
    clock.monotonic_ms = lambda: now_ms  # type: ignore[method-assign]  # a clock that stands still
    await asyncio.wait_for(running.server.stop(), STOP_DEADLINE_S)
    del clock.monotonic_ms


async def test_a_stop_answers_the_parked_fetches_instead_of_waiting_for_them(
    running: Running,
) -> None:
    clients = [await running.connect() for _ in range(5)]
    await clients[0].create_topic("t")
    await clients[0].append("t", b"old")
    sent = [
        client.send(fetch_request({("t", 0): 1}, max_wait_ms=FOREVER_MS), 12) for client in clients
    ]
    await until(lambda: running.parked_count == 5, "the fetches to park")
    await stop_without_grace(running)
    for client, correlation_id in zip(clients, sent, strict=True):
        response = await client.receive(FetchResponse, 12, correlation_id)
        assert fetched(response)["t", 0].error_code == 0
        assert await client.is_closed()
    await running.start()


async def test_a_stop_is_not_held_up_by_clients_that_keep_asking(running: Running) -> None:
    clients = [await running.connect() for _ in range(4)]
    await clients[0].create_topic("t")

    async def keep_asking(client: WireClient) -> None:
        while True:
            client.send(fetch_request({("t", 0): 0}, max_wait_ms=FOREVER_MS), 12)
            client.send(produce_request("t", batch_of(b"more")), 9)
            if not await client.read_frame() or not await client.read_frame():
                return

    async def try_to(client: WireClient) -> None:
        try:
            await keep_asking(client)
        except (ConnectionError, RuntimeError):
            return  # the transport is closed

    asking = [asyncio.create_task(try_to(client)) for client in clients]
    await until(lambda: running.broker.request_count > 50, "requests to flow")
    await stop_without_grace(running)
    await asyncio.wait_for(asyncio.gather(*asking), 10)
    await running.start()


async def test_a_produce_that_waits_for_its_sync_is_answered_before_the_stop(
    start_broker: StartBroker,
) -> None:
    disk = GatedDisk()
    running = await start_broker(disk=disk)
    client = await running.connect()
    await client.create_topic("t", configs={"flush.messages": 1})
    disk.close_for("/t-0/")
    correlation_id = client.send(produce_request("t", batch_of(b"safe")), 9)
    await until(lambda: disk.started_count == 1, "the sync to start")
    stopping = asyncio.create_task(running.server.stop())
    await asyncio.sleep(0)
    disk.open_again()
    response = await client.receive(ProduceResponse, 9, correlation_id)
    assert response.responses[0].partition_responses[0].error_code == 0
    await stopping
    await running.start()


async def test_after_a_stop_every_written_byte_has_been_synced(start_broker: StartBroker) -> None:
    disk = WatchedDisk()
    running = await start_broker({"log.segment.bytes": 4096}, disk=disk)
    client = await running.connect()
    for name in ("a", "b", "c"):
        await client.create_topic(name, partitions=2)
        for number in range(20):
            await client.append(name, b"x" * 500, partition=number % 2)
    assert any("/a-0/" in path for path in disk.unsynced), "the test must have something to find"
    assert not (running.folder / "clean-stop").exists()
    await running.stop()
    assert disk.unsynced == set()
    assert (running.folder / "clean-stop").exists()
    await running.start()
    assert not (running.folder / "clean-stop").exists()
    again = await running.connect()
    for name in ("a", "b", "c"):
        assert len(await again.read_all(name)) == 10


async def test_a_stopping_broker_takes_no_new_connections(running: Running) -> None:
    port = running.port
    await running.server.stop()
    with pytest.raises(ConnectionRefusedError):
        await WireClient.connect(port)
    await running.start()


async def test_a_client_that_does_not_read_delays_the_stop_only_for_the_grace(
    running: Running,
) -> None:
    client = await running.connect()
    await client.create_topic("t")
    for _ in range(6):
        await client.append("t", os.urandom(900_000))
    request = fetch_request({("t", 0): 0}, max_bytes=1 << 30, partition_max_bytes=1 << 30)
    with socket.socket() as deaf:
        deaf.setblocking(False)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(deaf, (LOOPBACK, running.port))
        before = running.broker.request_count
        await loop.sock_sendall(deaf, frame_of(request, 12))
        await until(lambda: running.broker.request_count > before, "the request to arrive")
        started = time.monotonic()
        await running.server.stop()
        assert time.monotonic() - started < STOP_DEADLINE_S
    await running.start()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_is_a_clean_stop_for_the_whole_process(
    number: signal.Signals, tmp_path: Path, connect: Connect
) -> None:
    process = BrokerProcess(tmp_path / "data").start()
    try:
        client = await connect(process.port)
        await client.create_topic("t")
        await client.append("t", b"kept")
        parked = client.send(fetch_request({("t", 0): 1}, max_wait_ms=FOREVER_MS), 12)
        other = await connect(process.port)
        await other.append("t", b"to be sure that the fetch before is parked or answered")
        response = await client.receive(FetchResponse, 12, parked)
        assert fetched(response)["t", 0].error_code == 0
        parked = client.send(fetch_request({("t", 0): 2}, max_wait_ms=FOREVER_MS), 12)
        for _ in range(3):
            await other.fetch(fetch_request({("t", 0): 0}))
        running = process._running()
        os.kill(process.pid, number)
        exit_code = await asyncio.to_thread(running.wait, STOP_DEADLINE_S)
        assert exit_code == 0
        assert (process.data_dir / "clean-stop").exists()
        answer = await client.read_frame()
        assert answer == b"" or int.from_bytes(answer[:4], "big") == parked

        process.start()
        assert "recovery_started" not in process.log_text()
        again = await connect(process.port)
        data = fetched(await again.fetch(fetch_request({("t", 0): 0})))["t", 0]
        assert values_in(data)[0] == b"kept"
    finally:
        process.close()
