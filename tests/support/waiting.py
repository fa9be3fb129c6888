"""Waiting for a condition with a deadline: what the tests do instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

POLL_INTERVAL_S = 0.01

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, timeout_s: float, what: str) -> T:
    """Ask `condition` until it answers something true, and return that.

    `what` finishes the sentence "gave up waiting for ..." of the TimeoutError after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting for {what} after {timeout_s:g} s")
        time.sleep(POLL_INTERVAL_S)
    return answer
