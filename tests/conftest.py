"""What every test can ask for: a running kbroker, a real Apache Kafka, a topic of its own."""

import re
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support import needs
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.java import Java, java_with_kafka

JAVA_FIXTURES = {"apache_kafka", "java"}
LOG_TAIL_CHARACTERS = 6000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a JVM as `java`, so that the quick loop cannot forget to leave it out."""
    for item in items:
        if JAVA_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.java)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the servers' logs beside the failure of a test that used them."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, BrokerProcess | ApacheKafka):
                report.sections.append((f"log of {name}", value.log_text()[-LOG_TAIL_CHARACTERS:]))
    return report


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses, and that says in a log which test it was."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:80].strip("-")
    return f"{readable}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One kbroker for the whole session. A test that stops or fills it takes `fresh_broker`."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data").start()
    try:
        yield process
    finally:
        process.close()


@pytest.fixture
def fresh_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A kbroker of the test's own, empty, which it may stop, kill and start again."""
    process = BrokerProcess(tmp_path / "broker").start()
    try:
        yield process
    finally:
        process.close()


@pytest.fixture(scope="session")
def java() -> Java:
    """Java with Apache Kafka's jars: Kafka's command lines and the Java client."""
    needs.or_skip(needs.java)
    needs.or_skip(needs.kafka_libs)
    return java_with_kafka()


@pytest.fixture(scope="session")
def kcat() -> Path:
    """The kcat program."""
    return needs.or_skip(needs.kcat)


@pytest.fixture(scope="session")
def apache_kafka(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One real Apache Kafka for the session (for each xdist worker), started on first use."""
    kafka = ApacheKafka(java, tmp_path_factory.mktemp("apache-kafka"))
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.stop()
