"""Fuzz: the hand-written decoders of Produce and Fetch against the compiled ones.

The first byte chooses the request and version. Both decoders read the same request, or both refuse.
One difference is meant: a topic name of Produce need not be UTF-8; it is looked up as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.protocol.errors import FrameError
from kbroker.protocol.hot import fetch as hot_fetch
from kbroker.protocol.hot import produce as hot_produce
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.produce import ProduceRequest
from tests.net.wire import batch_of, fetch_request, produce_request
from tests.protocol.test_hot_codecs import fetch_as_tuple, is_utf8, produce_as_tuples

NAME = "hot_codecs"
CASES: list[tuple[type[ProduceRequest] | type[FetchRequest], int]] = [
    *((ProduceRequest, version) for version in ProduceRequest.versions),
    *((FetchRequest, version) for version in FetchRequest.versions),
]


def check(data: bytes) -> None:
    """One body, read twice."""
    if not data:
        return
    message, version = CASES[data[0] % len(CASES)]
    if message is ProduceRequest:
        _check_produce(data, version)
    else:
        _check_fetch(data, version)


def _check_produce(data: bytes, version: int) -> None:
    try:
        hot = hot_produce.decode_request(memoryview(data), 1, version)
    except FrameError:
        hot = None
    try:
        compiled = ProduceRequest.decode(memoryview(data), version, 1)
    except FrameError:
        assert hot is None or not all(is_utf8(name) for name, _ in hot[3])
        return
    assert hot is not None
    assert produce_as_tuples(compiled, version) == (
        *hot[:3],
        [
            (name, [(index, None if view is None else bytes(view)) for index, view in parts])
            for name, parts in hot[3]
        ],
    )


def _check_fetch(data: bytes, version: int) -> None:
    try:
        hot = hot_fetch.decode_request(memoryview(data), 1, version)
    except FrameError:
        hot = None
    try:
        compiled = FetchRequest.decode(memoryview(data), version, 1)
    except FrameError:
        assert hot is None
        return
    assert hot is not None
    expected = fetch_as_tuple(compiled, version)
    if expected.replica_id < 0 and hot.replica_id < 0:
        hot = hot._replace(replica_id=expected.replica_id)
    assert hot == expected


def seeds() -> Iterator[bytes]:
    """A request of each version, and zeros."""
    for number, (message, version) in enumerate(CASES):
        topic = bytes(16) if version >= 13 else "topic"
        yield bytes([number]) + bytes(80)
        if message is ProduceRequest:
            yield bytes([number]) + produce_request(topic, batch_of(b"v")).encode(version)
        else:
            wanted = {(topic, 0): 5, (topic, 1): 6}
            yield bytes([number]) + fetch_request(wanted).encode(version)
            forgetting = fetch_request(wanted, forgotten=[(topic, 3)], session_id=5)
            yield bytes([number]) + forgetting.encode(version)


if __name__ == "__main__":
    from tests.fuzz.engine import run

    run(NAME, check, seeds())
