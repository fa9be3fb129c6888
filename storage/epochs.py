"""Which epoch began at which offset of a partition: what finds the point where two logs part.

An epoch is one reign of one master. Kept in the partition's folder in Kafka's own text form
(`leader-epoch-checkpoint`), and rebuilt from the batches, which carry their epoch, when it is
missing.
"""

from __future__ import annotations

UNDEFINED = -1


class Epochs:
    """(epoch, first offset) pairs, both rising."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.entries = entries if entries is not None else []

    @property
    def latest(self) -> int:
        """The newest epoch, or -1."""
        return self.entries[-1][0] if self.entries else UNDEFINED

    def begin(self, epoch: int, offset: int) -> bool:
        """Notes that `epoch` starts at `offset`; False if it is known already.

        Epochs that began there or later, but wrote nothing, give way.
        """
        if epoch <= self.latest:
            return False
        while self.entries and self.entries[-1][1] >= offset:
            self.entries.pop()
        self.entries.append((epoch, offset))
        return True

    def truncate(self, offset: int) -> None:
        """Forgets the epochs that began at `offset` or later."""
        while self.entries and self.entries[-1][1] >= offset:
            self.entries.pop()

    def trim(self, log_start: int) -> None:
        """Forgets the epochs that ended before `log_start`; the one that covers it starts there."""
        covering = None
        while self.entries and self.entries[0][1] <= log_start:
            covering = self.entries.pop(0)[0]
        if covering is not None:
            self.entries.insert(0, (covering, log_start))

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest epoch not above the one asked for, where it ends), as KIP-101 and KIP-279 say.

        A newer epoch than any here is undefined; one older than all began before the log.
        """
        if epoch < 0 or epoch > self.latest:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end
        found, end = epoch, log_end
        for known, start in reversed(self.entries):
            if known <= epoch:
                return known, end
            end = start
        return found, end

    def to_bytes(self) -> bytes:
        """Kafka's checkpoint text: version, count, then a pair a line."""
        lines = ["0", str(len(self.entries)), *(f"{e} {o}" for e, o in self.entries)]
        return ("\n".join(lines) + "\n").encode()


def from_bytes(data: bytes) -> Epochs | None:
    """Reads the checkpoint text; None if it is damaged."""
    try:
        version, count, *lines = data.decode("ascii").split("\n")
        pairs = [line.split(" ") for line in lines if line]
        entries = [(int(epoch), int(offset)) for epoch, offset in pairs]
        complete = version == "0" and int(count) == len(entries)
    except ValueError:
        return None
    last = (-1, -1)
    for entry in entries:
        if entry[0] <= last[0] or entry[1] <= last[1]:
            return None
        last = entry
    return Epochs(entries) if complete else None
