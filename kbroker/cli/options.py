"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kbroker.cli.client.address import Address

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_COMPLETION_TIMEOUT_S = 0.5

Function = TypeVar("Function", bound=Callable[..., Any])


class AddressList(click.ParamType["list[Address]"]):
    """host:port, or several with commas between."""

    name = "host:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Address]:
        """Reads the addresses, or says what to write."""
        from kbroker.cli.client import address

        if not isinstance(value, str):
            return list(value)
        try:
            return address.parse(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


class KeyValue(click.ParamType[tuple[str, str]]):
    """key=value; the value may be empty and may hold more signs of equality."""

    name = "key=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Splits at the first sign of equality."""
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not equals or not key:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key, text


def bootstrap_option(function: Function) -> Function:
    """--bootstrap: which broker to talk to."""
    return click.option(
        "--bootstrap",
        type=AddressList(),
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
