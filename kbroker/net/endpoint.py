"""Addresses: where a listener binds, and which address a client is told to come back to.

A Kafka client connects twice: to the address it was given, then to the one that the broker's answer
names. Most trouble with listeners is that second address. Here it is, unless somebody sets
`advertised.listeners`, the very address at which this client has just reached the broker: it works
for a client on the same machine, in another container of the same network, or on another machine,
and needs no setting. One case is invisible from here: a published container port, where the network
translates the address. Such a client arrives from the gateway of the container's network, and is
told `localhost`.
"""

from __future__ import annotations

import re
import socket
import struct
from typing import NamedTuple

_ENDPOINT = re.compile(r"([A-Za-z][A-Za-z0-9_]*)://(\[[0-9a-fA-F:.]+\]|[^:/\[\]]*):(-?\d{1,5})")
_ANY = ("0.0.0.0", "::", "")
_MAPPED = "::ffff:"


class Endpoint(NamedTuple):
    """A named address, such as PLAINTEXT://host:9092; an empty host stands for all interfaces."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{address_text(self.host, self.port)}"


def address_text(host: str, port: int) -> str:
    """host:port, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_endpoint(text: str) -> Endpoint:
    """Reads NAME://host:port; ValueError says what is wrong."""
    found = _ENDPOINT.fullmatch(text.strip())
    if found is None or not 0 <= int(found[3]) <= 65535:
        raise ValueError(f"{text!r} is no listener: write it as PLAINTEXT://host:9092")
    name = found[1].upper()
    if name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise ValueError(f"{text!r}: only plain text is spoken here; use PLAINTEXT://")
    return Endpoint(name, found[2].strip("[]"), int(found[3]))


def parse_advertised(text: str) -> Endpoint:
    """Reads an address for clients, which must be one that they can reach."""
    endpoint = parse_endpoint(text)
    if endpoint.host in _ANY:
        raise ValueError(f"{text!r}: clients cannot connect to {endpoint.host or 'an empty host'}")
    return endpoint


def plain_host(host: str) -> str:
    """An address without the clothes of a dual-stack socket (::ffff:10.0.0.1) or a zone (%eth0)."""
    host = host.partition("%")[0]
    if host.startswith(_MAPPED) and "." in host:
        return host.removeprefix(_MAPPED)
    return host


def advertised(
    explicit: Endpoint | None, peer_host: str, local_host: str, local_port: int, gateways: set[str]
) -> tuple[str, int]:
    """The address that a client is told, given how it came."""
    if explicit is not None:
        return explicit.host, explicit.port
    if plain_host(peer_host) in gateways:
        return "localhost", local_port
    return plain_host(local_host), local_port


def network_gateways() -> set[str]:
    """The gateways of this machine's (or container's) networks; none where the system tells
    none."""
    return _ipv4_gateways() | _ipv6_gateways()


def _ipv4_gateways() -> set[str]:
    found = set()
    try:
        with open("/proc/net/route") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if len(fields) > 2 and fields[2] != "00000000":
                    found.add(socket.inet_ntoa(struct.pack("<I", int(fields[2], 16))))
    except OSError:
        return set()
    return found


def _ipv6_gateways() -> set[str]:
    found = set()
    try:
        with open("/proc/net/ipv6_route") as file:
            for line in file:
                fields = line.split()
                if len(fields) > 4 and fields[4].strip("0"):
                    found.add(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[4])))
    except OSError:
        return set()
    return found
