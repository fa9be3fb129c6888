"""Logging set-up: the standard library, one line an event, `event key=value`, to standard error."""

import logging
import sys


def set_up(level: str = "INFO") -> None:
    """Sends the broker's log lines to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger = logging.getLogger("kbroker")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
