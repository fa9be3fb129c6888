"""Our codecs against themselves: round trips, and input that is cut, damaged or hostile.

What a peer sends may only ever end in a message or in a FrameError; anything else would reach the
connection as a bug, or let a few bytes cost the broker its memory.
"""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol.errors import FrameError
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.schema import Message
from tests.protocol.generated_messages import MESSAGES, each_version, values_of

HUGE_COUNTS = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"]
MEMORY_LIMIT_BYTES = 1 << 20


def decode_or_refuse(message: type[Message], version: int, data: bytes) -> Message | None:
    try:
        return message.decode(data, version)
    except FrameError:
        return None


def some_prefixes(data: bytes) -> list[bytes]:
    """Every proper prefix of a short message; of a long one about a hundred."""
    return [data[:end] for end in range(0, len(data), max(1, len(data) // 100))]


def damage(data: bytes, random: Random) -> bytes:
    """Overwrites up to three places with one to five bytes, of which many look like lengths."""
    damaged = bytearray(data)
    for _ in range(random.randint(1, 3)):
        position = random.randint(0, len(data))
        size = random.randint(1, 5)
        damaged[position : position + size] = random.choices(b"\0\1\2\x7f\x80\xff", k=size)
    return bytes(damaged)


@each_version()
def test_a_message_survives_and_its_damaged_forms_are_read_or_refused(
    message: type[Message], version: int
) -> None:
    @settings(max_examples=5, deadline=None)
    @given(values_of(message, version), st.integers(0, 1 << 32))
    def check(original: Message, seed: int) -> None:
        encoded = original.encode(version)
        assert message.decode(encoded, version) == original
        assert message.decode(memoryview(b"head" + encoded), version, 4) == original

        for prefix in some_prefixes(encoded):
            with pytest.raises(FrameError):
                message.decode(prefix, version)

        random = Random(seed)
        for damaged in (damage(encoded, random) for _ in range(10)):
            survivor = decode_or_refuse(message, version, damaged)
            if survivor is not None:
                assert message.decode(survivor.encode(version), version) == survivor

    check()


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(MESSAGES).flatmap(
        lambda message: st.tuples(st.just(message), st.sampled_from(message.versions))
    ),
    st.binary(max_size=300),
)
def test_garbage_is_read_or_refused(case: tuple[type[Message], int], data: bytes) -> None:
    decode_or_refuse(*case, data)


@pytest.mark.parametrize("huge", HUGE_COUNTS, ids=["int32", "varint-31-bits", "varint-32-bits"])
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_a_huge_count_in_any_place_costs_no_memory(message: type[Message], huge: bytes) -> None:
    for version in (message.versions[0], message.versions[-1]):
        decode_or_refuse(message, version, huge)  # compiles outside of the measurement
        tracemalloc.start()
        try:
            for position in range(24):
                decode_or_refuse(message, version, bytes(position) + huge + bytes(40))
                decode_or_refuse(message, version, b"\1" * position + huge + b"\1" * 40)
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak_bytes < MEMORY_LIMIT_BYTES


@pytest.mark.parametrize(
    ("version", "data"), [(1, b"\x7f\xff\xff\xff"), (9, b"\xff\xff\xff\xff\x07\0\0\0\0")]
)
def test_a_topic_list_longer_than_its_frame_is_refused_by_name(version: int, data: bytes) -> None:
    with pytest.raises(FrameError, match="topics runs over the end"):
        MetadataRequest.decode(data, version)


def test_a_count_of_numbers_that_do_not_fit_is_refused() -> None:
    response = MetadataResponse(brokers=[], topics=[])
    encoded = response.encode(0)
    replicas = b"\0\0" + b"\0\0\0\1" + b"\0\0\0\0" + b"\0\0\0\5" + bytes(16)
    topic = b"\0\0" + b"\0\1t" + b"\0\0\0\1" + replicas
    with pytest.raises(FrameError, match="replica_nodes runs over the end"):
        MetadataResponse.decode(encoded[:4] + b"\0\0\0\1" + topic, 0)


def test_every_message_has_a_partner_with_the_same_key_and_versions() -> None:
    assert len(MESSAGES) % 2 == 0
    by_name = {message.__name__: message for message in MESSAGES}
    for name, request in by_name.items():
        if name.endswith("Request"):
            response = by_name[name.removesuffix("Request") + "Response"]
            assert request.api_key == response.api_key
            assert request.versions == response.versions
            assert request.flexible == response.flexible
