"""The edge of the command line: which commands there are, and what becomes of their failures.

A command's file is imported when the command is called; the listing in `kbroker --help` comes from
the table below. Nothing that goes wrong shows a traceback: a Failure is one sentence and exit code
1, wrong usage is click's explanation and exit code 2.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import click

import kbroker
from kbroker.cli.client.failure import Failure

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETION_VARIABLE = "_KBROKER_COMPLETE"
DEBUG_VARIABLE = "KBROKER_DEBUG"

COMMANDS = {
    "start": ("kbroker.cli.start_options", "Start a broker."),
    "status": ("kbroker.cli.status", "Show a broker: cluster, topics, disk, safety."),
    "topics": ("kbroker.cli.topics", "Create, list, describe, alter and delete topics."),
    "produce": ("kbroker.cli.produce", "Write records: lines or files."),
    "consume": ("kbroker.cli.consume", "Read records, to the end or as they come."),
    "configs": ("kbroker.cli.configs", "Show, set and unset settings of topics and brokers."),
    "dump": ("kbroker.cli.dump", "Read and check the files of a data folder."),
    "completion": ("kbroker.cli.completion", "Print the completion script of a shell."),
}
"""Module (its `command` is called or used) and line of help, in the order of the listing."""


class LazyGroup(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        if not isinstance(command, click.Command):
            command = command()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command; a misspelt one gets a suggestion."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            _refuse_unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The listing, from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands, without importing them, and options."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=text)
            for name, (_, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def _refuse_unknown(ctx: click.Context, name: str) -> NoReturn:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    ctx.fail(f"There is no command {name!r}.{hint}")


@click.command(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
    epilog="kbroker COMMAND --help explains a command.",
)
@click.version_option(kbroker.__version__, prog_name="kbroker", message="%(prog)s %(version)s")
def cli() -> None:
    """A Kafka-wire-compatible broker in Python, and the tools around it.

    All commands but start and dump talk to a running broker, of this kind or an Apache Kafka, at
    the address given with --bootstrap.
    """


def run(words: Sequence[str]) -> int:
    """Runs a command line; gives the exit code."""
    instruction = os.environ.get(COMPLETION_VARIABLE)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "kbroker", COMPLETION_VARIABLE, instruction)
    try:
        code = _invoke(words)
        sys.stdout.flush()
        return code
    except Failure as failure:
        return _say(str(failure))
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted")
    except BrokenPipeError:
        # Whoever reads has had enough (`| head`): that is no failure. The interpreter flushes
        # standard output once more when it ends, which must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        return _say(f"{where}{problem.strerror or problem}")
    except Exception as problem:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        return _say(
            f"this is a bug: {type(problem).__name__}: {problem}; {DEBUG_VARIABLE}=1 shows where"
        )


def _invoke(words: Sequence[str]) -> int:
    try:
        if not words:
            context = click.Context(cli, info_name="kbroker", **cli.context_settings)
            click.echo(cli.get_help(context), err=True)
            return 2
        with cli.make_context("kbroker", list(words)) as context:
            code = cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    return code if isinstance(code, int) else 0


def _say(message: str) -> int:
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    print(f"kbroker: {message}", file=sys.stderr)
    return 1
