"""kill -9 under load, many times: what was acknowledged is there, in order, once, at its offset.

Three kinds of load run at once, each on a topic of its own: a raw client with acks=1, a raw client
with acks=all on a topic that acknowledges after the sync, and librdkafka with idempotence, which
sends again what was not answered. The moments of the kills come from a seed, which is in the name
of the test; KBROKER_KILL_SEED tries another one.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbroker.protocol.records import Record
from tests.storage.batches import batch
from tests.storage.wire import create_topic, produce, read_all
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import Closed, RawClient
from tests.support.waiting import wait_until

SEED = int(os.environ.get("KBROKER_KILL_SEED", "1"))
SETTINGS = {
    "log.segment.bytes": 300_000,  # so that kills meet rolls, snapshots and sealed segments
    "log.flush.interval.ms": 150,
    "log.flush.offset.checkpoint.interval.ms": 300,
}


class RawLoad:
    """Sends numbered batches one after the other, and none twice; notes what was acknowledged."""

    def __init__(self, topic: str, acks: int, seed: int) -> None:
        self.topic = topic
        self.acks = acks
        self.acknowledged: dict[int, int] = {}
        self.sent = 0
        self.problems: list[str] = []
        self._random = random.Random(seed)

    def run(self, bootstrap: str, stop: threading.Event) -> None:
        """Until told to stop; connects again whenever the broker is back."""
        while not stop.is_set():
            try:
                with RawClient(bootstrap, timeout_s=10) as client:
                    while not stop.is_set():
                        self._send(client)
            except (OSError, Closed):
                stop.wait(0.01)

    def _send(self, client: RawClient) -> None:
        rng = self._random
        count = rng.choice([1, 1, 3, 10])
        padding = bytes(rng.choice([0, 100, 100, 5000, 60_000]))
        first, self.sent = self.sent, self.sent + count
        values = [b"%d " % number + padding for number in range(first, self.sent)]
        answer = produce(client, self.topic, batch(*values), acks=self.acks)
        if answer.error_code:
            self.problems.append(f"error {answer.error_code}: {answer.error_message}")
        else:
            for number in range(count):
                self.acknowledged[first + number] = answer.base_offset + number

    def check(self, records: list[Record]) -> None:
        """Nothing acknowledged is missing or moved, nothing is there twice, and order is kept."""
        assert self.problems == []
        numbers = [int((record.value or b"").split()[0]) for record in records]
        assert numbers == sorted(set(numbers)), "out of order, or twice"
        at = {number: record.offset for number, record in zip(numbers, records, strict=True)}
        wrong = {
            number: (offset, at.get(number))
            for number, offset in self.acknowledged.items()
            if at.get(number) != offset
        }
        assert not wrong, f"{self.topic}: acknowledged (at, found at): {list(wrong.items())[:5]}"


class IdempotentLoad:
    """librdkafka with idempotence: every message is delivered in the end, and exactly once."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.acknowledged: dict[int, int] = {}
        self.sent = 0
        self.problems: list[str] = []

    def run(self, bootstrap: str, stop: threading.Event) -> None:
        """Sends at a steady pace until told to stop, then waits for all deliveries."""
        from confluent_kafka import Message, Producer

        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 50,
                "message.timeout.ms": 60_000,
            }
        )

        def delivered(error: object, message: Message) -> None:
            offset, key = message.offset(), message.key()
            if error is not None or offset is None or not isinstance(key, bytes):
                self.problems.append(f"{key!r}: {error}")
            else:
                self.acknowledged[int(key)] = offset

        while not stop.is_set():
            for _ in range(20):
                key, value = str(self.sent), bytes(self.sent % 700)
                producer.produce(self.topic, value, key=key, partition=0, callback=delivered)
                self.sent += 1
            producer.poll(0.005)
        if left := producer.flush(30):
            self.problems.append(f"{left} messages were never answered")

    def check(self, records: list[Record]) -> None:
        """All that was sent, in order, once, each at the offset that was acknowledged."""
        assert self.problems == []
        keys = [int(record.key or b"") for record in records]
        assert keys == list(range(self.sent)), "lost, out of order, or twice"
        assert {key: record.offset for key, record in zip(keys, records, strict=True)} == (
            self.acknowledged
        )


@contextmanager
def under_load(broker: BrokerProcess, loads: list[RawLoad | IdempotentLoad]) -> Iterator[None]:
    """Runs the loads in threads of this process, and ends them."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=load.run, args=(broker.bootstrap, stop), daemon=True)
        for load in loads
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(45)
            assert not thread.is_alive(), "a load did not end"


def kill_many_times(folder: Path, seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    broker = BrokerProcess(folder / "broker", settings=SETTINGS).start()
    loads: list[RawLoad | IdempotentLoad] = [
        RawLoad("acks-1", 1, seed),
        RawLoad("acks-all", -1, seed + 1),
        IdempotentLoad("idempotent"),
    ]
    try:
        with RawClient(broker.bootstrap) as client:
            create_topic(client, "acks-1")
            create_topic(client, "acks-all", configs={"kbroker.flush.group.commit": "true"})
            create_topic(client, "idempotent")
        with under_load(broker, loads):
            for number in range(rounds):
                for load in loads:  # each has got something done since the last kill
                    more = len(load.acknowledged) + rng.choice([1, 5, 30, 100])
                    wait_until(
                        lambda load=load, more=more: len(load.acknowledged) >= more,  # type: ignore[misc]  # bound now
                        timeout_s=20,
                        what=f"{load.topic} to go on in round {number} of seed {seed}",
                    )
                broker.kill()
                broker.start()
        for ending in ("nothing", "stop", "kill"):
            if ending == "stop":
                broker.restart()
            elif ending == "kill":
                broker.kill()
                broker.start()
            with RawClient(broker.bootstrap) as client:
                for load in loads:
                    load.check(read_all(client, load.topic))
        assert "Traceback" not in broker.log_text()
    finally:
        broker.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED])
def test_what_was_acknowledged_survives_twelve_kills(tmp_path: Path, seed: int) -> None:
    kill_many_times(tmp_path, seed, rounds=12)


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [SEED + 1, SEED + 2])
def test_what_was_acknowledged_survives_a_hundred_kills(tmp_path: Path, seed: int) -> None:
    kill_many_times(tmp_path, seed, rounds=100)
