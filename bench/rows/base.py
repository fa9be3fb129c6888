"""What a row is: some work done to one server at a time, and the figures it gives.

A row prepares each server once, then runs in turns on one and the other. Amounts of work are fixed
before the run and the same for both, so a figure never depends on how long a server was allowed to
take.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bench import usage
from bench.raw_client import RawClient
from bench.servers import Server

RUN_DEADLINE_S = 180.0


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound from PERFORMANCE.md."""

    bound: float
    direction: Literal[">=", "<="]

    def reached_by(self, figure: float) -> bool:
        """Whether a figure keeps the bound."""
        return figure >= self.bound if self.direction == ">=" else figure <= self.bound

    def __str__(self) -> str:
        """As the table prints it."""
        return f"{self.direction} {self.bound:g}"


def at_least(bound: float) -> Goal:
    """More is better."""
    return Goal(bound, ">=")


def at_most(bound: float) -> Goal:
    """Less is better."""
    return Goal(bound, "<=")


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a row. Its goal bounds the ratio to Kafka, or kbroker's own figure."""

    key: str
    unit: str
    goal: Goal | None = None
    goal_is_for: Literal["ratio", "kbroker"] = "ratio"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Scales every amount of work: 1 for a full run, less for a quick one."""

    factor: float = 1.0

    def __call__(self, amount: int) -> int:
        """The scaled amount, never nothing."""
        return max(10, int(amount * self.factor))


class Row:
    """One line of PERFORMANCE.md's table, or a part of one."""

    # Runs that are thrown away before the first counted one: the JVM compiles what it runs often.
    warm_runs: ClassVar[int] = 1
    # Runs only when named, or with --java.
    optional: ClassVar[bool] = False
    # Starts servers of its own instead of using the long-lived pair.
    starts_servers: ClassVar[bool] = False
    max_rounds: ClassVar[int] = 100

    def __init__(self, sizes: Sizes, name: str, title: str, metrics: tuple[Metric, ...]) -> None:
        """Name it, and say which figures `run` gives."""
        self.sizes = sizes
        self.name = name
        self.title = title
        self.metrics = metrics

    def prepare(self, server: Server) -> None:
        """Make what all runs on this server share. Not measured."""

    def run(self, server: Server) -> dict[str, float]:
        """Do the work once; give the figures by the keys of the metrics."""
        raise NotImplementedError

    def clean(self, server: Server) -> None:
        """Undo `prepare`."""


@dataclass(slots=True)
class Meter:
    """Wall time and broker CPU of a stretch of work, and how busy everybody else was."""

    elapsed_s: float = 0.0
    broker_cpu_s: float = 0.0
    others_share: float = 0.0

    def figures(self, units: float, per: float) -> dict[str, float]:
        """Rate in units per second, broker CPU in seconds per `per` units."""
        return {
            "rate": units / self.elapsed_s,
            "cpu": self.broker_cpu_s / units * per,
            "others": self.others_share,
        }


@contextmanager
def metered(server: Server) -> Iterator[Meter]:
    """Measure the block. "Others" are all processes but the broker and this client."""
    meter = Meter()
    busy_s, own_s, broker_s = usage.machine_busy_s(), sum(os.times()[:4]), server.cpu_s()
    began = time.perf_counter()
    yield meter
    meter.elapsed_s = time.perf_counter() - began
    meter.broker_cpu_s = server.cpu_s() - broker_s
    busy_s, own_s = usage.machine_busy_s() - busy_s, sum(os.times()[:4]) - own_s
    spare_s = meter.elapsed_s * (os.cpu_count() or 1)
    meter.others_share = max(0.0, (busy_s - own_s - meter.broker_cpu_s) / spare_s)


@contextmanager
def fresh_topic(server: Server, label: str) -> Iterator[tuple[RawClient, str]]:
    """A new topic for one run and a raw connection; deleted after a run that went well."""
    topic = server.new_topic_name(label)
    with server.connect() as client:
        client.create_topics([topic])
        yield client, topic
        client.delete_topics([topic])
    server.settle([topic])


@dataclass(slots=True)
class Prepared:
    """What `prepare` made, by server."""

    topics: dict[str, list[str]] = field(default_factory=dict)

    def drop(self, server: Server) -> None:
        """Delete the topics of one server."""
        topics = self.topics.pop(server.name, [])
        if topics and server.alive():
            with server.connect() as client:
                client.delete_topics(topics)
            server.settle(topics)
