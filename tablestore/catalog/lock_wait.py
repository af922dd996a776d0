"""Waiting for a lock: attempts with pauses that grow from 100 ms to `lock-check-max-sleep`, until
`lock-acquire-timeout`. The schedule is Paimon's, with random jitter so that waiters do not retry in step."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tablestore.catalog.options import LockOptions
from tablestore.core.env import Env
from tablestore.core.errors import Unavailable

log = logging.getLogger(__name__)
_FIRST_MS = 50


def acquire(attempt: Callable[[], bool], options: LockOptions, env: Env, holder: Callable[[], str]) -> None:
    """Return once `attempt` has succeeded; raises Unavailable with `holder()` after the timeout."""
    started, pause = env.monotonic(), float(_FIRST_MS)
    while not attempt():
        waited = (env.monotonic() - started) * 1000
        if waited >= options.acquire_ms:
            raise Unavailable(
                f"no lock after {waited / 1000:.1f} s: {holder()}; retry, or raise lock-acquire-timeout"
            )
        pause = min(pause * 2, options.check_max_sleep_ms)
        log.debug("waiting for a lock: %s", holder)
        env.sleep(min(pause * (0.5 + env.jitter() / 2), options.acquire_ms - waited + 1) / 1000)
