"""What only the client tests need: one JVM for all, and kafka-python imported without a warning."""

import warnings
from collections.abc import Iterator

import pytest

from tests.clients.java_driver import JavaDriver
from tests.support.java import Java

with warnings.catch_warnings():
    # kafka-python loads its schemas, at import, by a call that Python has deprecated.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka
    import kafka.admin  # noqa: F401


@pytest.fixture(scope="session")
def java_driver(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    """A JVM that obeys the tests, with the Java client and Kafka's command lines in it."""
    driver = JavaDriver(java, tmp_path_factory.mktemp("java-driver") / "stderr")
    try:
        yield driver
    finally:
        driver.close()
