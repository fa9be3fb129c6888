"""A whole broker inside the test's own event loop: real sockets, and its insides within reach.

Imported by the conftest of each folder that wants it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from kbroker.broker import Broker
from kbroker.clock import Clock
from kbroker.config import Settings
from kbroker.server import Server
from kbroker.storage.disk import Disk
from tests.net.disks import GatedDisk
from tests.net.wire import LOOPBACK, WireClient


class Running:
    """One broker on a free port; clients that a test forgets are closed with it."""

    def __init__(self, folder: Path, disk: Disk | None, clock: Clock | None) -> None:
        self.folder = folder
        self.settings: dict[str, str] = {}
        self.disk = disk
        self._clock = clock
        self._clients: list[WireClient] = []
        self.server: Server

    async def start(self) -> Running:
        """Starts, or starts again on the same folder."""
        settings = Settings(self.settings)
        self.server = Server(settings, str(self.folder), disk=self.disk, clock=self._clock)
        await self.server.start(LOOPBACK, 0)
        return self

    async def stop(self) -> None:
        """A clean stop."""
        for client in self._clients:
            client.close()
        await self.server.stop()

    async def restart(self) -> None:
        """A clean stop and a start on the same data."""
        await self.stop()
        await self.start()

    @property
    def broker(self) -> Broker:
        """The broker's insides."""
        return self.server.broker

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.server.listener.port

    @property
    def parked_count(self) -> int:
        """Long polls that wait now."""
        return self.broker.store.waiting_room.parked_count

    async def connect(self) -> WireClient:
        """A new connection."""
        client = await WireClient.connect(self.port)
        self._clients.append(client)
        return client


StartBroker = Callable[..., Awaitable[Running]]


@pytest.fixture
async def start_broker(tmp_path: Path) -> AsyncIterator[StartBroker]:
    """Starts brokers with settings of the test's choice: `await start_broker({"max.connections":
    2})`.

    At the end each must have seen no bug of its own.
    """
    started: list[Running] = []

    async def start(
        settings: dict[str, object] | None = None,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> Running:
        running = Running(tmp_path / f"broker-{len(started)}", disk, clock)
        running.settings = {name: str(value) for name, value in (settings or {}).items()}
        started.append(await running.start())
        return running

    yield start
    for running in started:
        if isinstance(running.disk, GatedDisk):
            running.disk.open_again()  # a test that failed may have left it closed
        await running.stop()
        assert running.broker.bug_count == 0, "the broker met a bug of its own: see its log"
        assert running.parked_count == 0, "a waiter outlived its client"


@pytest.fixture
async def running(start_broker: StartBroker) -> Running:
    """A broker with default settings."""
    return await start_broker()


Connect = Callable[[int], Awaitable[WireClient]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connects to a broker of another process; `await connect(port)`.

    uvloop does not close while a transport is open, so the clients of a failed test must go too.
    """
    clients: list[WireClient] = []

    async def connect_to(port: int) -> WireClient:
        clients.append(await WireClient.connect(port))
        return clients[-1]

    yield connect_to
    for client in clients:
        client.close()
    await asyncio.sleep(0)


class Refusals:
    """The log lines that say who was sent away and why."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    @property
    def lines(self) -> list[str]:
        """All of them so far."""
        return [
            record.getMessage()
            for record in self._caplog.records
            if record.name == "kbroker.net" and record.levelno >= logging.WARNING
        ]

    def only(self) -> str:
        """The one line that there must be."""
        assert len(self.lines) == 1, self.lines
        return self.lines[0]


@pytest.fixture
def refusals(caplog: pytest.LogCaptureFixture) -> Refusals:
    """The broker's warnings about connections."""
    caplog.set_level(logging.INFO, logger="kbroker")
    return Refusals(caplog)
