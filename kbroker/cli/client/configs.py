"""Settings of topics and brokers over the wire: read with their source, set, unset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kbroker.cli.client.cluster import Cluster
from kbroker.cli.client.connection import Connection
from kbroker.cli.client.failure import BrokerRefusal
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)

_SET, _DELETE = 0, 1
_SOURCES = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "set at start",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
_DEFAULT_SOURCE = 5


class Kind(IntEnum):
    """What settings can belong to, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True, slots=True)
class Target:
    """A topic, a broker by its number, or all brokers (an empty name)."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        if self.kind == Kind.BROKER and not self.name:
            return "all brokers"
        return f"{self.kind.name.lower()} {self.name}"


@dataclass(frozen=True, slots=True)
class Config:
    """A setting in force and where its value comes from."""

    name: str
    value: str | None
    source: str
    is_default: bool
    read_only: bool
    documentation: str | None


def read_many(
    cluster: Cluster, targets: Sequence[Target], names: Sequence[str] | None = None
) -> dict[Target, list[Config]]:
    """The settings of several targets of one kind, all or those named."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=int(target.kind),
                resource_name=target.name,
                configuration_keys=list(names) if names is not None else None,
            )
            for target in targets
        ],
        include_documentation=True,
    )
    response = _responsible(cluster, targets[0]).ask(request, DescribeConfigsResponse)
    found = {}
    for result in response.results:
        target = Target(Kind(result.resource_type), result.resource_name)
        if result.error_code:
            raise BrokerRefusal(
                result.error_code, f"cannot read the settings of {target}", result.error_message
            )
        found[target] = [
            Config(
                name=entry.name,
                value=entry.value,
                source=_SOURCES.get(entry.config_source, str(entry.config_source)),
                is_default=entry.config_source == _DEFAULT_SOURCE,
                read_only=entry.read_only,
                documentation=entry.documentation,
            )
            for entry in sorted(result.configs, key=lambda entry: entry.name)
        ]
    return found


def read(cluster: Cluster, target: Target, names: Sequence[str] | None = None) -> list[Config]:
    """The settings of one target."""
    return read_many(cluster, [target], names)[target]


def change(
    cluster: Cluster, target: Target, *, values: Mapping[str, str], unset: Sequence[str] = ()
) -> None:
    """Sets some settings and takes others back to their defaults, all or nothing."""
    changes = [
        IncrementalAlterableConfig(name=name, config_operation=_SET, value=value)
        for name, value in values.items()
    ] + [
        IncrementalAlterableConfig(name=name, config_operation=_DELETE, value=None)
        for name in unset
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=int(target.kind), resource_name=target.name, configs=changes
            )
        ],
        validate_only=False,
    )
    response = _responsible(cluster, target).ask(request, IncrementalAlterConfigsResponse)
    result = response.responses[0]
    if result.error_code:
        raise BrokerRefusal(
            result.error_code, f"cannot change the settings of {target}", result.error_message
        )


def _responsible(cluster: Cluster, target: Target) -> Connection:
    """A broker's own settings are known to that broker only; all else to any."""
    if target.kind == Kind.BROKER and target.name:
        return cluster.node(int(target.name))
    return cluster.bootstrap
