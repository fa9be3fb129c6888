"""Hypothesis and asyncio together: each example in a folder and on a loop of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path


def in_a_folder(check: Callable[[Path], Awaitable[None]]) -> None:
    """Runs one example in an empty folder, and removes it."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            await check(Path(folder))

    asyncio.run(run())
