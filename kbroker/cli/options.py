"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kbroker.cli.client.address import Address

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_COMPLETION_TIMEOUT_S = 0.5

Function = TypeVar("Function", bound=Callable[..., Any])


# Values are read by callbacks and not by parameter types, which are generic classes in newer click
# and plain ones in older: callbacks are the same everywhere.


def _read_addresses(ctx: click.Context, param: click.Parameter, text: str) -> list[Address]:
    """host:port, or several with commas between."""
    from kbroker.cli.client import address

    try:
        return address.parse(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), ctx, param) from None


def read_pairs(
    ctx: click.Context, param: click.Parameter, texts: Sequence[str]
) -> list[tuple[str, str]]:
    """key=value, any number; a value may be empty and may hold more signs of equality."""
    pairs = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", ctx, param)
        pairs.append((key, value))
    return pairs


def bootstrap_option(function: Function) -> Function:
    """--bootstrap: which broker to talk to."""
    return click.option(
        "--bootstrap",
        callback=_read_addresses,
        default=DEFAULT_BOOTSTRAP,
        envvar="KBROKER_BOOTSTRAP",
        show_envvar=True,
        metavar="HOST:PORT",
        help="Address of a broker; several may follow with commas, IPv6 goes in brackets.",
    )(function)


def json_option(what: str) -> Callable[[Function], Function]:
    """--json, which prints `what`."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what}.")


def complete_topic(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of topics for the shell; none, quickly, if no broker answers."""
    from click.shell_completion import CompletionItem

    from kbroker.cli.client.address import parse
    from kbroker.cli.client.cluster import Cluster
    from kbroker.cli.client.failure import Failure

    addresses = ctx.params.get("bootstrap") or parse(DEFAULT_BOOTSTRAP)
    try:
        with Cluster(addresses, timeout_s=_COMPLETION_TIMEOUT_S) as cluster:
            names = [topic.name for topic in cluster.topics() if not topic.is_internal]
    except Failure:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def topic_argument(function: Function) -> Function:
    """TOPIC: the name of a topic, completed by asking the broker."""
    return click.argument("topic", shell_complete=complete_topic)(function)
