"""Help for every command, cheap to get; and the two readers of `start`'s options agree."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from kbroker.cli import app
from kbroker.cli.start_options import StartOptions, command, read_quickly
from tests.cli.commands import Done, Run, run_process
from tests.support.broker_process import BrokerProcess
from tests.support.needs import ROOT
from tests.support.ports import free_port


def all_commands() -> Iterator[tuple[str, ...]]:
    """The words of every command and group."""
    context = click.Context(app.cli)
    for name in app.COMMANDS:
        yield (name,)
        found = app.cli.get_command(context, name)
        if isinstance(found, click.Group):
            for inner in found.list_commands(context):
                yield (name, inner)


@pytest.mark.parametrize("words", [(), *all_commands()], ids=" ".join)
def test_every_command_explains_itself(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words, "--help").check()
    assert done.out.startswith(f"Usage: {' '.join(('kbroker', *words))} ")
    assert "--help" in done.out
    assert done.err == ""


def test_the_listing_says_what_each_command_says_of_itself() -> None:
    context = click.Context(app.cli)
    for name, (_, text) in app.COMMANDS.items():
        found = app.cli.get_command(context, name)
        assert found is not None
        assert (found.help or "").split("\n")[0] == text


def test_the_main_help_lists_every_command(run: Run) -> None:
    done = run("--help").check()
    for name, (_, text) in app.COMMANDS.items():
        assert f"  {name}" in done.out
        assert text in done.out


def test_without_a_command_the_help_is_shown_and_it_counts_as_wrong_usage(run: Run) -> None:
    done = run()
    assert done.code == 2
    assert "Usage: kbroker" in done.err


def test_a_misspelt_command_gets_a_suggestion(run: Run) -> None:
    assert "Did you mean consume?" in run("consum").refused(2)


def test_the_version_is_the_packages(run: Run) -> None:
    assert run("--version").check().out.startswith("kbroker 0.")


def test_help_imports_neither_a_command_nor_what_draws() -> None:
    look = (
        "import sys; from kbroker.cli import main; main(['--help']);"
        "print(sorted(m for m in sys.modules if m.startswith(('kbroker.cli.', 'rich', 'asyncio'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.splitlines()[-1] == str(
        ["kbroker.cli.app", "kbroker.cli.client", "kbroker.cli.client.failure"]
    )


def test_a_plain_start_imports_neither_click_nor_rich() -> None:
    look = (
        "import sys; from kbroker.cli import main; code = main(['start', '--set', 'nonsense']);"
        "print(code, [m for m in sys.modules if m in ('click', 'rich', 'argparse')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "2 []\n"


# The options of start, read without click and with it

PLAIN = (
    "",
    "--port 0",
    "--port=9093 --host=::1",
    "--data /tmp/x --log-level DEBUG",
    "--set a=b --set=c=d=e --set f",
    "--memory --config server.ini",
    "--port 1 --port 2",
    "--host -1",
    "--data=",
)
NOT_PLAIN = (
    "--help",
    "--port 65536",
    "--port -1",
    "--port ten",
    "--port \u0663",
    "--port",
    "--log-level LOUD",
    "--memory=yes",
    "--prot 1",
    "here",
    "-h",
    "-- --port 1",
)


def read_by_click(words: list[str]) -> StartOptions:
    context = command().make_context("start", words)
    return StartOptions(**context.params)


@pytest.mark.parametrize("line", PLAIN)
def test_plain_options_of_start_are_read_as_click_reads_them(line: str) -> None:
    quick = read_quickly(line.split())
    assert quick is not None
    assert quick == read_by_click(line.split())


@pytest.mark.parametrize("line", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_click(line: str) -> None:
    assert read_quickly(line.split()) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--port 65536", "65536 is not in the range 0<=x<=65535"),
        ("--port ten", "'ten' is not a valid integer"),
        ("--log-level LOUD", "'LOUD' is not one of"),
        ("--prot 1", "No such option"),
        ("here", "unexpected extra argument"),
        ("--set num.partitions", "write it as key=value"),
        ("--set num.partitons=3", "did you mean num.partitions?"),
        ("--set num.partitions=0", "num.partitions lies between 1 and"),
        ("--memory --data /tmp/x", "give one of them"),
    ],
)
def test_wrong_usage_of_start_is_explained_with_exit_code_2(run: Run, line: str, said: str) -> None:
    assert said in run("start", *line.split()).refused(2)


# Completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_a_shell_names_the_program(run: Run, shell: str) -> None:
    done = run("completion", shell).check()
    assert "_KBROKER_COMPLETE" in done.out
    assert f"{shell}_complete" in done.out


def complete(typed: str) -> Done:
    """What bash is told when the user presses the tabulator key after the last word."""
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    return run_process(environment={app.COMPLETION_VARIABLE: "bash_complete", **words})


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("kbroker st", ["plain,start", "plain,status"]),
        ("kbroker topics de", ["plain,delete", "plain,describe"]),
        ("kbroker consume --fo", ["plain,--follow", "plain,--format"]),
        ("kbroker produce x --compression z", ["plain,zstd"]),
    ],
)
def test_the_shell_completes_commands_and_options(typed: str, expected: list[str]) -> None:
    assert complete(typed).out.splitlines() == expected


def test_the_shell_completes_names_of_topics_by_asking_the_broker(
    ask: Run, broker: BrokerProcess, topic_name: str
) -> None:
    ask("topics", "create", topic_name).check()
    typed = f"kbroker topics describe --bootstrap {broker.bootstrap} {topic_name[:-3]}"
    done = complete(typed)
    assert done.out == f"plain,{topic_name}\n"


def test_the_shell_gets_no_names_and_no_error_where_nobody_listens() -> None:
    typed = f"kbroker topics describe --bootstrap 127.0.0.1:{free_port()} x"
    done = complete(typed)
    assert (done.out.strip(), done.err) == ("", "")
