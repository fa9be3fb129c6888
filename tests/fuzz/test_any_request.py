"""Any well-formed request, in any version, with any values: an answer of its kind comes back, and
the broker has met no bug of its own.

Values are drawn from the declarations; where a name, number or batch must exist for the handler to
get anywhere, it often does.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kbroker.handlers  # noqa: F401  # fills the registry
from kbroker.config import Settings
from kbroker.handlers.registry import APIS, Api
from kbroker.protocol import records
from kbroker.protocol.header import is_response_header_flexible
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.records import NewRecord
from kbroker.protocol.schema import Message
from kbroker.server import Server
from tests.net.wire import LOOPBACK, WireClient, batch_of
from tests.protocol.generated_messages import values_of

# More, and others each time: FUZZ_EXAMPLES=2000 pytest tests/fuzz/test_any_request.py
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "25"))
NOW_MS = int(time.time() * 1000)
TOPIC, TOPIC_ID = "orders", bytes(range(1, 17))

numbers = st.sampled_from([-(1 << 31), -3, -2, -1, 0, 1, 2, 5, 100, (1 << 31) - 1])
long_numbers = st.sampled_from(
    [-(1 << 63), -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, NOW_MS, (1 << 62), (1 << 63) - 1]
)
names = st.sampled_from(
    [TOPIC, TOPIC, "missing", "", "..", "a/b", "x" * 300, "__kbroker_meta", "é"]
)
config_names = st.sampled_from(["retention.ms", "cleanup.policy", "num.partitions", "nonsense", ""])
batches = st.sampled_from(
    [
        batch_of(b"value", key=b"key"),
        batch_of(b"value"),
        batch_of(b"late", time_ms=(1 << 62)),
        batch_of(b"early", time_ms=-1),
        records.build([NewRecord(NOW_MS, b"k", b"v")] * 3, compression=1, producer_id=3),
        records.build(
            [NewRecord(NOW_MS, b"k", b"v")], producer_id=3, producer_epoch=0, base_sequence=0
        ),
        records.build(
            [NewRecord(NOW_MS, b"k", b"v")],
            producer_id=(1 << 63) - 1,
            producer_epoch=(1 << 15) - 1,
            base_sequence=(1 << 31) - 1,
            transactional=True,
        ),
        b"",
        b"garbage",
        bytes(61),
        batch_of(b"twice") * 2,
    ]
)

SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "acks": st.sampled_from([-2, -1, 1, 2]),  # 0 has no answer to wait for
    "topic": names,
    "topic_name": names,
    "topic_id": st.sampled_from([TOPIC_ID, bytes(16), b"\xff" * 16]),
    "records": batches,
    "resource_type": st.sampled_from([-1, 0, 1, 2, 4, 8, 16, 127]),
    "resource_name": st.sampled_from([TOPIC, "0", "", "7", "missing", "\0"]),
    "config_operation": st.sampled_from([-1, 0, 1, 2, 3, 4]),
    "isolation_level": st.sampled_from([-1, 0, 1, 2]),
    "num_partitions": st.sampled_from([-2, -1, 0, 1, 3, (1 << 31) - 1]),
    "max_wait_ms": st.sampled_from([-5, 0, 1]),
    **dict.fromkeys(
        (
            "count",
            "current_leader_epoch",
            "index",
            "last_fetched_epoch",
            "leader_epoch",
            "max_bytes",
            "min_bytes",
            "partition",
            "partition_index",
            "partition_max_bytes",
            "response_partition_limit",
            "session_epoch",
            "session_id",
        ),
        numbers,
    ),
    **dict.fromkeys(("fetch_offset", "offset", "timestamp", "log_start_offset"), long_numbers),
}


def requests_of(api: Api, version: int) -> list[Message]:
    """Some random requests, the same in every run."""
    found: list[Message] = []
    special = {**SPECIAL, "name": st.one_of(names, config_names)}

    @settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize="FUZZ_EXAMPLES" not in os.environ,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(values_of(api.request, version, special))
    def collect(message: Message) -> None:
        found.append(message)

    collect()
    return found


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A broker with a topic that has records."""
    server = Server(Settings({"log.segment.bytes": "4096"}), str(tmp_path / "data"))
    await server.start(LOOPBACK, 0)
    yield server
    await server.stop()


@pytest.mark.parametrize(
    ("api", "version"),
    [(api, version) for _, api in sorted(APIS.items()) for version in api.request.versions],
    ids=lambda value: value.name if isinstance(value, Api) else f"v{value}",
)
async def test_any_request_is_answered_and_meets_no_bug(
    api: Api, version: int, server: Server
) -> None:
    client = await WireClient.connect(server.listener.port)
    try:
        await client.create_topic(TOPIC, 2)
        topic = server.broker.catalog.topics[TOPIC]
        for number in range(5):
            await client.append(TOPIC, b"record %d" % number)
        for request in requests_of(api, version):
            use_id(request, topic.id)
            said = f"{request!r:.2000}"
            client.send(request, version)
            frame = await client.read_frame()
            assert frame, f"no answer to {said}"
            start = 5 if is_response_header_flexible(api.response, version) else 4
            answer = api.response.decode(frame, version, start)
            assert answer.encode(version) == frame[start:], said
            assert server.broker.bug_count == 0, said
            if TOPIC not in server.broker.catalog.topics:
                await client.create_topic(TOPIC, 2)
                topic = server.broker.catalog.topics[TOPIC]
    finally:
        client.close()


def use_id(message: Message, topic_id: bytes) -> None:
    """Puts the real topic's id where the placeholder stands."""
    for field in message.fields:
        value = getattr(message, field.name)
        if isinstance(value, Message):
            use_id(value, topic_id)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Message):
                    use_id(item, topic_id)
        elif field.name == "topic_id" and value == TOPIC_ID:
            setattr(message, field.name, topic_id)


def test_the_longest_wait_that_is_drawn_is_short() -> None:
    """A fetch that waits for ever would make the test above wait too."""
    for request in requests_of(APIS[FetchRequest.api_key], 12):
        assert isinstance(request, FetchRequest)
        assert request.max_wait_ms <= 1
