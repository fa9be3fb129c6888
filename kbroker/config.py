"""Settings: one declaration each, by Kafka's names, with MetaQ's as aliases.

From a declaration come the parser, the range check, the answer to DescribeConfigs and the value
that the code uses. A topic's value is its own override, or the broker's setting of the related name
(`segment.bytes` falls back to `log.segment.bytes`), or the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

LONG_MAX: Final = (1 << 63) - 1
INT_MAX: Final = (1 << 31) - 1

Value = bool | int | float | str | list[str]

# Kafka's numbers of the types, as DescribeConfigs sends them.
BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = 1, 2, 3, 4, 5, 6, 7

_RANGES: Final = {
    INT: (-(1 << 31), INT_MAX),
    SHORT: (-(1 << 15), (1 << 15) - 1),
    LONG: (-(1 << 63), LONG_MAX),
}


class Setting:
    """The declaration of one setting."""

    __slots__ = (
        "broker_name",
        "choices",
        "default",
        "dynamic",
        "help",
        "high",
        "kind",
        "low",
        "metaq_name",
        "name",
        "pattern",
        "unset_for_brokers",
    )

    def __init__(
        self,
        name: str,
        kind: int,
        default: Value | None,
        help: str,
        *,
        low: float | None = None,
        high: float | None = None,
        choices: tuple[str, ...] = (),
        pattern: str = "",
        broker_name: str = "",
        unset_for_brokers: bool = False,
        metaq_name: str = "",
        dynamic: bool = True,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.help = help
        self.low = low
        self.high = high
        self.choices = choices
        self.pattern = pattern
        self.broker_name = broker_name
        self.unset_for_brokers = unset_for_brokers
        self.metaq_name = metaq_name
        self.dynamic = dynamic

    def parse(self, text: str) -> Value:
        """The value that a text means; ValueError says what is allowed instead."""
        text = text.strip()
        if self.kind == BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{self.name} is true or false, not {text!r}")
            self._check_choice(text.lower())
            return text.lower() == "true"
        if self.kind in (INT, SHORT, LONG, DOUBLE):
            return self._parse_number(text)
        if self.kind == LIST:
            items = [item.strip() for item in text.split(",")] if text else []
            for item in items:
                self._check_choice(item)
            self._check_pattern(",".join(items))
            return items
        self._check_choice(text)
        return text

    def _parse_number(self, text: str) -> int | float:
        try:
            if "_" in text:  # Python would take 1_000 for a thousand
                raise ValueError
            number: int | float = float(text) if self.kind == DOUBLE else int(text)
        except ValueError:
            raise ValueError(f"{self.name} is a number, not {text!r}") from None
        kind_low, kind_high = _RANGES.get(self.kind, (None, None))
        low = self.low if self.low is not None else kind_low
        high = self.high if self.high is not None else kind_high
        if (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(f"{self.name} lies between {low} and {high}, not {text}")
        self._check_choice(str(number))
        return number

    def _check_choice(self, item: str) -> None:
        if self.choices and item not in self.choices:
            raise ValueError(f"{self.name} is one of {', '.join(self.choices)}, not {item!r}")

    def _check_pattern(self, text: str) -> None:
        if self.pattern:
            import re

            if not re.fullmatch(self.pattern, text):
                raise ValueError(f"{self.name} has another form than {text!r}")


def text_of(value: Value | None) -> str | None:
    """A value as Kafka's tools show it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    return str(value)


_REPLICAS: Final = r"\*|(\d+:\d+(,\d+:\d+)*)?"

TOPIC_SETTINGS: Final = {
    setting.name: setting
    for setting in (
        Setting(
            "cleanup.policy",
            LIST,
            ["delete"],
            "What happens to old segments: delete, compact, or both.",
            choices=("delete", "compact"),
            broker_name="log.cleanup.policy",
        ),
        Setting(
            "compression.type",
            STRING,
            "producer",
            "Codec of stored batches; producer keeps what the client sent.",
            choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            broker_name="compression.type",
        ),
        Setting(
            "compression.gzip.level",
            INT,
            -1,
            "Level when the broker itself compresses with gzip; -1 is gzip's own default.",
            choices=("-1", *map(str, range(1, 10))),
            broker_name="compression.gzip.level",
        ),
        Setting(
            "compression.lz4.level",
            INT,
            9,
            "Level when the broker itself compresses with lz4.",
            low=1,
            high=17,
            broker_name="compression.lz4.level",
        ),
        Setting(
            "compression.zstd.level",
            INT,
            3,
            "Level when the broker itself compresses with zstd.",
            low=-131072,
            high=22,
            broker_name="compression.zstd.level",
        ),
        Setting(
            "delete.retention.ms",
            LONG,
            86_400_000,
            "How long tombstones of a compacted topic stay.",
            low=0,
            broker_name="log.cleaner.delete.retention.ms",
        ),
        Setting(
            "file.delete.delay.ms",
            LONG,
            60_000,
            "How long a deleted segment's file stays.",
            low=0,
            broker_name="log.segment.delete.delay.ms",
        ),
        Setting(
            "flush.messages",
            LONG,
            LONG_MAX,
            "Records after which a partition is synced to disk; 1 syncs before each answer.",
            low=1,
            broker_name="log.flush.interval.messages",
            metaq_name="unflushThreshold",
        ),
        Setting(
            "flush.ms",
            LONG,
            10_000,
            "Time after which written records are synced to disk.",
            low=0,
            broker_name="log.flush.interval.ms",
            unset_for_brokers=True,
            metaq_name="unflushInterval",
        ),
        Setting(
            "index.interval.bytes",
            INT,
            4096,
            "Bytes between two entries of a segment's index.",
            low=0,
            broker_name="log.index.interval.bytes",
        ),
        Setting(
            "max.compaction.lag.ms",
            LONG,
            LONG_MAX,
            "Time after which a record must be considered for compaction.",
            low=1,
            broker_name="log.cleaner.max.compaction.lag.ms",
        ),
        Setting(
            "max.message.bytes",
            INT,
            1_048_588,
            "Largest record batch that is accepted.",
            low=0,
            broker_name="message.max.bytes",
        ),
        Setting(
            "message.timestamp.after.max.ms",
            LONG,
            3_600_000,
            "How far a record's time may lie ahead of the broker's.",
            low=0,
            broker_name="log.message.timestamp.after.max.ms",
        ),
        Setting(
            "message.timestamp.before.max.ms",
            LONG,
            LONG_MAX,
            "How far a record's time may lie behind the broker's.",
            low=0,
            broker_name="log.message.timestamp.before.max.ms",
        ),
        Setting(
            "message.timestamp.type",
            STRING,
            "CreateTime",
            "Whose clock counts: the producer's (CreateTime) or the broker's (LogAppendTime).",
            choices=("CreateTime", "LogAppendTime"),
            broker_name="log.message.timestamp.type",
        ),
        Setting(
            "min.cleanable.dirty.ratio",
            DOUBLE,
            0.5,
            "Share of uncompacted bytes at which compaction starts.",
            low=0,
            high=1,
            broker_name="log.cleaner.min.cleanable.ratio",
        ),
        Setting(
            "min.compaction.lag.ms",
            LONG,
            0,
            "Time for which a record stays uncompacted.",
            low=0,
            broker_name="log.cleaner.min.compaction.lag.ms",
        ),
        Setting(
            "min.insync.replicas",
            INT,
            1,
            "Replicas that must hold a record before acks=all is answered.",
            low=1,
            broker_name="min.insync.replicas",
        ),
        Setting(
            "preallocate",
            BOOLEAN,
            False,
            "Whether segments are allocated at full size when they are made.",
            broker_name="log.preallocate",
        ),
        Setting(
            "retention.bytes",
            LONG,
            -1,
            "Size of a partition beyond which old segments go; -1 is no limit.",
            broker_name="log.retention.bytes",
        ),
        Setting(
            "retention.ms",
            LONG,
            604_800_000,
            "Age at which segments go; -1 keeps them.",
            low=-1,
            broker_name="log.retention.ms",
            unset_for_brokers=True,
        ),
        Setting(
            "segment.bytes",
            INT,
            1_073_741_824,
            "Size at which a segment is sealed and the next one opened.",
            low=1024,
            broker_name="log.segment.bytes",
            metaq_name="maxSegmentSize",
        ),
        Setting(
            "segment.index.bytes",
            INT,
            10_485_760,
            "Kept for Kafka's tools; indexes here grow as they need.",
            low=4,
            broker_name="log.index.size.max.bytes",
        ),
        Setting(
            "segment.jitter.ms",
            LONG,
            0,
            "Random time by which an age-based roll comes earlier.",
            low=0,
            broker_name="log.roll.jitter.ms",
            unset_for_brokers=True,
        ),
        Setting(
            "segment.ms",
            LONG,
            604_800_000,
            "Age at which a segment is sealed.",
            low=1,
            broker_name="log.roll.ms",
            unset_for_brokers=True,
        ),
        Setting(
            "unclean.leader.election.enable",
            BOOLEAN,
            False,
            "Whether a replica that is behind may become master by itself.",
            broker_name="unclean.leader.election.enable",
        ),
        # Kafka's tools expect these in the list; throttles and tiered storage do not exist here.
        Setting(
            "leader.replication.throttled.replicas",
            LIST,
            [],
            "Kept for Kafka's tools: replicas as partition:broker, or * for all.",
            pattern=_REPLICAS,
        ),
        Setting(
            "follower.replication.throttled.replicas",
            LIST,
            [],
            "Kept for Kafka's tools: replicas as partition:broker, or * for all.",
            pattern=_REPLICAS,
        ),
        Setting(
            "remote.storage.enable",
            BOOLEAN,
            False,
            "Kept for Kafka's tools: there is no tiered storage, so it stays false.",
            choices=("false",),
        ),
        Setting(
            "remote.log.copy.disable",
            BOOLEAN,
            False,
            "Kept for Kafka's tools: there is no tiered storage.",
        ),
        Setting(
            "remote.log.delete.on.disable",
            BOOLEAN,
            False,
            "Kept for Kafka's tools: there is no tiered storage.",
        ),
        Setting(
            "local.retention.bytes",
            LONG,
            -2,
            "Kept for Kafka's tools: all data is local; -2 stands for retention.bytes.",
            low=-2,
            broker_name="log.local.retention.bytes",
        ),
        Setting(
            "local.retention.ms",
            LONG,
            -2,
            "Kept for Kafka's tools: all data is local; -2 stands for retention.ms.",
            low=-2,
            broker_name="log.local.retention.ms",
        ),
        Setting(
            "kbroker.flush.group.commit",
            BOOLEAN,
            False,
            "Answer only what is synced; one sync covers all that arrived meanwhile.",
            broker_name="kbroker.flush.group.commit",
        ),
    )
}

BROKER_SETTINGS: Final = {
    setting.name: setting
    for setting in (
        Setting(
            "node.id",
            INT,
            0,
            "This broker's number in its cluster.",
            low=0,
            metaq_name="brokerId",
            dynamic=False,
        ),
        Setting(
            "num.partitions",
            INT,
            1,
            "Partitions of a topic that is made without a number.",
            low=1,
            metaq_name="numPartitions",
        ),
        Setting(
            "default.replication.factor",
            INT,
            1,
            "Copies of a topic that is made without a number.",
            low=1,
        ),
        Setting(
            "auto.create.topics.enable",
            BOOLEAN,
            True,
            "Whether asking for an unknown topic makes it.",
        ),
        Setting("delete.topic.enable", BOOLEAN, True, "Whether topics may be deleted."),
        Setting(
            "log.dirs",
            LIST,
            ["kbroker-data"],
            "The data folder.",
            metaq_name="dataPath",
            dynamic=False,
        ),
        Setting(
            "listeners",
            LIST,
            ["PLAINTEXT://127.0.0.1:9092"],
            "Addresses the broker listens on.",
            dynamic=False,
        ),
        Setting(
            "advertised.listeners",
            LIST,
            [],
            "Addresses that clients are told; without it, the one at which each has come.",
            dynamic=False,
        ),
        Setting(
            "socket.request.max.bytes",
            INT,
            104_857_600,
            "Largest request that is read.",
            low=1,
            dynamic=False,
        ),
        Setting(
            "kbroker.control.request.max.bytes",
            INT,
            4 << 20,
            "Largest request without records; decoded, it takes up to 30 times its size.",
            low=1024,
            dynamic=False,
        ),
        Setting("max.connections", INT, INT_MAX, "Connections the broker holds at once.", low=0),
        Setting(
            "kbroker.connection.max.unsent.bytes",
            INT,
            16 << 20,
            "Unsent answer bytes at which a connection is not read further.",
            low=1,
            dynamic=False,
        ),
        Setting(
            "kbroker.connection.max.parked.requests",
            INT,
            100,
            "Unanswered requests at which a connection is not read further.",
            low=1,
            dynamic=False,
        ),
        Setting(
            "kbroker.max.parked.fetches",
            INT,
            100_000,
            "Long polls that may wait at once; beyond that they are answered at once.",
            low=0,
            dynamic=False,
        ),
        Setting(
            "kbroker.max.open.files",
            INT,
            2000,
            "Segment files kept open at once.",
            low=16,
            dynamic=False,
        ),
        Setting(
            "max.incremental.fetch.session.cache.slots",
            INT,
            1000,
            "Fetch sessions kept (KIP-227).",
            low=0,
            dynamic=False,
        ),
        Setting(
            "producer.id.expiration.ms",
            INT,
            86_400_000,
            "Time after which an idle producer's sequence numbers are forgotten.",
            low=1,
        ),
        Setting(
            "transaction.max.timeout.ms",
            INT,
            900_000,
            "Longest time a transaction may take.",
            low=1,
        ),
        Setting(
            "log.flush.offset.checkpoint.interval.ms",
            INT,
            60_000,
            "How often the recovery point is saved.",
            low=1,
            dynamic=False,
        ),
        Setting(
            "kbroker.max.partitions", INT, 100_000, "Partitions of all topics together.", low=1
        ),
    )
}


class TopicSettings:
    """The settings in force for one topic, as the code uses them."""

    __slots__ = (
        "compacted",
        "compression_type",
        "deletes",
        "flush_messages",
        "flush_ms",
        "group_commit",
        "index_interval_bytes",
        "log_append_time",
        "max_message_bytes",
        "min_insync_replicas",
        "segment_bytes",
        "segment_ms",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
    )

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.compacted = "compact" in _list(values["cleanup.policy"])
        self.deletes = "delete" in _list(values["cleanup.policy"])
        self.compression_type = str(values["compression.type"])
        self.flush_messages = _int(values["flush.messages"])
        self.flush_ms = _int(values["flush.ms"])
        self.group_commit = values["kbroker.flush.group.commit"] is True
        self.index_interval_bytes = _int(values["index.interval.bytes"])
        self.log_append_time = values["message.timestamp.type"] == "LogAppendTime"
        self.max_message_bytes = _int(values["max.message.bytes"])
        self.min_insync_replicas = _int(values["min.insync.replicas"])
        self.segment_bytes = _int(values["segment.bytes"])
        self.segment_ms = _int(values["segment.ms"])
        self.timestamp_after_max_ms = _int(values["message.timestamp.after.max.ms"])
        self.timestamp_before_max_ms = _int(values["message.timestamp.before.max.ms"])


def _int(value: Value) -> int:
    assert isinstance(value, int)
    return value


def _list(value: Value) -> list[str]:
    assert isinstance(value, list)
    return value


class Settings:
    """The broker's own settings: defaults, and what was set at the start or by an admin call."""

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        self.static: dict[str, Value] = {}
        self.dynamic: dict[str, Value] = {}
        for name, text in (static or {}).items():
            declaration = declared(name)
            self.static[declaration.name] = declaration.parse(text)

    def __getitem__(self, name: str) -> Value:
        value = self.dynamic.get(name, self.static.get(name))
        if value is None:
            value = declared(name).default
        assert value is not None, name
        return value

    def integer(self, name: str) -> int:
        """A whole number."""
        return _int(self[name])

    def texts(self, name: str) -> list[str]:
        """A list of texts."""
        return _list(self[name])

    def flag(self, name: str) -> bool:
        """A yes or no."""
        return self[name] is True

    def for_topic(self, overrides: Mapping[str, Value]) -> TopicSettings:
        """The settings in force for a topic with these values of its own."""
        values: dict[str, Value] = {}
        for name, setting in TOPIC_SETTINGS.items():
            value = overrides.get(name)
            if value is None:
                twin = setting.broker_name
                value = self.dynamic.get(twin, self.static.get(twin, setting.default))
            assert value is not None, name
            values[name] = value
        return TopicSettings(values)


# A topic setting's broker-wide twin has the same kind, default and range. Some twins have no value
# until somebody sets one, as in Kafka, where they only stand before others (log.retention.hours).
_TOPIC_TWINS: Final = {
    setting.broker_name: Setting(
        setting.broker_name,
        setting.kind,
        None if setting.unset_for_brokers else setting.default,
        setting.help,
        low=setting.low,
        high=setting.high,
        choices=setting.choices,
        metaq_name=setting.metaq_name,
    )
    for setting in TOPIC_SETTINGS.values()
    if setting.broker_name
}
ALL_BROKER_SETTINGS: Final = {**BROKER_SETTINGS, **_TOPIC_TWINS}
_METAQ_NAMES: Final = {s.metaq_name: s for s in ALL_BROKER_SETTINGS.values() if s.metaq_name}


class UnknownSetting(ValueError):
    """Nobody knows this name; the message has the nearest that is known."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        from difflib import get_close_matches

        near = get_close_matches(name, list(known), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        super().__init__(f"unknown setting {name}{hint}")


def declared(name: str) -> Setting:
    """The declaration of a broker setting, by Kafka's name or MetaQ's."""
    setting = ALL_BROKER_SETTINGS.get(name) or _METAQ_NAMES.get(name)
    if setting is None:
        raise UnknownSetting(name, [*ALL_BROKER_SETTINGS, *_METAQ_NAMES])
    return setting
