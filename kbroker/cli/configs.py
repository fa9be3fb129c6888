"""`kbroker configs`: settings of topics and brokers, with where each value comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from kbroker.cli.client import configs
from kbroker.cli.client.address import Address
from kbroker.cli.client.cluster import Cluster
from kbroker.cli.client.configs import Kind, Target
from kbroker.cli.options import (
    Function,
    bootstrap_option,
    complete_topic,
    json_option,
    read_pairs,
)
from kbroker.cli.output import note, print_json, print_table


@click.group("configs")
def command() -> None:
    """Show, set and unset settings of topics and brokers."""


def target_options(function: Function) -> Function:
    """--topic, --broker and --all-brokers: whose settings."""
    decorators: tuple[Callable[[Function], Function], ...] = (
        click.option("--all-brokers", is_flag=True, help="What all brokers have in common."),
        click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="A broker's own."),
        click.option("--topic", metavar="NAME", help="A topic's.", shell_complete=complete_topic),
    )
    for decorator in decorators:
        function = decorator(function)
    return function


@command.command("show")
@target_options
@click.option("--all", "show_all", is_flag=True, help="Also settings that have their defaults.")
@click.option("--help-texts", is_flag=True, help="Also what each setting means.")
@json_option("one JSON document")
@bootstrap_option
def show(
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    show_all: bool,
    help_texts: bool,
    as_json: bool,
    bootstrap: list[Address],
) -> None:
    """Show the settings of a topic or, without --topic, of the broker.

    Only what differs from the defaults, unless --all is given.
    """
    with Cluster(bootstrap) as cluster:
        target = _target(cluster, topic, broker, all_brokers)
        found = configs.read(cluster, target)
    shown = [config for config in found if show_all or not config.is_default]
    if as_json:
        print_json(
            {
                target.kind.name.lower(): target.name or None,
                "configs": [
                    {
                        "name": config.name,
                        "value": config.value,
                        "source": config.source,
                        "read_only": config.read_only,
                        "help": config.documentation,
                    }
                    for config in shown
                ],
            }
        )
    elif shown:
        headings = ["SETTING", "VALUE", "SOURCE"] + ["MEANING"] * help_texts
        print_table(
            headings,
            [
                [config.name, config.value, config.source, config.documentation][: len(headings)]
                for config in shown
            ],
        )
    else:
        note(f"{target} has no settings of its own; see the defaults with --all")


@command.command("set")
@click.argument("pairs", nargs=-1, required=True, callback=read_pairs, metavar="KEY=VALUE...")
@target_options
@bootstrap_option
def set_(
    pairs: Sequence[tuple[str, str]],
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    bootstrap: list[Address],
) -> None:
    """Set settings of a topic, a broker or all brokers; all of them or none."""
    _demand_target(topic, broker, all_brokers)
    with Cluster(bootstrap) as cluster:
        target = _target(cluster, topic, broker, all_brokers)
        configs.change(cluster, target, values=dict(pairs))
    for key, value in pairs:
        print(f"set {key}={value} for {target}")


@command.command("unset")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@target_options
@bootstrap_option
def unset(
    keys: Sequence[str],
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    bootstrap: list[Address],
) -> None:
    """Take settings back to what they are without a value of their own."""
    _demand_target(topic, broker, all_brokers)
    with Cluster(bootstrap) as cluster:
        target = _target(cluster, topic, broker, all_brokers)
        configs.change(cluster, target, values={}, unset=keys)
    for key in keys:
        print(f"unset {key} for {target}")


def _demand_target(topic: str | None, broker: int | None, all_brokers: bool) -> None:
    """A change says whose setting it is: a default could hit a whole broker by mistake."""
    if topic is None and broker is None and not all_brokers:
        raise click.UsageError("Say whose settings: --topic NAME, --broker ID or --all-brokers.")


def _target(cluster: Cluster, topic: str | None, broker: int | None, all_brokers: bool) -> Target:
    if (topic is not None) + (broker is not None) + all_brokers > 1:
        raise click.UsageError("Give only one of --topic, --broker and --all-brokers.")
    if topic is not None:
        cluster.topic(topic)  # says which name was meant, if it is misspelt
        return Target(Kind.TOPIC, topic)
    if all_brokers:
        return Target(Kind.BROKER, "")
    if broker is None:
        cluster.refresh()
        here = [number for number, at in cluster.brokers.items() if at == cluster.bootstrap.address]
        broker = here[0] if here else cluster.controller_id
    return Target(Kind.BROKER, str(broker))
