"""A blocking Kafka client over one socket, as cheap as Python allows.

It exists to load a broker with less work than the broker does: requests are sent straight from a
prebuilt block, answers are checked in runs. It still checks every answer: correlation id, error
code and the offset that the batch was given, so a broker that answers without storing cannot win.
"""

import socket
import struct
import time
from types import TracebackType

from bench.wire import (
    API_VERSIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    LIST_OFFSETS,
    BenchError,
    FetchPlan,
    ProducePlan,
    Reader,
    create_topics_body,
    delete_topics_body,
    list_offsets_body,
    request,
)

# Answers to a metadata change travel to the serving threads a little later; these say "not yet".
_NOT_READY = {3, 5, 6, 9, 41}
_RECEIVE_BYTES = 2 << 20


class RawClient:
    """One connection. Not for more than one thread."""

    def __init__(self, port: int, timeout_s: float = 60.0) -> None:
        """Connect; every later wait for the server is bounded by `timeout_s`."""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(64 << 10)

    def __enter__(self) -> "RawClient":
        """Use as a context manager to close the socket."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the socket."""
        self._socket.close()

    # Set-up requests, one at a time, not measured.

    def _ask(self, api_key: int, version: int, body: bytes) -> Reader:
        self._socket.sendall(request(api_key, version, 7, body, flexible=False))
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        answer = self._receive_exactly(size)
        if answer[:4] != b"\0\0\0\7":
            raise BenchError(f"answer to API {api_key} has another correlation id")
        return Reader(answer[4:])

    def _receive_exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise BenchError("the server closed the connection")
            parts += part
        return bytes(parts)

    def check_versions(self) -> None:
        """Ask ApiVersions, and require the versions that this client sends."""
        reader = self._ask(API_VERSIONS, 0, b"")
        error, count = reader.take("hi")
        if error:
            raise BenchError(f"ApiVersions answered error {error}")
        ranges = {key: (low, high) for key, low, high in (reader.take("hhh") for _ in range(count))}
        for key, version in ((0, 9), (1, 12), (LIST_OFFSETS, 2), (CREATE_TOPICS, 4)):
            low, high = ranges.get(key, (0, -1))
            if not low <= version <= high:
                raise BenchError(f"the server does not offer API {key} version {version}")

    def create_topics(self, topics: list[str], deadline_s: float = 60.0) -> None:
        """Create one-partition topics, and wait until their partitions can be used."""
        reader = self._ask(CREATE_TOPICS, 4, create_topics_body(topics))
        _, count = reader.take("ii")
        for _ in range(count):
            name = reader.string()
            (error,) = reader.take("h")
            message = reader.string()
            if error:
                raise BenchError(f"CreateTopics {name} answered error {error} {message}")
        self.wait_until_ready(topics, deadline_s)

    def wait_until_ready(self, topics: list[str], deadline_s: float) -> None:
        """Wait until every topic's partition 0 answers for its end offset."""
        deadline = time.monotonic() + deadline_s
        while True:
            errors = {error for error, _ in self._ends(topics).values()} - {0}
            if not errors:
                return
            if not errors <= _NOT_READY or time.monotonic() > deadline:
                raise BenchError(f"new topics answer errors {sorted(errors)}")
            time.sleep(0.005)

    def delete_topics(self, topics: list[str]) -> None:
        """Delete topics, so that runs do not fill the disk or the page cache."""
        reader = self._ask(DELETE_TOPICS, 3, delete_topics_body(topics))
        _, count = reader.take("ii")
        for _ in range(count):
            name = reader.string()
            (error,) = reader.take("h")
            if error:
                raise BenchError(f"DeleteTopics {name} answered error {error}")

    def end_offset(self, topic: str) -> int:
        """The end offset of partition 0."""
        error, offset = self._ends([topic])[topic]
        if error:
            raise BenchError(f"ListOffsets {topic} answered error {error}")
        return offset

    def _ends(self, topics: list[str]) -> dict[str, tuple[int, int]]:
        reader = self._ask(LIST_OFFSETS, 2, list_offsets_body(topics))
        ends = {}
        _, count = reader.take("ii")
        for _ in range(count):
            name = reader.string()
            _, _, error, _, offset = reader.take("iihqq")
            ends[name] = (error, offset)
        return ends

    # The measured loops.

    def produce(self, plan: ProducePlan, count: int, in_flight: int, start_offset: int = 0) -> None:
        """Send `count` requests of a plan, never more than `in_flight` unanswered.

        `start_offset` is the end offset of each topic of the plan before the first request.
        """
        sock, answer, slots = self._socket, plan.answer, plan.slots
        blocks = memoryview(plan.requests)
        request_bytes, answer_bytes = plan.request_bytes, answer.size
        buffer = memoryview(self._buffer)
        topics, records = plan.topics, plan.batch.records
        sent = acked = filled = 0
        while acked < count:
            while sent < count and sent - acked < in_flight:
                slot = sent % slots
                number = min(in_flight - (sent - acked), count - sent, slots - slot)
                sock.sendall(blocks[slot * request_bytes : (slot + number) * request_bytes])
                sent += number
            received = sock.recv_into(buffer[filled:])
            if not received:
                raise BenchError("the server closed the connection")
            filled += received
            whole = filled - filled % answer_bytes
            for size, slot, _, error, offset, _, _, _ in answer.iter_unpack(buffer[:whole]):
                if (
                    error
                    or size != answer_bytes - 4
                    or slot != acked % slots
                    or offset != start_offset + acked // topics * records
                ):
                    raise BenchError(
                        f"produce {acked} got error {error}, slot {slot}, offset {offset}"
                    )
                acked += 1
            if whole != filled:
                buffer[: filled - whole] = bytes(buffer[whole:filled])
            filled -= whole

    def fetch(self, plan: FetchPlan, batch_bytes: int, records: int, end: int, count: int) -> None:
        """Fetch `count` batches one request at a time, from offset 0 to `end` and around again."""
        sock, frame = self._socket, plan.frame
        if len(self._buffer) < batch_bytes + 4096:
            self._buffer = bytearray(max(_RECEIVE_BYTES, batch_bytes + 4096))
        buffer = memoryview(self._buffer)
        offset = 0
        for number in range(count):
            struct.pack_into(">i", frame, 8, number)
            struct.pack_into(">q", frame, plan.offset_at, offset)
            sock.sendall(frame)
            filled, size = 0, 4
            while filled < size:
                received = sock.recv_into(buffer[filled:])
                if not received:
                    raise BenchError("the server closed the connection")
                filled += received
                if filled >= 4 and size == 4:
                    size = 4 + struct.unpack_from(">i", buffer)[0]
                    if not 4 < size <= len(buffer):
                        raise BenchError(f"a fetch answer of {size} bytes")
            _check_fetched(buffer[:size], plan, number, offset, batch_bytes)
            offset += records
            if offset >= end:
                offset = 0


def _check_fetched(
    answer: memoryview, plan: FetchPlan, number: int, offset: int, batch_bytes: int
) -> None:
    (correlation_id,) = struct.unpack_from(">i", answer, 4)
    (whole_error,) = struct.unpack_from(">h", answer, 13)
    (error,) = struct.unpack_from(">h", answer, plan.error_at)
    if correlation_id != number or whole_error or error:
        raise BenchError(
            f"fetch {number} at {offset} answered {correlation_id}, errors {whole_error} {error}"
        )
    at = plan.records_at
    length = shift = 0
    while True:
        byte = answer[at]
        at += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    base, batch_length = struct.unpack_from(">qi", answer, at)
    if length - 1 != batch_bytes or base != offset or batch_length + 12 != batch_bytes:
        raise BenchError(f"fetch at {offset} gave {length - 1} bytes beginning at offset {base}")
