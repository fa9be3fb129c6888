"""Writes the generated parts of the README: `python -m tools.readme`.

The table of APIs comes from the handlers' registry, so that it cannot claim what is not there; a
test compares it with the file.
"""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def api_table() -> str:
    """One line for each API that the broker answers, in the order of their keys."""
    import kbroker.handlers  # noqa: F401  # fills the registry
    from kbroker.handlers.registry import APIS

    lines = ["| key | API | versions |", "|--:|---|---|"]
    for entry in sorted(APIS.values(), key=lambda entry: entry.key):
        first, last = entry.advertised[0], entry.advertised[-1]
        lines.append(f"| {entry.key} | {entry.name} | {first}-{last} |")
    return "\n".join(lines)


def with_generated_parts(text: str) -> str:
    """The README with its generated parts renewed."""
    return re.sub(
        r"<!-- apis -->\n.*<!-- /apis -->",
        f"<!-- apis -->\n{api_table()}\n<!-- /apis -->",
        text,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    README.write_text(with_generated_parts(README.read_text()))
