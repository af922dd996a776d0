"""The memory of all write buffers of a process: one pool; when it is full the largest buffer flushes.

Without a shared pool, hundreds of buckets would each claim `write-buffer-size`. Flushing to level 0 is the
relief, so nothing is spilled elsewhere. Slices keep the whole batch they were cut from alive, which costs
nothing until some of them are flushed. From then on, after each half pool of new rows, buffers that did not
flush copy what they hold (`settle`), so no more than that is kept.
Owners that flush beside their thread begin when three quarters are buffered; what a flush still holds counts,
and only a full pool is waited for.
Safe to share between threads: a writer is flushed by its own thread only.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class BufferOwner(Protocol):
    """A writer that holds rows in memory. `wait` returns when its flush that is under way is done."""

    def flush(self) -> None: ...
    def settle(self) -> None: ...
    def wait(self) -> None: ...


@dataclass(slots=True)
class _Account:
    thread: int
    beside: bool = False
    held: int = 0
    under_way: int = 0  # bytes that a flush beside the thread still holds
    began: int = 0  # when that flush began, in flushes of the pool


class MemoryPool:
    """Bytes held by the write buffers of this process. Owners that vanish without `release` stop counting."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._accounts_lock = threading.Lock()
        self._accounts: weakref.WeakKeyDictionary[BufferOwner, _Account] = weakref.WeakKeyDictionary()
        self._total = 0  # of all accounts; owners that vanished are in it until it is added up again
        self._flushes = 0
        self._relieved: set[int] = set()  # threads that flushed since they last settled
        self._unsettled: dict[int, int] = {}  # bytes added by each thread since it last settled

    @property
    def held_bytes(self) -> int:
        """Bytes held by all owners and their flushes."""
        with self._accounts_lock:
            return self._add_up()

    def register(self, owner: BufferOwner, *, beside: bool = False) -> None:
        """Begin to count an owner, for the calling thread; `beside`: its flushes go on beside that thread."""
        with self._accounts_lock:
            self._accounts[owner] = _Account(threading.get_ident(), beside)

    def release(self, owner: BufferOwner) -> None:
        """Stop counting an owner; unknown ones are fine."""
        with self._accounts_lock:
            self._accounts.pop(owner, None)
            self._add_up()

    def report(self, owner: BufferOwner, held_bytes: int) -> None:
        """An owner holds so much now. While that is too much, this thread's largest flushes, or a flush that
        it began is waited for."""
        with self._accounts_lock:
            grown, full = self._note(owner, held_bytes)
        if not held_bytes:
            return  # a flush reports that it is done: nothing to do inside it
        while full and (relief := self._relief()) is not None:
            relief()
        if grown:
            self._settle()

    def begun(self, owner: BufferOwner, held_bytes: int) -> None:
        """An owner begins to flush, beside its thread, so much: all it holds."""
        with self._accounts_lock:
            account = self._accounts.setdefault(owner, _Account(threading.get_ident()))
            self._flushes += 1
            account.began, account.under_way, account.held = self._flushes, held_bytes, 0

    def flushed(self, owner: BufferOwner) -> None:
        """The flush of an owner that was under way is done."""
        with self._accounts_lock:
            if owner in self._accounts:
                self._accounts[owner].under_way = 0

    def _note(self, owner: BufferOwner, held_bytes: int) -> tuple[bool, bool]:
        """Set an account: should the thread's slices be copied now, may there be need to flush."""
        thread = threading.get_ident()
        account = self._accounts.setdefault(owner, _Account(thread))
        change, account.held, account.thread = held_bytes - account.held, held_bytes, thread
        self._total += change
        added = self._unsettled[thread] = self._unsettled.get(thread, 0) + max(0, change)
        grown = added > self.limit_bytes // 2 and thread in self._relieved
        return grown, self._total > self.limit_bytes * 3 // 4

    def _add_up(self) -> int:
        self._total = sum(a.held + a.under_way for a in self._accounts.values())
        return self._total

    def _relief(self) -> Callable[[], None] | None:
        """What this thread does now so that the pool stays within its limit: its largest flushes, or it waits
        for the flush that it began first."""
        with self._accounts_lock:
            full = self._add_up() > self.limit_bytes
            buffered, thread = sum(a.held for a in self._accounts.values()), threading.get_ident()
            mine = [(a, o) for o, a in self._accounts.items() if a.thread == thread]
            held = [(a.held, o) for a, o in mine if a.held]
            begun = [(a.began, o) for a, o in mine if a.under_way]
            room = self.limit_bytes * 3 // 4 if any(a.beside for a, _ in mine) else self.limit_bytes
            if full and begun and buffered <= room:
                return min(begun, key=lambda m: m[0])[1].wait
            if not held or not (full or buffered > room):
                return None
            self._relieved.add(thread)
        return max(held, key=lambda m: m[0])[1].flush

    def _settle(self) -> None:
        thread = threading.get_ident()
        with self._accounts_lock:
            mine = [o for o, a in self._accounts.items() if a.thread == thread and a.held]
            self._unsettled.pop(thread, None)
            self._relieved.discard(thread)
        for owner in mine:
            owner.settle()
