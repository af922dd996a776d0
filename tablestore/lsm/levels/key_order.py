"""Serialized keys in the format's order: what partitions files by key compares by it (FORMAT.md 12.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tablestore.format import binary_row
from tablestore.format.types.arrow_types import DataType


@dataclass(frozen=True, slots=True)
class _Comparable:
    types: tuple[DataType, ...]

    def __call__(self, key: bytes) -> Any:
        return binary_row.key_order(key, self.types)


def key_order(types: Sequence[DataType]) -> Callable[[bytes], Any]:
    """A picklable function that makes serialized keys of these types comparable in the format's key order."""
    return _Comparable(tuple(types))
