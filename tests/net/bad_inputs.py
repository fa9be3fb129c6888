"""Everything that must end in a closed connection and one log line, by name.

Shared by the tests that send each to a broker, and by the one that sends all of them and then looks
whether anything stored was harmed.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.net.wire import batch_of, fetch_request, frame_of, framed, header, produce_request

SEED = 20241116
MAX_REQUEST_BYTES = 104_857_600
HUGE_INT32 = b"\x7f\xff\xff\xff"
HUGE_VARINT = b"\xff\xff\xff\xff\x0f"
TOPIC_ID = bytes(range(16))

TLS_CLIENT_HELLO = (
    bytes.fromhex("16030100c8010000c40303") + bytes(range(32)) + b"\x20" + bytes(32) + b"\0\x02\x13"
)


def other_protocols() -> Iterator[tuple[str, bytes, str]]:
    """(name, bytes, what the log line says)"""
    yield "http-get", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"
    yield "http-post", b"POST /topics HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "HTTP"
    yield "http-2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP"
    yield "tls", TLS_CLIENT_HELLO, "TLS"
    yield "ssh", b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"


def wrong_lengths() -> Iterator[tuple[str, bytes, str]]:
    """Frames whose length cannot be."""
    yield "two-gigabytes", HUGE_INT32, "2147483647 bytes"
    yield "two-gigabytes-begun", HUGE_INT32 + bytes(1000), "2147483647 bytes"
    yield "minus-one", b"\xff\xff\xff\xff", "-1 bytes"
    yield "most-negative", b"\x80\0\0\0", "-2147483648 bytes"
    yield "just-too-large", struct.pack(">i", MAX_REQUEST_BYTES + 1), "socket.request.max.bytes"
    yield "empty", framed(b""), "header"
    yield "nine-bytes", framed(bytes(9)), "header"


def garbage() -> Iterator[tuple[str, bytes, str]]:
    """Random bytes, raw and in well-formed frames; the seed makes them the same in every run."""
    source = random.Random(SEED)
    for number in range(6):
        # A first byte from 0x10 on is a length beyond the limit; below, the broker would wait.
        data = bytes([source.randrange(0x10, 0x100)]) + source.randbytes(source.randrange(3, 9000))
        yield f"garbage-{number}", data, "bytes"
    for number in range(6):
        data = bytes([source.randrange(1, 0x100)]) + source.randbytes(source.randrange(12, 300))
        yield f"framed-garbage-{number}", framed(data), "reason="


def wrong_headers() -> Iterator[tuple[str, bytes, str]]:
    """Requests for what is not there, and headers that do not add up."""
    for key in (4, 7, 999, 32767, -1):
        yield f"api-key-{key}", framed(header(key, 0, 1, False)), f"API key {key} is not supported"
    for name, key, version in (
        ("Metadata", 3, 99),
        ("Metadata", 3, -1),
        ("Produce", 0, 2),
        ("Produce", 0, 14),
        ("Fetch", 1, 3),
        ("Fetch", 1, 19),
        ("ListOffsets", 2, 0),
        ("CreateTopics", 19, 1),
    ):
        data = framed(header(key, version, 1, False) + bytes(20))
        yield f"{name}-v{version}", data, f"{name} v{version} is not supported"
    yield "client-id-too-long", framed(struct.pack(">hhih", 3, 1, 1, 500) + b"short"), "client id"
    yield "client-id-not-utf8", framed(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe"), "header"
    tags = struct.pack(">hhih", 3, 9, 1, -1)
    yield "header-tag-too-long", framed(tags + b"\x01\x00\x7f"), "tagged field"
    yield "header-tags-huge", framed(tags + HUGE_VARINT + b"\0\0"), "header"


def wrong_bodies() -> Iterator[tuple[str, bytes, str]]:
    """Known requests whose bodies lie about themselves."""

    def body(key: int, version: int, flexible: bool, content: bytes) -> bytes:
        return framed(header(key, version, 1, flexible) + content)

    yield "metadata-v1-huge-array", body(3, 1, False, HUGE_INT32), "topics"
    yield "metadata-v9-huge-array", body(3, 9, True, HUGE_VARINT + bytes(30)), "topics"
    yield "metadata-v1-not-utf8", body(3, 1, False, b"\0\0\0\1\0\2\xc3\x28"), "Metadata"
    yield "metadata-v12-not-utf8", body(3, 12, True, b"\2" + bytes(16) + b"\2\xff\0\1\0\0"), "Meta"

    produce_head = b"\xff\xff" + struct.pack(">hi", 1, 1000)
    yield "produce-v3-huge-array", body(0, 3, False, produce_head + HUGE_INT32), "array"
    yield (
        "produce-v3-huge-partitions",
        body(0, 3, False, produce_head + b"\0\0\0\1\0\1t" + HUGE_INT32),
        "array",
    )
    yield (
        "produce-v3-huge-records",
        body(0, 3, False, produce_head + b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0" + HUGE_INT32),
        "runs over",
    )
    flexible_head = b"\0" + struct.pack(">hi", 1, 1000)
    yield "produce-v9-huge-array", body(0, 9, True, flexible_head + HUGE_VARINT), "array"
    yield "produce-v9-null-topics", body(0, 9, True, flexible_head + b"\0\0"), "null"
    yield "produce-v9-null-name", body(0, 9, True, flexible_head + b"\2\0\1\0\0"), "null"
    yield "produce-v9-endless-varint", body(0, 9, True, flexible_head + b"\xff" * 9), "varint"
    yield "produce-v13-huge-array", body(0, 13, True, flexible_head + HUGE_VARINT), "array"

    fetch_head = struct.pack(">iiiibii", -1, 0, 1, 1 << 20, 0, 0, -1)
    yield "fetch-v11-huge-array", body(1, 11, False, fetch_head + HUGE_INT32), "array"
    yield "fetch-v11-null-array", body(1, 11, False, fetch_head + b"\xff\xff\xff\xff"), "null"
    not_utf8 = frame_of(fetch_request({("??", 0): 0}), 11).replace(b"??", b"\xc3\x28")
    yield "fetch-v11-not-utf8", not_utf8, "Fetch"
    yield (
        "fetch-v12-not-utf8",
        frame_of(fetch_request({("??", 0): 0}), 12).replace(b"??", b"\xc3\x28"),
        "Fetch",
    )
    flexible_fetch_head = struct.pack(">iiibii", 0, 1, 1 << 20, 0, 0, -1)
    yield "fetch-v17-huge-array", body(1, 17, True, flexible_fetch_head + HUGE_VARINT), "topics"
    yield (
        "fetch-v17-huge-tag",
        body(1, 17, True, flexible_fetch_head + b"\1\1\1\1\0" + HUGE_VARINT),
        "tagged field",
    )
    yield "create-topics-huge-array", body(19, 5, True, HUGE_VARINT), "topics"


ALL: list[tuple[str, bytes, str]] = [
    *other_protocols(),
    *wrong_lengths(),
    *garbage(),
    *wrong_headers(),
    *wrong_bodies(),
]


def whole_requests(topic: str, topic_id: bytes) -> Iterator[tuple[str, bytes]]:
    """Valid requests, of which every proper prefix is invalid: (name, frame content)."""
    batch = batch_of(b"value", key=b"key")
    for version in (3, 7, 9, 13):
        name = topic_id if version >= 13 else topic
        yield f"produce-v{version}", frame_of(produce_request(name, batch), version)[4:]
    for version in (4, 7, 11, 12, 13, 17):
        wanted = {(topic_id if version >= 13 else topic, 0): 0}
        request = fetch_request(wanted, max_wait_ms=0)
        if version in (11, 13):
            request = fetch_request(wanted, forgotten=[(topic_id if version >= 13 else topic, 1)])
        assert isinstance(request, FetchRequest)
        yield f"fetch-v{version}", frame_of(request, version)[4:]
    for version in (0, 1, 4, 9, 13):
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)],
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        yield f"metadata-v{version}", frame_of(asked, version)[4:]
