"""Produce: what is accepted, where it goes, and which error each fault gets."""

import time

import pytest

from kbroker.protocol.compression import CODEC_IDS
from kbroker.protocol.messages.fetch import FetchPartitionData
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kbroker.protocol.records import NewRecord, build
from tests.differential.broken import (
    ATTRIBUTES_AT,
    COUNT_AT,
    CRC_AT,
    LAST_DELTA_AT,
    LENGTH_AT,
    MAGIC_AT,
    PRODUCER_AT,
    changed,
    old_message,
    with_body,
)
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import CLOSED, TIME_MS, Scene, Topic, batch, produce_request

NO_SUCH_ID = b"no such topic id"


@pytest.mark.parametrize("version", range(3, 14))
def test_records_are_appended_in_every_version(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create(partitions=2)
        told = [
            scene.ask(produce_request(topic, batch(b"a", b"b"), index=index, acks=acks), version)
            for index in (0, 1)
            for acks in (1, -1)
        ]
        return [*told, scene.plain(stored(scene, topic))]

    both.agree(scenario)


def stored(scene: Scene, topic: Topic, index: int = 0) -> FetchPartitionData:
    """All that a partition holds, as it would be sent to a consumer."""
    return scene.read(topic, index)


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_unknown_topics_and_partitions(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=2)
        scene.call_id(NO_SUCH_ID, "nothing")
        records = batch(b"a")

        def parts(*indexes: int) -> list[PartitionProduceData]:
            return [PartitionProduceData(index=index, records=records) for index in indexes]

        def ask(*topics: TopicProduceData, acks: int = -1) -> Plain:
            request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=list(topics))
            return scene.ask(request, version)

        def of(name: str, topic_id: bytes, *indexes: int) -> TopicProduceData:
            return TopicProduceData(name=name, topic_id=topic_id, partition_data=parts(*indexes))

        known = of(topic.name, topic.id, 0)
        return {
            "unknown topic": ask(of(scene.name("missing"), NO_SUCH_ID, 0)),
            "zero id": ask(of(scene.name("missing"), bytes(16), 0)),
            "unknown partition": ask(of(topic.name, topic.id, 2)),
            "negative partition": ask(of(topic.name, topic.id, -1)),
            "known and unknown": ask(known, of(scene.name("missing"), NO_SUCH_ID, 0)),
            "some partitions": ask(of(topic.name, topic.id, 1, 7)),
            "no partitions": ask(of(topic.name, topic.id)),
            "no topics": ask(),
            "acks 2": ask(known, acks=2),
            "acks -2": ask(known, acks=-2),
            "acks 2, unknown": ask(of(scene.name("missing"), NO_SUCH_ID, 0), acks=2),
            "bad name": ask(of("a/b", NO_SUCH_ID, 0)),
        }

    both.agree(scenario)


def test_without_acknowledgement_nothing_is_answered(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create()
        scene.client.send(produce_request(topic, batch(b"a"), acks=0), 13)
        return [scene.produce(topic, batch(b"b")), scene.plain(stored(scene, topic))]

    both.agree(scenario)


@pytest.mark.parametrize("version", [3, 13])
def test_a_fault_without_acknowledgement_closes_the_connection(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(max_message_bytes="200")
        missing = Topic(scene.name("missing"), NO_SUCH_ID)
        cases = {
            "unknown topic": produce_request(missing, batch(b"a"), acks=0),
            "unknown partition": produce_request(topic, batch(b"a"), acks=0, index=7),
            "wrong checksum": produce_request(topic, FAULTS["wrong checksum"], acks=0),
            "too large": produce_request(topic, batch(b"a" * 300), acks=0),
            "nothing wrong": produce_request(topic, batch(b"a"), acks=0),
        }
        told: dict[str, Plain] = {}
        for case, request in cases.items():
            scene.client.send(request, version)
            told[case] = scene.ask(produce_request(topic, batch(b"b")), version)
        return told

    told = both.agree(scenario)
    assert [case for case, answer in told.items() if answer != CLOSED] == ["nothing wrong"]


FAULTS = {
    "wrong checksum": changed(batch(b"a"), CRC_AT, "I", 1, reseal=False),
    "changed content": changed(batch(b"a"), 61, "b", 0, reseal=False),
    "too short": batch(b"a")[:-1],
    "half a header": batch(b"a")[:30],
    "eleven bytes": batch(b"a")[:11],
    "one byte": b"\0",
    "length below a header": changed(batch(b"a"), LENGTH_AT, "i", 20, reseal=False),
    "length 0": changed(batch(b"a"), LENGTH_AT, "i", 0, reseal=False),
    "length -1": changed(batch(b"a"), LENGTH_AT, "i", -1, reseal=False),
    "magic 3": changed(batch(b"a"), MAGIC_AT, "b", 3),
    "magic -1": changed(batch(b"a"), MAGIC_AT, "b", -1),
    "two batches": batch(b"a") + batch(b"b"),
    "empty": b"",
    "header only": with_body(batch(b"a"), b"", 0),
    "count above last offset delta": changed(batch(b"a"), COUNT_AT, "i", 2),
    "count below last offset delta": changed(batch(b"a", b"b"), COUNT_AT, "i", 1),
    "count 0": changed(batch(b"a"), COUNT_AT, "i", 0),
    "count -1": changed(batch(b"a"), COUNT_AT, "i", -1),
    "last offset delta 5": changed(batch(b"a"), LAST_DELTA_AT, "i", 5),
    "last offset delta -1": changed(batch(b"a"), LAST_DELTA_AT, "i", -1),
    "control": batch(b"a", control=True),
    "no sequence number": batch(b"a", producer=(5, 0, -1)),
    "negative sequence number": batch(b"a", producer=(5, 0, -7)),
    "a sequence number of nobody": batch(b"a", producer=(-1, -1, 3)),
    "producer id -2": changed(batch(b"a"), PRODUCER_AT, "q", -2),
    "leader epoch of its own": changed(batch(b"a"), 12, "i", 77, reseal=False),
    "unused attribute bits": changed(batch(b"a"), ATTRIBUTES_AT, "h", 0x1000),
    "delete horizon bit": changed(batch(b"a"), ATTRIBUTES_AT, "h", 0x40),
    "log append time bit": changed(batch(b"a"), ATTRIBUTES_AT, "h", 0x08),
    "largest timestamp unset": changed(batch(b"a", b"b"), 35, "q", -1),
    "first timestamp not the smallest": batch(b"a", b"b", timestamps_ms=[TIME_MS, TIME_MS - 5]),
    "all timestamps -1": batch(b"a", b"b", timestamps_ms=[-1, -1]),
    "timestamp 0": batch(b"a", timestamps_ms=[0]),
    "null key": batch(b"a", key=None),
    "format 0": old_message(0),
    "format 1": old_message(1),
}


@pytest.mark.parametrize("version", [3, 13])
def test_batches_with_one_thing_wrong(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=len(FAULTS))
        told: dict[str, Plain] = {}
        for index, (case, records) in enumerate(FAULTS.items()):
            request = produce_request(topic, records, index=index)
            told[case] = scene.ask(request, version)
            told[f"{case}: stored"] = scene.plain(stored(scene, topic, index))
        return told

    both.agree(scenario)


@pytest.mark.parametrize("version", [3, 6, 7, 13])
def test_compressed_batches(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=len(CODEC_IDS))
        told: dict[str, Plain] = {}
        for index, (name, codec) in enumerate(CODEC_IDS.items()):
            records = batch(*[b"value" * 20] * 10, compression=codec)
            told[name] = scene.ask(produce_request(topic, records, index=index), version)
            told[f"{name}: stored"] = scene.plain(stored(scene, topic, index))
        return told

    both.agree(scenario)


@pytest.mark.parametrize("version", [3, 8, 13])
def test_the_transactional_bit_without_a_transaction(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create()
        records = batch(b"a", producer=(5, 0, 0), transactional=True)
        return [
            scene.ask(produce_request(topic, records), version),
            scene.plain(stored(scene, topic)),
        ]

    both.agree(scenario)


def test_batches_around_the_largest_size(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        whole = batch(b"x" * 2000)
        told: dict[str, Plain] = {}
        for label, limit in (("fits", 0), ("one too many", -1)):
            size = len(whole) + limit
            topic = scene.create(label.replace(" ", "-"), max_message_bytes=str(size))
            told[label] = scene.produce(topic, whole)
        compressed = batch(b"x" * 20_000, compression=1)
        topic = scene.create("compressed", max_message_bytes="1000")
        told["compressed"] = scene.produce(topic, compressed)
        return told

    both.agree(scenario)


def outcome(scene: Scene, topic: Topic, records: bytes) -> Plain:
    """The outcome but for the list of the single records at fault (docs/differences.md)."""
    answer = scene.append(topic, records)
    answer.record_errors = []
    return scene.plain(answer)


def test_timestamps_far_from_now(both: Both) -> None:
    hour_ms, now_ms = 3_600_000, int(time.time() * 1000)

    def scenario(scene: Scene) -> dict[str, Plain]:
        default = scene.create("default")
        narrow = scene.create(
            "narrow",
            message_timestamp_before_max_ms="60000",
            message_timestamp_after_max_ms="60000",
        )
        append_time = scene.create(
            "append-time",
            message_timestamp_type="LogAppendTime",
            message_timestamp_after_max_ms="60000",
        )
        return {
            "two hours ahead": outcome(
                scene, default, batch(b"a", timestamps_ms=[now_ms + 2 * hour_ms])
            ),
            "one of them ahead": outcome(
                scene, default, batch(b"a", b"b", timestamps_ms=[now_ms, now_ms + 2 * hour_ms])
            ),
            "half an hour ahead": outcome(
                scene, default, batch(b"a", timestamps_ms=[now_ms + hour_ms // 2])
            ),
            "1970": outcome(scene, default, batch(b"a", timestamps_ms=[5])),
            "too old": outcome(scene, narrow, batch(b"a", timestamps_ms=[now_ms - hour_ms])),
            "too new": outcome(scene, narrow, batch(b"a", timestamps_ms=[now_ms + hour_ms])),
            "now": outcome(scene, narrow, batch(b"a", timestamps_ms=[now_ms])),
            "none": outcome(scene, narrow, batch(b"a", timestamps_ms=[-1])),
            "append time, ahead": outcome(
                scene, append_time, batch(b"a", timestamps_ms=[now_ms + 9 * hour_ms])
            ),
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", [3, 13])
def test_log_append_time(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create(message_timestamp_type="LogAppendTime")
        told = scene.ask(produce_request(topic, batch(b"a", b"b")), version)
        data = stored(scene, topic).records
        assert data is not None
        header = bytes(data)
        return [told, header[:17], header[21:35], header[43:]]  # all but checksum and largest time

    both.agree(scenario)


def test_records_without_a_key_on_a_compacted_topic(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(cleanup_policy="compact")
        either = scene.create("both", cleanup_policy="compact,delete")
        mixed = build([NewRecord(TIME_MS, key, b"v") for key in (b"k", None, b"k", None)])
        return {
            "keyed": outcome(scene, topic, batch(b"a")),
            "keyless": outcome(scene, topic, batch(b"a", key=None)),
            "mixed": outcome(scene, topic, mixed),
            "compressed": outcome(scene, topic, batch(b"a", key=None, compression=1)),
            "empty key": outcome(scene, topic, batch(b"a", key=b"")),
            "also deleted": outcome(scene, either, batch(b"a", key=None)),
        }

    both.agree(scenario)


def test_a_fault_in_one_partition_does_not_stop_the_others(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create(partitions=3)
        data = [
            PartitionProduceData(index=index, records=records)
            for index, records in enumerate([batch(b"a"), FAULTS["wrong checksum"], batch(b"c")])
        ]
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=data)],
        )
        return [scene.ask(request)] + [scene.plain(stored(scene, topic, i)) for i in range(3)]

    both.agree(scenario)


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "zstd", "lz4", "snappy"])
def test_a_topic_with_a_codec_of_its_own(both: Both, name: str) -> None:
    """Two implementations of a codec need not make the same bytes: only the attributes count."""

    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create(compression_type=name)
        values = [b"value" * 20] * 3
        told = [scene.produce(topic, batch(*values, compression=codec)) for codec in range(5)]
        data = stored(scene, topic).records
        assert data is not None
        return [*told, bytes(data)[ATTRIBUTES_AT : ATTRIBUTES_AT + 2]]

    both.agree(scenario)
