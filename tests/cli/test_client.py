"""What needs no broker: addresses, the partitioner, starting points, numbers for people."""

import random
import warnings
from datetime import datetime

import pytest

from kbroker.cli import starting_point
from kbroker.cli.client import address, admin
from kbroker.cli.client.address import Address
from kbroker.cli.client.partitioner import Sticky, murmur2, partition_of_key
from kbroker.cli.output import bytes_text, count_text, duration_text, time_text
from kbroker.cli.starting_point import StartingPoint

with warnings.catch_warnings():
    # kafka-python loads its schemas, at import, by a call that Python has deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

NOW_MS = 1_700_000_000_000


def test_addresses_are_read_as_they_are_printed() -> None:
    for text in ("localhost:9092", "127.0.0.1:1", "[::1]:65535", "[fe80::1%eth0]:9092"):
        assert [str(found) for found in address.parse(text)] == [text]
    assert address.parse("a:1, [::1]:2") == [Address("a", 1), Address("::1", 2)]


def test_murmur2_is_kafkas() -> None:
    # Known pairs of Apache Kafka's own test of its function, as unsigned numbers.
    known = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    for key, value in known.items():
        assert murmur2(key) == value & 0xFFFFFFFF
    chance = random.Random(7)
    for _ in range(300):
        key = chance.randbytes(chance.randrange(40))
        assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF
        assert 0 <= partition_of_key(key, 7) < 7


def test_records_without_a_key_take_turns() -> None:
    sticky = Sticky([0, 2, 5])
    seen = []
    for _ in range(6):
        assert sticky.partition == sticky.partition
        seen.append(sticky.partition)
        sticky.move_on()
    assert sorted(seen) == [0, 0, 2, 2, 5, 5]


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("beginning", StartingPoint(timestamp_ms=admin.EARLIEST)),
        ("latest", StartingPoint(timestamp_ms=admin.LATEST)),
        ("0", StartingPoint(offset=0)),
        ("42", StartingPoint(offset=42)),
        ("-10", StartingPoint(from_end=10)),
        ("-15m", StartingPoint(timestamp_ms=NOW_MS - 15 * 60_000)),
        ("-250ms", StartingPoint(timestamp_ms=NOW_MS - 250)),
        ("-2d", StartingPoint(timestamp_ms=NOW_MS - 2 * 86_400_000)),
        ("-99999w", StartingPoint(timestamp_ms=0)),
        ("2023-11-14T22:13:20Z", StartingPoint(timestamp_ms=NOW_MS)),
        ("2023-11-14T23:13:20.500+01:00", StartingPoint(timestamp_ms=NOW_MS + 500)),
        (
            "2023-11-14",
            StartingPoint(timestamp_ms=int(datetime(2023, 11, 14).timestamp() * 1000)),
        ),
    ],
)
def test_starting_points_are_read(text: str, point: StartingPoint) -> None:
    assert starting_point.parse(text, NOW_MS) == point


@pytest.mark.parametrize("text", ["", "now", "-", "15m", "-1y", "1.5", "2023-13-01", "1 2"])
def test_what_is_no_starting_point_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is none of"):
        starting_point.parse(text, NOW_MS)


def test_a_time_that_is_shown_can_be_given_to_from() -> None:
    assert starting_point.parse(time_text(NOW_MS + 123), 0).timestamp_ms == NOW_MS + 123
    assert time_text(-1) == "-"
    assert time_text((1 << 63) - 1) == "9223372036854775807ms"


def test_numbers_are_written_as_people_read_them() -> None:
    sizes = [0, 1023, 1024, 1536, 1 << 20, 1 << 30, 5 << 40, 3 << 60]
    assert [bytes_text(size) for size in sizes] == [
        *("0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 GiB", "5.0 TiB", "3072.0 PiB"),
    ]
    assert count_text(1, "batch") == "1 batch"
    assert count_text(2000, "batch") == "2,000 batches"
    assert count_text(0, "entry") == "0 entries"
    spans = [5, 1_500, 10_000, 119_999, 120_000, 7_200_000, 12_000_000, 200_000_000, 864_000_000]
    assert [duration_text(span) for span in spans] == [
        *("5 ms", "1.5 s", "10 s", "119 s", "2 min"),
        *("2 h", "3 h 20 min", "2 d 7 h", "10 d"),
    ]
