"""DescribeCluster, DescribeTopicPartitions and DescribeLogDirs."""

import pytest

from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kbroker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
    DescribeTopicPartitionsResponse,
)
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import Scene, batch

# DescribeCluster


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_described(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        return [
            scene.ask(
                DescribeClusterRequest(
                    include_cluster_authorized_operations=operations,
                    endpoint_type=kind,
                    include_fenced_brokers=fenced,
                ),
                version,
            )
            for operations in (False, True)
            for kind in ((1,) if version == 0 else (1, 2, 0, 3, -1))
            for fenced in ((False,) if version < 2 else (False, True))
        ]

    both.agree(scenario)


# DescribeTopicPartitions


def pages_request(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequestTopic(name=name) for name in names],
        response_partition_limit=limit,
        cursor=Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None,
    )


def test_partitions_are_described_in_pages(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        a, b, c = (scene.create("a", 3), scene.create("b", 2), scene.create("c", 1))
        missing = scene.name("bb")
        asked = (c.name, missing, a.name, b.name)
        told: dict[str, Plain] = {}
        for limit in (1, 2, 3, 4, 5, 6, 7, 100, 5000):
            cursor: tuple[str, int] | None = None
            for page in range(20):
                request = pages_request(*asked, limit=limit, cursor=cursor)
                answer = scene.told(request, DescribeTopicPartitionsResponse)
                told[f"limit {limit}, page {page}"] = scene.plain(answer)
                if answer.next_cursor is None:
                    break
                cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
        return told

    both.agree(scenario)


def test_cursors_and_limits_that_nobody_gave_out(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        a, b = scene.create("a", 3), scene.create("b", 2)
        asked = (a.name, b.name)
        cases = {
            "none left": pages_request(*asked, cursor=(scene.name("z"), 0)),
            "between": pages_request(*asked, cursor=(scene.name("aa"), 1)),
            "before": pages_request(*asked, cursor=(scene.name("A"), 1)),
            "above the partitions": pages_request(*asked, cursor=(a.name, 3)),
            "far above": pages_request(*asked, cursor=(b.name, 99)),
            "not asked for": pages_request(b.name, cursor=(a.name, 1)),
            "limit 0": pages_request(*asked, limit=0),
            "limit -1": pages_request(*asked, limit=-1),
            "twice": pages_request(a.name, a.name),
            "bad name": pages_request("a/b", ".", "x" * 300),
            "negative": pages_request(*asked, cursor=(a.name, -1)),
            "negative, of all": pages_request(cursor=(a.name, -1)),
            "bad name in the cursor": pages_request(*asked, cursor=("a/b", 0)),
            "unknown": pages_request(scene.name("missing")),
            "unknown, cursor at it": pages_request(
                scene.name("missing"), cursor=(scene.name("missing"), 0)
            ),
        }
        return {case: scene.ask(request) for case, request in cases.items()}

    both.agree(scenario)


def test_all_topics_from_a_cursor_on(both: Both) -> None:
    """Other tests have topics too, so only this one's part of the order is looked at."""

    def scenario(scene: Scene) -> list[Plain]:
        first = scene.create("a", 2)
        scene.create("b", 1)
        answer = scene.told(pages_request(cursor=(first.name, 1)), DescribeTopicPartitionsResponse)
        own = [topic for topic in answer.topics if (topic.name or "").startswith(scene.prefix)]
        return [answer.topics[0].name == first.name, scene.plain(own)]

    both.agree(scenario)


# DescribeLogDirs


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_log_dirs_are_described(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create("a", 3)
        scene.fill(topic, batch(b"some value"), index=1)
        cases: dict[str, list[tuple[str, list[int]]]] = {
            "all": [(topic.name, [0, 1, 2])],
            "one": [(topic.name, [1])],
            "unknown partition": [(topic.name, [1, 7, -1])],
            "only unknown partitions": [(topic.name, [7])],
            "no partitions": [(topic.name, [])],
            "unknown topic": [(scene.name("missing"), [0])],
            "twice": [(topic.name, [0]), (topic.name, [1])],
            "the same twice": [(topic.name, [1, 1])],
            "nothing": [],
        }
        told: dict[str, Plain] = {}
        for case, asked in cases.items():
            topics = [
                DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in asked
            ]
            request = DescribeLogDirsRequest(topics=topics)
            told[case] = scene.ask(request, version)
        everything = scene.told(
            DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version
        )
        for result in everything.results:
            result.topics = [t for t in result.topics if t.name.startswith(scene.prefix)]
        return {**told, "everything": scene.plain(everything)}

    both.agree(scenario)
