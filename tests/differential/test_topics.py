"""CreateTopics, DeleteTopics and CreatePartitions: what is made, what is refused and why."""

import pytest

from kbroker.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kbroker.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kbroker.protocol.primitives import ZERO_UUID
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import Scene

NODE_ID = 1
NO_SUCH_ID = b"no such topic id"


def new_topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    assignments: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def create_request(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def created(
    scene: Scene, *topics: CreatableTopic, validate_only: bool = False, version: int | None = None
) -> Plain:
    """The plain answer, without the list of configs, which test_configs compares."""
    request = create_request(*topics, validate_only=validate_only)
    answer = scene.told(request, CreateTopicsResponse, version)
    for result in answer.topics:
        if result.topic_id != ZERO_UUID:
            scene.call_id(result.topic_id, result.name)
        result.configs = None if result.configs is None else []
    return scene.plain(answer)


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_a_topic_is_made_or_only_checked(both: Both, version: int, validate_only: bool) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        name = scene.name("new")
        told = [
            created(scene, new_topic(name, 3), validate_only=validate_only, version=version)
            for _ in range(2)
        ]
        if not validate_only:
            scene.wait_for(name, 3)
        return [*told, scene.plain(scene.describe(name))]

    both.agree(scenario)


def test_a_topic_with_defaults_and_configs(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        configs: dict[str, str | None] = {"cleanup.policy": "compact", "retention.ms": "1234"}
        return [
            created(scene, new_topic(scene.name("default"), -1, -1), version=version)
            for version in (4, 7)
        ] + [created(scene, new_topic(scene.name("configured"), configs=configs))]

    both.agree(scenario)


def test_names_that_no_topic_can_have(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        names = ["", ".", "..", "a/b", "../a", "a b", "ä", "x" * 250, "x" * 300, "a\0b", "a\n"]
        names += ["__consumer_offsets ", "a,b", "a:b"]
        return {
            name: [created(scene, new_topic(name), validate_only=only) for only in (True, False)]
            for name in names
        }

    both.agree(scenario)


def test_names_that_metrics_would_mix_up(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        scene.create("a.b")
        scene.create("c_d")
        return [
            created(scene, new_topic(scene.name(label)))
            for label in ("a_b", "a.b", "c.d", "a.b.c", "a-b")
        ]

    both.agree(scenario)


def test_counts_and_replication_factors_that_cannot_be(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        cases = [(0, 1), (-1, 1), (-2, 1), (1, 0), (1, -1), (1, -2), (1, 2), (1, 32767), (0, 0)]
        return {
            f"{partitions} partitions, {replicas} replicas": created(
                scene, new_topic(scene.name(f"t{index}"), partitions, replicas)
            )
            for index, (partitions, replicas) in enumerate(cases)
        }

    both.agree(scenario)


def test_assignments_by_hand(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        cases: dict[str, tuple[int, int, dict[int, list[int]]]] = {
            "right": (-1, -1, {0: [NODE_ID], 1: [NODE_ID]}),
            "from the last to the first": (-1, -1, {1: [NODE_ID], 0: [NODE_ID]}),
            "with a count": (1, -1, {0: [NODE_ID]}),
            "with a replication factor": (-1, 1, {0: [NODE_ID]}),
            "with both": (1, 1, {0: [NODE_ID]}),
            "a gap": (-1, -1, {0: [NODE_ID], 2: [NODE_ID]}),
            "not from 0": (-1, -1, {1: [NODE_ID]}),
            "negative": (-1, -1, {-1: [NODE_ID]}),
            "another broker": (-1, -1, {0: [99]}),
            "no broker": (-1, -1, {0: []}),
            "twice the same": (-1, -1, {0: [NODE_ID, NODE_ID]}),
            "also another": (-1, -1, {0: [NODE_ID, 99]}),
            "different numbers": (-1, -1, {0: [NODE_ID], 1: []}),
        }
        return {
            case: created(scene, new_topic(scene.name(f"t{index}"), *wanted))
            for index, (case, wanted) in enumerate(cases.items())
        }

    both.agree(scenario)


def test_a_partition_that_is_assigned_twice(both: Both) -> None:
    def scenario(scene: Scene) -> Plain:
        topic = new_topic(scene.name("twice"), -1, -1, {0: [NODE_ID]})
        topic.assignments *= 2
        return created(scene, topic)

    both.agree(scenario)


def test_the_same_name_twice_in_one_request(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        twice, once = new_topic(scene.name("twice")), new_topic(scene.name("once"))
        return [
            created(scene, twice, once, twice),
            scene.plain(sorted(t.error_code for t in scene.describe(twice.name))),
        ]

    both.agree(scenario)


def test_no_topic_at_all(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        return [
            created(scene),
            scene.ask(DeleteTopicsRequest(topics=[], topic_names=[], timeout_ms=10_000)),
            scene.ask(CreatePartitionsRequest(topics=[], timeout_ms=10_000, validate_only=False)),
        ]

    both.agree(scenario)


def test_configs_that_cannot_be(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        cases: list[dict[str, str | None]] = [
            {"no.such.config": "1"},
            {"retention.ms": "soon"},
            {"retention.ms": None},
            {"retention.ms": ""},
            {"retention.ms": "-2"},
            {"retention.ms": "1.5"},
            {"retention.ms": " 5 "},
            {"cleanup.policy": "keep"},
            {"cleanup.policy": ""},
            {"cleanup.policy": "compact,delete"},
            {"cleanup.policy": "compact,compact"},
            {"cleanup.policy": "Compact"},
            {"cleanup.policy": "compact, delete"},
            {"compression.type": "brotli"},
            {"compression.type": "none"},
            {"segment.bytes": "13"},
            {"segment.bytes": "1048576"},
            {"max.message.bytes": "-1"},
            {"max.message.bytes": "2147483648"},
            {"preallocate": "yes"},
            {"preallocate": "TRUE"},
            {"min.cleanable.dirty.ratio": "2"},
            {"min.cleanable.dirty.ratio": "0"},
            {"min.insync.replicas": "0"},
            {"min.insync.replicas": "3"},
            {"message.timestamp.type": "Never"},
            {"message.format.version": "3.0"},
            {"message.timestamp.difference.max.ms": "5"},
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"},
            {"compression.gzip.level": "0"},
            {"compression.lz4.level": "18"},
            {"remote.storage.enable": "true"},
            {"local.retention.ms": "5"},
            {"retention.ms": "10", "local.retention.ms": "50"},
            {"unclean.leader.election.enable": "maybe"},
            {"leader.replication.throttled.replicas": "0:1,1:1"},
            {"leader.replication.throttled.replicas": "nonsense"},
            {"flush.messages": "0"},
            {"flush.ms": "-1"},
            {"index.interval.bytes": "-1"},
            {"segment.ms": "0"},
            {"segment.jitter.ms": "-1"},
            {"segment.index.bytes": "3"},
            {"retention.bytes": "-5"},
            {"file.delete.delay.ms": "-1"},
            {"delete.retention.ms": "-1"},
            {"message.timestamp.before.max.ms": "-1"},
        ]
        return {
            f"{index} {configs}": created(
                scene, new_topic(scene.name(f"t{index}"), configs=configs), validate_only=True
            )
            for index, configs in enumerate(cases)
        }

    both.agree(scenario)


def test_a_config_that_is_given_twice(both: Both) -> None:
    def scenario(scene: Scene) -> Plain:
        topic = new_topic(scene.name("twice"))
        topic.configs = [
            CreatableTopicConfig(name="retention.ms", value=value) for value in ("1", "2")
        ]
        return created(scene, topic, validate_only=True)

    both.agree(scenario)


def test_which_fault_is_told_when_there_are_several(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        present = scene.create("present")
        bad: dict[str, str | None] = {"retention.ms": "soon"}
        return [
            created(scene, new_topic("a/b", 0, 5, configs=bad)),
            created(scene, new_topic(present.name, 0, 5, configs=bad)),
            created(scene, new_topic(scene.name("x"), 0, 5, configs=bad)),
            created(scene, new_topic(scene.name("x"), 1, 5, configs=bad)),
            created(scene, new_topic("a/b"), new_topic("a/b")),
        ]

    both.agree(scenario)


# Deleting


@pytest.mark.parametrize("version", [1, 4, 5])
def test_topics_are_deleted_by_name(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create("a")
        names = [topic.name, scene.name("missing"), "a/b", ""]
        told = scene.ask(
            DeleteTopicsRequest(topic_names=names, topics=[], timeout_ms=10_000), version
        )
        scene.wait_until_gone(topic.name)
        return [told, scene.plain(scene.describe(topic.name))]

    both.agree(scenario)


def test_topics_are_deleted_by_name_or_id(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        first, second, third = scene.create("a"), scene.create("b"), scene.create("c")
        scene.call_id(NO_SUCH_ID, "nothing")

        def delete(*topics: tuple[str | None, bytes]) -> Plain:
            states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
            request = DeleteTopicsRequest(topics=states, topic_names=[], timeout_ms=10_000)
            return scene.ask(request, 6)

        told = {
            "name and id": delete((third.name, third.id)),
            "neither": delete((None, ZERO_UUID)),
            "unknown id": delete((None, NO_SUCH_ID)),
            "unknown name": delete((scene.name("missing"), ZERO_UUID)),
            "id twice": delete((None, third.id), (None, third.id)),
            "name twice": delete((third.name, ZERO_UUID), (third.name, ZERO_UUID)),
            "unknown name twice": delete(("x", ZERO_UUID), ("x", ZERO_UUID)),
            "unknown id twice": delete((None, NO_SUCH_ID), (None, NO_SUCH_ID)),
            "name, and id of the same": delete((third.name, ZERO_UUID), (None, third.id)),
            "id and name": delete((None, first.id), (second.name, ZERO_UUID)),
        }
        scene.wait_until_gone(first.name)
        scene.wait_until_gone(second.name)
        told["again"] = delete((None, first.id), (second.name, ZERO_UUID))
        return told

    both.agree(scenario)


def test_a_topic_that_is_made_again_is_another_one(both: Both) -> None:
    def scenario(scene: Scene) -> bool:
        first = scene.create("a")
        scene.ask(DeleteTopicsRequest(topic_names=[first.name], topics=[], timeout_ms=10_000), 5)
        scene.wait_until_gone(first.name)
        return scene.create("a").id != first.id

    assert both.agree(scenario)


# Growing


@pytest.mark.parametrize("version", [0, 3])
def test_topics_grow(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create("a", 2)

        def grow(
            *counts: tuple[str, int, list[list[int]] | None], validate_only: bool = False
        ) -> Plain:
            request = CreatePartitionsRequest(
                topics=[
                    CreatePartitionsTopic(
                        name=name,
                        count=count,
                        assignments=None
                        if brokers is None
                        else [CreatePartitionsAssignment(broker_ids=ids) for ids in brokers],
                    )
                    for name, count, brokers in counts
                ],
                timeout_ms=10_000,
                validate_only=validate_only,
            )
            return scene.ask(request, version)

        name = topic.name
        told = {
            "only checked": grow((name, 3, None), validate_only=True),
            "the same": grow((name, 2, None)),
            "fewer": grow((name, 1, None)),
            "none": grow((name, 0, None)),
            "negative": grow((name, -1, None)),
            "unknown": grow((scene.name("missing"), 2, None)),
            "no name": grow(("", 2, None)),
            "bad name": grow(("a/b", 2, None)),
            "twice": grow((name, 3, None), (name, 4, None), (scene.name("missing"), 1, None)),
            "too few assignments": grow((name, 4, [[NODE_ID]])),
            "too many assignments": grow((name, 3, [[NODE_ID], [NODE_ID]])),
            "no assignments": grow((name, 3, [])),
            "another broker": grow((name, 3, [[99]])),
            "no broker": grow((name, 3, [[]])),
            "the broker twice": grow((name, 3, [[NODE_ID, NODE_ID]])),
            "assigned": grow((name, 4, [[NODE_ID], [NODE_ID]])),
        }
        scene.wait_for(name, 4)
        told["grown"] = grow((name, 6, None))
        scene.wait_for(name, 6)
        return {**told, "described": scene.plain(scene.describe(name))}

    both.agree(scenario)
