"""ApiVersions, and what is answered before any API is known: unknown keys, versions and headers."""

from struct import pack

import pytest

from kbroker.handlers.registry import APIS
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.metadata import MetadataRequest
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import CLOSED, Scene
from tests.support.raw_client import Closed

API_VERSIONS, PRODUCE = 18, 0


def api_versions_request(name: str = "raw", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
def test_every_advertised_api_has_the_versions_of_apache_kafka(both: Both, version: int) -> None:
    """Apache Kafka lists more APIs, and features that kbroker has not: docs/differences.md."""

    def scenario(scene: Scene) -> dict[int, tuple[int, int]]:
        answer = scene.told(api_versions_request(), ApiVersionsResponse, version)
        assert answer.error_code == 0
        ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        return {key: ranges[key] for key in APIS}

    assert len(both.agree(scenario)) == len(APIS)


def test_an_api_versions_of_the_future_is_answered_in_version_0(both: Both) -> None:
    def scenario(scene: Scene) -> Plain:
        scene.client.send_body(API_VERSIONS, 99, b"\0\0\0\0", flexible=True)
        frame = scene.client.receive_frame()
        # The connection goes on: the client asks again in a version that it was told.
        again = scene.told(api_versions_request(), ApiVersionsResponse, 4)
        return [frame[4:], again.error_code]

    told = both.agree(scenario)
    assert told == [pack(">hihhh", 35, 1, API_VERSIONS, 0, 4), 0]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("", "1"), ("a", ""), ("-a", "1"), ("a-", "1"), ("a b", "1"), ("a/b", "1"), ("ä", "1")),
        *(("a", ".1"), ("a", "1_0"), ("A.b-c.9", "v1.0-rc1"), ("a", "1\n"), ("a" * 300, "1")),
    ],
)
def test_the_name_of_a_clients_software_is_checked(both: Both, name: str, version: str) -> None:
    def scenario(scene: Scene) -> int:
        answer = scene.told(api_versions_request(name, version), ApiVersionsResponse, 3)
        return answer.error_code

    both.agree(scenario)


def outcome(scene: Scene, key: int, version: int, body: bytes, *, flexible: bool = False) -> Plain:
    """What is answered to bytes, and whether the broker still serves others."""
    scene.client.send_body(key, version, body, flexible=flexible)
    try:
        told: Plain = scene.client.receive_frame()
    except Closed:
        told = CLOSED
    scene.reconnect()
    assert scene.told(api_versions_request(), ApiVersionsResponse).error_code == 0
    return told


@pytest.mark.parametrize(
    ("key", "version"),
    [
        *((PRODUCE, 0), (PRODUCE, 2), (PRODUCE, 14), (1, 3), (1, 19), (2, 0), (3, 14), (3, -1)),
        *((999, 0), (-1, 0), (4, 0), (19, 1), (19, 8), (35, 0), (75, 1), (60, 3)),
    ],
)
def test_an_unknown_api_or_version_closes_the_connection(
    both: Both, key: int, version: int
) -> None:
    assert both.agree(lambda scene: outcome(scene, key, version, b"")) == CLOSED


def test_a_body_that_is_cut_short_closes_the_connection(both: Both) -> None:
    whole = MetadataRequest(
        topics=None,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    ).encode(12)
    assert both.agree(lambda scene: outcome(scene, 3, 12, whole[:-1], flexible=True)) == CLOSED


def test_an_empty_frame_closes_the_connection(both: Both) -> None:
    def scenario(scene: Scene) -> Plain:
        scene.client.send_frame(b"")
        try:
            return scene.client.receive_frame()
        except Closed:
            return CLOSED

    assert both.agree(scenario) == CLOSED
