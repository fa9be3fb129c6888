"""What a changed configuration means for a running broker.

What can be applied is applied, what cannot is named; a mistake in the file changes nothing. Topics
that the file declares ([topic=NAME]) are made if they are missing, and get the settings that it
gives them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kbroker.broker import Broker
from kbroker.config import declared
from kbroker.config_sources import Gathered, TopicSection
from kbroker.handlers.topic_rules import check_new_name, check_room, parse_overrides
from kbroker.protocol.errors import KafkaError

log = logging.getLogger("kbroker.server")


def compare(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The names of changed settings: those that can be applied now, and those that need a
    restart."""
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    now = [name for name in changed if declared(name).dynamic]
    later = [name for name in changed if not declared(name).dynamic]
    return now, later


def apply(broker: Broker, old: Gathered, new: Gathered) -> None:
    """Puts a new configuration into force as far as that can be done without a restart."""
    before, after = {**old.weak_texts, **old.texts}, {**new.weak_texts, **new.texts}
    now, later = compare(before, after)
    for name in now:
        if name in after:
            broker.settings.static[name] = declared(name).parse(after[name])
        else:
            broker.settings.static.pop(name, None)
    broker.catalog.reconfigure()
    declare_topics(broker, new.topics)
    log.info("reloaded applied=%s", ",".join(now) or "-")
    if later:
        log.warning("reload_incomplete names=%s hint='restart to apply them'", ",".join(later))


def declare_topics(broker: Broker, sections: Mapping[str, TopicSection]) -> None:
    """Makes the topics that a file declares, and sets what it says about them."""
    for name, section in sections.items():
        try:
            _declare(broker, name, section)
        except KafkaError as problem:
            log.error("topic_not_declared topic=%s error=%s", name, problem)


def _declare(broker: Broker, name: str, section: TopicSection) -> None:
    topic = broker.catalog.topics.get(name)
    count = section.partition_count or broker.settings.integer("num.partitions")
    if topic is None:
        check_new_name(broker, name)
        check_room(broker, count)
        broker.catalog.create(name, count, parse_overrides(dict(section.texts)))
        return
    if section.partition_count is not None and section.partition_count > topic.partition_count:
        check_room(broker, section.partition_count - topic.partition_count)
        broker.catalog.grow(topic, section.partition_count)
    stored = broker.catalog.configs(f"topic:{name}")
    if section.texts.items() - stored.items():
        broker.catalog.set_configs(f"topic:{name}", {**stored, **section.texts})
