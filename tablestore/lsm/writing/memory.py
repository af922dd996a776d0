"""MemoryPool: the memory of all write buffers of a process; when it is full the largest buffer flushes.

Without a shared pool, hundreds of buckets would each use `write-buffer-size`. A full pool flushes to level 0,
so nothing is spilled elsewhere. Slices keep the whole batch that they were cut from alive, which costs
nothing until some of them are flushed. From then on, after each half pool of new rows, buffers that did not
flush copy their rows (`settle`), so no more than that is kept alive. Owners with background flushes begin one
when three quarters of the pool are buffered; bytes that a flush still writes count, and writers wait only for
a full pool. Safe to share between threads: a writer is flushed by its own thread only.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class BufferOwner(Protocol):
    """A writer that buffers rows. `wait` returns when its background flush has ended."""

    def flush(self) -> None: ...
    def settle(self) -> None: ...
    def wait(self) -> None: ...


@dataclass(slots=True)
class _WriterMemory:
    thread: int
    background: bool = False
    buffered: int = 0
    flushing: int = 0  # bytes that a background flush still writes
    began: int = 0  # number of that flush in the pool


class MemoryPool:
    """Bytes in the write buffers of this process. Owners that are collected without `release` stop
    counting."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = max(limit_bytes, 1)  # other engines store 0, too
        self._accounts_lock = threading.Lock()
        self._accounts: weakref.WeakKeyDictionary[BufferOwner, _WriterMemory] = weakref.WeakKeyDictionary()
        self._total = 0  # of all accounts; includes collected owners until the next sum
        self._flushes = 0
        self._relieved: set[int] = set()  # threads that flushed since they last settled
        self._unsettled: dict[int, int] = {}  # bytes added by each thread since it last settled

    @property
    def used_bytes(self) -> int:
        """Bytes that all owners buffer or that their flushes still write."""
        with self._accounts_lock:
            return self._add_up()

    def register(self, owner: BufferOwner, *, background: bool = False) -> None:
        """Begin to count an owner, for the calling thread; `background`: its flushes run on other threads."""
        with self._accounts_lock:
            self._accounts[owner] = _WriterMemory(threading.get_ident(), background)

    def release(self, owner: BufferOwner) -> None:
        """Stop counting an owner; unknown ones are fine."""
        with self._accounts_lock:
            self._accounts.pop(owner, None)
            self._add_up()

    def report(self, owner: BufferOwner, buffered_bytes: int) -> None:
        """Set the bytes that an owner buffers. While the pool is too full, flush this thread's largest owner,
        or wait for a flush that this thread began."""
        with self._accounts_lock:
            grown, full = self._note(owner, buffered_bytes)
        if not buffered_bytes:
            return  # called inside a flush: nothing to do
        while full and (relief := self._relief()) is not None:
            relief()
        if grown:
            self._settle()

    def flush_began(self, owner: BufferOwner, buffered_bytes: int) -> None:
        """Note that an owner begins a background flush of all its buffered bytes."""
        with self._accounts_lock:
            account = self._accounts.setdefault(owner, _WriterMemory(threading.get_ident()))
            self._flushes += 1
            account.began, account.flushing, account.buffered = self._flushes, buffered_bytes, 0

    def flush_ended(self, owner: BufferOwner) -> None:
        """Note that the background flush of an owner has ended."""
        with self._accounts_lock:
            if owner in self._accounts:
                self._accounts[owner].flushing = 0

    def _note(self, owner: BufferOwner, buffered_bytes: int) -> tuple[bool, bool]:
        """Set an account; (whether to copy the thread's slices now, whether a flush may be needed)."""
        thread = threading.get_ident()
        account = self._accounts.setdefault(owner, _WriterMemory(thread))
        change, account.buffered, account.thread = buffered_bytes - account.buffered, buffered_bytes, thread
        self._total += change
        added = self._unsettled[thread] = self._unsettled.get(thread, 0) + max(0, change)
        grown = added > self.limit_bytes // 2 and thread in self._relieved
        return grown, self._total > self.limit_bytes * 3 // 4

    def _add_up(self) -> int:
        self._total = sum(a.buffered + a.flushing for a in self._accounts.values())
        return self._total

    def _relief(self) -> Callable[[], None] | None:
        """What this thread must call so that the pool stays within its limit: a flush of its largest owner,
        or a wait for the flush that it began first; None if nothing is needed."""
        with self._accounts_lock:
            full = self._add_up() > self.limit_bytes
            total, thread = sum(a.buffered for a in self._accounts.values()), threading.get_ident()
            mine = [(a, o) for o, a in self._accounts.items() if a.thread == thread]
            largest = [(a.buffered, o) for a, o in mine if a.buffered]
            running = [(a.began, o) for a, o in mine if a.flushing]
            room = self.limit_bytes * 3 // 4 if any(a.background for a, _ in mine) else self.limit_bytes
            if full and running and total <= room:
                return min(running, key=lambda m: m[0])[1].wait
            if not largest or not (full or total > room):
                return None
            self._relieved.add(thread)
        return max(largest, key=lambda m: m[0])[1].flush

    def _settle(self) -> None:
        thread = threading.get_ident()
        with self._accounts_lock:
            mine = [o for o, a in self._accounts.items() if a.thread == thread and a.buffered]
            self._unsettled.pop(thread, None)
            self._relieved.discard(thread)
        for owner in mine:
            owner.settle()
