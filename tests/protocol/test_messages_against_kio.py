"""Every message and version is read and written by kio too, and must come out the same.

kio is generated from Kafka's own schemas, so it is an independent reading of what a version
carries. It knows all of our messages and versions; nothing is skipped.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
from datetime import datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.schema import Message
from tests.protocol.generated_messages import api_name, each_version, values_of

# kio makes a datetime of it: -1 for "none", else a time that Python's datetime can hold.
KIO_TIMES = {"log_append_time_ms": st.one_of(st.just(-1), st.integers(0, 4_000_000_000_000))}


def kio_class(message: type[Message], version: int) -> Any:
    part = "request" if message.__name__.endswith("Request") else "response"
    module = importlib.import_module(f"kio.schema.{api_name(message)}.v{version}.{part}")
    return getattr(module, message.__name__)


def milliseconds(value: timedelta | datetime | None) -> int:
    if value is None:
        return -1
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    return milliseconds(value - datetime.fromtimestamp(0, value.tzinfo))


def assert_same(ours: Any, theirs: Any, version: int) -> None:
    """Compares field by field, with kio's richer types taken back to the wire's."""
    if isinstance(ours, Message):
        for field in ours.fields:
            if version not in field.versions:
                continue
            value = getattr(ours, field.name)
            if hasattr(theirs, field.name):
                assert_same(value, getattr(theirs, field.name), version)
            else:
                assert field.name.endswith("_ms")
                assert value == milliseconds(getattr(theirs, field.name.removesuffix("_ms")))
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for our_item, their_item in zip(ours, theirs, strict=True):
            assert_same(our_item, their_item, version)
    elif isinstance(theirs, UUID):
        assert ours == theirs.bytes
    elif theirs is None:
        assert ours is None or ours == ZERO_UUID
    else:
        assert ours == getattr(theirs, "value", theirs)


@each_version()
def test_kio_reads_what_we_write_and_writes_the_same_bytes(
    message: type[Message], version: int
) -> None:
    theirs = kio_class(message, version)
    read, write = entity_reader(theirs), entity_writer(theirs)
    assert theirs.__flexible__ == (version in message.flexible)
    assert theirs.__api_key__ == message.api_key

    @settings(max_examples=8, deadline=None)
    @given(values_of(message, version, KIO_TIMES))
    def check(ours: Message) -> None:
        encoded = ours.encode(version)
        decoded, size = read(encoded, 0)
        assert size == len(encoded)
        assert_same(ours, decoded, version)
        again = io.BytesIO()
        write(again, decoded)
        assert again.getvalue() == encoded

    check()


def structure_in(annotation: Any) -> Any:
    """kio's class inside `tuple[X, ...] | None` and the like."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    return next(filter(None, map(structure_in, get_args(annotation))), None)


def assert_same_defaults(ours: type[Message], theirs: Any, version: int) -> None:
    their_fields = {field.name: field for field in dataclasses.fields(theirs)}
    our_fields = [field for field in ours.fields if version in field.versions]
    assert len(our_fields) == len(their_fields)
    for field in our_fields:
        name = field.name if field.name in their_fields else field.name.removesuffix("_ms")
        default = their_fields[name].default
        # () stands for "no default" as well; a list left out is ours to choose.
        if default is not dataclasses.MISSING and default != ():
            absent = field.absent()
            if name == field.name:
                assert_same(absent, default, version)
            else:
                assert absent == milliseconds(default), field.name
        if isinstance(field.kind.element, type):
            assert_same_defaults(field.kind.element, structure_in(their_fields[name].type), version)


@each_version()
def test_defaults_that_kafka_declares_are_ours_too(message: type[Message], version: int) -> None:
    assert_same_defaults(message, kio_class(message, version), version)
