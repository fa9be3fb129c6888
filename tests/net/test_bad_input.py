"""Bytes that are not Kafka's protocol, or almost: the connection ends, the log says who and why,
and nobody else notices."""

from __future__ import annotations

import asyncio
import random

import pytest

from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.net import bad_inputs
from tests.net.running import Refusals, Running
from tests.net.wire import (
    CLIENT_ID,
    WireClient,
    batch_of,
    frame_of,
    framed,
    header,
    produce_request,
    until,
)

TOPIC = "orders"


async def good_client(running: Running) -> WireClient:
    client = await running.connect()
    await client.create_topic(TOPIC)
    await client.append(TOPIC, b"before")
    return client


@pytest.mark.parametrize(
    ("data", "said"),
    [(data, said) for _, data, said in bad_inputs.ALL],
    ids=[name for name, _, _ in bad_inputs.ALL],
)
async def test_bad_input_ends_its_connection_with_one_log_line_and_others_are_served(
    data: bytes, said: str, running: Running, refusals: Refusals
) -> None:
    good = await good_client(running)
    bad = await running.connect()
    bad.send_raw(data)
    assert await bad.is_closed()

    line = refusals.only()
    assert f"client={bad.address} " in line
    assert said in line
    assert running.broker.refused_count == 1

    assert await good.append(TOPIC, b"after") == 1
    assert await good.read_all(TOPIC) == [b"before", b"after"]


async def test_all_bad_input_together_harms_nothing_that_is_stored(running: Running) -> None:
    good = await good_client(running)
    for name, data, _ in bad_inputs.ALL:
        bad = await running.connect()
        bad.send_raw(data)
        assert await bad.is_closed(), name
        await good.append(TOPIC, name.encode())
    expected = [b"before", *(name.encode() for name, _, _ in bad_inputs.ALL)]
    assert await good.read_all(TOPIC) == expected
    assert running.broker.bug_count == 0

    await running.restart()
    again = await running.connect()
    assert await again.read_all(TOPIC) == expected
    assert list(running.broker.catalog.topics) == [TOPIC]


@pytest.mark.parametrize("split", [1, 3, 4, 5, 11])
async def test_bad_input_that_arrives_in_pieces_is_refused_too(
    split: int, running: Running, refusals: Refusals
) -> None:
    good = await good_client(running)
    unknown = framed(header(999, 0, 1, False))
    for data in (b"GET / HTTP/1.1\r\n\r\n", unknown):
        bad = await running.connect()
        for start in range(0, len(data), split):
            if bad.writer.is_closing():
                break
            bad.send_raw(data[start : start + split])
            # Another connection's round trip makes sure that the broker has seen this piece alone.
            await good.append(TOPIC, b"between")
        assert await bad.is_closed()
    assert len(refusals.lines) == 2


async def test_every_prefix_of_a_request_is_refused(running: Running) -> None:
    good = await good_client(running)
    topic_id = running.broker.catalog.topics[TOPIC].id
    for name, whole in bad_inputs.whole_requests(TOPIC, topic_id):
        for length in range(len(whole)):
            bad = await running.connect()
            bad.send_raw(framed(whole[:length]))
            answer = await bad.read_frame()
            assert answer == b"", f"{name} cut to {length} of {len(whole)} bytes was answered"
            bad.close()
        complete = await running.connect()
        complete.send_raw(framed(whole))
        assert await complete.read_frame(), f"the whole {name} must be answered"
    produced = [name for name, _ in bad_inputs.whole_requests(TOPIC, topic_id) if "produce" in name]
    assert await good.read_all(TOPIC) == [b"before"] + [b"value"] * len(produced)
    assert list(running.broker.catalog.topics) == [TOPIC]


async def test_requests_before_the_bad_bytes_of_one_read_are_served(
    running: Running, refusals: Refusals
) -> None:
    """A connection's requests count in the order in which they came, however TCP cut the stream."""
    good = await good_client(running)
    mixed = await running.connect()
    request = produce_request(TOPIC, batch_of(b"still counts"))
    mixed.send_raw(frame_of(request, 9) + b"\xff\xff\xff\xff garbage")
    assert await mixed.is_closed() or await mixed.is_closed()
    assert await good.read_all(TOPIC) == [b"before", b"still counts"]
    refusals.only()


async def test_a_refusal_names_the_client_id_that_was_sent_before(
    running: Running, refusals: Refusals
) -> None:
    bad = await running.connect()
    bad.client_id = "billing-7"
    request = MetadataRequest(
        topics=[],
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    await bad.ask(request, MetadataResponse, 4)
    bad.send_raw(b"\xff" * 8)
    assert await bad.is_closed()
    assert "client_id='billing-7'" in refusals.only()


async def test_a_client_id_cannot_forge_log_lines_or_fill_the_log(
    running: Running, refusals: Refusals
) -> None:
    bad = await running.connect()
    bad.client_id = "evil\n2024-01-01 ERROR forged" + "x" * 30_000
    bad.send_raw(framed(header(999, 0, 1, False, bad.client_id)))
    assert await bad.is_closed()
    line = refusals.only()
    assert "\n" not in line
    assert len(line) < 1000


async def test_the_same_refusal_again_and_again_is_logged_once(
    running: Running, refusals: Refusals
) -> None:
    for _ in range(20):
        bad = await running.connect()
        bad.send_raw(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert await bad.is_closed()
    refusals.only()
    assert running.broker.refused_count == 20


async def test_ever_different_refusals_do_not_flood_the_log(
    running: Running, refusals: Refusals
) -> None:
    """A length that differs each time makes each reason a new one; the log must not follow."""
    for number in range(300):
        bad = await running.connect()
        bad.send_raw((-1 - number).to_bytes(4, "big", signed=True))
        assert await bad.is_closed()
    assert len(refusals.lines) <= 150
    assert running.broker.refused_count == 300


async def test_half_frames_of_200_connections_do_not_keep_others_from_being_served(
    running: Running, refusals: Refusals
) -> None:
    good = await good_client(running)
    half = frame_of(produce_request(TOPIC, batch_of(b"never whole")), 9)[:-7]
    slow = [await running.connect() for _ in range(200)]
    for number, client in enumerate(slow):
        client.send_raw(half[: 1 + number % len(half)])
    for number in range(20):
        assert await good.append(TOPIC, b"meanwhile %d" % number) == number + 1
    assert len(running.server.listener.connections) == 201

    for client in slow[:100]:
        client.close()
    for client in slow[100:]:
        client.writer.write_eof()
    await until(
        lambda: len(running.server.listener.connections) == 1, "the slow clients to be let go"
    )
    assert len(await good.read_all(TOPIC)) == 21
    assert refusals.lines == []


async def test_a_request_that_trickles_in_byte_by_byte_is_answered(running: Running) -> None:
    good = await good_client(running)
    slow = await running.connect()
    for byte in frame_of(produce_request(TOPIC, batch_of(b"slow but whole")), 9):
        slow.send_raw(bytes([byte]))
        await good.append(TOPIC, b"-")
    assert await slow.read_frame()
    assert (await good.read_all(TOPIC)).count(b"slow but whole") == 1


async def test_a_client_that_vanishes_inside_a_frame_leaves_nothing_behind(
    running: Running,
) -> None:
    good = await good_client(running)
    source = random.Random(bad_inputs.SEED)
    whole = frame_of(produce_request(TOPIC, batch_of(b"x" * 500_000)), 9)
    for _ in range(20):
        client = await running.connect()
        client.send_raw(whole[: source.randrange(len(whole))])
        if source.random() < 0.5:
            await client.writer.drain()
        client.close()
    await until(lambda: len(running.server.listener.connections) == 1, "all to be gone")
    assert await good.read_all(TOPIC) == [b"before"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", 17),
        (".", 17),
        ("..", 17),
        ("a/b", 17),
        ("../../etc/passwd", 17),
        ("a\0b", 17),
        ("naïve", 17),
        ("a b", 17),
        ("x" * 250, 17),
        ("x" * 300, 17),
        ("x" * 249, 0),
        ("__kbroker_meta", 0),
    ],
    ids=lambda value: repr(value)[:24],
)
async def test_topic_names_that_kafka_forbids_are_refused_by_metadata(
    name: str, code: int, running: Running
) -> None:
    client = await running.connect()
    before = {path.name for path in running.folder.parent.rglob("*")}
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)],
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    for version in (1, 4, 9, 12):
        response = await client.ask(request, MetadataResponse, version)
        assert [topic.error_code for topic in response.topics] == [code]
        assert response.topics[0].name == name
    if code:
        assert {path.name for path in running.folder.parent.rglob("*")} == before


async def test_the_log_says_nothing_about_clients_that_behave(
    running: Running, refusals: Refusals
) -> None:
    for _ in range(5):
        client = await running.connect()
        await client.ask(
            MetadataRequest(
                topics=None,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            ),
            MetadataResponse,
            9,
        )
        client.close()
    await until(lambda: not running.server.listener.connections, "all to be gone")
    await asyncio.sleep(0)
    assert refusals.lines == []
    assert CLIENT_ID  # the id that every request above carried
