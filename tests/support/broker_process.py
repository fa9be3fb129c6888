"""kbroker as its users run it: `kbroker start` in a process of its own, reached over a real socket.

A crash test kills the process, a restart test starts it again on the same data and port. What the
broker printed is kept in files beside its data, so nothing blocks on a full pipe and a failing test
can show it.
"""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.ports import LOOPBACK
from tests.support.waiting import wait_until

START_TIMEOUT_S = 20  # it takes a third of a second; the rest is for a machine with other work
STOP_TIMEOUT_S = 20
LISTENING = re.compile(rf"listening on {re.escape(LOOPBACK)}:(\d+)")


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

    @property
    def bootstrap(self) -> str:
        """The address that clients are given."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        return self._running().pid

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

    def start(self) -> "BrokerProcess":
        """Start the broker, and return once it says where it listens."""
        assert not self.is_running(), f"kbroker is already running on {self.bootstrap}"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self._stdout.open("ab") as stdout, self._stderr.open("ab") as stderr:
            printed_before = stdout.tell()
            process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
            )
        self._process = process

        def port_or_end() -> re.Match[str] | bool | None:
            """The line that says where it listens, or that the process has ended."""
            printed = self._stdout.read_bytes()[printed_before:].decode(errors="replace")
            return LISTENING.search(printed) or process.poll() is not None

        try:
            said = wait_until(port_or_end, timeout_s=START_TIMEOUT_S, what="kbroker to listen")
        except TimeoutError as error:
            self.kill()
            raise AssertionError(f"{error}; it logged:\n{self.log_text()}") from None
        if not isinstance(said, re.Match):
            raise AssertionError(
                f"kbroker ended with {process.returncode} before it listened; it logged:\n"
                f"{self.log_text()}"
            )
        self.port = int(said[1])
        return self

    def stop(self) -> None:
        """SIGTERM, and wait for the clean stop that it promises: everything synced, exit code 0."""
        process = self._running()
        process.terminate()
        try:
            exit_code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"kbroker did not stop within {STOP_TIMEOUT_S} s of SIGTERM; it logged:\n"
                f"{self.log_text()}"
            ) from None
        assert exit_code == 0, (
            f"kbroker ended with {exit_code} after SIGTERM; it logged:\n{self.log_text()}"
        )

    def kill(self) -> None:
        """SIGKILL: what was not handed to the kernel is lost."""
        process = self._running()
        process.kill()
        process.wait()

    def restart(self) -> None:
        """A clean stop and a start on the same data and port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Leave no process behind: stops the broker if a test has not done so already."""
        if self.is_running():
            self.stop()

    def stdout_text(self) -> str:
        """What all the starts so far printed on standard output."""
        return self._stdout.read_text(errors="replace") if self._stdout.exists() else ""

    def log_text(self) -> str:
        """What all the starts so far logged (standard error)."""
        return self._stderr.read_text(errors="replace") if self._stderr.exists() else ""

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "kbroker was never started"
        assert self._process.poll() is None, (
            f"kbroker has ended with {self._process.returncode}; it logged:\n{self.log_text()}"
        )
        return self._process
