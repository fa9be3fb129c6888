"""One blocking connection to a broker: frames, negotiated versions, and honest words when it fails.

The first request is ApiVersions, and its answer decides which version of each API is used: the
highest that both sides know. Whoever else listens at the address (HTTP, TLS, SSH) is recognised by
what it answers, since that is the commonest mistake.
"""

from __future__ import annotations

import contextlib
import socket
from struct import Struct
from typing import TypeVar

import kbroker
from kbroker.cli.client.address import Address
from kbroker.cli.client.failure import BrokerRefusal, Failure, Unreachable
from kbroker.protocol.errors import FrameError, UnsupportedVersion
from kbroker.protocol.header import is_flexible, is_response_header_flexible
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.primitives import skip_tagged_fields
from kbroker.protocol.schema import Message

CLIENT_ID = b"kbroker-cli"
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 30.0

# "\r\n\r\n" as the first correlation id: a server that reads lines (HTTP, SMTP, Redis) finds the
# end of one and answers, so that we can say who it is instead of waiting for a timeout.
_FIRST_CORRELATION_ID = 0x0D0A0D0A
_FIRST_ANSWER_BYTES_MAX = 1 << 20
_ANSWER_BYTES_MAX = 1 << 28

_pack_length = Struct(">i").pack
_pack_header = Struct(">hhih").pack

Answer = TypeVar("Answer", bound=Message)


class Connection:
    """A socket to one broker, and what that broker can do."""

    def __init__(self, address: Address, *, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
        self.address = address
        self._correlation_id = _FIRST_CORRELATION_ID - 1
        self._ranges: dict[int, range] = {}
        self.features: dict[str, int] = {}  # levels that the whole cluster has agreed on
        self._socket = _connect(address, timeout_s)
        self._input = self._socket.makefile("rb")
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._negotiate()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(OSError):
            self._input.close()
            self._socket.close()

    # Versions

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(
            client_software_name="kbroker-cli", client_software_version=kbroker.__version__
        )
        version = ApiVersionsRequest.versions[-1]
        self.send(request, version)
        frame = self._receive_frame(_FIRST_ANSWER_BYTES_MAX)
        if frame[4:6] == UnsupportedVersion.code.to_bytes(2, "big"):
            # An older broker: it answers in version 0 and names the versions that it knows.
            known = _decode(ApiVersionsResponse, 0, frame, self.address)
            theirs = {entry.api_key: entry.max_version for entry in known.api_keys}
            version = min(version, theirs.get(ApiVersionsRequest.api_key, 0))
            self.send(request, version)
            frame = self._receive_frame(_FIRST_ANSWER_BYTES_MAX)
        answer = _decode(ApiVersionsResponse, version, frame, self.address)
        if answer.error_code:
            raise BrokerRefusal(answer.error_code, f"the broker at {self.address} refuses clients")
        self._ranges = {
            entry.api_key: range(entry.min_version, entry.max_version + 1)
            for entry in answer.api_keys
        }
        self.features = {
            feature.name: feature.max_version_level for feature in answer.finalized_features
        }

    def version_of(self, request: type[Message]) -> int:
        """The highest version of an API that both sides know."""
        theirs = self._ranges.get(request.api_key, range(0))
        common = min(request.versions[-1], theirs[-1]) if theirs else -1
        if common < request.versions[0] or common not in theirs:
            name = request.__name__.removesuffix("Request")
            raise Failure(
                f"the broker at {self.address} does not offer {name} in a version that this"
                f" command knows ({request.versions[0]} to {request.versions[-1]})"
            )
        return common

    # Requests and answers

    def ask(
        self, request: Message, answer: type[Answer], *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Answer:
        """Sends a request in the best version and waits for its answer."""
        version = self.version_of(type(request))
        self.send(request, version)
        return self.receive(answer, version, timeout_s=timeout_s)

    def send(self, request: Message, version: int) -> None:
        """Sends a request without waiting: for acks=0, and to ask several brokers at once."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = _pack_header(request.api_key, version, self._correlation_id, len(CLIENT_ID))
        tags = b"\0" if is_flexible(type(request), version) else b""
        frame = b"".join((header, CLIENT_ID, tags, request.encode(version)))
        try:
            self._socket.sendall(_pack_length(len(frame)) + frame)
        except OSError as problem:
            raise self._lost(problem) from None

    def receive(
        self, answer: type[Answer], version: int, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Answer:
        """The answer to the request that was sent last."""
        self._socket.settimeout(timeout_s)
        return _decode(answer, version, self._receive_frame(_ANSWER_BYTES_MAX), self.address)

    def _receive_frame(self, max_bytes: int) -> bytes:
        start = self._read(4)
        length = int.from_bytes(start, "big", signed=True)
        if not 4 <= length <= max_bytes:
            raise self._not_kafka(start)
        frame = self._read(length)
        if frame[:4] != self._correlation_id.to_bytes(4, "big"):
            raise Failure(f"{self.address} does not answer as a Kafka broker; {_WHAT_TO_GIVE}")
        return frame

    def _read(self, size: int) -> bytes:
        try:
            data: bytes = self._input.read(size)
        except OSError as problem:
            raise self._lost(problem) from None
        if len(data) < size:
            raise self._lost(None)
        return data

    def _lost(self, problem: OSError | None) -> Unreachable:
        if isinstance(problem, TimeoutError):
            what = "accepts connections but does not answer"
        elif not self._ranges:
            what = "closes the connection when it is greeted as a Kafka broker"
        else:
            what = "has closed the connection"
        advice = f"; {_WHAT_TO_GIVE}" if not self._ranges else ""
        return Unreachable(f"{self.address} {what}{_TLS_HINT if problem is None else ''}{advice}")

    def _not_kafka(self, start: bytes) -> Failure:
        """Names the stranger, as far as its first bytes tell."""
        self._socket.settimeout(0.2)
        more = b""
        with contextlib.suppress(OSError):
            more = self._input.peek(60)
        said = start + more
        kind = next((name for prefix, name in _STRANGERS if said.startswith(prefix)), None)
        who = f"it looks like {kind}" if kind else f"it answered {said[:40]!r}"
        return Failure(f"{self.address} is not a Kafka broker: {who}; {_WHAT_TO_GIVE}")


_WHAT_TO_GIVE = "give the address of a broker with --bootstrap host:port"
_TLS_HINT = " (it may want TLS or SASL, which these commands do not speak)"
_STRANGERS = (
    (b"HTTP", "an HTTP server"),
    (b"<", "an HTTP server"),
    (b"\x15\x03", "a TLS listener, and these commands speak plain text"),
    (b"SSH-", "an SSH server"),
    (b"220", "a mail or FTP server"),
    (b"-ERR", "a Redis server"),
)


def _connect(address: Address, timeout_s: float) -> socket.socket:
    try:
        return socket.create_connection(address, timeout=timeout_s)
    except ConnectionRefusedError:
        raise Unreachable(
            f"nobody listens on {address}; start a broker with: kbroker start,"
            " or give another address with --bootstrap host:port"
        ) from None
    except socket.gaierror as problem:
        raise Unreachable(
            f"the host name of {address} is not known ({problem.strerror}); {_WHAT_TO_GIVE}"
        ) from None
    except TimeoutError:
        raise Unreachable(
            f"{address} does not answer within {timeout_s:g} s; check the address and the"
            f" firewall, or {_WHAT_TO_GIVE}"
        ) from None
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise Unreachable(f"cannot connect to {address}: {reason}; {_WHAT_TO_GIVE}") from None


def _decode(answer: type[Answer], version: int, frame: bytes, address: Address) -> Answer:
    try:
        position = 4
        if is_response_header_flexible(answer, version):
            position = skip_tagged_fields(frame, position, len(frame))
        return answer.decode(frame, version, position)
    except (FrameError, IndexError):
        name = answer.__name__.removesuffix("Response")
        raise Failure(
            f"{address} answers {name} version {version} in a form that cannot be read;"
            f" {_WHAT_TO_GIVE}"
        ) from None
