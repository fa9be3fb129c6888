"""The broker: what handlers receive. State and services in one object; no sockets and no
signals."""

from __future__ import annotations

import asyncio
import logging

from kbroker.catalog import Catalog, Topic
from kbroker.clock import Clock
from kbroker.config import Settings
from kbroker.fetch_sessions import FetchSessions
from kbroker.storage.store import Store

log = logging.getLogger("kbroker.broker")


class Broker:
    """One master and all it knows."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        settings: Settings,
        clock: Clock,
        cluster_id: str,
    ) -> None:
        self.loop = loop
        self.store = store
        self.settings = settings
        self.clock = clock
        self.cluster_id = cluster_id
        self.node_id = settings.integer("node.id")
        self.catalog = Catalog(store, settings, self.node_id)
        self.sessions = FetchSessions(
            clock, settings.integer("max.incremental.fetch.session.cache.slots")
        )
        self.max_request_bytes = settings.integer("socket.request.max.bytes")
        self.max_control_bytes = settings.integer("kbroker.control.request.max.bytes")
        self.max_unsent_bytes = settings.integer("kbroker.connection.max.unsent.bytes")
        self.max_parked_requests = settings.integer("kbroker.connection.max.parked.requests")
        self.max_parked_fetches = settings.integer("kbroker.max.parked.fetches")
        self.connection_count = 0
        self.request_count = 0
        self.refused_count = 0
        self.bug_count = 0

    def load(self) -> None:
        """Brings the state back from disk and opens a new reign."""
        self.store.disk.make_folder(self.store.folder)
        self.store.checkpoint.load()
        self.catalog.load()
        self.store.sweep(self.catalog.name_of)
        if not self.store.checkpoint.clean:
            self._recover()
        self.catalog.begin_epoch()

    def _recover(self) -> None:
        topics = self.catalog.topics.values()
        wanted = [(t.name, i, t.id, t.settings) for t in topics for i in range(t.partition_count)]
        if not wanted:
            return
        log.info("recovery_started partitions=%d reason='the last stop was not clean'", len(wanted))
        started_ms = told_ms = self.clock.monotonic_ms()

        def progress(done: int, total: int) -> None:
            nonlocal told_ms
            now_ms = self.clock.monotonic_ms()
            if now_ms - told_ms >= 1000:
                told_ms = now_ms
                log.info("recovery_progress partitions=%d of=%d", done, total)

        cuts = self.store.recover(wanted, progress)
        log.info(
            "recovery_finished partitions=%d cut=%d ms=%d",
            len(wanted),
            len(cuts),
            self.clock.monotonic_ms() - started_ms,
        )

    def release_parked(self) -> None:
        """Answers all long polls now, and lets none park any more: the broker is about to stop."""
        self.max_parked_fetches = 0
        for partition in self.store.opened():
            self.store.waiting_room.wake_all(partition)

    def topic(self, name: str) -> Topic | None:
        """A topic by name; the meta log is found too, but not listed."""
        if name == self.catalog.meta_topic.name:
            return self.catalog.meta_topic
        return self.catalog.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """A topic by id."""
        if topic_id == self.catalog.meta_topic.id:
            return self.catalog.meta_topic
        return self.catalog.by_id.get(topic_id)
