"""Reads at once: an object store answers each request after its latency, so several are on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tablestore.io.paths import is_object_location

AT_ONCE = 16
T = TypeVar("T")


def read_together(read: Callable[[str], T], paths: Sequence[str]) -> list[T]:
    """`read` of each path, in their order: of objects up to 16 at once, of files one after another. Raises
    what the first `read` that fails raises."""
    if len(paths) < 2 or not is_object_location(paths[0]):
        return [read(path) for path in paths]
    with ThreadPoolExecutor(min(AT_ONCE, len(paths))) as pool:
        return list(pool.map(read, paths))
