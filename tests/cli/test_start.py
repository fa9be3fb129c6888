"""`kbroker start` when it cannot: one sentence that says why and what to do, exit code 1 or 2."""

import socket
from pathlib import Path

import pytest

from tests.cli.commands import Run, run_process, start_process
from tests.support.broker_process import BrokerProcess
from tests.support.ports import LOOPBACK
from tests.support.waiting import wait_until

WAIT_S = 20


def start(*words: str) -> str:
    """What a start says that fails with exit code 1."""
    return run_process("start", *words).refused()


@pytest.mark.slow
def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        said = start("--port", str(port), "--data", str(tmp_path / "data"))
    assert said == (
        f"kbroker: cannot listen on {LOOPBACK}:{port}: Address already in use;"
        " choose another --port\n"
    )


@pytest.mark.slow
def test_a_host_that_is_not_this_machine_is_named(tmp_path: Path) -> None:
    data = ("--port", "0", "--data", str(tmp_path / "data"))
    assert "choose another --host" in start("--host", "no-such-host.invalid", *data)
    assert "Cannot assign requested address; choose another --host" in start(
        "--host", "192.0.2.1", *data
    )


@pytest.mark.slow
def test_a_data_folder_in_use_or_of_another_broker_or_unusable_is_named(
    fresh_broker: BrokerProcess, tmp_path: Path
) -> None:
    data = ("--port", "0", "--data", str(fresh_broker.data_dir))
    assert f"is in use by process {fresh_broker.pid}; stop that broker or" in start(*data)
    fresh_broker.stop()
    assert "belongs to node.id=0" in start(*data, "--set", "node.id=7")
    file = tmp_path / "file"
    file.write_bytes(b"")
    assert "cannot use the data folder" in start("--port", "0", "--data", str(file))


@pytest.mark.slow
def test_a_settings_file_that_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "server.ini"
    assert str(file) in run_process("start", "--config", str(file)).refused(2)
    file.write_bytes(b"[system]\nbrokerId=\xff\n")
    assert "not UTF-8" in run_process("start", "--config", str(file)).refused(2)


@pytest.mark.slow
def test_a_broker_in_memory_serves_and_keeps_nothing(run: Run, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    process = start_process(("start", "--memory", "--port", "0"), shown)
    try:
        wait_until(lambda: " data in " in shown.read_text(), timeout_s=WAIT_S, what="a broker")
        line = next(text for text in shown.read_text().splitlines() if " data in " in text)
        address = line.split("listening on ")[1].split(",")[0]
        folder = Path(line.split(" data in ")[1])
        run("produce", "t", "--bootstrap", address, stdin=b"hello\n").check()
        assert run("consume", "t", "--bootstrap", address).check().out == "hello\n"
        assert folder.is_dir()
        process.terminate()
        assert process.wait(WAIT_S) == 0
        assert not folder.exists()
    finally:
        process.kill()
        process.wait()
        if process.stdin:
            process.stdin.close()


@pytest.mark.slow
def test_a_wrong_advertised_address_is_recognised_by_the_commands(run: Run, tmp_path: Path) -> None:
    """The listener mistake that everybody makes once: the broker sends its clients elsewhere."""
    wrong = "PLAINTEXT://127.0.0.1:1"
    broker = BrokerProcess(tmp_path / "data", settings={"advertised.listeners": wrong}).start()
    try:
        address = ("--bootstrap", broker.bootstrap)
        run("topics", "create", "t", *address).check()
        said = run("consume", "t", *address).refused()
    finally:
        broker.close()
    assert f"{broker.bootstrap} answers, but says that broker 0 is at 127.0.0.1:1" in said
    assert "set advertised.listeners on the broker" in said
