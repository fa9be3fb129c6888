"""AlterConfigs and IncrementalAlterConfigs of topics and brokers."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from kbroker.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import SETTLE_TIMEOUT_S, Scene, Topic
from tests.differential.test_configs import BROKER, NODE, TOPIC, described
from tests.support.waiting import wait_until

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def alter(
    scene: Scene,
    kind: int,
    name: str,
    *operations: tuple[str, int, str | None],
    validate_only: bool = False,
    version: int = 1,
) -> Plain:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in operations
                ],
            )
        ],
        validate_only=validate_only,
    )
    return scene.ask(request, version)


def replace(
    scene: Scene,
    kind: int,
    name: str,
    *values: tuple[str, str | None],
    validate_only: bool = False,
    version: int = 2,
) -> Plain:
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, value=value) for key, value in values],
            )
        ],
        validate_only=validate_only,
    )
    return scene.ask(request, version)


def own_values(scene: Scene, topic: Topic) -> dict[str, str | None]:
    """What was set for the topic itself."""
    configs = described(scene, TOPIC, topic.name).configs
    return {config.name: config.value for config in configs if config.config_source == 1}


def settled(scene: Scene, topic: Topic, wanted: dict[str, str | None]) -> dict[str, str | None]:
    """The topic's own values once they are the wanted ones, or what they still are at the end."""
    with suppress(TimeoutError):
        wait_until(
            lambda: own_values(scene, topic) == wanted, timeout_s=SETTLE_TIMEOUT_S, what="configs"
        )
    return own_values(scene, topic)


# Changing topics


@pytest.mark.parametrize("version", [0, 1])
def test_single_configs_are_set_deleted_appended_and_subtracted(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, tuple[Plain, dict[str, str | None]]]:
        topic = scene.create(retention_ms="1000")
        cases: dict[str, tuple[list[tuple[str, int, str | None]], dict[str, str | None]]] = {
            "set": ([("segment.ms", SET, "5000")], {"retention.ms": "1000", "segment.ms": "5000"}),
            "set again": (
                [("segment.ms", SET, " 6000 ")],
                {"retention.ms": "1000", "segment.ms": "6000"},
            ),
            "delete": ([("segment.ms", DELETE, None)], {"retention.ms": "1000"}),
            "delete what is not set": ([("segment.ms", DELETE, "")], {"retention.ms": "1000"}),
            "append to the default": (
                [("cleanup.policy", APPEND, "compact")],
                {"retention.ms": "1000", "cleanup.policy": "delete,compact"},
            ),
            "append what is there": (
                [("cleanup.policy", APPEND, "compact")],
                {"retention.ms": "1000", "cleanup.policy": "delete,compact"},
            ),
            "subtract": (
                [("cleanup.policy", SUBTRACT, "delete")],
                {"retention.ms": "1000", "cleanup.policy": "compact"},
            ),
            "subtract what is not there": (
                [("cleanup.policy", SUBTRACT, "delete")],
                {"retention.ms": "1000", "cleanup.policy": "compact"},
            ),
            "set, delete": (
                [("retention.ms", SET, "2000"), ("cleanup.policy", DELETE, None)],
                {"retention.ms": "2000"},
            ),
            "two lists": (
                [
                    ("leader.replication.throttled.replicas", APPEND, "0:1,1:1"),
                    ("follower.replication.throttled.replicas", SET, "*"),
                ],
                {
                    "retention.ms": "2000",
                    "leader.replication.throttled.replicas": "0:1,1:1",
                    "follower.replication.throttled.replicas": "*",
                },
            ),
            "subtract several": (
                [
                    ("leader.replication.throttled.replicas", SUBTRACT, "1:1,7:7"),
                    ("follower.replication.throttled.replicas", DELETE, None),
                ],
                {"retention.ms": "2000", "leader.replication.throttled.replicas": "0:1"},
            ),
        }
        return {
            case: (
                alter(scene, TOPIC, topic.name, *operations, version=version),
                settled(scene, topic, wanted),
            )
            for case, (operations, wanted) in cases.items()
        }

    told = both.agree(scenario)
    assert told["subtract several"][1]["leader.replication.throttled.replicas"] == "0:1"


def test_single_configs_that_cannot_be_changed_so(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(retention_ms="1000")
        cases: list[tuple[tuple[str, int, str | None], ...]] = [
            (("no.such.config", SET, "1"),),
            (("no.such.config", DELETE, None),),
            (("no.such.config", APPEND, "1"),),
            (("no.such.config", SUBTRACT, "1"),),
            (("retention.ms", SET, None),),
            (("retention.ms", SET, "soon"),),
            (("retention.ms", SET, ""),),
            (("retention.ms", APPEND, "1"),),
            (("retention.ms", SUBTRACT, "1"),),
            (("cleanup.policy", APPEND, None),),
            (("cleanup.policy", SUBTRACT, None),),
            (("cleanup.policy", APPEND, "keep"),),
            (("cleanup.policy", APPEND, ""),),
            (("cleanup.policy", SUBTRACT, "delete"),),
            (("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
            (("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
            (("retention.ms", SET, "1"), ("no.such.config", SET, "2")),
            (("", SET, "1"),),
            (("min.compaction.lag.ms", SET, "9223372036854775807"),),
            (("min.insync.replicas", SET, "5"),),
            (("min.insync.replicas", SET, "1_000"),),
            (("remote.storage.enable", SET, "true"),),
            (("remote.storage.enable", SET, "false"),),
            (("remote.log.copy.disable", SET, "true"),),
            (("remote.log.delete.on.disable", SET, "true"),),
            (("local.retention.ms", SET, "-3"),),
            (("local.retention.bytes", SET, "100"),),
            (("leader.replication.throttled.replicas", SET, "0:1:2"),),
            (("leader.replication.throttled.replicas", SET, "*,0:1"),),
            (("leader.replication.throttled.replicas", SET, ""),),
            (),
        ]
        return {
            f"{index} {operations}": alter(
                scene, TOPIC, topic.name, *operations, validate_only=True
            )
            for index, operations in enumerate(cases)
        } | {"unchanged": dict(own_values(scene, topic))}

    both.agree(scenario)


Change = Callable[[Scene, int, str], Plain]


def one_setting(scene: Scene, kind: int, name: str) -> Plain:
    return alter(scene, kind, name, ("retention.ms", SET, "1"))


def all_settings(scene: Scene, kind: int, name: str) -> Plain:
    return replace(scene, kind, name, ("retention.ms", "1"))


@pytest.mark.parametrize("change", [one_setting, all_settings])
def test_resources_that_cannot_be_changed(both: Both, change: Change) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        return {
            "unknown topic": change(scene, TOPIC, scene.name("missing")),
            "bad name": change(scene, TOPIC, "a/b"),
            "no name": change(scene, TOPIC, ""),
            "another broker": change(scene, BROKER, "99"),
            "no number": change(scene, BROKER, "one"),
            "unknown type": change(scene, 3, "x"),
            "type 0": change(scene, 0, "x"),
            "type 127": change(scene, 127, "x"),
        }

    both.agree(scenario)


def test_the_same_resource_twice_in_one_request(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create()
        single = IncrementalAlterConfigsResource(
            resource_type=TOPIC,
            resource_name=topic.name,
            configs=[
                IncrementalAlterableConfig(name="retention.ms", config_operation=SET, value="1")
            ],
        )
        missing = IncrementalAlterConfigsResource(
            resource_type=TOPIC, resource_name=scene.name("missing"), configs=single.configs
        )
        return [
            scene.ask(
                IncrementalAlterConfigsRequest(resources=[single, missing], validate_only=True)
            ),
            scene.ask(
                IncrementalAlterConfigsRequest(resources=[single, single], validate_only=True)
            ),
            scene.ask(IncrementalAlterConfigsRequest(resources=[], validate_only=False)),
            scene.ask(AlterConfigsRequest(resources=[], validate_only=False)),
        ]

    both.agree(scenario)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_all_configs_of_a_topic_are_replaced(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, tuple[Plain, dict[str, str | None]]]:
        topic = scene.create(retention_ms="1000", segment_ms="5000")
        kept: dict[str, str | None] = {"cleanup.policy": "compact", "retention.ms": "2000"}

        def put(
            *values: tuple[str, str | None], validate_only: bool = False
        ) -> tuple[Plain, dict[str, str | None]]:
            told = replace(
                scene, TOPIC, topic.name, *values, validate_only=validate_only, version=version
            )
            return told, settled(scene, topic, kept)

        return {
            "replaced": put(("cleanup.policy", "compact"), ("retention.ms", "2000")),
            "only checked": put(("retention.ms", "3000"), validate_only=True),
            "null": put(("retention.ms", None)),
            "bad value": put(("retention.ms", "soon")),
            "unknown": put(("no.such.config", "1")),
            "twice": put(("retention.ms", "1"), ("retention.ms", "2"), validate_only=True),
        }

    both.agree(scenario)


# Changing brokers


def test_broker_configs_are_set_and_reach_topics(both: Both) -> None:
    wide, own, default = "message.max.bytes", "max.message.bytes", "1048588"

    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()

        def once(value: str) -> dict[str, Plain]:
            """What is told when the topic has got the value."""
            wait_until(
                lambda: described(scene, TOPIC, topic.name, [own]).configs[0].value == value,
                timeout_s=SETTLE_TIMEOUT_S,
                what=f"{own} to be {value}",
            )
            return {
                "topic": scene.plain(described(scene, TOPIC, topic.name, [own])),
                "this broker": scene.plain(described(scene, BROKER, NODE, [wide])),
                "all brokers": scene.plain(described(scene, BROKER, "", [wide])),
            }

        told: dict[str, Plain] = {}
        try:
            told["set for all"] = alter(scene, BROKER, "", (wide, SET, "2000000"))
            told["all"] = once("2000000")
            told["set for one"] = alter(scene, BROKER, NODE, (wide, SET, "3000000"))
            told["one"] = once("3000000")
        finally:
            told["delete one"] = alter(scene, BROKER, NODE, (wide, DELETE, None))
            told["delete all"] = alter(scene, BROKER, "", (wide, DELETE, None))
            told["afterwards"] = once(default)
        return told

    both.agree(scenario)


@pytest.mark.parametrize("name", ["", NODE])
def test_broker_configs_that_cannot_be_changed_so(both: Both, name: str) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        cases: list[tuple[tuple[str, int, str | None], ...]] = [
            (("log.retention.ms", SET, "soon"),),
            (("log.retention.ms", SET, None),),
            (("log.retention.ms", APPEND, "1"),),
            (("log.cleanup.policy", APPEND, "compact"),),
            (("log.cleanup.policy", SUBTRACT, "delete"),),
            (("log.cleanup.policy", SET, "keep"),),
            (("node.id", SET, "5"),),
            (("log.dirs", SET, "/elsewhere"),),
            (("socket.request.max.bytes", SET, "5"),),
            (("message.max.bytes", SET, "-5"),),
            (("message.max.bytes", SET, "5"), ("message.max.bytes", SET, "6")),
            (("max.connections", SET, "-1"),),
            (("max.connections", SET, "10"),),
            (("log.retention.ms", DELETE, None),),
        ]
        return {
            f"{index} {operations}": alter(scene, BROKER, name, *operations, validate_only=True)
            for index, operations in enumerate(cases)
        }

    both.agree(scenario)
