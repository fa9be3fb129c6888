"""pytest fixtures that give a running broker: `kbroker` (one a session) and `kbroker_fresh` (one a
test).

Installed with the package; nothing is imported or started before a test asks for it. Under xdist
each worker has a session broker of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kbroker.broker_process import BrokerProcess


def _running(data_dir: Path, settings: list[str]) -> Iterator[BrokerProcess]:
    from kbroker.broker_process import BrokerProcess

    pairs = dict(line.split("=", 1) for line in settings)
    broker = BrokerProcess(data_dir, settings=pairs).start()
    try:
        yield broker
    finally:
        broker.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the ini option `kbroker_settings`."""
    parser.addini(
        "kbroker_settings", "settings of the fixtures' brokers, key=value a line", "linelist"
    )


@pytest.fixture(scope="session")
def kbroker(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[BrokerProcess]:
    """A broker for the whole session, on a free port: `.bootstrap`, `.topic()`, `.restart()`,
    `.kill()`."""
    folder = tmp_path_factory.mktemp("kbroker") / "data"
    yield from _running(folder, pytestconfig.getini("kbroker_settings"))


@pytest.fixture
def kbroker_fresh(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[BrokerProcess]:
    """An empty broker for this test alone, which it may stop, kill and start again."""
    folder = tmp_path_factory.mktemp("kbroker-fresh") / "data"
    yield from _running(folder, pytestconfig.getini("kbroker_settings"))
