"""Produce (0): producers' batches go to their partitions.

The batches are checked, numbered and queued here, in order; the connection writes them when its
burst is done, and only then is the answer made. acks=0 has no answer; acks=1 and acks=all are
answered after the write, and after the sync where the topic asks for it (group commit,
flush.messages).
Differences from Apache Kafka: the records inside a batch are looked at only where a topic needs it.
Versions: advertised from 0 for old librdkafka (KAFKA-18659) and served from 3, as Apache Kafka
does; 7 allows zstd; 13 names topics by id.
"""

from __future__ import annotations

from kbroker.broker import Broker
from kbroker.catalog import Topic
from kbroker.handlers.later import Later
from kbroker.handlers.registry import RawCall, raw_api
from kbroker.protocol.batch import (
    CODEC_MASK,
    PREFIX_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    batch_size,
    verify,
)
from kbroker.protocol.compression import ZSTD
from kbroker.protocol.errors import (
    CorruptMessage,
    FrameError,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopicException,
    InvalidTxnState,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from kbroker.protocol.hot.produce import (
    FIRST_TOPIC_ID,
    PartitionAnswer,
    decode_request,
    encode_response,
)
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.storage.partition import Append, Partition

Result = tuple[int, Partition | None, Append | KafkaError]

_WITHOUT_LOG_START = (MessageTooLarge, CorruptMessage, KafkaStorageError)


@raw_api(ProduceRequest, ProduceResponse, advertised=range(14))
def produce(call: RawCall) -> Later | None:
    """Queues every batch, and answers once they are written."""
    broker, version = call.broker, call.version
    transactional_id, acks, _, topics = decode_request(call.view, call.position, version)
    results: list[tuple[bytes, list[Result]]] = []
    for wire_name, partitions in topics:
        topic = _find(broker, wire_name, version)
        of_topic: list[Result] = []
        for index, view in partitions:
            partition = None
            outcome: Append | KafkaError
            try:
                if isinstance(topic, KafkaError):
                    raise topic
                if not 0 <= index < topic.partition_count:
                    raise UnknownTopicOrPartition(f"{topic.name} has no partition {index}")
                if not view:
                    raise InvalidRecord("a produce request without records")
                header = _checked(topic, view, version, transactional_id)
                if acks not in (-1, 0, 1):
                    raise InvalidRequiredAcks(f"acks is 0, 1 or -1, not {acks}")
                partition = broker.catalog.partition_of(topic, index)
                outcome = partition.append(view, header)
            except KafkaError as problem:
                # Kept until it is answered, without the frames that would keep the request too.
                problem.__traceback__ = problem.__context__ = None
                outcome = problem
            of_topic.append((index, partition, outcome))
        if of_topic:
            results.append((wire_name, of_topic))
    if acks == 0:
        _close_if_refused(results)
        return None
    later = Later()
    broker.store.after_write(lambda: _answer(later, results, version))
    return later


def _close_if_refused(results: list[tuple[bytes, list[Result]]]) -> None:
    """With acks=0 nobody hears of an error, so the connection is closed, as Apache Kafka does.

    The producer then asks for metadata anew. Otherwise one that names a deleted topic by its id
    would send into the void for minutes, though a topic of that name may be there again.
    """
    for _, partitions in results:
        for _, _, outcome in partitions:
            if isinstance(outcome, KafkaError):
                raise FrameError(f"a produce with acks=0 was refused: {outcome}")


def _find(broker: Broker, wire_name: bytes, version: int) -> Topic | KafkaError:
    if version >= FIRST_TOPIC_ID:
        topic = broker.catalog.by_id.get(wire_name) or broker.topic_by_id(wire_name)
        return topic if topic is not None else UnknownTopicId()
    topic = broker.catalog.by_wire_name.get(wire_name)
    return topic if topic is not None else UnknownTopicOrPartition()


def _checked(
    topic: Topic, view: memoryview, version: int, transactional_id: str | None
) -> BatchHeader:
    try:
        header = verify(view)
    except (CorruptMessage, UnsupportedForMessageFormat) as problem:
        # Kafka 4 sees no batch at all where one is cut short or of an old format.
        if isinstance(problem, CorruptMessage) and not _is_cut_short(view):
            raise
        raise InvalidRecord(problem.message or "") from None
    if header.attributes & (CODEC_MASK | TRANSACTIONAL):
        codec = header.codec
        if codec > ZSTD or (codec == ZSTD and version < 7):
            raise UnsupportedCompressionType(f"codec {codec} in Produce v{version}")
        if header.is_transactional:
            if transactional_id is None:
                raise TransactionalIdAuthorizationFailed("the request has no transactional id")
            raise InvalidTxnState(f"no transaction is open for {transactional_id!r}")
    if topic.is_internal:
        raise InvalidTopicException(f"{topic.name} is written by the broker only")
    return header


def _is_cut_short(view: memoryview) -> bool:
    return len(view) < PREFIX_SIZE or batch_size(view, 0) > len(view)


def _answer(later: Later, results: list[tuple[bytes, list[Result]]], version: int) -> None:
    """Encodes the outcome, or waits for the syncs that it depends on."""
    waiting = 0

    def synced(append: Append, error: BaseException | None) -> None:
        nonlocal waiting
        if isinstance(error, KafkaError):
            append.error = error
        waiting -= 1
        if waiting == 0:
            later.resolve([_encode(results, version)])

    for _, partitions in results:
        for _, partition, outcome in partitions:
            if (
                isinstance(outcome, Append)
                and outcome.must_sync
                and outcome.error is None
                and partition is not None
                and partition.synced_end <= outcome.last_offset
            ):
                waiting += 1
                partition.synced_thresholds.add(
                    outcome.last_offset + 1,
                    lambda error, append=outcome: synced(append, error),  # type: ignore[misc]
                )
    if waiting == 0:
        later.resolve([_encode(results, version)])


def _encode(results: list[tuple[bytes, list[Result]]], version: int) -> bytes:
    topics: list[tuple[bytes, list[PartitionAnswer]]] = []
    for wire_name, partitions in results:
        answers: list[PartitionAnswer] = []
        for index, partition, outcome in partitions:
            if isinstance(outcome, Append) and outcome.error is None:
                assert partition is not None
                answers.append(
                    (
                        index,
                        0,
                        outcome.base_offset,
                        outcome.log_append_time_ms,
                        partition.log.start,
                        None,
                    )
                )
            else:
                error = outcome if isinstance(outcome, KafkaError) else outcome.error
                assert error is not None
                # Kafka tells the log start with what it finds when it looks into the batch.
                log_start = -1
                if partition is not None and not isinstance(error, _WITHOUT_LOG_START):
                    log_start = partition.log.start
                answers.append((index, error.code, -1, -1, log_start, error.message))
        topics.append((wire_name, answers))
    return encode_response(topics, version)
