"""`kbroker start`: runs a broker in the foreground until it is told to stop."""

from __future__ import annotations

import errno
import os
import sys

from kbroker import logs
from kbroker.cli.start_options import StartOptions
from kbroker.config_sources import ConfigError
from kbroker.data_folder import DataFolderError
from kbroker.launch import DEFAULT_HOST, DEFAULT_PORT, Options, launch
from kbroker.net.endpoint import address_text
from kbroker.protocol.errors import KafkaError
from kbroker.server import Server


class UsageProblem(Exception):
    """The command line asks for something that cannot be; the message says what to write."""


def start(options: StartOptions) -> int:
    """Gives the exit code: 0 after a clean stop, 1 if it could not start, 2 for wrong usage."""
    logs.set_up(options.log_level)
    try:
        launch(_launch_options(options), _ready)
    except (UsageProblem, ConfigError) as problem:
        return _say(2, str(problem))
    except DataFolderError as problem:
        return _say(1, str(problem))
    except KafkaError as problem:
        return _say(1, f"cannot write to the data folder: {problem}")
    except OSError as problem:
        return _say(1, _os_problem(options, problem))
    return 0


def _launch_options(options: StartOptions) -> Options:
    if options.memory and options.data is not None:
        raise UsageProblem("--memory keeps nothing, so --data has no meaning; give one of them")
    texts: dict[str, str] = {}
    for given in options.set:
        key, equals, value = given.partition("=")
        if not equals:
            raise UsageProblem(f"--set {given}: write it as key=value, such as num.partitions=3")
        texts[key] = value
    return Options(
        host=options.host,
        port=options.port,
        data=options.data,
        config=options.config,
        memory=options.memory,
        settings=texts,
    )


def _os_problem(options: StartOptions, problem: OSError) -> str:
    """What the system refused, without the event loop's own sentence around it."""
    if problem.filename:
        return f"{problem.filename}: {problem.strerror}"
    in_file = options.config is not None and options.host is None and options.port is None
    port = DEFAULT_PORT if options.port is None else options.port
    where = "" if in_file else f" on {options.host or DEFAULT_HOST}:{port}"
    if problem.errno is None or problem.errno < 0:  # the name of the host is not known
        return f"cannot listen{where}: {problem.strerror or problem}; choose another --host"
    advice = "--host" if problem.errno == errno.EADDRNOTAVAIL else "--port"
    return f"cannot listen{where}: {os.strerror(problem.errno)}; choose another {advice}"


def _ready(server: Server) -> None:
    addresses = [address_text(listener.host, listener.port) for listener in server.listeners]
    address = addresses[0]
    everywhere = " and ".join(addresses)
    print(f"kbroker is listening on {everywhere}, data in {server.folder.path}", flush=True)
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
