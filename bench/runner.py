"""Runs rows on the servers in turns, so that whatever the machine does hits both alike.

Order within a row: A B, B A, A B ... The long-lived pair of servers is started once and warmed,
because a JVM that has just started would lose every comparison for the wrong reason. A row that
fails on a server says so and leaves the others alone.
"""

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.rows.base import Row
from bench.servers import SERVERS, Server
from bench.wire import BenchError, build_batch, plan_fetch, plan_produce


@dataclass(slots=True)
class RowResult:
    """What one row gave: figures by server, one dictionary a round."""

    row: Row
    rounds: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    took_s: float = 0.0


def say(text: str) -> None:
    """Progress, on standard error: standard output is the report."""
    print(text, file=sys.stderr, flush=True)


class Runner:
    """The servers of a bench run and the turns they take."""

    def __init__(self, folder: Path, names: list[str], rounds: int, warm_s: float) -> None:
        """Servers are started when the first row needs them."""
        self._servers = [SERVERS[name](folder) for name in names]
        self._rounds = rounds
        self._warm_s = warm_s

    @contextlib.contextmanager
    def stopping(self) -> Iterator[None]:
        """Stop all servers at the end, whatever happens."""
        try:
            yield
        finally:
            for server in self._servers:
                server.stop()
                shutil.rmtree(server.folder, ignore_errors=True)

    def run(self, row: Row) -> RowResult:
        """One row, all its rounds."""
        result = RowResult(row, {server.name: [] for server in self._servers})
        began = time.perf_counter()
        for server in self._servers:
            with self._noting(result, server):
                if not row.starts_servers:
                    self._make_ready(server)
                row.prepare(server)
        rounds = min(self._rounds, row.max_rounds)
        for turn in range(-row.warm_runs, rounds):
            order = self._servers if turn % 2 == 0 else self._servers[::-1]
            for server in order:
                if server.name in result.failures:
                    continue
                with self._noting(result, server):
                    figures = row.run(server)
                    if turn >= 0:
                        result.rounds[server.name].append(figures)
        for server in self._servers:
            with self._noting(result, server):
                row.clean(server)
        result.took_s = time.perf_counter() - began
        return result

    @contextlib.contextmanager
    def _noting(self, result: RowResult, server: Server) -> Iterator[None]:
        # The edge of the bench: a client library may raise anything here, and the other rows
        # and the other server are still worth measuring.
        try:
            yield
        except Exception as error:
            note = f"{type(error).__name__}: {error}"
            result.failures.setdefault(server.name, note)
            tail = server.log_tail()
            say(f"{result.row.name} failed on {server.name}: {note}")
            if tail not in note:
                say(tail)

    def _make_ready(self, server: Server) -> None:
        if server.alive():
            return
        say(f"starting {server.name}")
        seconds = server.start()
        say(f"{server.name} acknowledged its first record after {seconds:.2f} s; warming")
        self._warm(server)

    def _warm(self, server: Server) -> None:
        """Small and large produces and fetches for a while, before anything counts."""
        small, large = build_batch(100, 0), build_batch(1024, 16 << 10)
        deadline = time.monotonic() + self._warm_s
        topics = [server.new_topic_name("warm") for _ in range(2)]
        with server.connect() as client:
            client.create_topics(topics)
            small_plan = plan_produce(topics[:1], small, acks=1, slots=64)
            large_plan = plan_produce(topics[1:], large, acks=-1, slots=8)
            fetch = plan_fetch(topics[1], len(large.data))
            turn = 0
            while time.monotonic() < deadline:
                client.produce(small_plan, 1000, 32, turn * 1000)
                client.produce(large_plan, 100, 5, turn * 100 * large.records)
                turn += 1
                client.fetch(fetch, len(large.data), large.records, turn * 100 * large.records, 200)
            client.delete_topics(topics)
        server.settle(topics)


def choose(rows: list[Row], wanted: str | None, with_optional: bool) -> list[Row]:
    """Rows by a comma-separated list of names or beginnings of names; all of them by default."""
    if not wanted:
        return [row for row in rows if with_optional or not row.optional]
    chosen: list[Row] = []
    for name in wanted.split(","):
        exact = [row for row in rows if row.name == name]
        found = exact or [row for row in rows if row.name.startswith(name)]
        if not found:
            known = ", ".join(row.name for row in rows)
            raise BenchError(f"no row begins with {name!r}; rows are {known}")
        chosen += [row for row in found if row not in chosen]
    return chosen
