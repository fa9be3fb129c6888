"""A running broker and its settings file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from kbroker.broker_process import BrokerProcess
from tests.support.waiting import wait_until


class Configured(BrokerProcess):
    """A broker that is started with --config."""

    def __init__(self, folder: Path, text: str) -> None:
        super().__init__(folder / "data")
        self.config = folder / "server.ini"
        self.config.write_text(text)

    def command(self) -> list[str]:
        return [*super().command(), "--config", str(self.config)]

    def wait_for_log(self, text: str) -> None:
        wait_until(lambda: text in self.log_text(), timeout_s=10, what=f"{text!r} in the log")


def partitions(broker: BrokerProcess, topic: str) -> int:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        return len(admin.describe_topics([topic])[0]["partitions"])
    finally:
        admin.close()


@pytest.mark.slow
def test_topics_of_the_file_are_made_with_their_settings(tmp_path: Path) -> None:
    text = (
        "[system]\nnumPartitions=2\n[topic=orders]\nnumPartitions=5\nretention.ms=1000\n[topic=a]\n"
    )
    broker = Configured(tmp_path, text)
    broker.start()
    try:
        assert partitions(broker, "orders") == 5
        assert partitions(broker, "a") == 2
        broker.config.write_text(text.replace("=5", "=6"))
        broker.wait_for_log("reloaded")
        assert partitions(broker, "orders") == 6
    finally:
        broker.close()


@pytest.mark.slow
def test_sighup_applies_what_can_be_applied_and_names_what_cannot(tmp_path: Path) -> None:
    broker = Configured(tmp_path, "[system]\nnum.partitions=1\n")
    broker.start()
    try:
        broker.config.write_text("[system]\nnum.partitions=4\nsocket.request.max.bytes=1000\n")
        os.kill(broker.pid, signal.SIGHUP)
        broker.wait_for_log("reload_incomplete names=socket.request.max.bytes")
        assert "reloaded applied=num.partitions" in broker.log_text()
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "0")])
        admin.close()
        assert partitions_of_new_topic(broker) == 4
    finally:
        broker.close()


def partitions_of_new_topic(broker: BrokerProcess) -> int:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    try:
        return len(producer.partitions_for(broker.topic("new")))
    finally:
        producer.close()


@pytest.mark.slow
def test_a_mistake_in_a_changed_file_changes_nothing(tmp_path: Path) -> None:
    broker = Configured(tmp_path, "[system]\nnum.partitions=3\n")
    broker.start()
    try:
        broker.config.write_text("[system]\nnum.partitions=nine\n")
        broker.wait_for_log("reload_refused")
        assert "server.ini:2: num.partitions is a number, not 'nine'" in broker.log_text()
        assert partitions_of_new_topic(broker) == 3
    finally:
        broker.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "num.partition=2"], "did you mean num.partitions?"),
        (["--set", "num.partitions=0"], "lies between 1 and"),
        (["--set", "listeners=SSL://:9093"], "use PLAINTEXT://"),
        (["--set", "advertised.listeners=PLAINTEXT://0.0.0.0:9092"], "cannot connect to 0.0.0.0"),
        (["--config", "missing.ini"], "No such file"),
    ],
)
def test_wrong_settings_are_one_sentence_and_exit_code_2(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kbroker", "start", "--data", str(tmp_path / "data"), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
