"""docs/cli.md names every command and every option that there is."""

import re

import click
import pytest

from kbroker.cli import app
from tests.support.needs import ROOT

TEXT = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    found = re.search(rf"^## {name}$(.*?)(?=^## |\Z)", TEXT, flags=re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/cli.md has no section for {name}"
    return found[1]


def inner_commands(command: click.Command) -> list[click.Command]:
    return list(command.commands.values()) if isinstance(command, click.Group) else [command]


@pytest.mark.parametrize("name", app.COMMANDS)
def test_the_page_names_every_command_and_option(name: str) -> None:
    text = section(name)
    command = app.cli.get_command(click.Context(app.cli), name)
    assert command is not None
    for inner in inner_commands(command):
        assert f"kbroker {name} {inner.name if inner is not command else ''}".strip() in text
        for parameter in inner.params:
            if isinstance(parameter, click.Option) and "--bootstrap" not in parameter.opts:
                where = TEXT if "--json" in parameter.opts else text
                assert parameter.opts[0] in where, f"{parameter.opts[0]} of {name}"


def test_the_page_names_no_option_that_does_not_exist() -> None:
    known = {"--help", "--bootstrap"}
    for name in app.COMMANDS:
        command = app.cli.get_command(click.Context(app.cli), name)
        assert command is not None
        known |= {opt for inner in inner_commands(command) for p in inner.params for opt in p.opts}
    assert set(re.findall(r"(?<!\w)--[a-z-]+", TEXT)) <= known
