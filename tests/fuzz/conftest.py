"""Tests here run on uvloop, as the broker does."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping

import pytest
import uvloop

from tests.net.running import connect as connect
from tests.net.running import refusals as refusals
from tests.net.running import running as running
from tests.net.running import start_broker as start_broker


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """One loop factory: the broker's."""
    return {"uvloop": uvloop.new_event_loop}
