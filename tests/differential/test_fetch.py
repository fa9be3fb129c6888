"""Fetch without a session: offsets, limits, leader epochs, ids, isolation, waiting."""

import time

import pytest

from kbroker.protocol.messages.fetch import FetchPartition, FetchResponse
from kbroker.protocol.primitives import ZERO_UUID
from tests.differential.conftest import Both
from tests.differential.plain import Plain
from tests.differential.scene import Scene, Topic, batch, fetch_request

NO_SUCH_ID = b"no such topic id"
BATCH = len(batch(b"a"))


def wanted(
    partition: int = 0,
    offset: int = 0,
    *,
    max_bytes: int = 1 << 20,
    current_epoch: int = -1,
    last_epoch: int = -1,
    log_start: int = -1,
) -> FetchPartition:
    return FetchPartition(
        partition=partition,
        current_leader_epoch=current_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start,
        partition_max_bytes=max_bytes,
    )


@pytest.mark.parametrize("version", range(4, 19))
def test_records_are_read_in_every_version(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic, other = scene.create(partitions=2), scene.create("other")
        scene.fill(topic, batch(b"a", b"b"), batch(b"c"))
        scene.fill(other, batch(b"d", compression=3))
        asked = [(topic, wanted(0)), (topic, wanted(1)), (other, wanted(0, 0))]
        return [
            scene.ask(fetch_request(*asked, isolation_level=level), version) for level in (0, 1)
        ]

    both.agree(scenario)


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_offsets_inside_and_outside_of_the_log(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[int, Plain]:
        topic = scene.create()
        scene.fill(topic, batch(b"a", b"b", b"c"), batch(b"d"), batch(b"e", b"f", b"g"))
        scene.trim(topic, 1)
        return {
            offset: scene.ask(fetch_request((topic, wanted(0, offset))), version)
            for offset in (-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1000, 2**63 - 1)
        }

    both.agree(scenario)


def test_an_empty_partition(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create()
        return [
            scene.ask(fetch_request((topic, wanted(0, offset)), isolation_level=level))
            for offset in (-1, 0, 1)
            for level in (0, 1)
        ]

    both.agree(scenario)


def test_how_much_is_read_under_limits(both: Both) -> None:
    """Apache Kafka cuts at the byte, kbroker at the end of a batch: what a client reads, whole
    batches, is compared."""

    def whole_batches(scene: Scene, *asked: tuple[Topic, FetchPartition], limit: int) -> Plain:
        answer = scene.told(fetch_request(*asked, max_bytes=limit), FetchResponse)
        return [
            [
                [part.partition_index, part.error_code, len(part.records or b"") // BATCH]
                for part in topic.partitions
            ]
            for topic in answer.responses
        ]

    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=3)
        for index in range(3):
            scene.fill(topic, *[batch(b"x")] * 4, index=index)
        limits = [0, 1, BATCH - 1, BATCH, 2 * BATCH, 5 * BATCH, 1 << 20]
        told: dict[str, Plain] = {}
        for part_limit in limits:
            for limit in limits:
                asked = [(topic, wanted(index, max_bytes=part_limit)) for index in range(3)]
                told[f"{part_limit} of {limit}"] = whole_batches(scene, *asked, limit=limit)
        return told

    both.agree(scenario)


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_unknown_topics_and_partitions(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create(partitions=2)
        scene.fill(topic, batch(b"a"))
        missing = Topic(scene.name("missing"), NO_SUCH_ID)
        scene.call_id(NO_SUCH_ID, "nothing")

        def ask(*asked: tuple[Topic, FetchPartition]) -> Plain:
            return scene.ask(fetch_request(*asked), version)

        return {
            "unknown topic": ask((missing, wanted())),
            "nameless topic": ask((Topic("", ZERO_UUID), wanted())),
            "unknown partition": ask((topic, wanted(2))),
            "negative partition": ask((topic, wanted(-1))),
            "unknown and known": ask((missing, wanted()), (topic, wanted())),
            "known and unknown": ask((topic, wanted()), (topic, wanted(5)), (missing, wanted())),
            "nothing": ask(),
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", [9, 11, 12, 18])
def test_the_clients_idea_of_the_leader_epoch(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()
        scene.fill(topic, batch(b"a"))
        return {
            f"epoch {epoch} at {offset}": scene.ask(
                fetch_request((topic, wanted(0, offset, current_epoch=epoch))), version
            )
            for epoch in (-2, -1, 0, 1, 99)
            for offset in (0, 1, 50)
        }

    both.agree(scenario)


@pytest.mark.parametrize("version", [12, 13, 18])
def test_a_fetcher_whose_log_parts_from_ours(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> dict[str, Plain]:
        topic, empty = scene.create(), scene.create("empty")
        scene.fill(topic, batch(b"a", b"b"))
        return {
            f"{case.name == empty.name} last epoch {epoch} at {offset}": scene.ask(
                fetch_request((case, wanted(0, offset, last_epoch=epoch, current_epoch=current))),
                version,
            )
            for case in (topic, empty)
            for epoch in (-1, 0, 1, 7)
            for offset in (0, 1, 2, 3, 50)
            for current in (-1, 0)
        }

    both.agree(scenario)


def test_the_fetchers_own_log_start_means_nothing_for_a_consumer(both: Both) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create()
        scene.fill(topic, batch(b"a"))
        return [
            scene.ask(fetch_request((topic, wanted(log_start=start)))) for start in (-1, 0, 5, 99)
        ]

    both.agree(scenario)


@pytest.mark.parametrize("version", [4, 9, 10, 18])
def test_zstd_is_not_sent_to_clients_that_do_not_know_it(both: Both, version: int) -> None:
    def scenario(scene: Scene) -> list[Plain]:
        topic = scene.create(partitions=2)
        scene.fill(topic, batch(b"plain"), batch(b"zstd", compression=4))
        of_topic = scene.create("zstd", compression_type="zstd")
        scene.fill(of_topic, batch(b"plain"))
        answer = scene.told(fetch_request((of_topic, wanted())), FetchResponse, version)
        of_one = answer.responses[0].partitions[0]
        return [
            scene.ask(fetch_request((topic, wanted())), version),
            [of_one.error_code, of_one.high_watermark, bool(of_one.records)],
        ]

    both.agree(scenario)


def test_a_long_poll_waits_for_its_time_or_for_records(both: Both) -> None:
    wait_ms = 300

    def scenario(scene: Scene) -> dict[str, Plain]:
        topic = scene.create()
        scene.fill(topic, batch(b"a"))

        def timed(*asked: tuple[Topic, FetchPartition], min_bytes: int) -> Plain:
            request = fetch_request(*asked, max_wait_ms=wait_ms, min_bytes=min_bytes)
            started = time.monotonic()
            answer = scene.ask(request)
            return [answer, (time.monotonic() - started) * 1000 >= wait_ms * 0.9]

        missing = Topic(scene.name("missing"), NO_SUCH_ID)
        scene.call_id(NO_SUCH_ID, "nothing")
        return {
            "enough": timed((topic, wanted()), min_bytes=1),
            "at the end": timed((topic, wanted(0, 1)), min_bytes=1),
            "at the end, nothing needed": timed((topic, wanted(0, 1)), min_bytes=0),
            "not enough": timed((topic, wanted()), min_bytes=1 << 19),
            "an error": timed((topic, wanted(0, 9)), min_bytes=1),
            "an error and an end": timed((topic, wanted(0, 1)), (missing, wanted()), min_bytes=1),
            "diverging": timed((topic, wanted(0, 9, last_epoch=0)), min_bytes=1),
            "nothing asked": timed(min_bytes=1),
        }

    both.agree(scenario)
