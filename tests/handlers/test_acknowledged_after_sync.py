"""With group commit or flush.messages=1 an answer means that the disk has it; one sync covers all
that came while the one before was running."""

from __future__ import annotations

import pytest

from kbroker.protocol import records
from kbroker.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.messages.produce import ProduceResponse
from kbroker.protocol.records import NewRecord
from tests.net.disks import GatedDisk
from tests.net.running import Running, StartBroker
from tests.net.wire import WireClient, batch_of, produce_request, until

DURABLE: list[dict[str, object]] = [
    {"flush.messages": 1},
    {"kbroker.flush.group.commit": "true"},
]
NO_TOPICS = MetadataRequest(
    topics=[],
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)


async def silent(client: WireClient, other: WireClient) -> bool:
    """Whether nothing has come for `client`, though the broker has served another meanwhile."""
    for _ in range(3):
        await other.ask(NO_TOPICS, MetadataResponse, 9)
    return not client.reader._buffer  # type: ignore[attr-defined]


def offset_of(response: ProduceResponse) -> int:
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
    return answer.base_offset


async def with_gate(start_broker: StartBroker) -> tuple[Running, GatedDisk]:
    disk = GatedDisk()
    return await start_broker(disk=disk), disk


@pytest.mark.parametrize("configs", DURABLE, ids=["flush.messages", "group commit"])
@pytest.mark.parametrize("acks", [1, -1])
async def test_the_answer_comes_after_the_sync(
    configs: dict[str, object], acks: int, start_broker: StartBroker
) -> None:
    running, disk = await with_gate(start_broker)
    client, other = await running.connect(), await running.connect()
    await client.create_topic("t", configs=configs)
    disk.close_for("/t-0/")
    sent = client.send(produce_request("t", batch_of(b"precious"), acks=acks), 9)
    await until(lambda: disk.started_count == 1, "the sync to start")
    assert await silent(client, other)
    disk.open_again()
    assert offset_of(await client.receive(ProduceResponse, 9, sent)) == 0
    assert disk.finished_count == 1


async def test_without_either_setting_the_answer_does_not_wait(start_broker: StartBroker) -> None:
    running, disk = await with_gate(start_broker)
    client = await running.connect()
    await client.create_topic("t", configs={"flush.ms": 600_000})
    disk.close_for("/t-0/")
    assert await client.append("t", b"written") == 0
    assert disk.started_count == 0
    disk.open_again()


async def test_flush_messages_counts_records_of_several_requests(
    start_broker: StartBroker,
) -> None:
    running, disk = await with_gate(start_broker)
    client, other = await running.connect(), await running.connect()
    await client.create_topic("t", configs={"flush.messages": 5, "flush.ms": 600_000})
    disk.close_for("/t-0/")
    assert await client.append("t", b"1", b"2") == 0
    assert await client.append("t", b"3", b"4") == 2
    assert disk.started_count == 0
    sent = client.send(produce_request("t", batch_of(b"5")), 9)
    await until(lambda: disk.started_count == 1, "the sync to start")
    assert await silent(client, other)
    disk.open_again()
    assert offset_of(await client.receive(ProduceResponse, 9, sent)) == 4


async def test_many_producers_share_one_sync(start_broker: StartBroker) -> None:
    running, disk = await with_gate(start_broker)
    first, other = await running.connect(), await running.connect()
    await first.create_topic("t", configs={"kbroker.flush.group.commit": "true"})
    disk.close_for("/t-0/")
    sent = first.send(produce_request("t", batch_of(b"first")), 9)
    await until(lambda: disk.started_count == 1, "the first sync to start")

    clients = [await running.connect() for _ in range(40)]
    waiting = [client.send(produce_request("t", batch_of(b"shared")), 9) for client in clients]
    partition = running.broker.catalog.partition_of(running.broker.catalog.topics["t"], 0)
    await until(lambda: partition.log_end == 41, "all to be written")
    assert disk.started_count == 1
    for client in clients:
        assert await silent(client, other)

    disk.open_again()
    assert offset_of(await first.receive(ProduceResponse, 9, sent)) == 0
    offsets = [
        offset_of(await client.receive(ProduceResponse, 9, correlation_id))
        for client, correlation_id in zip(clients, waiting, strict=True)
    ]
    assert sorted(offsets) == list(range(1, 41))
    assert disk.finished_count == 2, "one sync for the first, one for the forty that came meanwhile"


async def test_one_request_for_several_partitions_waits_for_all_their_syncs(
    start_broker: StartBroker,
) -> None:
    running, disk = await with_gate(start_broker)
    client, other = await running.connect(), await running.connect()
    await client.create_topic("t", partitions=3, configs={"flush.messages": 1})
    await client.create_topic("loose")
    disk.close_for("/t-1/")
    request = produce_request("t", batch_of(b"0"))
    for index in (1, 2):
        request.topic_data[0].partition_data += (
            produce_request("t", batch_of(b"%d" % index), partition=index)
            .topic_data[0]
            .partition_data
        )
    request.topic_data += produce_request("loose", batch_of(b"x")).topic_data
    sent = client.send(request, 9)
    await until(lambda: disk.started_count == 1, "the sync to start")
    assert await silent(client, other)
    disk.open_again()
    response = await client.receive(ProduceResponse, 9, sent)
    answers = [answer for topic in response.responses for answer in topic.partition_responses]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0)] * 4


async def test_answers_behind_a_sync_keep_their_order(start_broker: StartBroker) -> None:
    running, disk = await with_gate(start_broker)
    client = await running.connect()
    await client.create_topic("slow", configs={"flush.messages": 1})
    await client.create_topic("fast")
    disk.close_for("/slow-0/")
    sent = [
        client.send(produce_request(topic, batch_of(b"x")), 9)
        for topic in ("slow", "fast", "slow", "fast")
    ]
    asked = client.send(NO_TOPICS, 9)
    await until(lambda: disk.started_count == 1, "the sync to start")
    disk.open_again()
    offsets = [offset_of(await client.receive(ProduceResponse, 9, number)) for number in sent]
    assert offsets == [0, 0, 1, 1]
    await client.receive(MetadataResponse, 9, asked)


async def test_a_repeated_batch_is_not_acknowledged_before_its_first_copy_is_synced(
    start_broker: StartBroker,
) -> None:
    """A producer whose answer is late sends the batch again on a new connection; the answer to the
    repetition promises as much as the first one would have."""
    running, disk = await with_gate(start_broker)
    first, second, other = [await running.connect() for _ in range(3)]
    await first.create_topic("t", configs={"flush.messages": 1})
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    producer = await first.ask(request, InitProducerIdResponse, 4)
    batch = records.build(
        [NewRecord(1_700_000_000_000, None, b"once")],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
    )
    disk.close_for("/t-0/")
    sent = first.send(produce_request("t", batch), 9)
    await until(lambda: disk.started_count == 1, "the sync to start")
    again = second.send(produce_request("t", batch), 9)
    assert await silent(second, other), "acknowledged, and the disk does not have it"
    disk.open_again()
    assert offset_of(await first.receive(ProduceResponse, 9, sent)) == 0
    assert offset_of(await second.receive(ProduceResponse, 9, again)) == 0
    assert await other.read_all("t") == [b"once"]


async def test_deleting_a_topic_ends_the_wait_for_its_sync(start_broker: StartBroker) -> None:
    """Nobody will sync a deleted partition; an answer that waited for it would hold up all others
    of its connection for ever."""
    running, disk = await with_gate(start_broker)
    client, admin = await running.connect(), await running.connect()
    await client.create_topic("t", configs={"flush.messages": 1})
    disk.close_for("/t-0/")
    sent = client.send(produce_request("t", batch_of(b"x")), 9)
    await until(lambda: disk.started_count == 1, "the sync to start")
    assert await admin.delete_topic("t") == 0
    disk.open_again()
    response = await client.receive(ProduceResponse, 9, sent)
    assert response.responses[0].partition_responses[0].error_code in (0, 3)
    assert (await client.ask(NO_TOPICS, MetadataResponse, 9)).brokers


async def test_the_clients_of_a_sync_may_leave_before_it_ends(start_broker: StartBroker) -> None:
    running, disk = await with_gate(start_broker)
    client, other = await running.connect(), await running.connect()
    await client.create_topic("t", configs={"flush.messages": 1})
    disk.close_for("/t-0/")
    client.send(produce_request("t", batch_of(b"kept")), 9)
    await until(lambda: disk.started_count == 1, "the sync to start")
    client.close()
    await until(lambda: len(running.server.listener.connections) == 1, "the client to be gone")
    disk.open_again()
    assert await other.append("t", b"next") == 1
    assert await other.read_all("t") == [b"kept", b"next"]
