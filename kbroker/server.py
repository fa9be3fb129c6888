"""Assembly and life of a broker: settings to broker to listeners; signals; an orderly stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Coroutine

import kbroker.handlers  # fills the registry
from kbroker.broker import Broker
from kbroker.clock import Clock
from kbroker.config import Settings
from kbroker.data_folder import DataFolder
from kbroker.net.endpoint import Endpoint, parse_advertised
from kbroker.net.listener import Listener
from kbroker.storage.disk import Disk
from kbroker.storage.store import Store

log = logging.getLogger("kbroker.server")

_STOP_GRACE_MS = 2_000
_HOUSEKEEPING_S = 600


class Server:
    """A broker with its folder and its sockets."""

    def __init__(
        self,
        settings: Settings,
        folder: str,
        *,
        temporary: bool = False,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._temporary = temporary
        self.settings = settings
        self.disk = disk or Disk()
        self.clock = clock or Clock()
        self.folder = DataFolder(self.disk, folder)
        self._tasks: list[asyncio.Task[None]] = []
        self.broker: Broker
        self.listeners: list[Listener] = []
        self.on_hangup: Callable[[], None] = lambda: None

    async def start(self, host: str, port: int) -> None:
        """Recovers the data, then listens on one address."""
        await self.start_on([Endpoint("PLAINTEXT", host, port)])

    async def start_on(self, endpoints: list[Endpoint]) -> None:
        """Recovers the data, then listens on all these addresses."""
        loop = asyncio.get_running_loop()
        self.settings.facts["log.dirs"] = [self.folder.path]
        self.settings.facts["kbroker.memory"] = self._temporary
        self.settings.facts["kbroker.version"] = kbroker.__version__
        self.settings.facts["kbroker.started.ms"] = self.clock.now_ms()
        advertised = {
            endpoint.name: endpoint
            for endpoint in map(parse_advertised, self.settings.texts("advertised.listeners"))
        }
        self.folder.lock()
        try:
            cluster_id = self.folder.identity(self.settings.integer("node.id"))
            store = Store(
                loop,
                self.disk,
                self.clock,
                self.folder.path,
                max_open_files=self.settings.integer("kbroker.max.open.files"),
            )
            self.broker = Broker(loop, store, self.settings, self.clock, cluster_id)
            self.broker.load()
            await self.broker.catalog.synced()  # the epoch, before anyone is answered under it
            for endpoint in endpoints:
                listener = Listener(self.broker, advertised.get(endpoint.name))
                await listener.start(endpoint.host, endpoint.port)
                self.listeners.append(listener)
            bound = zip(endpoints, self.listeners, strict=True)
            self.settings.facts["listeners"] = [
                str(Endpoint(endpoint.name, endpoint.host, listener.port))
                for endpoint, listener in bound
            ]
        except BaseException:
            self.folder.unlock()
            raise
        self.keep(self._checkpoints())
        self.keep(self._housekeeping())

    def keep(self, work: Coroutine[None, None, None]) -> None:
        """Runs something beside the broker until it stops."""
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    @property
    def listener(self) -> Listener:
        """The first listener."""
        return self.listeners[0]

    async def _checkpoints(self) -> None:
        interval_ms = self.settings.integer("log.flush.offset.checkpoint.interval.ms")
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await self.broker.store.save_checkpoint()

    async def _housekeeping(self) -> None:
        while True:
            await asyncio.sleep(_HOUSEKEEPING_S)
            expired_ms = self.clock.now_ms() - self.settings.integer("producer.id.expiration.ms")
            for partition in list(self.broker.store.opened()):
                partition.expire_producers(expired_ms)

    async def stop(self) -> None:
        """A clean stop: answers leave, everything is synced, the mark is set."""
        for task in self._tasks:
            task.cancel()
        for listener in self.listeners:
            await listener.stop(_STOP_GRACE_MS)
        await self.broker.store.close()
        self.folder.unlock()
        if self._temporary:
            self.disk.remove_folder(self.folder.path)
        log.info("stopped requests=%d", self.broker.request_count)


def memory_folder() -> str:
    """A new folder for a broker that keeps nothing: in memory, where the system has that."""
    import os
    import tempfile

    shared_memory = "/dev/shm"
    in_memory = os.path.isdir(shared_memory) and os.access(shared_memory, os.W_OK)
    return tempfile.mkdtemp(prefix="kbroker-", dir=shared_memory if in_memory else None)


async def serve(server: Server, endpoints: list[Endpoint], ready: Callable[[Server], None]) -> None:
    """Runs a server until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    await server.start_on(endpoints)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: server.on_hangup())
    ready(server)
    # What exists now lives as long as the process: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    await stopping.wait()
    log.info("stopping")
    await server.stop()


def run(server: Server, endpoints: list[Endpoint], ready: Callable[[Server], None]) -> None:
    """Runs a server on uvloop until it is told to stop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(server, endpoints, ready))
