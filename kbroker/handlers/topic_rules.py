"""What a topic may be called and how many partitions it may have: the rules that the APIs share."""

from __future__ import annotations

import re

from kbroker.broker import Broker
from kbroker.catalog import INTERNAL_TOPICS, Topic
from kbroker.protocol.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidTopicException,
    PolicyViolation,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from kbroker.setting import Value
from kbroker.settings_table import TOPIC_SETTINGS

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_name(name: str) -> None:
    """Kafka's rule: at most 249 of letters, digits, dot, underscore and hyphen, not . and not .."""
    if not name:
        raise InvalidTopicException("the empty string is not a topic name")
    if name in (".", ".."):
        raise InvalidTopicException(f"{name!r} is not a topic name")
    if len(name) > 249:
        raise InvalidTopicException(f"a topic name has at most 249 characters, not {len(name)}")
    if not _NAME.fullmatch(name):
        raise InvalidTopicException(
            f"{name!r} has characters other than letters, digits, '.', '_' and '-'"
        )


def check_new_name(broker: Broker, name: str) -> None:
    """A name for a new topic: valid, free, and not one that metrics would mix up with another."""
    check_name(name)
    if broker.topic(name) is not None:
        raise TopicAlreadyExists(f"topic {name} already exists; choose another name")
    metric_name = name.replace(".", "_")
    if "." in name or "_" in name:
        for other in broker.catalog.topics:
            if other.replace(".", "_") == metric_name:
                raise InvalidTopicException(
                    f"topic '{name}' collides with '{other}': . and _ are one"
                )


def check_room(broker: Broker, partition_count: int) -> None:
    """A limit on partitions, because each costs memory and files."""
    limit = broker.settings.integer("kbroker.max.partitions")
    if partition_count < 1:
        raise InvalidPartitions(f"a topic has at least 1 partition, not {partition_count}")
    if broker.catalog.partition_total + partition_count > limit:
        raise PolicyViolation(f"kbroker.max.partitions is {limit}")


def check_replication(factor: int) -> None:
    """One copy each, as long as this broker is alone."""
    if factor == 0 or factor < -1:
        raise InvalidReplicationFactor("the replication factor must be larger than 0")
    if factor > 1:
        raise InvalidReplicationFactor(f"replication factor {factor} is larger than the 1 broker")


def parse_overrides(texts: dict[str, str | None]) -> dict[str, Value]:
    """A topic's own settings, checked."""
    overrides: dict[str, Value] = {}
    for name, text in texts.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise InvalidConfig(f"unknown topic config name: {name}")
        if text is None:
            raise InvalidConfig(f"{name} has no value")
        try:
            overrides[name] = setting.parse(text)
        except ValueError as problem:
            raise InvalidConfig(str(problem)) from None
    least, most = (
        overrides.get(name, TOPIC_SETTINGS[name].default)
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise InvalidConfig(f"min.compaction.lag.ms {least} is above the maximum {most}")
    return overrides


def auto_create(broker: Broker, name: str, allowed: bool) -> Topic:
    """Makes a topic that somebody asked for, if that is wanted."""
    check_name(name)
    if not allowed or not broker.settings.flag("auto.create.topics.enable"):
        raise UnknownTopicOrPartition(f"there is no topic {name}")
    if name in INTERNAL_TOPICS:
        raise UnknownTopicOrPartition(f"{name} is made by the broker")
    check_new_name(broker, name)
    count = broker.settings.integer("num.partitions")
    check_room(broker, count)
    return broker.catalog.create(name, count, {})
