"""CRC-32C, from the `crc32c` package's compiled part.

Importing the package itself also reads its distribution's metadata to learn its own version, which
costs the broker a sixth of its start-up time (`python -X importtime`); so the compiled module is
loaded on its own, and the package only if that cannot be found.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from kbroker.protocol.primitives import Buffer


def _load() -> Callable[[Buffer], int]:
    package = PathFinder.find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("crc32c._crc32c", places) if places else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c as function

        return function
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    loaded: Callable[[Buffer], int] = module.crc32c
    return loaded


crc32c = _load()
