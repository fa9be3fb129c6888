"""Every seed of the fuzzers, and every input that they found or that was kept, as a plain test."""

from __future__ import annotations

import importlib
import random

import pytest

from tests.fuzz.engine import TARGETS, kept_inputs


@pytest.mark.parametrize("target", TARGETS)
def test_the_seeds_pass(target: str) -> None:
    module = importlib.import_module(f"tests.fuzz.{target}")
    assert target == module.NAME
    for seed in module.seeds():
        module.check(seed)


@pytest.mark.parametrize("target", TARGETS)
def test_what_was_kept_passes(target: str) -> None:
    module = importlib.import_module(f"tests.fuzz.{target}")
    inputs = kept_inputs(target)
    assert inputs
    for place, data in inputs:
        try:
            module.check(data)
        except BaseException as problem:
            problem.add_note(f"input: {place}")
            raise


@pytest.mark.parametrize("target", TARGETS)
def test_random_changes_of_the_seeds_pass(target: str) -> None:
    """A second of what the fuzzer does for minutes; the seed makes it the same each time."""
    module = importlib.import_module(f"tests.fuzz.{target}")
    source = random.Random(target)
    seeds = list(module.seeds())
    for _ in range(300):
        data = bytearray(source.choice(seeds))
        for _ in range(source.randrange(1, 6)):
            if data:
                data[source.randrange(len(data))] = source.randrange(256)
        if source.random() < 0.2:
            del data[source.randrange(len(data) + 1) :]
        try:
            module.check(bytes(data))
        except BaseException as problem:
            problem.add_note(f"input: {bytes(data).hex()}")
            raise
