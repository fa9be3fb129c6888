"""Progress of long work, on standard error and only for someone who watches.

Nothing is drawn in the first moments, so short work shows nothing and never imports rich.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

QUIET_S = 0.7


class Progress:
    """How many bytes of a whole are done; without a whole (None), how many so far."""

    def __init__(self, what: str, total_bytes: int | None, *, wanted: bool = True) -> None:
        self._what = what
        self._total_bytes = total_bytes
        self._watched = wanted and sys.stderr.isatty()
        self._begin_s = time.monotonic()
        self._drawn: RichProgress | None = None
        self._task: TaskID

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn is not None:
            self._drawn.stop()

    def show(self, done_bytes: int, note: str = "") -> None:
        """Brings what is drawn up to date."""
        if not self._watched:
            return
        if self._drawn is None:
            if time.monotonic() - self._begin_s < QUIET_S:
                return
            self._drawn = self._draw()
        self._drawn.update(self._task, completed=done_bytes, note=note)

    def _draw(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        drawn = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = drawn.add_task(self._what, total=self._total_bytes, note="")
        drawn.start()
        return drawn
