"""Fetch (1): records from an offset on, straight from the files; waits if there are too few yet.

Answers hold whole batches only, and at least one if there is any, even above the limits (KIP-74). A
long poll parks once on all its partitions and reads again when enough has been appended or its time
is up. Sessions (KIP-227) are in `fetch_sessions`.
Differences from Apache Kafka: a batch is never cut in the middle at the limits.
Versions: 5 log start; 7 sessions; 9 leader epochs; 10 zstd; 12 divergence (KIP-595); 13 topic ids.
"""

from __future__ import annotations

import logging

from kbroker.broker import Broker
from kbroker.fetch_sessions import FetchSession, Wanted
from kbroker.handlers.later import Later
from kbroker.handlers.registry import Pieces, RawCall, raw_api
from kbroker.protocol.errors import (
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRange,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kbroker.protocol.hot.fetch import (
    FIRST_TOPIC_ID,
    Fetch,
    FetchAnswer,
    FetchPartition,
    decode_request,
    encode_response,
)
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.storage.partition import Partition
from kbroker.storage.waiters import Waiter

log = logging.getLogger("kbroker.handlers")

_RESPONSE_MAX_BYTES = 1 << 30
READ_COMMITTED = 1


@raw_api(FetchRequest, FetchResponse)
def fetch(call: RawCall) -> Pieces | Later:
    """Reads now, or parks until there is something to read."""
    broker, version = call.broker, call.version
    request = decode_request(call.view, call.position, version)
    session: FetchSession | None = None
    full = True
    if version >= 7:
        try:
            session, full = broker.sessions.enter(request, version >= FIRST_TOPIC_ID)
        except KafkaError as problem:
            return _pieces(version, problem.code, 0, [])
    if session is not None:
        wanted = session.wanted()
    else:
        wanted = [(name, part) for name, parts in request.topics for part in parts]
    reader = _Reader(broker, request, version, wanted, session, full)
    size = reader.read()
    if (
        size >= request.min_bytes
        or request.max_wait_ms <= 0
        or reader.has_error
        or not reader.partitions
        or broker.store.waiting_room.parked_count >= broker.max_parked_fetches
    ):
        return reader.encode()
    return reader.park(request.min_bytes - size)


class _Reader:
    """One fetch: reads its partitions, perhaps twice, and encodes the outcome."""

    __slots__ = (
        "answers",
        "broker",
        "full",
        "has_error",
        "partitions",
        "request",
        "session",
        "version",
        "wanted",
    )

    def __init__(
        self,
        broker: Broker,
        request: Fetch,
        version: int,
        wanted: Wanted,
        session: FetchSession | None,
        full: bool,
    ) -> None:
        self.broker = broker
        self.request = request
        self.version = version
        self.wanted = wanted
        self.session = session
        self.full = full
        self.has_error = False
        self.answers: list[tuple[bytes, FetchAnswer]] = []
        self.partitions: list[Partition] = []

    def read(self) -> int:
        """Reads every partition; gives the bytes found."""
        self.answers.clear()
        self.partitions.clear()
        self.has_error = False
        size = 0
        left = min(max(self.request.max_bytes, 0), _RESPONSE_MAX_BYTES)
        for wire_name, wanted in self.wanted:
            try:
                partition = self._find(wire_name, wanted.partition)
                answer = self._read(partition, wanted, min(wanted.max_bytes, left), size == 0)
            except (UnknownTopicId, UnknownTopicOrPartition) as problem:
                # No reason to answer before the time is up: the client would only ask faster.
                answer = FetchAnswer(wanted.partition, problem.code, -1, -1, -1, None)
            except KafkaError as problem:
                self.has_error = True
                answer = FetchAnswer(wanted.partition, problem.code, -1, -1, -1, None)
            except OSError as problem:
                self.has_error = True
                log.error(
                    "read_failed topic=%r partition=%d error=%s",
                    wire_name,
                    wanted.partition,
                    problem,
                )
                answer = FetchAnswer(wanted.partition, KafkaStorageError.code, -1, -1, -1, None)
            else:
                self.partitions.append(partition)
                if answer.stored is not None:
                    size += answer.stored.length
                    left = max(left - answer.stored.length, 0)
            self.answers.append((wire_name, answer))
        return size

    def _find(self, wire_name: bytes, index: int) -> Partition:
        broker = self.broker
        if self.version >= FIRST_TOPIC_ID:
            topic = broker.catalog.by_id.get(wire_name) or broker.topic_by_id(wire_name)
            if topic is None:
                raise UnknownTopicId
        else:
            topic = broker.catalog.by_wire_name.get(wire_name) or broker.topic(wire_name.decode())
            if topic is None:
                raise UnknownTopicOrPartition
        if not 0 <= index < topic.partition_count:
            raise UnknownTopicOrPartition
        return broker.catalog.partition_of(topic, index)

    def _read(
        self, partition: Partition, wanted: FetchPartition, max_bytes: int, at_least_one: bool
    ) -> FetchAnswer:
        partition.check_epoch(wanted.current_leader_epoch)
        diverging = None
        stored = None
        if wanted.last_fetched_epoch >= 0:
            epoch, end = partition.end_of_epoch(wanted.last_fetched_epoch)
            if epoch < 0 or end < 0:
                raise OffsetOutOfRange(f"epoch {wanted.last_fetched_epoch} is not known here")
            if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
                diverging = (epoch, end)
                self.has_error = True
        if diverging is None:
            stored = partition.read(wanted.fetch_offset, max_bytes, at_least_one)
        high_watermark = partition.high_watermark
        return FetchAnswer(
            wanted.partition,
            0,
            high_watermark,
            high_watermark,
            partition.log.start,
            stored,
            diverging,
        )

    def encode(self) -> Pieces:
        """The answer; with a session only its news, unless it is a full one."""
        session = self.session
        answers = self.answers
        if session is not None:
            told = []
            for name, answer in answers:
                cached = session.partitions.get((name, answer.partition))
                news = cached is None or cached.has_news(answer)
                if news or self.full:
                    told.append((name, answer))
                if self.full or len(answers) == 1:
                    continue
                if answer.stored is not None and answer.stored.length:
                    session.served(name, answer.partition)
            answers = told
        topics: list[tuple[bytes, list[FetchAnswer]]] = []
        for name, answer in answers:
            if not topics or topics[-1][0] != name:
                topics.append((name, []))
            topics[-1][1].append(answer)
        session_id = session.id if session is not None else 0
        committed = self.request.isolation_level == READ_COMMITTED
        return _pieces(self.version, 0, session_id, topics, committed)

    def park(self, needed_bytes: int) -> Later:
        """Waits for more."""
        later = Later()
        room = self.broker.store.waiting_room

        def look_again() -> None:
            self.read()
            later.resolve(self.encode())

        waiter = Waiter(needed_bytes, look_again)
        later.cancel = lambda: room.leave(waiter)
        room.park(waiter, self.partitions, self.request.max_wait_ms)
        return later


def _pieces(
    version: int,
    error: int,
    session_id: int,
    topics: list[tuple[bytes, list[FetchAnswer]]],
    read_committed: bool = False,
) -> Pieces:
    return encode_response(version, error, session_id, topics, read_committed)  # type: ignore[return-value]
