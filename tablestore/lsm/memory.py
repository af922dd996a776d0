"""The memory of all write buffers of a process: one pool; when it is full the largest buffer flushes.

Without a shared pool, hundreds of buckets would each claim `write-buffer-size`. Flushing to level 0 is the
relief, so nothing is spilled elsewhere. Slices keep the whole batch they were cut from alive, which costs
nothing until some of them are flushed. From then on, after each half pool of new rows, buffers that did not
flush copy what they hold (`settle`), so no more than that is kept.
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
        self._total = 0  # of all accounts; owners that vanished are in it until it is added up again
        self._relieved: set[int] = set()  # threads that flushed since they last settled
        self._unsettled: dict[int, int] = {}  # bytes added by each thread since it last settled

    @property
    def held_bytes(self) -> int:
        """Bytes held by all owners."""
        with self._accounts_lock:
            return self._add_up()

    def register(self, owner: BufferOwner) -> None:
        """Begin to count an owner, for the calling thread."""
        with self._accounts_lock:
            self._accounts[owner] = _Account(threading.get_ident())

    def release(self, owner: BufferOwner) -> None:
        """Stop counting an owner; unknown ones are fine."""
        with self._accounts_lock:
            self._accounts.pop(owner, None)
            self._add_up()

    def report(self, owner: BufferOwner, held_bytes: int) -> None:
        """An owner holds so much now. While the pool is over its limit, this thread's largest flushes."""
        with self._accounts_lock:
            grown, full = self._note(owner, held_bytes)
        if not held_bytes:
            return  # a flush reports that it is done: nothing to do inside it
        while full and (largest := self._over_limit()) is not None:
            largest.flush()
        if grown:
            self._settle()

    def _note(self, owner: BufferOwner, held_bytes: int) -> tuple[bool, bool]:
        """Set an account: should the thread's slices be copied now, may the pool be over its limit."""
        thread = threading.get_ident()
        account = self._accounts.setdefault(owner, _Account(thread))
        change, account.held, account.thread = held_bytes - account.held, held_bytes, thread
        self._total += change
        added = self._unsettled[thread] = self._unsettled.get(thread, 0) + max(0, change)
        grown = added > self.limit_bytes // 2 and thread in self._relieved
        return grown, self._total > self.limit_bytes

    def _add_up(self) -> int:
        self._total = sum(a.held for a in self._accounts.values())
        return self._total

    def _over_limit(self) -> BufferOwner | None:
        """The largest owner of this thread while the pool is over its limit and the thread holds anything."""
        with self._accounts_lock:
            if self._add_up() <= self.limit_bytes:
                return None
            thread = threading.get_ident()
            mine = [(a.held, o) for o, a in self._accounts.items() if a.thread == thread and a.held]
            self._relieved.add(thread)
        return max(mine, key=lambda m: m[0])[1] if mine else None

    def _settle(self) -> None:
        thread = threading.get_ident()
        with self._accounts_lock:
            mine = [o for o, a in self._accounts.items() if a.thread == thread and a.held]
            self._unsettled.pop(thread, None)
            self._relieved.discard(thread)
        for owner in mine:
            owner.settle()
