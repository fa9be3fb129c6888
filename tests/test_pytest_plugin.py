"""The fixtures that the package gives to other projects, used as such a project would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parent.parent / "docs" / "testing.md"
INI = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"


def examples(heading: str) -> str:
    text = DOCS.read_text().partition(f"## {heading}\n")[2]
    found = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert found is not None
    return found.group(1)


def run(pytester: pytest.Pytester, program: str, *arguments: str) -> pytest.RunResult:
    pytester.makefile(".ini", pytest=INI)
    pytester.makepyfile(program)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize(("client", "passed"), [("kafka-python", 2), ("aiokafka", 1)])
def test_the_documented_example_passes(pytester: pytest.Pytester, client: str, passed: int) -> None:
    run(pytester, examples(client)).assert_outcomes(passed=passed)


@pytest.mark.slow
def test_each_xdist_worker_has_a_session_broker_of_its_own(pytester: pytest.Pytester) -> None:
    program = """
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it_runs(kbroker, number, worker_id):
            assert kbroker.is_running()
            with open("ports", "a") as file:
                print(worker_id, kbroker.port, file=file)
    """
    pytester.makefile(".ini", pytest=INI)
    pytester.makepyfile(program)
    result = pytester.runpytest_subprocess("-n", "2", "--rootdir", str(pytester.path), timeout=120)
    result.assert_outcomes(passed=6)
    pairs = {tuple(line.split()) for line in (pytester.path / "ports").read_text().splitlines()}
    assert len(pairs) == len({worker for worker, _ in pairs}) == len({port for _, port in pairs})


@pytest.mark.slow
def test_a_hundred_fresh_brokers_start_and_stop(pytester: pytest.Pytester) -> None:
    program = """
        import socket
        import pytest

        @pytest.mark.parametrize("number", range(100))
        def test_it_listens(kbroker_fresh, number):
            socket.create_connection(("127.0.0.1", kbroker_fresh.port), 5).close()
    """
    run(pytester, program).assert_outcomes(passed=100)


@pytest.mark.slow
def test_the_plugin_imports_no_broker_when_it_is_not_used(pytester: pytest.Pytester) -> None:
    program = """
        import sys

        def test_nothing_of_the_broker_is_loaded():
            loaded = {name for name in sys.modules if name.startswith("kbroker")}
            assert loaded == {"kbroker", "kbroker.pytest_plugin"}
    """
    run(pytester, program).assert_outcomes(passed=1)


@pytest.mark.slow
def test_settings_of_the_ini_file_reach_the_brokers(pytester: pytest.Pytester) -> None:
    pytester.makefile(".ini", pytest=INI + "kbroker_settings =\n    num.partitions=3\n")
    pytester.makepyfile(
        """
        from kafka import KafkaProducer

        def test_a_topic_has_three_partitions(kbroker):
            producer = KafkaProducer(bootstrap_servers=kbroker.bootstrap)
            assert producer.partitions_for(kbroker.topic()) == {0, 1, 2}
            producer.close()
        """
    )
    pytester.runpytest_subprocess(timeout=60).assert_outcomes(passed=1)
