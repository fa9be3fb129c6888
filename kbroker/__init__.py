"""kbroker: a Kafka-wire-compatible broker in Python."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbroker.embedded import Broker as Broker

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`from kbroker import Broker` without making every import of the package pay for it."""
    if name == "Broker":
        from kbroker.embedded import Broker

        return Broker
    raise AttributeError(f"module 'kbroker' has no attribute {name!r}")
