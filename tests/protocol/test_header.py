"""Request and response headers, against kio and kafka-python and with broken input."""

from __future__ import annotations

import importlib
import io
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as PlainRequestHeader
from kio.schema.request_header.v2.header import RequestHeader as FlexibleRequestHeader
from kio.schema.response_header.v0.header import ResponseHeader as PlainResponseHeader
from kio.schema.response_header.v1.header import ResponseHeader as FlexibleResponseHeader
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from kbroker.protocol.errors import FrameError
from kbroker.protocol.header import (
    decode_request_header,
    first_flexible_versions,
    is_flexible,
    is_response_header_flexible,
    response_header,
)
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.primitives import uvarint

FIRST_FLEXIBLE = {3: 9, 18: 3}
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


def kio_bytes(header: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(header))(out, header)
    return out.getvalue()


def plain_header(key: int, version: int, client_id: bytes | None = b"me") -> bytes:
    length = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, 7, length) + (client_id or b"")


@settings(deadline=None)
@given(INT16, INT16, INT32, st.none() | st.text(), st.booleans(), st.binary())
def test_a_header_that_kio_wrote_is_read(
    key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool, body: bytes
) -> None:
    kind: Any = FlexibleRequestHeader if flexible else PlainRequestHeader
    head = kio_bytes(
        kind(
            request_api_key=i16(key),
            request_api_version=i16(version),
            correlation_id=i32(correlation_id),
            client_id=client_id,
        )
    )
    table = {key: -(1 << 15)} if flexible else {}
    expected = (key, version, correlation_id, client_id, len(head))
    assert decode_request_header(head + body, table) == expected
    assert decode_request_header(memoryview(head + body), table) == expected


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
@pytest.mark.parametrize("version", [8, 9])
def test_a_request_of_kafka_python_is_read_up_to_its_body(version: int) -> None:
    theirs = importlib.import_module("kafka.protocol.metadata")
    request = theirs.MetadataRequest(topics=None, version=version)
    request.with_header(correlation_id=5, client_id="kafka-python")
    data = request.encode(header=True)
    *header, position = decode_request_header(data, FIRST_FLEXIBLE)
    assert header == [3, version, 5, "kafka-python"]
    assert MetadataRequest.decode(data, version, position).topics is None


def test_the_tag_section_is_stepped_over_from_the_first_flexible_version_on() -> None:
    tags = uvarint(1) + uvarint(300) + uvarint(3) + b"abc"
    assert decode_request_header(plain_header(3, 8) + tags, FIRST_FLEXIBLE)[4] == 12
    assert decode_request_header(plain_header(3, 9) + tags, FIRST_FLEXIBLE)[4] == 12 + len(tags)
    assert decode_request_header(plain_header(3, 99) + b"\0", FIRST_FLEXIBLE)[4] == 13


def test_the_header_of_an_unknown_api_is_read_so_that_it_can_be_refused() -> None:
    assert decode_request_header(plain_header(999, 4), FIRST_FLEXIBLE) == (999, 4, 7, "me", 12)


@pytest.mark.parametrize("version", [0, 9])
def test_a_header_cut_anywhere_is_refused(version: int) -> None:
    whole = plain_header(3, version) + (b"\1\5\2ab" if version == 9 else b"")
    for end in range(len(whole)):
        with pytest.raises(FrameError):
            decode_request_header(whole[:end], FIRST_FLEXIBLE)


def test_a_client_id_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(FrameError, match="malformed"):
        decode_request_header(plain_header(3, 0, b"\xff\xfe"), FIRST_FLEXIBLE)


def test_http_is_refused() -> None:
    with pytest.raises(FrameError, match="client id runs over the end"):
        decode_request_header(b"GET / HTTP/1.1\r\n\r\n", FIRST_FLEXIBLE)


@given(st.binary(max_size=40))
def test_garbage_is_read_or_refused(data: bytes) -> None:
    try:
        position = decode_request_header(data, dict.fromkeys(range(100), 0))[4]
    except FrameError:
        return
    assert 10 <= position <= len(data)


@given(INT32)
def test_a_response_header_is_read_by_kio(correlation_id: int) -> None:
    for kind in (PlainResponseHeader, FlexibleResponseHeader):
        data = response_header(correlation_id, kind.__flexible__)
        header, size = entity_reader(kind)(data, 0)
        assert header == kind(correlation_id=i32(correlation_id))
        assert size == len(data)


def test_an_api_versions_answer_never_has_a_tag_section_in_its_header() -> None:
    assert is_flexible(ApiVersionsRequest, 3)
    assert not is_response_header_flexible(ApiVersionsRequest, 3)
    assert is_response_header_flexible(FetchRequest, 12)
    assert not is_response_header_flexible(FetchRequest, 11)


def test_the_table_of_first_flexible_versions_comes_from_the_request_classes() -> None:
    assert first_flexible_versions([MetadataRequest, ApiVersionsRequest]) == FIRST_FLEXIBLE
