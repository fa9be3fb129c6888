"""Writes the generated parts of the documentation: `python -m tools.docs`.

The README's table of APIs comes from the handlers' registry and docs/settings.md from the settings'
declarations, so that neither can claim what is not there; a test compares them with the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from kbroker.setting import Setting, text_of
from kbroker.settings_table import BROKER_SETTINGS, TOPIC_SETTINGS, WITHOUT_EFFECT

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
SETTINGS = ROOT / "docs" / "settings.md"
_KINDS = {1: "true or false", 2: "text", 3: "int32", 4: "int16", 5: "int64", 6: "number", 7: "list"}

_SETTINGS_HEAD = """# Settings

Generated from the declarations by `python -m tools.docs`.

Flags beat the environment, which beats the file:

- `kbroker start --set num.partitions=3`, as often as needed;
- `KAFKA_NUM_PARTITIONS=3`, as in Apache Kafka's container image;
- `kbroker start --config FILE`: MetaQ's `server.ini` ([system], [zookeeper], [topic=NAME]) or
  Kafka's `server.properties`. Both know Kafka's names and MetaQ's. [topic=NAME] makes the topic if
  it is missing.

A changed file, or SIGHUP, has everything read again: what can be applied is applied, what needs a
restart is named in the log, and a mistake changes nothing. Settings that Kafka knows and kbroker
has no use for are named once in the log.
"""


def api_table() -> str:
    """One line for each API that the broker answers, in the order of their keys."""
    import kbroker.handlers  # noqa: F401  # fills the registry
    from kbroker.handlers.registry import APIS

    lines = ["| key | API | versions |", "|--:|---|---|"]
    for entry in sorted(APIS.values(), key=lambda entry: entry.key):
        first, last = entry.advertised[0], entry.advertised[-1]
        lines.append(f"| {entry.key} | {entry.name} | {first}-{last} |")
    return "\n".join(lines)


def readme_page(text: str) -> str:
    """The README with its generated part renewed."""
    return re.sub(
        r"<!-- apis -->\n.*<!-- /apis -->",
        f"<!-- apis -->\n{api_table()}\n<!-- /apis -->",
        text,
        flags=re.DOTALL,
    )


def settings_page() -> str:
    """Every setting, in two tables."""
    topic_lines = [
        "| name | broker-wide name | default | kind | MetaQ | meaning |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{s.name}` | {_code(s.broker_name)} | {_default(s)} | {_allowed(s)} |"
            f" {_code(s.metaq_name)} | {s.help}{_effect(s)} |"
            for s in _sorted(TOPIC_SETTINGS.values())
        ),
    ]
    broker_lines = [
        "| name | default | kind | MetaQ | reload | meaning |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{s.name}` | {_default(s)} | {_allowed(s)} | {_code(s.metaq_name)} |"
            f" {'yes' if s.dynamic else 'restart'} | {s.help}{_effect(s)} |"
            for s in _sorted(BROKER_SETTINGS.values())
        ),
    ]
    return "\n".join(
        [
            _SETTINGS_HEAD,
            "## Of topics",
            "",
            "Set for a topic when it is made or by any Kafka admin tool; for all topics by the",
            "broker-wide name. Both can be changed while the broker runs.",
            "",
            *topic_lines,
            "",
            "## Of the broker",
            "",
            *broker_lines,
            "",
        ]
    )


def _sorted(settings: Iterable[Setting]) -> list[Setting]:
    return sorted(settings, key=lambda setting: setting.name)


def _effect(setting: Setting) -> str:
    return " **No effect yet.**" if setting.name in WITHOUT_EFFECT else ""


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _default(setting: Setting) -> str:
    return _code(text_of(setting.default) or "")


def _allowed(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(setting.choices)
    kind = _KINDS[setting.kind]
    if setting.low is not None and setting.high is not None:
        return f"{kind}, {setting.low} to {setting.high}"
    return f"{kind}, at least {setting.low}" if setting.low is not None else kind


if __name__ == "__main__":
    README.write_text(readme_page(README.read_text()))
    SETTINGS.write_text(settings_page())
