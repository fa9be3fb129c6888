"""What a declared message promises, shown on a small one with a bit of everything."""

from __future__ import annotations

import math
import struct as python_struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol.errors import FrameError
from kbroker.protocol.primitives import ZERO_UUID, read_uvarint, uvarint
from kbroker.protocol.schema import (
    Message,
    array,
    boolean,
    bytestring,
    float64,
    int8,
    int16,
    int32,
    int64,
    parse_versions,
    records,
    string,
    struct,
    uint16,
    uint32,
    uuid,
    wire,
)


class Wheel(Message):
    size: int = wire(int16, "0+", default=26)
    maker: str = wire(string, "1+", default="")


class Bicycle(Message, key=900, versions="0-3", flexible="2+"):
    name: str = wire(string, "0+", nullable="1+")
    gears: int = wire(int8, "0-1", default=1)
    wheels: list[Wheel] | None = wire(array(Wheel), "0+", nullable="1+", default=list)
    lamp: Wheel | None = wire(struct(Wheel), "3+", nullable="3+", default=None)
    owner: str | None = wire(string, "2+", nullable="2+", tag=0, default=None)
    spare: Wheel = wire(struct(Wheel), "2+", tag=2, default=Wheel)
    stickers: list[str] = wire(array(string), "2+", tag=300, default=list)


class Everything(Message, key=901, versions="0-1", flexible="1+"):
    truth: bool = wire(boolean, "0+")
    byte: int = wire(int8, "0+")
    short: int = wire(int16, "0+")
    port: int = wire(uint16, "0+")
    number: int = wire(int32, "0+")
    count: int = wire(uint32, "0+")
    offset: int = wire(int64, "0+")
    ratio: float = wire(float64, "0+")
    identity: bytes = wire(uuid, "0+")
    text: str = wire(string, "0+")
    raw: bytes = wire(bytestring, "0+")
    batch: bytes | memoryview | None = wire(records, "0+", nullable="0+")
    identities: list[bytes] = wire(array(uuid), "0+")
    offsets: list[int] = wire(array(int64), "0+")
    flags: list[bool] = wire(array(boolean), "0+")
    names: list[str] = wire(array(string), "0+")


EVERYTHING = Everything(
    truth=True,
    byte=-1,
    short=-2,
    port=65535,
    number=-3,
    count=0xFFFFFFFF,
    offset=-(1 << 63),
    ratio=math.pi,
    identity=bytes(range(16)),
    text="schön",
    raw=b"\0\xff",
    batch=b"batch",
    identities=[bytes(range(16)), ZERO_UUID],
    offsets=[1, -1],
    flags=[True, False],
    names=["a", ""],
)


def tag_section(*tags: tuple[int, bytes]) -> bytes:
    parts = [uvarint(number) + uvarint(len(content)) + content for number, content in tags]
    return uvarint(len(tags)) + b"".join(parts)


# Making messages


def test_a_field_without_a_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="name"):
        Bicycle()  # type: ignore[call-arg]  # that is the point


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="bell"):
        Bicycle(name="b", bell=True)  # type: ignore[call-arg]  # that is the point
    with pytest.raises(AttributeError):
        Bicycle(name="b").bell = True  # type: ignore[attr-defined]  # that is the point


def test_defaults_are_taken_and_lists_and_structures_are_not_shared() -> None:
    one, other = Bicycle(name="one"), Bicycle(name="other")
    assert (one.gears, one.wheels, one.lamp, one.spare) == (1, [], None, Wheel(size=26))
    assert one.wheels is not other.wheels
    assert one.spare is not other.spare


def test_null_given_for_a_list_stays_null() -> None:
    assert Bicycle(name="b", wheels=None).wheels is None


def test_messages_are_equal_by_class_and_fields_and_cannot_be_hashed() -> None:
    assert Wheel(size=3) == Wheel(size=3)
    assert Wheel(size=3) != Wheel(size=4)
    assert Bicycle(name="b") != Wheel(size=3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Wheel())


def test_the_repr_is_the_call_that_makes_the_message() -> None:
    bicycle = Bicycle(name="b", wheels=[Wheel(size=3)])
    assert eval(repr(bicycle)) == bicycle


def test_a_class_knows_its_key_versions_and_fields() -> None:
    assert (Bicycle.api_key, Bicycle.versions, 1 in Bicycle.flexible) == (900, range(0, 4), False)
    assert [field.name for field in Wheel.fields] == ["size", "maker"]
    assert Wheel.api_key == -1


@pytest.mark.parametrize(
    ("text", "within", "without"), [("3+", 30000, 2), ("0-12", 12, 13), ("7", 7, 8), ("7", 7, 6)]
)
def test_version_ranges_are_read_as_kafka_writes_them(text: str, within: int, without: int) -> None:
    assert within in parse_versions(text)
    assert without not in parse_versions(text)


# Versions


def test_a_version_carries_its_own_fields_only() -> None:
    bicycle = Bicycle(name="b", gears=7, wheels=[Wheel(size=28, maker="m")], owner="o")
    assert bicycle.encode(0) == b"\0\1b\7\0\0\0\1\0\x1c"
    assert bicycle.encode(1) == b"\0\1b\7\0\0\0\1\0\x1c\0\1m"
    assert bicycle.encode(2) == b"\2b\2\0\x1c\2m\0" + tag_section((0, b"\2o"))
    read = Bicycle.decode(bicycle.encode(0), 0)
    assert read == Bicycle(name="b", gears=7, wheels=[Wheel(size=28)])


def test_a_field_that_the_version_lacks_reads_as_its_default() -> None:
    assert Bicycle.decode(Bicycle(name="b", gears=7).encode(2), 2).gears == 1


def test_a_version_outside_of_the_declared_ones_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="Bicycle has no version 4"):
        Bicycle.decode(b"", 4)
    with pytest.raises(ValueError, match="Bicycle has no version -1"):
        Bicycle(name="b").encode(-1)


@pytest.mark.parametrize("version", [0, 1])
def test_every_kind_survives(version: int) -> None:
    encoded = EVERYTHING.encode(version)
    assert Everything.decode(encoded, version) == EVERYTHING
    fixed = python_struct.pack(
        ">?bhHiIqd16s", True, -1, -2, 65535, -3, 0xFFFFFFFF, -(1 << 63), math.pi, bytes(range(16))
    )
    assert encoded.startswith(fixed)


def test_records_are_a_window_on_the_request_and_not_a_copy() -> None:
    frame = memoryview(EVERYTHING.encode(1))
    message = Everything.decode(frame, 1)
    assert isinstance(message.batch, memoryview)
    assert message.batch.obj is frame.obj
    assert isinstance(message.raw, bytes)


# Null


@pytest.mark.parametrize("version", range(4))
def test_null_is_written_and_read_where_the_version_allows_it(version: int) -> None:
    bicycle = Bicycle(name=None, wheels=None)  # type: ignore[arg-type]  # null from version 1 on
    if version == 0:
        with pytest.raises(ValueError, match="name may not be null"):
            bicycle.encode(version)
    else:
        assert Bicycle.decode(bicycle.encode(version), version) == bicycle


def test_null_that_the_version_does_not_allow_is_refused_by_name() -> None:
    with pytest.raises(FrameError, match="name may not be null"):
        Bicycle.decode(b"\xff\xff\1\0\0\0\0", 0)
    with pytest.raises(FrameError, match="wheels may not be null"):
        Bicycle.decode(b"\0\1b\1\xff\xff\xff\xff", 0)


def test_a_structure_that_may_be_null_has_a_byte_in_front() -> None:
    assert Bicycle(name="b").encode(3) == b"\2b\1\xff\0"
    lit = Bicycle(name="b", lamp=Wheel(size=1))
    assert lit.encode(3) == b"\2b\1" + b"\1" + b"\0\1\1\0" + b"\0"
    assert Bicycle.decode(lit.encode(3), 3) == lit


# Tagged fields


def test_a_tagged_field_at_its_default_is_left_out() -> None:
    assert Bicycle(name="b", owner=None, spare=Wheel(), stickers=[]).encode(2) == b"\2b\1\0"


def test_tagged_fields_are_written_in_the_order_of_their_tags() -> None:
    bicycle = Bicycle(name="b", owner="o", spare=Wheel(size=2), stickers=["s", ""])
    tags = tag_section((0, b"\2o"), (2, b"\0\2\1\0"), (300, b"\3\2s\1"))
    assert bicycle.encode(2) == b"\2b\1" + tags
    assert Bicycle.decode(bicycle.encode(2), 2) == bicycle


def test_unknown_tags_are_stepped_over_at_every_level() -> None:
    unknown = tag_section((1, b"future"), (70000, bytes(300)))
    known = tag_section((0, b"\2o"), (1, b"future"), (2, b"\0\2\1" + unknown))
    read = Bicycle.decode(b"\2b" + b"\2" + b"\0\3\1" + unknown + known, 2)
    assert read == Bicycle(name="b", wheels=[Wheel(size=3)], owner="o", spare=Wheel(size=2))


@pytest.mark.parametrize("stated_size", [1, 3])
def test_a_tagged_field_of_another_length_than_stated_is_refused(stated_size: int) -> None:
    """The size of the string once overwrote the size of the tag, so the two always agreed."""
    tags = b"\1" + b"\0" + uvarint(stated_size) + b"\2o" + bytes(5)
    with pytest.raises(FrameError, match="another length"):
        Bicycle.decode(b"\2b\1" + tags, 2)


@pytest.mark.parametrize("tag", [0, 1])
def test_a_tagged_field_that_runs_over_the_end_is_refused(tag: int) -> None:
    with pytest.raises(FrameError, match="tagged field runs over the end"):
        Bicycle.decode(b"\2b\1" + b"\1" + uvarint(tag) + b"\x7f" + b"\2o", 2)
    with pytest.raises(FrameError, match="tagged field runs over the end"):
        Bicycle.decode(b"\2b" + b"\2\0\3\1" + b"\1" + uvarint(tag) + b"\x7f" + b"\2o", 2)


# Bad input


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(FrameError, match="Bicycle v0 is cut short or malformed"):
        Bicycle.decode(b"\0\2\xff\xfe\1\0\0\0\0", 0)


def test_text_that_runs_over_the_end_is_refused_by_name() -> None:
    with pytest.raises(FrameError, match="name runs over the end"):
        Bicycle.decode(b"\0\5bike", 0)


@given(st.integers(0, 0xFFFFFFFF))
def test_a_varint_survives(value: int) -> None:
    encoded = uvarint(value)
    assert read_uvarint(b"x" + encoded, 1) == (value, 1 + len(encoded))
    assert len(encoded) == max(1, math.ceil(value.bit_length() / 7))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x10", b"\x80" * 5 + b"\1", b"\xff" * 9])
def test_a_varint_beyond_32_bits_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError, match="does not fit 32 bits"):
        read_uvarint(data, 0)
