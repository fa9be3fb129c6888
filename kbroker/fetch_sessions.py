"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes.

The broker remembers for each session what was asked and what was last told; an incremental answer
holds only partitions with news. The cache is bounded: a session unused for two minutes may be
pushed out by a new one; if none is that old, the newcomer gets no session, which every client
understands.
"""

from __future__ import annotations

from random import Random

from kbroker.clock import Clock
from kbroker.protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from kbroker.protocol.hot.fetch import Fetch, FetchAnswer, FetchPartition

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EVICT_AFTER_MS = 120_000
_EPOCH_MAX = (1 << 31) - 1

Wanted = list[tuple[bytes, FetchPartition]]


class CachedPartition:
    """What a session wants of a partition, and what its client has been told."""

    __slots__ = ("high_watermark", "log_start", "stable_offset", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.high_watermark = -1
        self.stable_offset = -1
        self.log_start = -1

    def has_news(self, answer: FetchAnswer) -> bool:
        """Whether the client must see this answer; notes what it then knows."""
        news = (
            answer.error != 0
            or (answer.stored is not None and answer.stored.length > 0)
            or answer.high_watermark != self.high_watermark
            or answer.last_stable_offset != self.stable_offset
            or answer.log_start != self.log_start
            or answer.diverging is not None
            or answer.preferred_replica >= 0
        )
        # After an error the next answer is news again, whatever it says.
        self.high_watermark = answer.high_watermark if answer.error == 0 else -1
        self.stable_offset = answer.last_stable_offset
        self.log_start = answer.log_start
        return news


class FetchSession:
    """One consumer's partitions, in the order in which they are served."""

    __slots__ = ("by_id", "epoch", "id", "partitions", "used_ms")

    def __init__(self, session_id: int, now_ms: int, by_id: bool) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.used_ms = now_ms
        self.partitions: dict[tuple[bytes, int], CachedPartition] = {}

    def update(self, request: Fetch) -> None:
        """Takes over what a request adds, changes and forgets."""
        for name, partitions in request.topics:
            for wanted in partitions:
                cached = self.partitions.get((name, wanted.partition))
                if cached is None:
                    self.partitions[name, wanted.partition] = CachedPartition(wanted)
                else:
                    cached.wanted = wanted
        for name, indexes in request.forgotten:
            for index in indexes:
                self.partitions.pop((name, index), None)

    def wanted(self) -> Wanted:
        """All partitions of the session."""
        return [(name, cached.wanted) for (name, _), cached in self.partitions.items()]

    def served(self, name: bytes, index: int) -> None:
        """A partition that brought records goes to the end, so that others get their turn."""
        cached = self.partitions.pop((name, index), None)
        if cached is not None:
            self.partitions[name, index] = cached


class FetchSessions:
    """The bounded cache of sessions."""

    def __init__(self, clock: Clock, slots: int, random: Random | None = None) -> None:
        self._clock = clock
        self._slots = slots
        self._random = random or Random()
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def enter(self, request: Fetch, by_id: bool) -> tuple[FetchSession | None, bool]:
        """The request's session, and whether its answer is a full one.

        No session: a full answer with session id 0. `by_id` says how the request names topics; a
        session keeps to one way.
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._sessions.pop(request.session_id, None)
            if request.session_epoch == FINAL_EPOCH:
                return None, True
            return self._open(request, by_id), True
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch
        if session.by_id != by_id:
            raise FetchSessionTopicIdError
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.used_ms = self._clock.monotonic_ms()
        session.update(request)
        if not session.partitions:
            del self._sessions[session.id]
            return None, True
        return session, False

    def _open(self, request: Fetch, by_id: bool) -> FetchSession | None:
        if not self._make_room():
            return None
        session_id = self._random.randrange(1, 1 << 31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 1 << 31)
        session = FetchSession(session_id, self._clock.monotonic_ms(), by_id)
        self._sessions[session_id] = session
        session.update(request)
        return session

    def _make_room(self) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = min(self._sessions.values(), key=lambda s: s.used_ms, default=None)
        if oldest is None or self._clock.monotonic_ms() - oldest.used_ms < _EVICT_AFTER_MS:
            return False
        del self._sessions[oldest.id]
        return True
