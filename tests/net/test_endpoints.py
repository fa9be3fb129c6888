"""Addresses: reading them, and which one a client is told."""

from __future__ import annotations

import pytest

from kbroker.net.endpoint import (
    Endpoint,
    advertised,
    network_gateways,
    parse_advertised,
    parse_endpoint,
    plain_host,
)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://host:9092", Endpoint("PLAINTEXT", "host", 9092)),
        ("inside://:9093", Endpoint("INSIDE", "", 9093)),
        ("PLAINTEXT://[::1]:0", Endpoint("PLAINTEXT", "::1", 0)),
        ("PLAINTEXT://0.0.0.0:9092", Endpoint("PLAINTEXT", "0.0.0.0", 9092)),
    ],
)
def test_a_listener_is_a_name_a_host_and_a_port(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize(
    "text",
    ["host:9092", "PLAINTEXT://host", "PLAINTEXT://h:99999", "PLAINTEXT://a/b:1", "SSL://h:1", ""],
)
def test_what_is_no_listener_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PLAINTEXT://"):
        parse_endpoint(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", ""])
def test_an_address_that_nobody_can_connect_to_is_never_advertised(host: str) -> None:
    with pytest.raises(ValueError, match="cannot connect"):
        parse_advertised(f"PLAINTEXT://{host}:9092")


def test_a_client_is_told_the_address_at_which_it_came() -> None:
    assert advertised(None, "10.0.0.9", "10.0.0.5", 9092, {"10.0.0.1"}) == ("10.0.0.5", 9092)
    assert advertised(None, "fd00::9", "fd00::5", 9092, set()) == ("fd00::5", 9092)
    assert advertised(None, "::ffff:10.0.0.9", "::ffff:10.0.0.5", 1, set()) == ("10.0.0.5", 1)


def test_a_client_from_the_gateway_is_told_localhost() -> None:
    assert advertised(None, "10.0.0.1", "10.0.0.5", 9092, {"10.0.0.1"}) == ("localhost", 9092)


def test_an_explicit_address_always_wins() -> None:
    explicit = Endpoint("PLAINTEXT", "example.org", 19092)
    assert advertised(explicit, "10.0.0.1", "10.0.0.5", 9092, {"10.0.0.1"}) == (
        "example.org",
        19092,
    )


def test_zones_and_mapped_addresses_are_written_plainly() -> None:
    assert plain_host("fe80::1%eth0") == "fe80::1"
    assert plain_host("::ffff:1.2.3.4") == "1.2.3.4"


def test_the_machines_own_gateways_are_addresses() -> None:
    assert all("." in gateway or ":" in gateway for gateway in network_gateways())
