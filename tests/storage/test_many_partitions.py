"""Ten thousand partitions, and a process that may open 256 files."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.storage.batches import batch
from tests.storage.wire import PRODUCE_VERSION, create_topic, produce, read_all
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

PARTITION_COUNT = 10_000
MAX_OPEN_FILES = 100
OTHER_FILES = 50  # sockets, the lock, standard streams, the loop's own, syncs under way
QUICK_START_S = 10  # it takes one; the rest is for a machine with other work

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with few files, whose timed syncs are all due at about the same time."""
    settings = {"kbroker.max.open.files": MAX_OPEN_FILES, "log.flush.interval.ms": 500}
    limit = ("prlimit", "--nofile=256:256")
    process = BrokerProcess(tmp_path / "broker", settings=settings, command_prefix=limit).start()
    yield process
    if process.is_running():
        process.kill()  # nobody waits for ten thousand syncs


def open_files(broker: BrokerProcess) -> list[str]:
    """What the broker has open right now."""
    folder, found = f"/proc/{broker.pid}/fd", []
    for fd in os.listdir(folder):
        try:
            found.append(os.readlink(f"{folder}/{fd}"))
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def check_open_files(broker: BrokerProcess) -> None:
    found = open_files(broker)
    segments = sum(path.endswith(".meta") for path in found)
    assert segments <= MAX_OPEN_FILES + 8, "segments beyond the cache and the running syncs"
    assert len(found) <= MAX_OPEN_FILES + OTHER_FILES


def values(client: RawClient, partition: int) -> list[bytes | None]:
    return [record.value for record in read_all(client, "things", partition)]


def test_a_topic_of_ten_thousand_partitions_works_with_a_hundred_open_files(
    broker: BrokerProcess,
) -> None:
    rng = random.Random(10_000)
    written = sorted(rng.sample(range(PARTITION_COUNT), 400))
    with RawClient(broker.bootstrap) as client:
        create_topic(client, "things", PARTITION_COUNT)
        folders = list(broker.data_dir.glob("things-*"))
        assert folders == [], "a partition costs nothing before its first record"
        for round_number in range(2):
            for number in written:
                content = batch(b"%d in %d" % (round_number, number))
                answer = produce(client, "things", content, number)
                assert (answer.error_code, answer.base_offset) == (0, round_number)
            check_open_files(broker)
    unwritten = next(number for number in range(PARTITION_COUNT) if number not in written)
    expected = {number: [b"%d in %d" % (r, number) for r in range(2)] for number in written}
    assert len(list(broker.data_dir.glob("things-*"))) == len(written)

    for stop in (broker.stop, broker.kill, broker.kill):
        stop()
        began = time.monotonic()
        broker.start()
        assert time.monotonic() - began < QUICK_START_S
        with RawClient(broker.bootstrap) as client:
            for number in written:
                assert values(client, number) == expected[number]
            assert values(client, unwritten) == []
            check_open_files(broker)
    assert "offline" not in broker.log_text()
    assert "Traceback" not in broker.log_text()


def append_to_all(client: RawClient, numbers: range, content: bytes) -> None:
    """One batch for each partition, in requests of a thousand."""
    for start in range(numbers.start, numbers.stop, 1000):
        chunk = range(start, min(start + 1000, numbers.stop))
        data = [PartitionProduceData(index=number, records=content) for number in chunk]
        topic = TopicProduceData(name="things", partition_data=data)
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        answer = client.ask(request, PRODUCE_VERSION, ProduceResponse)
        outcomes = answer.responses[0].partition_responses
        assert [outcome.index for outcome in outcomes] == list(chunk)
        assert {(outcome.error_code, outcome.base_offset) for outcome in outcomes} == {(0, 0)}


def test_after_a_kill_every_one_of_thousands_of_written_partitions_is_recovered(
    broker: BrokerProcess,
) -> None:
    count = 3000
    with RawClient(broker.bootstrap) as client:
        create_topic(client, "things", PARTITION_COUNT)
        append_to_all(client, range(count), batch(b"one"))
        check_open_files(broker)
    torn = range(0, count, 100)
    broker.kill()
    for number in torn:
        path = broker.data_dir / f"things-{number}" / f"{0:020}.meta"
        path.write_bytes(path.read_bytes() + b"torn")
    broker.start()
    with RawClient(broker.bootstrap) as client:
        for number in range(0, count, 50):
            assert values(client, number) == [b"one"]
            assert produce(client, "things", batch(b"two"), number).base_offset == 1
        check_open_files(broker)
    text = broker.log_text()
    assert text.count(" tail_cut ") == len(torn)
    assert f"recovery_finished partitions={PARTITION_COUNT} cut={len(torn)} " in text
    assert "offline" not in text
    assert "Traceback" not in text


@pytest.mark.heavy
def test_all_ten_thousand_partitions_are_written_killed_and_recovered(
    broker: BrokerProcess,
) -> None:
    with RawClient(broker.bootstrap, timeout_s=60) as client:
        create_topic(client, "things", PARTITION_COUNT)
        append_to_all(client, range(PARTITION_COUNT), batch(b"one"))
    broker.kill()
    broker.start()
    with RawClient(broker.bootstrap, timeout_s=60) as client:
        for number in range(0, PARTITION_COUNT, 97):
            assert values(client, number) == [b"one"]
    check_open_files(broker)
    assert "offline" not in broker.log_text()
