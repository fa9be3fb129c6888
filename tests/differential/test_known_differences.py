"""The differences that docs/differences.md lists, each shown on both brokers.

A case is a scenario, what kbroker tells it, what Apache Kafka tells it, and the words of the
document that say so: when a broker changes, or the document, the case fails and one of them is
mended.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kbroker.protocol.batch import HEADER_SIZE
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.create_topics import CreateTopicsResponse
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kbroker.protocol.primitives import ZERO_UUID
from tests.differential.broken import ATTRIBUTES_AT, changed, with_body
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import TIME_MS, Scene, batch, fetch_request
from tests.differential.test_cluster import pages_request
from tests.differential.test_config_changes import APPEND, SET, alter
from tests.differential.test_configs import BROKER, NODE, TOPIC, described
from tests.differential.test_fetch import wanted
from tests.differential.test_idempotence import new_id
from tests.differential.test_metadata import metadata_request
from tests.differential.test_offsets import MAX_TIMESTAMP, offsets_request
from tests.differential.test_topics import create_request, new_topic

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "differences.md"


@dataclass(frozen=True, slots=True)
class Difference:
    """What both brokers answer in one case, and how the document says it."""

    scenario: Callable[[Scene], Plain]
    kbroker: Plain
    kafka: Plain
    said: str


CASES: list[Difference] = []


def difference(
    said: str, *, kbroker: Plain, kafka: Plain
) -> Callable[[Callable[[Scene], Plain]], Callable[[Scene], Plain]]:
    def keep(scenario: Callable[[Scene], Plain]) -> Callable[[Scene], Plain]:
        CASES.append(Difference(scenario, kbroker, kafka, said))
        return scenario

    return keep


# What is advertised


@difference("no features", kbroker=[False, []], kafka=[True, ["group.version"]])
def apis_and_features(scene: Scene) -> Plain:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    answer = scene.told(request, ApiVersionsResponse)
    names = [feature.name for feature in answer.supported_features]
    return [len(answer.api_keys) > 50, [name for name in names if name == "group.version"]]


# Metadata


@difference("in the same answer", kbroker=0, kafka=3)
def auto_created_topic(scene: Scene) -> Plain:
    request = metadata_request(scene.name("new"), auto_create=True)
    code = scene.told(request, MetadataResponse).topics[0].error_code
    scene.wait_for(scene.name("new"))
    return code


@difference("would collide", kbroker=17, kafka=3)
def auto_created_topic_with_a_colliding_name(scene: Scene) -> Plain:
    scene.create("a.b")
    request = metadata_request(scene.name("a_b"), auto_create=True)
    return scene.told(request, MetadataResponse).topics[0].error_code


@difference("neither a name nor an id", kbroker=[0, 100], kafka=[-1, -1])
def metadata_without_name_and_id(scene: Scene) -> Plain:
    answer = scene.told(metadata_request(ZERO_UUID), MetadataResponse)
    return [answer.error_code, answer.topics[0].error_code]


@difference("names beside ids", kbroker=2, kafka=1)
def metadata_by_name_and_by_id(scene: Scene) -> Plain:
    first, second = scene.create("a"), scene.create("b")
    return len(scene.told(metadata_request(first.id, second.name), MetadataResponse).topics)


@difference("an empty name", kbroker=17, kafka=-1)
def describe_topic_partitions_of_no_name(scene: Scene) -> Plain:
    answer = scene.ask(pages_request(""))
    assert isinstance(answer, dict)
    assert isinstance(answer["topics"], list)
    assert isinstance(answer["topics"][0], dict)
    return answer["topics"][0]["error_code"]


# Topics and configs


@difference("in one request", kbroker=[0, 17], kafka=[0, 0])
def colliding_names_in_one_request(scene: Scene) -> Plain:
    request = create_request(*[new_topic(scene.name(label)) for label in ("a.b", "a_b")])
    answer = scene.told(request, CreateTopicsResponse)
    return [*sorted(topic.error_code for topic in answer.topics)]


@difference("`segment.bytes`", kbroker=0, kafka=40)
def small_segments(scene: Scene) -> Plain:
    topic = new_topic(scene.name("small"), configs={"segment.bytes": "1024"})
    request = create_request(topic, validate_only=True)
    return scene.told(request, CreateTopicsResponse).topics[0].error_code


@difference("as they were understood", kbroker="5", kafka=" 5 ")
def a_new_topics_config_text(scene: Scene) -> Plain:
    topic = new_topic(scene.name("new"), configs={"retention.ms": " 5 "})
    answer = scene.told(create_request(topic, validate_only=True), CreateTopicsResponse)
    configs = {config.name: config.value for config in answer.topics[0].configs or []}
    return configs["retention.ms"]


@difference("`flush.ms`", kbroker="10000", kafka="9223372036854775807")
def flush_interval(scene: Scene) -> Plain:
    return described(scene, TOPIC, scene.create().name, ["flush.ms"]).configs[0].value


@difference("`min.insync.replicas`", kbroker=5, kafka=3)
def source_of_min_insync_replicas(scene: Scene) -> Plain:
    configs = described(scene, TOPIC, scene.create().name, ["min.insync.replicas"]).configs
    return configs[0].config_source


@difference("`kbroker.*`", kbroker=["kbroker.flush.group.commit"], kafka=[])
def configs_of_our_own(scene: Scene) -> Plain:
    configs = described(scene, TOPIC, scene.create().name).configs
    return [config.name for config in configs if config.name.startswith("kbroker.")]


@difference("may be changed while the broker runs", kbroker=False, kafka=True)
def read_only_broker_configs(scene: Scene) -> Plain:
    names = ["num.partitions", "default.replication.factor", "auto.create.topics.enable"]
    configs = described(scene, BROKER, NODE, names).configs
    assert len(configs) == len(names)
    return all(config.read_only for config in configs)


def altered(scene: Scene, kind: int, name: str, *operation: object) -> Plain:
    key, number, value = operation
    answer = alter(scene, kind, name, (str(key), int(str(number)), str(value)), validate_only=True)
    assert isinstance(answer, dict)
    assert isinstance(answer["responses"], list)
    assert isinstance(answer["responses"][0], dict)
    return answer["responses"][0]["error_code"]


@difference("nobody declared", kbroker=42, kafka=0)
def broker_config_that_does_not_exist(scene: Scene) -> Plain:
    return altered(scene, BROKER, NODE, "no.such.config", SET, "1")


@difference("below -1", kbroker=42, kafka=0)
def retention_below_forever(scene: Scene) -> Plain:
    return altered(scene, BROKER, NODE, "log.retention.ms", SET, "-5")


@difference("unknown operation", kbroker=42, kafka=-1)
def config_operation_that_does_not_exist(scene: Scene) -> Plain:
    return altered(scene, TOPIC, scene.create().name, "cleanup.policy", APPEND + 5, "compact")


# Produce


def outcome(scene: Scene, records: bytes) -> PartitionProduceResponse:
    return scene.append(scene.create(), records)


@difference("which records", kbroker=[87, 0], kafka=[87, 1])
def errors_of_single_records(scene: Scene) -> Plain:
    answer = scene.append(scene.create(cleanup_policy="compact"), batch(b"a", key=None))
    return [answer.error_code, len(answer.record_errors)]


@difference("is not opened", kbroker=0, kafka=87)
def fewer_records_than_the_header_counts(scene: Scene) -> Plain:
    one, two = batch(b"a"), batch(b"a", b"b")
    return outcome(scene, with_body(two, one[HEADER_SIZE:])).error_code


@difference("largest timestamp", kbroker=TIME_MS + 999, kafka=TIME_MS + 1)
def largest_timestamp_that_is_wrong(scene: Scene) -> Plain:
    topic = scene.create()
    scene.fill(topic, changed(batch(b"a", b"b"), 35, "q", TIME_MS + 999))
    data = bytes(scene.read(topic).records or b"")
    return int.from_bytes(data[35:43], "big")


@difference("offsets of its own", kbroker=0, kafka=87)
def batch_with_offsets_of_its_own(scene: Scene) -> Plain:
    return outcome(scene, changed(batch(b"a"), 0, "q", 77, reseal=False)).error_code


@difference("after the batch", kbroker=[87, 87], kafka=[0, 2])
def bytes_after_the_batch(scene: Scene) -> Plain:
    topic = scene.create()
    return [scene.append(topic, batch(b"a") + extra).error_code for extra in (b"\0", bytes(100))]


@difference("without an epoch", kbroker=87, kafka=0)
def producer_id_without_an_epoch(scene: Scene) -> Plain:
    return outcome(scene, batch(b"a", producer=(5, -1, 0))).error_code


@difference("codecs 5 to 7", kbroker=76, kafka=-1)
def unknown_codec(scene: Scene) -> Plain:
    return outcome(scene, changed(batch(b"a"), ATTRIBUTES_AT, "h", 5)).error_code


@difference("length of two gigabytes", kbroker=87, kafka=-1)
def length_of_two_gigabytes(scene: Scene) -> Plain:
    return outcome(scene, changed(batch(b"a"), 8, "i", 2**31 - 1, reseal=False)).error_code


@difference("named twice", kbroker=[2, [[0, b"a"], [1, b"b"]]], kafka=[1, [[0, b"b"]]])
def partition_twice_in_a_produce(scene: Scene) -> Plain:
    topic = scene.create()
    data = [PartitionProduceData(index=0, records=batch(value)) for value in (b"a", b"b")]
    topics = [TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=data)]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics)
    answers = scene.told(request, ProduceResponse).responses[0].partition_responses
    return [len(answers), scene.values(topic)]


@difference("answered twice", kbroker=2, kafka=1)
def partition_twice_in_a_fetch(scene: Scene) -> Plain:
    topic = scene.create()
    request = fetch_request((topic, wanted()), (topic, wanted()))
    return len(scene.told(request, FetchResponse).responses[0].partitions)


@difference("A duplicate", kbroker=-1, kafka=TIME_MS)
def time_of_a_duplicate(scene: Scene) -> Plain:
    topic, records = scene.create(), batch(b"a", producer=(new_id(scene), 0, 0))
    scene.fill(topic, records)
    return scene.append(topic, records).log_append_time_ms


# Fetch and ListOffsets


@difference("cut at the byte", kbroker=144, kafka=200)
def answers_under_a_limit(scene: Scene) -> Plain:
    topic = scene.create()
    scene.fill(topic, *[batch(b"a")] * 5)
    request = fetch_request((topic, wanted(max_bytes=200)))
    return len(scene.told(request, FetchResponse).responses[0].partitions[0].records or b"")


@difference("A negative size", kbroker=0, kafka=-1)
def negative_size(scene: Scene) -> Plain:
    topic = scene.create()
    scene.fill(topic, batch(b"a"))
    request = fetch_request((topic, wanted(max_bytes=-1)))
    return scene.told(request, FetchResponse).responses[0].partitions[0].error_code


@difference("isolation level", kbroker=0, kafka=-1)
def unknown_isolation_level(scene: Scene) -> Plain:
    request = fetch_request((scene.create(), wanted()), isolation_level=5)
    return scene.told(request, FetchResponse).error_code


@difference("deleted while a session", kbroker=[100, 100], kafka=[3, 103])
def topic_deleted_under_a_session(scene: Scene) -> Plain:
    topic = scene.create()

    def code(request: FetchRequest) -> int:
        return scene.told(request, FetchResponse).responses[0].partitions[0].error_code

    first = scene.told(fetch_request((topic, wanted()), session=(0, 0)), FetchResponse)
    scene.delete(topic)
    deleted = code(fetch_request(session=(first.session_id, 1)))
    scene.create()
    return [deleted, code(fetch_request(session=(first.session_id, 2)))]


@difference("session id near the largest", kbroker=70, kafka=-1)
def session_id_near_the_largest(scene: Scene) -> Plain:
    return scene.told(fetch_request(session=(2**31 - 5, 1)), FetchResponse).error_code


@difference("without timestamps", kbroker=-1, kafka=0)
def largest_timestamp_where_there_are_none(scene: Scene) -> Plain:
    topic = scene.create()
    scene.fill(topic, batch(b"a", timestamps_ms=[-1]))
    answer = scene.told(offsets_request((topic.name, 0, MAX_TIMESTAMP)), ListOffsetsResponse)
    return answer.topics[0].partitions[0].offset


@difference("epoch below -1", kbroker=0, kafka=74)
def leader_epoch_below_none(scene: Scene) -> Plain:
    request = offsets_request((scene.create().name, 0, -1), current_epoch=-2)
    return scene.told(request, ListOffsetsResponse).topics[0].partitions[0].error_code


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.scenario.__name__)
def test_a_known_difference_is_as_the_document_says(both: Both, case: Difference) -> None:
    assert both.each(case.scenario) == (case.kbroker, case.kafka)
    assert case.said in DOCUMENT.read_text(encoding="utf-8")
