"""Runs one fuzz target with atheris, and replays what was kept.

    python -m tests.fuzz.requests -max_total_time=60      all of libFuzzer's options work
    python -m tests.fuzz.requests FILE                    replays one input
    python -m tests.fuzz.requests FOLDER                  keeps there what widens the coverage

A target is a module with `check(data)`, which raises if the code under test does anything but what
it promises, and `seeds()`, from which the fuzzer starts. An input that fails is written to
corpus/<target>-crash-..., where test_corpus replays it from then on. corpus/<target>.hex holds
inputs that were kept on purpose, one a line: a comment says what it found, one without widens the
coverage.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType

CORPUS = Path(__file__).with_name("corpus")

TARGETS = ("requests", "hot_codecs", "framer", "batches", "recovery")


def run(name: str, check: Callable[[bytes], None], seeds: Iterable[bytes]) -> None:
    """Fuzzes until libFuzzer's options say stop."""
    shared_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-", dir=shared_memory) as folder:
        # libFuzzer ends its process on the spot: another one must be there to tidy up.
        child = os.fork()
        if not child:
            tempfile.tempdir = folder
            _fuzz(name, check, seeds, Path(folder, "seeds"))
            os._exit(0)
        _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


def _fuzz(name: str, check: Callable[[bytes], None], seeds: Iterable[bytes], folder: Path) -> None:
    atheris = importlib.import_module("atheris")  # not there for every Python version
    folder.mkdir()
    for number, seed in enumerate([*seeds, *(data for _, data in kept_inputs(name))]):
        check(seed)  # compiles the codecs, so that they are instrumented too
        (folder / f"seed-{number}").write_bytes(seed)
    for function in _functions_under_test():
        atheris.instrument_func(function)
    paths = [option for option in sys.argv[1:] if not option.startswith("-")]
    replaying = paths and all(map(os.path.isfile, paths))
    options = [f"-artifact_prefix={CORPUS / name}-", "-max_len=4096", *sys.argv[1:]]
    if not replaying:
        options.append(str(folder))
    atheris.Setup([sys.argv[0], *options], check)
    atheris.Fuzz()


def _functions_under_test() -> list[FunctionType]:
    """kbroker's functions and its compiled codecs, which belong to no module."""
    return [
        found
        for found in gc.get_objects()
        if isinstance(found, FunctionType)
        and (
            str(found.__module__).startswith("kbroker.")
            or (found.__name__ == "codec" and found.__code__.co_filename.startswith("<"))
        )
    ]


def kept_inputs(name: str) -> list[tuple[str, bytes]]:
    """(where it is kept, input) of a target's corpus."""
    inputs = []
    listed = CORPUS / f"{name}.hex"
    if listed.exists():
        for number, line in enumerate(listed.read_text().splitlines(), 1):
            data, _, _ = line.partition("#")
            inputs.append((f"{listed.name}:{number}", bytes.fromhex(data)))
    files = sorted(CORPUS.glob(f"{name}-*"))
    return [*inputs, *((path.name, path.read_bytes()) for path in files)]
