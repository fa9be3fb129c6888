"""How a record looks when it is printed: text, JSON or hexadecimal digits.

Text is the record's bytes as they are, so that what `produce` read is what `consume` prints; the
fields asked for stand before the value with tabs between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kbroker.cli.output import json_line, time_text
from kbroker.protocol.records import Record

FORMATS = ("text", "json", "hex")


@dataclass(frozen=True, slots=True)
class Fields:
    """What is printed beside the value."""

    times: bool = False
    offsets: bool = False
    keys: bool = False
    headers: bool = False


def as_json(topic: str, partition: int, record: Record) -> bytes:
    """One JSON object on a line; bytes that are no text are given in base64, and it says so."""
    return json_line({"topic": topic, "partition": partition, **document(record)})


def document(record: Record) -> dict[str, object]:
    """A record as JSON holds it."""
    content: dict[str, object] = {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "time": time_text(record.timestamp_ms),
    }
    _put(content, "key", record.key)
    _put(content, "value", record.value)
    headers = []
    for header in record.headers:
        entry: dict[str, object] = {"key": header.key.encode("utf-8", "replace").decode()}
        _put(entry, "value", header.value)
        headers.append(entry)
    content["headers"] = headers
    return content


def _put(content: dict[str, object], name: str, data: bytes | None) -> None:
    try:
        content[name] = data.decode() if data is not None else None
    except UnicodeDecodeError:
        import base64

        assert data is not None
        content[name] = base64.b64encode(data).decode()
        content[f"{name}_encoding"] = "base64"


def as_text(partition: int, record: Record, fields: Fields) -> bytes:
    """The value, after the fields asked for."""
    return _line(partition, record, fields, _plain)


def as_hex(partition: int, record: Record, fields: Fields) -> bytes:
    """The value in hexadecimal digits, after the fields asked for."""
    return _line(partition, record, fields, _hex)


def _line(
    partition: int, record: Record, fields: Fields, show: Callable[[bytes | None], bytes]
) -> bytes:
    parts = []
    if fields.times:
        parts.append(time_text(record.timestamp_ms).encode())
    if fields.offsets:
        parts.append(b"%d:%d" % (partition, record.offset))
    if fields.keys:
        parts.append(show(record.key))
    if fields.headers:
        pairs = (
            header.key.encode("utf-8", "surrogateescape") + b"=" + show(header.value)
            for header in record.headers
        )
        parts.append(b",".join(pairs))
    parts.append(show(record.value))
    return b"\t".join(parts) + b"\n"


def _plain(data: bytes | None) -> bytes:
    return data if data is not None else b"null"


def _hex(data: bytes | None) -> bytes:
    return data.hex().encode() if data is not None else b"null"
