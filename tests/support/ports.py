"""Free TCP ports on the loopback address, and whether a Kafka broker answers on one."""

import socket
import struct

LOOPBACK = "127.0.0.1"
API_VERSIONS_V0 = struct.pack(
    ">ihhih", 10, 18, 0, 1, -1
)  # size, key, version, correlation, no client id


def free_port() -> int:
    """A port that was free a moment ago.

    Another process may take it before the caller does, so a caller that binds it must be ready to
    ask again. Prefer port 0 wherever the server can tell which port it got.
    """
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def answers_api_versions(port: int) -> bool:
    """Whether a broker on `port` answers ApiVersions, the first thing that every client asks."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=5) as connection:
            connection.sendall(API_VERSIONS_V0)
            answer = connection.makefile("rb").read(10)  # size, correlation id, error code
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (1, 0)
