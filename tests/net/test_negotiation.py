"""The first thing that every client asks: which APIs, in which versions (COMPAT.md 1 to 6)."""

from __future__ import annotations

import struct

import pytest

import kbroker.handlers  # noqa: F401  # fills the registry
from kbroker.handlers.registry import APIS
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.net.running import Refusals, Running
from tests.net.wire import framed, header

UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42


def asking(name: str = "tester", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
async def test_every_version_of_the_answer_has_the_old_header(
    version: int, running: Running
) -> None:
    """redpanda#296: a tag section in the header of the ApiVersions answer breaks clients."""
    client = await running.connect()
    correlation_id = client.send(asking(), version)
    frame = await client.read_frame()
    assert int.from_bytes(frame[:4], "big") == correlation_id
    response = ApiVersionsResponse.decode(frame, version, 4)
    assert response.error_code == 0
    assert response.encode(version) == frame[4:], "bytes are left over or missing"


async def test_what_is_advertised_is_what_is_there(running: Running) -> None:
    """crabka#208, jocko#159: an API or version that is listed and not served is worse than none."""
    client = await running.connect()
    response = await client.ask(asking(), ApiVersionsResponse, 3)
    listed = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
    assert listed.keys() == APIS.keys()
    for key, (low, high) in listed.items():
        served = APIS[key].versions
        # Produce alone is announced from 0 for old librdkafka, and served from 3, as Kafka 4 does.
        assert (low, high) == (0 if key == 0 else served[0], served[-1])


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
async def test_an_unknown_version_is_answered_in_version_0_with_the_range_to_retry(
    version: int, running: Running, refusals: Refusals
) -> None:
    """KIP-511, kafka#7381, kop#176: the client reads v0 and asks again with what it finds there."""
    client = await running.connect()
    tags = b"\0" if version >= 3 else b""
    client.send_raw(framed(header(18, version, 77, False) + tags + b"\x07tester\x041.0\0"))
    frame = await client.read_frame()
    assert int.from_bytes(frame[:4], "big") == 77
    response = ApiVersionsResponse.decode(frame, 0, 4)
    assert response.error_code == UNSUPPORTED_VERSION
    ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
    assert ranges[18] == (0, 4)
    assert response.encode(0) == frame[4:]
    # The same connection goes on with a version that both know.
    assert (await client.ask(asking(), ApiVersionsResponse, ranges[18][1])).error_code == 0
    assert refusals.lines == []


@pytest.mark.parametrize(
    ("name", "version"), [("", "1"), ("x", ""), ("-x", "1"), ("a b", "1"), ("x", "1\n"), ("ü", "1")]
)
async def test_software_names_that_kafka_forbids_are_an_invalid_request(
    name: str, version: str, running: Running
) -> None:
    client = await running.connect()
    response = await client.ask(asking(name, version), ApiVersionsResponse, 3)
    assert response.error_code == INVALID_REQUEST
    assert (await client.ask(asking(), ApiVersionsResponse, 3)).error_code == 0


async def test_a_pinned_version_that_we_lack_is_named_in_the_log(
    running: Running, refusals: Refusals
) -> None:
    """redpanda#17581, librdkafka#4870: all that the client sees is EOF, so the log must tell."""
    client = await running.connect()
    await client.ask(asking("sarama", "1.0"), ApiVersionsResponse, 3)
    client.send_raw(framed(header(0, 2, 5, False, "pinned") + bytes(30)))
    assert await client.is_closed()
    line = refusals.only()
    assert "Produce v2 is not supported" in line
    assert "v3 to v13" in line
    assert "client_id='pinned'" in line
    assert "software=sarama/1.0" in line


async def test_unknown_tagged_fields_are_skipped(running: Running) -> None:
    """Newer clients may add tags to any flexible request, and to its header."""
    client = await running.connect()
    tags = b"\x02" + b"\x05\x03abc" + b"\xe8\x07\x01z"
    head = struct.pack(">hhih", 3, 9, 9, 3) + b"new" + tags
    client.send_raw(framed(head + b"\x01\0\0\0" + tags))
    frame = await client.read_frame()
    response = MetadataResponse.decode(frame, 9, 5)
    assert response.topics == []
    assert response.brokers[0].port == running.port


@pytest.mark.parametrize("version", MetadataRequest.versions)
async def test_a_client_without_an_id_is_served_in_every_version(
    version: int, running: Running
) -> None:
    client = await running.connect()
    client.client_id = None
    request = MetadataRequest(
        topics=[],
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    assert (await client.ask(request, MetadataResponse, version)).brokers
