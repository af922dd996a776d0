"""How much memory this process and all its descendants hold at once: JVM, Spark's Python workers and all."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


class MemoryWatch:
    """Samples resident memory in a thread while its block runs; `peak_bytes` is the most seen. 0 where
    there is no /proc.

    Pages that forked workers share count once for each of them, so the true peak is somewhat lower.
    """

    def __init__(self, *, every_seconds: float = 0.25) -> None:
        self._every, self._stop = every_seconds, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        self._look()  # however short the block was

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            self._look()

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, tree_bytes(os.getpid()))


def tree(root: int) -> set[int]:
    """The ids of `root` and its descendants."""
    parents = {}
    for entry in _PROC.glob("[0-9]*"):
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(after_name[1])
        except (OSError, IndexError, ValueError):  # gone meanwhile
            continue
    members, grown = {root}, True
    while grown:
        more = {p for p, parent in parents.items() if parent in members} - members
        members |= more
        grown = bool(more)
    return members


def tree_bytes(root: int) -> int:
    """Resident bytes of `root` and its descendants."""
    return sum(map(_resident, tree(root)))


def tree_handles(root: int) -> int:
    """Open files, sockets and pipes of `root` and its descendants."""
    return sum(map(_handles, tree(root)))


def _handles(pid: int) -> int:
    try:
        return len(os.listdir(_PROC / str(pid) / "fd"))
    except OSError:
        return 0


def _resident(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0
