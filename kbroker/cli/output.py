"""What commands print: tables, JSON, and numbers as people read them.

On a terminal a table is drawn by rich, which is imported only then; in a pipe it is plain columns.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


def note(message: str) -> None:
    """A word beside the output, on standard error."""
    print(f"kbroker: {message}", file=sys.stderr)


def print_json(document: object) -> None:
    """One JSON document."""
    import json

    print(json.dumps(document, indent=2, ensure_ascii=False))


def json_line(document: object) -> bytes:
    """One JSON object on a line of its own."""
    import json

    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Collection[str] = ()
) -> None:
    """Columns below headings; those named in `right` are numbers, and stand to the right."""
    lines = [[_cell(value) for value in row] for row in rows]
    to_the_right = [heading in right for heading in headings]
    if sys.stdout.isatty():
        _draw_table(headings, lines, to_the_right)
        return
    widths = [max(map(len, column)) for column in zip(headings, *lines, strict=True)]
    for line in [list(headings), *lines]:
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, to_the_right, strict=True)
        )
        print("  ".join(cells).rstrip())


def _draw_table(headings: Sequence[str], lines: list[list[str]], right: list[bool]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, to_right in zip(headings, right, strict=True):
        table.add_column(Text(heading), justify="right" if to_right else "left", overflow="fold")
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    Console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


# Numbers as people read them


def bytes_text(count: int) -> str:
    """`1.5 MiB`"""
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in _UNITS:
        size /= 1024
        if size < 1024 or unit == _UNITS[-1]:
            break
    return f"{size:.1f} {unit}"


def count_text(count: int, noun: str) -> str:
    """`1 topic`, `2,000 topics`"""
    if count == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("ch") else ""
    return f"{count:,} {plural or noun + 's'}"


def duration_text(duration_ms: int) -> str:
    """`250 ms`, `10 s`, `3 h 20 min`, `12 d 4 h`"""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    seconds = duration_ms // 1000
    if seconds < 120:
        return f"{duration_ms / 1000:g} s" if seconds < 10 else f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 120:
        return f"{minutes} min"
    if hours < 48:
        rest = minutes % 60
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    rest = hours % 24
    return f"{days} d {rest} h" if rest else f"{days} d"


def time_text(timestamp_ms: int) -> str:
    """A record's time in the local zone, in a form that --from understands."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms}ms"  # beyond what a calendar holds; producers may send anything
    return moment.isoformat(timespec="milliseconds")
