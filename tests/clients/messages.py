"""The records that the client tests send: those that brokers and codecs have got wrong before."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # in the order of their numbers in a batch
FIRST_TIMESTAMP_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Message:
    """A record as its sender sees it; what comes back must be equal."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = FIRST_TIMESTAMP_MS


def numbered(messages: Iterable[Message]) -> list[Message]:
    """The messages with the times FIRST_TIMESTAMP_MS, one more, and so on."""
    return [
        replace(message, timestamp_ms=FIRST_TIMESTAMP_MS + index)
        for index, message in enumerate(messages)
    ]


def texts(count: int) -> list[Message]:
    """Plain messages `value-0`, `value-1` and so on, with keys."""
    return numbered(Message(b"key-%d" % i, b"value-%d" % i) for i in range(count))


# What every client can say. Compression must pay here, or a client would send the batch as it is.
COMMON_SAMPLES = numbered(
    [
        Message(b"key", b"value"),
        Message(None, b"no key"),
        Message(b"no value", None),
        Message(b"empty value", b""),
        Message(b"", b"empty key"),
        Message("schlüssel-☃-🔑".encode(), "größe ☃ 📦 \u0000 \r\n".encode()),
        Message(bytes(range(256)), bytes(range(256)) * 2),
        Message(b"many headers", b"x", tuple((f"h{i}", b"%d" % i) for i in range(50))),
        Message(b"same header", b"x", (("same", b"1"), ("same", b"2"), ("same", b"1"))),
        Message(
            b"odd headers", b"x", (("", b"no name"), ("empty", b""), ("schnee-☃", b"\x00\xff"))
        ),
        Message(b"long", b"0123456789" * 3000),
    ]
)

# kafka-python refuses to send a header without a value, though it reads one.
NULL_HEADERS = Message(b"null header", b"x", (("nothing", None), ("empty", b""), ("nothing", None)))
# kafka-python and aiokafka refuse to send this, though they read it.
NEITHER_KEY_NOR_VALUE = Message(None, None)
SAMPLES = numbered([*COMMON_SAMPLES, NULL_HEADERS, NEITHER_KEY_NOR_VALUE])
