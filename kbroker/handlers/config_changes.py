"""Changing settings: what AlterConfigs and IncrementalAlterConfigs share.

A change is worked out as the whole new set of a resource's own settings, checked, and then stored.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.broker import Broker
from kbroker.handlers.describe_configs import BROKER_RESOURCE, TOPIC_RESOURCE, topic_value
from kbroker.handlers.topic_rules import check_name, parse_overrides
from kbroker.protocol.errors import (
    InvalidConfig,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from kbroker.setting import LIST, Setting
from kbroker.settings_table import ALL_BROKER_SETTINGS, TOPIC_SETTINGS

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Texts = dict[str, str]


def resource_key(broker: Broker, resource_type: int, name: str) -> str:
    """The catalog's name of a resource that may be changed."""
    if resource_type == TOPIC_RESOURCE:
        if not name:
            raise InvalidRequest("a topic without a name")
        check_name(name)
        if name not in broker.catalog.topics:
            raise UnknownTopicOrPartition(f"there is no topic {name}")
        return f"topic:{name}"
    if resource_type == BROKER_RESOURCE:
        if name not in ("", str(broker.node_id)):
            raise InvalidRequest(f"this is broker {broker.node_id}, not {name!r}")
        return f"broker:{name}"
    raise InvalidRequest(f"settings of resource type {resource_type} cannot be changed here")


def change(
    broker: Broker,
    resource_type: int,
    name: str,
    validate_only: bool,
    new_texts: Callable[[Texts], Texts],
    times_asked: int = 1,
) -> None:
    """Replaces a resource's own settings by what `new_texts` makes of them."""
    if times_asked > 1:
        raise InvalidRequest(f"{name!r} is given twice")
    key = resource_key(broker, resource_type, name)
    texts = new_texts(broker.catalog.configs(key))
    if resource_type == TOPIC_RESOURCE:
        parse_overrides(dict(texts))
    else:
        for setting_name, text in texts.items():
            setting = ALL_BROKER_SETTINGS.get(setting_name)
            if setting is None or not setting.dynamic:
                raise InvalidRequest(f"{setting_name} cannot be changed while the broker runs")
            try:
                setting.parse(text)
            except ValueError as problem:
                raise InvalidRequest(str(problem)) from None
    if not validate_only:
        broker.catalog.set_configs(key, texts)


def apply_operation(
    broker: Broker,
    resource_type: int,
    name: str,
    texts: Texts,
    key: str,
    operation: int,
    value: str | None,
) -> None:
    """One operation of IncrementalAlterConfigs on a resource's own settings."""
    if operation == DELETE:
        texts.pop(key, None)
        return
    if value is None:
        raise InvalidRequest(f"{key} has no value")
    if operation == SET:
        texts[key] = value
        return
    if operation not in (APPEND, SUBTRACT):
        raise InvalidRequest(f"unknown operation {operation}")
    known = TOPIC_SETTINGS if resource_type == TOPIC_RESOURCE else ALL_BROKER_SETTINGS
    setting: Setting | None = known.get(key)
    if setting is None or setting.kind != LIST:
        raise InvalidConfig(f"{key} is not a list: it can be set and deleted only")
    if key in texts:
        present = texts[key]
    elif resource_type == TOPIC_RESOURCE:
        present = topic_value(broker, setting, {})[0] or ""
    else:
        present = ",".join(str(item) for item in (setting.default or []))  # type: ignore[union-attr]
    items = [item for item in present.split(",") if item]
    wanted = value.split(",")
    if operation == APPEND:
        items += [item for item in wanted if item not in items]
    else:
        items = [item for item in items if item not in wanted]
    texts[key] = ",".join(items)
