"""Sends records to one topic: gathers them into batches, one batch for each partition at a time.

A batch is sent when it is full or when the caller says so; the caller knows whether more input is
at hand. Errors after which the broker has surely stored nothing are tried again; after any other
the producer stops and says so, because it has no sequence numbers and a second try could write a
record twice. A batch that is too large for the topic is halved until it fits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kbroker.cli.client.cluster import RETRY_EVERY_S, Cluster, Topic, is_retriable
from kbroker.cli.client.failure import BrokerRefusal, Failure
from kbroker.cli.client.partitioner import Sticky, partition_of_key
from kbroker.protocol import records
from kbroker.protocol.errors import (
    LeaderNotAvailable,
    MessageTooLarge,
    NotEnoughReplicasAfterAppend,
    RecordListTooLarge,
    RequestTimedOut,
)
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kbroker.protocol.records import NewRecord

BATCH_BYTES = 256 * 1024
BATCH_RECORDS = 10_000
GIVE_UP_AFTER_S = 30.0
_ACKNOWLEDGE_TIMEOUT_MS = 30_000
_ANSWER_TIMEOUT_S = 45.0
_RECORD_OVERHEAD_BYTES = 16
_TOO_LARGE = (MessageTooLarge.code, RecordListTooLarge.code)
_PERHAPS_STORED = (RequestTimedOut.code, NotEnoughReplicasAfterAppend.code)


@dataclass(slots=True)
class Written:
    """What went to one partition; offsets are -1 when nothing was acknowledged (acks=0)."""

    count: int = 0
    first_offset: int = -1
    last_offset: int = -1


@dataclass(slots=True)
class _Gathered:
    records: list[NewRecord] = field(default_factory=list)
    size: int = 0


class Producer:
    """Records on their way to a topic."""

    def __init__(
        self,
        cluster: Cluster,
        topic: Topic,
        *,
        acks: int,
        codec: int,
        partition: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._acks = acks
        self._codec = codec
        self._fixed_partition = partition
        led = [part.index for part in topic.partitions if part.leader >= 0]
        if not led:
            raise Failure(f"no partition of {topic.name} has a leader now; try again later")
        self._sticky = Sticky(led)
        self._gathered: dict[int, _Gathered] = {}
        self.written: dict[int, Written] = {}
        self.record_count = 0
        self.byte_count = 0

    def add(self, record: NewRecord) -> None:
        """Takes a record; sends its batch if that is full now."""
        partition = self._partition_of(record)
        gathered = self._gathered.setdefault(partition, _Gathered())
        gathered.records.append(record)
        gathered.size += _size(record)
        if gathered.size >= BATCH_BYTES or len(gathered.records) >= BATCH_RECORDS:
            self._send(partition, self._gathered.pop(partition).records)
            if partition == self._sticky.partition:
                self._sticky.move_on()

    def flush(self) -> None:
        """Sends all that was taken."""
        for partition in list(self._gathered):
            self._send(partition, self._gathered.pop(partition).records)
        self._sticky.move_on()

    def _partition_of(self, record: NewRecord) -> int:
        if self._fixed_partition is not None:
            return self._fixed_partition
        if record.key is not None:
            return partition_of_key(record.key, len(self._topic.partitions))
        return self._sticky.partition

    def _send(self, partition: int, batch: list[NewRecord]) -> None:
        deadline = time.monotonic() + GIVE_UP_AFTER_S
        data = records.build(batch, compression=self._codec)
        while True:
            answer = self._ask(partition, data)
            if answer is None or not answer.error_code:
                self._note(partition, batch, -1 if answer is None else answer.base_offset)
                return
            code = answer.error_code
            if code in _TOO_LARGE and len(batch) > 1:
                half = len(batch) // 2
                self._send(partition, batch[:half])
                self._send(partition, batch[half:])
                return
            late = time.monotonic() >= deadline
            if late or code in _PERHAPS_STORED or not is_retriable(code):
                raise self._refused(partition, batch, answer)
            time.sleep(RETRY_EVERY_S)
            self._topic = self._cluster.find_topic(self._topic.name) or self._topic

    def _ask(self, partition: int, data: bytes) -> PartitionProduceResponse | None:
        leader = self._topic.partitions[partition].leader
        if leader < 0:
            return PartitionProduceResponse(
                index=partition, error_code=LeaderNotAvailable.code, base_offset=-1
            )
        connection = self._cluster.node(leader)
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=_ACKNOWLEDGE_TIMEOUT_MS,
            topic_data=[
                TopicProduceData(
                    name=self._topic.name,
                    topic_id=self._topic.id,
                    partition_data=[PartitionProduceData(index=partition, records=data)],
                )
            ],
        )
        if self._acks == 0:
            connection.send(request, connection.version_of(ProduceRequest))
            return None
        response = connection.ask(request, ProduceResponse, timeout_s=_ANSWER_TIMEOUT_S)
        return response.responses[0].partition_responses[0]

    def _note(self, partition: int, batch: list[NewRecord], base_offset: int) -> None:
        written = self.written.setdefault(partition, Written())
        written.count += len(batch)
        if base_offset >= 0:
            if written.first_offset < 0:
                written.first_offset = base_offset
            written.last_offset = base_offset + len(batch) - 1
        self.record_count += len(batch)
        self.byte_count += sum(map(_size, batch)) - _RECORD_OVERHEAD_BYTES * len(batch)

    def _refused(
        self, partition: int, batch: list[NewRecord], answer: PartitionProduceResponse
    ) -> Failure:
        name = self._topic.name
        if answer.error_code in _TOO_LARGE:
            size = _size(batch[0])
            return Failure(
                f"a record of {size} bytes is too large for topic {name}; raise its limit with:"
                f" kbroker configs set --topic {name} max.message.bytes={2 * size}"
            )
        said = answer.error_message
        if answer.record_errors and answer.record_errors[0].batch_index_error_message:
            said = answer.record_errors[0].batch_index_error_message
        return BrokerRefusal(
            answer.error_code, f"cannot write to {name} partition {partition}", said
        )


def _size(record: NewRecord) -> int:
    """About what a record takes in a batch."""
    size = _RECORD_OVERHEAD_BYTES + len(record.value or b"") + len(record.key or b"")
    for header in record.headers:
        size += len(header.key) + len(header.value or b"")
    return size
