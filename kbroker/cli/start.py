"""`kbroker start`: runs a broker in the foreground until it is told to stop."""

from __future__ import annotations

import sys

from kbroker import logs
from kbroker.config import Settings
from kbroker.data_folder import DataFolderError
from kbroker.protocol.errors import KafkaError
from kbroker.server import Server, run


def start(host: str, port: int, data: str, settings_given: list[str], log_level: str) -> int:
    """Gives the exit code: 0 after a clean stop, 1 if it could not start, 2 for wrong usage."""
    texts: dict[str, str] = {}
    for given in settings_given:
        key, equals, value = given.partition("=")
        if not equals:
            return _say(2, f"--set {given}: write it as key=value, such as num.partitions=3")
        texts[key] = value
    if not 0 <= port <= 65535:
        return _say(2, f"--port {port}: a port lies between 0 and 65535")
    try:
        settings = Settings(texts)
    except ValueError as problem:
        return _say(2, f"--set: {problem}")
    logs.set_up(log_level)
    try:
        run(Server(settings, data), host, port, _ready)
    except DataFolderError as problem:
        return _say(1, str(problem))
    except KafkaError as problem:
        return _say(1, f"cannot write to the data folder {data}: {problem}")
    except OSError as problem:
        return _say(
            1,
            f"cannot listen on {host}:{port}: {problem.strerror}; choose another port with --port",
        )
    return 0


def _ready(server: Server) -> None:
    listener = server.listener
    address = f"{listener.host}:{listener.port}"
    print(f"kbroker is listening on {address}, data in {server.folder.path}", flush=True)
    print(
        "Try it:  "
        f"echo hello | kcat -P -b {address} -t first && kcat -C -e -q -b {address} -t first",
        flush=True,
    )


def _say(code: int, message: str) -> int:
    print(f"kbroker: {message}", file=sys.stderr)
    return code
