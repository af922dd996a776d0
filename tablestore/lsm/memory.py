"""The memory of all write buffers of a process: one pool; when it is full the largest buffer flushes.

Without a shared pool, hundreds of buckets would each claim `write-buffer-size`. Flushing to level 0 is the
relief, so
nothing is spilled elsewhere. Slices keep the whole batch they were cut from alive: after each half pool of
new rows,
buffers that did not flush copy what they hold (`settle`), so at most that much is kept alive by slices.
Safe to share between threads: a writer is flushed by its own thread only.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Protocol


class BufferOwner(Protocol):
    """A writer that holds rows in memory."""

    def flush(self) -> None: ...
    def settle(self) -> None: ...


@dataclass(slots=True)
class _Account:
    thread: int
    held: int = 0


class MemoryPool:
    """Bytes held by the write buffers of this process. Owners that vanish without `release` stop counting."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._accounts_lock = threading.Lock()
        self._accounts: weakref.WeakKeyDictionary[BufferOwner, _Account] = weakref.WeakKeyDictionary()
        self._unsettled: dict[int, int] = {}  # bytes added by each thread since it last settled

    @property
    def held_bytes(self) -> int:
        """Bytes held by all owners."""
        with self._accounts_lock:
            return sum(a.held for a in self._accounts.values())

    def register(self, owner: BufferOwner) -> None:
        """Begin to count an owner, for the calling thread."""
        with self._accounts_lock:
            self._accounts[owner] = _Account(threading.get_ident())

    def release(self, owner: BufferOwner) -> None:
        """Stop counting an owner; unknown ones are fine."""
        with self._accounts_lock:
            self._accounts.pop(owner, None)

    def report(self, owner: BufferOwner, held_bytes: int) -> None:
        """An owner holds so much now; its thread's largest owners flush until the pool is no longer over its
        limit."""
        grown = self._note(owner, held_bytes)
        if not held_bytes:
            return  # a flush reports that it is done: nothing to do inside it
        while (largest := self._over_limit()) is not None:
            largest.flush()
        if grown:
            self._settle()

    def _note(self, owner: BufferOwner, held_bytes: int) -> bool:
        """Set an account; whether the thread's slices should be copied."""
        thread = threading.get_ident()
        with self._accounts_lock:
            account = self._accounts.setdefault(owner, _Account(thread))
            account.thread = thread
            added = self._unsettled.get(thread, 0) + max(0, held_bytes - account.held)
            account.held = held_bytes
            self._unsettled[thread] = added
            return added > self.limit_bytes // 2

    def _over_limit(self) -> BufferOwner | None:
        """The largest owner of this thread while the pool is over its limit and the thread holds anything."""
        with self._accounts_lock:
            if sum(a.held for a in self._accounts.values()) <= self.limit_bytes:
                return None
            thread = threading.get_ident()
            mine = [(a.held, o) for o, a in self._accounts.items() if a.thread == thread and a.held]
        return max(mine, key=lambda m: m[0])[1] if mine else None

    def _settle(self) -> None:
        thread = threading.get_ident()
        with self._accounts_lock:
            mine = [o for o, a in self._accounts.items() if a.thread == thread and a.held]
            self._unsettled.pop(thread, None)
        for owner in mine:
            owner.settle()
