"""Asks a broker for its versions and exits with 0 if it answers: `python -m kbroker.healthcheck`.

Plain sockets and no imports of the broker, because a container runs this every few seconds.
"""

import os
import socket
import struct
import sys

_API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 7, -1)


def is_healthy(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Whether a broker answers ApiVersions there, without an error."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(_API_VERSIONS_V0)
            answer = b""
            while len(answer) < 10:
                received = connection.recv(4096)
                if not received:
                    return False
                answer += received
    except OSError:
        return False
    _, correlation_id, error = struct.unpack_from(">iih", answer)
    return bool(correlation_id == 7 and error == 0)


def main(arguments: list[str]) -> int:
    """0 if the broker at host:port answers, else 1."""
    address = arguments[0] if arguments else f"127.0.0.1:{os.environ.get('KBROKER_PORT', 9092)}"
    host, _, port = address.rpartition(":")
    return 0 if is_healthy(host.strip("[]"), int(port)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
