"""The sparse index against a plain list of all batches."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.storage import index as index_file
from kbroker.storage.index import Index


class Known(NamedTuple):
    """A batch as the model knows it."""

    offset: int
    last_offset: int
    position: int
    size: int
    max_timestamp_ms: int


batch_shapes = st.lists(
    st.tuples(st.integers(1, 50), st.integers(61, 9000), st.integers(-1, 200)), max_size=60
)
intervals = st.sampled_from([0, 1, 100, 4096, 1 << 20])


def made(shapes: list[tuple[int, int, int]], interval: int, base: int) -> tuple[Index, list[Known]]:
    index, model = Index(base), list[Known]()
    offset, position = base, 0
    for count, size, time_ms in shapes:
        model.append(Known(offset, offset + count - 1, position, size, time_ms))
        index.add(offset, offset + count - 1, size, time_ms, interval)
        offset, position = offset + count, position + size
    return index, model


@settings(deadline=None)
@given(batch_shapes, intervals, st.integers(0, 1 << 40))
def test_walking_from_the_indexed_position_meets_the_batch_of_every_offset(
    shapes: list[tuple[int, int, int]], interval: int, base: int
) -> None:
    index, model = made(shapes, interval, base)
    boundaries = {known.position for known in model} | {0}
    for known in model:
        for offset in (known.offset, known.last_offset):
            start = index.before_offset(offset)
            assert start in boundaries
            assert start <= known.position


@settings(deadline=None)
@given(batch_shapes, st.integers(0, 1 << 40))
def test_with_an_entry_for_each_batch_the_position_is_exact(
    shapes: list[tuple[int, int, int]], base: int
) -> None:
    index, model = made(shapes, 0, base)
    for known in model:
        assert index.before_offset(known.offset) == known.position
        assert index.before_offset(known.last_offset) == known.position


@settings(deadline=None)
@given(batch_shapes, intervals, st.integers(-1, 220))
def test_no_batch_before_the_position_of_a_time_is_as_late_as_it(
    shapes: list[tuple[int, int, int]], interval: int, time_ms: int
) -> None:
    index, model = made(shapes, interval, 0)
    start = index.before_time(time_ms)
    skipped = [known for known in model if known.position < start]
    assert all(known.max_timestamp_ms < time_ms for known in skipped)


@settings(deadline=None)
@given(batch_shapes, intervals)
def test_the_largest_timestamp_is_that_of_the_first_batch_that_has_it(
    shapes: list[tuple[int, int, int]], interval: int
) -> None:
    index, model = made(shapes, interval, 0)
    newest = max(model, key=lambda known: known.max_timestamp_ms, default=None)
    if newest is None or newest.max_timestamp_ms < 0:
        assert index.max_timestamp_ms == -1
    else:
        assert index.max_timestamp_ms == newest.max_timestamp_ms
        assert index.max_timestamp_position == newest.position


@settings(deadline=None)
@given(batch_shapes, intervals, st.integers(0, 600_000))
def test_the_last_boundary_is_the_start_of_a_batch_or_the_end(
    shapes: list[tuple[int, int, int]], interval: int, stop: int
) -> None:
    index, model = made(shapes, interval, 7)
    ends = {known.position: known.offset for known in model} | {index.size: index.next_offset}
    position, offset = index.last_boundary(stop)
    assert position <= stop
    assert ends[position] == offset


@settings(deadline=None)
@given(batch_shapes, intervals, st.integers(0, 1 << 40))
def test_a_stored_index_comes_back_as_it_was(
    shapes: list[tuple[int, int, int]], interval: int, base: int
) -> None:
    index, _ = made(shapes, interval, base)
    again = index_file.from_bytes(index.to_bytes(), index.size)
    assert again is not None
    for name in Index.__slots__:
        assert getattr(again, name) == getattr(index, name), name


@settings(deadline=None)
@given(batch_shapes.filter(bool), st.data())
def test_a_stored_index_of_another_size_is_not_used(
    shapes: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    index, _ = made(shapes, 4096, 0)
    other_size = data.draw(st.integers(0, 1 << 40).filter(lambda size: size != index.size))
    assert index_file.from_bytes(index.to_bytes(), other_size) is None


def test_a_stored_index_with_any_byte_changed_or_missing_is_not_used() -> None:
    index, _ = made([(3, 100, 5), (1, 70, 9), (2, 5000, 1)], 0, 42)
    stored = index.to_bytes()
    for at in range(len(stored)):
        damaged = bytearray(stored)
        damaged[at] ^= 1 << at % 8
        assert index_file.from_bytes(bytes(damaged), index.size) is None, at
        assert index_file.from_bytes(stored[:at], index.size) is None, at
    assert index_file.from_bytes(stored + b"\0", index.size) is None


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(0, 1000))
def test_garbage_is_no_index(garbage: bytes, size: int) -> None:
    assert index_file.from_bytes(garbage, size) is None


@pytest.mark.parametrize(("count", "entries"), [(0, 0), (1, 1), (41, 1), (42, 2), (1000, 25)])
def test_an_index_has_one_entry_for_each_interval(count: int, entries: int) -> None:
    index, _ = made([(1, 100, 1)] * count, 4096, 0)
    assert list(index.positions) == [number * 4100 for number in range(entries)]
