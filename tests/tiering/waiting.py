"""Waiting for what services do in threads of their own."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(true: Callable[[], object]) -> None:
    """Wait until it is true, for at most four minutes."""
    over = time.monotonic() + 240
    while not true():
        assert time.monotonic() < over, "it never came to that"
        time.sleep(0.005)
