"""A real Apache Kafka, one process that is broker and controller at once: the oracle of the tests.

Tests ask it what the right answer to a request is, so it runs with Kafka's own defaults, except
where a single broker needs otherwise (replication factors) or where only waiting is saved.
"""

import base64
import os
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.java import Java, KafkaTool
from tests.support.ports import LOOPBACK, answers_api_versions, free_port
from tests.support.waiting import wait_until

START_TIMEOUT_S = 45
STOP_TIMEOUT_S = 20
START_ATTEMPTS = 3  # a port chosen beforehand can be gone by the time that Kafka binds it
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",  # its default of 50 costs 50 folders on first use
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class ApacheKafka:
    """One Apache Kafka in `folder`: its settings, its data and what it said.

    `settings` are server.properties that win over the ones above; `jvm_options` win over the
    quick-start ones (a benchmark wants others than a test).
    """

    def __init__(
        self,
        java: Java,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = ("-Xmx512m",),
    ) -> None:
        self.data_dir = folder / "data"
        self.port = 0
        self._java = java
        self._properties = folder / "server.properties"
        self._log = folder / "server.log"
        self._settings = {**SETTINGS, **(settings or {})}
        self._jvm_options = [*jvm_options, "-Dkbroker.log.level=INFO"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address that clients are given."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running Kafka."""
        assert self._process is not None, "Apache Kafka is not running"
        return self._process.pid

    def log_text(self) -> str:
        """All that the server printed, of every attempt to start it."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Format the data folder if it is new, start the server and wait until it answers."""
        for attempt in range(1, START_ATTEMPTS + 1):
            self._write_properties()
            self._format()
            if self._start_once():
                return
            if attempt == START_ATTEMPTS or "Address already in use" not in self.log_text():
                break
        raise RuntimeError(f"Apache Kafka did not start; it said:\n{self.log_text()[-8000:]}")

    def stop(self) -> None:
        """Ask the server to stop, and end it if it does not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _write_properties(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.port, controller_port = free_port(), free_port()
        addresses = {
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{LOOPBACK}:{controller_port}",
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
            "log.dirs": str(self.data_dir),
        }
        lines = [f"{name}={value}\n" for name, value in {**addresses, **self._settings}.items()]
        self._properties.write_text("".join(lines), encoding="utf-8")

    def _format(self) -> None:
        if (self.data_dir / "meta.properties").exists():
            return
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # "=" keeps a cluster id that begins with "-" from being read as an option.
        self._java.run(
            KafkaTool.STORAGE, "format", f"--cluster-id={cluster_id}", "-c", str(self._properties)
        ).check()

    def _start_once(self) -> bool:
        command = self._java.command(
            "kafka.Kafka", str(self._properties), options=self._jvm_options
        )
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self._process = process
        try:
            wait_until(
                lambda: process.poll() is not None or answers_api_versions(self.port),
                timeout_s=START_TIMEOUT_S,
                what=f"Apache Kafka on {self.bootstrap}",
            )
        except TimeoutError:
            self.stop()
        if self._process is None or process.poll() is not None:
            self._process = None
            return False
        return True


def write_class_archive(java: Java) -> None:
    """Make the archive that lets later JVMs start in half the time, of one start and stop."""
    unfinished = java.class_archive.with_suffix(f".{os.getpid()}.jsa")
    with tempfile.TemporaryDirectory(prefix="kbroker-class-archive-") as folder:
        kafka = ApacheKafka(
            java, Path(folder), jvm_options=(f"-XX:ArchiveClassesAtExit={unfinished}",)
        )
        try:
            kafka.start()
        finally:
            kafka.stop()
    unfinished.rename(java.class_archive)
