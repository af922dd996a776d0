"""What a process that reads hostile files may take: address space, threads, time.

Time is CPU time, which a busy machine does not shorten; what waits without computing is given more, by the
clock. Used by the workers of this folder and by the tests that start them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

FEW_THREADS = {**os.environ, "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "2", "POLARS_MAX_THREADS": "2"}
"""Each thread reserves address space, which is what is capped: many cores would leave nothing of it."""
_PATIENCE = 20


@contextmanager
def at_most(seconds: int, late: Callable[..., Any]) -> Iterator[None]:
    """`late`, a signal handler, is called in the block after so many seconds of CPU time."""
    signal.signal(signal.SIGPROF, late)
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(seconds * _PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
