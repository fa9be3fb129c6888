"""From a command's options to a running broker: gathers the settings, picks folder and addresses,
runs.

Flags beat environment beats file; without `listeners` the broker listens on 127.0.0.1:9092. A
changed file, or SIGHUP, has the sources read again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kbroker import reload
from kbroker.config_sources import ConfigError, Gathered, gather
from kbroker.net.endpoint import Endpoint, parse_advertised, parse_endpoint
from kbroker.server import Server, memory_folder, run

log = logging.getLogger("kbroker.server")

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 9092
_WATCH_INTERVAL_S = 1.0


@dataclass(frozen=True)
class Options:
    """What the command line may say; None where it says nothing."""

    host: str | None = None
    port: int | None = None
    data: str | None = None
    config: str | None = None
    memory: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


def launch(options: Options, ready: Callable[[Server], None]) -> None:
    """Runs a broker until it is told to stop; ConfigError if the sources make no sense."""

    def sources() -> Gathered:
        return gather(options.config, os.environ, options.settings)

    mark = _mark(options.config)  # before reading: a change from now on is seen
    gathered = sources()
    endpoints = _endpoints(options, gathered)
    settings = gathered.settings()
    folder = options.data or settings.texts("log.dirs")[0]
    if options.memory:
        folder = memory_folder()
    server = Server(settings, folder, temporary=options.memory)

    def started(server: Server) -> None:
        if gathered.unused:
            log.info("settings_without_effect names=%s", ",".join(sorted(gathered.unused)))
        reload.declare_topics(server.broker, gathered.topics)
        reloader = _Reloader(server, gathered, sources)
        server.on_hangup = reloader.reload
        if options.config is not None:
            server.keep(_watch(options.config, mark, reloader.reload))
        ready(server)

    run(server, endpoints, started)


def _endpoints(options: Options, gathered: Gathered) -> list[Endpoint]:
    try:
        for text in gathered.settings().texts("advertised.listeners"):
            parse_advertised(text)
        given = "listeners" in gathered.texts and options.host is None and options.port is None
        if given:
            return [parse_endpoint(text) for text in gathered.settings().texts("listeners")]
    except ValueError as problem:
        raise ConfigError(str(problem)) from None
    port = DEFAULT_PORT if options.port is None else options.port
    return [Endpoint("PLAINTEXT", options.host or DEFAULT_HOST, port)]


class _Reloader:
    def __init__(self, server: Server, gathered: Gathered, sources: Callable[[], Gathered]) -> None:
        self._server = server
        self._gathered = gathered
        self._sources = sources

    def reload(self) -> None:
        """Reads the sources again and applies what can be applied."""
        try:
            gathered = self._sources()
        except ConfigError as problem:
            log.error("reload_refused error=%s hint='nothing was changed'", problem)
            return
        reload.apply(self._server.broker, self._gathered, gathered)
        self._gathered = gathered


async def _watch(path: str, known: tuple[int, int] | None, changed: Callable[[], None]) -> None:
    """Calls back when a file has changed since it had the mark `known`."""
    while True:
        await asyncio.sleep(_WATCH_INTERVAL_S)
        mark = _mark(path)
        if mark != known and mark is not None:
            known = mark
            changed()


def _mark(path: str | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
