"""Leader epochs of a log that was written before and after restarts.

Both brokers begin a new epoch when they start, and number them differently: kbroker leaves room for
slaves. So an epoch is compared by its place in the order: 0 before the first restart, 1 after it.
These brokers are the test's own, because it stops them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.protocol.errors import FencedLeaderEpoch
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsResponse
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.differential.plain import Plain, differences
from tests.differential.scene import TIME_MS, Scene, Topic, batch, fetch_request
from tests.differential.test_fetch import wanted
from tests.differential.test_offsets import EARLIEST, LATEST, MAX_TIMESTAMP, offsets_request
from tests.support.apache_kafka import SETTINGS, ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.java import Java

NAME = "epochs"

Answers = dict[str, Plain]


class Epochs:
    """A broker's epochs by their place in the order; -1 stays -1."""

    def __init__(self, numbers: list[int]) -> None:
        assert numbers == sorted(set(numbers)), f"{numbers} do not rise"
        self._numbers = numbers

    def number(self, place: int) -> int:
        """The epoch at a place; beyond the last one, an epoch that never was."""
        beyond = place - len(self._numbers) + 1
        return self._numbers[min(place, len(self._numbers) - 1)] + max(beyond, 0)

    def place(self, number: int) -> int:
        """The place of an epoch that a broker told."""
        return number if number < 0 else self._numbers.index(number)


def history(connect: Callable[[], Scene], restart: Callable[[], None]) -> tuple[Topic, Epochs]:
    """Three records, a restart, two records, a restart: the epochs as Metadata tells them."""
    numbers = []
    with connect() as scene:
        topic = scene.create(NAME)
        numbers.append(scene.describe(topic.name)[0].partitions[0].leader_epoch)
        scene.fill(topic, batch(b"a", b"b", b"c"))
    for records in (batch(b"d", b"e", timestamps_ms=[TIME_MS + 5] * 2), None):
        restart()
        with connect() as scene:
            scene.wait_for(topic.name)
            numbers.append(scene.describe(topic.name)[0].partitions[0].leader_epoch)
            if records is not None:
                scene.fill(topic, records)
    return topic, Epochs(numbers)


def questions(scene: Scene, topic: Topic, epochs: Epochs) -> Answers:
    """What a reader with an old idea of the log asks."""
    told: Answers = {}
    for place in range(4):
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=epochs.number(place))
        topics = [OffsetForLeaderTopic(topic=topic.name, partitions=[asked])]
        request = OffsetForLeaderEpochRequest(topics=topics)
        end = scene.told(request, OffsetForLeaderEpochResponse).topics[0].partitions[0]
        told[f"end of {place}"] = [
            end.error_code,
            epochs.place(end.leader_epoch),
            end.end_offset,
        ]
        for offset in range(7):
            position = wanted(0, offset, last_epoch=epochs.number(place))
            answer = scene.told(fetch_request((topic, position)), FetchResponse)
            data = answer.responses[0].partitions[0]
            told[f"fetch at {offset} after {place}"] = [
                data.error_code,
                epochs.place(data.diverging_epoch.epoch),
                data.diverging_epoch.end_offset,
                data.high_watermark,
                len(data.records or b""),
            ]
        position = wanted(0, 1, current_epoch=epochs.number(place))
        answer = scene.told(fetch_request((topic, position)), FetchResponse)
        told[f"fetch from the leader of {place}"] = answer.responses[0].partitions[0].error_code
    for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, TIME_MS, TIME_MS + 3):
        request_ = offsets_request((topic.name, 0, timestamp))
        found = scene.told(request_, ListOffsetsResponse).topics[0].partitions[0]
        told[f"offset at {timestamp}"] = [found.offset, epochs.place(found.leader_epoch)]
    return told


@pytest.mark.slow
def test_epochs_of_a_log_that_was_written_across_restarts(java: Java, tmp_path: Path) -> None:
    kafka = ApacheKafka(java, tmp_path / "kafka")
    twin = BrokerProcess(tmp_path / "twin", settings={"node.id": SETTINGS["node.id"]})

    def restart_kafka() -> None:
        kafka.stop()
        kafka.start()

    def answers(broker: ApacheKafka | BrokerProcess, restart: Callable[[], None]) -> Answers:
        broker.start()
        topic, epochs = history(lambda: Scene(broker.bootstrap, NAME), restart)
        with Scene(broker.bootstrap, NAME) as scene:
            return questions(scene, topic, epochs)

    try:
        expected = answers(kafka, restart_kafka)
        told = answers(twin, twin.restart)
    finally:
        kafka.stop()
        twin.close()
    parted = list(differences(told, expected))
    assert not parted, "\n".join(parted)
    assert told["end of 0"] == [0, 0, 3]
    assert told["fetch at 4 after 0"] == [0, 0, 3, 5, 0]  # the logs part at 3
    assert told["fetch from the leader of 1"] == FencedLeaderEpoch.code
