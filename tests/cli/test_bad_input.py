"""Wrong addresses, strangers on the port, wrong numbers: one sentence, what to do, an exit code."""

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kbroker.cli.client.address import Address
from kbroker.cli.client.connection import Connection
from kbroker.cli.client.failure import Unreachable
from tests.cli.commands import Run
from tests.support.broker_process import BrokerProcess
from tests.support.ports import LOOPBACK, free_port

COMMANDS_THAT_TALK = (
    ("status",),
    ("topics", "list"),
    ("topics", "create", "t"),
    ("topics", "describe", "t"),
    ("topics", "alter", "t", "--partitions", "2"),
    ("topics", "delete", "t"),
    ("configs", "show"),
    ("configs", "set", "--broker", "0", "a=b"),
    ("configs", "unset", "--broker", "0", "a"),
    ("produce", "t"),
    ("consume", "t"),
)


@contextmanager
def stranger(answer: bytes) -> Iterator[str]:
    """A server that answers every connection with these bytes and closes it; its address."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with closing(client):
                    client.recv(1024)
                    client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"{LOOPBACK}:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("words", COMMANDS_THAT_TALK, ids=" ".join)
def test_where_nobody_listens_every_command_says_so(run: Run, words: tuple[str, ...]) -> None:
    address = f"{LOOPBACK}:{free_port()}"
    said = run(*words, "--bootstrap", address).refused()
    assert f"nobody listens on {address}; start a broker with: kbroker start" in said


def test_an_http_server_is_recognised(run: Run) -> None:
    handler = type("Quiet", (http.server.BaseHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer((LOOPBACK, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"{LOOPBACK}:{server.server_address[1]}"
            said = run("status", "--bootstrap", address).refused()
        finally:
            server.shutdown()
            thread.join()
    assert f"{address} is not a Kafka broker: it looks like an HTTP server; give the" in said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it looks like an HTTP server"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "it looks like an SSH server"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "it looks like a TLS listener"),
        (b"220 mail.example ESMTP\r\n", "it looks like a mail or FTP server"),
        (b"-ERR unknown command\r\n", "it looks like a Redis server"),
        (b"\xff\xff\xff\xff\x00", "it answered b'"),
        (b"\x00\x00\x00\x01\x00", "it answered b'"),
        (b"\x00\x00\x00\x08answers!", "does not answer as a Kafka broker"),
        (b"\x00\x00\x00\x05\r\n\r\n\x00", "in a form that cannot be read"),
        (b"", "closes the connection when it is greeted"),
        (b"\x00\x00\x00\x09\x00", "closes the connection when it is greeted"),
    ],
)
def test_a_stranger_on_the_port_is_told_from_a_broker(run: Run, answer: bytes, said: str) -> None:
    with stranger(answer) as address:
        assert said in run("topics", "list", "--bootstrap", address).refused()


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server((LOOPBACK, 0)) as silent:
        address = Address(LOOPBACK, silent.getsockname()[1])
        with pytest.raises(Unreachable, match="accepts connections but does not answer"):
            Connection(address, timeout_s=0.2)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("localhost", "has no port; write host:port, such as localhost:9092"),
        (":9092", "has no host"),
        ("localhost:", "a port is a number from 1 to 65535"),
        ("localhost:0", "a port is a number from 1 to 65535"),
        ("localhost:65536", "a port is a number from 1 to 65535"),
        ("localhost:kafka", "a port is a number from 1 to 65535"),
        ("PLAINTEXT://localhost:9092", "write only localhost:9092"),
        ("::1", "goes in brackets"),
        ("[::1]", "write [host]:port"),
        ("[::1:9092", "write [host]:port"),
        ("", "write host:port"),
        (" , ", "write host:port"),
    ],
)
def test_an_address_in_a_wrong_form_is_wrong_usage(run: Run, address: str, said: str) -> None:
    assert said in run("status", "--bootstrap", address).refused(2)


def test_a_host_that_does_not_exist_is_named(run: Run) -> None:
    said = run("status", "--bootstrap", "no-such-host.invalid:9092").refused()
    assert "no-such-host.invalid:9092" in said
    assert "--bootstrap" in said


def test_the_first_of_several_addresses_that_answers_is_used(
    run: Run, broker: BrokerProcess
) -> None:
    dead = f"{LOOPBACK}:{free_port()}"
    run("status", "--bootstrap", f"{dead},{broker.bootstrap}").check()
    said = run("status", "--bootstrap", f"{dead},{dead}").refused()
    assert f"nobody listens on {dead}" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topics", "create", "t", "--partitions", "0"), "0 is not in the range x>=1"),
        (("topics", "create", "t", "--partitions", "many"), "'many' is not a valid integer"),
        (("topics", "create", "t", "--config", "retention.ms"), "is not KEY=VALUE"),
        (("topics", "create"), "Missing argument 'TOPIC'"),
        (("topics", "alter", "t"), "Say what to change"),
        (("topics", "describe"), "Missing argument 'TOPIC...'"),
        (("produce", "t", "--acks", "2"), "'2' is not one of"),
        (("produce", "t", "--rate", "0"), "0.0 is not in the range x>0"),
        (("produce", "t", "--compression", "rar"), "'rar' is not one of"),
        (("produce", "t", "--header", "nothing"), "is not KEY=VALUE"),
        (("produce", "t", "--key", "a", "--key-separator", ":"), "Give only one of"),
        (("produce", "t", "--key-separator", ""), "--key-separator is empty"),
        (("produce", "t", "no-such-file"), "'no-such-file' does not exist"),
        (("consume", "t", "--from", "yesterday"), "is none of: beginning, latest, an offset"),
        (("consume", "t", "--from", "-15y"), "is none of: beginning, latest, an offset"),
        (("consume", "t", "--max", "-1"), "-1 is not in the range x>=0"),
        (("consume", "t", "--format", "xml"), "'xml' is not one of"),
        (("consume", "t", "--partition", "one"), "'one' is not a valid integer"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_is_explained_with_exit_code_2(
    run: Run, words: tuple[str, ...], said: str
) -> None:
    assert said in run(*words).refused(2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topics", "create", "a b"), "characters other than letters"),
        (("topics", "create", "t" * 250), "at most 249 characters"),
        (("topics", "create", "fine", "--config", "retention.ms=x"), "is a number, not 'x'"),
        (("topics", "create", "fine", "--config", "retenton.ms=1"), "retenton.ms"),
        (("topics", "create", "fine", "--replicas", "3"), "fewer brokers than copies"),
        (("produce", "__kbroker_meta"), "written by the broker only"),
        (("produce", "a b"), "INVALID_TOPIC_EXCEPTION"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_what_the_broker_refuses_is_told_in_its_words(
    ask: Run, words: tuple[str, ...], said: str
) -> None:
    assert said in ask(*words, stdin=b"x\n").refused()


def test_a_partition_that_the_topic_does_not_have_is_refused(ask: Run, topic_name: str) -> None:
    ask("topics", "create", topic_name).check()
    said = ask("produce", topic_name, "--partition", "1", stdin=b"x\n").refused()
    assert f"topic {topic_name} has 1 partition" in said


def test_a_file_that_cannot_be_read_is_named(ask: Run, topic_name: str, tmp_path: Path) -> None:
    assert f"'{tmp_path}' is a directory" in ask("produce", topic_name, str(tmp_path)).refused(2)
