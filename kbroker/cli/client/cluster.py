"""The cluster as a client sees it: its brokers, its topics, and a connection to whoever leads.

Any broker answers questions about the cluster; records and offsets come only from a partition's
leader, at the address that the cluster itself gives. When that address cannot be reached though the
bootstrap address can, the message says so: it is the listener mistake that everybody makes once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from kbroker.cli.client.address import Address
from kbroker.cli.client.connection import CONNECT_TIMEOUT_S, Answer, Connection
from kbroker.cli.client.failure import BrokerRefusal, Failure, Unreachable
from kbroker.protocol.errors import (
    ERRORS,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
)
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kbroker.protocol.schema import Message

RETRY_EVERY_S = 0.1
CREATION_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition and who holds it; the leader is -1 while there is none."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions, in order."""

    name: str
    id: bytes
    is_internal: bool
    partitions: tuple[Partition, ...]


class Cluster:
    """Connections to a cluster, opened when they are needed."""

    def __init__(
        self, bootstrap: Sequence[Address], *, timeout_s: float = CONNECT_TIMEOUT_S
    ) -> None:
        self.brokers: dict[int, Address] = {}
        self.racks: dict[int, str | None] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._timeout_s = timeout_s
        self.bootstrap = self._first_that_answers(bootstrap)
        self._nodes: dict[int, Connection] = {}

    def _first_that_answers(self, addresses: Sequence[Address]) -> Connection:
        first_problem: Unreachable | None = None
        for address in addresses:
            try:
                return Connection(address, timeout_s=self._timeout_s)
            except Unreachable as problem:
                first_problem = first_problem or problem
        assert first_problem is not None, "there is at least one address"
        raise first_problem

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections."""
        for connection in {self.bootstrap, *self._nodes.values()}:
            connection.close()

    # Who is there

    def node(self, node_id: int) -> Connection:
        """A connection to one broker, by its number."""
        connection = self._nodes.get(node_id)
        if connection is None:
            if node_id not in self.brokers:
                self.refresh()
            address = self.brokers.get(node_id)
            if address is None:
                raise Failure(f"there is no broker {node_id} in the cluster; see: kbroker status")
            connection = self._nodes[node_id] = self._connect_node(node_id, address)
        return connection

    def _connect_node(self, node_id: int, address: Address) -> Connection:
        if address == self.bootstrap.address:
            return self.bootstrap
        try:
            return Connection(address, timeout_s=self._timeout_s)
        except Unreachable as problem:
            raise Unreachable(
                f"{self.bootstrap.address} answers, but says that broker {node_id} is at"
                f" {address}, and there: {problem}. If that address is wrong, set"
                " advertised.listeners on the broker"
            ) from None

    def refresh(self) -> None:
        """Asks again which brokers there are."""
        self.metadata([])

    def ask_controller(self, request: Message, answer: type[Answer], *, timeout_s: float) -> Answer:
        """Asks for a change of the cluster.

        Brokers of today hand it on to the controller; those that cannot say so, and are obeyed.
        """
        response = self.bootstrap.ask(request, answer, timeout_s=timeout_s)
        if _not_controller(response):
            self.refresh()
            response = self.node(self.controller_id).ask(request, answer, timeout_s=timeout_s)
        return response

    # Topics

    def metadata(self, names: Iterable[str] | None, *, create: bool = False) -> MetadataResponse:
        """Asks about topics by name, or about all (None); `create` lets the broker make them."""
        topics = [MetadataRequestTopic(name=name) for name in names] if names is not None else None
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=create,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = self.bootstrap.ask(request, MetadataResponse)
        if response.error_code:
            raise BrokerRefusal(response.error_code, "cannot learn about the cluster")
        self.brokers = {node.node_id: Address(node.host, node.port) for node in response.brokers}
        self.racks = {node.node_id: node.rack for node in response.brokers}
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        return response

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        found = [_topic(described) for described in self.metadata(None).topics]
        return sorted(found, key=lambda topic: topic.name)

    def topic(self, name: str) -> Topic:
        """One topic; Failure, with a near name if there is one, if it does not exist."""
        topic = self.find_topic(name)
        if topic is None:
            raise self.no_such_topic(name)
        return topic

    def find_topic(self, name: str) -> Topic | None:
        """One topic, or None if it does not exist."""
        return self._find(name, create=False, wait_s=CREATION_WAIT_S)

    def find_or_create_topic(self, name: str) -> tuple[Topic, bool]:
        """A topic, and whether the broker has just made it, as its settings allow."""
        topic = self.find_topic(name)
        if topic is not None:
            return topic, False
        topic = self._find(name, create=True, wait_s=CREATION_WAIT_S)
        if topic is None:
            raise Failure(
                f"there is no topic {name} and the broker does not make topics by itself;"
                f" make it with: kbroker topics create {name}"
            )
        return topic, True

    def no_such_topic(self, name: str) -> Failure:
        """The sentence for a topic that does not exist."""
        from difflib import get_close_matches

        near = get_close_matches(name, [topic.name for topic in self.topics()], 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return Failure(
            f"there is no topic {name} on {self.bootstrap.address}{hint}"
            " (all topics: kbroker topics list)"
        )

    def _find(self, name: str, *, create: bool, wait_s: float) -> Topic | None:
        deadline = time.monotonic() + wait_s
        while True:
            described = self.metadata([name], create=create).topics[0]
            code = described.error_code
            if code == UnknownTopicOrPartition.code and not create:
                return None
            # Apache Kafka first says that a new topic is unknown, then that it has no leader.
            electing = any(part.leader_id < 0 for part in described.partitions)
            if not code and not (electing and time.monotonic() < deadline):
                return _topic(described)
            if code and code not in (UnknownTopicOrPartition.code, LeaderNotAvailable.code):
                raise BrokerRefusal(code, f"cannot use topic {name}")
            if time.monotonic() >= deadline:
                return None
            time.sleep(RETRY_EVERY_S)


def is_retriable(code: int) -> bool:
    """Whether Kafka's clients try again after this error."""
    error = ERRORS.get(code)
    return error is not None and error.retriable


def _topic(described: MetadataResponseTopic) -> Topic:
    return Topic(
        name=described.name or "",
        id=described.topic_id,
        is_internal=described.is_internal,
        partitions=tuple(
            Partition(
                part.partition_index,
                part.leader_id,
                tuple(part.replica_nodes),
                tuple(part.isr_nodes),
            )
            for part in sorted(described.partitions, key=lambda part: part.partition_index)
        ),
    )


def _not_controller(response: Message) -> bool:
    """Whether every outcome in an answer is NOT_CONTROLLER: a broker too old to hand it on."""
    from kbroker.protocol.errors import NotController

    for field in ("topics", "responses", "results"):
        outcomes = getattr(response, field, None)
        if outcomes:
            return all(outcome.error_code == NotController.code for outcome in outcomes)
    return False
