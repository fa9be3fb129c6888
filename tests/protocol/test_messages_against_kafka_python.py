"""Every message and version is read and written by kafka-python too, and must come out the same.

kafka-python is a client: it is what users will point at the broker, and its codec shares nothing
with ours or with kio's. It knows all of our messages and versions; nothing is skipped. Where it can
take only some values of a field, NARROWED says which and why.
"""

from __future__ import annotations

import importlib
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.schema import Message
from tests.protocol.generated_messages import each_version, values_of

# kafka-python loads its schemas, at import, by a call that Python has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")

MODULES = ["kafka.protocol." + part for part in ("admin", "consumer", "metadata", "producer")]
NARROWED = {
    # Its decoder expects the body of version 0 beside any error, which is what brokers send.
    "ApiVersionsResponse": {"error_code": st.just(0)},
}
# kafka-python calls both "authorized_operations" and makes a set of bit numbers of them.
OPERATIONS = {"cluster_authorized_operations", "topic_authorized_operations"}


def kafka_python_class(message: type[Message]) -> Any:
    for name in MODULES:
        found = getattr(importlib.import_module(name), message.__name__, None)
        if found is not None:
            return found
    raise LookupError(message.__name__)


def bits_to_number(bits: set[int] | None) -> int:
    return sum(1 << bit for bit in ({31} if bits is None else bits))


def assert_same(ours: Any, theirs: Any, version: int) -> None:
    """Compares field by field, with kafka-python's richer types taken back to the wire's."""
    if isinstance(ours, Message):
        for field in ours.fields:
            if version not in field.versions:
                continue
            value = getattr(ours, field.name)
            if not hasattr(theirs, field.name):
                assert field.name in OPERATIONS
                assert value & 0xFFFFFFFF == bits_to_number(theirs.authorized_operations)
            elif field.tag is not None and getattr(theirs, field.name) is None:
                assert value == field.absent()
            else:
                assert_same(value, getattr(theirs, field.name), version)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for our_item, their_item in zip(ours, theirs, strict=True):
            assert_same(our_item, their_item, version)
    elif isinstance(ours, bytes) and theirs is None:
        assert ours == ZERO_UUID
    else:
        assert ours == (theirs.bytes if isinstance(theirs, UUID) else theirs)


@each_version()
def test_kafka_python_reads_what_we_write_and_writes_the_same_bytes(
    message: type[Message], version: int
) -> None:
    theirs = kafka_python_class(message)
    assert theirs.flexible_version_q(version) == (version in message.flexible)
    assert message.api_key == theirs.API_KEY

    @settings(max_examples=6, deadline=None)
    @given(values_of(message, version, NARROWED.get(message.__name__)))
    def check(ours: Message) -> None:
        encoded = ours.encode(version)
        decoded = theirs.decode(encoded, version=version)
        decoded._header = None  # unset by decode, but wanted by some messages' encode
        assert_same(ours, decoded, version)
        assert decoded.encode() == encoded

    check()
