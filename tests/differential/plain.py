"""Answers as plain values that two brokers can be compared by: the one place that says what may
differ, and why.

A field is replaced by a word where its value belongs to the machine or the moment. Everything else
must be equal, texts excepted: an error's number is the protocol, its sentence is the author's.
Node ids and leader epochs are not here: kbroker is started with Apache Kafka's node id, and on an
empty data folder both begin with epoch 0.
"""

from collections.abc import Callable, Iterator

from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.primitives import ZERO_UUID
from kbroker.protocol.schema import Message

Plain = None | bool | int | float | str | bytes | list["Plain"] | dict[str, "Plain"]

# Kafka delays answers to slow clients down by quotas, which kbroker has not.
IGNORED = frozenset({"throttle_time_ms"})


def _some(what: str) -> Callable[[object], Plain]:
    """Only whether there is a value."""
    return lambda value: None if value is None else f"<{what}>"


def _clock(value: object) -> Plain:
    """A time of the broker's clock; -1 means that there is none."""
    return "<time>" if isinstance(value, int) and value >= 0 else -1


def _size(value: object) -> Plain:
    """Bytes of a disk; -1 means unknown."""
    return "<bytes>" if isinstance(value, int) and value >= 0 else -1


WORDS: dict[str, Callable[[object], Plain]] = {
    "host": _some("host"),
    "port": _some("port"),  # two processes on one machine
    "cluster_id": _some("cluster id"),  # made by chance when the data folder is made
    "log_dir": _some("log dir"),
    "total_bytes": _size,  # of the disk, which others use at the same time
    "usable_bytes": _size,
    "log_append_time_ms": _clock,
    "error_message": lambda value: "<text>",  # nor whether there is one: clients show the code's
    "batch_index_error_message": lambda value: "<text>",
    "documentation": _some("text"),
    # Null or empty: no transaction was aborted either way, and clients do not tell them apart.
    "aborted_transactions": lambda value: str(value) if value else None,
}

# Apache Kafka fills these from hash tables, so their order means nothing; they are put in order of
# this field of theirs.
UNORDERED = {
    "CreatableTopicResult.configs": "name",
    "CreatePartitionsResponse.results": "name",
    "CreateTopicsResponse.topics": "name",
    "DeleteRecordsTopicResult.partitions": "partition_index",
    "DeleteTopicsResponse.responses": "name",
    "DescribeConfigsResult.configs": "name",
    "DescribeLogDirsResult.topics": "name",
    "DescribeLogDirsTopic.partitions": "partition_index",
    "ListOffsetsResponse.topics": "name",
    "ListOffsetsTopicResponse.partitions": "partition_index",
    "MetadataResponse.topics": "name",
    "OffsetForLeaderEpochResponse.topics": "topic",
    "OffsetForLeaderTopicResult.partitions": "partition",
    "TopicProduceResponse.partition_responses": "index",
}


def plain(value: object, name_of_id: Callable[[bytes], str], field: str = "") -> Plain:
    """A message, or part of one, without what may differ; topic ids become the topics' names."""
    if field in WORDS:
        return WORDS[field](value)
    if isinstance(value, FetchResponse):
        return {
            "error_code": value.error_code,
            "node_endpoints": plain(value.node_endpoints, name_of_id),
            "partitions": _fetched(value, name_of_id),
        }
    if isinstance(value, Message):
        return {
            f.name: _in_order(
                plain(getattr(value, f.name), name_of_id, f.name),
                UNORDERED.get(f"{type(value).__name__}.{f.name}"),
            )
            for f in value.fields
            if f.name not in IGNORED
        }
    if isinstance(value, list):
        return [plain(item, name_of_id, field) for item in value]
    if field == "topic_id":
        assert isinstance(value, bytes)
        return None if value == ZERO_UUID else name_of_id(value)
    if isinstance(value, memoryview):
        return bytes(value)
    assert value is None or isinstance(value, bool | int | float | str | bytes)
    return value


def _fetched(answer: FetchResponse, name_of_id: Callable[[bytes], str]) -> Plain:
    """The partitions of a Fetch answer by their names: Apache Kafka tells those with errors last,
    and then in an entry of their own."""
    found: dict[str, Plain] = {}
    for topic in answer.responses:
        name = topic.topic or plain(topic.topic_id, name_of_id, "topic_id")
        for partition in topic.partitions:
            key = f"{name!r}-{partition.partition_index}"
            assert key not in found, f"{key} is told twice"
            found[key] = plain(partition, name_of_id)
    return found


def _in_order(value: Plain, field: str | None) -> Plain:
    if field is None or not isinstance(value, list):
        return value
    return sorted(value, key=lambda item: str(item[field]) if isinstance(item, dict) else "")


def differences(kbroker: object, kafka: object, path: str = "answer") -> Iterator[str]:
    """Where two plain values part, a line each: easier to read than both of them in full."""
    if isinstance(kbroker, dict) and isinstance(kafka, dict):
        for key in [*kafka, *(key for key in kbroker if key not in kafka)]:
            here = f"{path}.{key}"
            if key not in kbroker or key not in kafka:
                yield f"{here}: only {'kbroker' if key in kbroker else 'Apache Kafka'} has it"
            else:
                yield from differences(kbroker[key], kafka[key], here)
    elif isinstance(kbroker, list | tuple) and isinstance(kafka, list | tuple):
        if len(kbroker) != len(kafka):
            yield f"{path}: kbroker {kbroker!r}\n{path}: Apache Kafka {kafka!r}"
        else:
            for index, (one, other) in enumerate(zip(kbroker, kafka, strict=True)):
                yield from differences(one, other, f"{path}[{index}]")
    elif kbroker != kafka or type(kbroker) is not type(kafka):
        yield f"{path}: kbroker {kbroker!r}, Apache Kafka {kafka!r}"
