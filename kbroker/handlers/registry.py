"""The table of APIs: what a handler answers, in which versions. ApiVersions answers from it, so
what is advertised cannot differ from what is there.

A handler is a plain function that takes a `Call` and returns the response, or something to await
that gives it (a topic is durable before it is announced). The two hot ones, Produce and Fetch, are
`raw`: they read the body themselves and answer in pieces.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kbroker.protocol.schema import Message

if TYPE_CHECKING:
    from kbroker.broker import Broker
    from kbroker.handlers.later import Later
    from kbroker.storage.segment import FileSlice

Pieces = Sequence["bytes | FileSlice"]
RequestType = TypeVar("RequestType", bound=Message)


class Client:
    """Who asks: one connection, as far as handlers see it."""

    __slots__ = (
        "advertised_host",
        "advertised_port",
        "client_id",
        "peer",
        "software_name",
        "software_version",
    )

    def __init__(self, peer: str, advertised_host: str, advertised_port: int) -> None:
        self.peer = peer
        self.advertised_host = advertised_host
        self.advertised_port = advertised_port
        self.client_id: str | None = None
        self.software_name = ""
        self.software_version = ""

    def __str__(self) -> str:
        software = f" software={self.software_name}/{self.software_version}"
        return f"{self.peer} client_id={self.client_id!r}" + (
            software if self.software_name else ""
        )


class Call(Generic[RequestType]):
    """One request with its context."""

    __slots__ = ("broker", "client", "request", "version")

    def __init__(self, broker: Broker, client: Client, version: int, request: RequestType) -> None:
        self.broker = broker
        self.client = client
        self.version = version
        self.request = request


class RawCall:
    """One request whose body the handler reads itself."""

    __slots__ = ("broker", "client", "position", "version", "view")

    def __init__(
        self, broker: Broker, client: Client, version: int, view: memoryview, position: int
    ) -> None:
        self.broker = broker
        self.client = client
        self.version = version
        self.view = view
        self.position = position


Handler = Callable[[Call[Any]], "Message | Awaitable[Message]"]
RawHandler = Callable[[RawCall], "Pieces | Later | None"]


class Api:
    """One entry of the table."""

    __slots__ = (
        "advertised",
        "handler",
        "key",
        "name",
        "raw_handler",
        "request",
        "response",
        "versions",
    )

    def __init__(
        self,
        request: type[Message],
        response: type[Message],
        advertised: range | None,
        handler: Handler | None,
        raw_handler: RawHandler | None,
    ) -> None:
        self.key = request.api_key
        self.name = request.__name__.removesuffix("Request")
        self.request = request
        self.response = response
        self.versions = request.versions
        self.advertised = advertised or request.versions
        self.handler = handler
        self.raw_handler = raw_handler


APIS: dict[int, Api] = {}


def _register(entry: Api) -> None:
    if entry.key in APIS:
        raise ValueError(f"API key {entry.key} is answered twice")
    APIS[entry.key] = entry


def api(
    request: type[RequestType], response: type[Message]
) -> Callable[[Callable[[Call[RequestType]], Any]], Callable[[Call[RequestType]], Any]]:
    """Registers a handler for all versions that the request class declares."""

    def register(handler: Callable[[Call[RequestType]], Any]) -> Callable[[Call[RequestType]], Any]:
        _register(Api(request, response, None, handler, None))
        return handler

    return register


def raw_api(
    request: type[Message], response: type[Message], advertised: range | None = None
) -> Callable[[RawHandler], RawHandler]:
    """Registers a hot handler, which reads the body itself."""

    def register(handler: RawHandler) -> RawHandler:
        _register(Api(request, response, advertised, None, handler))
        return handler

    return register
