"""Patience while a source server is away for a moment. Longer waits are those of who restarts the stream,
which then says that it waits, and for what."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Unavailable
from tablestore.core.options.environment import without_environment

log = logging.getLogger(__name__)
T = TypeVar("T")
AWAY_SECONDS = 20.0


def patiently(
    action: Callable[[], T], *, what: str, patience_seconds: float = AWAY_SECONDS, env: Env = SYSTEM
) -> T:
    """What the action gives; repeated while it raises Unavailable, with growing pauses of up to 10 s, for
    `patience_seconds` in all. The action must be one that may be done again."""
    end = env.monotonic() + patience_seconds
    pause = 0.1
    while True:
        try:
            return action()
        except Unavailable as e:
            left = end - env.monotonic()
            if left <= 0:
                raise Unavailable(f"{e}; given up after {patience_seconds:.0f} s") from e
            text = without_environment(f"{what}: {e}")
            log.warning("%s; again in %.1f s, for %.0f s more", text, pause, left)
            env.sleep(min(left, pause * (0.5 + env.jitter() / 2)))
            pause = min(10.0, pause * 2)
