"""Where a broker listens, as users write it: host:port, an IPv6 address in brackets."""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> list[Address]:
    """One address, or several with commas between; ValueError says what is wrong and what to write.

    Nothing is guessed: a forgotten port would otherwise reach another program's listener.
    """
    addresses = [_parse_one(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("there is no address; write host:port, such as 127.0.0.1:9092")
    return addresses


def _parse_one(text: str) -> Address:
    if "://" in text:
        raise ValueError(f"{text!r} begins with a protocol; write only {text.partition('://')[2]}")
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not rest.startswith(":"):
            raise ValueError(f"{text!r} has no port; write [host]:port, such as [::1]:9092")
        port_text = rest[1:]
    else:
        host, colon, port_text = text.rpartition(":")
        if not colon:
            raise ValueError(f"{text!r} has no port; write host:port, such as {text}:9092")
        if ":" in host:
            raise ValueError(f"{text!r} is not host:port; an IPv6 address goes in brackets")
    if not host:
        raise ValueError(f"{text!r} has no host; write host:port, such as 127.0.0.1:{port_text}")
    if not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text) <= 65535):
        raise ValueError(f"{text!r}: a port is a number from 1 to 65535, not {port_text!r}")
    return Address(host, int(port_text))
