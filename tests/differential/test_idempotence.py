"""InitProducerId and what follows from it: duplicates, gaps, epochs, the window of five batches."""

import pytest

from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import SETTLE_TIMEOUT_S, Scene, Topic, batch
from tests.support.waiting import wait_until

LAST_SEQUENCE = 2**31 - 1
STILL_LOADING = 14


def id_request(
    transactional_id: str | None = None,
    timeout_ms: int = 60_000,
    producer_id: int = -1,
    epoch: int = -1,
) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def new_id(scene: Scene) -> int:
    """An id; Apache Kafka says that it is still loading until its controller has sent some."""

    def given() -> InitProducerIdResponse | None:
        answer = scene.told(id_request(), InitProducerIdResponse)
        return answer if answer.error_code != STILL_LOADING else None

    answer = wait_until(given, timeout_s=SETTLE_TIMEOUT_S, what="a producer id")
    assert answer is not None
    assert answer.error_code == 0
    return answer.producer_id


class Producer:
    """An idempotent producer that sends what it is told, also what a right one would not."""

    def __init__(self, scene: Scene, topic: Topic, index: int = 0) -> None:
        self._scene = scene
        self._topic = topic
        self._index = index
        self._id = new_id(scene)

    def send(self, sequence: int, count: int = 1, epoch: int = 0) -> Plain:
        """The outcome of a batch of `count` records from this sequence number on."""
        values = [f"{epoch}/{sequence}+{extra}".encode() for extra in range(count)]
        records = batch(*values, producer=(self._id, epoch, sequence))
        answer = self._scene.append(self._topic, records, self._index)
        answer.log_append_time_ms = -1  # of a duplicate Apache Kafka tells a time: differences.md
        return self._scene.plain(answer)


@pytest.mark.parametrize("version", range(6))
def test_ids_are_given_out_and_never_twice(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        new_id(scene)
        answers = [scene.told(id_request(), InitProducerIdResponse, version) for _ in range(3)]
        ids = [answer.producer_id for answer in answers]
        return {
            "rising": ids == sorted(set(ids)) and ids[0] >= 0,
            "others": [[answer.error_code, answer.producer_epoch] for answer in answers],
        }

    assert both.agree(scenario) == {"rising": True, "others": [[0, 0]] * 3}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_that_names_its_old_id(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        old = new_id(scene)

        def ask(producer_id: int, epoch: int) -> Plain:
            request = id_request(producer_id=producer_id, epoch=epoch)
            answer = scene.told(request, InitProducerIdResponse, version)
            relative = answer.producer_id - old if answer.producer_id >= 0 else None
            return [answer.error_code, relative == 0, relative is None, answer.producer_epoch]

        return {
            "its own": ask(old, 0),
            "a later epoch": ask(old, 5),
            "the last epoch": ask(old, 32767),
            "no epoch": ask(old, -1),
            "no id": ask(-1, 3),
            "a strange id": ask(old + 100_000, 0),
            "negative": ask(-5, -5),
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", [0, 2, 5])
def test_an_empty_transactional_id_and_bad_timeouts(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        return {
            "empty": scene.ask(id_request(""), version),
            "empty, timeout 0": scene.ask(id_request("", timeout_ms=0), version),
        }

    both.agree(scenario)


def test_a_batch_that_comes_again_is_answered_with_its_first_offset(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create()
        scene.fill(topic, batch(b"before"))
        producer = Producer(scene, topic)
        told = [producer.send(0, 2), producer.send(2, 3), producer.send(5)]
        told += [producer.send(5), producer.send(2, 3), producer.send(0, 2)]
        return [*told, scene.values(topic)]

    both.agree(scenario)


def test_five_batches_are_remembered_and_no_more(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create()
        producer = Producer(scene, topic)
        told = [producer.send(sequence) for sequence in range(7)]
        told += [producer.send(sequence) for sequence in reversed(range(7))]
        return [*told, producer.send(7)]

    both.agree(scenario)


def test_gaps_overlaps_and_other_cuts_are_refused(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()
        producer = Producer(scene, topic)
        return {
            "first": producer.send(0, 3),
            "gap": producer.send(4),
            "part of the last": producer.send(1, 2),
            "same start, shorter": producer.send(0, 2),
            "same start, longer": producer.send(0, 4),
            "overlap": producer.send(2, 2),
            "next": producer.send(3),
            "far": producer.send(1000),
            "the last, again": producer.send(3),
        }

    both.agree(scenario)


def test_an_unknown_producer_may_start_anywhere(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=3)
        return {
            "at 7": Producer(scene, topic, 0).send(7),
            "at 0": Producer(scene, topic, 0).send(0),
            "epoch 3": Producer(scene, topic, 1).send(0, epoch=3),
            "epoch 3, at 7": Producer(scene, topic, 2).send(7, epoch=3),
        }

    both.agree(scenario)


def test_epochs_go_up_and_begin_with_sequence_0(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()
        producer = Producer(scene, topic)
        return {
            "epoch 0": producer.send(0),
            "epoch 0, next": producer.send(1),
            "epoch 1, not from 0": producer.send(2, epoch=1),
            "epoch 1": producer.send(0, epoch=1),
            "epoch 0 again": producer.send(2),
            "epoch 0, a duplicate": producer.send(1),
            "epoch 1, a duplicate": producer.send(0, epoch=1),
            "epoch 1, next": producer.send(1, epoch=1),
            "epoch 5": producer.send(0, epoch=5),
        }

    both.agree(scenario)


def test_sequence_numbers_wrap(both: Both) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=2)
        producer, other = Producer(scene, topic, 0), Producer(scene, topic, 1)
        return {
            "the last": producer.send(LAST_SEQUENCE),
            "around": producer.send(0),
            "the last again": producer.send(LAST_SEQUENCE),
            "next": producer.send(1),
            "over the end": other.send(LAST_SEQUENCE - 1, 4),
            "after the end": other.send(2),
            "over the end again": other.send(LAST_SEQUENCE - 1, 4),
        }

    both.agree(scenario)


def test_two_producers_do_not_meet(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create(partitions=2)
        first, second = Producer(scene, topic), Producer(scene, topic)
        elsewhere = Producer(scene, topic, 1)
        return [
            first.send(0),
            second.send(0),
            elsewhere.send(0),
            first.send(1),
            second.send(5),
            first.send(1),
        ]

    both.agree(scenario)


def test_a_duplicate_below_the_log_start(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create()
        producer = Producer(scene, topic)
        told = [producer.send(0), producer.send(1)]
        scene.trim(topic, 2)
        return [*told, producer.send(0), producer.send(1), producer.send(2)]

    both.agree(scenario)
