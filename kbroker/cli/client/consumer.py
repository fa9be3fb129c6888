"""Reads records of one topic, from given offsets to given ends or for ever.

All partitions of a leader go into one Fetch, and all leaders are asked before any is waited for.
Whole batches come back: records before the wanted offset are dropped here, markers of transactions
are stepped over, and a batch whose checksum is wrong is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from kbroker.cli.client.cluster import RETRY_EVERY_S, Cluster, Topic, is_retriable
from kbroker.cli.client.connection import Connection
from kbroker.cli.client.failure import BrokerRefusal, Failure
from kbroker.protocol import records
from kbroker.protocol.batch import HEADER_SIZE, MAGIC, batch_size, is_whole, peek
from kbroker.protocol.errors import KafkaError, LeaderNotAvailable, OffsetOutOfRange
from kbroker.protocol.messages.fetch import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kbroker.protocol.records import Record

POLL_MS = 1_000
GIVE_UP_AFTER_S = 30.0
_ANSWER_TIMEOUT_S = 30.0
_MAX_BYTES = 8 << 20
_PARTITION_MAX_BYTES = 1 << 20


@dataclass(slots=True)
class Span:
    """What is still wanted of a partition: from `position` up to, not including, `end`."""

    position: int
    end: int | None  # None: whatever comes

    @property
    def is_done(self) -> bool:
        """Whether nothing more is wanted."""
        return self.end is not None and self.position >= self.end


class OutOfRange(Failure):
    """The offset wanted is not, or no longer, in the partition."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"{topic} partition {partition} does not hold offset {offset}")
        self.partition = partition


class Consumer:
    """Spans of a topic's partitions, read one poll after the other."""

    def __init__(self, cluster: Cluster, topic: Topic, spans: dict[int, Span]) -> None:
        self.cluster = cluster
        self.topic = topic
        self.spans = spans
        self._trouble_since_s: float | None = None

    def poll(self, wait_ms: int = POLL_MS) -> Iterator[tuple[int, Record]]:
        """Asks once, for as long as `wait_ms`; gives (partition, record) as they come.

        Each partition's position moves with the records that were taken, so the caller may stop
        anywhere. OutOfRange says which partition must be placed anew.
        """
        # All answers are taken before any is looked at, or one left unread would be taken for the
        # answer to the next question.
        timeout_s = _ANSWER_TIMEOUT_S + wait_ms / 1000
        answers = [
            connection.receive(FetchResponse, version, timeout_s=timeout_s)
            for connection, version in self._ask(wait_ms)
        ]
        for answer in answers:
            if answer.error_code:
                raise BrokerRefusal(answer.error_code, f"cannot read {self.topic.name}")
            for topic in answer.responses:
                for data in topic.partitions:
                    yield from self._records(data)

    def is_done(self) -> bool:
        """Whether every span was read to its end."""
        return all(span.is_done for span in self.spans.values())

    def _ask(self, wait_ms: int) -> list[tuple[Connection, int]]:
        by_leader: dict[int, list[int]] = {}
        for index, span in self.spans.items():
            leader = self.topic.partitions[index].leader
            if leader >= 0 and not span.is_done:
                by_leader.setdefault(leader, []).append(index)
        if not by_leader:
            self._find_leader_again(LeaderNotAvailable.code, next(iter(self.spans)))
        asked = []
        for leader, indexes in by_leader.items():
            connection = self.cluster.node(leader)
            version = connection.version_of(FetchRequest)
            connection.send(self._request(indexes, wait_ms), version)
            asked.append((connection, version))
        # Who came first comes last next time: no partition starves behind a busy one.
        for indexes in by_leader.values():
            self.spans[indexes[0]] = self.spans.pop(indexes[0])
        return asked

    def _request(self, indexes: list[int], wait_ms: int) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            topics=[
                FetchTopic(
                    topic=self.topic.name,
                    topic_id=self.topic.id,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=self.spans[index].position,
                            partition_max_bytes=_PARTITION_MAX_BYTES,
                        )
                        for index in indexes
                    ],
                )
            ],
        )

    def _records(self, data: FetchPartitionData) -> Iterator[tuple[int, Record]]:
        index = data.partition_index
        span = self.spans[index]
        if data.error_code == OffsetOutOfRange.code:
            raise OutOfRange(self.topic.name, index, span.position)
        if data.error_code:
            if not is_retriable(data.error_code):
                raise BrokerRefusal(
                    data.error_code, f"cannot read {self.topic.name} partition {index}"
                )
            self._find_leader_again(data.error_code, index)
            return
        self._trouble_since_s = None
        view = memoryview(data.records or b"")
        start = 0
        while len(view) - start >= HEADER_SIZE:
            size = batch_size(view, start)
            if size < HEADER_SIZE or size > len(view) - start:
                break  # cut short to fit the answer: the next fetch begins with it
            yield from self._batch(index, span, view[start : start + size])
            if span.is_done:
                return
            start += size

    def _batch(self, index: int, span: Span, batch: memoryview) -> Iterator[tuple[int, Record]]:
        header = peek(batch)
        where = f"{self.topic.name} partition {index} offset {header.base_offset}"
        if header.magic != MAGIC:
            raise Failure(f"{where} is in message format {header.magic}, which is too old to read")
        if not is_whole(batch):
            raise Failure(f"{where}: the batch's checksum is wrong; see: kbroker dump")
        if not header.is_control:
            try:
                for record in records.iterate(batch):
                    if record.offset < span.position:
                        continue
                    if span.end is not None and record.offset >= span.end:
                        break
                    span.position = record.offset + 1
                    yield index, record
            except KafkaError as problem:
                raise Failure(f"{where} cannot be read: {problem}") from None
        span.position = max(span.position, header.last_offset + 1)

    def _find_leader_again(self, code: int, index: int) -> None:
        """Leadership moves: the answer is asked for again, but not for ever."""
        now_s = time.monotonic()
        if self._trouble_since_s is None:
            self._trouble_since_s = now_s
        if now_s - self._trouble_since_s > GIVE_UP_AFTER_S:
            raise BrokerRefusal(code, f"cannot read {self.topic.name} partition {index}")
        time.sleep(RETRY_EVERY_S)
        self.topic = self.cluster.topic(self.topic.name)
