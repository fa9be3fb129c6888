"""Settings: one declaration each, by Kafka's names, with MetaQ's as aliases.

From a declaration come the parser, the range check, the answer to DescribeConfigs and the value
that the code uses. A topic's value is its own override, or the broker's setting of the related name
(`segment.bytes` falls back to `log.segment.bytes`), or the default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbroker.setting import Setting, Value
from kbroker.settings_table import ALL_BROKER_SETTINGS, METAQ_NAMES, TOPIC_SETTINGS


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
        self.facts: dict[str, Value] = {}  # what came of them: the port that was free, and so on
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


class UnknownSetting(ValueError):
    """Nobody knows this name; the message has the nearest that is known."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        from difflib import get_close_matches

        near = get_close_matches(name, list(known), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        super().__init__(f"unknown setting {name}{hint}")


def declared(name: str) -> Setting:
    """The declaration of a broker setting, by Kafka's name or MetaQ's."""
    setting = ALL_BROKER_SETTINGS.get(name) or METAQ_NAMES.get(name)
    if setting is None:
        raise UnknownSetting(name, [*ALL_BROKER_SETTINGS, *METAQ_NAMES])
    return setting
