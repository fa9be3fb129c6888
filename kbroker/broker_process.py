"""kbroker in a process of its own, for tests: start, restart, kill, and start again on the same
data.

What the broker printed is kept in files beside its data, so that nothing blocks on a full pipe and
a failing test can show it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 20  # it takes a fraction of a second; the rest is for a machine with other work
STOP_TIMEOUT_S = 20
_POLL_INTERVAL_S = 0.005
_LISTENING = re.compile(rf"listening on {re.escape(LOOPBACK)}:(\d+)")


class BrokerProcess:
    """One kbroker on `data_dir`, which is created where it is missing.

    Port 0 lets the broker choose; a restart keeps the port that was chosen, as clients expect.
    `settings` go to the command line as --set. `command_prefix` runs the broker under another
    program that becomes it, such as ("prlimit", "--nofile=256").
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        *,
        command_prefix: Sequence[str] = (),
    ) -> None:
        self.data_dir = data_dir
        self.port = port
        self.settings = dict(settings or {})
        self._command_prefix = list(command_prefix)
        self._stdout = data_dir.with_name(f"{data_dir.name}.stdout")
        self._stderr = data_dir.with_name(f"{data_dir.name}.stderr")
        self._process: subprocess.Popen[bytes] | None = None
        self._topic_count = 0

    @property
    def bootstrap(self) -> str:
        """The address that clients are given."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        return self._running().pid

    def topic(self, prefix: str = "topic") -> str:
        """A topic name that this broker has not given out before; the topic is made on first
        use."""
        self._topic_count += 1
        return f"{prefix}-{self._topic_count}"

    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def command(self) -> list[str]:
        """The command line of the next start."""
        settings = [f"--set={name}={value}" for name, value in self.settings.items()]
        return [
            *(*self._command_prefix, sys.executable, "-m", "kbroker", "start"),
            *("--host", LOOPBACK, "--port", str(self.port), "--data", str(self.data_dir)),
            *settings,
        ]

    def start(self) -> BrokerProcess:
        """Starts the broker, and returns once it says where it listens."""
        if self.is_running():
            raise RuntimeError(f"kbroker is already running on {self.bootstrap}")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self._stdout.open("ab") as stdout, self._stderr.open("ab") as stderr:
            printed_before = stdout.tell()
            process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
            )
        self._process = process
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            printed = self._stdout.read_bytes()[printed_before:].decode(errors="replace")
            said = _LISTENING.search(printed)
            if said is not None:
                self.port = int(said[1])
                return self
            if process.poll() is not None:
                raise self._failed(f"ended with {process.returncode} before it listened")
            if time.monotonic() > deadline:
                self.kill()
                raise self._failed(f"did not listen within {START_TIMEOUT_S} s")
            time.sleep(_POLL_INTERVAL_S)

    def stop(self) -> None:
        """SIGTERM, and waits for the clean stop it promises: everything synced, exit code 0."""
        process = self._running()
        process.terminate()
        try:
            exit_code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failed(f"did not stop within {STOP_TIMEOUT_S} s of SIGTERM") from None
        if exit_code != 0:
            raise self._failed(f"ended with {exit_code} after SIGTERM")

    def kill(self) -> None:
        """SIGKILL: what was not handed to the kernel is lost."""
        process = self._running()
        process.kill()
        process.wait()

    def restart(self) -> None:
        """A start on the same data and port, after a clean stop if it is running."""
        if self.is_running():
            self.stop()
        self.start()

    def close(self) -> None:
        """Leaves no process behind: stops the broker if nobody has done so already."""
        if self.is_running():
            self.stop()

    def stdout_text(self) -> str:
        """What all the starts so far printed on standard output."""
        return self._stdout.read_text(errors="replace") if self._stdout.exists() else ""

    def log_text(self) -> str:
        """What all the starts so far logged (standard error)."""
        return self._stderr.read_text(errors="replace") if self._stderr.exists() else ""

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("kbroker was never started")
        if self._process.poll() is not None:
            raise self._failed(f"has ended with {self._process.returncode}")
        return self._process

    def _failed(self, what: str) -> RuntimeError:
        return RuntimeError(f"kbroker {what}; it logged:\n{self.log_text()}")
