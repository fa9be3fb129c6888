"""A broker inside another program: `from kbroker import Broker`.

    async with Broker() as broker:              in the running event loop
        connect(broker.bootstrap)

    with Broker(data="folder") as broker:       in a thread with a loop of its own
        connect(broker.bootstrap)

Without `data` it keeps nothing: its folder lies in memory where the system has such a place, and
goes with the broker.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbroker.server import Server


class Broker:
    """A broker that lives as long as a `with` block."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        data: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self._data = data
        self._settings = {key: str(value) for key, value in (settings or {}).items()}
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event

    @property
    def bootstrap(self) -> str:
        """The address for clients: host:port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def __aenter__(self) -> Broker:
        """Starts in the running event loop."""
        from kbroker.config import Settings
        from kbroker.server import Server, memory_folder

        settings = Settings(self._settings)
        folder = memory_folder() if self._data is None else None
        server = Server(settings, self._data or str(folder), temporary=folder is not None)
        await server.start(self.host, self.port)
        self.port = server.listener.port
        self._server = server
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops cleanly."""
        if self._server is not None:
            await self._server.stop()
            self._server = None

    def __enter__(self) -> Broker:
        """Starts in a thread, and returns once clients can connect."""
        ready: list[BaseException | None] = []
        started = threading.Event()

        async def live() -> None:
            self._loop = asyncio.get_running_loop()
            stopping = self._stopping = asyncio.Event()
            try:
                await self.__aenter__()
            except BaseException as problem:
                ready.append(problem)
                started.set()
                return
            ready.append(None)
            started.set()
            await stopping.wait()
            await self.__aexit__(None, None, None)

        def run() -> None:
            import uvloop

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(live())

        self._thread = threading.Thread(target=run, name="kbroker", daemon=True)
        self._thread.start()
        started.wait()
        if ready[0] is not None:
            self._thread.join()
            raise ready[0]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops cleanly, and waits for it."""
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
