"""Answers leave in the order of the requests, whatever takes how long (redpanda#25636, sarama#992,
kroxylicious#507): Java and kafka-python take any other order for a broken connection."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kbroker.protocol.messages.produce import ProduceResponse
from kbroker.protocol.schema import Message
from tests.net.disks import GatedDisk
from tests.net.running import Refusals, Running, StartBroker
from tests.net.wire import (
    WireClient,
    batch_of,
    fetch_request,
    fetched,
    frame_of,
    produce_request,
    until,
    values_in,
)

FOREVER_MS = 600_000


def metadata_of(*names: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


async def assert_silent(client: WireClient, other: WireClient) -> None:
    """Nothing has come for `client` though the broker has done a round trip for another since."""
    for _ in range(3):
        await other.ask(metadata_of(), MetadataResponse, 9)
    assert not client.reader._buffer, "an answer came early"  # type: ignore[attr-defined]


async def test_answers_wait_behind_a_parked_fetch_and_then_come_in_order(running: Running) -> None:
    first, second = await running.connect(), await running.connect()
    await first.create_topic("waited-for")
    await first.create_topic("busy")

    parked = first.send(fetch_request({("waited-for", 0): 0}, max_wait_ms=FOREVER_MS), 12)
    produced = [first.send(produce_request("busy", batch_of(b"%d" % n)), 9) for n in range(3)]
    asked = first.send(metadata_of("busy"), 9)
    quick = first.send(fetch_request({("busy", 0): 1}), 11)

    # What stands behind the parked fetch is done at once; only its answer waits.
    busy = running.broker.catalog.partition_of(running.broker.catalog.topics["busy"], 0)
    await until(lambda: busy.high_watermark == 3, "the produces to be written")
    assert await second.read_all("busy") == [b"0", b"1", b"2"]
    await assert_silent(first, second)

    await second.append("waited-for", b"here")
    answer = await first.receive(FetchResponse, 12, parked)
    assert values_in(fetched(answer)["waited-for", 0]) == [b"here"]
    for number, correlation_id in enumerate(produced):
        response = await first.receive(ProduceResponse, 9, correlation_id)
        assert response.responses[0].partition_responses[0].base_offset == number
    described = await first.receive(MetadataResponse, 9, asked)
    assert [topic.name for topic in described.topics] == ["busy"]
    answer = await first.receive(FetchResponse, 11, quick)
    assert values_in(fetched(answer)["busy", 0]) == [b"1", b"2"]


async def test_a_fetch_is_woken_by_the_produce_that_stands_behind_it(running: Running) -> None:
    client = await running.connect()
    await client.create_topic("t")
    parked = client.send(fetch_request({("t", 0): 0}, max_wait_ms=FOREVER_MS), 12)
    produced = client.send(produce_request("t", batch_of(b"mine")), 9)
    answer = await client.receive(FetchResponse, 12, parked)
    assert values_in(fetched(answer)["t", 0]) == [b"mine"]
    await client.receive(ProduceResponse, 9, produced)


async def test_several_parked_fetches_are_answered_in_order_though_the_last_is_ready_first(
    running: Running,
) -> None:
    first, second = await running.connect(), await running.connect()
    names = ["a", "b", "c"]
    for name in names:
        await first.create_topic(name)
    parked = [
        first.send(fetch_request({(name, 0): 0}, max_wait_ms=FOREVER_MS), 12) for name in names
    ]
    await until(lambda: running.parked_count == 3, "the fetches to park")
    await second.append("c", b"c")
    await second.append("b", b"b")
    await until(lambda: running.parked_count == 1, "two of the fetches to be woken")
    await assert_silent(first, second)
    await second.append("a", b"a")
    for name, correlation_id in zip(names, parked, strict=True):
        answer = await first.receive(FetchResponse, 12, correlation_id)
        assert values_in(fetched(answer)[name, 0]) == [name.encode()]


async def test_a_fast_answer_waits_for_the_slow_handler_in_front_of_it(
    start_broker: StartBroker,
) -> None:
    disk = GatedDisk()
    running = await start_broker(disk=disk)
    first, second = await running.connect(), await running.connect()
    disk.close_for("__kbroker_meta")
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    slow = first.send(request, 4)
    fast = first.send(metadata_of(), 9)
    await until(lambda: disk.started_count == 1, "the sync to start")
    await assert_silent(first, second)
    disk.open_again()
    assert (await first.receive(InitProducerIdResponse, 4, slow)).error_code == 0
    await first.receive(MetadataResponse, 9, fast)


async def test_acks_0_gets_no_answer_and_later_answers_do_not_stall(running: Running) -> None:
    """kafka-proxy#54: a proxy that waited for the answer to acks=0 hung its connection."""
    client = await running.connect()
    await client.create_topic("t")
    for number in range(5):
        client.send(produce_request("t", batch_of(b"%d" % number), acks=0), 9)
    acknowledged = client.send(produce_request("t", batch_of(b"5"), acks=1), 9)
    response = await client.receive(ProduceResponse, 9, acknowledged)
    assert response.responses[0].partition_responses[0].base_offset == 5
    client.send(produce_request("t", batch_of(b"6"), acks=0), 3)
    asked = client.send(metadata_of("t"), 1)
    await client.receive(MetadataResponse, 1, asked)
    assert await client.read_all("t") == [b"%d" % number for number in range(7)]


@pytest.mark.parametrize(
    ("topic", "batch"),
    [("missing", batch_of(b"x")), ("t", b"not a batch"), ("t", batch_of(b"x")[:-1] + b"!")],
    ids=["unknown topic", "not a batch", "wrong checksum"],
)
async def test_an_error_behind_acks_0_closes_the_connection_since_nothing_else_can_tell(
    topic: str, batch: bytes, running: Running, refusals: Refusals
) -> None:
    client, other = await running.connect(), await running.connect()
    await other.create_topic("t")
    client.send(produce_request("t", batch_of(b"good"), acks=0), 9)
    client.send(produce_request(topic, batch, acks=0), 9)
    assert await client.is_closed()
    assert client.address in refusals.only()
    assert await other.read_all("t") == [b"good"]


async def test_acks_0_behind_a_parked_fetch_is_written_at_once(running: Running) -> None:
    first, second = await running.connect(), await running.connect()
    await first.create_topic("waited-for")
    await first.create_topic("t")
    parked = first.send(fetch_request({("waited-for", 0): 0}, max_wait_ms=FOREVER_MS), 12)
    first.send(produce_request("t", batch_of(b"unasked"), acks=0), 9)
    after = first.send(metadata_of(), 9)
    partition = running.broker.catalog.partition_of(running.broker.catalog.topics["t"], 0)
    await until(lambda: partition.high_watermark == 1, "the produce to be written")
    await second.append("waited-for", b"now")
    await first.receive(FetchResponse, 12, parked)
    await first.receive(MetadataResponse, 9, after)


@pytest.mark.parametrize("seed", range(6))
async def test_any_pipeline_in_any_pieces_is_answered_in_order(seed: int, running: Running) -> None:
    """Requests of all kinds (at once, parked, awaiting a sync, without an answer), sent as one byte
    stream cut at random places."""
    source = random.Random(seed)
    client, other = await running.connect(), await running.connect()
    for name in ("t", "quiet"):
        await client.create_topic(name)
    appended = 0

    def produce(acks: int) -> Message:
        nonlocal appended
        appended += 1
        return produce_request("t", batch_of(b"%d" % appended), acks=acks)

    def create() -> Message:
        name = f"made-{source.randrange(1 << 60)}"
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[])
        return CreateTopicsRequest(topics=[topic])

    made: dict[str, tuple[Callable[[], Message], type[Message] | None, list[int]]] = {
        "produce": (lambda: produce(source.choice((1, -1))), ProduceResponse, [3, 7, 9]),
        "acks 0": (lambda: produce(0), None, [3, 7, 9]),
        "fetch": (lambda: fetch_request({("t", 0): 0}), FetchResponse, [4, 11, 12]),
        "parked": (
            lambda: fetch_request({("quiet", 0): 0}, max_wait_ms=source.randrange(1, 30)),
            FetchResponse,
            [4, 11, 12],
        ),
        "metadata": (lambda: metadata_of("t"), MetadataResponse, [0, 1, 9, 12]),
        "create": (create, CreateTopicsResponse, [2, 5, 7]),
        "producer id": (
            lambda: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0),
            InitProducerIdResponse,
            [0, 4],
        ),
        "api versions": (
            lambda: ApiVersionsRequest(client_software_name="x", client_software_version="1"),
            ApiVersionsResponse,
            [0, 2, 3, 4],
        ),
    }
    stream = b""
    expected: list[tuple[type[Message], int, int]] = []
    for correlation_id in range(120):
        make, response, versions = made[source.choice(list(made))]
        version = source.choice(versions)
        stream += frame_of(make(), version, correlation_id)
        if response is not None:
            expected.append((response, version, correlation_id))
    position = 0
    while position < len(stream):
        size = source.choice((1, 7, 60, 1500, 20_000))
        client.send_raw(stream[position : position + size])
        position += size
        await other.ask(metadata_of(), MetadataResponse, 9)
    for response, version, correlation_id in expected:
        await client.receive(response, version, correlation_id)
    assert len(await other.read_all("t")) == appended


async def test_pipelined_produces_get_their_offsets_in_request_order(running: Running) -> None:
    """redpanda#28826: two produces of one connection handled side by side break the sequence."""
    client = await running.connect()
    await client.create_topic("t")
    sent = [client.send(produce_request("t", batch_of(b"%d" % n)), 9) for n in range(50)]
    for number, correlation_id in enumerate(sent):
        response = await client.receive(ProduceResponse, 9, correlation_id)
        assert response.responses[0].partition_responses[0].base_offset == number
    assert await client.read_all("t") == [b"%d" % n for n in range(50)]


async def test_thousands_of_small_frames_in_one_piece_are_all_answered_in_order(
    running: Running,
) -> None:
    client = await running.connect()
    await client.create_topic("t")
    count = 3000
    frames = b"".join(
        frame_of(metadata_of("t"), 1, number)
        if number % 3
        else frame_of(produce_request("t", batch_of(b"%d" % number)), 7, number)
        for number in range(count)
    )
    client.send_raw(frames)
    for number in range(count):
        response = MetadataResponse if number % 3 else ProduceResponse
        await client.receive(response, 1 if number % 3 else 7, number)
    values = await client.read_all("t")
    assert values == [b"%d" % number for number in range(0, count, 3)]


async def test_a_large_frame_in_many_small_pieces_is_read_whole(running: Running) -> None:
    client, other = await running.connect(), await running.connect()
    await client.create_topic("t")
    value = random.Random(7).randbytes(1_000_000)
    frame = frame_of(produce_request("t", batch_of(value)), 9)
    for position in range(0, len(frame), 1009):
        client.send_raw(frame[position : position + 1009])
        if position % 100 == 0:
            await other.ask(metadata_of(), MetadataResponse, 9)
    assert await client.read_frame()
    assert await other.read_all("t") == [value]
