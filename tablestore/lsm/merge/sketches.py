"""rbm32, rbm64, theta_sketch and hll_sketch: unions of bitmaps and sketches kept as bytes.

Key by key, for keys with several rows. rbm32 holds 32-bit roaring bitmaps in the portable form, rbm64
64-bit ones in the form of a Java class (`format.roaring_tree`); the sketches are those of Apache
DataSketches, whose library must be installed. Used by `functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa

from tablestore.errors import Unsupported
from tablestore.format import roaring, roaring_tree
from tablestore.format.types.arrow_types import DataType
from tablestore.lsm.merge.walk import OLDER, SET, SKIP, Failures, Walk

try:
    import datasketches
except ImportError:
    datasketches = None

Union = Callable[..., bytes]  # of two sets or more, the oldest first


@dataclass(frozen=True, slots=True)
class BytesUnion:
    """The union of all values of a key that are not NULL; late ones are the older of two."""

    union: Union

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One value a group."""
        values, actions = column.take(pa.array(walk.rows)).to_pylist(), walk.actions.tolist()
        found: list[bytes | None] = []
        for group, (start, end) in enumerate(zip(walk.starts.tolist(), walk.ends.tolist(), strict=True)):
            try:
                found.append(self._of_one(values[start:end], actions[start:end]))
            except (ValueError, RuntimeError) as e:
                failures.add(group, name, f"bytes that are no such bitmap or sketch: {e}")
                found.append(None)
        return pa.array(found, column.type)

    def _of_one(self, values: Sequence[bytes | None], actions: Sequence[int]) -> bytes | None:
        parts: list[bytes] = []
        for value, action in zip(values, actions, strict=True):
            if action == SET:
                parts = []
            if value is None or action == SKIP:
                continue
            parts = [value, self._joined(parts)] if action == OLDER and parts else [*parts, value]
        return self._joined(parts) if parts else None

    def _joined(self, parts: Sequence[bytes]) -> bytes:
        return parts[0] if len(parts) == 1 else self.union(*parts)


def rbm32(*bitmaps: bytes) -> bytes:
    """All 32-bit bitmaps as one."""
    return roaring.encode32(np.unique(np.concatenate([roaring.decode32(one) for one in bitmaps])))


def rbm64(*bitmaps: bytes) -> bytes:
    """All 64-bit bitmaps as one."""
    return roaring_tree.union(*bitmaps)


def theta(*parts: bytes) -> bytes:
    """The union of theta sketches, compact and ordered."""
    return reduce(_theta, parts)


def _theta(held: bytes, given: bytes) -> bytes:
    union = datasketches.theta_union()
    for one in (held, given):
        union.update(datasketches.compact_theta_sketch.deserialize(one))
    return union.get_result().serialize()


def hll(*parts: bytes) -> bytes:
    """The union of HLL sketches, as a compact HLL_4 with the size of the newest one."""
    return reduce(_hll, parts)


def _hll(held: bytes, given: bytes) -> bytes:
    newer = datasketches.hll_sketch.deserialize(given)
    union = datasketches.hll_union(newer.lg_config_k)
    union.update(newer)
    union.update(datasketches.hll_sketch.deserialize(held))
    return union.get_result(datasketches.tgt_hll_type.HLL_4).serialize_compact()


def require_library(function: str) -> None:
    """Raise Unsupported if sketches cannot be merged here."""
    if datasketches is None:
        raise Unsupported(f"aggregate function {function}", "install the package datasketches")
