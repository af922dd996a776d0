"""The pool of write buffers: the largest flushes, in its own thread only."""

from __future__ import annotations

import gc
import threading

from tablestore.lsm.writing.memory import MemoryPool


class Owner:
    def __init__(self, pool: MemoryPool) -> None:
        self.pool, self.used, self.flushed, self.settled = pool, 0, 0, 0
        pool.register(self)

    def grow(self, count: int) -> None:
        self.used += count
        self.pool.report(self, self.used)

    def flush(self) -> None:
        self.used, self.flushed = 0, self.flushed + 1
        self.pool.report(self, 0)

    def settle(self) -> None:
        self.settled += 1


def test_the_largest_flushes_when_the_pool_is_full():
    pool = MemoryPool(100)
    small, large = Owner(pool), Owner(pool)
    small.grow(30)
    large.grow(60)
    assert (small.flushed, large.flushed) == (0, 0)
    small.grow(20)
    assert (small.flushed, large.flushed) == (0, 1)
    assert pool.used_bytes == 50


def test_one_buffer_larger_than_the_pool_flushes_at_once():
    pool = MemoryPool(100)
    owner = Owner(pool)
    owner.grow(1000)
    assert (owner.flushed, pool.used_bytes) == (1, 0)


def test_a_released_or_vanished_owner_no_longer_counts():
    pool = MemoryPool(100)
    first, second = Owner(pool), Owner(pool)
    first.grow(40)
    second.grow(40)
    pool.release(first)
    assert pool.used_bytes == 40
    del second
    gc.collect()
    assert pool.used_bytes == 0


def test_another_threads_writer_is_never_flushed():
    pool = MemoryPool(100)
    foreign: list[Owner] = []
    thread = threading.Thread(target=lambda: foreign.append(Owner(pool)) or foreign[0].grow(90))
    thread.start()
    thread.join()
    mine = Owner(pool)
    mine.grow(20)
    assert (mine.flushed, foreign[0].flushed) == (1, 0)
    assert pool.used_bytes == 90


def test_buffers_settle_after_a_flush_once_half_a_pool_of_rows_came():
    pool = MemoryPool(100)
    cold, hot = Owner(pool), Owner(pool)
    cold.grow(1)
    seen = []
    for _ in range(6):
        hot.grow(40)
        seen.append((hot.flushed, cold.settled))
    assert seen == [(0, 0), (0, 0), (1, 0), (1, 1), (1, 1), (2, 1)]


def test_a_vanished_owner_makes_no_one_flush():
    pool = MemoryPool(100)
    gone, owner = Owner(pool), Owner(pool)
    gone.grow(90)
    del gone
    gc.collect()
    owner.grow(90)
    assert owner.flushed == 0


class SlowOwner(Owner):
    """An owner whose flush goes on until it is waited for."""

    under_way = waited = 0

    def __init__(self, pool: MemoryPool) -> None:
        super().__init__(pool)
        pool.register(self, background=True)

    def flush(self) -> None:
        self.wait()
        self.under_way, self.used, self.flushed = self.used, 0, self.flushed + 1
        self.pool.flush_began(self, self.under_way)

    def wait(self) -> None:
        if self.under_way:
            self.under_way, self.waited = 0, self.waited + 1
            self.pool.flush_ended(self)


def test_flushes_beside_begin_early_and_are_waited_for_when_the_pool_is_full():
    pool = MemoryPool(100)
    first, second = SlowOwner(pool), SlowOwner(pool)
    first.grow(40)
    second.grow(35)
    assert (first.flushed, second.flushed) == (0, 0)
    second.grow(10)  # three quarters are buffered: the larger begins
    assert (second.flushed, second.waited, pool.used_bytes) == (1, 0, 85)
    first.grow(15)
    assert (second.waited, pool.used_bytes) == (0, 100)
    first.grow(1)
    assert (first.flushed, second.waited, pool.used_bytes) == (0, 1, 56)


def test_the_pool_is_never_above_its_limit_after_a_report():
    pool = MemoryPool(100)
    owners = [SlowOwner(pool) for _ in range(4)]
    goes_on = 0
    for turn in range(60):
        owners[turn % 4].grow(7 + turn % 5)
        assert pool.used_bytes <= 100
        goes_on += any(o.under_way for o in owners)
    assert sum(o.flushed for o in owners) > 4
    assert goes_on > 30  # rows came in while others were written
