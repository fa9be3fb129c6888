"""The Java client's round trip (JavaRoundTrip.java): how to run it, and what must come back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.java import Java

PROGRAM = Path(__file__).with_name("JavaRoundTrip.java")
FIRST_TIMESTAMP_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class JavaRecord:
    """One record as the Java consumer read it."""

    key: str | None
    value: str | None
    headers: list[tuple[str, str | None]]
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class JavaRoundTrip:
    """What came back, at which offsets, and what the producer was told (-1 each with acks=0)."""

    records: list[JavaRecord]
    offsets: list[int]
    acknowledged_offsets: list[int]


def run_java_round_trip(
    java: Java,
    bootstrap: str,
    topic: str,
    count: int,
    *,
    value_bytes: int = 0,
    producer: Mapping[str, str] | None = None,
    consumer: Mapping[str, str] | None = None,
) -> JavaRoundTrip:
    """Produce `count` records to partition 0 of `topic` and read them back with assign and seek.

    `producer` and `consumer` are settings in the Java client's own names, such as
    {"compression.type": "zstd", "acks": "all"}.
    """
    settings = [f"producer.{name}={value}" for name, value in (producer or {}).items()]
    settings += [f"consumer.{name}={value}" for name, value in (consumer or {}).items()]
    done = java.run(PROGRAM, bootstrap, topic, str(count), str(value_bytes), *settings).check()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return JavaRoundTrip(
        records=[
            JavaRecord(
                key=line["key"],
                value=line["value"],
                headers=[(name, value) for name, value in line["headers"]],
                timestamp_ms=line["timestamp_ms"],
            )
            for line in lines
        ],
        offsets=[line["offset"] for line in lines],
        acknowledged_offsets=[line["acknowledged_offset"] for line in lines],
    )


def expected_java_records(count: int, *, value_bytes: int = 0) -> list[JavaRecord]:
    """The records that JavaRoundTrip.java sends, hence what an honest broker gives back."""
    return [
        JavaRecord(
            key=None if index % 3 == 0 else f"key-{index}",
            value=None if index % 5 == 4 else _padded(f"välue-{index}", value_bytes),
            headers=[("index", str(index)), ("nothing", None)] if index % 2 == 1 else [],
            timestamp_ms=FIRST_TIMESTAMP_MS + index,
        )
        for index in range(count)
    ]


def _padded(value: str, size_bytes: int) -> str:
    return value + "." * (size_bytes - len(value.encode()))
