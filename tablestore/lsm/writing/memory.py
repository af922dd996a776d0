"""The memory of all write buffers of a process: one pool; when it is full the largest buffer flushes.

Without a shared pool, hundreds of buckets would each claim `write-buffer-size`. Flushing to level 0 is the
relief, so nothing is spilled elsewhere. Slices keep the whole batch they were cut from alive, which costs
nothing until some of them are flushed. From then on, after each half pool of new rows, buffers that did not
flush copy what they hold (`settle`), so no more than that is kept. Owners with background flushes begin one
when three quarters are buffered; what a flush still writes counts, and only a full pool is waited for. Safe
to share between threads: a writer is flushed by its own thread only.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class BufferOwner(Protocol):
    """A writer that buffers rows. `wait` returns when its background flush is done."""

    def flush(self) -> None: ...
    def settle(self) -> None: ...
    def wait(self) -> None: ...


@dataclass(slots=True)
class _Account:
    thread: int
    background: bool = False
    buffered: int = 0
    flushing: int = 0  # bytes that a background flush still writes
    began: int = 0  # when that flush began, in flushes of the pool


class MemoryPool:
    """Bytes in the write buffers of this process. Owners that vanish without `release` stop counting."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._accounts_lock = threading.Lock()
        self._accounts: weakref.WeakKeyDictionary[BufferOwner, _Account] = weakref.WeakKeyDictionary()
        self._total = 0  # of all accounts; owners that vanished are in it until it is added up again
        self._flushes = 0
        self._relieved: set[int] = set()  # threads that flushed since they last settled
        self._unsettled: dict[int, int] = {}  # bytes added by each thread since it last settled

    @property
    def used_bytes(self) -> int:
        """Bytes that all owners buffer, and that their flushes still write."""
        with self._accounts_lock:
            return self._add_up()

    def register(self, owner: BufferOwner, *, background: bool = False) -> None:
        """Begin to count an owner, for the calling thread; `background`: its flushes run on other threads."""
        with self._accounts_lock:
            self._accounts[owner] = _Account(threading.get_ident(), background)

    def release(self, owner: BufferOwner) -> None:
        """Stop counting an owner; unknown ones are fine."""
        with self._accounts_lock:
            self._accounts.pop(owner, None)
            self._add_up()

    def report(self, owner: BufferOwner, buffered_bytes: int) -> None:
        """An owner buffers so much now. While that is too much, this thread's largest owner flushes, or a
        flush that this thread began is waited for."""
        with self._accounts_lock:
            grown, full = self._note(owner, buffered_bytes)
        if not buffered_bytes:
            return  # a flush reports that it is done: nothing to do inside it
        while full and (relief := self._relief()) is not None:
            relief()
        if grown:
            self._settle()

    def flush_began(self, owner: BufferOwner, buffered_bytes: int) -> None:
        """An owner begins a background flush of so much: all that it buffers."""
        with self._accounts_lock:
            account = self._accounts.setdefault(owner, _Account(threading.get_ident()))
            self._flushes += 1
            account.began, account.flushing, account.buffered = self._flushes, buffered_bytes, 0

    def flush_ended(self, owner: BufferOwner) -> None:
        """The background flush of an owner is done."""
        with self._accounts_lock:
            if owner in self._accounts:
                self._accounts[owner].flushing = 0

    def _note(self, owner: BufferOwner, buffered_bytes: int) -> tuple[bool, bool]:
        """Set an account: should the thread's slices be copied now, may there be need to flush."""
        thread = threading.get_ident()
        account = self._accounts.setdefault(owner, _Account(thread))
        change, account.buffered, account.thread = buffered_bytes - account.buffered, buffered_bytes, thread
        self._total += change
        added = self._unsettled[thread] = self._unsettled.get(thread, 0) + max(0, change)
        grown = added > self.limit_bytes // 2 and thread in self._relieved
        return grown, self._total > self.limit_bytes * 3 // 4

    def _add_up(self) -> int:
        self._total = sum(a.buffered + a.flushing for a in self._accounts.values())
        return self._total

    def _relief(self) -> Callable[[], None] | None:
        """What this thread does now so that the pool stays within its limit: it flushes its largest owner, or
        waits for the flush that it began first; None if nothing is needed."""
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
