"""A broker inside another program, in its event loop or in a thread."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kbroker import Broker
from kbroker.data_folder import DataFolderError


def produce(bootstrap: str, value: bytes) -> int:
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(
        "t", value, on_delivery=lambda error, message: offsets.append(message.offset())
    )
    assert producer.flush(10) == 0
    assert offsets[0] is not None
    return offsets[0]


def read(bootstrap: str, offset: int) -> bytes:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("t", 0, offset)])
    message = consumer.poll(10)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return bytes(message.value() or b"")


def test_a_broker_in_a_thread_serves_until_the_block_ends() -> None:
    with Broker() as broker:
        offset = produce(broker.bootstrap, b"hello")
        assert read(broker.bootstrap, offset) == b"hello"
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(asyncio.wait_for(asyncio.open_connection("127.0.0.1", broker.port), 5))


async def test_a_broker_in_the_running_loop_serves_on_plain_asyncio() -> None:
    async with Broker() as broker:
        offset = await asyncio.to_thread(produce, broker.bootstrap, b"x" * 500_000)
        assert await asyncio.to_thread(read, broker.bootstrap, offset) == b"x" * 500_000


def test_a_broker_with_a_folder_finds_its_records_again(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with Broker(data=folder) as broker:
        produce(broker.bootstrap, b"kept")
    with Broker(data=folder) as broker:
        assert read(broker.bootstrap, 0) == b"kept"


def test_a_broker_without_a_folder_leaves_nothing_behind() -> None:
    with Broker() as broker:
        assert broker._server is not None
        folder = Path(broker._server.folder.path)
        produce(broker.bootstrap, b"gone")
        assert (folder / "t-0").is_dir()
    assert not folder.exists()


def test_a_second_broker_on_the_same_folder_is_refused_by_name(tmp_path: Path) -> None:
    with Broker(data=str(tmp_path)), pytest.raises(DataFolderError, match="in use by process"):
        Broker(data=str(tmp_path)).__enter__()


def test_the_host_programs_garbage_collector_is_left_alone() -> None:
    before = gc.get_freeze_count()
    with Broker():
        assert gc.get_freeze_count() == before
