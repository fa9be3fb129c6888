"""What the hot path's single steps cost, in microseconds: `python -m bench.micro`.

No sockets and no second process: each step runs alone in a loop, the best of several rounds counts.
The figures on top of the HOT files come from here.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from kbroker.clock import Clock
from kbroker.config import Settings
from kbroker.protocol import records
from kbroker.protocol.batch import peek, stamp, verify
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.hot import fetch as hot_fetch
from kbroker.protocol.hot import produce as hot_produce
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kbroker.protocol.records import NewRecord
from kbroker.storage.disk import Disk
from kbroker.storage.store import Store

ROUNDS = 5


def cost_us(step: Callable[[], object], count: int) -> float:
    """The cost of one call, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(count):
            step()
        best = min(best, time.perf_counter() - started)
    return best / count * 1e6


def codec_steps() -> dict[str, tuple[Callable[[], object], int]]:
    """Headers, batches, Produce and Fetch."""
    small = memoryview(bytearray(records.build([NewRecord(1, None, b"x" * 100)])))
    large = memoryview(bytearray(records.build([NewRecord(1, None, b"x" * 900_000)])))
    produce = memoryview(
        ProduceRequest(
            transactional_id=None,
            acks=1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="topic",
                    partition_data=[PartitionProduceData(index=0, records=small)],
                )
            ],
        ).encode(9)
    )
    fetch = memoryview(
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic_id=b"t" * 16,
                    partitions=[
                        FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=1 << 20)
                    ],
                )
            ],
        ).encode(17)
    )
    header = memoryview(b"\0\0\0\x09\0\0\0\x01\0\x04name\0")
    produced = [(b"topic", [(0, 0, 5, -1, 0, None)])]
    fetched = [(b"t" * 16, [hot_fetch.FetchAnswer(0, 0, 5, 5, 0, None)])]
    return {
        "decode request header": (lambda: decode_request_header(header, {0: 9}), 100_000),
        "decode Produce v9": (lambda: hot_produce.decode_request(produce, 0, 9), 50_000),
        "encode Produce v9": (lambda: hot_produce.encode_response(produced, 9), 50_000),
        "decode Fetch v17": (lambda: hot_fetch.decode_request(fetch, 0, 17), 50_000),
        "encode Fetch v17": (lambda: hot_fetch.encode_response(17, 0, 0, fetched), 50_000),
        "verify batch 100 B": (lambda: verify(small), 50_000),
        "verify batch 900 KB": (lambda: verify(large), 500),
        "stamp batch": (lambda: stamp(small, 7, 1), 100_000),
    }


async def storage_steps() -> dict[str, float]:
    """Appending to a real file, alone and in groups of eight; reading the slice at the end."""
    folder = tempfile.mkdtemp(prefix="kbroker-micro-")
    store = Store(asyncio.get_running_loop(), Disk(), Clock(), folder)
    settings = Settings().for_topic({})
    partition = store.partition("topic", 0, b"t" * 16, settings)
    view = memoryview(bytearray(records.build([NewRecord(Clock().now_ms(), None, b"x" * 100)])))
    header = peek(view)

    def alone() -> None:
        partition.append(view, header)
        store.write()

    def group() -> None:
        for _ in range(8):
            partition.append(view, header)
        store.write()

    costs = {
        "append and write 100 B": cost_us(alone, 20_000),
        "the same in groups of 8, each": cost_us(group, 4_000) / 8,
    }
    end = partition.log_end - 1
    costs["read slice at the end"] = cost_us(lambda: partition.read(end, 1 << 20, True), 20_000)
    await store.close()
    shutil.rmtree(folder)
    return costs


def help_cpu_s() -> float:
    """What `kbroker --help` costs, the best of some rounds; the goal is 0.15 s."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "kbroker", "--help"], stdout=subprocess.DEVNULL, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, used)
    return best


def main() -> None:
    """Prints a line for each step."""
    costs = {name: cost_us(step, count) for name, (step, count) in codec_steps().items()}
    costs.update(asyncio.run(storage_steps()))
    for name, cost in costs.items():
        print(f"{cost:9.2f} us  {name}")
    print(f"{help_cpu_s():9.3f} s   kbroker --help, CPU")


if __name__ == "__main__":
    main()
