"""Each limit is a setting, says its name when it is hit, and goes away with its cause."""

from __future__ import annotations

import pytest

from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.net.running import Refusals, StartBroker
from tests.net.wire import (
    batch_of,
    fetch_request,
    fetched,
    frame_of,
    header,
    produce_request,
    until,
    values_in,
)

FOREVER_MS = 600_000
NO_TOPICS = MetadataRequest(
    topics=[],
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)


async def test_beyond_max_connections_a_newcomer_is_sent_away_until_somebody_leaves(
    start_broker: StartBroker, refusals: Refusals
) -> None:
    running = await start_broker({"max.connections": 3})
    inside = [await running.connect() for _ in range(3)]
    for client in inside:
        await client.ask(NO_TOPICS, MetadataResponse, 9)
    outside = await running.connect()
    assert await outside.is_closed()
    line = refusals.only()
    assert "max.connections" in line
    assert outside.address in line
    for client in inside:
        await client.ask(NO_TOPICS, MetadataResponse, 9)

    inside[0].close()
    await until(lambda: len(running.server.listener.connections) == 2, "one to leave")
    newcomer = await running.connect()
    await newcomer.ask(NO_TOPICS, MetadataResponse, 9)


async def test_beyond_max_parked_requests_a_connection_is_not_read_further(
    start_broker: StartBroker,
) -> None:
    running = await start_broker({"kbroker.connection.max.parked.requests": 5})
    client, other = await running.connect(), await running.connect()
    await other.create_topic("t")
    for _ in range(30):
        client.send(fetch_request({("t", 0): 0}, max_wait_ms=FOREVER_MS), 12)
    await until(lambda: running.parked_count >= 5, "fetches to park")
    for _ in range(20):
        await other.ask(NO_TOPICS, MetadataResponse, 9)
    assert 5 <= running.parked_count <= 10

    # Others are not affected, and the rest is served when there is room.
    await other.append("t", b"news")
    for correlation_id in range(1, 31):
        response = await client.receive(FetchResponse, 12, correlation_id)
        assert values_in(fetched(response)["t", 0]) == [b"news"]
    await client.ask(NO_TOPICS, MetadataResponse, 9)


async def test_requests_behind_the_limit_survive_in_order_when_they_come_one_by_one(
    start_broker: StartBroker,
) -> None:
    running = await start_broker({"kbroker.connection.max.parked.requests": 2})
    client, other = await running.connect(), await running.connect()
    await other.create_topic("t")
    client.send(fetch_request({("t", 0): 0}, max_wait_ms=FOREVER_MS), 12)
    for number in range(10):
        client.send(produce_request("t2", batch_of(b"%d" % number)), 9)
        await other.ask(NO_TOPICS, MetadataResponse, 9)
    await other.append("t", b"news")
    for correlation_id in range(1, 12):
        frame = await client.read_frame()
        assert int.from_bytes(frame[:4], "big") == correlation_id


async def test_beyond_max_parked_fetches_long_polls_are_answered_at_once(
    start_broker: StartBroker,
) -> None:
    running = await start_broker({"kbroker.max.parked.fetches": 2})
    waiting, late = await running.connect(), await running.connect()
    await waiting.create_topic("t")
    request = fetch_request({("t", 0): 0}, max_wait_ms=FOREVER_MS)
    for _ in range(2):
        waiting.send(request, 12)
    await until(lambda: running.parked_count == 2, "two fetches to park")
    response = await late.fetch(request)
    assert values_in(fetched(response)["t", 0]) == []
    waiting.close()
    await until(lambda: running.parked_count == 0, "the waiters to leave")
    late.send(request, 12)
    await until(lambda: running.parked_count == 1, "there to be room again")


async def test_a_request_of_exactly_the_largest_size_is_read_and_one_byte_more_is_not(
    start_broker: StartBroker, refusals: Refusals
) -> None:
    running = await start_broker({"socket.request.max.bytes": 1000})
    client = await running.connect()
    await client.create_topic("t")
    overhead = len(frame_of(produce_request("t", batch_of(b"x" * 500)), 7)) - 500
    fitting = frame_of(produce_request("t", batch_of(b"x" * (1004 - overhead))), 7)
    assert len(fitting) == 1004
    client.send_raw(fitting)
    assert await client.read_frame()
    too_large = frame_of(produce_request("t", batch_of(b"x" * (1005 - overhead))), 7)
    assert len(too_large) == 1005
    client.send_raw(too_large)
    assert await client.is_closed()
    assert "socket.request.max.bytes 1000" in refusals.only()


async def test_a_request_that_fits_in_one_read_may_still_be_too_large(
    start_broker: StartBroker,
) -> None:
    running = await start_broker({"socket.request.max.bytes": 100})
    client = await running.connect()
    client.send_raw((101).to_bytes(4, "big") + header(3, 1, 1, False) + bytes(200))
    assert await client.is_closed()


@pytest.mark.parametrize("reset", [False, True], ids=["farewell", "reset"])
async def test_a_client_that_leaves_while_it_is_not_read_is_noticed(
    reset: bool, start_broker: StartBroker
) -> None:
    """Reading is what tells that a client has gone; its long polls must not wait on for weeks."""
    running = await start_broker({"kbroker.connection.max.parked.requests": 2})
    client, other = await running.connect(), await running.connect()
    await other.create_topic("t")
    for _ in range(8):
        client.send(fetch_request({("t", 0): 0}, max_wait_ms=FOREVER_MS), 12)
    await until(lambda: running.parked_count >= 2, "fetches to park")
    await other.ask(NO_TOPICS, MetadataResponse, 9)
    if reset:
        client.close()
    else:
        client.writer.close()
    await until(lambda: running.parked_count == 0, "the waiters to leave")
