"""Random messages of every API and version, drawn from the declarations themselves.

Shared by the tests that compare our codecs with others. A new module under protocol/messages is
found by itself, so no message escapes the comparison.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st

import kbroker.protocol.messages
from kbroker.protocol.errors import ERRORS
from kbroker.protocol.schema import Field, Kind, Message

Strategy = st.SearchStrategy[Any]

# Enough to cross the lengths at which a varint grows and at which UTF-8 takes more bytes.
_TEXTS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["", "orders", "payments.eu-1", "é" * 63, "é" * 64, "x" * 126, "x" * 20000]),
)
_BYTES = st.one_of(st.binary(max_size=5), st.sampled_from([b"", bytes(127), b"\xff" * 20000]))
_INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_ERROR_CODES = st.sampled_from([0, *ERRORS])
_KINDS: dict[str, Strategy] = {
    "boolean": st.booleans(),
    "uuid": st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16)),
    "string": _TEXTS,
    "bytes": _BYTES,
    "records": _BYTES,
    **{
        name: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
        for name, bits in _INTEGER_BITS.items()
    },
}


def all_messages() -> Iterator[type[Message]]:
    """Every request and response class, in the order of the modules."""
    package = kbroker.protocol.messages
    for module_info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        module = importlib.import_module(module_info.name)
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Message)
                and value.__module__ == module.__name__
                and isinstance(value.api_key, int)
                and value.api_key >= 0
            ):
                yield value


MESSAGES = list(all_messages())
CASES = [(message, version) for message in MESSAGES for version in message.versions]


def each_version() -> pytest.MarkDecorator:
    """Runs a test once for every version of every message."""
    names = [f"{message.__name__}-v{version}" for message, version in CASES]
    return pytest.mark.parametrize(("message", "version"), CASES, ids=names)


def api_name(message: type[Message]) -> str:
    """The name of the message's module, such as `list_offsets`."""
    return message.__module__.rpartition(".")[2]


def values_of(
    message: type[Message], version: int, special: Mapping[str, Strategy] | None = None
) -> Strategy:
    """Messages with random values in what the version carries, absent values elsewhere.

    `special` replaces the values of fields by name, where another codec cannot take them all.
    """
    return _values_of(message, version, tuple((special or {}).items()))


@cache
def _values_of(
    message: type[Message], version: int, special: tuple[tuple[str, Strategy], ...]
) -> Strategy:
    replaced = dict(special)
    drawn = {
        field.name: (
            replaced[field.name] if field.name in replaced else _field(field, version, special)
        )
        for field in message.fields
        if version in field.versions
    }
    absent = {
        field.name: st.builds(field.absent)
        for field in message.fields
        if version not in field.versions
    }
    return st.builds(message, **drawn, **absent)


def _field(field: Field, version: int, special: tuple[tuple[str, Strategy], ...]) -> Strategy:
    if field.name == "error_code":
        return _ERROR_CODES
    values = _kind(field.kind, version, special)
    if version in field.nullable:
        values = st.one_of(st.none(), values)
    if field.tag is not None:
        values = st.one_of(st.builds(field.absent), values)
    return values


def _kind(kind: Kind, version: int, special: tuple[tuple[str, Strategy], ...]) -> Strategy:
    element = kind.element
    if element is None:
        return _KINDS[kind.name]
    if isinstance(element, type):
        nested = _values_of(element, version, special)
        return st.lists(nested, max_size=2) if kind.name == "array" else nested
    items = st.lists(_kind(element, version, special), max_size=3)
    long = 130 if element.letter else 0
    return items if not long else st.one_of(items, st.just([element.zero] * long))
