"""Metadata: which topics a request means in each version, auto-creation, ids and allowed bits."""

import pytest

from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kbroker.protocol.primitives import ZERO_UUID
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import SETTLE_TIMEOUT_S, Scene
from tests.support.waiting import wait_until

VERSIONS = range(14)
NO_SUCH_ID = b"no such topic id"


def metadata_request(
    *asked: str | bytes | MetadataRequestTopic,
    auto_create: bool = False,
    operations: bool = False,
    everything: bool = False,
) -> MetadataRequest:
    """Asks for topics by name, by id, or as given; `everything` is a null list."""
    topics = [
        topic
        if isinstance(topic, MetadataRequestTopic)
        else MetadataRequestTopic(name=topic)
        if isinstance(topic, str)
        else MetadataRequestTopic(name=None, topic_id=topic)
        for topic in asked
    ]
    return MetadataRequest(
        topics=None if everything else topics,
        allow_auto_topic_creation=auto_create,
        include_cluster_authorized_operations=operations,
        include_topic_authorized_operations=operations,
    )


def own_topics(scene: Scene, answer: MetadataResponse) -> list[MetadataResponseTopic]:
    """The topics of this scenario: other tests have theirs on the same broker."""
    return [topic for topic in answer.topics if (topic.name or "").startswith(scene.prefix)]


def test_known_and_unknown_topics_by_name(both: Both) -> None:
    def scenario(scene: Scene) -> dict[int, Plain]:
        first, second = scene.create("a", 3), scene.create("b")
        asked = (second.name, first.name, scene.name("missing"))
        return {
            # Before version 4 a request cannot forbid auto-creation.
            version: scene.ask(metadata_request(*asked[: 2 + (version >= 4)]), version)
            for version in VERSIONS
        }

    both.agree(scenario)


def test_which_list_means_all_topics_and_which_none(both: Both) -> None:
    def scenario(scene: Scene) -> dict[int, list[Plain]]:
        scene.create("a")
        scene.create("b", 2)
        told: dict[int, list[Plain]] = {}
        for version in VERSIONS:
            requests = [metadata_request(), metadata_request(everything=True)]
            for request in requests[: 1 + (version > 0)]:
                answer = scene.told(request, MetadataResponse, version)
                answer.topics = own_topics(scene, answer)
                told.setdefault(version, []).append(scene.plain(answer))
        return told

    both.agree(scenario)


def test_allowed_operations_are_told_only_when_asked_for(both: Both) -> None:
    def scenario(scene: Scene) -> dict[int, list[Plain]]:
        topic = scene.create()
        asked = (topic.name, scene.name("missing"))
        return {
            version: [
                scene.ask(metadata_request(*asked, operations=wanted), version)
                for wanted in (False, True)
            ]
            for version in range(8, 14)
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", [0, 1, 4, 9, 13])
def test_an_unknown_topic_is_made_where_it_is_allowed(both: Both, version: int) -> None:
    """Apache Kafka's first answer is an error; kbroker has made it by then: docs/differences.md."""

    def scenario(scene: Scene) -> Plain:
        name = scene.name("new")

        def made() -> MetadataResponse | None:
            request = metadata_request(name, auto_create=True)
            answer = scene.told(request, MetadataResponse, version)
            return answer if answer.topics[0].error_code == 0 else None

        answer = wait_until(made, timeout_s=SETTLE_TIMEOUT_S, what=f"{name} to be made")
        scene.wait_for(name)
        return scene.plain(answer)

    both.agree(scenario)


@pytest.mark.parametrize("auto_create", [False, True])
@pytest.mark.parametrize("version", [4, 9, 12, 13])
def test_names_that_no_topic_can_have(both: Both, version: int, auto_create: bool) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        names = ["", ".", "..", "a/b", "a b", "ä", "x" * 249, "x" * 250, "x" * 300, "a\0b", "a\n"]
        if auto_create:
            names.remove("x" * 249)
        return {
            name: scene.ask(
                metadata_request(name, auto_create=auto_create, operations=True), version
            )
            for name in names
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create("a", 2)
        named = MetadataRequestTopic(name=topic.name, topic_id=topic.id)
        misnamed = MetadataRequestTopic(name=scene.name("other"), topic_id=topic.id)
        unknown = MetadataRequestTopic(name=topic.name, topic_id=NO_SUCH_ID)
        scene.call_id(NO_SUCH_ID, "nothing")
        asked: dict[str, list[str | bytes | MetadataRequestTopic]] = {
            "known": [topic.id],
            "unknown": [NO_SUCH_ID],
            "both": [topic.id, NO_SUCH_ID],
            "id and name": [named],
            "id and another name": [misnamed],
            "unknown id and name": [unknown],
            "one by id, one by name": [topic.id, topic.name],
            "one by name, one by id": [topic.name, topic.id],
            "twice": [topic.id, topic.id],
            "name twice": [topic.name, topic.name],
            "unknown name twice": [scene.name("x"), scene.name("x")],
        }
        return {
            case: scene.ask(metadata_request(*topics, operations=True), version)
            for case, topics in asked.items()
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_and_null_names_before_they_had_a_meaning(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()
        scene.call_id(NO_SUCH_ID, "nothing")
        named = MetadataRequestTopic(name=topic.name, topic_id=topic.id)
        misnamed = MetadataRequestTopic(name=topic.name, topic_id=NO_SUCH_ID)
        return {
            "null name": scene.ask(metadata_request(ZERO_UUID), version),
            "id": scene.ask(metadata_request(topic.id), version),
            "unknown id": scene.ask(metadata_request(NO_SUCH_ID), version),
            "id and name": scene.ask(metadata_request(named), version),
            "unknown id and name": scene.ask(metadata_request(misnamed), version),
        }

    both.agree(scenario)
