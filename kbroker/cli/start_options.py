"""The options of `kbroker start`: one table, read in two ways.

A command line of the plain form is read here, without click, because every start of a broker pays
for it. Whatever is not plain (an unknown option, a wrong number, --help) is left to click, which
reads the same table and knows how to explain itself. A test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import click

TEXT, NUMBER, CHOICE, MANY, SWITCH = "text", "number", "choice", "many", "switch"

PORT_MAX: Final = 65535


class StartOptions(NamedTuple):
    """What a start was asked for; a field is named as its option."""

    host: str | None
    port: int | None
    data: str | None
    config: str | None
    memory: bool
    set: tuple[str, ...]
    log_level: str


class Option(NamedTuple):
    """One option: how it is written, read and explained."""

    name: str
    kind: str
    default: bool | str | tuple[()] | None
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()


OPTIONS: Final = (
    Option("--host", TEXT, None, "Address to listen on, by default 127.0.0.1.", "HOST"),
    Option("--port", NUMBER, None, "Port, by default 9092; 0 takes a free one.", "PORT"),
    Option("--data", TEXT, None, "Data folder, by default ./kbroker-data.", "FOLDER"),
    Option(
        "--config",
        TEXT,
        None,
        "Settings file: MetaQ's server.ini or Kafka's server.properties.",
        "FILE",
    ),
    Option("--memory", SWITCH, False, "Keep nothing: all records are gone when the broker stops."),
    Option(
        "--set",
        MANY,
        (),
        "A setting by Kafka's name, such as num.partitions=3; may be repeated.",
        "KEY=VALUE",
    ),
    Option(
        "--log-level",
        CHOICE,
        "INFO",
        "How much the broker tells on standard error.",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
    ),
)


def read_quickly(words: Sequence[str]) -> StartOptions | None:
    """The options, if all words are plain `--name value`, `--name=value` or `--switch`."""
    table = {option.name: option for option in OPTIONS}
    values: dict[str, object] = {option.name: option.default for option in OPTIONS}
    settings: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, text = word.partition("=")
        option = table.get(name)
        if option is None or (option.kind == SWITCH and equals):
            return None
        if option.kind == SWITCH:
            values[name] = True
            continue
        if not equals:
            following = next(rest, None)
            if following is None:
                return None
            text = following
        if option.kind == NUMBER:
            if not (text.isascii() and text.isdigit() and int(text) <= PORT_MAX):
                return None
            values[name] = int(text)
        elif option.kind == MANY:
            settings.append(text)
        elif option.kind == CHOICE and text not in option.choices:
            return None
        else:
            values[name] = text
    values["--set"] = tuple(settings)
    return StartOptions(*values.values())  # type: ignore[arg-type]  # the table is in their order


def command() -> click.Command:
    """The same options as a click command."""
    import click

    def run(**values: object) -> int:
        from kbroker.cli.start import start

        return start(StartOptions(**values))  # type: ignore[arg-type]  # click has checked them

    port = click.IntRange(0, PORT_MAX)
    return click.Command(
        "start",
        help="Start a broker.\n\nIt runs until Ctrl-C or SIGTERM, and then stops cleanly.",
        callback=run,
        params=[
            click.Option(
                [option.name],
                type=click.Choice(option.choices)
                if option.choices
                else port
                if option.kind == NUMBER
                else None,
                default=option.default,
                show_default=bool(option.default),
                is_flag=option.kind == SWITCH,
                multiple=option.kind == MANY,
                metavar=option.metavar or None,
                help=option.help,
            )
            for option in OPTIONS
        ],
    )
