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
        f"Paste this to produce and consume:\n\n{first_steps(sys.executable, address)}\n",
        flush=True,
    )


def first_steps(python: str, address: str) -> str:
    """A line for a shell: installs a client, produces a record and reads it back."""
    program = (
        "from kafka import *; "
        f"b = '{address}'; t = TopicPartition('first', 0); "
        "print(KafkaProducer(bootstrap_servers=b).send('first', b'hello').get(10)); "
        "c = KafkaConsumer(bootstrap_servers=b, consumer_timeout_ms=1000); "
        "c.assign([t]); c.seek_to_beginning(t); "
        "print([(r.offset, r.value) for r in c])"
    )
    return f'{python} -m pip install -q kafka-python && {python} -c "{program}"'


def _say(code: int, message: str) -> int:
    print(f"kbroker: {message}", file=sys.stderr)
    return code
