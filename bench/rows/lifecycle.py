"""A server's first moments and its memory, each on a process started for the run."""

import shutil
import time

from bench.rows.base import Metric, Row, Sizes, at_most
from bench.rows.consume import fill
from bench.servers import Server
from bench.wire import build_batch, plan_fetch


class Start(Row):
    """From starting the process to the first acknowledged record, on an empty data folder."""

    warm_runs = 0
    starts_servers = True

    def __init__(self, sizes: Sizes) -> None:
        """The goal is for kbroker's own time."""
        metrics = (
            Metric("start", "s", at_most(0.3), "kbroker"),
            Metric("cpu", "CPU-s until then"),
        )
        super().__init__(sizes, "start", "start to first acked produce", metrics)

    def run(self, server: Server) -> dict[str, float]:
        """Start, and stop again. Formatting Kafka's storage is not counted."""
        own = type(server)(server.folder.parent)
        try:
            seconds = own.start()
            return {"start": seconds, "cpu": own.cpu_s()}
        finally:
            own.stop()
            shutil.rmtree(own.folder)


class Memory(Row):
    """Resident memory when idle, and after a load of small and large batches written and read."""

    warm_runs = 0
    starts_servers = True
    max_rounds = 3
    IDLE_S = 2.0

    def __init__(self, sizes: Sizes) -> None:
        """The goals are for kbroker's own memory."""
        metrics = (
            Metric("idle", "MB", at_most(45), "kbroker"),
            Metric("loaded", "MB", at_most(80), "kbroker"),
        )
        super().__init__(sizes, "memory", "resident memory, idle and after load", metrics)

    def run(self, server: Server) -> dict[str, float]:
        """Start a server, look, load it, look again."""
        own = type(server)(server.folder.parent)
        try:
            own.start()
            time.sleep(self.IDLE_S)
            idle_mb = own.rss_mb()
            small, large = build_batch(100, 0), build_batch(1024, 900_000)
            fill(own, "small", small, self.sizes(20_000))
            batches = self.sizes(300)
            topic = fill(own, "large", large, batches)
            with own.connect() as client:
                plan = plan_fetch(topic, len(large.data))
                end = batches * large.records
                client.fetch(plan, len(large.data), large.records, end, batches)
                return {"idle": idle_mb, "loaded": own.rss_mb()}
        finally:
            own.stop()
            shutil.rmtree(own.folder)
