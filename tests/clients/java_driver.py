"""One JVM for many tests (JavaDriver.java): the Java client and Kafka's command lines, called
quickly."""

import base64
import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.messages import Message
from tests.support.java import Finished, Java, KafkaTool

PROGRAM = Path(__file__).with_name("JavaDriver.java")
ANSWER_TIMEOUT_S = 45


@dataclass(frozen=True, slots=True)
class Produced:
    """What became of one record: where it is, or the name of the exception that the sender got."""

    partition: int = -1
    offset: int = -1
    error: str = ""


@dataclass(frozen=True, slots=True)
class Offsets:
    """A partition's first and next offset, and the first record at or after a time (-1: none)."""

    beginning: int
    end: int
    offset_for_time: int
    timestamp_ms: int


class JavaDriver:
    """The JVM; `stderr` is a file for what it logs."""

    def __init__(self, java: Java, stderr: Path) -> None:
        self._stderr = stderr
        with stderr.open("wb") as log:
            self._process = subprocess.Popen(
                java.command(PROGRAM, options=("-Xmx256m",)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name="java-driver", daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End of input ends the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def run(self, tool: KafkaTool, *arguments: str, stdin: bytes = b"") -> Finished:
        """One of Kafka's command lines, as the shell would call it."""
        answer = self._ask(
            {
                "command": "run",
                "main": str(tool),
                "arguments": arguments,
                "stdin": base64.b64encode(stdin).decode(),
            }
        )
        return Finished([tool, *arguments], answer["exit_code"], answer["stdout"], answer["stderr"])

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        settings: Mapping[str, str] | None = None,
        *,
        partition: int | None = 0,
    ) -> list[Produced]:
        """Sends all, waits for all; `partition` None lets the client choose by the key."""
        records = [
            {
                "topic": topic,
                "partition": partition,
                "timestamp_ms": message.timestamp_ms,
                "key": _text(message.key),
                "value": _text(message.value),
                "headers": [(name, _text(value)) for name, value in message.headers],
            }
            for message in messages
        ]
        answer = self._ask(
            {
                "command": "produce",
                "settings": {"bootstrap.servers": bootstrap, **(settings or {})},
                "records": records,
            }
        )
        return [Produced(**result) for result in answer["results"]]

    def consume(
        self,
        bootstrap: str,
        starts: Mapping[tuple[str, int], int],
        count: int,
        settings: Mapping[str, str] | None = None,
    ) -> dict[tuple[str, int], list[tuple[int, Message]]]:
        """Reads `count` records from the offsets `starts`, as (offset, message) by partition."""
        answer = self._ask(
            {
                "command": "consume",
                "settings": {"bootstrap.servers": bootstrap, **(settings or {})},
                "partitions": [(*partition, offset) for partition, offset in starts.items()],
                "count": count,
            }
        )
        found: dict[tuple[str, int], list[tuple[int, Message]]] = {key: [] for key in starts}
        for record in answer["records"]:
            message = Message(
                _bytes(record["key"]),
                _bytes(record["value"]),
                tuple((name, _bytes(value)) for name, value in record["headers"]),
                record["timestamp_ms"],
            )
            found[record["topic"], record["partition"]].append((record["offset"], message))
        return found

    def offsets(self, bootstrap: str, topic: str, partition: int, time_ms: int) -> Offsets:
        """What the consumer says about a partition's offsets."""
        answer = self._ask(
            {
                "command": "offsets",
                "settings": {"bootstrap.servers": bootstrap},
                "partitions": [(topic, partition, time_ms)],
            }
        )
        return Offsets(*answer["partitions"][0])

    def start_load(self, bootstrap: str, topic: str, settings: Mapping[str, str]) -> None:
        """A producer in the background: values 0, 1, 2 and so on, each acknowledged."""
        self._ask(
            {
                "command": "start load",
                "settings": {"bootstrap.servers": bootstrap, **settings},
                "topic": topic,
            }
        )

    def load_size(self) -> int:
        """How many records of the producer in the background are acknowledged."""
        size: int = self._ask({"command": "load size"})["size"]
        return size

    def stop_load(self) -> list[int]:
        """Stops the producer in the background; the offsets that it was told."""
        answer = self._ask({"command": "stop load"})
        assert answer["error"] is None, answer["error"]
        offsets: list[int] = answer["offsets"]
        return offsets

    def log_text(self) -> str:
        """What the program logged so far."""
        return self._stderr.read_text(errors="replace")

    def _ask(self, command: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            raise AssertionError(
                f"no answer to {command['command']!r} in {ANSWER_TIMEOUT_S} s: {self.log_text()}"
            ) from None
        assert line, f"the JVM ended at {command['command']!r}: {self.log_text()}"
        answer: dict[str, Any] = json.loads(line)
        assert "failed" not in answer, f"{answer['failed']}\n{self.log_text()}"
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
