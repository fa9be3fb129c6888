"""Clients on this machine, in another container and on another machine reach a broker that was told
nothing; network namespaces stand in for containers, and the host's side for their gateway."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kbroker.broker_process import BrokerProcess

pytestmark = pytest.mark.slow

ROUND_TRIP = """
import json, sys
from confluent_kafka import Consumer, Producer, TopicPartition
settings = {"bootstrap.servers": sys.argv[1]}
producer = Producer(settings)
offsets = []
producer.produce("t", b"hello", on_delivery=lambda error, m: offsets.append(m.offset()))
assert producer.flush(20) == 0, "not delivered"
consumer = Consumer({**settings, "group.id": "unused", "enable.auto.commit": False})
consumer.assign([TopicPartition("t", 0, offsets[0])])
message = consumer.poll(20)
assert message is not None and message.value() == b"hello"
brokers = consumer.list_topics(timeout=10).brokers
print(json.dumps([[b.host, b.port] for b in brokers.values()]))
consumer.close()
"""


# Not a client library: it would go on to connect to the address that it is told.
DESCRIBE = """
import json, socket, struct, sys
from kbroker.protocol.messages.metadata import MetadataResponse
host, _, port = sys.argv[1].rpartition(":")
with socket.create_connection((host.strip("[]"), int(port)), 10) as connection:
    connection.sendall(struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0))
    answer = connection.makefile("rb")
    size, _ = struct.unpack(">ii", answer.read(8))
    brokers = MetadataResponse.decode(answer.read(size - 4), 1).brokers
print(json.dumps([[broker.host, broker.port] for broker in brokers]))
"""


def round_trip(bootstrap: str, prefix: tuple[str, ...] = ()) -> list[list[str | int]]:
    """Produces and reads back; gives the addresses that the client was told."""
    return _run(ROUND_TRIP, bootstrap, prefix)


def told(bootstrap: str, prefix: tuple[str, ...] = ()) -> list[list[str | int]]:
    """The addresses that a client is told."""
    return _run(DESCRIBE, bootstrap, prefix)


def _run(program: str, bootstrap: str, prefix: tuple[str, ...]) -> list[list[str | int]]:
    done = subprocess.run(
        [*prefix, sys.executable, "-c", program, bootstrap],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    addresses: list[list[str | int]] = json.loads(done.stdout)
    return addresses


class Bound(BrokerProcess):
    """A broker with listeners of its own, perhaps in a network namespace."""

    def __init__(self, data_dir: Path, *words: str, prefix: tuple[str, ...] = ()) -> None:
        super().__init__(data_dir, command_prefix=prefix)
        self._words = words

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--host")
        return [*command[:at], "--data", str(self.data_dir), *self._words]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network(NamedTuple):
    """Command prefixes that run a program on one of three hosts."""

    gateway: tuple[str, ...]
    first: tuple[str, ...]
    second: tuple[str, ...]


@pytest.fixture
def network() -> Iterator[Network]:
    """Two hosts and their gateway, as a container engine lays them out: a bridge on the gateway,
    which stands for the machine that runs the containers. All three are namespaces, so nothing
    leaves them."""
    prefix = f"kb{os.getpid() % 100000}"
    gateway, *hosts = names = [f"{prefix}{letter}" for letter in "gab"]
    try:
        ip("netns", "add", gateway)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"no network namespaces here: {problem}")
    try:
        ip("-n", gateway, "link", "set", "lo", "up")
        ip("-n", gateway, "link", "add", "bridge", "type", "bridge")
        ip("-n", gateway, "addr", "add", "10.231.7.1/24", "dev", "bridge")
        ip("-n", gateway, "link", "set", "bridge", "up")
        for number, host in enumerate(hosts, 2):
            ip("netns", "add", host)
            ip("-n", gateway, "link", "add", host, "type", "veth", "peer", "eth0", "netns", host)
            ip("-n", gateway, "link", "set", host, "master", "bridge", "up")
            ip("-n", host, "addr", "add", f"10.231.7.{number}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
            ip("-n", host, "link", "set", "lo", "up")
            ip("-n", host, "route", "add", "default", "via", "10.231.7.1")
        yield Network(*(("ip", "netns", "exec", name) for name in names))
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def listening(broker: Bound, text: str) -> None:
    """Starts a broker that does not say 127.0.0.1 when it listens."""
    import re

    import kbroker.broker_process as module

    before = module._LISTENING
    module._LISTENING = re.compile(text)
    try:
        broker.start()
    finally:
        module._LISTENING = before


def test_containers_of_one_network_reach_each_other_without_a_setting(
    tmp_path: Path, network: Network
) -> None:
    words = ("--host", "0.0.0.0", "--port", "9092")
    broker = Bound(tmp_path / "data", *words, prefix=network.first)
    listening(broker, r"listening on 0\.0\.0\.0:(\d+)")
    try:
        assert round_trip("10.231.7.2:9092", network.second) == [["10.231.7.2", 9092]]
        assert round_trip("127.0.0.1:9092", network.first) == [["127.0.0.1", 9092]]
    finally:
        broker.close()


def test_a_client_behind_the_gateway_is_told_localhost_and_the_log_says_so_once(
    tmp_path: Path, network: Network
) -> None:
    words = ("--host", "0.0.0.0", "--port", "9092")
    broker = Bound(tmp_path / "data", *words, prefix=network.first)
    listening(broker, r"listening on 0\.0\.0\.0:(\d+)")
    try:
        for _ in range(2):
            assert told("10.231.7.2:9092", network.gateway) == [["localhost", 9092]]
        lines = [line for line in broker.log_text().splitlines() if "client_behind_gateway" in line]
        assert len(lines) == 1
        assert "advertised.listeners=PLAINTEXT://" in lines[0]
    finally:
        broker.close()


def test_advertised_listeners_always_win(tmp_path: Path, network: Network) -> None:
    words = ("--host", "0.0.0.0", "--port", "9092", "--set")
    explicit = "advertised.listeners=PLAINTEXT://10.231.7.2:9092"
    broker = Bound(tmp_path / "data", *words, explicit, prefix=network.first)
    listening(broker, r"listening on 0\.0\.0\.0:(\d+)")
    try:
        assert round_trip("10.231.7.2:9092", network.gateway) == [["10.231.7.2", 9092]]
    finally:
        broker.close()


def test_several_listeners_each_tell_their_own_address(tmp_path: Path) -> None:
    words = (
        *("--set", "listeners=PLAINTEXT://127.0.0.1:0,INSIDE://[::1]:0"),
        *("--set", "advertised.listeners=INSIDE://localhost:19999"),
    )
    broker = Bound(tmp_path / "data", *words)
    broker.start()
    try:
        second = broker.stdout_text().partition("[::1]:")[2].partition(",")[0].split()[0]
        assert round_trip(broker.bootstrap) == [["127.0.0.1", broker.port]]
        assert told(f"[::1]:{second}") == [["localhost", 19999]]
    finally:
        broker.close()


def test_a_client_over_ipv6_is_told_an_ipv6_address(tmp_path: Path) -> None:
    broker = Bound(tmp_path / "data", "--host", "::1", "--port", "0")
    listening(broker, r"listening on \[::1\]:(\d+)")
    try:
        assert round_trip(f"[::1]:{broker.port}") == [["::1", broker.port]]
    finally:
        broker.close()
