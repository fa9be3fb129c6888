"""What the tests need that pip cannot install: Java, Apache Kafka's jars and kcat.

tools/setup.py installs them and the tests skip without them. Both ask the functions below, so the
two cannot disagree about what is there. A test uses a fixture that asks (java, kcat), or says
`needs.or_skip(needs.kcat)`. A skip is for a developer's laptop: in CI a missing oracle is a
failure, or nobody would notice.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KAFKA_POM = ROOT / "tools" / "kafka" / "pom.xml"
JAVA_VERSION_MIN = 17  # Kafka 4's server runs on nothing older
INSTALL_HINT = "`make setup` installs it where it can, and says why where it cannot"


class Missing(Exception):
    """A program or a folder that some tests need is not on this machine; the message names it."""


@cache
def kafka_version() -> str:
    """The release of Apache Kafka that the tests compare with; tools/kafka/pom.xml names it."""
    found = re.search(r"<kafka\.version>(.+?)</", KAFKA_POM.read_text(encoding="utf-8"))
    assert found is not None, f"{KAFKA_POM} names no kafka.version"
    return found[1]


def kafka_folder() -> Path:
    """Where the jars and what is derived from them are kept; git ignores it."""
    return ROOT / ".tools" / f"kafka-{kafka_version()}"


def kafka_libs() -> Path:
    """The folder with Apache Kafka's jars."""
    libs = kafka_folder() / "libs"
    if not libs.is_dir():
        raise Missing(f"Apache Kafka {kafka_version()} is not in .tools/; {INSTALL_HINT}")
    return libs


def kcat() -> Path:
    """The kcat program."""
    found = shutil.which("kcat")
    if found is None:
        raise Missing(f"kcat is not installed; {INSTALL_HINT}")
    return Path(found)


@cache
def java() -> Path:
    """A Java new enough for Kafka: JAVA_HOME's, the one on PATH, or another that Debian keeps."""
    candidates = [Path(home) / "bin/java"] if (home := os.environ.get("JAVA_HOME")) else []
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    candidates += sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    for candidate in candidates:
        if candidate.exists() and _java_version(candidate) >= JAVA_VERSION_MIN:
            return candidate
    raise Missing(f"Java {JAVA_VERSION_MIN} or newer is not installed; {INSTALL_HINT}")


def _java_version(executable: Path) -> int:
    """The feature release (17 of `17.0.15`, 8 of `1.8.0_402`); 0 when it does not say."""
    said = subprocess.run(
        [executable, "-version"], capture_output=True, text=True, timeout=30, check=False
    ).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def must_not_skip() -> bool:
    """Whether a missing need fails the test: in CI, or where the developer asks for it."""
    return os.environ.get("CI") == "true" or os.environ.get("KBROKER_REQUIRE_ORACLE") == "1"


def or_skip(find: Callable[[], Path]) -> Path:
    """What `find` finds; without it the test is skipped, or fails where skipping would hide it."""
    try:
        return find()
    except Missing as missing:
        if must_not_skip():
            pytest.fail(f"{missing} (a failure, not a skip: CI=true or KBROKER_REQUIRE_ORACLE=1)")
        pytest.skip(str(missing))
