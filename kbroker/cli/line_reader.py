"""Lines of a file or of standard input, and whether the next one is at hand already.

Who types wants each line sent at once; a file wants large batches. So input is taken as it comes,
and the last line of what has come says that waiting would begin after it.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from typing import NamedTuple

_CHUNK_BYTES = 1 << 18


class Line(NamedTuple):
    """One line without its end, or one whole file."""

    content: bytes
    where: str
    more_at_hand: bool
    done_bytes: int


def read_lines(name: str, done_bytes: int) -> Iterator[Line]:
    """The lines of a file, or of standard input for a dash."""
    descriptor = sys.stdin.fileno() if name == "-" else os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    title = "standard input" if name == "-" else name
    number = 0
    rest = b""
    try:
        while True:
            chunk = os.read(descriptor, _CHUNK_BYTES)
            if not chunk:
                break
            whole, newline, tail = chunk.rpartition(b"\n")
            if not newline:
                rest += chunk
                continue
            lines = (rest + whole).split(b"\n")
            rest = tail
            waiting = not _is_readable(descriptor)
            last = len(lines) - 1
            for index, content in enumerate(lines):
                number += 1
                done_bytes += len(content) + 1
                more = not (waiting and index == last)
                yield Line(content, f"line {number} of {title}", more, done_bytes)
        if rest:
            done_bytes += len(rest)
            yield Line(rest, f"line {number + 1} of {title}", True, done_bytes)
    finally:
        if name != "-":
            os.close(descriptor)


def read_whole(name: str, done_bytes: int) -> Iterator[Line]:
    """A file, or all of standard input for a dash, as one."""
    if name == "-":
        content = sys.stdin.buffer.read()
    else:
        with open(name, "rb") as file:
            content = file.read()
    yield Line(content, name, True, done_bytes + len(content))


def _is_readable(descriptor: int) -> bool:
    """Whether a read would give something at once; files always do."""
    return bool(select.select([descriptor], [], [], 0)[0])
