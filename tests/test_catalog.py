"""Topics in the meta log: made, deleted and made again, with a crash or a full disk in between."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kbroker.config import Settings
from kbroker.protocol import records
from kbroker.protocol.batch import verify
from kbroker.protocol.errors import KafkaStorageError
from kbroker.protocol.records import NewRecord
from kbroker.server import Server
from kbroker.storage.disk import Disk, OpenFile


class FullDisk(Disk):
    """A disk that has no room left once `full` is set."""

    full = False

    def write(self, file: OpenFile, buffers: object, position: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(file, buffers, position)  # type: ignore[arg-type]  # passed on as it came


async def started(folder: Path, disk: Disk | None = None) -> Server:
    server = Server(Settings(), str(folder), disk=disk)
    await server.start("127.0.0.1", 0)
    return server


def append(server: Server, topic: str, value: bytes) -> None:
    catalog = server.broker.catalog
    view = memoryview(bytearray(records.build([NewRecord(1, None, value)])))
    catalog.partition_of(catalog.topics[topic], 0).append(view, verify(view))
    server.broker.store.write()


def leaving(folder: Path) -> list[Path]:
    return list(folder.glob(".*.deleted"))


def values(server: Server, topic: str) -> list[bytes | None]:
    catalog = server.broker.catalog
    log = catalog.partition_of(catalog.topics[topic], 0).log
    return [
        record.value
        for segment in log.segments
        for position, header in segment.walk()
        for record in records.iterate(segment.read(position, header.size))
    ]


async def test_topics_ids_and_settings_are_there_again_after_a_restart(tmp_path: Path) -> None:
    server = await started(tmp_path)
    made = server.broker.catalog.create("orders", 3, {"retention.ms": 5})
    await server.stop()
    server = await started(tmp_path)
    found = server.broker.catalog.topics["orders"]
    assert (found.id, found.partition_count, found.overrides) == (made.id, 3, {"retention.ms": 5})
    await server.stop()


async def test_a_topic_made_again_has_another_id_and_none_of_the_old_records(
    tmp_path: Path,
) -> None:
    server = await started(tmp_path)
    catalog = server.broker.catalog
    old = catalog.create("orders", 1, {})
    append(server, "orders", b"old")
    await catalog.delete(old)
    new = catalog.create("orders", 1, {})
    append(server, "orders", b"new")
    assert new.id != old.id
    assert values(server, "orders") == [b"new"]
    await server.stop()
    server = await started(tmp_path)
    assert values(server, "orders") == [b"new"]
    assert not leaving(tmp_path)
    await server.stop()


async def test_a_deletion_that_could_not_be_written_leaves_the_topic_as_it_was(
    tmp_path: Path,
) -> None:
    disk = FullDisk()
    server = await started(tmp_path, disk)
    catalog = server.broker.catalog
    topic = catalog.create("orders", 1, {})
    append(server, "orders", b"kept")
    disk.full = True
    with pytest.raises(KafkaStorageError):
        await catalog.delete(topic)
    disk.full = False
    assert catalog.topics["orders"] is topic
    assert values(server, "orders") == [b"kept"]
    append(server, "orders", b"more")
    assert values(server, "orders") == [b"kept", b"more"]
    await server.stop()


async def test_a_crash_before_a_deletion_is_written_gives_the_records_back(tmp_path: Path) -> None:
    """The folders change their name first; a kill before the log says so must lose nothing."""
    server = await started(tmp_path)
    topic = server.broker.catalog.create("orders", 1, {})
    append(server, "orders", b"kept")
    server.broker.store.detach("orders", 0, topic.id)
    assert not (tmp_path / "orders-0").exists()
    await server.stop()
    server = await started(tmp_path)
    assert values(server, "orders") == [b"kept"]
    await server.stop()


async def test_a_crash_after_a_deletion_is_written_finishes_it_at_the_next_start(
    tmp_path: Path,
) -> None:
    server = await started(tmp_path)
    catalog = server.broker.catalog
    topic = catalog.create("orders", 1, {})
    append(server, "orders", b"old")
    server.broker.store.detach("orders", 0, topic.id)
    catalog._write([({"topic": "orders"}, None)])
    await server.stop()
    assert leaving(tmp_path)
    server = await started(tmp_path)
    assert "orders" not in server.broker.catalog.topics
    await server.stop()
    assert not leaving(tmp_path)
