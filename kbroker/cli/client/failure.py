"""What a command tells its user when it cannot go on: one sentence, and what to do.

The client raises it where the fact is known; the edge of the command line prints it and exits with
code 1. Kafka's error numbers are turned into sentences here, so that every command says the same.
"""

from __future__ import annotations

from kbroker.protocol.errors import error_name


class Failure(Exception):
    """A sentence for the user; `str(failure)` is all that is shown."""


class Unreachable(Failure):
    """Nobody answers at the address, or the connection was lost."""


class BrokerRefusal(Failure):
    """The broker answered with an error number."""

    def __init__(self, code: int, what: str, message: str | None = None) -> None:
        """`what` says what was tried; `message` is what the broker said about it."""
        name = error_name(code)
        said = (message or "").removeprefix(f"{name}: ").strip().rstrip(".")
        advice = _ADVICE.get(name, "")
        reason = "; ".join(part for part in (said if said != name else "", advice) if part)
        super().__init__(f"{what}: {reason} ({name})" if reason else f"{what}: {name}")
        self.code = code
        self.name = name


_ADVICE = {
    "CLUSTER_AUTHORIZATION_FAILED": "this client may not do that; ask who runs the cluster",
    "GROUP_AUTHORIZATION_FAILED": "this client may not do that; ask who runs the cluster",
    "TOPIC_AUTHORIZATION_FAILED": "this client may not use the topic; ask who runs the cluster",
    "INVALID_REPLICATION_FACTOR": "there are fewer brokers than copies wanted",
    "KAFKA_STORAGE_ERROR": "the broker's disk is full or failed; see its log",
    "LEADER_NOT_AVAILABLE": "the partition has no leader now; try again later",
    "NOT_ENOUGH_REPLICAS": "too few copies are in step for acks=all; try again later",
    "TOPIC_ALREADY_EXISTS": "choose another name, or change it with: kbroker topics alter",
    "REQUEST_TIMED_OUT": "the broker needed too long; the change may still happen",
}
