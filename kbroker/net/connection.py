"""One client: frames in, answers out in the order of the requests, and no faster than it reads.

All requests of one read are handled in turn; then their batches are written, then the answers that
are ready leave in one go. An answer that must wait (a long poll, a sync) keeps its place in
`_slots`, and the ones behind it wait with it: clients match answers to requests by order.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from kbroker.handlers.later import Later
from kbroker.handlers.registry import APIS, Api, Call, Client, Pieces, RawCall
from kbroker.net.endpoint import address_text, plain_host
from kbroker.net.transfer import Outbox, Piece
from kbroker.protocol.errors import (
    FrameError,
    KafkaError,
    KafkaStorageError,
    UnknownServerError,
    UnsupportedVersion,
)
from kbroker.protocol.frame import Framer
from kbroker.protocol.header import API_VERSIONS_KEY, decode_request_header, first_flexible_versions
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.schema import Message
from kbroker.storage.segment import FileSlice

if TYPE_CHECKING:
    from kbroker.broker import Broker
    from kbroker.net.listener import Listener

log = logging.getLogger("kbroker.net")

PRODUCE_KEY = 0
_LOOK_S = 1.0
_TCP_INFO = getattr(socket, "TCP_INFO", None)  # Linux has it
_GONE = (7, 8)  # Linux's TCP_CLOSE and TCP_CLOSE_WAIT: reset, or closed from the other side
_pack_plain = Struct(">ii").pack
_pack_flexible = Struct(">iix").pack


class Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("correlation_id", "flexible", "later")

    def __init__(self, correlation_id: int, flexible: bool, later: Later) -> None:
        self.correlation_id = correlation_id
        self.flexible = flexible
        self.later = later


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket."""

    def __init__(self, broker: Broker, listener: Listener) -> None:
        self._broker = broker
        self._listener = listener
        self._framer = Framer(listener.shared_buffer, broker.max_request_bytes)
        self._first_flexible = listener.first_flexible
        self._slots: deque[Slot] = deque()
        self._ready: list[Piece] = []
        self._ready_bytes = 0
        self._in_burst = False
        self._paused = False
        self._looking = False
        self._finishing = False
        self._held: list[memoryview] = []  # requests beyond what one turn may handle
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self.client = Client("?", "", 0)

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]  # uvloop's transport class is its own
        peer = transport.get_extra_info("peername") or ("?", 0)
        local = transport.get_extra_info("sockname") or ("", 0)
        host, port = self._listener.address_for(peer[0], local[0], local[1])
        self.client = Client(address_text(plain_host(peer[0]), peer[1]), host, port)
        fd = transport.get_extra_info("socket").fileno()
        self._outbox = Outbox(
            self._broker.loop, self._broker.store.executor, fd, self._drained, self._send_failed
        )
        self._listener.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone: its parked requests with it.

        A handler that has begun something (a topic is half deleted) ends it all the same.
        """
        self._transport = None
        self._held.clear()
        self._framer.close()
        if self._outbox is not None:
            # Each refers to the other: parted, both go at once and not when the collector runs.
            self._outbox.close()
            self._outbox = None
        slots, self._slots = self._slots, deque()
        for slot in slots:
            slot.later.tell = None
            if slot.later.cancel is not None:
                slot.later.cancel()
        self._listener.left(self)

    def get_buffer(self, sizehint: int) -> Any:
        """Where the next bytes go."""
        return self._framer.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """A burst of input: handle each request, write what they brought, answer."""
        self._handle(self._framer.received(nbytes))

    def _handle(self, frames: list[memoryview]) -> None:
        if len(frames) > self._broker.max_parked_requests:
            frames = self._hold(frames)
        self._in_burst = True
        try:
            for frame in frames:
                self._request(frame)
            if self._framer.problem is not None and not self._held:
                self._refuse(self._framer.problem)
        except FrameError as problem:
            self._refuse(problem)
        except Exception as problem:
            self._bug(problem)
        try:
            self._broker.store.write()
        except Exception as problem:
            self._bug(problem)
        self._in_burst = False
        self._drain()
        if self._too_much():
            self._pause()

    def _hold(self, frames: list[memoryview]) -> list[memoryview]:
        """As many requests as one turn may handle; the rest is copied, and waits until the
        answers to these have left: a few bytes can ask for megabytes."""
        limit = self._broker.max_parked_requests
        self._held = [memoryview(bytearray(frame)) for frame in frames[limit:]]
        self._pause()
        return frames[:limit]

    def _handle_held(self) -> None:
        if self._held and not self._too_much():
            limit = self._broker.max_parked_requests
            frames, self._held = self._held[:limit], self._held[limit:]
            self._handle(frames)

    def eof_received(self) -> bool:
        """The client has sent its last byte: close."""
        return False

    def close(self) -> None:
        """Ends the connection."""
        self._held.clear()
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """The broker stops: what was asked is answered, more is not read."""
        self._finishing = True
        self._held.clear()
        self._pause()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed to this client."""
        return not self._slots and (self._outbox is None or not self._outbox.unsent_bytes)

    # Requests

    def _request(self, frame: memoryview) -> None:
        key, version, correlation_id, client_id, position = decode_request_header(
            frame, self._first_flexible
        )
        client = self.client
        if client_id != client.client_id:
            client.client_id = client_id
        entry = APIS.get(key)
        if entry is None or version not in entry.versions:
            if key != API_VERSIONS_KEY:
                raise FrameError(_unsupported(key, version, entry))
            # KIP-511: an ApiVersions of the future is answered in version 0, so that it can retry.
            entry = APIS[API_VERSIONS_KEY]
            self._put(correlation_id, False, _too_new(entry, self._broker, client))
            return
        flexible = version in entry.response.flexible and key != API_VERSIONS_KEY
        self._broker.request_count += 1
        if key != PRODUCE_KEY and self._broker.store.queued:
            self._broker.store.write()  # what was produced before is there for who asks after it
        if entry.raw_handler is not None:
            answer = entry.raw_handler(RawCall(self._broker, client, version, frame, position))
            if answer is not None:
                self._put(correlation_id, flexible, answer)
            return
        assert entry.handler is not None
        if len(frame) > self._broker.max_control_bytes:
            raise FrameError(
                f"{entry.name} of {len(frame)} bytes is larger than"
                f" kbroker.control.request.max.bytes {self._broker.max_control_bytes}"
            )
        request = entry.request.decode(frame, version, position)
        call = Call(self._broker, client, version, request)
        try:
            response = entry.handler(call)
            if not isinstance(response, Message):
                self._await(entry, version, correlation_id, flexible, response)
                return
            body = response.encode(version)
        except Exception as problem:
            body = self._failed(entry, problem).encode(version)
        self._put(correlation_id, flexible, [body])

    def _await(
        self,
        entry: Api,
        version: int,
        correlation_id: int,
        flexible: bool,
        answer: Awaitable[Message],
    ) -> None:
        """Keeps the answer's place while its handler waits for something."""
        later = Later()

        async def finish() -> None:
            try:
                body = (await answer).encode(version)
            except Exception as problem:
                try:
                    body = self._failed(entry, problem).encode(version)
                except FrameError as refusal:
                    self._refuse(refusal)
                    return
            later.resolve([body])

        task = self._broker.loop.create_task(finish())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._put(correlation_id, flexible, later)

    def _failed(self, entry: Api, problem: Exception) -> Message:
        """A whole answer that says an error; FrameError if this API's answer cannot say one."""
        if isinstance(problem, OSError):
            log.error("io_error api=%s error=%s", entry.name, problem)
            problem = KafkaStorageError(str(problem))
        elif not isinstance(problem, KafkaError):
            self._broker.bug_count += 1
            log.error("bug api=%s client=%s", entry.name, self.client, exc_info=problem)
            problem = UnknownServerError()
        response = error_response(entry.response, problem)
        if response is None:
            raise FrameError(f"{entry.name} failed: {problem}") from problem
        return response

    # Answers

    def _put(self, correlation_id: int, flexible: bool, answer: Pieces | Later) -> None:
        if isinstance(answer, Later):
            if answer.pieces is None:
                answer.tell = self._told
            self._slots.append(Slot(correlation_id, flexible, answer))
        elif self._slots:
            later = Later()
            later.pieces = answer
            self._slots.append(Slot(correlation_id, flexible, later))
        else:
            self._frame(correlation_id, flexible, answer)

    def _frame(self, correlation_id: int, flexible: bool, pieces: Pieces) -> None:
        size = 0
        for piece in pieces:
            size += piece.length if isinstance(piece, FileSlice) else len(piece)
        if flexible:
            self._ready.append(_pack_flexible(size + 5, correlation_id))
            size += 9
        else:
            self._ready.append(_pack_plain(size + 4, correlation_id))
            size += 8
        self._ready.extend(pieces)
        self._ready_bytes += size

    def _told(self) -> None:
        if not self._in_burst:
            self._drain()

    def _drain(self) -> None:
        """Sends the answers whose turn has come."""
        slots = self._slots
        while slots and slots[0].later.pieces is not None:
            slot = slots.popleft()
            pieces = slot.later.pieces
            assert pieces is not None
            self._frame(slot.correlation_id, slot.flexible, pieces)
        if self._ready and self._outbox is not None:
            ready, size = self._ready, self._ready_bytes
            self._ready, self._ready_bytes = [], 0
            self._outbox.send(ready, size)
        if self._paused and not self._too_much():
            self._resume()

    # Back-pressure

    def _too_much(self) -> bool:
        outbox = self._outbox
        return len(self._slots) > self._broker.max_parked_requests or (
            outbox is not None and outbox.unsent_bytes > self._broker.max_unsent_bytes
        )

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
            if not self._looking and _TCP_INFO is not None:
                self._looking = True
                self._broker.loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        """Only reading tells that a client has gone; one that is not read is looked after, or its
        long polls would wait on for nobody."""
        self._looking = False
        if self._paused and self._transport is not None:
            peer = self._transport.get_extra_info("socket")
            if peer.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0] in _GONE:
                self._transport.abort()
                return
            self._looking = True
            self._broker.loop.call_later(_LOOK_S, self._look)

    def _resume(self) -> None:
        if self._transport is None or self._transport.is_closing() or self._finishing:
            return
        if self._held:
            # Not from here: this may be the end of a turn, and turns do not nest.
            self._broker.loop.call_soon(self._handle_held)
            return
        self._paused = False
        self._transport.resume_reading()

    def _drained(self) -> None:
        if self._paused and not self._too_much():
            self._resume()

    # Trouble

    def _refuse(self, problem: FrameError) -> None:
        """They broke the protocol: one line that says who and why, and the connection ends."""
        self._broker.refused_count += 1
        self._listener.log_refusal(self.client, str(problem))
        self.close()

    def _bug(self, problem: Exception) -> None:
        """We broke something, and cannot say what the answer would have been."""
        self._broker.bug_count += 1
        log.error("bug client=%s", self.client, exc_info=problem)
        self.close()

    def _send_failed(self, problem: OSError) -> None:
        log.debug("send_failed client=%s error=%s", self.client, problem)
        if self._transport is not None:
            self._transport.abort()


def flexible_table() -> dict[int, int]:
    """From which version on each API's request header has a tag section."""
    return first_flexible_versions(entry.request for entry in APIS.values())


def error_response(response: type[Message], problem: KafkaError) -> Message | None:
    """A response of zero values with this error on top, or None if it has no such field."""
    names = {field.name for field in response.fields}
    if "error_code" not in names:
        return None
    values = {field.name: field.absent() for field in response.fields}
    values["error_code"] = problem.code
    if "error_message" in names:
        values["error_message"] = problem.message
    return response(**values)


def _too_new(entry: Api, broker: Broker, client: Client) -> list[bytes]:
    handler: Callable[[Call[Any]], Any] | None = entry.handler
    assert handler is not None
    request = ApiVersionsRequest(client_software_name="", client_software_version="")
    response = handler(Call(broker, client, 0, request))
    response.error_code = UnsupportedVersion.code
    response.api_keys = [known for known in response.api_keys if known.api_key == entry.key]
    body: bytes = response.encode(0)
    return [body]


def _unsupported(key: int, version: int, entry: Api | None) -> str:
    if entry is None:
        return f"API key {key} is not supported"
    low, high = entry.versions[0], entry.versions[-1]
    return f"{entry.name} v{version} is not supported; this broker speaks v{low} to v{high}"
