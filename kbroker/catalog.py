"""The catalog: which topics exist, their ids and settings, and the broker's own dynamic settings.

Everything it must remember is a record in the internal log `__kbroker_meta` (one partition): key
and value are JSON, a null value removes. Starting means replaying that log; copying it copies the
state.

    {"topic": NAME}                 {"id": BASE64, "partitions": N, "created_ms": T}
    {"config": "topic:NAME"}        {KEY: TEXT, ...}           also "broker:" (all) and "broker:ID"
    {"producer_ids": "next"}        {"next": N}                ids below N are given out
    {"epoch": "latest"}             {"epoch": E, "node": ID}   a reign begins

A change is written, applied, and synced before anyone is told that it has happened.
"""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Mapping

from kbroker.config import Settings, TopicSettings, declared
from kbroker.protocol import records
from kbroker.protocol.batch import verify
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.records import NewRecord
from kbroker.setting import Value, text_of
from kbroker.settings_table import TOPIC_SETTINGS
from kbroker.storage.partition import Partition
from kbroker.storage.store import Store

log = logging.getLogger("kbroker.catalog")

META_TOPIC = "__kbroker_meta"
META_TOPIC_ID = bytes(15) + b"\x01"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", META_TOPIC})
_PRODUCER_ID_BLOCK = 1000
_SLOTS = 16

Json = dict[str, str | int]


def id_text(topic_id: bytes) -> str:
    """An id as Kafka prints it."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


class Topic:
    """A topic: a name, an id, and a number of partitions with common settings."""

    __slots__ = (
        "created_ms",
        "id",
        "name",
        "overrides",
        "partition_count",
        "settings",
        "wire_name",
    )

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        partition_count: int,
        created_ms: int,
        settings: TopicSettings,
    ) -> None:
        self.name = name
        self.wire_name = name.encode()
        self.id = topic_id
        self.partition_count = partition_count
        self.created_ms = created_ms
        self.overrides: dict[str, Value] = {}
        self.settings = settings

    @property
    def is_internal(self) -> bool:
        """Whether the broker keeps its own state in it."""
        return self.name in INTERNAL_TOPICS


class Catalog:
    """All topics and dynamic settings, kept in the meta log."""

    def __init__(self, store: Store, settings: Settings, node_id: int) -> None:
        self.store = store
        self.settings = settings
        self.node_id = node_id
        self.topics: dict[str, Topic] = {}
        self.by_wire_name: dict[bytes, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.partition_total = 0
        self._configs: dict[str, dict[str, str]] = {}
        self._next_producer_id = 0
        self._producer_ids_end = 0
        self._latest_epoch = -1
        meta_settings = settings.for_topic({"max.message.bytes": 1 << 30})
        self.meta_topic = Topic(META_TOPIC, META_TOPIC_ID, 1, 0, meta_settings)

    # The meta log

    @property
    def meta(self) -> Partition:
        """The log that holds all this."""
        return self.partition_of(self.meta_topic, 0)

    def load(self) -> None:
        """Replays the meta log."""
        partition = self.meta
        for segment in partition.log.segments:
            for position, header in segment.walk():
                for record in records.iterate(memoryview(segment.read(position, header.size))):
                    if record.key is not None:
                        value = json.loads(record.value) if record.value is not None else None
                        self._apply(json.loads(record.key), value)
        self._next_producer_id = self._producer_ids_end  # the rest of the last block is given up

    def begin_epoch(self) -> int:
        """Opens a new reign: an epoch above all seen before (rule R1)."""
        epoch = (self._latest_epoch // _SLOTS + 1) * _SLOTS
        self.store.epoch = epoch
        self._write([({"epoch": "latest"}, {"epoch": epoch, "node": self.node_id})])
        return epoch

    def _write(self, changes: list[tuple[dict[str, str], Mapping[str, object] | None]]) -> None:
        """Appends changes to the meta log and applies them; raises and applies none if it
        cannot."""
        now_ms = self.store.clock.now_ms()
        new = [
            NewRecord(
                now_ms,
                json.dumps(key).encode(),
                None if value is None else json.dumps(value).encode(),
            )
            for key, value in changes
        ]
        view = memoryview(bytearray(records.build(new)))
        append = self.meta.append(view, verify(view))
        self.store.write()
        if append.error is not None:
            raise append.error
        for key, value in changes:
            self._apply(key, value)

    async def synced(self) -> None:
        """Returns when all changes made so far are on disk."""
        await self.store.flusher.sync_now(self.meta)

    def _apply(self, key: Mapping[str, str], value: Mapping[str, object] | None) -> None:
        match key:
            case {"topic": name}:
                self._apply_topic(name, value)
            case {"config": resource}:
                self._configs[resource] = {k: str(v) for k, v in (value or {}).items()}
                self._configure(resource)
            case {"producer_ids": _} if value is not None:
                self._producer_ids_end = int(str(value["next"]))
            case {"epoch": _} if value is not None:
                self._latest_epoch = max(self._latest_epoch, int(str(value["epoch"])))
            case _:
                log.warning("unknown_meta_record key=%s", key)

    def _apply_topic(self, name: str, value: Mapping[str, object] | None) -> None:
        old = self.topics.pop(name, None)
        if old is not None:
            self.by_id.pop(old.id, None)
            self.by_wire_name.pop(old.wire_name, None)
            self.partition_total -= old.partition_count
        if value is None:
            return
        topic_id = base64.urlsafe_b64decode(str(value["id"]) + "==")
        count, created_ms = int(str(value["partitions"])), int(str(value["created_ms"]))
        if old is not None and old.id == topic_id:
            topic = old
            topic.partition_count = count
        else:
            topic = Topic(name, topic_id, count, created_ms, self.settings.for_topic({}))
        self.topics[name] = self.by_id[topic_id] = self.by_wire_name[topic.wire_name] = topic
        self.partition_total += count

    def _configure(self, resource: str) -> None:
        """Puts stored configs into force."""
        kind, _, name = resource.partition(":")
        if kind == "topic":
            topic = self.topics.get(name)
            if topic is not None:
                stored = self._configs.get(resource, {})
                topic.overrides = {
                    key: TOPIC_SETTINGS[key].parse(text)
                    for key, text in stored.items()
                    if key in TOPIC_SETTINGS
                }
                self._resolve(topic)
            return
        merged = {
            **self._configs.get("broker:", {}),
            **self._configs.get(f"broker:{self.node_id}", {}),
        }
        self.settings.dynamic = {key: declared(key).parse(text) for key, text in merged.items()}
        for topic in self.topics.values():
            self._resolve(topic)

    def reconfigure(self) -> None:
        """The broker's own settings have changed: topics without a value of their own follow."""
        for topic in self.topics.values():
            self._resolve(topic)

    def _resolve(self, topic: Topic) -> None:
        topic.settings = self.settings.for_topic(topic.overrides)
        for partition in self.store.opened():
            if partition.topic == topic.name:
                partition.settings = topic.settings

    # Topics

    def partition_of(self, topic: Topic, index: int) -> Partition:
        """An open partition of a topic."""
        return self.store.partition(topic.name, index, topic.id, topic.settings)

    def create(self, name: str, partition_count: int, overrides: Mapping[str, Value]) -> Topic:
        """Makes a topic with a new id; the caller has checked the name and the numbers."""
        topic_id = self.new_topic_id()
        changes: list[tuple[dict[str, str], Mapping[str, object] | None]] = [
            (
                {"topic": name},
                {
                    "id": id_text(topic_id),
                    "partitions": partition_count,
                    "created_ms": self.store.clock.now_ms(),
                },
            )
        ]
        if overrides:
            texts = {key: text_of(value) for key, value in overrides.items()}
            changes.append(({"config": f"topic:{name}"}, texts))
        self._write(changes)
        log.info(
            "topic_created topic=%s partitions=%d id=%s", name, partition_count, id_text(topic_id)
        )
        return self.topics[name]

    def new_topic_id(self) -> bytes:
        """An id that no topic has had."""
        while True:
            topic_id = os.urandom(16)
            # Kafka's text form must not look like an option of its tools.
            if topic_id != ZERO_UUID and not id_text(topic_id).startswith("-"):
                return topic_id

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of a topic that exists."""
        topic = self.by_id.get(topic_id)
        return topic.name if topic is not None else None

    def grow(self, topic: Topic, partition_count: int) -> None:
        """Adds partitions."""
        value = {
            "id": id_text(topic.id),
            "partitions": partition_count,
            "created_ms": topic.created_ms,
        }
        self._write([({"topic": topic.name}, value)])

    async def delete(self, topic: Topic) -> None:
        """Removes a topic: out of use at once, its files when the deletion is durable."""
        changes: list[tuple[dict[str, str], Mapping[str, object] | None]] = [
            ({"topic": topic.name}, None)
        ]
        if f"topic:{topic.name}" in self._configs:
            changes.append(({"config": f"topic:{topic.name}"}, None))
        # First the folders, then the log: a crash in between leaves a topic whose folders `sweep`
        # gives back, and never a folder of old records that a new topic of the name would find.
        for index in range(topic.partition_count):
            self.store.detach(topic.name, index, topic.id)
        try:
            self._write(changes)
        except KafkaError:
            self.store.sweep(self.name_of)
            raise
        await self.synced()
        for index in range(topic.partition_count):
            self.store.discard(index, topic.id)
        log.info("topic_deleted topic=%s id=%s", topic.name, id_text(topic.id))

    # Configs

    def configs(self, resource: str) -> dict[str, str]:
        """What was set for "topic:NAME", "broker:ID" or "broker:" (all brokers)."""
        return dict(self._configs.get(resource, {}))

    def set_configs(self, resource: str, values: Mapping[str, str]) -> None:
        """Replaces what was set; the caller has checked the values."""
        self._write([({"config": resource}, dict(values) or None)])

    # Producer ids

    def new_producer_id(self) -> int:
        """An id that no producer has had; a block of them is set aside in the log at a time."""
        if self._next_producer_id >= self._producer_ids_end:
            end = self._producer_ids_end + _PRODUCER_ID_BLOCK
            self._write([({"producer_ids": "next"}, {"next": end})])
        producer_id = self._next_producer_id
        self._next_producer_id += 1
        return producer_id
