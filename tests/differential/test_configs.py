"""DescribeConfigs of topics and brokers, and the configs that CreateTopics tells."""

import pytest

from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kbroker.settings_table import ALL_BROKER_SETTINGS, TOPIC_SETTINGS
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import Scene

TOPIC, BROKER = 2, 4
NODE = "1"

# Apache Kafka writes min.insync.replicas into a new cluster's dynamic defaults (KIP-966), and
# kbroker syncs after ten seconds where Apache Kafka never does: docs/differences.md.
BY_DESIGN = {"min.insync.replicas", "flush.ms"}


def describe_request(
    *resources: tuple[int, str, list[str] | None],
    synonyms: bool = True,
    documentation: bool = False,
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


def described(
    scene: Scene, kind: int, name: str, keys: list[str] | None = None
) -> DescribeConfigsResult:
    answer = scene.told(describe_request((kind, name, keys)), DescribeConfigsResponse)
    assert answer.results[0].error_code == 0, answer
    return answer.results[0]


# Describing


def test_every_topic_config_has_the_default_type_source_and_synonyms_of_apache_kafka(
    both: Both,
) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()
        return {
            config.name: scene.plain(config)
            for config in described(scene, TOPIC, topic.name).configs
            if config.name not in BY_DESIGN and not config.name.startswith("kbroker.")
        }

    told = both.agree(scenario)
    assert set(told) | BY_DESIGN == {n for n in TOPIC_SETTINGS if not n.startswith("kbroker.")}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_configs_are_described_by_name(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(retention_ms="1234", cleanup_policy="compact, delete")
        keys = ["retention.ms", "cleanup.policy", "max.message.bytes", "no.such.config"]
        asked: dict[str, list[tuple[int, str, list[str] | None]]] = {
            "some": [(TOPIC, topic.name, keys)],
            "twice": [(TOPIC, topic.name, ["retention.ms"] * 2)],
            "unknown topic": [(TOPIC, scene.name("missing"), keys)],
            "bad name": [(TOPIC, "a/b", keys)],
            "no name": [(TOPIC, "", keys)],
            "another broker": [(BROKER, "99", keys)],
            "broker that is no number": [(BROKER, "one", keys)],
            "this broker": [(BROKER, NODE, ["message.max.bytes", "log.retention.ms"])],
            "all brokers": [(BROKER, "", ["message.max.bytes", "log.retention.ms"])],
            "two": [(TOPIC, topic.name, ["retention.ms"]), (TOPIC, scene.name("missing"), None)],
            "unknown type": [(3, "x", None)],
            "type 0": [(0, "x", None)],
            "type 127": [(127, "x", None)],
            "nothing": [],
        }
        told: dict[str, Plain] = {}
        for case, resources in asked.items():
            for more in (False, True):
                request = describe_request(*resources, synonyms=more, documentation=more)
                told[f"{case} {more}"] = scene.ask(request, version)
        return told

    both.agree(scenario)


@pytest.mark.parametrize("version", [1, 4])
def test_an_empty_list_of_names_means_all_configs(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> list[str]:
        request = describe_request((TOPIC, scene.create().name, []))
        configs = scene.told(request, DescribeConfigsResponse, version).results[0].configs
        return sorted(c.name for c in configs if not c.name.startswith("kbroker."))

    assert both.agree(scenario)


def test_a_new_topics_configs_are_told_when_it_is_made(both: Both) -> None:
    def scenario(scene: Scene) -> list[dict[str, Plain]]:
        answers = []
        for validate_only in (True, False):
            topic = CreatableTopic(
                name=scene.name("new"),
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[
                    CreatableTopicConfig(name="retention.ms", value="5"),
                    CreatableTopicConfig(name="cleanup.policy", value="compact,delete"),
                ],
            )
            request = CreateTopicsRequest(
                topics=[topic], timeout_ms=10_000, validate_only=validate_only
            )
            configs = scene.told(request, CreateTopicsResponse).topics[0].configs
            assert configs is not None
            answers.append(
                {
                    config.name: scene.plain(config)
                    for config in configs
                    if config.name not in BY_DESIGN and not config.name.startswith("kbroker.")
                }
            )
        return answers

    both.agree(scenario)


def test_the_broker_configs_that_both_have(both: Both) -> None:
    """Apache Kafka has more (docs/differences.md); these differ with the machine or by design."""
    machine = {"log.dirs", "listeners", "advertised.listeners", "node.id"}
    started_with = {"num.partitions", "auto.create.topics.enable"}  # the oracle's server.properties
    by_design = {"min.insync.replicas"}
    more_dynamic = {"default.replication.factor", "delete.topic.enable"}
    more_dynamic |= {"transaction.max.timeout.ms"}
    names = [
        name
        for name in ALL_BROKER_SETTINGS
        if not name.startswith("kbroker.")
        and name not in machine | started_with | by_design | more_dynamic
    ]

    def scenario(scene: Scene) -> dict[str, Plain]:
        return {
            config.name: scene.plain(config)
            for config in described(scene, BROKER, NODE, names).configs
        }

    assert set(both.agree(scenario)) == set(names)
