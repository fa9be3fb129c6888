"""Disks that fail and disks that fill up: no acknowledgement for what is not stored, ever.

An I/O error takes a partition offline until a restart; a full disk is only waited for. Reading goes
on in both cases.
"""

from __future__ import annotations

import asyncio
import errno
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.protocol.batch import peek
from kbroker.protocol.errors import KafkaError, KafkaStorageError
from kbroker.protocol.messages.create_topics import CreateTopicsResponse
from tests.net.running import Running, StartBroker
from tests.storage.batches import Sender, batch, batch_of_size
from tests.storage.disks import FaultyDisk, SmallDisk
from tests.storage.shelf import Shelf, scan, until
from tests.storage.wire import (
    CREATE_VERSION,
    PRODUCE_VERSION,
    Pipeline,
    create_request,
    produce,
    produce_request,
    read_all,
)
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until

GROUP_COMMIT = {"kbroker.flush.group.commit": "true"}


async def send_pipelined(client: Pipeline, values: list[bytes]) -> list[tuple[int, int]]:
    """Sends all before the first answer is read; gives (error, base offset) of each, in order."""
    for number, value in enumerate(values):
        client.send(produce_request("things", batch(value)), PRODUCE_VERSION)
        if number % 4 == 3:
            await asyncio.sleep(0)
    answers = [await client.produced() for _ in values]
    return [(answer.error_code, answer.base_offset) for answer in answers]


# I/O errors, through a real socket


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("seed", range(8))
async def test_after_a_failed_write_or_sync_nothing_is_acknowledged_until_a_restart(
    start_broker: StartBroker, operation: str, seed: int
) -> None:
    rng = random.Random(seed)
    disk = FaultyDisk()
    running: Running = await start_broker({"kbroker.flush.group.commit": True}, disk=disk)
    values: list[bytes] = []
    outcomes: list[tuple[int, int]] = []
    async with Pipeline(running.port) as client:
        await client.create_topic("things")
        fault = disk.fail(
            operation, on="things-0", after=rng.randrange(6), torn_bytes=rng.randrange(100)
        )
        rounds_left = 2
        while rounds_left:  # how many writes and syncs one round takes depends on the moment
            more = [rng.randbytes(8) + rng.randbytes(rng.randrange(2000)) for _ in range(20)]
            values += more
            outcomes += await send_pipelined(client, more)
            rounds_left -= fault.hits > 0

        errors = [error for error, _ in outcomes]
        acknowledged = errors.index(KafkaStorageError.code)
        assert errors[:acknowledged] == [0] * acknowledged
        assert set(errors[acknowledged:]) == {KafkaStorageError.code}, "an answer after the failure"
        assert [offset for _, offset in outcomes[:acknowledged]] == list(range(acknowledged))

        disk.heal()  # too late for this partition: what is on disk is uncertain
        late = await client.produce("things", batch(b"late"))
        assert late.error_code == KafkaStorageError.code
        read = await client.read_all("things")
        for offset in range(acknowledged):
            assert read[offset] == values[offset]
        await client.create_topic("others")
        assert await client.append("others", batch(b"fine")) == 0, "other partitions go on"

    await running.restart()
    async with Pipeline(running.port) as client:
        read = await client.read_all("things")
        assert len(read) >= acknowledged
        assert list(read.values()) == values[: len(read)], "in the order of sending"
        assert await client.append("things", batch(b"after")) == len(read)
        assert (await client.read_all("things"))[len(read)] == b"after"


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_failed_write_fails_every_acknowledgement_of_its_burst(
    start_broker: StartBroker, acks: int
) -> None:
    disk = FaultyDisk()
    running: Running = await start_broker(disk=disk)
    async with Pipeline(running.port) as client:
        await client.create_topic("things")
        assert await client.append("things", batch(b"good")) == 0
        disk.fail("write", on="things-0", torn_bytes=50)
        for number in range(5):
            request = produce_request("things", batch(b"%d" % number), acks=acks)
            client.send(request, PRODUCE_VERSION)
        for _ in range(5):
            answer = await client.produced()
            assert (answer.error_code, answer.base_offset) == (KafkaStorageError.code, -1)
            assert answer.error_message
        assert await client.read_all("things") == {0: b"good"}


async def test_torn_bytes_that_cannot_be_taken_back_are_cut_by_the_next_start(
    start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """No room for the whole batch, and then the disk refuses to shorten the file."""
    disk = FaultyDisk()
    running: Running = await start_broker(disk=disk)
    async with Pipeline(running.port) as client:
        await client.create_topic("things")
        await client.append("things", batch(b"good"))
        disk.fail("write", errno.ENOSPC, on="things-0", torn_bytes=40)
        disk.fail("truncate", on="things-0")
        for _ in range(2):
            answer = await client.produce("things", batch(b"bad"))
            assert answer.error_code == KafkaStorageError.code
            disk.heal()
    await running.restart()
    assert "tail_cut file=things-0/" in caplog.text
    assert "removed_bytes=40 " in caplog.text
    async with Pipeline(running.port) as client:
        assert await client.read_all("things") == {0: b"good"}
        assert await client.append("things", batch(b"better")) == 1


async def test_the_offline_partition_is_named_in_the_log_once(
    start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk()
    running: Running = await start_broker(disk=disk)
    async with Pipeline(running.port) as client:
        await client.create_topic("things", 2)
        disk.fail("write", on="things-1")
        for _ in range(5):
            answer = await client.produce("things", batch(b"x"), 1)
            assert answer.error_code == KafkaStorageError.code
        assert await client.append("things", batch(b"x"), 0) == 0
    (line,) = [r.getMessage() for r in caplog.records if "partition_offline" in r.getMessage()]
    assert "partition=things-1" in line


# A full disk


@pytest.mark.parametrize("seed", range(10))
async def test_a_full_disk_refuses_resumes_by_itself_and_leaves_no_torn_bytes(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    disk = SmallDisk(room_bytes=5000)
    async with Shelf(tmp_path, {"segment.bytes": 3000}, disk=disk) as shelf:
        stored: list[bytes] = []
        refused = 0
        for number in range(150):
            content = batch(b"%d " % number + bytes(rng.randrange(1500)))
            error: KafkaError | None
            try:
                error = shelf.append(content).error
            except KafkaStorageError as problem:
                error = problem
            if error is None:
                stored.append(content[61:])
            else:
                refused += 1
                assert isinstance(error, KafkaStorageError)
                assert shelf[0].offline is None, f"seed {seed}: {shelf[0].offline}"
                if rng.random() < 0.3:
                    disk.room_bytes += rng.randrange(4000)
            assert [one[61:] for one in shelf.stored()] == stored
            if rng.random() < 0.05:
                disk.room_bytes += 1000  # a start writes a little
                shelf.restart()
                assert shelf.cuts == []
        assert refused > 10
        assert len(stored) > 10
        everything = [one for path in shelf.files(".meta") for _, one in scan(path)]
        assert [one[61:] for one in everything] == stored, "on disk and in order, and nothing else"
        assert sum(path.stat().st_size for path in shelf.files(".meta")) == sum(
            map(len, everything)
        )


async def test_a_full_disk_is_retriable_for_clients_and_reading_goes_on(
    start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SmallDisk(room_bytes=20_000)
    running: Running = await start_broker({"kbroker.flush.group.commit": True}, disk=disk)
    values = [b"value %d " % number + bytes(1000) for number in range(40)]
    async with Pipeline(running.port) as client:
        await client.create_topic("things")
        outcomes = await send_pipelined(client, values)
        assert {error for error, _ in outcomes} == {0, KafkaStorageError.code}
        assert KafkaStorageError.retriable
        pairs = zip(outcomes, values, strict=True)
        stored = {offset: value for (error, offset), value in pairs if not error}
        assert await client.read_all("things") == stored
        disk.room_bytes += 100_000
        for value in values:
            stored[await client.append("things", batch(value))] = value
        assert list(stored) == list(range(len(stored)))
        assert await client.read_all("things") == stored
    lines = [r.getMessage() for r in caplog.records if "disk_full" in r.getMessage()]
    assert len(lines) == 1, "said once, not for each refusal"
    await running.restart()
    async with Pipeline(running.port) as client:
        assert await client.read_all("things") == stored


async def test_a_topic_that_there_is_no_room_for_does_not_exist(start_broker: StartBroker) -> None:
    disk = SmallDisk(room_bytes=20_000)
    running: Running = await start_broker(disk=disk)
    async with Pipeline(running.port) as client:
        disk.room_bytes = 0
        answer = await client.ask(create_request("things"), CREATE_VERSION, CreateTopicsResponse)
        assert answer.topics[0].error_code == KafkaStorageError.code
        assert running.broker.topic("things") is None
        disk.room_bytes = 20_000
        await client.create_topic("things")
        assert await client.append("things", batch(b"x")) == 0


async def test_no_batch_is_stored_without_the_ones_before_it(tmp_path: Path) -> None:
    """Three batches of one producer in one burst; the third needs a new segment, so the first two
    are written before it. There is no room for them, but there would be for the third."""
    disk = SmallDisk(room_bytes=2000)
    async with Shelf(tmp_path, {"segment.bytes": 1024}, disk=disk) as shelf:
        shelf.append(batch_of_size(100))
        disk.room_bytes = 500
        first = shelf.queue(batch(b"0" * 350, sender=Sender(7, 0, 0)))
        second = shelf.queue(batch(b"1" * 350, sender=Sender(7, 0, 1)))
        with pytest.raises(KafkaStorageError):
            shelf.queue(batch(b"2" * 300, sender=Sender(7, 0, 2)))
        shelf.store.write()
        assert first.error is not None
        assert second.error is not None
        assert shelf[0].log_end == 1
        disk.room_bytes = 100_000
        for sequence in range(3):
            sender = Sender(7, 0, sequence)
            assert shelf.append(batch(b"again", sender=sender)).base_offset == 1 + sequence


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_a_batch_sent_twice_in_a_burst_that_fails_is_acknowledged_neither_time(
    tmp_path: Path, code: int
) -> None:
    disk = FaultyDisk()
    async with Shelf(tmp_path, disk=disk) as shelf:
        shelf.append()
        disk.fail("write", code)
        content = batch(b"twice", sender=Sender(7, 0, 0))
        outcomes = [shelf.queue(content), shelf.queue(content)]
        shelf.store.write()
        assert [type(outcome.error) for outcome in outcomes] == [KafkaStorageError] * 2
        disk.heal()
        if code == errno.ENOSPC:
            again = [shelf.queue(content), shelf.queue(content)]
            shelf.store.write()
            assert [(outcome.base_offset, outcome.error) for outcome in again] == [(1, None)] * 2
            assert shelf[0].log_end == 2


@pytest.mark.parametrize("suffix", [".index", ".snapshot", "leader-epoch-checkpoint"])
async def test_no_room_for_a_small_file_costs_nothing_but_time(tmp_path: Path, suffix: str) -> None:
    disk = FaultyDisk()
    async with Shelf(tmp_path, {"segment.bytes": 1024}, disk=disk) as shelf:
        shelf.append()
        await shelf.store.flusher.sync_now(shelf[0])
        shelf.restart()
        disk.fail("write_small", errno.ENOSPC, on=suffix)
        refused = 0
        for number in range(6):
            try:
                append = shelf.append(batch(b"x" * 600, sender=Sender(7, 0, number - refused)))
                assert append.error is None
            except KafkaStorageError:
                refused += 1
            await shelf.store.flusher.sync_now(shelf[0])
            assert shelf[0].offline is None
        end = shelf[0].log_end
        disk.heal()
        assert shelf.append(batch(b"x" * 600, sender=Sender(7, 0, 6 - refused))).base_offset == end
        assert shelf.append(batch(b"x" * 600, sender=Sender(7, 0, 6 - refused))).base_offset == end
        await shelf.stop()
        shelf.start()
        assert shelf.store.checkpoint.clean
        assert shelf[0].log.epochs.entries == [(0, 0), (16, 1)]
        assert [peek(one).base_offset for one in shelf.stored()] == list(range(end + 1))


async def test_refused_writes_do_not_walk_through_the_log_again_and_again(tmp_path: Path) -> None:
    """After a failed write the producers' state is built anew, from the last snapshot on; with a
    gigabyte since then that takes seconds, on the loop, for each refused request."""
    disk = SmallDisk(room_bytes=10_000_000)
    async with Shelf(tmp_path, disk=disk) as shelf:
        for number in range(5000):
            shelf.queue(batch(b"v", sender=Sender(7, 0, number)))
        shelf.store.write()
        disk.room_bytes = 10
        assert shelf.append(batch(b"v", sender=Sender(7, 0, 5000))).error is not None
        assert shelf.append(batch(b"v", sender=Sender(7, 0, 5000))).error is not None
        reading = disk.fail("read", on=".meta")
        for _ in range(20):
            assert shelf.append(batch(b"v", sender=Sender(7, 0, 5000))).error is not None
        assert reading.hits == 0
        disk.heal()
        disk.room_bytes = 10_000
        assert shelf.append(batch(b"v", sender=Sender(7, 0, 4999))).base_offset == 4999
        assert shelf.append(batch(b"v", sender=Sender(7, 0, 5000))).base_offset == 5000


async def test_a_sync_that_fails_while_producers_wait_tells_all_of_them(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with Shelf(tmp_path, GROUP_COMMIT, disk=disk) as shelf:
        disk.fail("sync", after=1)
        told: list[BaseException | None] = []
        for _ in range(2):
            for _ in range(5):
                append = shelf.append()
                if append.must_sync:
                    shelf[0].synced_thresholds.add(append.last_offset + 1, told.append)
        await until(lambda: len(told) == 10, "all to be told")
        assert told[0] is None
        assert [type(error) for error in told[1:]] == [KafkaStorageError] * 9
        assert shelf[0].synced_end == 1


# A disk that is really full


@pytest.fixture
def small_mount(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of six megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=6m", "kbroker-test", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.CalledProcessError) as problem:
        said = problem.stderr if isinstance(problem, subprocess.CalledProcessError) else problem
        pytest.skip(f"a file system can be mounted by root only: {said!r}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=20)


@pytest.mark.slow
def test_a_broker_on_a_full_file_system_serves_readers_and_resumes_when_there_is_room(
    small_mount: Path,
) -> None:
    """librdkafka with idempotence sends more than there is room for, until something is deleted."""
    from confluent_kafka import Message, Producer

    ballast = small_mount / "ballast"
    ballast.write_bytes(bytes(3_000_000))
    broker = BrokerProcess(small_mount).start()
    try:
        delivered: dict[int, int] = {}

        def note(error: object, message: Message) -> None:
            assert error is None, error
            offset, key = message.offset(), message.key()
            assert offset is not None
            assert isinstance(key, bytes)
            delivered[offset] = int(key)

        settings = {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.size": 60_000,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 50,
        }
        producer = Producer(settings)
        for number in range(80):
            producer.produce("things", key=str(number), value=bytes(50_000), callback=note)

        def is_full() -> bool:
            producer.poll(0.01)
            return "disk_full" in broker.log_text()

        wait_until(is_full, timeout_s=20, what="the disk to be full")
        with RawClient(broker.bootstrap) as client:
            for acks in (1, -1):
                refused = produce(client, "things", batch(bytes(400_000)), acks=acks)
                assert refused.error_code == KafkaStorageError.code
            producer.poll(0)
            before = read_all(client, "things")
            assert 20 < len(before) < 80
            assert [int(record.key or b"") for record in before] == list(range(len(before)))
            ballast.unlink()
            assert producer.flush(30) == 0, "writing resumes by itself"
            records = read_all(client, "things")
        assert delivered == {number: number for number in range(80)}
        assert [(record.offset, int(record.key or b"")) for record in records] == list(
            delivered.items()
        )
        for restart in (broker.stop, broker.kill):
            restart()
            broker.start()
            with RawClient(broker.bootstrap) as client:
                assert read_all(client, "things") == records
        assert "tail_cut" not in broker.log_text()
    finally:
        broker.close()
