"""Fetch sessions as a consumer meets them: full, then only what is new (COMPAT.md 42 to 44)."""

from __future__ import annotations

import pytest

from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kbroker.protocol.messages.fetch import FetchPartitionData, FetchResponse
from tests.net.running import Running, StartBroker
from tests.net.wire import Topic, WireClient, fetch_request, fetched, until, values_in

FOREVER_MS = 600_000
ID_NOT_FOUND, INVALID_EPOCH, TOPIC_ID_ERROR = 70, 71, 106
Found = dict[tuple[Topic, int], FetchPartitionData]


class Consumer:
    """Keeps a session's id and epoch, as clients do."""

    def __init__(self, client: WireClient, version: int = 12) -> None:
        self.client = client
        self.version = version
        self.session_id = 0
        self.epoch = 0

    async def fetch(
        self,
        wanted: dict[tuple[Topic, int], int] | None = None,
        forgotten: list[tuple[Topic, int]] | None = None,
        max_bytes: int = 50 << 20,
        partition_max_bytes: int = 1 << 20,
    ) -> Found:
        request = fetch_request(
            wanted or {},
            forgotten=forgotten or [],
            session_id=self.session_id,
            session_epoch=self.epoch,
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
        )
        response = await self.client.fetch(request, self.version)
        assert response.error_code == 0
        if self.epoch == 0:
            self.session_id = response.session_id
        else:
            assert response.session_id == self.session_id
        self.epoch += 1
        return fetched(response)


async def consumer_of(running: Running, version: int = 12, **topics: int) -> tuple[Consumer, Found]:
    client = await running.connect()
    for name in topics:
        await client.create_topic(name)
    consumer = Consumer(client, version)
    wanted: dict[tuple[Topic, int], int] = {
        (await name_in(running, name, version), 0): offset for name, offset in topics.items()
    }
    return consumer, await consumer.fetch(wanted)


async def name_in(running: Running, name: str, version: int) -> Topic:
    return name if version < 13 else running.broker.catalog.topics[name].id


@pytest.mark.parametrize("version", range(7, 19))
async def test_after_a_full_answer_only_news_comes(version: int, running: Running) -> None:
    consumer, full = await consumer_of(running, version, a=0, b=0, c=0)
    a, b, c = [await name_in(running, name, version) for name in "abc"]
    assert consumer.session_id > 0
    assert sorted(full) == sorted([(a, 0), (b, 0), (c, 0)])
    assert all(data.high_watermark == 0 for data in full.values())

    assert await consumer.fetch() == {}
    producer = await running.connect()
    await producer.append("b", b"1")
    news = await consumer.fetch()
    assert list(news) == [(b, 0)]
    assert values_in(news[b, 0]) == [b"1"]
    # Until the consumer moves on, the record is told again; then it is quiet.
    assert list(await consumer.fetch()) == [(b, 0)]
    assert await consumer.fetch({(b, 0): 1}) == {}


async def test_a_moved_log_start_is_news(running: Running) -> None:
    consumer, _ = await consumer_of(running, a=0)
    producer = await running.connect()
    await producer.append("a", b"1")
    await consumer.fetch({("a", 0): 1})
    assert await consumer.fetch() == {}
    trim = [DeleteRecordsPartition(partition_index=0, offset=1)]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="a", partitions=trim)], timeout_ms=1000
    )
    await producer.ask(request, DeleteRecordsResponse, 2)
    news = await consumer.fetch()
    assert news["a", 0].log_start_offset == 1


async def test_a_full_answer_has_every_partition_with_real_offsets(running: Running) -> None:
    """franz-go#1222: -1 for the high watermark in a full answer is read as "unchanged"."""
    consumer, full = await consumer_of(running, a=0, b=0)
    again = Consumer(consumer.client)
    full = await again.fetch({("a", 0): 0, ("b", 0): 0})
    for data in full.values():
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (0, 0, 0)


async def test_forgotten_partitions_go(running: Running) -> None:
    """platformatic#321: a broker that goes on sending them feeds a consumer that left."""
    consumer, _ = await consumer_of(running, a=0, b=0)
    producer = await running.connect()
    await producer.append("a", b"1")
    await producer.append("b", b"1")
    news = await consumer.fetch(forgotten=[("a", 0)])
    assert list(news) == [("b", 0)]
    await producer.append("a", b"2")
    assert list(await consumer.fetch()) == [("b", 0)]
    # Taken up again, it is told in full again.
    assert ("a", 0) in await consumer.fetch({("a", 0): 0})


async def test_unknown_sessions_and_wrong_epochs_are_answered_with_their_errors(
    running: Running,
) -> None:
    consumer, _ = await consumer_of(running, a=0)
    for session_id, epoch, code in (
        (consumer.session_id, 9, INVALID_EPOCH),
        (consumer.session_id, 2, INVALID_EPOCH),
        (consumer.session_id ^ 1, 1, ID_NOT_FOUND),
        (0, 5, ID_NOT_FOUND),
    ):
        request = fetch_request({}, session_id=session_id, session_epoch=epoch)
        for version in (7, 11, 12):
            response = await consumer.client.fetch(request, version)
            assert (response.error_code, response.responses) == (code, [])
    # The session itself has not suffered.
    assert await consumer.fetch() == {}


async def test_names_and_ids_in_one_session_are_an_error_not_a_crash(running: Running) -> None:
    consumer, _ = await consumer_of(running, 13, a=0)
    request = fetch_request({}, session_id=consumer.session_id, session_epoch=1)
    assert (await consumer.client.fetch(request, 12)).error_code == TOPIC_ID_ERROR
    assert await consumer.fetch() == {}


async def test_a_closed_session_is_gone_and_a_new_one_can_be_opened(running: Running) -> None:
    consumer, _ = await consumer_of(running, a=0)
    request = fetch_request({("a", 0): 0}, session_id=consumer.session_id, session_epoch=-1)
    response = await consumer.client.fetch(request)
    assert response.session_id == 0
    assert list(fetched(response)) == [("a", 0)]
    assert len(running.broker.sessions) == 0
    late = fetch_request({}, session_id=consumer.session_id, session_epoch=1)
    assert (await consumer.client.fetch(late)).error_code == ID_NOT_FOUND
    again = Consumer(consumer.client)
    assert list(await again.fetch({("a", 0): 0})) == [("a", 0)]
    assert again.session_id not in (0, consumer.session_id)


async def test_a_session_outlives_its_connection_and_the_other_way_round(running: Running) -> None:
    consumer, _ = await consumer_of(running, a=0)
    consumer.client.close()
    consumer.client = await running.connect()
    assert await consumer.fetch() == {}


async def test_old_versions_have_no_sessions(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("a")
    for version in (4, 5, 6):
        response = await client.fetch(fetch_request({("a", 0): 0}), version)
        assert list(fetched(response)) == [("a", 0)]
    assert len(running.broker.sessions) == 0


async def test_the_number_of_sessions_is_bounded(start_broker: StartBroker) -> None:
    running = await start_broker({"max.incremental.fetch.session.cache.slots": 3})
    client = await running.connect()
    await client.create_topic("a")
    ids = []
    for _ in range(10):
        response = await client.fetch(fetch_request({("a", 0): 0}, session_epoch=0))
        assert list(fetched(response)) == [("a", 0)]
        ids.append(response.session_id)
    assert all(ids[:3])
    assert not any(ids[3:])
    assert len(running.broker.sessions) == 3


@pytest.mark.parametrize(("version", "code"), [(12, 3), (13, 100)])
async def test_deleting_a_topic_is_told_to_the_sessions_that_want_it(
    version: int, code: int, running: Running
) -> None:
    consumer, _ = await consumer_of(running, version, a=0, b=0)
    name = await name_in(running, "a", version)
    assert await consumer.fetch() == {}
    admin = await running.connect()
    await admin.delete_topic("a")
    for _ in range(2):
        news = await consumer.fetch()
        assert {key: data.error_code for key, data in news.items()} == {(name, 0): code}


async def test_a_topic_made_again_is_told_from_its_start(running: Running) -> None:
    """kafka#10952, librdkafka#5022: the session's old knowledge must not hide the new topic."""
    consumer, _ = await consumer_of(running, a=0)
    admin = await running.connect()
    await admin.append("a", b"old 0", b"old 1")
    await consumer.fetch({("a", 0): 2})
    old_id = running.broker.catalog.topics["a"].id
    await admin.delete_topic("a")
    assert await admin.create_topic("a") != old_id
    news = await consumer.fetch()
    assert news["a", 0].error_code == 1  # offset 2 is out of the range of the new, empty log
    await admin.append("a", b"new")
    news = await consumer.fetch({("a", 0): 0})
    assert values_in(news["a", 0]) == [b"new"]


async def test_a_parked_incremental_fetch_tells_only_what_woke_it(running: Running) -> None:
    consumer, _ = await consumer_of(running, a=0, b=0)
    producer = await running.connect()
    request = fetch_request(
        {}, session_id=consumer.session_id, session_epoch=1, max_wait_ms=FOREVER_MS
    )
    correlation_id = consumer.client.send(request, 12)
    await until(lambda: running.parked_count == 1, "the fetch to park")
    await producer.append("b", b"1")
    response = await consumer.client.receive(FetchResponse, 12, correlation_id)
    assert list(fetched(response)) == [("b", 0)]


async def test_an_incremental_fetch_without_news_is_empty_when_its_time_is_up(
    running: Running,
) -> None:
    consumer, _ = await consumer_of(running, a=0)
    request = fetch_request({}, session_id=consumer.session_id, session_epoch=1, max_wait_ms=40)
    response = await consumer.client.fetch(request)
    assert response.responses == []
    assert response.session_id == consumer.session_id


async def test_a_busy_partition_does_not_starve_the_others(running: Running) -> None:
    """With room for one batch in each answer, every partition gets its turn."""
    consumer, _ = await consumer_of(running, a=0, b=0, c=0)
    producer = await running.connect()
    for name in ("a", "b", "c"):
        for _ in range(4):
            await producer.append(name, name.encode() * 1000)
    served: list[str] = []
    positions = dict.fromkeys(("a", "b", "c"), 0)
    moved: dict[tuple[Topic, int], int] = {}
    for _ in range(12):
        news = await consumer.fetch(moved, max_bytes=1500)
        moved = {}
        for (topic, _), data in news.items():
            count = len(values_in(data))
            if count:
                assert isinstance(topic, str)
                served.append(topic)
                positions[topic] += count
                moved[topic, 0] = positions[topic]
    assert positions == {"a": 4, "b": 4, "c": 4}
    for start in range(0, 12, 3):
        assert sorted(served[start : start + 3]) == ["a", "b", "c"]
