"""The state of idempotent producers, brought back: the newest snapshot plus the batches after
it."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.storage.log import Log
from kbroker.storage.producers import Producers, from_bytes

Snapshot = tuple[int, bytes]


def load_producers(
    log: Log, log_end: int, in_memory: Snapshot | None = None
) -> tuple[Producers, int]:
    """The state at the log end, and how many batches had to be walked for it."""
    state, offset = Producers(), log.start
    if not log.segments:
        return state, 0
    for at, content in _snapshots(log, in_memory):
        stored = from_bytes(content) if at <= log_end else None
        if stored is not None:
            state, offset = stored, at
            break
    walked = 0
    if offset < log_end:
        for header in log.headers(offset):
            walked += 1
            if header.producer_id >= 0 and header.base_offset >= offset:
                state.note(header, header.base_offset)
    return state, walked


def _snapshots(log: Log, in_memory: Snapshot | None) -> Iterator[Snapshot]:
    """Where, and what: the newest first."""
    if in_memory is not None:
        yield in_memory
    for at in reversed(log.snapshot_offsets()):
        yield at, log.read_snapshot(at) or b""
