"""The error table is compared with two tables that others wrote from Kafka's source."""

import importlib

import pytest
from kio.schema.errors import ErrorCode

from kbroker.protocol.errors import (
    ERRORS,
    CorruptMessage,
    FrameError,
    InvalidTopicException,
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
    error_name,
)

# Where kafka-python kept an older name. All that it says beyond these must agree with us.
KAFKA_PYTHON_NAMES = {
    -1: "UNKNOWN",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}
# kafka-python has corruption as final; Kafka's CorruptRecordException is retriable, as kio says.
KAFKA_PYTHON_FINAL = {CorruptMessage.code}


def test_codes_names_and_retriable_flags_are_those_of_kio() -> None:
    ours = {code: (error.name.lower(), error.retriable) for code, error in ERRORS.items()}
    theirs = {error.value: (error.name, error.retriable) for error in ErrorCode if error.value}
    assert ours == theirs


# kafka-python loads its schemas, at import, by calls that Python has deprecated.
@pytest.mark.filterwarnings("ignore:(open|read)_text is deprecated:DeprecationWarning")
def test_codes_names_and_retriable_flags_are_those_of_kafka_python() -> None:
    table = importlib.import_module("kafka.errors").kafka_errors
    theirs = {code: error for code, error in table.items() if code}
    assert len(theirs) > 120
    for code, error in theirs.items():
        ours = ERRORS[code]
        assert KAFKA_PYTHON_NAMES.get(code, ours.name) == error.message
        assert (ours.retriable and code not in KAFKA_PYTHON_FINAL) == error.retriable, ours.name


def test_the_table_has_no_gap_and_no_success() -> None:
    assert sorted(ERRORS) == [-1, *range(1, 134)]
    assert all(error.code == code for code, error in ERRORS.items())


def test_a_doubled_number_is_refused() -> None:
    with pytest.raises(TypeError, match="code 3 belongs to UnknownTopicOrPartition"):
        type("Impostor", (KafkaError,), {}, code=3)
    assert ERRORS[3] is UnknownTopicOrPartition


def test_a_message_is_kept_for_the_client_and_its_absence_is_null() -> None:
    error = UnknownTopicOrPartition("no topic orders")
    assert error.message == "no topic orders"
    assert str(error) == "UNKNOWN_TOPIC_OR_PARTITION: no topic orders"
    assert NotLeaderOrFollower().message is None
    assert str(NotLeaderOrFollower()) == "NOT_LEADER_OR_FOLLOWER"


def test_names_are_found_by_code_and_unknown_codes_stay_visible() -> None:
    assert error_name(InvalidTopicException.code) == "INVALID_TOPIC_EXCEPTION"
    assert error_name(0) == "NONE"
    assert error_name(9999) == "UNKNOWN_ERROR_CODE_9999"


def test_a_broken_frame_is_not_an_answer() -> None:
    assert not issubclass(FrameError, KafkaError)
