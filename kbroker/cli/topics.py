"""`kbroker topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from kbroker.cli.client import admin, configs
from kbroker.cli.client.address import Address
from kbroker.cli.client.cluster import Cluster, Topic
from kbroker.cli.client.configs import Kind, Target
from kbroker.cli.client.failure import BrokerRefusal, Failure
from kbroker.cli.options import (
    bootstrap_option,
    complete_topic,
    json_option,
    read_pairs,
    topic_argument,
)
from kbroker.cli.output import bytes_text, count_text, note, print_json, print_table
from kbroker.protocol.errors import TopicAlreadyExists

HEADINGS = (
    *("PARTITION", "EARLIEST", "LATEST", "RECORDS", "SIZE"),
    *("LEADER", "REPLICAS", "IN-SYNC"),
)
COUNT = click.IntRange(min=1)


@click.group("topics")
def command() -> None:
    """Create, list, describe, alter and delete topics."""


@command.command("create")
@topic_argument
@click.option(
    "--partitions",
    type=COUNT,
    metavar="N",
    help="How many; the broker's num.partitions if not said.",
)
@click.option(
    "--replicas", type=COUNT, metavar="N", help="Copies of each; the broker's default if not said."
)
@click.option(
    "--config",
    "settings",
    callback=read_pairs,
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the topic, such as retention.ms=3600000; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="It is fine if the topic exists already.")
@bootstrap_option
def create(
    topic: str,
    partitions: int | None,
    replicas: int | None,
    settings: Sequence[tuple[str, str]],
    if_not_exists: bool,
    bootstrap: list[Address],
) -> None:
    """Create a topic."""
    with Cluster(bootstrap) as cluster:
        try:
            count, _ = admin.create_topic(
                cluster, topic, partitions or -1, replicas or -1, dict(settings)
            )
        except BrokerRefusal as refusal:
            if if_not_exists and refusal.code == TopicAlreadyExists.code:
                note(f"topic {topic} exists already")
                return
            raise
        if count < 0:  # brokers older than Kafka 2.4 do not tell
            count = len(cluster.topic(topic).partitions)
    print(f"created topic {topic} with {count_text(count, 'partition')}")


@command.command("list")
@click.option("--internal", is_flag=True, help="Also the broker's own topics.")
@json_option("one JSON document")
@bootstrap_option
def list_(internal: bool, as_json: bool, bootstrap: list[Address]) -> None:
    """List the topics."""
    with Cluster(bootstrap) as cluster:
        topics = [topic for topic in cluster.topics() if internal or not topic.is_internal]
    if as_json:
        print_json(
            [
                {
                    "name": topic.name,
                    "id": id_text(topic.id),
                    "partitions": len(topic.partitions),
                    "replicas": _replicas(topic),
                    "internal": topic.is_internal,
                }
                for topic in topics
            ]
        )
    elif topics:
        rows = [(topic.name, len(topic.partitions), _replicas(topic)) for topic in topics]
        headings = ("TOPIC", "PARTITIONS", "REPLICAS")
        print_table(headings, rows, right=headings[1:])
    else:
        note("there is no topic yet; make one with: kbroker topics create NAME")


@command.command("describe")
@click.argument(
    "topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topic
)
@json_option("one JSON document")
@bootstrap_option
def describe(topics: Sequence[str], as_json: bool, bootstrap: list[Address]) -> None:
    """Show topics: partitions with their offsets and sizes, and settings of their own."""
    with Cluster(bootstrap) as cluster:
        described = [_describe(cluster, cluster.topic(name)) for name in topics]
    if as_json:
        print_json(described)
        return
    for number, topic in enumerate(described):
        if number:
            print()
        _print_described(topic)


@command.command("alter")
@topic_argument
@click.option(
    "--partitions", type=COUNT, metavar="N", help="How many it shall have; never fewer than it has."
)
@click.option(
    "--config",
    "settings",
    callback=read_pairs,
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting to set; may be repeated.",
)
@bootstrap_option
def alter(
    topic: str,
    partitions: int | None,
    settings: Sequence[tuple[str, str]],
    bootstrap: list[Address],
) -> None:
    """Give a topic more partitions, or other settings.

    More partitions send the records of a key elsewhere from then on; what is there stays there.
    """
    if partitions is None and not settings:
        raise click.UsageError("Say what to change: --partitions or --config.")
    with Cluster(bootstrap) as cluster:
        found = cluster.topic(topic)
        if settings:
            configs.change(cluster, Target(Kind.TOPIC, topic), values=dict(settings))
            print(f"set {', '.join('='.join(pair) for pair in settings)} for topic {topic}")
        if partitions is not None:
            before = len(found.partitions)
            if partitions < before:
                raise Failure(
                    f"topic {topic} has {count_text(before, 'partition')} and a topic cannot get"
                    " fewer; make another topic instead"
                )
            if partitions > before:
                admin.grow_topic(cluster, topic, partitions)
            print(f"topic {topic} has {count_text(partitions, 'partition')}")


@command.command("delete")
@click.argument(
    "topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topic
)
@click.option("--yes", is_flag=True, help="Do not ask before deleting.")
@bootstrap_option
def delete(topics: Sequence[str], yes: bool, bootstrap: list[Address]) -> None:
    """Delete topics with all their records."""
    with Cluster(bootstrap) as cluster:
        for name in topics:
            cluster.topic(name)
        if not yes and sys.stdin.isatty():
            click.confirm(f"Delete {', '.join(topics)} with all records?", abort=True, err=True)
        for name in topics:
            admin.delete_topic(cluster, name)
            print(f"deleted topic {name}")


def id_text(topic_id: bytes) -> str | None:
    """A topic's id as Kafka's tools print it; None where the broker has none."""
    import base64

    if not any(topic_id):
        return None
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _replicas(topic: Topic) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _describe(cluster: Cluster, topic: Topic) -> dict[str, object]:
    earliest = admin.offsets_at(cluster, [topic], admin.EARLIEST)
    latest = admin.offsets_at(cluster, [topic], admin.LATEST)
    sizes = admin.leader_sizes(cluster, [topic])
    own = configs.read(cluster, Target(Kind.TOPIC, topic.name))
    partitions = []
    for partition in topic.partitions:
        key = (topic.name, partition.index)
        first, end = earliest.get(key), latest.get(key)
        partitions.append(
            {
                "partition": partition.index,
                "leader": partition.leader if partition.leader >= 0 else None,
                "replicas": list(partition.replicas),
                "in_sync": list(partition.in_sync),
                "earliest": first,
                "latest": end,
                "records": end - first if first is not None and end is not None else None,
                "bytes": sizes.get(key),
            }
        )
    return {
        "name": topic.name,
        "id": id_text(topic.id),
        "internal": topic.is_internal,
        "partitions": partitions,
        "configs": {config.name: config.value for config in own if config.source == "topic"},
    }


def _print_described(topic: dict[str, object]) -> None:
    partitions, own = topic["partitions"], topic["configs"]
    assert isinstance(partitions, list)
    assert isinstance(own, dict)
    identity = f", id {topic['id']}" if topic["id"] else ""
    print(f"{topic['name']}: {count_text(len(partitions), 'partition')}{identity}")
    for name, value in own.items():
        print(f"  {name}={value}")
    rows = [
        (
            part["partition"],
            part["earliest"],
            part["latest"],
            part["records"],
            None if part["bytes"] is None else bytes_text(part["bytes"]),
            part["leader"],
            ",".join(map(str, part["replicas"])),
            ",".join(map(str, part["in_sync"])),
        )
        for part in partitions
    ]
    print_table(HEADINGS, rows, right=HEADINGS[:6])
