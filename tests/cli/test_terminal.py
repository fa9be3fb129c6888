"""What only someone at a terminal sees: drawn tables, progress of long work, a question."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import TIMEOUT_S, Run, command_line
from tests.support.broker_process import BrokerProcess
from tests.support.needs import ROOT

pytestmark = pytest.mark.slow

BOLD = "\x1b[1m"


def run_at_a_terminal(*words: str, typed: bytes = b"") -> tuple[int, str]:
    """Runs a command whose standard streams are a terminal; its exit code and all it printed."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        command_line(words), stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment
    )
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other side has closed
            break
        if not data:
            break
        shown += data
    os.close(ours)
    return process.wait(TIMEOUT_S), shown.decode()


def test_a_table_is_drawn(broker: BrokerProcess, ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name).check()
    code, shown = run_at_a_terminal(
        "topics", "describe", topic_name, "--bootstrap", broker.bootstrap
    )
    assert code == 0
    assert BOLD in shown
    assert "EARLIEST" in shown


def test_progress_is_drawn_for_long_work_and_not_for_short(
    broker: BrokerProcess, topic_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a line\n" * 30)
    address = ("--bootstrap", broker.bootstrap)
    _, short = run_at_a_terminal("produce", topic_name, str(file), *address)
    assert "writing" not in short
    code, long = run_at_a_terminal("produce", topic_name, str(file), "--rate", "20", *address)
    assert code == 0
    assert "writing" in long
    assert "wrote 30 records" in long


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_deleting_asks_first(
    broker: BrokerProcess, ask: Run, topic_name: str, answer: bytes, code: int
) -> None:
    ask("topics", "create", topic_name).check()
    ended, shown = run_at_a_terminal(
        "topics", "delete", topic_name, "--bootstrap", broker.bootstrap, typed=answer
    )
    assert f"Delete {topic_name} with all records? [y/N]" in shown
    assert ended == code
    assert ask("topics", "describe", topic_name).code == 1 - code
