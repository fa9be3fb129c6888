"""Two brokers and one question: the fixture that runs a scenario on both and compares."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.differential.plain import differences
from tests.differential.scene import Scene
from tests.support.apache_kafka import SETTINGS, ApacheKafka
from tests.support.broker_process import BrokerProcess

Result = TypeVar("Result")


class Both:
    """Apache Kafka and kbroker, to be asked the same."""

    def __init__(self, kafka: ApacheKafka, kbroker: BrokerProcess, prefix: str) -> None:
        self._kafka = kafka
        self._kbroker = kbroker
        self._prefix = prefix

    def each(self, scenario: Callable[[Scene], Result]) -> tuple[Result, Result]:
        """What kbroker and what Apache Kafka tell the scenario."""
        with Scene(self._kafka.bootstrap, self._prefix) as scene:
            expected = scenario(scene)
        with Scene(self._kbroker.bootstrap, self._prefix) as scene:
            told = scenario(scene)
        return told, expected

    def agree(self, scenario: Callable[[Scene], Result]) -> Result:
        """Assert that both tell the scenario the same, and return what."""
        told, expected = self.each(scenario)
        parted = list(differences(told, expected))
        assert not parted, "\n".join(parted)
        return told


@pytest.fixture(scope="session")
def kbroker_twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A kbroker with the node id of the Apache Kafka that it is compared with."""
    settings = {"node.id": SETTINGS["node.id"]}
    process = BrokerProcess(tmp_path_factory.mktemp("twin") / "data", settings=settings).start()
    try:
        yield process
    finally:
        process.close()


@pytest.fixture
def both(apache_kafka: ApacheKafka, kbroker_twin: BrokerProcess, topic_name: str) -> Both:
    """The pair; topics of a test are named after it."""
    return Both(apache_kafka, kbroker_twin, topic_name)
