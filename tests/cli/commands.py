"""How the tests run the command line: in this process for speed, or in one of its own.

The client, the sockets and the broker are real in both. A process of its own is for what only a
process shows: signals, pipes that close, what is imported.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.needs import ROOT

TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Done:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    def check(self) -> "Done":
        """It must have worked."""
        assert self.code == 0, f"exit code {self.code}\n{self.out}\n{self.err}"
        return self

    def refused(self, code: int = 1) -> str:
        """It must have failed in one sentence on standard error, without a traceback: that one."""
        assert self.code == code, f"exit code {self.code}\n{self.out}\n{self.err}"
        assert "Traceback" not in self.err
        if code == 1:
            assert self.err.startswith("kbroker: "), self.err
            assert self.err.count("\n") == 1, self.err
        return self.err


Run = Callable[..., Done]
"""run(*words, stdin=b"") -> Done"""


def command_line(words: Sequence[str]) -> list[str]:
    """The command as a process of its own."""
    return [sys.executable, "-m", "kbroker", *words]


def run_process(
    *words: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
) -> Done:
    """Runs a command in a process of its own, with some more environment."""
    done = subprocess.run(
        command_line(words),
        input=stdin,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def start_process(words: Sequence[str], output: Path) -> subprocess.Popen[bytes]:
    """Starts a command whose standard input is a pipe and whose outputs go to one file."""
    with output.open("wb") as file:
        return subprocess.Popen(
            command_line(words),
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
        )


def without_what_varies(text: str) -> str:
    """Replaces ids, times, ports and sizes of disks, which no example can foretell."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", "TIME", text)
    text = re.sub(r"\b[\w-]{22}\b", "ID", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    return re.sub(r"[\d.]+ [KMGTP]iB free of [\d.]+ [KMGTP]iB", "ROOM", text)
