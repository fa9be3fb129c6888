"""The container, as far as it goes without an engine: entrypoint, health check, rules for files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker import healthcheck
from tests.support.waiting import wait_until

DOCKER = Path(__file__).parent.parent / "docker"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as (instruction, words), long lines joined."""
    text = re.sub(r"^#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return [(name.upper(), words) for name, words in pairs]


@pytest.mark.slow
def test_the_entrypoint_becomes_the_broker_and_sigterm_stops_it_cleanly(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KBROKER_HOST": "127.0.0.1",
        "KBROKER_PORT": "0",
        "KBROKER_DATA": str(tmp_path / "data"),
        "KAFKA_NUM_PARTITIONS": "4",
    }
    output = (tmp_path / "output").open("w+")
    process = subprocess.Popen([DOCKER / "entrypoint"], env=environment, stdout=output)
    try:
        found = wait_until(
            lambda: re.search(r"listening on 127.0.0.1:(\d+)", (tmp_path / "output").read_text()),
            timeout_s=20,
            what="the entrypoint's broker to listen",
        )
        assert found is not None
        port = int(found[1])
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        assert b"kbroker" in command, "the shell is still there and would swallow SIGTERM"
        assert healthcheck.is_healthy("127.0.0.1", port)
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        created = admin.create_topics([NewTopic("t", -1, -1)])["t"]
        created.result(20)
        assert len(admin.list_topics("t", timeout=20).topics["t"].partitions) == 4
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        output.close()
    assert (tmp_path / "data" / "clean-stop").exists()


def test_the_health_check_fails_where_nobody_or_somebody_else_answers(tmp_path: Path) -> None:
    import socket
    import threading

    assert healthcheck.main(["127.0.0.1:1"]) == 1
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(100)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert healthcheck.main([f"127.0.0.1:{port}"]) == 1
        thread.join()


def test_the_dockerfile_keeps_the_rules() -> None:
    found = instructions()
    names = [name for name, _ in found]
    bases = [words.split()[0] for name, words in found if name == "FROM"]
    assert all(re.fullmatch(r"python:3\.\d+-slim", base) for base in bases), "pinned and slim"
    last_stage = found[max(i for i, name in enumerate(names) if name == "FROM") :]
    users = [words for name, words in last_stage if name == "USER"]
    assert users == ["kbroker"], "not root"
    assert "ADD" not in names, "COPY says what it does"
    assert [words for name, words in last_stage if name == "VOLUME"] == ["/data"]
    assert names.count("HEALTHCHECK") == 1
    for name, words in last_stage:
        if name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(words), list), "exec form: signals reach the broker"
        if name == "HEALTHCHECK":
            command = json.loads(words.partition("CMD ")[2])
            assert command[:3] == ["python", "-m", "kbroker.healthcheck"]
        if name == "RUN" and "pip install" in words:
            assert "--no-cache-dir" in words
    assert ("STOPSIGNAL", "SIGTERM") in last_stage


def test_what_the_dockerfile_copies_exists_and_is_executable() -> None:
    assert os.access(DOCKER / "entrypoint", os.X_OK)
    assert subprocess.run(["sh", "-n", DOCKER / "entrypoint"], check=False).returncode == 0
    ignored = (DOCKER.parent / ".dockerignore").read_text().split()
    assert {".git", ".venv", ".tools"} <= set(ignored)


def test_compose_starts_one_broker_with_a_volume_and_its_port() -> None:
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    service = compose["services"]["kbroker"]
    assert service["ports"] == ["9092:9092"]
    assert service["volumes"] == ["kbroker-data:/data"]
    assert "kbroker-data" in compose["volumes"]
    built = (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).resolve()
    assert built == (DOCKER / "Dockerfile").resolve()
