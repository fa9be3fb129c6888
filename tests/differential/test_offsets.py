"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: questions about offsets, and moving one."""

import pytest

from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.differential.broken import changed
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import TIME_MS, Scene, Topic, batch

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)


def offsets_request(
    *asked: tuple[str, int, int], current_epoch: int = -1, isolation_level: int = 0
) -> ListOffsetsRequest:
    """Asks for (topic, partition, timestamp)."""
    wanted: dict[str, list[ListOffsetsPartition]] = {}
    for name, index, timestamp in asked:
        wanted.setdefault(name, []).append(
            ListOffsetsPartition(
                partition_index=index, current_leader_epoch=current_epoch, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(name=name, partitions=partitions)
            for name, partitions in wanted.items()
        ],
        timeout_ms=10_000,
    )


# ListOffsets


@pytest.mark.parametrize("version", range(1, 12))
def test_earliest_latest_and_the_others_in_every_version(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic, empty = scene.create(), scene.create("empty")
        scene.fill(topic, batch(b"a", b"b", b"c"), batch(b"d"))
        scene.trim(topic, 1)
        return {
            f"{timestamp} of {case.name == empty.name}, level {level}": scene.ask(
                offsets_request((case.name, 0, timestamp), isolation_level=level), version
            )
            for timestamp in (LATEST, EARLIEST, 0, TIME_MS + 1)
            for case in (topic, empty)
            for level in ((0, 1) if version >= 2 else (0,))
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", [7, 8, 9, 10, 11])
def test_special_timestamps(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic, empty = scene.create(), scene.create("empty")
        times = [TIME_MS + delta for delta in (5, 90, 3)]
        scene.fill(topic, batch(b"a", b"b", b"c", timestamps_ms=times), batch(b"d"))
        return {
            f"{timestamp} of {case.name == empty.name}": scene.ask(
                offsets_request((case.name, 0, timestamp)), version
            )
            for timestamp in range(-10, 0)
            for case in (topic, empty)
        }

    both.agree(scenario)


@pytest.mark.parametrize("compression", range(5))
def test_offsets_by_time_look_inside_batches(both: Both, compression: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()
        for start in (10, 40, 20, 60):  # the third batch is older than the second
            times = [TIME_MS + start + delta for delta in (0, 5, 3, 9)]
            scene.fill(topic, batch(*[b"v"] * 4, timestamps_ms=times, compression=compression))
        told = {
            f"at {delta}": scene.ask(offsets_request((topic.name, 0, TIME_MS + delta)))
            for delta in (*range(0, 75), 1000)
        }
        told["largest"] = scene.ask(offsets_request((topic.name, 0, MAX_TIMESTAMP)))
        scene.trim(topic, 6)
        for delta in (0, 10, 40, 45, 49, 50, 69, 70):
            told[f"trimmed, at {delta}"] = scene.ask(
                offsets_request((topic.name, 0, TIME_MS + delta))
            )
        told["trimmed, largest"] = scene.ask(offsets_request((topic.name, 0, MAX_TIMESTAMP)))
        return told

    both.agree(scenario)


def test_the_largest_timestamp_is_the_first_of_equals(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create(partitions=3)
        same = [TIME_MS] * 3
        scene.fill(topic, batch(b"a"), *[batch(*[b"v"] * 3, timestamps_ms=same)] * 2, index=0)
        unset = changed(batch(b"a", b"b", timestamps_ms=[TIME_MS, TIME_MS + 7]), 35, "q", -1)
        scene.fill(topic, unset, index=1)
        scene.fill(topic, batch(b"a", timestamps_ms=[0]), index=2)
        return [
            scene.ask(offsets_request((topic.name, index, timestamp)))
            for index in range(3)
            for timestamp in (MAX_TIMESTAMP, 0, 1, TIME_MS, TIME_MS + 5)
        ]

    both.agree(scenario)


def test_offsets_by_time_of_records_that_were_stamped_by_the_broker(both: Both) -> None:
    def scenario(scene: Scene) -> Plain:
        topic = scene.create(message_timestamp_type="LogAppendTime")
        scene.fill(topic, batch(b"a", b"b"), batch(b"c"))
        told = [
            scene.ask(offsets_request((topic.name, 0, timestamp)))
            for timestamp in (0, TIME_MS, TIME_MS + 10**12)
        ]
        return [without_time(answer) for answer in told]

    both.agree(scenario)


def without_time(answer: Plain) -> Plain:
    """An answer without the time at which the broker stamped the record."""
    if isinstance(answer, dict):
        return {
            key: "<time>" if key == "timestamp" and value != -1 else without_time(value)
            for key, value in answer.items()
        }
    return [without_time(item) for item in answer] if isinstance(answer, list) else answer


@pytest.mark.parametrize("version", [1, 4, 6, 11])
def test_unknown_topics_partitions_and_epochs(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=2)
        scene.fill(topic, batch(b"a"))

        def ask(*asked: tuple[str, int, int], epoch: int = -1) -> Plain:
            return scene.ask(offsets_request(*asked, current_epoch=epoch), version)

        known = (topic.name, 0, LATEST)
        told = {
            "unknown topic": ask((scene.name("missing"), 0, LATEST)),
            "bad name": ask(("a/b", 0, LATEST)),
            "unknown partition": ask((topic.name, 2, LATEST)),
            "negative partition": ask((topic.name, -1, EARLIEST)),
            "nothing": ask(),
            "many": ask(known, (scene.name("missing"), 0, LATEST)),
            "twice": ask(known, (topic.name, 0, EARLIEST)),
            "two partitions": ask(known, (topic.name, 1, LATEST)),
        }
        for epoch in (0, 1, 99) if version >= 4 else ():
            told[f"epoch {epoch}"] = ask(known, epoch=epoch)
            told[f"epoch {epoch}, earliest"] = ask((topic.name, 0, EARLIEST), epoch=epoch)
            told[f"epoch {epoch}, by time"] = ask((topic.name, 0, 5), epoch=epoch)
            told[f"epoch {epoch}, unknown"] = ask((topic.name, 7, 5), epoch=epoch)
        return told

    both.agree(scenario)


# OffsetForLeaderEpoch


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_epochs_end(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic, empty = scene.create(partitions=2), scene.create("empty")
        scene.fill(topic, batch(b"a", b"b"), batch(b"c"))

        def ask(name: str, index: int, epoch: int, current: int = -1) -> Plain:
            asked = OffsetForLeaderPartition(
                partition=index, current_leader_epoch=current, leader_epoch=epoch
            )
            topics = [OffsetForLeaderTopic(topic=name, partitions=[asked])]
            return scene.ask(OffsetForLeaderEpochRequest(topics=topics), version)

        told = {
            f"{case.name == empty.name} epoch {epoch}, current {current}": ask(
                case.name, 0, epoch, current
            )
            for case in (topic, empty)
            for epoch in (-1, 0, 1, 50)
            for current in (-1, 0, 1)
        }
        told["unknown topic"] = ask(scene.name("missing"), 0, 0)
        told["unknown partition"] = ask(topic.name, 7, 0)
        told["negative partition"] = ask(topic.name, -1, 0)
        told["nothing"] = scene.ask(OffsetForLeaderEpochRequest(topics=[]), version)
        return told

    both.agree(scenario)


# DeleteRecords


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_are_deleted_up_to_an_offset(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=2)
        compacted = scene.create("compacted", cleanup_policy="compact")
        either = scene.create("either", cleanup_policy="compact,delete")
        for case in (topic, compacted, either):
            scene.fill(case, batch(b"a", b"b", b"c"), batch(b"d"), batch(b"e"))

        def delete(name: str, offset: int, index: int = 0) -> Plain:
            asked = DeleteRecordsPartition(partition_index=index, offset=offset)
            topics = [DeleteRecordsTopic(name=name, partitions=[asked])]
            return scene.ask(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), version)

        def starts(case: Topic) -> Plain:
            return scene.ask(offsets_request((case.name, 0, EARLIEST)))

        return {
            "inside a batch": delete(topic.name, 1),
            "start": starts(topic),
            "the same": delete(topic.name, 1),
            "below": delete(topic.name, 0),
            "start still": starts(topic),
            "a batch": delete(topic.name, 3),
            "above the end": delete(topic.name, 6),
            "far above": delete(topic.name, 1000),
            "negative": delete(topic.name, -2),
            "all": delete(topic.name, -1),
            "start at the end": starts(topic),
            "all again": delete(topic.name, -1),
            "empty": delete(topic.name, 0, 1),
            "empty, all": delete(topic.name, -1, 1),
            "empty, 1": delete(topic.name, 1, 1),
            "unknown partition": delete(topic.name, 0, 7),
            "unknown topic": delete(scene.name("missing"), 0),
            "bad name": delete("a/b", 0),
            "compacted": delete(compacted.name, 1),
            "compacted start": starts(compacted),
            "compacted and deleted": delete(either.name, 1),
            "nothing": scene.ask(DeleteRecordsRequest(topics=[], timeout_ms=10_000), version),
            "appended": scene.produce(topic, batch(b"f")),
        }

    both.agree(scenario)


def test_several_partitions_at_once(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create(partitions=3)
        for index in range(3):
            scene.fill(topic, batch(b"a", b"b"), index=index)
        asked = [
            DeleteRecordsPartition(partition_index=index, offset=offset)
            for index, offset in ((0, 1), (1, 9), (5, 0), (2, -1))
        ]
        topics = [DeleteRecordsTopic(name=topic.name, partitions=asked)]
        return [
            scene.ask(DeleteRecordsRequest(topics=topics, timeout_ms=10_000)),
            [scene.ask(offsets_request((topic.name, index, EARLIEST))) for index in range(3)],
        ]

    both.agree(scenario)
