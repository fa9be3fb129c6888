"""Small files in the data folder that say how it was left: recovery points and the clean-stop mark.

`recovery-points` holds for each partition the active segment and how many of its bytes are certain;
what lies beyond is checked at the next start. After a clean stop `clean-stop` says that the points
are complete, so nothing is checked. The mark is removed before anything is written.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.storage.disk import Disk


class RecoveryPoint(NamedTuple):
    """Everything before this place in the log is on disk and intact."""

    segment: int
    size: int


class Checkpoint:
    """The recovery points of all partitions, by folder name."""

    def __init__(self, disk: Disk, data_folder: str) -> None:
        self._disk = disk
        self._path = f"{data_folder}/recovery-points"
        self._mark = f"{data_folder}/clean-stop"
        self.points: dict[str, RecoveryPoint] = {}
        self.clean = False

    def load(self) -> None:
        """Reads the points and takes the clean-stop mark away."""
        import json

        content = self._disk.read_small(self._path)
        if content is not None:
            try:
                points = json.loads(content)["partitions"]
                self.points = {
                    name: RecoveryPoint(int(segment), int(size))
                    for name, (segment, size) in points.items()
                }
            except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
                self.points = {}  # damaged: everything is checked
        self.clean = self._disk.read_small(self._mark) is not None and bool(self.points)
        self._disk.remove(self._mark)

    def to_bytes(self) -> bytes:
        """The points as they are stored."""
        import json

        return json.dumps({"version": 1, "partitions": self.points}).encode()

    def save(self, content: bytes, *, clean: bool = False) -> None:
        """Stores the points; with `clean` also the mark, after them."""
        self._disk.write_small(self._path, content)
        if clean:
            self._disk.write_small(self._mark, b"")
