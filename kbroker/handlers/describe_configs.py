"""DescribeConfigs (32): every setting of a topic or of this broker, with its value and where it is
from.

Versions: 1 sources and synonyms; 3 types and documentation.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.broker import Broker
from kbroker.handlers.registry import Call, api
from kbroker.handlers.topic_rules import check_name
from kbroker.protocol.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kbroker.setting import Setting, Value, text_of
from kbroker.settings_table import ALL_BROKER_SETTINGS, TOPIC_SETTINGS

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
TOPIC_SOURCE, BROKER_SOURCE, ALL_BROKERS_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5


@api(DescribeConfigsRequest, DescribeConfigsResponse)
def describe_configs(call: Call[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    """Describes each resource."""
    return DescribeConfigsResponse(
        results=[_resource(call, resource) for resource in call.request.resources]
    )


def _resource(
    call: Call[DescribeConfigsRequest], resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[]
    )
    keys = resource.configuration_keys
    try:
        if resource.resource_type == TOPIC_RESOURCE:
            result.configs = _topic(call, resource.resource_name, keys)
        elif resource.resource_type == BROKER_RESOURCE:
            result.configs = _broker(call, resource.resource_name, keys)
        else:
            raise InvalidRequest(f"unsupported resource type {resource.resource_type}")
    except KafkaError as problem:
        result.error_code, result.error_message = problem.code, problem.message
    return result


def _topic(
    call: Call[DescribeConfigsRequest], name: str, keys: list[str] | None
) -> list[DescribeConfigsResourceResult]:
    check_name(name)
    topic = call.broker.topic(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"there is no topic {name}")
    results = []
    for setting in TOPIC_SETTINGS.values():
        if not keys or setting.name in keys:
            synonyms = _broker_synonyms(call.broker, setting.broker_name)
            own = topic.overrides.get(setting.name)
            if own is not None:
                synonyms.insert(0, (setting.name, text_of(own), TOPIC_SOURCE))
            results.append(_result(call, setting, synonyms, read_only=False))
    return results


def _broker(
    call: Call[DescribeConfigsRequest], name: str, keys: list[str] | None
) -> list[DescribeConfigsResourceResult]:
    broker = call.broker
    if name not in ("", str(broker.node_id)):
        raise InvalidRequest(f"this is broker {broker.node_id}, not {name!r}")
    results = []
    for setting in ALL_BROKER_SETTINGS.values():
        if keys and setting.name not in keys:
            continue
        synonyms = _broker_synonyms(broker, setting.name)
        if name == "":  # the cluster-wide dynamic settings only
            synonyms = [synonym for synonym in synonyms if synonym[2] == ALL_BROKERS_SOURCE]
            if not synonyms:
                continue
        results.append(_result(call, setting, synonyms, read_only=not setting.dynamic))
    return results


def _broker_synonyms(broker: Broker, name: str) -> list[tuple[str, str | None, int]]:
    """Where a broker setting's value may come from, the strongest first; nowhere if it has none."""
    catalog, settings = broker.catalog, broker.settings
    found: list[tuple[str, str | None, int]] = []
    if not name:
        return found
    for resource, source in (
        (f"broker:{broker.node_id}", BROKER_SOURCE),
        ("broker:", ALL_BROKERS_SOURCE),
    ):
        text = catalog.configs(resource).get(name)
        if text is not None:
            found.append((name, text, source))
    fact = settings.facts.get(name)
    if name in settings.static:
        found.append((name, text_of(fact or settings.static[name]), STATIC_SOURCE))
    default = ALL_BROKER_SETTINGS[name].default if fact is None else fact
    if default is not None:
        found.append((name, text_of(default), DEFAULT_SOURCE))
    return found


def topic_value(
    broker: Broker, setting: Setting, overrides: Mapping[str, Value]
) -> tuple[str | None, int]:
    """A topic setting's value in force, and its source."""
    own = overrides.get(setting.name)
    if own is not None:
        return text_of(own), TOPIC_SOURCE
    for _, text, source in _broker_synonyms(broker, setting.broker_name):
        return text, source
    return text_of(setting.default), DEFAULT_SOURCE


def _result(
    call: Call[DescribeConfigsRequest],
    setting: Setting,
    synonyms: list[tuple[str, str | None, int]],
    read_only: bool,
) -> DescribeConfigsResourceResult:
    request = call.request
    value, source = text_of(setting.default), DEFAULT_SOURCE
    if synonyms:
        _, value, source = synonyms[0]
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=value,
        read_only=read_only,
        config_source=source,
        is_sensitive=False,
        config_type=setting.kind,
        documentation=setting.help if request.include_documentation else None,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=text, source=origin)
            for name, text, origin in synonyms
        ]
        if request.include_synonyms
        else [],
    )
