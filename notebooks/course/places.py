"""Where a notebook's tables live: a temporary folder that goes when the kernel ends, or a path that stays.

File names come from a seed in a temporary folder, so pictures are the same in every run; in a folder that
stays they are random, since a second run must not meet the names of the first. Called by the notebooks.
"""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tablestore as ts
from notebooks.course.data import ORDERS
from tablestore.core.env import SYSTEM, Env


def warehouse(path: str | Path | None = None) -> Path:
    """`path`, or a new temporary folder that is removed when the kernel ends."""
    if path is not None:
        return Path(path)
    folder = Path(tempfile.mkdtemp(prefix="course-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def lake(path: str | Path | None = None, *, seed: int = 7) -> ts.Lake:
    """An empty lake in a temporary folder, or the one in `path`."""
    env = SYSTEM if path is not None else Env(random.Random(seed))
    return ts.connect(str(warehouse(path)), env=env)


def orders_table(
    lake: ts.Lake, options: Mapping[str, Any] | None = None, *, name: str = "shop.orders"
) -> ts.Table:
    """A new, empty table of orders with one bucket; one of that name is dropped.

    Writers only append (`write-only`): a notebook compacts when it says so.
    """
    lake.drop_table(name, if_exists=True)
    chosen = {"bucket": 1, "write-only": True, **(options or {})}
    return lake.create_table(name, schema=ORDERS, primary_key=["order_id"], options=chosen)


@dataclass(frozen=True)
class LaterEnv(Env):
    """The environment of a process `minutes` later: what has an age is older to it.

    >>> SYSTEM.now_ms() < LaterEnv(minutes=1).now_ms()
    True
    """

    minutes: float = 0.0

    def now_ms(self) -> int:
        """Milliseconds since the epoch, as they will be."""
        return super().now_ms() + int(self.minutes * 60_000)
