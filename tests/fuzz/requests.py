"""Fuzz: the decoder of every request, in every version.

The first two bytes choose the request. Whatever follows is a message or a FrameError, and a message
that was read means the same when it is written and read again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import kbroker.handlers  # noqa: F401  # fills the registry
from kbroker.handlers.registry import APIS
from kbroker.protocol.errors import FrameError
from kbroker.protocol.header import decode_request_header, first_flexible_versions
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.schema import Message
from tests.net.wire import batch_of, fetch_request, frame_of, header, produce_request

NAME = "requests"
CASES = [
    (entry.request, version)
    for _, entry in sorted(APIS.items())
    for version in entry.request.versions
]
FIRST_FLEXIBLE = first_flexible_versions(entry.request for entry in APIS.values())


def check(data: bytes) -> None:
    """One request, and the header by itself."""
    with contextlib.suppress(FrameError):
        decode_request_header(data, FIRST_FLEXIBLE)
    if len(data) < 2:
        return
    request, version = CASES[int.from_bytes(data[:2], "big") % len(CASES)]
    try:
        message = request.decode(memoryview(data), version, 2)
    except FrameError:
        return
    again = request.decode(message.encode(version), version)
    assert again == message, (message, again)


def case_bytes(request: type[Message], version: int) -> bytes:
    """The two bytes that choose a request."""
    return CASES.index((request, version)).to_bytes(2, "big")


def seeds() -> Iterator[bytes]:
    """Zeros for every case (which compiles them all), and requests as clients send them."""
    for number in range(len(CASES)):
        yield number.to_bytes(2, "big") + bytes(64)
        yield number.to_bytes(2, "big") + b"\1" * 64
    for version in ProduceRequest.versions:
        request = produce_request(bytes(16) if version >= 13 else "topic", batch_of(b"v", key=b"k"))
        yield case_bytes(ProduceRequest, version) + request.encode(version)
    for version in FetchRequest.versions:
        topic = bytes(16) if version >= 13 else "topic"
        fetch = fetch_request({(topic, 0): 5, (topic, 1): 6}, forgotten=[(topic, 2)])
        yield case_bytes(FetchRequest, version) + fetch.encode(version)
    for version in MetadataRequest.versions:
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name="topic")],
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        yield case_bytes(MetadataRequest, version) + asked.encode(version)
        yield frame_of(asked, version)[4:]
    yield header(18, 3, 1, True) + b"\7tester\4" + b"1.0\0"


if __name__ == "__main__":
    from tests.fuzz.engine import run

    run(NAME, check, seeds())
