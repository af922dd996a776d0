"""Work on one batch while the one before is used, or the next one comes: by a thread, for batches that are
worth it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_LARGE_ROWS = 1000


def overlapped(batches: Iterable[T], work: Callable[[T], R], rows: Callable[[T], int]) -> Generator[R]:
    """What `work` makes of each batch, in their order. Memory: two batches and what is made of them."""
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(1) as worker:
        for batch in batches:
            if not waiting and rows(batch) < _LARGE_ROWS:
                yield work(batch)
                continue
            waiting.append(worker.submit(work, batch))
            if len(waiting) > 1:
                yield waiting.popleft().result()
        for pending in waiting:
            yield pending.result()
