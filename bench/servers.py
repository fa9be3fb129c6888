"""The two servers under comparison, each a real process on a free port in a folder of its own.

Both are used with what they give by default; Apache Kafka as a single combined broker and
controller, with the heap of its own start script and its default flushing. Readiness is the first
answer to a real request, not a line in a log.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from bench import usage
from bench.raw_client import RawClient
from bench.wire import BenchError, build_batch, plan_produce

REPOSITORY = Path(__file__).resolve().parent.parent
START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 20.0


def kafka_libs() -> Path:
    """The folder of Apache Kafka's jars: $KBROKER_KAFKA_LIBS, or .tools/ of the repository."""
    named = os.environ.get("KBROKER_KAFKA_LIBS")
    libs = Path(named) if named else REPOSITORY / ".tools" / "kafka-4.3.1" / "libs"
    if not any(libs.glob("kafka-clients-*.jar")):
        raise BenchError(f"no Apache Kafka jars in {libs}; set KBROKER_KAFKA_LIBS")
    return libs


def kafka_version() -> str:
    """The version that the jars carry in their names."""
    return min(kafka_libs().glob("kafka-clients-*.jar")).stem.removeprefix("kafka-clients-")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Server:
    """A broker process: start it, look at it, stop it."""

    name: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        """Use an own new folder below `folder`."""
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=folder))
        self.data = self.folder / "data"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._topic_number = 0

    def _prepare(self) -> list[str]:
        """Write what the server needs; give its command line. The clock is not running yet."""
        raise NotImplementedError

    def start(self) -> float:
        """Start, produce one acknowledged record; give the seconds from the one to the other."""
        self.port = _free_port()
        command = self._prepare()
        with (self.folder / "log.txt").open("ab") as log:
            began = time.perf_counter()
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._first_produce()
        except BaseException:
            self.stop()
            raise
        return time.perf_counter() - began

    def _first_produce(self) -> None:
        batch = build_batch(100, 0)
        deadline = time.monotonic() + START_DEADLINE_S
        topic = self.new_topic_name("first")
        plan = plan_produce([topic], batch, acks=1, slots=1)
        while True:
            if time.monotonic() > deadline:
                raise BenchError(f"{self.name} did not start:\n{self.log_tail()}")
            if not self.alive():
                raise BenchError(f"{self.name} ended while starting:\n{self.log_tail()}")
            try:
                with RawClient(self.port, timeout_s=START_DEADLINE_S) as client:
                    client.check_versions()
                    client.create_topics([topic])
                    client.produce(plan, 1, 1)
                return
            except OSError:
                time.sleep(0.002)  # not listening yet

    def stop(self) -> None:
        """End the process: asked first, killed if it does not listen."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_DEADLINE_S)

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def _pid(self) -> int:
        if self._process is None or self._process.poll() is not None:
            raise BenchError(f"{self.name} is not running:\n{self.log_tail()}")
        return self._process.pid

    def cpu_s(self) -> float:
        """CPU seconds used so far."""
        return usage.cpu_s(self._pid())

    def rss_mb(self) -> float:
        """Resident memory now."""
        return usage.rss_mb(self._pid())

    def log_tail(self) -> str:
        """The last lines of what the server wrote, for error messages."""
        log = self.folder / "log.txt"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(lines[-15:])

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    def connect(self) -> RawClient:
        """A new raw connection."""
        return RawClient(self.port)

    def new_topic_name(self, label: str) -> str:
        """A name not used before on this server; same length on both servers."""
        self._topic_number += 1
        return f"bench-{label}-{self._topic_number:05d}"

    def settle(self, topics: list[str], deadline_s: float = 5.0) -> None:
        """Wait until deleted topics have left the disk, so that this work falls in no one's run."""
        deadline = time.monotonic() + deadline_s
        prefixes = tuple(topics)
        while time.monotonic() < deadline:
            # Folders vanish while we look; os.walk passes over them.
            names = (name for _, folders, _ in os.walk(self.data) for name in folders)
            if not any(name.startswith(prefixes) for name in names):
                return
            time.sleep(0.05)


class Kbroker(Server):
    """kbroker, by the interpreter that runs this."""

    name = "kbroker"

    def _prepare(self) -> list[str]:
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--data", str(self.data)]
        return [sys.executable, "-m", "kbroker", "start", *where]


class Kafka(Server):
    """Apache Kafka in KRaft mode, one process."""

    name = "kafka"

    def _prepare(self) -> list[str]:
        controller = _free_port()
        properties = self.folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # Deleted topics leave the disk at once instead of a minute later, in another's run.
            "log.segment.delete.delay.ms": "500",
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        java = ["java", "-cp", f"{kafka_libs()}/*"]
        if not self.data.exists():
            cluster = ["-t", "kbroker-bench-cluster0", "-c", str(properties)]
            subprocess.run(
                [*java, "kafka.tools.StorageTool", "format", *cluster],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=START_DEADLINE_S,
            )
        options = shlex.split(os.environ.get("KBROKER_KAFKA_JVM_OPTIONS", "-Xmx1G"))
        return ["java", *options, *java[1:], "kafka.Kafka", str(properties)]


SERVERS: dict[str, type[Server]] = {"kbroker": Kbroker, "kafka": Kafka}
