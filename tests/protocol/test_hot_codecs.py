"""The hand-written Produce and Fetch codecs say the same as the compiled ones, in every version,
and end in a FrameError whatever the bytes are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbroker.protocol.errors import FrameError
from kbroker.protocol.hot import fetch as hot_fetch
from kbroker.protocol.hot import produce as hot_produce
from kbroker.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from kbroker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kbroker.protocol.primitives import ZERO_UUID
from tests.protocol.generated_messages import values_of

PRODUCE_VERSIONS = list(ProduceRequest.versions)
FETCH_VERSIONS = list(FetchRequest.versions)
FIRST_ID_VERSION = 13
FRONT = b"request header"

int16s = st.integers(-(1 << 15), (1 << 15) - 1)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
names = st.one_of(st.text(max_size=8), st.sampled_from(["", "é" * 64, "x" * 127, "x" * 20_000]))
ids = st.binary(min_size=16, max_size=16)


def each_version(versions: list[int]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", versions, ids=lambda version: f"v{version}")


# Produce


def produce_as_tuples(request: ProduceRequest, version: int) -> Any:
    topics = [
        (
            topic.topic_id if version >= FIRST_ID_VERSION else topic.name.encode(),
            [
                (part.index, None if part.records is None else bytes(part.records))
                for part in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    return request.transactional_id, request.acks, request.timeout_ms, topics


def decode_produce(data: bytes, version: int) -> Any:
    transactional_id, acks, timeout_ms, topics = hot_produce.decode_request(
        memoryview(FRONT + data), len(FRONT), version
    )
    return (
        transactional_id,
        acks,
        timeout_ms,
        [
            (name, [(index, None if view is None else bytes(view)) for index, view in partitions])
            for name, partitions in topics
        ],
    )


@each_version(PRODUCE_VERSIONS)
def test_produce_requests_are_read_alike(version: int) -> None:
    @settings(max_examples=40, deadline=None)
    @given(values_of(ProduceRequest, version))
    def check(request: ProduceRequest) -> None:
        data = request.encode(version)
        assert decode_produce(data, version) == produce_as_tuples(request, version)

    check()


def test_batches_are_views_of_the_frame_and_not_copies() -> None:
    frame = bytearray(b"\xff\xff\0\1\0\0\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0\0\5batch")
    _, _, _, [(name, [(index, view)])] = hot_produce.decode_request(memoryview(frame), 0, 7)
    assert (name, index) == (b"t", 0)
    assert view is not None
    view[0] = ord("B")
    assert frame.endswith(b"Batch")


partition_answers = st.tuples(
    int32s, int16s, int64s, int64s, int64s, st.one_of(st.none(), st.text(max_size=200))
)
produce_answers = st.lists(
    st.tuples(names, ids, st.lists(partition_answers, max_size=3)), max_size=3
)


@each_version(PRODUCE_VERSIONS)
def test_produce_answers_are_written_alike(version: int) -> None:
    @settings(max_examples=40, deadline=None)
    @given(produce_answers)
    @example([("t", bytes(16), [(0, 0, 5, -1, 0, None)] * 200)])
    def check(answers: list[tuple[str, bytes, list[hot_produce.PartitionAnswer]]]) -> None:
        with_id = version >= FIRST_ID_VERSION
        topics = [(topic_id if with_id else name.encode(), ps) for name, topic_id, ps in answers]
        message = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name="" if with_id else name,
                    topic_id=topic_id if with_id else ZERO_UUID,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=index,
                            error_code=error,
                            base_offset=base,
                            log_append_time_ms=append_time,
                            log_start_offset=log_start,
                            error_message=text,
                        )
                        for index, error, base, append_time, log_start, text in partitions
                    ],
                )
                for name, topic_id, partitions in answers
            ]
        )
        assert hot_produce.encode_response(topics, version) == message.encode(version)

    check()


# Fetch


def fetch_as_tuple(request: FetchRequest, version: int) -> hot_fetch.Fetch:
    with_id = version >= FIRST_ID_VERSION
    replica_id = request.replica_id if version < 15 else request.replica_state.replica_id
    return hot_fetch.Fetch(
        replica_id,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [
            (
                topic.topic_id if with_id else topic.topic.encode(),
                [
                    hot_fetch.FetchPartition(
                        part.partition,
                        part.current_leader_epoch,
                        part.fetch_offset,
                        part.last_fetched_epoch,
                        part.partition_max_bytes,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        [
            (topic.topic_id if with_id else topic.topic.encode(), list(topic.partitions))
            for topic in request.forgotten_topics_data
        ],
        request.rack_id,
    )


def decode_fetch(data: bytes, version: int) -> hot_fetch.Fetch:
    return hot_fetch.decode_request(memoryview(FRONT + data), len(FRONT), version)


@each_version(FETCH_VERSIONS)
def test_fetch_requests_are_read_alike(version: int) -> None:
    @settings(max_examples=40, deadline=None)
    @given(values_of(FetchRequest, version))
    def check(request: FetchRequest) -> None:
        decoded = decode_fetch(request.encode(version), version)
        expected = fetch_as_tuple(request, version)
        # A negative replica id is a consumer's, whichever it is.
        if expected.replica_id < 0:
            assert decoded.replica_id < 0
            decoded = decoded._replace(replica_id=expected.replica_id)
        assert decoded == expected

    check()


@each_version([version for version in FETCH_VERSIONS if version >= 15])
def test_plain_consumers_take_the_short_way(version: int) -> None:
    """What librdkafka and Java send all day must not fall through to the compiled codec."""
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=1,
        session_id=7,
        session_epoch=3,
        topics=[],
    )
    data = memoryview(request.encode(version))
    assert hot_fetch._decode_flexible(data, 0, version) == fetch_as_tuple(request, version)


class Stored:
    """Stands for stored bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.length = len(data)


fetch_answers = st.builds(
    hot_fetch.FetchAnswer,
    int32s,
    int16s,
    int64s,
    int64s,
    int64s,
    st.one_of(
        st.none(), st.builds(Stored, st.sampled_from([b"", b"x", b"y" * 126, b"z" * 70_000]))
    ),
    st.one_of(st.none(), st.tuples(st.integers(0, (1 << 31) - 1), int64s)),
    st.integers(-1, (1 << 31) - 1),
)


@each_version(FETCH_VERSIONS)
def test_fetch_answers_are_written_alike(version: int) -> None:
    @settings(max_examples=40, deadline=None)
    @given(
        int16s,
        int32s,
        st.lists(st.tuples(names, ids, st.lists(fetch_answers, max_size=3)), max_size=3),
        st.booleans(),
    )
    def check(
        error: int,
        session_id: int,
        answers: list[tuple[str, bytes, list[hot_fetch.FetchAnswer]]],
        committed: bool,
    ) -> None:
        with_id = version >= FIRST_ID_VERSION
        topics = [(topic_id if with_id else name.encode(), ps) for name, topic_id, ps in answers]
        pieces = hot_fetch.encode_response(version, error, session_id, topics, committed)
        written = b"".join(
            piece.data if isinstance(piece, Stored) else piece  # type: ignore[misc]
            for piece in pieces
        )
        message = FetchResponse(
            error_code=error if version >= 7 else 0,
            session_id=session_id if version >= 7 else 0,
            responses=[
                FetchableTopicResponse(
                    topic="" if with_id else name,
                    topic_id=topic_id if with_id else ZERO_UUID,
                    partitions=[
                        partition_data(answer, version, committed) for answer in partitions
                    ],
                )
                for name, topic_id, partitions in answers
            ],
        )
        assert written == message.encode(version)
        stored = [a.stored for _, partitions in topics for a in partitions if a.stored]
        large = [piece for piece in pieces if isinstance(piece, Stored)]
        assert large == [piece for piece in stored if piece.length], "stored bytes are not copied"

    check()


def partition_data(
    answer: hot_fetch.FetchAnswer, version: int, committed: bool
) -> FetchPartitionData:
    data = FetchPartitionData(
        partition_index=answer.partition,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start if version >= 5 else -1,
        aborted_transactions=[] if committed else None,
        preferred_read_replica=answer.preferred_replica if version >= 11 else -1,
        records=answer.stored.data if isinstance(answer.stored, Stored) else b"",
    )
    if answer.diverging is not None and version >= 12:
        epoch, end_offset = answer.diverging
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data


# Damage

Decoder = Callable[[bytes, int], Any]

CASES: list[tuple[Decoder, type[Any], int]] = [
    *((decode_produce, ProduceRequest, version) for version in PRODUCE_VERSIONS),
    *((decode_fetch, FetchRequest, version) for version in FETCH_VERSIONS),
]
CASE_NAMES = [f"{message.__name__}-v{version}" for _, message, version in CASES]


def compiled_outcome(message: type[Any], data: bytes, version: int) -> Any:
    try:
        decoded = message.decode(data, version)
    except FrameError:
        return FrameError
    as_tuples = produce_as_tuples if message is ProduceRequest else fetch_as_tuple
    return as_tuples(decoded, version)


def hot_outcome(decode: Decoder, data: bytes, version: int) -> Any:
    try:
        return decode(data, version)
    except FrameError:
        return FrameError


@pytest.mark.parametrize(("decode", "message", "version"), CASES, ids=CASE_NAMES)
def test_every_prefix_is_refused(decode: Decoder, message: type[Any], version: int) -> None:
    @settings(max_examples=5, deadline=None)
    @given(values_of(message, version))
    def check(request: Any) -> None:
        data = request.encode(version)
        for length in range(0, len(data), max(1, len(data) // 300)):
            assert hot_outcome(decode, data[:length], version) is FrameError

    check()


@pytest.mark.parametrize(("decode", "message", "version"), CASES, ids=CASE_NAMES)
def test_damaged_requests_are_read_as_the_compiled_codec_reads_them_or_refused(
    decode: Decoder, message: type[Any], version: int
) -> None:
    """The hand-written decoders may be more patient in one point: a topic name of Produce is looked
    up as bytes and need not be UTF-8. Otherwise both must agree, also on what is refused."""

    @settings(max_examples=60, deadline=None)
    @given(values_of(message, version), st.data())
    def check(request: Any, data: st.DataObject) -> None:
        damaged = bytearray(request.encode(version))
        places = st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255))
        for position, byte in data.draw(st.lists(places, min_size=1, max_size=4)):
            damaged[position] = byte
        hot = hot_outcome(decode, bytes(damaged), version)
        compiled = compiled_outcome(message, bytes(damaged), version)
        if compiled is FrameError and message is ProduceRequest and hot is not FrameError:
            assert any(not is_utf8(name) for name, _ in hot[3])
        elif hot != compiled:
            assert compiled is not FrameError
            assert hot is not FrameError
            assert hot._replace(replica_id=-1) == compiled._replace(replica_id=-1)
            assert hot.replica_id < 0
            assert compiled.replica_id < 0

    check()


def is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(CASES), st.binary(max_size=200))
def test_garbage_ends_in_a_frame_error_or_a_request(
    case: tuple[Decoder, type[Any], int], data: bytes
) -> None:
    decode, _, version = case
    hot_outcome(decode, data, version)


@pytest.mark.parametrize(("decode", "message", "version"), CASES, ids=CASE_NAMES)
@pytest.mark.parametrize("huge", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff" * 8])
def test_huge_counts_are_refused_at_once(
    huge: bytes, decode: Decoder, message: type[Any], version: int
) -> None:
    for position in range(40):
        hot_outcome(decode, bytes(position) + huge + bytes(40), version)
        hot_outcome(decode, b"\1" * position + huge + b"\1" * 40, version)
        hot_outcome(decode, b"\2" * position + huge, version)
