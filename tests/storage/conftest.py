"""Brokers inside the test's own loop, for faults that no real disk gives on demand."""

from tests.net.running import start_broker as start_broker
