"""Time as the core sees it: passed in, so that tests and simulations can say what time it is."""

import time


class Clock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970: for timestamps in records."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """A clock that never jumps: for deadlines."""
        return time.monotonic_ns() // 1_000_000
