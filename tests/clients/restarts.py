"""A restart of the broker under a client that goes on producing and reading."""

import threading
import time
from collections.abc import Callable

from tests.support.broker_process import BrokerProcess

RESTART_TIMEOUT_S = 40
READ_BEFORE_AND_AFTER = 50


def check_survives_restart(
    broker: BrokerProcess,
    send: Callable[[int], None],
    poll: Callable[[], list[int]],
    flush: Callable[[], None] = lambda: None,
) -> None:
    """Calls `send` with 0, 1, 2 and so on, and `poll` for what has arrived, across a clean restart.

    `send` may return before the broker has answered; `poll` must wait no longer than some
    milliseconds; `flush` follows the last `send`. Every number must arrive, once and in order,
    without a word from the user.
    """
    problems: list[BaseException] = []

    def restart() -> None:
        try:
            broker.restart()
        except BaseException as problem:
            problems.append(problem)

    restarting = threading.Thread(target=restart, name="restart")
    try:
        _send_and_poll(restarting, send, poll, flush)
    finally:
        if restarting.ident is not None:
            restarting.join()  # the fixture stops the broker next: not while it is restarting
    assert not problems, problems


def _send_and_poll(
    restarting: threading.Thread,
    send: Callable[[int], None],
    poll: Callable[[], list[int]],
    flush: Callable[[], None],
) -> None:
    sent, read, enough = 0, list[int](), READ_BEFORE_AND_AFTER
    deadline = time.monotonic() + RESTART_TIMEOUT_S
    while len(read) < enough:
        assert time.monotonic() < deadline, f"sent {sent}, read {len(read)}, waits for {enough}"
        send(sent)
        sent += 1
        read += poll()
        if len(read) >= READ_BEFORE_AND_AFTER and restarting.ident is None:
            restarting.start()
        if restarting.is_alive():
            # What was sent while the broker was away counts as before: wait for more than that.
            enough = sent + READ_BEFORE_AND_AFTER
    flush()
    while len(read) < sent:
        assert time.monotonic() < deadline, f"sent {sent}, read only {len(read)}"
        read += poll()
    assert read == list(range(sent))
