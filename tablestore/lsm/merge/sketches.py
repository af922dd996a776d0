"""rbm32, rbm64, theta_sketch and hll_sketch: unions of bitmaps and sketches kept as bytes.

Key by key, for keys with several rows. rbm32 holds 32-bit roaring bitmaps in the portable form, rbm64
64-bit ones in the form of a Java class (`format.roaring_tree`); the sketches are those of Apache
DataSketches, whose library must be installed. Used by `functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.errors import Unsupported
from tablestore.format import roaring, roaring_tree
from tablestore.format.types import DataType
from tablestore.lsm.merge.walk import OLDER, SET, SKIP, Failures, Walk

try:
    import datasketches
except ImportError:
    datasketches = None

Union = Callable[[bytes, bytes], bytes]


@dataclass(frozen=True, slots=True)
class BytesUnion:
    """The union of all values of a key that are not NULL; late ones are the older of two."""

    union: Union

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One value a group."""
        values, actions = column.take(pa.array(walk.rows)).to_pylist(), walk.actions
        found: list[bytes | None] = []
        for group, (start, end) in enumerate(zip(walk.starts.tolist(), walk.ends.tolist(), strict=True)):
            held: bytes | None = None
            try:
                for place in range(start, end):
                    if actions[place] == SET or (held is None and actions[place] != SKIP):
                        held = values[place]
                    elif actions[place] == OLDER and values[place] is not None:
                        held = self.union(values[place], held)
                    elif actions[place] != SKIP and values[place] is not None:
                        held = self.union(held, values[place])
            except (ValueError, RuntimeError) as e:
                failures.add(group, name, f"bytes that are no such bitmap or sketch: {e}")
            found.append(held)
        return pa.array(found, column.type)


def rbm32(held: bytes, given: bytes) -> bytes:
    """Both 32-bit bitmaps as one."""
    return roaring.encode32(np.union1d(roaring.decode32(held), roaring.decode32(given)))


def rbm64(held: bytes, given: bytes) -> bytes:
    """Both 64-bit bitmaps as one."""
    return roaring_tree.union(held, given)


def theta(held: bytes, given: bytes) -> bytes:
    """The union of two theta sketches, compact and ordered."""
    union = datasketches.theta_union()
    for one in (held, given):
        union.update(datasketches.compact_theta_sketch.deserialize(one))
    return union.get_result().serialize()


def hll(held: bytes, given: bytes) -> bytes:
    """The union of two HLL sketches, as a compact HLL_4 with the size of the newer one."""
    newer = datasketches.hll_sketch.deserialize(given)
    union = datasketches.hll_union(newer.lg_config_k)
    union.update(newer)
    union.update(datasketches.hll_sketch.deserialize(held))
    return union.get_result(datasketches.tgt_hll_type.HLL_4).serialize_compact()


def require_library(function: str) -> None:
    """Raise Unsupported if sketches cannot be merged here."""
    if datasketches is None:
        raise Unsupported(f"aggregate function {function}", "install the package datasketches")
