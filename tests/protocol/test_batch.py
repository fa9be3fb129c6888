"""The batch header: what is checked, what is stamped, and that the checksum knows."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol import records
from kbroker.protocol.batch import (
    CRC_START,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    batch_size,
    is_whole,
    peek,
    restamp_time,
    stamp,
    verify,
)
from kbroker.protocol.checksum import crc32c
from kbroker.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    KafkaError,
    UnsupportedForMessageFormat,
)
from kbroker.protocol.records import NewRecord

GOOD = records.build(
    [NewRecord(1_700_000_000_000 + n, b"key", b"value %d" % n) for n in range(3)],
    producer_id=7,
    producer_epoch=2,
    base_sequence=40,
)


def view_of(data: bytes) -> memoryview:
    return memoryview(bytearray(data))


def test_a_good_batch_is_verified_into_its_header() -> None:
    header = verify(view_of(GOOD))
    assert header.size == len(GOOD)
    assert header.last_offset == 2
    assert header.record_count == 3
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 40)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_000_002)
    assert (header.codec, header.is_control, header.is_transactional) == (0, False, False)
    assert is_whole(view_of(GOOD))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_every_changed_byte_is_noticed_or_is_the_brokers_to_stamp(position: int, mask: int) -> None:
    damaged = view_of(GOOD)
    damaged[position] ^= mask
    stamped = position < 8 or 12 <= position < 16  # base offset and leader epoch
    assert is_whole(damaged) == stamped
    if stamped:
        verify(damaged)
    else:
        with pytest.raises((CorruptMessage, InvalidRecord, UnsupportedForMessageFormat)):
            verify(damaged)


@pytest.mark.parametrize("length", range(len(GOOD)))
def test_every_prefix_is_refused(length: int) -> None:
    assert not is_whole(view_of(GOOD[:length]))
    with pytest.raises(CorruptMessage):
        verify(view_of(GOOD[:length]))


def test_more_than_one_batch_is_refused() -> None:
    for data in (GOOD + GOOD, GOOD + b"x", GOOD + bytes(100)):
        assert not is_whole(view_of(data))
        with pytest.raises(InvalidRecord):
            verify(view_of(data))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_named(magic: int) -> None:
    data = view_of(GOOD)
    data[16] = magic
    with pytest.raises(UnsupportedForMessageFormat, match=f"format {magic}"):
        verify(data)
    with pytest.raises(UnsupportedForMessageFormat):
        verify(data[:40])


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_unknown_formats_are_corrupt(magic: int) -> None:
    data = view_of(GOOD)
    data[16] = magic
    for view in (data, data[:40]):
        with pytest.raises(CorruptMessage):
            verify(view)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_refused_with_a_kafka_error(data: bytes) -> None:
    assert not is_whole(view_of(data))
    with pytest.raises(KafkaError):
        verify(view_of(data))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, (1 << 63) - 1), st.integers(-1, (1 << 31) - 1))
def test_stamping_changes_two_fields_and_keeps_the_checksum_right(offset: int, epoch: int) -> None:
    batch = view_of(GOOD)
    before = peek(batch)
    stamp(batch, offset, epoch)
    after = verify(batch)
    assert after == before._replace(base_offset=offset, leader_epoch=epoch)
    assert batch[16:] == GOOD[16:]


@settings(max_examples=100, deadline=None)
@given(st.integers(-1, (1 << 63) - 1))
def test_restamping_the_time_makes_the_checksum_right_again(timestamp_ms: int) -> None:
    batch = view_of(GOOD)
    restamp_time(batch, LOG_APPEND_TIME, timestamp_ms)
    header = verify(batch)
    assert header.max_timestamp == timestamp_ms
    assert header.attributes == LOG_APPEND_TIME
    assert header.crc == crc32c(batch[CRC_START:])
    assert batch[HEADER_SIZE:] == GOOD[HEADER_SIZE:]


def test_sizes_count_the_prefix() -> None:
    assert batch_size(GOOD, 0) == len(GOOD)
    assert batch_size(b"skip" + GOOD, 4) == len(GOOD)


def test_peeking_needs_a_whole_header() -> None:
    assert isinstance(peek(b"skip" + GOOD, 4), BatchHeader)
    with pytest.raises(struct.error):
        peek(GOOD[: HEADER_SIZE - 1])
