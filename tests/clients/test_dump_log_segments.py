"""The segments of a stopped broker, read by Apache Kafka's DumpLogSegments.

A `.meta` file is what Kafka calls a log segment: linked under a `.log` name the tool reads it,
checks every batch and prints every record.
"""

import os
import re
from pathlib import Path
from random import Random

import pytest

from tests.clients.java_driver import JavaDriver
from tests.clients.messages import CODECS, Message, numbered
from tests.support.broker_process import BrokerProcess
from tests.support.java import KafkaTool

pytestmark = pytest.mark.slow

RANDOM = Random(4)  # values that compress, but not to nothing
SAMPLES = numbered(
    [
        *(Message(b"key-%d" % i, RANDOM.randbytes(150).hex().encode()) for i in range(40)),
        Message(None, b"no key"),
        Message(b"no value", None),
        Message("schlüssel-☃".encode(), "größe 📦".encode(), (("kopf", b"1"), ("kopf", None))),
    ]
)
BATCH = re.compile(
    r"baseOffset: (?P<first>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) .*"
    r"isTransactional: false isControl: false .* CreateTime: (?P<time>\d+) size: (?P<size>\d+)"
    r" magic: 2 compresscodec: (?P<codec>\w+) crc: \d+ isvalid: (?P<valid>\w+)"
)
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) CreateTime: (?P<time>\d+) .*headerKeys: \[(?P<headers>.*?)\]"
    r"(?: key: (?P<key>.*?))?(?: payload: (?P<value>.*))?"
)


def dump(driver: JavaDriver, partition: Path, links: Path) -> str:
    """What the tool prints of all segments of a partition's folder, in their order."""
    links.mkdir()
    files = []
    for segment in sorted(partition.glob("*.meta")):
        files.append(links / segment.with_suffix(".log").name)
        os.link(segment, files[-1])
    arguments = ("--files", ",".join(map(str, files)), "--print-data-log")
    return driver.run(KafkaTool.DUMP_LOG_SEGMENTS, *arguments).check().stdout


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


@pytest.mark.parametrize("segment_bytes", [1 << 30, 2000])
def test_every_batch_is_valid_and_every_record_is_there(
    java_driver: JavaDriver, fresh_broker: BrokerProcess, tmp_path: Path, segment_bytes: int
) -> None:
    fresh_broker.stop()
    fresh_broker.settings["log.segment.bytes"] = segment_bytes
    fresh_broker.start()
    for codec in CODECS:
        # A small batch size makes several batches; what is in one is compressed together.
        settings = {"compression.type": codec, "batch.size": "900", "linger.ms": "50"}
        results = java_driver.produce(fresh_broker.bootstrap, codec, SAMPLES, settings)
        assert [result.offset for result in results] == list(range(len(SAMPLES)))
    fresh_broker.stop()
    for codec in CODECS:
        partition = fresh_broker.data_dir / f"{codec}-0"
        printed = dump(java_driver, partition, tmp_path / codec)
        assert "invalid" not in printed.lower().replace("isvalid", "")
        batches = [found for line in printed.splitlines() if (found := BATCH.match(line))]
        records = [found for line in printed.splitlines() if (found := RECORD.fullmatch(line))]
        assert len(batches) > 3
        assert {found["codec"].lower() for found in batches} == {codec}
        assert {found["valid"] for found in batches} == {"true"}
        assert sum(int(found["count"]) for found in batches) == len(SAMPLES)
        assert [int(found["offset"]) for found in records] == list(range(len(SAMPLES)))
        assert [(r["key"], r["value"], int(r["time"])) for r in records] == [
            (text(m.key), text(m.value), m.timestamp_ms) for m in SAMPLES
        ]
        assert [r["headers"] for r in records][-1] == "kopf,kopf"
        segments = list(partition.glob("*.meta"))
        assert (len(segments) > 1) == (segment_bytes == 2000)
        assert sum(int(found["size"]) for found in batches) == sum(
            segment.stat().st_size for segment in segments
        )
