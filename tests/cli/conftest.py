"""What the tests of the command line ask for: `run`, which runs a command and keeps its output."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.cli import main
from tests.cli.commands import Done, Run
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command in this process; `stdin` is what it finds on its standard input."""

    def run_command(*words: str, stdin: bytes = b"") -> Done:
        given = tmp_path / "stdin"
        given.write_bytes(stdin)
        capfd.readouterr()
        with given.open() as file, monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", file)
            code = main(list(words))
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return run_command


@pytest.fixture
def ask(run: Run, broker: BrokerProcess) -> Run:
    """Runs a command that talks to the session's broker."""
    return _with_bootstrap(run, broker.bootstrap)


@pytest.fixture
def ask_fresh(run: Run, fresh_broker: BrokerProcess) -> Run:
    """Runs a command that talks to a broker of the test's own."""
    return _with_bootstrap(run, fresh_broker.bootstrap)


def _with_bootstrap(run: Run, bootstrap: str) -> Callable[..., Done]:
    def asking(*words: str, stdin: bytes = b"") -> Done:
        return run(*words, "--bootstrap", bootstrap, stdin=stdin)

    return asking
