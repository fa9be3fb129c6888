"""Set up what the tests need beyond Python packages: kcat, Java and Apache Kafka's jars.

Each is installed only if it is not there yet. What cannot be installed here is named with the
reason, and is no error: the tests that need it are skipped (in CI they fail instead; see
tests/support/needs.py). Run by `make setup` with the Python of the virtual
environment.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # a script's own folder is on the path, the project's is not

from tests.support import needs  # noqa: E402
from tests.support.apache_kafka import write_class_archive  # noqa: E402
from tests.support.java import java_with_kafka  # noqa: E402

INSTALL_TIMEOUT_S = 600


class CannotInstall(Exception):
    """Something could not be installed on this machine; the message says why."""


def main() -> None:
    """Install what is missing, and say what the tests will have and what they will skip."""
    provide("kcat", needs.kcat, install_kcat)
    have_java = provide("Java", needs.java, install_java)
    if have_java and provide(f"Apache Kafka {needs.kafka_version()}", needs.kafka_libs, copy_jars):
        provide("class archive (JVMs start faster)", class_archive, archive_classes)
    elif not have_java:
        say("skipped", f"Apache Kafka {needs.kafka_version()}: there is no Java to run it")


def provide(name: str, find: Callable[[], Path], install: Callable[[], None]) -> bool:
    """Make sure that `find` finds the thing, by `install` if need be; whether it is there now."""
    try:
        path = find()
    except needs.Missing:
        say("installing", name)
        try:
            install()
            path = find()
        except (CannotInstall, needs.Missing) as reason:
            say("skipped", f"{name}, and the tests that need it: {reason}")
            return False
    say("ready", f"{name}: {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")
    return True


def say(state: str, what: str) -> None:
    """One line of progress."""
    print(f"setup: {state:<10} {what}", flush=True)


def install_kcat() -> None:
    """kcat from Debian."""
    apt_install("kcat")


def install_java() -> None:
    """Java 17 from Debian, or the release's own Java where it has no 17 any more."""
    try:
        apt_install("openjdk-17-jre-headless")
    except CannotInstall:
        apt_install("default-jre-headless")
    needs.java.cache_clear()


def copy_jars() -> None:
    """Let Maven download the jars that tools/kafka/pom.xml names, all of them or none."""
    if shutil.which("mvn") is None:
        apt_install("maven")
    libs = needs.kafka_folder() / "libs"
    unfinished = libs.with_name(f"libs.{os.getpid()}")
    try:
        run(
            *("mvn", "--quiet", "--batch-mode", "--file", str(needs.KAFKA_POM)),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            f"-DoutputDirectory={unfinished}",
        )
        unfinished.rename(libs)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def class_archive() -> Path:
    """The archive that tests/support/java.py gives to every JVM."""
    archive = java_with_kafka().class_archive
    if not archive.exists():
        raise needs.Missing(f"{archive} was not made")
    return archive


def archive_classes() -> None:
    """Start and stop one Kafka to learn which classes it loads; tests only run slower without."""
    try:
        write_class_archive(java_with_kafka())
    except (RuntimeError, OSError, AssertionError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(str(error)) from error


def apt_install(package: str) -> None:
    """Install a Debian package, if this is Debian and we may."""
    if shutil.which("apt-get") is None:
        raise CannotInstall(f"this machine has no apt-get to install {package} with")
    as_root = root_command()
    refresh_package_lists(as_root)
    # Waits for another apt-get's lock instead of failing on it.
    run(
        *(
            *as_root,
            "env",
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            "install",
            "--yes",
            "--quiet",
        ),
        *("--no-install-recommends", "-o", "DPkg::Lock::Timeout=120", package),
    )


@cache
def root_command() -> tuple[str, ...]:
    """What goes before a command that needs root: nothing as root, else sudo if it asks nothing."""
    if os.geteuid() == 0:
        return ()
    sudo = ("sudo", "--non-interactive")
    if (
        shutil.which("sudo")
        and subprocess.run([*sudo, "true"], capture_output=True).returncode == 0
    ):
        return sudo
    raise CannotInstall("installing needs root, and sudo is not there or asks for a password")


@cache
def refresh_package_lists(as_root: tuple[str, ...]) -> None:
    """`apt-get update`, once. Its failure is not the end: the lists on the machine may do."""
    try:
        run(*as_root, "apt-get", "update", "--quiet")
    except CannotInstall as error:
        say("warning", str(error))


def run(*command: str) -> None:
    """Run an installer to its end; its last words are the reason if it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"{shorten(command)} took over {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = "\n".join(done.stdout.strip().splitlines()[-5:])
        raise CannotInstall(f"{shorten(command)} failed ({done.returncode}): {said}")


def shorten(command: Sequence[str]) -> str:
    """A command without its options, for a message."""
    return " ".join(word for word in command if not word.startswith("-"))


if __name__ == "__main__":
    main()
