"""Where settings come from, and what a mistake in them says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.config_sources import ConfigError, Gathered, gather, setting_of
from kbroker.setting import LONG_MAX


def of_file(tmp_path: Path, text: str, name: str = "server.ini") -> Gathered:
    path = tmp_path / name
    path.write_text(text)
    return gather(str(path), {}, {})


def test_a_server_ini_of_metaq_is_understood(tmp_path: Path) -> None:
    gathered = of_file(
        tmp_path,
        """
        ; a MetaQ broker
        [system]
        brokerId=3
        numPartitions=2
        unflushThreshold=500
        unflushInterval=2000
        maxSegmentSize=1048576
        deletePolicy=delete,48
        getProcessThreadCount=4

        [zookeeper]
        zk.zkConnect=localhost:2181

        [topic=orders]
        numPartitions=8
        unflushThreshold=0
        deletePolicy=delete,90m
        """,
    )
    settings = gathered.settings()
    assert settings.integer("node.id") == 3
    assert settings.integer("num.partitions") == 2
    topic = settings.for_topic({})
    assert (topic.flush_messages, topic.flush_ms, topic.segment_bytes) == (500, 2000, 1048576)
    assert settings["log.retention.ms"] == 48 * 3_600_000
    orders = gathered.topics["orders"]
    assert orders.partition_count == 8
    assert orders.texts == {
        "kbroker.flush.group.commit": "true",
        "flush.messages": str(LONG_MAX),
        "retention.ms": str(90 * 60_000),
    }
    assert gathered.unused == ["getProcessThreadCount", "zk.zkConnect"]


def test_kafkas_own_sample_of_a_server_properties_is_understood(tmp_path: Path) -> None:
    gathered = of_file(
        tmp_path,
        """
        # from a Kafka installation
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://:9092
        advertised.listeners=PLAINTEXT://example.org:9092
        num.network.threads=3
        socket.request.max.bytes=104857600
        log.dirs=/tmp/kraft-logs
        num.partitions=1
        offsets.topic.replication.factor=1
        log.retention.hours=168
        log.segment.bytes=1073741824
        log.retention.check.interval.ms=300000
        """,
        "server.properties",
    )
    settings = gathered.settings()
    assert settings.texts("advertised.listeners") == ["PLAINTEXT://example.org:9092"]
    assert settings["log.retention.ms"] == 168 * 3_600_000
    assert "num.network.threads" in gathered.unused
    assert "process.roles" in gathered.unused


def test_milliseconds_beat_hours_whatever_their_order(tmp_path: Path) -> None:
    for text in (
        "log.retention.ms=5\nlog.retention.hours=1\n",
        "log.retention.hours=1\nlog.retention.ms=5\n",
    ):
        assert of_file(tmp_path, text).settings()["log.retention.ms"] == 5


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.ini"
    path.write_text("[system]\nnumPartitions=2\nnode.id=7\nlog.flush.interval.ms=1\n")
    environment = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_FLUSH_INTERVAL_MS": "2"}
    settings = gather(str(path), environment, {"num.partitions": "4"}).settings()
    assert settings.integer("num.partitions") == 4
    assert settings.integer("log.flush.interval.ms") == 2
    assert settings.integer("node.id") == 7


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_A___B", "a-b"),
    ],
)
def test_variables_are_translated_as_in_kafkas_image(variable: str, name: str) -> None:
    assert setting_of(variable) == name


def test_a_variable_of_another_program_does_not_stop_a_start() -> None:
    gathered = gather(None, {"KAFKA_BOOTSTRAP_SERVERS": "localhost:9092"}, {})
    assert gathered.texts == {}
    assert gathered.unused == ["KAFKA_BOOTSTRAP_SERVERS"]


def test_variables_of_kafkas_start_scripts_are_left_alone() -> None:
    environment = {
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_JMX_PORT": "9999",
        "KAFKA_OPTS": "x",
        "PATH": "y",
    }
    assert gather(None, environment, {}).texts == {}


def test_a_misspelt_name_gets_a_suggestion_and_its_place(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"server.ini:2: unknown setting numPartitons; did you mean numPartitions"
    ):
        of_file(tmp_path, "[system]\nnumPartitons=2\n")
    with pytest.raises(ConfigError, match=r"--set num.partition=2: .* did you mean num.partitions"):
        gather(None, {}, {"num.partition": "2"})
    with pytest.raises(
        ConfigError, match=r":2: unknown setting retention.mss; did you mean retention.ms"
    ):
        of_file(tmp_path, "[topic=a]\nretention.mss=2\n")


def test_a_wrong_value_names_file_line_and_range(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"server.ini:3: num.partitions lies between 1 and 2147483647, not 0"
    ):
        of_file(tmp_path, "[system]\n\nnum.partitions=0\n")
    with pytest.raises(ConfigError, match=r"numPartitions|num.partitions is a number, not 'many'"):
        of_file(tmp_path, "[system]\nnumPartitions=many\n")
    with pytest.raises(
        ConfigError, match=r"KAFKA_AUTO_CREATE_TOPICS_ENABLE: .* is true or false, not 'maybe'"
    ):
        gather(None, {"KAFKA_AUTO_CREATE_TOPICS_ENABLE": "maybe"}, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[sistem]\n", "unknown section"),
        ("just words\n", "not of the form name=value"),
        ("[system]\ndeletePolicy=burn,3\n", "deletePolicy is delete,<age>"),
    ],
)
def test_what_is_no_setting_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        of_file(tmp_path, text)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.ini"
    path.write_bytes(b"[system]\n# caf\xe9\n")
    with pytest.raises(ConfigError, match="byte 14 is not UTF-8"):
        gather(str(path), {}, {})


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        gather("/no/such/file.ini", {}, {})


def test_a_long_line_goes_on_below(tmp_path: Path) -> None:
    text = "listeners=PLAINTEXT://:1,\\\n   INSIDE://:2\n"
    settings = of_file(tmp_path, text, "server.properties").settings()
    assert settings.texts("listeners") == ["PLAINTEXT://:1", "INSIDE://:2"]
