"""Any request in any version over a blocking socket, and the decoded answer.

Real clients send only what they should; the tests also need what no client sends (an unknown
version, a batch with a wrong checksum, half a header). The codec is the broker's own, which other
tests compare with two independent ones, so an answer that decodes here is one that clients read.
"""

import socket
from struct import Struct
from types import TracebackType
from typing import Self, TypeVar

from kbroker.protocol.header import is_flexible, is_response_header_flexible
from kbroker.protocol.primitives import skip_tagged_fields
from kbroker.protocol.schema import Message, decoder_of

TIMEOUT_S = 20
CLIENT_ID = b"raw-client"

_pack_header = Struct(">hhih").pack
_pack_length = Struct(">i").pack

Answer = TypeVar("Answer", bound=Message)


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class RawClient:
    """One connection to a broker at `bootstrap` ("host:port"); requests are sent one by one."""

    def __init__(self, bootstrap: str, *, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._input = self._socket.makefile("rb")
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._input.close()
        self._socket.close()

    def ask(self, request: Message, version: int, answer: type[Answer]) -> Answer:
        """Send a request and decode its answer; Closed if the broker hangs up instead."""
        self.send(request, version)
        return self.receive(answer, version)

    def send(self, request: Message, version: int) -> None:
        """Send a request without waiting: for acks=0, and for pipelining."""
        body = request.encode(version)
        self.send_body(request.api_key, version, body, flexible=is_flexible(type(request), version))

    def send_body(self, api_key: int, version: int, body: bytes, *, flexible: bool) -> None:
        """Send a header for `api_key`, known or not, and these bytes."""
        self._correlation_id += 1
        header = _pack_header(api_key, version, self._correlation_id, len(CLIENT_ID)) + CLIENT_ID
        self.send_frame(header + (b"\0" if flexible else b"") + body)

    def send_frame(self, frame: bytes) -> None:
        """Send bytes of any content behind a right length."""
        try:
            self._socket.sendall(_pack_length(len(frame)) + frame)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def receive(self, answer: type[Answer], version: int) -> Answer:
        """Decode the answer to the request that was sent last; no byte of it may be left over."""
        frame = self.receive_frame()
        position = 4
        if is_response_header_flexible(answer, version):
            position = skip_tagged_fields(frame, position, len(frame))
        decode = decoder_of(answer, version, is_flexible(answer, version))
        decoded, position = decode(frame, position, len(frame))
        assert position == len(frame), f"{len(frame) - position} bytes after {answer.__name__}"
        assert isinstance(decoded, answer)
        return decoded

    def receive_frame(self) -> bytes:
        """The next answer, beginning with its correlation id, which must be the last one sent."""
        frame = self._read(int.from_bytes(self._read(4), "big"))
        correlation_id = int.from_bytes(frame[:4], "big")
        assert correlation_id == self._correlation_id, f"an answer to request {correlation_id}"
        return frame

    def _read(self, size: int) -> bytes:
        try:
            data = self._input.read(size)
        except ConnectionResetError:
            raise Closed from None
        if len(data) < size:
            raise Closed
        return data
