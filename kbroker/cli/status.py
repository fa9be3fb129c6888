"""`kbroker status`: what a cluster is, what it holds, and what a power cut would cost.

Everything comes from public APIs, so it works with an Apache Kafka too; what a broker does not tell
is left out. Version and uptime are settings of kbroker's own that nobody can change.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from kbroker.cli.client import admin, configs
from kbroker.cli.client.address import Address
from kbroker.cli.client.admin import LogFolder
from kbroker.cli.client.cluster import Cluster, Topic
from kbroker.cli.client.configs import Config, Kind, Target
from kbroker.cli.client.failure import Failure
from kbroker.cli.options import bootstrap_option, json_option
from kbroker.cli.output import bytes_text, count_text, duration_text, print_json

VERSION_SETTING = "kbroker.version"
STARTED_SETTING = "kbroker.started.ms"
MEMORY_SETTING = "kbroker.memory"
FLUSH_SETTINGS = ("flush.messages", "flush.ms", "kbroker.flush.group.commit")
_NEVER_MS = 1 << 62
_TOPICS_PER_REQUEST = 1_000
_NAMES_SHOWN = 5


@dataclass(slots=True)
class BrokerStatus:
    """One broker, as far as it answers."""

    id: int
    address: Address
    product: str | None
    uptime_ms: int | None
    folders: list[LogFolder]
    promise: str | None  # what a power cut costs a topic without settings of its own
    problem: str | None
    keeps_nothing: bool = False


@click.command("status")
@json_option("one JSON document")
@bootstrap_option
def command(as_json: bool, bootstrap: list[Address]) -> None:
    """Show a broker: cluster, topics, disk, safety."""
    with Cluster(bootstrap) as cluster:
        topics = cluster.topics()
        brokers = [_broker(cluster, number) for number in sorted(cluster.brokers)]
        earliest = admin.offsets_at(cluster, topics, admin.EARLIEST)
        latest = admin.offsets_at(cluster, topics, admin.LATEST)
        users = [topic for topic in topics if not topic.is_internal]
        keeps_nothing = any(broker.keeps_nothing for broker in brokers)
        promises = {} if keeps_nothing else _promises(cluster, users)
        default = next((broker.promise for broker in brokers if broker.promise), None)
        document = {
            "cluster_id": cluster.cluster_id,
            "controller": cluster.controller_id,
            "brokers": [_as_document(broker) for broker in brokers],
            "topics": len(users),
            "partitions": sum(len(topic.partitions) for topic in users),
            "records": sum(
                latest[topic.name, part.index] - earliest[topic.name, part.index]
                for topic in users
                for part in topic.partitions
                if (topic.name, part.index) in latest
            ),
            "bytes": _bytes_stored(brokers, users),
            "flush": [{"promise": promise, "topics": names} for promise, names in promises.items()],
            "flush_of_new_topics": None if keeps_nothing else default,
            "keeps_nothing": keeps_nothing,
        }
    if as_json:
        print_json(document)
    else:
        _print(document, brokers)


def _broker(cluster: Cluster, number: int) -> BrokerStatus:
    status = BrokerStatus(number, cluster.brokers[number], None, None, [], None, None)
    try:
        own = {c.name: c for c in configs.read(cluster, Target(Kind.BROKER, str(number)))}
        memory = own.get(MEMORY_SETTING)
        status.keeps_nothing = memory is not None and memory.value == "true"
        status.product, status.uptime_ms = _product(cluster, number, own)
        status.promise = _default_promise(own, is_kbroker="kbroker" in (status.product or ""))
        status.folders = admin.log_folders(cluster, number)
    except Failure as problem:
        status.problem = str(problem)
    return status


def _product(
    cluster: Cluster, number: int, own: Mapping[str, Config]
) -> tuple[str | None, int | None]:
    """What runs there and since when, as far as it can be known."""
    uptime_ms = None
    started = own.get(STARTED_SETTING)
    if started is not None and started.value:
        uptime_ms = max(0, int(time.time() * 1000) - int(started.value))
    version = own.get(VERSION_SETTING)
    if version is not None and version.value:
        return f"kbroker {version.value}", uptime_ms
    if any(name.startswith("kbroker.") for name in own):
        return "kbroker", uptime_ms
    level = cluster.node(number).features.get("metadata.version")
    return f"Apache Kafka, metadata.version {level}" if level else None, uptime_ms


def _bytes_stored(brokers: Sequence[BrokerStatus], topics: Sequence[Topic]) -> int | None:
    """Bytes of one copy of everything: each partition's on its leader; None if nobody tells."""
    folders = [folder for broker in brokers for folder in broker.folders]
    if not folders:
        return None
    leaders = {(topic.name, p.index): p.leader for topic in topics for p in topic.partitions}
    return sum(
        size
        for folder in folders
        for partition, size in folder.sizes.items()
        if leaders.get(partition) == folder.broker
    )


# What a power cut costs


def _promises(cluster: Cluster, topics: Sequence[Topic]) -> dict[str, list[str]]:
    """Topics by what a power cut can cost them, the commonest first."""
    found: dict[str, list[str]] = {}
    targets = [Target(Kind.TOPIC, topic.name) for topic in topics]
    for start in range(0, len(targets), _TOPICS_PER_REQUEST):
        part = targets[start : start + _TOPICS_PER_REQUEST]
        for target, settings in configs.read_many(cluster, part, FLUSH_SETTINGS).items():
            values = {config.name: config.value for config in settings}
            found.setdefault(flush_promise(values), []).append(target.name)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _default_promise(own: Mapping[str, Config], *, is_kbroker: bool) -> str:
    """What a power cut can cost a topic that has no settings of its own."""
    values = {name: config.value for name, config in own.items()}
    interval = values.get("log.flush.interval.ms") or values.get("log.flush.scheduler.interval.ms")
    if interval is None and is_kbroker:
        from kbroker.setting import text_of
        from kbroker.settings_table import TOPIC_SETTINGS

        interval = text_of(TOPIC_SETTINGS["flush.ms"].default)
    return flush_promise(
        {
            "flush.messages": values.get("log.flush.interval.messages"),
            "flush.ms": interval,
            "kbroker.flush.group.commit": values.get("kbroker.flush.group.commit"),
        }
    )


def flush_promise(values: Mapping[str, str | None]) -> str:
    """What a power cut can cost a topic with these settings."""
    messages = int(values.get("flush.messages") or _NEVER_MS)
    interval_ms = int(values.get("flush.ms") or _NEVER_MS)
    if values.get("kbroker.flush.group.commit") == "true":
        return "a power cut loses nothing that was acknowledged (group commit)"
    if messages == 1:
        return "a power cut loses nothing that was acknowledged (flush.messages=1)"
    limits = []
    if interval_ms < _NEVER_MS:
        limits.append(f"the last {duration_text(interval_ms)} (flush.ms={interval_ms})")
    if messages < _NEVER_MS:
        limits.append(f"the last {messages:,} records (flush.messages={messages})")
    if limits:
        return f"a power cut loses at most {' or '.join(limits)}"
    return "a power cut loses what the operating system has not written yet (no flush is set)"


# Printing


def _as_document(broker: BrokerStatus) -> dict[str, object]:
    return {
        "id": broker.id,
        "address": str(broker.address),
        "product": broker.product,
        "uptime_ms": broker.uptime_ms,
        "problem": broker.problem,
        "folders": [
            {
                "path": folder.path,
                "total_bytes": folder.total_bytes if folder.total_bytes >= 0 else None,
                "usable_bytes": folder.usable_bytes if folder.usable_bytes >= 0 else None,
            }
            for folder in broker.folders
        ],
    }


def _print(document: Mapping[str, object], brokers: Sequence[BrokerStatus]) -> None:
    _line("cluster", document["cluster_id"] or "without an id")
    for broker in brokers:
        parts = [f"{broker.id} at {broker.address}"]
        if broker.product:
            parts.append(broker.product)
        if broker.uptime_ms is not None:
            parts.append(f"up {duration_text(broker.uptime_ms)}")
        if len(brokers) > 1 and broker.id == document["controller"]:
            parts.append("controller")
        _line("broker", ", ".join(parts))
        if broker.problem:
            _line("", f"is not well: {broker.problem}")
        for folder in broker.folders:
            _line("disk", _disk(folder))
    topics, partitions = document["topics"], document["partitions"]
    records, stored = document["records"], document["bytes"]
    assert isinstance(topics, int)
    assert isinstance(partitions, int)
    assert isinstance(records, int)
    _line("topics", f"{count_text(topics, 'topic')}, {count_text(partitions, 'partition')}")
    size = f", {bytes_text(stored)}" if isinstance(stored, int) else ""
    _line("records", f"{count_text(records, 'record')}{size}")
    promises, default = document["flush"], document["flush_of_new_topics"]
    assert isinstance(promises, list)
    lines = [
        f"{entry['promise']}{_names(entry['topics']) if len(promises) > 1 else ''}"
        for entry in promises
    ]
    if default is not None and default not in [entry["promise"] for entry in promises]:
        lines.append(f"{default}: new topics")
    for number, line in enumerate(lines):
        _line("" if number else "flush", line)
    if document["keeps_nothing"]:
        _line("keeps", "nothing: all records are gone when this broker stops")
    else:
        _line("", "a killed broker process loses nothing that was acknowledged")


def _names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return f": {', '.join(names[:_NAMES_SHOWN])}{rest}"


def _disk(folder: LogFolder) -> str:
    if folder.usable_bytes < 0:
        return folder.path
    room = f"{bytes_text(folder.usable_bytes)} free"
    return f"{room} of {bytes_text(folder.total_bytes)} at {folder.path}"


def _line(heading: str, text: object) -> None:
    print(f"{heading:<9}{text}")
