"""`kbroker completion`: the script that teaches a shell the commands, options and topics."""

from __future__ import annotations

import click

from kbroker.cli.app import COMPLETION_VARIABLE, cli

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Switch it on for good by adding the line of your shell:
      bash   eval "$(kbroker completion bash)"            to ~/.bashrc
      zsh    eval "$(kbroker completion zsh)"             to ~/.zshrc
      fish   kbroker completion fish | source             to ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, f"click knows {shell}"
    click.echo(kind(cli, {}, "kbroker", COMPLETION_VARIABLE).source())
