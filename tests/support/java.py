"""Java programs as the tests run them: Kafka's own command lines, and single-file client programs.

Starting a JVM is most of what such a run costs, so every run gets the flags that start one fast:
only the quick compiler, the simple collector, and the archive of loaded classes that tools/setup.py
made of a running Kafka (`TopicCommand --list` took 1.6 s without the archive and 0.7 s with it).
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.support import needs

SUPPORT = Path(__file__).resolve().parent
QUICK_START = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-Xlog:disable",  # the JVM's own warnings go to standard output, which belongs to the program
    "-Dfile.encoding=UTF-8",
    f"-Dlog4j2.configurationFile={SUPPORT / 'log4j2.properties'}",
)


class KafkaTool(StrEnum):
    """The main classes behind Kafka's shell scripts, where release 4.3 keeps them."""

    BROKER_API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
    CONFIGS = "kafka.admin.ConfigCommand"
    CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
    CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
    DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
    DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"
    GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
    LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
    PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
    STORAGE = "kafka.tools.StorageTool"
    TOPICS = "org.apache.kafka.tools.TopicCommand"


@dataclass(frozen=True, slots=True)
class Finished:
    """What a program that has ended left behind."""

    command: Sequence[str]
    exit_code: int
    stdout: str
    stderr: str

    def check(self) -> "Finished":
        """Itself, after asserting that the program ended well."""
        assert self.exit_code == 0, (
            f"exit code {self.exit_code} of {' '.join(self.command)}\n"
            f"stdout: {self.stdout}\nstderr: {self.stderr}"
        )
        return self


@dataclass(frozen=True, slots=True)
class Java:
    """A Java with Apache Kafka's jars on its class path."""

    executable: Path
    libs: Path

    @property
    def class_archive(self) -> Path:
        """The JVM's archive of Kafka's loaded classes; runs are only slower where it is missing."""
        return self.libs.parent / "classes.jsa"

    def command(self, main: str | Path, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """The command line that runs `main`, a class name or a single .java file.

        `options` are for the JVM and come last, so they win over the quick-start ones.
        """
        archive = [f"-XX:SharedArchiveFile={self.class_archive}"] * self.class_archive.exists()
        class_path = ["-cp", f"{self.libs}/*"]
        return [
            *(str(self.executable), *QUICK_START, *archive, *options, *class_path),
            *(str(main), *arguments),
        ]

    def run(
        self,
        main: str | Path,
        *arguments: str,
        stdin: bytes = b"",
        timeout_s: float = 45,
        options: Sequence[str] = ("-Xmx256m",),
    ) -> Finished:
        """Run `main` to its end with `stdin` as its input, or raise subprocess.TimeoutExpired."""
        command = self.command(main, *arguments, options=options)
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=timeout_s, check=False
        )
        return Finished(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def java_with_kafka() -> Java:
    """The machine's Java and the jars, or needs.Missing."""
    return Java(executable=needs.java(), libs=needs.kafka_libs())
