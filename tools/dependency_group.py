"""Print the requirements of one dependency group of pyproject.toml, for `pip install -r`.

pip reads such groups itself since 25.1, but the pip that comes with Python 3.11 is older.
Reading the group here means that no newer pip has to be downloaded first.
"""

import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"

Groups = dict[str, list[str | dict[str, str]]]


def requirements(groups: Groups, name: str) -> list[str]:
    """The requirements of group `name`, those of the groups that it includes too (PEP 735)."""
    found: list[str] = []
    for entry in groups[name]:
        if isinstance(entry, str):
            found.append(entry)
        else:
            found.extend(requirements(groups, entry["include-group"]))
    return found


if __name__ == "__main__":
    declared = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["dependency-groups"]
    print("\n".join(requirements(declared, sys.argv[1])))
