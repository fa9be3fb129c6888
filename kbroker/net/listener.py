"""A listener binds an address, accepts clients up to a limit, and keeps count of them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kbroker.handlers.registry import Client
from kbroker.net.connection import Connection, flexible_table
from kbroker.net.endpoint import Endpoint, advertised, network_gateways
from kbroker.protocol.frame import SharedBuffer

if TYPE_CHECKING:
    from kbroker.broker import Broker

log = logging.getLogger("kbroker.net")

_REFUSALS_REMEMBERED = 1000
_REFUSALS_LOGGED_MAX = 100  # in a minute: reasons can be made to differ each time
_MINUTE_MS = 60_000
_WHO_MAX = 300  # a client id may have 32767 characters


class Listener:
    """One bound address and its connections."""

    def __init__(self, broker: Broker, advertised: Endpoint | None = None) -> None:
        self._broker = broker
        self._advertised = advertised
        self._gateways = network_gateways() if advertised is None else set()
        self._told_of_gateway = False
        self._server: asyncio.Server | None = None
        self._refusals: dict[str, int] = {}
        self._refusals_logged = 0
        self._refusals_since_ms = 0
        self.connections: set[Connection] = set()
        self.shared_buffer = SharedBuffer()
        self.first_flexible = flexible_table()
        self.host = ""
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Binds; port 0 takes a free one."""
        self._server = await self._broker.loop.create_server(
            self._connection, host, port, backlog=1024
        )
        name = self._server.sockets[0].getsockname()
        self.host, self.port = name[0], name[1]

    def address_for(self, peer_host: str, local_host: str, local_port: int) -> tuple[str, int]:
        """The address that a client is told to come back to."""
        host, port = advertised(self._advertised, peer_host, local_host, local_port, self._gateways)
        if self._advertised is None and host == "localhost" and not self._told_of_gateway:
            self._told_of_gateway = True
            log.info(
                "client_behind_gateway peer=%s told=localhost:%d hint=%r",
                peer_host,
                port,
                "a client reached this broker through a translated port; if it is not on this"
                " machine, or the port differs, set"
                f" advertised.listeners=PLAINTEXT://<its address for this broker>:{port}",
            )
        return host, port

    def _connection(self) -> Connection:
        return Connection(self._broker, self)

    def joined(self, connection: Connection) -> None:
        """A client has connected; beyond the limit it is sent away."""
        self._broker.connection_count += 1
        if self._broker.connection_count > self._broker.settings.integer("max.connections"):
            self.log_refusal(connection.client, "max.connections is reached")
            connection.close()
        self.connections.add(connection)

    def left(self, connection: Connection) -> None:
        """A client has gone."""
        self._broker.connection_count -= 1
        self.connections.discard(connection)

    def log_refusal(self, client: Client, why: str) -> None:
        """One line for each host and reason, then only counted: noise must not fill the log."""
        who = str(client)
        if len(who) > _WHO_MAX:
            who = who[:_WHO_MAX] + "...'"
        key = f"{client.peer.rpartition(':')[0]} {who.partition(' ')[2]} {why}"
        count = self._refusals.get(key, 0)
        if count == 0:
            if len(self._refusals) >= _REFUSALS_REMEMBERED:
                self._refusals.clear()
            if not self._may_log():
                return
            log.warning("connection_closed client=%s reason=%r", who, why)
        self._refusals[key] = count + 1

    def _may_log(self) -> bool:
        now_ms = self._broker.clock.monotonic_ms()
        if now_ms - self._refusals_since_ms >= _MINUTE_MS:
            self._refusals_since_ms, self._refusals_logged = now_ms, 0
        self._refusals_logged += 1
        if self._refusals_logged == _REFUSALS_LOGGED_MAX:
            log.warning("connections_closed hint='more refusals are not logged this minute'")
        return self._refusals_logged < _REFUSALS_LOGGED_MAX

    async def stop(self, grace_ms: int) -> None:
        """Accepts nobody new, lets answers that are on their way leave, then closes."""
        if self._server is not None:
            self._server.close()
        for connection in self.connections:
            connection.finish()
        self._broker.release_parked()
        deadline_ms = self._broker.clock.monotonic_ms() + grace_ms
        while self._broker.clock.monotonic_ms() < deadline_ms:
            if all(connection.is_idle for connection in self.connections):
                break
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.close()
        await asyncio.sleep(0)
