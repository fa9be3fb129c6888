"""Kafka's own producer benchmark, ProducerPerformance: the Java client at its defaults."""

import re
import subprocess

from bench.rows.base import (
    RUN_DEADLINE_S,
    Metric,
    Row,
    Sizes,
    at_least,
    at_most,
    fresh_topic,
    metered,
)
from bench.servers import Server, kafka_libs
from bench.wire import BenchError

_SUMMARY = re.compile(r"(\d+) records sent, ([\d.]+) records/sec .* 99\.9th")


class JavaProduce(Row):
    """Idempotent, acks=all, batches of 16 KB. The rate is the tool's own; CPU is the broker's."""

    optional = True

    def __init__(self, sizes: Sizes, name: str, record_bytes: int, count: int) -> None:
        """Records of one size."""
        metrics = (
            Metric("rate", "records/s", at_least(1.0)),
            Metric("cpu", "CPU-s/M records", at_most(0.4)),
        )
        super().__init__(sizes, name, f"Java produce, {record_bytes} B, default batches", metrics)
        self._record_bytes = record_bytes
        self._count = sizes(count)

    def run(self, server: Server) -> dict[str, float]:
        """A new client process and topic each time."""
        with fresh_topic(server, "java") as (client, topic):
            tool = ["java", "-Xmx512M", "-cp", f"{kafka_libs()}/*"]
            tool += ["org.apache.kafka.tools.ProducerPerformance"]
            tool += ["--bootstrap-server", server.bootstrap, "--topic", topic, "--throughput", "-1"]
            tool += ["--num-records", str(self._count), "--record-size", str(self._record_bytes)]
            with metered(server) as meter:
                done = subprocess.run(
                    tool,
                    capture_output=True,
                    text=True,
                    timeout=RUN_DEADLINE_S,
                    stdin=subprocess.DEVNULL,
                    check=False,
                )
            summary = _SUMMARY.search(done.stdout)
            stored = client.end_offset(topic)
            if summary is None or stored != self._count:
                said = (done.stdout + done.stderr)[-500:]
                raise BenchError(f"ProducerPerformance stored {stored} of {self._count}: {said}")
        return {**meter.figures(self._count, 1e6), "rate": float(summary[2])}
