"""The data folder as a whole: who uses it, and to which cluster it belongs.

`.lock` is held while a broker runs and names its process; `meta.properties` holds the cluster's id
and the broker's number, in Kafka's form, and a folder of another broker is refused.
"""

from __future__ import annotations

import base64
import fcntl
import os

from kbroker.storage.disk import Disk


class DataFolderError(Exception):
    """The folder cannot be used; the message says why and what to do."""


class DataFolder:
    """A locked data folder."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self._lock_fd = -1

    def lock(self) -> None:
        """Takes the folder, or says who has it."""
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock_fd = os.open(
                f"{self.path}/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
        except OSError as problem:
            raise DataFolderError(
                f"cannot use the data folder {self.path}: {problem.strerror};"
                " choose another one with --data"
            ) from None
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._lock_fd, 32).decode(errors="replace").strip() or "unknown"
            self.unlock()
            raise DataFolderError(
                f"the data folder {self.path} is in use by process {owner};"
                " stop that broker or choose another folder with --data"
            ) from None
        os.ftruncate(self._lock_fd, 0)
        os.pwrite(self._lock_fd, b"%d\n" % os.getpid(), 0)

    def unlock(self) -> None:
        """Lets the folder go."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def identity(self, node_id: int) -> str:
        """The cluster's id: from the folder, or a new one; refuses another broker's folder."""
        path = f"{self.path}/meta.properties"
        content = self._disk.read_small(path)
        if content is None:
            cluster_id = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
            text = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n"
            self._disk.write_small(path, text.encode())
            return cluster_id
        pairs = dict(line.split("=", 1) for line in content.decode().splitlines() if "=" in line)
        if pairs.get("node.id") != str(node_id):
            raise DataFolderError(
                f"the data folder {self.path} belongs to node.id={pairs.get('node.id')};"
                f" this broker is node.id={node_id}"
            )
        return pairs.get("cluster.id", "")
