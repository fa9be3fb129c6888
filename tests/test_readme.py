"""The README is what a stranger tries first: what it shows must work as it stands."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from kbroker.cli.start import first_steps
from tests.support.broker_process import BrokerProcess
from tools.docs import README, SETTINGS, readme_page, settings_page


def test_the_table_of_apis_is_the_registry() -> None:
    text = README.read_text()
    assert readme_page(text) == text, "run: python -m tools.docs"


def test_the_page_of_settings_is_their_declarations() -> None:
    assert SETTINGS.read_text() == settings_page(), "run: python -m tools.docs"


@pytest.mark.slow
def test_the_first_example_produces_and_consumes(fresh_broker: BrokerProcess) -> None:
    example = re.search(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert example is not None
    program = example.group(1).replace("127.0.0.1:9092", fresh_broker.bootstrap)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "0 b'hello'\n"


@pytest.mark.slow
def test_the_line_that_the_broker_prints_produces_and_consumes(fresh_broker: BrokerProcess) -> None:
    line = first_steps(sys.executable, fresh_broker.bootstrap)
    assert line in fresh_broker.stdout_text()
    program = line.partition(" && ")[2]  # the client is installed already
    done = subprocess.run(
        program, shell=True, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.endswith("[(0, b'hello')]\n")
