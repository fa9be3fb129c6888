"""Records inside a batch, against four that write and read them: Apache Kafka, librdkafka,
kafka-python and aiokafka; and against bytes that mean harm."""

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol import compression
from kbroker.protocol.batch import HEADER, HEADER_SIZE, PREFIX_SIZE, peek, verify
from kbroker.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    KafkaError,
    UnsupportedCompressionType,
)
from kbroker.protocol.records import (
    Header,
    NewRecord,
    Record,
    build,
    first_at_or_after,
    iterate,
    max_timestamp_record,
)

# kafka-python loads its schemas, at import, by calls that Python has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:(open|read)_text is deprecated:DeprecationWarning")

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
START_MS = 1_700_000_000_000
INT64_MAX = (1 << 63) - 1

# Written by Apache Kafka 4.3.1's MemoryRecordsBuilder.
JAVA_BATCHES = {
    "none": """
        00000000000003e80000009c0000000502806fdbe60000000000030000018bcfe568000000018bcfe56fd000
        0000000000109200030000004d0000000476000000046b314e76616c7565206f6e652076616c7565206f6e65
        2076616c7565206f6e652076616c7565206f6e6506026804010202680104c3a9002a00cf0f02011c6e656761
        746976652064656c7461002000a01f0412746f6d6273746f6e6501000e00a01f06000000
    """,
    "gzip": """
        00000000000003e80000009200000005020bb22ac30001000000030000018bcfe568000000018bcfe56fd000
        0000000000109200030000004d000000041f8b08000000000000ff2b63606060c936f42b4bcc294d55c8cf4b
        55c0cb6263ca60616462ca606439bc92418be13c3f13a34c5e6a7a62496659aa424a6a4e49228302c3027916
        a192fcdca4e212a00e46063ea0001bd01a0038b720e86b000000
    """,
    "snappy": """
        00000000000003e80000009900000005022f183f1b0002000000030000018bcfe568000000018bcfe56fd000
        0000000000109200030000004d0000000482534e41505059000000000100000001000000546b447600000004
        6b314e76616c7565206f6e6520720a00ec06026804010202680104c3a9002a00cf0f02011c6e656761746976
        652064656c7461002000a01f0412746f6d6273746f6e6501000e00a01f06000000
    """,
    "lz4": """
        00000000000003e800000095000000050273eeb15a0003000000030000018bcfe568000000018bcfe56fd000
        0000000000109200030000004d0000000404224d1860408255000000ff0376000000046b314e76616c756520
        6f6e65200a000af02d06026804010202680104c3a9002a00cf0f02011c6e656761746976652064656c746100
        2000a01f0412746f6d6273746f6e6501000e00a01f0600000000000000
    """,
    "zstd": """
        00000000000003e80000009200000005029fcf606a0004000000030000018bcfe568000000018bcfe56fd000
        0000000000109200030000004d0000000428b52ffd0058ac0200e40476000000046b314e76616c7565206f6e
        652006026804010202680104c3a9002a00cf0f02011c6e656761746976652064656c7461002000a01f041274
        6f6d6273746f6e6501000e00a01f0600000001007a9730010000
    """,
}
JAVA_LOG_APPEND_TIME_BATCHES = {
    "none": """
        00000000000003e80000009c000000050286f432740008000000030000018bcfe568000000018bcfe58f0f00
        0000000000109200030000004d0000000476000000046b314e76616c7565206f6e652076616c7565206f6e65
        2076616c7565206f6e652076616c7565206f6e6506026804010202680104c3a9002a00cf0f02011c6e656761
        746976652064656c7461002000a01f0412746f6d6273746f6e6501000e00a01f06000000
    """,
    "zstd": """
        00000000000003e8000000920000000502e04dec5d000c000000030000018bcfe568000000018bcfe58f0f00
        0000000000109200030000004d0000000428b52ffd0058ac0200e40476000000046b314e76616c7565206f6e
        652006026804010202680104c3a9002a00cf0f02011c6e656761746976652064656c7461002000a01f041274
        6f6d6273746f6e6501000e00a01f0600000001007a9730010000
    """,
}
# A transaction's commit marker, written by the same.
JAVA_MARKER = """
    000000000000000c00000042000000050255aefb0a0030000000000000018bcfe568000000018bcfe5680000
    000000000010920003ffffffff000000012000000008000000010c00000000000900
"""
# Sent by librdkafka 2.16.0 and taken from the segment of an Apache Kafka 4.3.1.
LIBRDKAFKA_BATCHES = {
    "none": """
        00000000000000000000015b00000000023dc36bbb0000000000030000018bcfe568000000018bcfe56fd0ff
        ffffffffffffffffffffffffff000000049a02000000046b31f00176616c7565206f6e652076616c7565206f
        6e652076616c7565206f6e652076616c7565206f6e652076616c7565206f6e652076616c7565206f6e652076
        616c7565206f6e652076616c7565206f6e652076616c7565206f6e652076616c7565206f6e652076616c7565
        206f6e652076616c7565206f6e652006026804010202680104c3a900800200cf0f0201f0016e656761746976
        652064656c7461206e656761746976652064656c7461206e656761746976652064656c7461206e6567617469
        76652064656c7461206e656761746976652064656c7461206e656761746976652064656c7461206e65676174
        6976652064656c7461206e656761746976652064656c746120002000a01f0412746f6d6273746f6e6501000e
        00a01f06000000
    """,
    "gzip": """
        00000000000000000000009b000000000285581fd40001000000030000018bcfe568000000018bcfe56fd0ff
        ffffffffffffffffffffffffff000000041f8b08000000000000039bc5c4c0c0c0926df881b12c31a7345521
        3f2f5581be2c36a60c164626a60c4696c32b191a9818cef333317e60cc4b4d4f2cc92c4b554849cd294954a0
        1b97418161813c8b50497e6e527109d0798c0c7c400136602001008fa91dcd2a010000
    """,
    "snappy": """
        0000000000000000000000950000000002a41fa2620002000000030000018bcfe568000000018bcfe56fd0ff
        ffffffffffffffffffffffffff00000004aa024c9a02000000046b31f00176616c7565206f6e6520fe0a00b6
        0a009006026804010202680104c3a900800200cf0f0201f0016e656761746976652064656c746120fe0f00a2
        0f0064002000a01f0412746f6d6273746f6e6501000e00a01f06000000
    """,
    "lz4": """
        00000000000000000000009f00000000020fbaa4700003000000030000018bcfe568000000018bcfe56fd0ff
        ffffffffffffffffffffffffff0000000404224d186040825f000000ff059a02000000046b31f00176616c75
        65206f6e65200a005bff1606026804010202680104c3a900800200cf0f0201f0016e65676174697665206465
        6c7461200f0056f00b002000a01f0412746f6d6273746f6e6501000e00a01f0600000000000000
    """,
    "zstd": """
        0000000000000000000000980000000002d99f49cf0004000000030000018bcfe568000000018bcfe56fd0ff
        ffffffffffffffffffffffffff0000000428b52ffd0058f5020034059a02000000046b31f00176616c756520
        6f6e652006026804010202680104c3a900800200cf0f0201f0016e656761746976652064656c746120002000
        a01f0412746f6d6273746f6e6501000e00a01f0600000002003532d367352d4c
    """,
}

JAVA_RECORDS = (
    NewRecord(
        START_MS,
        b"k1",
        b"value one value one value one value one",
        (Header("h", b"\x01\x02"), Header("h", None), Header("é", b"")),
    ),
    NewRecord(START_MS - 1000, None, b"negative delta"),
    NewRecord(START_MS + 2000, b"tombstone", None),
    NewRecord(START_MS + 2000, b"", b""),
)
LIBRDKAFKA_RECORDS = (
    NewRecord(START_MS, b"k1", b"value one " * 12, JAVA_RECORDS[0].headers),
    NewRecord(START_MS - 1000, None, b"negative delta " * 8),
    *JAVA_RECORDS[2:],
)

each_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
# kafka-python's other codecs want packages of their own.
each_other = pytest.mark.parametrize(
    ("client", "codec"),
    [("kafka", 0), ("kafka", 1), *(("aiokafka", codec) for codec in CODECS.values())],
)

# No deadline: the first example imports a client, and the machine may be busy.
interop = settings(max_examples=40, deadline=None)
fuzz = settings(max_examples=120, deadline=None)

optional_bytes = st.none() | st.binary(max_size=200)
new_records = st.lists(
    st.builds(
        NewRecord,
        st.integers(0, 1 << 45),
        optional_bytes,
        optional_bytes,
        st.lists(st.builds(Header, st.text(max_size=20), optional_bytes), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=30,
)


def numbered(records: Sequence[NewRecord], base_offset: int = 0) -> list[Record]:
    """What a reader must see."""
    return [
        Record(base_offset + index, new.timestamp_ms, new.key, new.value, new.headers)
        for index, new in enumerate(records)
    ]


def foreign_class(client: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(
        importlib.import_module(f"{client}.record.default_records"), name
    )
    return found


def batch_of(payload: bytes, *, codec: int = 0, count: int = 1, **changes: int) -> bytes:
    """A batch around any payload, with any header; its checksum is not looked at."""
    fields = {
        "base_offset": 0,
        "batch_length": HEADER_SIZE - PREFIX_SIZE + len(payload),
        "leader_epoch": 0,
        "magic": 2,
        "crc": 0,
        "attributes": codec,
        "last_offset_delta": max(count - 1, 0),
        "base_timestamp": START_MS,
        "max_timestamp": START_MS,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": count,
    }
    return HEADER.pack(*(fields | changes).values()) + payload


# Written and read by others.


@pytest.mark.parametrize("name", CODECS)
def test_batches_of_apache_kafka_are_read(name: str) -> None:
    batch = bytes.fromhex(JAVA_BATCHES[name])
    assert verify(memoryview(batch)).codec == CODECS[name]
    assert list(iterate(batch)) == numbered(JAVA_RECORDS, 1000)


@pytest.mark.parametrize("name", JAVA_LOG_APPEND_TIME_BATCHES)
def test_log_append_time_is_the_time_of_every_record(name: str) -> None:
    batch = bytes.fromhex(JAVA_LOG_APPEND_TIME_BATCHES[name])
    assert [record.timestamp_ms for record in iterate(batch)] == [START_MS + 9999] * 4
    assert [record.key for record in iterate(batch)] == [new.key for new in JAVA_RECORDS]


@pytest.mark.parametrize("name", CODECS)
def test_batches_of_librdkafka_are_read(name: str) -> None:
    batch = bytes.fromhex(LIBRDKAFKA_BATCHES[name])
    assert verify(memoryview(batch)).codec == CODECS[name]
    assert list(iterate(batch)) == numbered(LIBRDKAFKA_RECORDS)


def test_we_write_the_very_bytes_of_apache_kafka() -> None:
    def ours(log_append_time_ms: int | None) -> bytes:
        return build(
            JAVA_RECORDS,
            base_offset=1000,
            producer_id=4242,
            producer_epoch=3,
            base_sequence=77,
            leader_epoch=5,
            log_append_time_ms=log_append_time_ms,
        )

    assert ours(None) == bytes.fromhex(JAVA_BATCHES["none"])
    assert ours(START_MS + 9999) == bytes.fromhex(JAVA_LOG_APPEND_TIME_BATCHES["none"])


def test_we_write_the_very_marker_of_apache_kafka() -> None:
    commit = NewRecord(START_MS, bytes.fromhex("0000 0001"), bytes.fromhex("0000 00000009"))
    assert list(iterate(bytes.fromhex(JAVA_MARKER))) == numbered([commit], 12)
    ours = build(
        [commit],
        base_offset=12,
        producer_id=4242,
        producer_epoch=3,
        leader_epoch=5,
        transactional=True,
        control=True,
    )
    assert ours == bytes.fromhex(JAVA_MARKER)


@each_other
@interop
@given(records=new_records)
def test_batches_of_other_clients_are_read(
    client: str, codec: int, records: list[NewRecord]
) -> None:
    builder = foreign_class(client, "DefaultRecordBatchBuilder")(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for index, new in enumerate(records):
        headers = [(header.key, header.value) for header in new.headers]
        builder.append(index, new.timestamp_ms, new.key, new.value, headers)
    assert list(iterate(bytes(builder.build()))) == numbered(records)


@each_other
@interop
@given(records=new_records, base_offset=st.integers(0, 1 << 60))
def test_our_batches_are_read_by_other_clients(
    client: str, codec: int, records: list[NewRecord], base_offset: int
) -> None:
    batch = foreign_class(client, "DefaultRecordBatch")(
        build(records, base_offset=base_offset, compression=codec)
    )
    assert batch.validate_crc()
    assert batch.next_offset == base_offset + len(records)
    assert batch.max_timestamp == max(new.timestamp_ms for new in records)
    theirs = [
        Record(
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            tuple(Header(key, value) for key, value in record.headers),
        )
        for record in batch
    ]
    assert theirs == numbered(records, base_offset)


@each_codec
@interop
@given(records=new_records, base_offset=st.integers(0, 1 << 60))
def test_what_was_built_is_whole_and_comes_back(
    codec: int, records: list[NewRecord], base_offset: int
) -> None:
    batch = build(records, base_offset=base_offset, compression=codec)
    header = verify(memoryview(batch))
    assert (header.codec, header.last_offset) == (codec, base_offset + len(records) - 1)
    assert list(iterate(memoryview(batch))) == numbered(records, base_offset)


def test_the_flags_of_a_batch_are_set_as_asked() -> None:
    header = peek(build(JAVA_RECORDS, compression=4, transactional=True))
    assert (header.is_transactional, header.is_control, header.codec) == (True, False, 4)


def test_a_header_name_that_is_not_utf_8_survives_being_rewritten() -> None:
    batch = batch_of(bytes.fromhex("14 00 00 00 01 01 02 04 fffe 01"))
    (record,) = iterate(batch)
    rewritten = build([NewRecord(START_MS, None, None, record.headers)])
    assert rewritten[HEADER_SIZE:] == batch[HEADER_SIZE:]


def test_an_empty_batch_has_no_records_whatever_its_codec() -> None:
    for codec in CODECS.values():
        empty = batch_of(b"", codec=codec, count=0, last_offset_delta=9)
        assert list(iterate(empty)) == []
        assert max_timestamp_record(empty) is None
        assert first_at_or_after(empty, 0) is None


# Looking for a time.


@each_codec
def test_the_first_record_at_or_after_a_time_is_found(codec: int) -> None:
    batch = build(JAVA_RECORDS, base_offset=50, compression=codec)

    def found(timestamp_ms: int, from_offset: int = 0) -> int | None:
        record = first_at_or_after(batch, timestamp_ms, from_offset=from_offset)
        return record.offset if record else None

    assert found(0) == 50
    assert found(START_MS) == 50
    assert found(START_MS + 1) == 52
    assert found(START_MS + 2000) == 52
    assert found(START_MS + 2001) is None
    assert found(0, from_offset=51) == 51
    assert found(START_MS, from_offset=51) == 52


@each_codec
def test_the_first_of_the_newest_records_is_found(codec: int) -> None:
    batch = build(JAVA_RECORDS, base_offset=50, compression=codec)
    assert max_timestamp_record(batch) == (52, START_MS + 2000)
    stamped = build(JAVA_RECORDS, base_offset=50, compression=codec, log_append_time_ms=7)
    assert max_timestamp_record(stamped) == (50, 7)
    assert first_at_or_after(stamped, 8) is None


def test_times_are_taken_from_the_records_when_the_header_has_none() -> None:
    """sarama leaves max_timestamp unset; a lookup that trusts it finds nothing."""
    payload = build(JAVA_RECORDS)[HEADER_SIZE:]
    batch = batch_of(payload, count=4, max_timestamp=-1)
    assert max_timestamp_record(batch) == (2, START_MS + 2000)
    assert first_at_or_after(batch, START_MS + 1) == numbered(JAVA_RECORDS)[2]


# Bytes that mean harm. One record that is right: 0c | 00 | 00 | 00 | 01 | 01 | 00 = length,
# attributes, timestamp delta, offset delta, null key, null value, no headers.


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ("0c 00 00 00 01 01 00 00", "more than the records"),
        ("", "ends inside"),
        ("0c 00 00 00 01 01", "does not fit in its batch"),
        ("0b", "does not fit in its batch"),
        ("feffffff0f 00", "does not fit in its batch"),
        ("0e 00 00 00 01 01 00 00", "content of another size"),
        ("0a 00 00 00 01 01 00", "content of another size"),
        ("0c 00 00 02 01 01 00", "offset delta 1 lies outside"),
        ("0c 00 00 01 01 01 00", "offset delta -1 lies outside"),
        ("0c 00 00 00 08 01 00", "runs over the end"),
        ("0c 00 00 00 01 04 00", "runs over the end"),
        ("0c 00 00 00 01 01 01", "counts -1 headers"),
        ("0c 00 00 00 01 01 02", "counts 1 headers"),
        ("10 00 00 00 01 01 02 01 01", "without a name"),
        ("10 00 00 00 01 01 02 7e 01", "runs over the end"),
        ("14 00 00 808080808000 01 01 00", "does not fit 32 bits"),
        ("1e 00 8080808080808080808000 00 01 01 00", "does not fit 64 bits"),
        ("1e 00 feffffffffffffffff01 00 01 01 00", "timestamp does not fit 64 bits"),
        ("80", "ends inside"),
        ("8080", "ends inside"),
        ("808080808080", "does not fit 32 bits"),
    ],
)
@each_codec
def test_a_malformed_record_is_refused(payload: str, why: str, codec: int) -> None:
    compressed = compression.compress(codec, bytes.fromhex(payload))
    with pytest.raises(InvalidRecord, match=why):
        list(iterate(batch_of(compressed, codec=codec)))


@pytest.mark.parametrize(
    "payload",
    [
        "14 00 00 8080808070 01 01 00",  # offset delta 0, with bits beyond the 32nd
        "1e 00 8080808080808080807e 00 01 01 00",  # timestamp delta 0, bits beyond the 64th
        "0c 55 00 00 01 01 00",  # attributes, which have no meaning yet
        "0c 00 00 00 09 09 00",  # lengths of -5: as null as -1
    ],
)
def test_oddities_that_apache_kafka_reads_are_read(payload: str) -> None:
    assert list(iterate(batch_of(bytes.fromhex(payload)))) == [Record(0, START_MS, None, None)]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"magic": 1}, CorruptMessage),
        ({"magic": 3}, CorruptMessage),
        ({"batch_length": 0}, CorruptMessage),
        ({"batch_length": 57}, CorruptMessage),
        ({"batch_length": -1}, CorruptMessage),
        ({"record_count": -1}, InvalidRecord),
        ({"record_count": 0}, InvalidRecord),
        ({"record_count": 2}, InvalidRecord),
        ({"record_count": 0x7FFFFFFF}, InvalidRecord),
        ({"last_offset_delta": -1}, InvalidRecord),
        ({"base_offset": INT64_MAX, "last_offset_delta": 1}, InvalidRecord),
        ({"attributes": 5}, UnsupportedCompressionType),
        ({"attributes": 7}, UnsupportedCompressionType),
        ({"attributes": 1}, CorruptMessage),
        ({"attributes": 2}, CorruptMessage),
        ({"attributes": 3}, CorruptMessage),
        ({"attributes": 4}, CorruptMessage),
    ],
)
def test_a_header_that_lies_is_refused(changes: dict[str, int], error: type[KafkaError]) -> None:
    last_offset_delta_1 = bytes.fromhex("0c 00 00 02 01 01 00")
    plain = bytes.fromhex("0c 00 00 00 01 01 00")
    payload = last_offset_delta_1 if "base_offset" in changes else plain
    with pytest.raises(error):
        list(iterate(batch_of(payload, **changes)))


def test_a_batch_cut_at_any_byte_is_refused() -> None:
    for name, batch in JAVA_BATCHES.items():
        whole = bytes.fromhex(batch)
        for size in range(len(whole)):
            with pytest.raises(CorruptMessage):
                list(iterate(whole[:size]))
            if size > HEADER_SIZE:
                count = peek(whole).record_count
                cut = batch_of(whole[HEADER_SIZE:size], codec=CODECS[name], count=count)
                with pytest.raises((CorruptMessage, InvalidRecord)):
                    list(iterate(cut))


def test_a_bomb_inside_a_batch_is_refused() -> None:
    batch = build([NewRecord(START_MS, None, bytes(1 << 20))], compression=4)
    assert len(batch) < 1000
    with pytest.raises(CorruptMessage, match="more than 65536 bytes"):
        list(iterate(batch, max_size=65536))


edits = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 3), st.binary(max_size=10)),
    min_size=1,
    max_size=5,
)


def edited(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    """Overwrites, inserts and removes bytes at places that are taken modulo the length."""
    out = bytearray(data)
    for place, removed, inserted in changes:
        position = place % (len(out) + 1)
        out[position : position + removed] = inserted
    return bytes(out)


@each_codec
@fuzz
@given(changes=edits)
def test_a_damaged_batch_is_decoded_or_refused_with_a_kafka_error(
    codec: int, changes: list[tuple[int, int, bytes]]
) -> None:
    batch = edited(build(JAVA_RECORDS, compression=codec), changes)
    for damaged in (batch, batch[:8] + (len(batch) - 12).to_bytes(4, "big") + batch[12:]):
        with suppress(KafkaError):
            list(iterate(damaged, max_size=1 << 20))


@each_codec
@fuzz
@given(changes=edits, count=st.integers(-1, 10))
def test_damaged_records_are_decoded_or_refused_with_a_kafka_error(
    codec: int, changes: list[tuple[int, int, bytes]], count: int
) -> None:
    payload = compression.compress(codec, edited(build(JAVA_RECORDS)[HEADER_SIZE:], changes))
    with suppress(KafkaError):
        for record in iterate(batch_of(payload, codec=codec, count=count)):
            assert 0 <= record.offset < count
            assert -INT64_MAX - 1 <= record.timestamp_ms <= INT64_MAX


@fuzz
@given(data=st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused_with_a_kafka_error(data: bytes) -> None:
    for batch in (data, batch_of(data, count=len(data))):
        with suppress(KafkaError):
            list(iterate(batch))
