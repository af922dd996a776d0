"""What the keys of row images are needed for: updates that move a row, and parts of a table for tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.hashing import bucket_of
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tablestore.format.types.arrow_types import from_arrow

Kinds = npt.NDArray[np.int8]


def keyed(key: Sequence[pa.Array], kinds: Kinds) -> Kinds:
    """Row kinds in which an update of the key is −D and +I: a sink by key has two rows to change."""
    before = np.flatnonzero(kinds == UPDATE_BEFORE)
    if not len(before):
        return kinds
    moved = np.zeros(len(before), np.bool_)
    for column in key:
        old, new = column.take(pa.array(before)), column.take(pa.array(before + 1))
        same = pc.fill_null(pc.equal(old, new), False)
        nulls = pc.and_(old.is_null(), new.is_null())
        moved |= ~pc.or_(same, nulls).to_numpy(zero_copy_only=False)
    changed = kinds.copy()
    changed[before[moved]] = DELETE
    changed[before[moved] + 1] = INSERT
    assert (changed[before[~moved] + 1] == UPDATE_AFTER).all(), (
        "an image before a change has the one after it next"
    )
    return changed


def part_of(key: Sequence[pa.Array], parts: int) -> npt.NDArray[np.int32]:
    """In which of so many parts each row is: a hash of its key, the same in every process."""
    return bucket_of(key, [from_arrow(column.type) for column in key], parts)
