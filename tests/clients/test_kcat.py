"""kcat, the Debian program on librdkafka, as people type it.

`kcat -C` reads partitions without a group, so nothing is missing here; `kcat -G` is a group.
"""

import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.adapters import MAX_WAIT_MS, Kcat, kcat_records
from tests.clients.messages import CODECS
from tests.clients.restarts import check_survives_restart
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.slow

TIMEOUT_S = 20
MEGABYTE = 1 << 20


@pytest.fixture
def kcat_of_broker(broker: BrokerProcess, kcat: Path) -> Kcat:
    return Kcat(broker.bootstrap, kcat)


def read(kcat: Kcat, topic: str, *options: str) -> list[str]:
    """The values of what kcat reads, up to the end unless the options say otherwise."""
    printed = kcat.run(
        *("-C", "-e", "-q", "-t", topic, f"-Xfetch.wait.max.ms={MAX_WAIT_MS}"), *options
    )
    return printed.decode().splitlines()


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    kcat_of_broker: Kcat, topic_name: str, codec: str
) -> None:
    samples = kcat_of_broker.samples
    kcat_of_broker.produce(topic_name, samples, codec)
    printed = kcat_of_broker.run("-C", "-q", "-J", "-t", topic_name, "-c", str(len(samples)))
    records = kcat_records(printed)
    assert [offset for offset, _ in records] == list(range(len(samples)))
    assert [(m.key, m.value, m.headers) for _, m in records] == [
        (m.key, m.value, m.headers) for m in samples
    ]


def test_an_empty_key_and_value_are_not_null(kcat_of_broker: Kcat, topic_name: str) -> None:
    kcat_of_broker.run("-P", "-t", topic_name, "-K|", stdin=b"|no key\nno value|\n")
    records = kcat_records(kcat_of_broker.run("-C", "-q", "-J", "-t", topic_name, "-c", "2"))
    assert [(m.key, m.value) for _, m in records] == [(b"", b"no key"), (b"no value", b"")]


@pytest.mark.parametrize("settings", ["acks=0", "acks=1", "acks=all", "enable.idempotence=true"])
def test_every_level_of_acknowledgement_stores_the_records(
    kcat_of_broker: Kcat, topic_name: str, settings: str
) -> None:
    lines = [f"value-{i}" for i in range(20)]
    kcat_of_broker.run("-P", "-t", topic_name, "-X", settings, stdin="\n".join(lines).encode())
    assert read(kcat_of_broker, topic_name) == lines


def test_a_message_of_a_megabyte_comes_back(
    kcat_of_broker: Kcat, topic_name: str, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(
        os.urandom(MEGABYTE - 100)
    )  # the default limits allow a batch of one megabyte
    kcat_of_broker.run("-P", "-t", topic_name, "-X", "message.max.bytes=2000000", str(large))
    options = ("-C", "-q", "-t", topic_name, "-c", "1", "-f", "%s")
    assert kcat_of_broker.run(*options) == large.read_bytes()


def test_a_message_that_is_too_large_is_refused_and_the_next_one_is_stored(
    kcat_of_broker: Kcat, topic_name: str, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    large.write_bytes(os.urandom(2 * MEGABYTE))
    produce = ("-P", "-t", topic_name, "-X", "message.max.bytes=4000000")
    with pytest.raises(AssertionError, match="Broker: Message size too large"):
        kcat_of_broker.run(*produce, str(large))
    kcat_of_broker.run(*produce, stdin=b"after\n")
    assert read(kcat_of_broker, topic_name) == ["after"]


def test_offsets_are_found_by_time_and_read_from(kcat_of_broker: Kcat, topic_name: str) -> None:
    # kcat stamps the time of sending, so each of the two calls has a time of its own.
    kcat_of_broker.run("-P", "-t", topic_name, stdin=b"zero\none\ntwo\n")
    kcat_of_broker.run("-P", "-t", topic_name, "-z", "zstd", stdin=b"three\nfour\n")
    printed = kcat_of_broker.run("-C", "-e", "-q", "-J", "-t", topic_name)
    times = [message.timestamp_ms for _, message in kcat_records(printed)]
    assert times[2] < times[3]

    def offset_at(time_ms: int) -> str:
        return kcat_of_broker.run("-Q", "-t", f"{topic_name}:0:{time_ms}").decode().strip()

    assert offset_at(-2) == f"{topic_name} [0] offset 0"
    assert offset_at(-1) == f"{topic_name} [0] offset 5"
    assert offset_at(times[2] + 1) == f"{topic_name} [0] offset 3"
    assert offset_at(times[4] + 1) == f"{topic_name} [0] offset -1"
    assert read(kcat_of_broker, topic_name, "-o", f"s@{times[2] + 1}") == ["three", "four"]
    assert read(kcat_of_broker, topic_name, "-o", "1", "-c", "2") == ["one", "two"]
    assert read(kcat_of_broker, topic_name, "-o", "-2") == ["three", "four"]
    assert read(kcat_of_broker, topic_name, "-o", "end") == []


def test_the_cluster_is_listed(
    kcat_of_broker: Kcat, broker: BrokerProcess, topic_name: str
) -> None:
    kcat_of_broker.run("-P", "-t", topic_name, stdin=b"x\n")
    listed = json.loads(kcat_of_broker.run("-L", "-J"))
    assert [node["name"] for node in listed["brokers"]] == [broker.bootstrap]
    assert topic_name in [topic["topic"] for topic in listed["topics"]]


@contextmanager
def running(kcat: Path, broker: BrokerProcess, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A kcat that stays: its input is a pipe, and its output one that does not block.

    Without -E it ends by itself when it has no connection for a moment.
    """
    process = subprocess.Popen(
        [kcat, "-E", "-b", broker.bootstrap, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_a_restart_of_the_broker_loses_nothing(
    fresh_broker: BrokerProcess, topic_name: str, kcat: Path
) -> None:
    Kcat(fresh_broker.bootstrap, kcat).run("-P", "-t", topic_name, stdin=b"first\n")
    producer_options = ("-P", "-t", topic_name, "-X", "enable.idempotence=true")
    consumer_options = ("-C", "-u", "-q", "-t", topic_name, "-p0", "-o", "1")
    with (
        running(kcat, fresh_broker, *producer_options) as producer,
        running(kcat, fresh_broker, *consumer_options) as consumer,
    ):
        assert producer.stdin is not None
        assert consumer.stdout is not None
        producer_input, consumer_output = producer.stdin, consumer.stdout
        unfinished = b""

        def send(number: int) -> None:
            producer_input.write(b"%0500d\n" % number)  # kcat reads its input in larger pieces
            producer_input.flush()

        def poll() -> list[int]:
            nonlocal unfinished
            select.select([consumer_output], [], [], 0.01)
            *lines, unfinished = (unfinished + (consumer_output.read() or b"")).split(b"\n")
            return [int(line) for line in lines]

        check_survives_restart(fresh_broker, send, poll, flush=producer_input.close)
        assert producer.wait(TIMEOUT_S) == 0
