"""The cache of fetch sessions by itself (KIP-227): epochs, news, eviction, order."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.clock import Clock
from kbroker.fetch_sessions import FetchSession, FetchSessions
from kbroker.protocol.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from kbroker.protocol.hot.fetch import Fetch, FetchAnswer, FetchPartition

TWO_MINUTES_MS = 120_000


class HandClock(Clock):
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.time_ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.time_ms


class Bytes:
    """Stored bytes of some length."""

    def __init__(self, length: int) -> None:
        self.length = length


def request(
    session_id: int = 0,
    epoch: int = 0,
    wanted: dict[tuple[str, int], int] | None = None,
    forgotten: list[tuple[str, int]] | None = None,
) -> Fetch:
    topics = [
        (name.encode(), [FetchPartition(index, -1, offset, -1, 1 << 20)])
        for (name, index), offset in (wanted or {}).items()
    ]
    dropped = [(name.encode(), [index]) for name, index in forgotten or []]
    return Fetch(-1, 500, 1, 1 << 20, 0, session_id, epoch, topics, dropped, "")


def answer(
    *, high_watermark: int = 0, log_start: int = 0, error: int = 0, size: int = 0
) -> FetchAnswer:
    stored = Bytes(size) if size else None
    return FetchAnswer(0, error, high_watermark, high_watermark, log_start, stored)


def open_session(sessions: FetchSessions, **wanted: int) -> FetchSession:
    session, full = sessions.enter(request(wanted={(n, 0): o for n, o in wanted.items()}), False)
    assert session is not None
    assert full
    return session


def offsets(session: FetchSession) -> list[tuple[bytes, int, int]]:
    return [(name, wanted.partition, wanted.fetch_offset) for name, wanted in session.wanted()]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def sessions(clock: HandClock) -> FetchSessions:
    return FetchSessions(clock, 3, Random(1))


def test_a_full_request_opens_a_session_whose_next_epoch_is_1(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=5)
    assert session.id > 0
    assert session.epoch == 1
    assert offsets(session) == [(b"a", 0, 5)]
    again, full = sessions.enter(request(session.id, 1), False)
    assert again is session
    assert not full
    assert session.epoch == 2


def test_ids_are_positive_and_differ(clock: HandClock) -> None:
    sessions = FetchSessions(clock, 1000, Random(3))
    ids = {open_session(sessions, a=0).id for _ in range(1000)}
    assert len(ids) == 1000
    assert all(0 < session_id < 1 << 31 for session_id in ids)


def test_a_request_without_session_epochs_leaves_no_trace(sessions: FetchSessions) -> None:
    session, full = sessions.enter(request(0, -1, {("a", 0): 0}), False)
    assert session is None
    assert full
    assert len(sessions) == 0


def test_the_final_epoch_closes_the_session(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0)
    assert sessions.enter(request(session.id, -1), False) == (None, True)
    assert len(sessions) == 0
    with pytest.raises(FetchSessionIdNotFound):
        sessions.enter(request(session.id, 1), False)


def test_a_full_request_with_an_old_id_replaces_that_session(sessions: FetchSessions) -> None:
    old = open_session(sessions, a=0)
    new, full = sessions.enter(request(old.id, 0, {("b", 0): 7}), False)
    assert full
    assert new is not None
    assert new.id != old.id
    assert offsets(new) == [(b"b", 0, 7)]
    assert len(sessions) == 1


@pytest.mark.parametrize("session_id", [1, 99, (1 << 31) - 1, -5])
def test_an_unknown_id_is_said_to_be_unknown(session_id: int, sessions: FetchSessions) -> None:
    open_session(sessions, a=0)
    with pytest.raises(FetchSessionIdNotFound):
        sessions.enter(request(session_id, 1), False)


@pytest.mark.parametrize("epoch", [2, 7, -2, (1 << 31) - 1])
def test_a_wrong_epoch_is_refused_and_changes_nothing(epoch: int, sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0)
    with pytest.raises(InvalidFetchSessionEpoch):
        sessions.enter(request(session.id, epoch, {("b", 0): 1}), False)
    assert session.epoch == 1
    assert offsets(session) == [(b"a", 0, 0)]


def test_the_same_epoch_twice_is_refused(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0)
    sessions.enter(request(session.id, 1), False)
    with pytest.raises(InvalidFetchSessionEpoch):
        sessions.enter(request(session.id, 1), False)


def test_epochs_wrap_from_the_largest_to_1(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0)
    session.epoch = (1 << 31) - 1
    sessions.enter(request(session.id, (1 << 31) - 1), False)
    assert session.epoch == 1


def test_a_session_keeps_to_names_or_to_ids(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0)
    with pytest.raises(FetchSessionTopicIdError):
        sessions.enter(request(session.id, 1), True)
    with_ids, _ = sessions.enter(request(wanted={("x" * 16, 0): 0}), True)
    assert with_ids is not None
    with pytest.raises(FetchSessionTopicIdError):
        sessions.enter(request(with_ids.id, 1), False)


def test_partitions_are_added_changed_and_forgotten(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0, b=0)
    sessions.enter(request(session.id, 1, {("c", 1): 9, ("a", 0): 4}), False)
    assert offsets(session) == [(b"a", 0, 4), (b"b", 0, 0), (b"c", 1, 9)]
    sessions.enter(request(session.id, 2, forgotten=[("b", 0), ("never", 3)]), False)
    assert offsets(session) == [(b"a", 0, 4), (b"c", 1, 9)]


def test_a_session_whose_last_partition_is_forgotten_ends(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0)
    assert sessions.enter(request(session.id, 1, forgotten=[("a", 0)]), False) == (None, True)
    assert len(sessions) == 0


def test_only_news_is_told(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0)
    cached = session.partitions[b"a", 0]
    assert cached.has_news(answer(high_watermark=0))
    assert not cached.has_news(answer(high_watermark=0))
    assert cached.has_news(answer(high_watermark=1))
    assert not cached.has_news(answer(high_watermark=1))
    assert cached.has_news(answer(high_watermark=1, log_start=1))
    assert cached.has_news(answer(high_watermark=1, log_start=1, size=70))
    assert cached.has_news(answer(high_watermark=1, log_start=1, size=70))
    assert not cached.has_news(answer(high_watermark=1, log_start=1))


def test_an_error_is_told_each_time_and_so_is_its_end(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0)
    cached = session.partitions[b"a", 0]
    cached.has_news(answer(high_watermark=3))
    failed = FetchAnswer(0, 6, -1, -1, -1, None)
    assert cached.has_news(failed)
    assert cached.has_news(failed)
    assert cached.has_news(answer(high_watermark=3))
    assert not cached.has_news(answer(high_watermark=3))


def test_a_diverging_epoch_or_a_better_replica_is_news_each_time(sessions: FetchSessions) -> None:
    """redpanda#11748: a client that does not hear of its preferred replica asks for ever."""
    session = open_session(sessions, a=0)
    cached = session.partitions[b"a", 0]
    cached.has_news(answer())
    assert cached.has_news(answer()._replace(diverging=(1, 5)))
    assert cached.has_news(answer()._replace(diverging=(1, 5)))
    assert cached.has_news(answer()._replace(preferred_replica=2))
    assert not cached.has_news(answer())


def test_served_partitions_go_to_the_end(sessions: FetchSessions) -> None:
    session = open_session(sessions, a=0, b=0, c=0)
    session.served(b"a", 0)
    assert [name for name, _ in session.wanted()] == [b"b", b"c", b"a"]
    session.served(b"c", 0)
    assert [name for name, _ in session.wanted()] == [b"b", b"a", b"c"]
    session.served(b"unknown", 0)
    assert len(session.wanted()) == 3


def test_a_full_cache_gives_no_session_and_keeps_those_it_has(sessions: FetchSessions) -> None:
    """sarama#1644, platformatic#315: clients that open a session for each poll fill the cache."""
    kept = [open_session(sessions, a=0) for _ in range(3)]
    for _ in range(10):
        assert sessions.enter(request(wanted={("b", 0): 0}), False) == (None, True)
    assert len(sessions) == 3
    for session in kept:
        assert sessions.enter(request(session.id, 1), False)[0] is session


def test_a_newcomer_pushes_out_the_session_unused_longest_after_two_minutes(
    sessions: FetchSessions, clock: HandClock
) -> None:
    first, second, third = (open_session(sessions, a=0) for _ in range(3))
    clock.time_ms += TWO_MINUTES_MS - 1
    sessions.enter(request(first.id, 1), False)
    assert sessions.enter(request(wanted={("b", 0): 0}), False) == (None, True)
    clock.time_ms += 2
    open_session(sessions, b=0)
    assert len(sessions) == 3
    gone = [s for s in (first, second, third) if not is_open(sessions, s)]
    assert gone in ([second], [third])
    assert is_open(sessions, first)


def is_open(sessions: FetchSessions, session: FetchSession) -> bool:
    try:
        return sessions.enter(request(session.id, session.epoch), False)[0] is session
    except FetchSessionIdNotFound:
        return False


def test_without_slots_there_are_no_sessions(clock: HandClock) -> None:
    sessions = FetchSessions(clock, 0, Random(1))
    assert sessions.enter(request(wanted={("a", 0): 0}), False) == (None, True)
    assert len(sessions) == 0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.integers(0, 4)),
        st.tuples(st.just("close"), st.integers(0, 9)),
        st.tuples(st.just("use"), st.integers(0, 9)),
        st.tuples(st.just("wrong epoch"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.sampled_from([1, TWO_MINUTES_MS // 2, TWO_MINUTES_MS])),
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 4), steps)
def test_the_cache_is_bounded_and_never_mixes_sessions_up(
    slots: int, actions: list[tuple[str, int]]
) -> None:
    clock = HandClock()
    sessions = FetchSessions(clock, slots, Random(0))
    known: list[FetchSession] = []
    for action, number in actions:
        session = known[number % len(known)] if known else None
        if action == "open":
            opened, full = sessions.enter(request(wanted={("t", number): number}), False)
            assert full
            if opened is not None:
                known.append(opened)
        elif action == "wait":
            clock.time_ms += number
        elif session is not None and action == "close":
            sessions.enter(request(session.id, -1), False)
        elif session is not None:
            epoch = session.epoch + (action == "wrong epoch")
            before = offsets(session)
            try:
                entered, full = sessions.enter(request(session.id, epoch), False)
            except (FetchSessionIdNotFound, InvalidFetchSessionEpoch):
                continue
            assert entered is session
            assert not full
            assert action == "use"
            assert offsets(session) == before
        assert len(sessions) <= slots
