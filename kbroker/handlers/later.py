"""An answer that is not there yet: its place in the connection's order is kept until it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbroker.handlers.registry import Pieces


class Later:
    """A promise of an answer's body; the connection asks to be told, or cancels when it is lost."""

    __slots__ = ("cancel", "pieces", "tell")

    def __init__(self) -> None:
        self.pieces: Pieces | None = None
        self.tell: Callable[[], None] | None = None
        self.cancel: Callable[[], None] | None = None

    def resolve(self, pieces: Pieces) -> None:
        """Here is the body."""
        self.pieces = pieces
        self.cancel = None
        if self.tell is not None:
            self.tell()
