"""Where settings come from: flags before environment before file.

The file is MetaQ's `server.ini` ([system], [zookeeper], [topic=NAME]) or Kafka's
`server.properties`; the first section header decides. Kafka's and MetaQ's names are both understood
in either. The environment is that of Kafka's container image: KAFKA_LOG_RETENTION_MS is
log.retention.ms. A name that nobody knows is an error with a suggestion; one that Kafka knows and
kbroker does not need is reported and left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kbroker.config import Settings, UnknownSetting, declared
from kbroker.setting import LONG_MAX
from kbroker.settings_table import TOPIC_SETTINGS

_SECTION = re.compile(r"\[\s*(system|zookeeper|topic\s*=\s*(?P<topic>[^\]\s]+))\s*\]")
_AGE = re.compile(r"(\d+)\s*([smh]?)")
_AGE_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "": 3_600_000}  # MetaQ counts in hours

# MetaQ's settings that steer what kbroker does by itself, or does not have.
_METAQ_NAMES_UNUSED = """
    acceptPublish acceptSubscribe autoSyncMasterConfig checkpointInterval configFileChecksum
    dashboardHttpPort dataLogPath flushTxLogAtCommit getProcessThreadCount hostName lastModified
    loadMessageStoresInParallel maxCheckpoints maxTransferSize maxTxTimeoutInSeconds
    maxTxTimeoutTimerCapacity putProcessThreadCount slaveGroup slaveId slaveMaxDelayInMills stat
    topics updateConsumerOffsets deleteWhen
"""
_METAQ_UNUSED = frozenset(_METAQ_NAMES_UNUSED.split())
# Kafka's coarser units, which give way to the name in milliseconds, and its older names.
_OTHER_UNITS = {
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
}
_OTHER_NAMES = {"broker.id": "node.id", "log.dir": "log.dirs"}
_ENVIRONMENT_UNUSED = re.compile(
    r"KAFKA_(OPTS|HEAP_OPTS|HOME|VERSION|CLUSTER_ID|GC_LOG_OPTS|DEBUG|JMX_.*|LOG4J.*|JVM_.*)"
)


class ConfigError(Exception):
    """A setting is wrong; the message names the place and what is allowed."""


class UnknownName(ConfigError):
    """Nobody knows a setting of this name."""


@dataclass
class TopicSection:
    """What a file says about one topic."""

    partition_count: int | None = None
    texts: dict[str, str] = field(default_factory=dict)


@dataclass
class Gathered:
    """All that the sources say."""

    texts: dict[str, str] = field(default_factory=dict)
    topics: dict[str, TopicSection] = field(default_factory=dict)
    weak_texts: dict[str, str] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)

    def settings(self) -> Settings:
        """The settings object of a broker."""
        return Settings({**self.weak_texts, **self.texts})


def gather(
    config_path: str | None, environment: Mapping[str, str], flags: Mapping[str, str]
) -> Gathered:
    """Reads all sources; ConfigError names the place of the first mistake."""
    gathered = Gathered()
    if config_path is not None:
        _read_file(gathered, config_path)
    for variable, value in sorted(environment.items()):
        if variable.startswith("KAFKA_") and not _ENVIRONMENT_UNUSED.fullmatch(variable):
            place = f"the environment variable {variable}"
            try:
                _set(gathered, setting_of(variable), value, place)
            except UnknownName:
                # Programs beside a broker have such variables too (KAFKA_BOOTSTRAP_SERVERS).
                gathered.unused.append(variable)
    for name, value in flags.items():
        _set(gathered, name, value, f"--set {name}={value}", known_only=True)
    return gathered


def setting_of(variable: str) -> str:
    """KAFKA_A_B__C___D is a.b_c-d, as in Kafka's container image."""
    name = variable.removeprefix("KAFKA_").lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


# Files


def _read_file(gathered: Gathered, path: str) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{path}: byte {problem.start} is not UTF-8; save it as UTF-8") from None
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror}") from None
    topic: str | None = None
    for number, name, value in _pairs(lines, path):
        place = f"{path}:{number}"
        if value is None:
            section = _SECTION.fullmatch(name)
            if section is None:
                raise ConfigError(
                    f"{place}: unknown section {name}; there are [system], [zookeeper]"
                    " and [topic=NAME]"
                )
            topic = section["topic"]
            if topic is not None:
                gathered.topics.setdefault(topic, TopicSection())
        elif topic is not None:
            _set_topic(gathered, topic, name, value, place)
        else:
            _set(gathered, name, value, place)


def _pairs(lines: list[str], path: str) -> list[tuple[int, str, str | None]]:
    """(line number, name, value) of every setting; a section has no value."""
    found: list[tuple[int, str, str | None]] = []
    number = 0
    while number < len(lines):
        line, started = lines[number].strip(), number + 1
        while line.endswith("\\") and number + 1 < len(lines):  # a long line goes on below
            number += 1
            line = line[:-1] + lines[number].strip()
        number += 1
        if not line or line[0] in "#!;":
            continue
        if line.startswith("["):
            found.append((started, line, None))
            continue
        parts = re.split(r"\s*[=:]\s*", line, maxsplit=1)
        if len(parts) != 2:
            raise ConfigError(f"{path}:{started}: {line!r} is not of the form name=value")
        found.append((started, parts[0], parts[1]))
    return found


# One setting


def _set(
    gathered: Gathered, name: str, value: str, place: str, *, known_only: bool = False
) -> None:
    try:
        if name in _OTHER_UNITS:
            stronger, unit_ms = _OTHER_UNITS[name]
            gathered.weak_texts.setdefault(stronger, str(_number(name, value) * unit_ms))
            return
        for meant, text in _translated(name, value):
            topic_setting = TOPIC_SETTINGS.get(meant)
            setting = declared(topic_setting.broker_name if topic_setting else meant)
            setting.parse(text)
            gathered.texts[setting.name] = text
    except UnknownSetting as problem:
        if not known_only and _is_known_elsewhere(name):
            gathered.unused.append(name)
            return
        raise UnknownName(f"{place}: {problem}") from None
    except ValueError as problem:
        raise ConfigError(f"{place}: {problem}") from None


def _set_topic(gathered: Gathered, topic: str, name: str, value: str, place: str) -> None:
    section = gathered.topics[topic]
    try:
        if name in ("numPartitions", "num.partitions"):
            section.partition_count = int(str(declared("num.partitions").parse(value)))
            return
        for meant, text in _translated(name, value):
            declaration = TOPIC_SETTINGS.get(meant)
            if declaration is None:
                declaration = next(
                    (s for s in TOPIC_SETTINGS.values() if meant in (s.metaq_name, s.broker_name)),
                    None,
                )
            if declaration is None:
                if name in _METAQ_UNUSED:
                    gathered.unused.append(name)
                    return
                raise UnknownSetting(name, [*TOPIC_SETTINGS, "numPartitions"])
            declaration.parse(text)
            section.texts[declaration.name] = text
    except ValueError as problem:
        raise ConfigError(f"{place}: {problem}") from None


def _is_known_elsewhere(name: str) -> bool:
    from kbroker.kafka_names import KAFKA_NAMES

    return (
        name in KAFKA_NAMES
        or name in _METAQ_UNUSED
        or name.startswith(("zk.", "listener.name.", "sasl.", "ssl.", "controller."))
    )


def _translated(name: str, value: str) -> list[tuple[str, str]]:
    """MetaQ's settings that say more than one thing, or in other units; others as they are."""
    if name == "unflushThreshold":
        count = _number(name, value)
        if count <= 0:  # MetaQ: group commit
            return [("kbroker.flush.group.commit", "true"), ("flush.messages", str(LONG_MAX))]
        return [("flush.messages", str(count))]
    if name == "deletePolicy":
        policy, _, age = value.partition(",")
        found = _AGE.fullmatch(age.strip())
        if policy.strip() != "delete" or found is None:
            raise ValueError(
                f"deletePolicy is delete,<age>, such as delete,168 (hours), not {value!r}"
            )
        return [("retention.ms", str(int(found[1]) * _AGE_UNIT_MS[found[2]]))]
    if name == "serverPort":
        return [("listeners", f"PLAINTEXT://:{_number(name, value)}")]
    return [(_OTHER_NAMES.get(name, name), value)]


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{name} is a number, not {value!r}") from None
