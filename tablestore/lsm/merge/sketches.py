"""rbm32, rbm64, theta_sketch and hll_sketch: unions of bitmaps and sketches kept as bytes.

A key's only value stays as it is. rbm32 (32-bit roaring bitmaps in the portable form): as many keys at once
as have a few million positions together. rbm64 (64-bit ones in the form of a Java class,
`format.roaring_tree`): see there. The sketches are those of Apache DataSketches, whose library must be
installed: its objects are per key, so these keys go one by one. Used by `functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.errors import Unsupported
from tablestore.format import roaring, roaring_columns, roaring_tree
from tablestore.format.types.arrow_types import DataType
from tablestore.lsm.merge.choose import present
from tablestore.lsm.merge.walk import OLDER, SKIP, Failures, Walk

try:
    import datasketches
except ImportError:
    datasketches = None

_BYTES_AT_ONCE, _POSITIONS_AT_ONCE = 1_000_000, 4_000_000


@dataclass(frozen=True, slots=True)
class Several:
    """The values of groups that have two or more, in the order of their rows: group i has `values` from
    starts[i] to ends[i]; `late[p]`: value p is the older one of what comes before it."""

    values: pa.Array
    starts: np.ndarray
    ends: np.ndarray
    late: np.ndarray

    @property
    def group_of(self) -> np.ndarray:
        """The group of each value."""
        return np.repeat(np.arange(len(self.starts)), self.ends - self.starts)

    def sums(self, numbers: np.ndarray) -> np.ndarray:
        """What each group's values have of these numbers together."""
        before = np.concatenate([[0], np.cumsum(numbers, dtype=np.int64)])
        return before[self.ends] - before[self.starts]

    def slice(self, first: int, last: int) -> Several:
        """The groups from `first` up to `last`."""
        begin, end = int(self.starts[first]), int(self.ends[last - 1])
        starts, ends = self.starts[first:last] - begin, self.ends[first:last] - begin
        return Several(self.values.slice(begin, end - begin), starts, ends, self.late[begin:end])

    def each(self, groups: np.ndarray | None) -> Iterator[tuple[list[bytes], list[bool]]]:
        """The values of each group, or of these, and which are late."""
        some = slice(None) if groups is None else groups
        for start, end in zip(self.starts[some].tolist(), self.ends[some].tolist(), strict=True):
            yield self.values[start:end].to_pylist(), self.late[start:end].tolist()


Bad = dict[int, str]  # what is wrong with the bytes of a group


class Union(Protocol):
    """How several values of each group become one; for groups with bytes that are none, why."""

    def __call__(self, several: Several, /) -> tuple[pa.Array, Bad]: ...


@dataclass(frozen=True, slots=True)
class BytesUnion:
    """The union of all values of a key that are not NULL; late ones are the older of two."""

    union: Union

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One value a group."""
        live = (walk.actions != SKIP) & walk.since_set() & present(column, walk.rows)
        counts = np.add.reduceat(live, walk.starts, dtype=np.int64)
        several = np.flatnonzero(counts > 1)
        places = np.flatnonzero(live & (counts > 1)[walk.group_of])
        ends = np.cumsum(counts[several])
        values = column.take(pa.array(walk.rows[places]))
        late = walk.actions[places] == OLDER
        united, bad = self.union(Several(values, ends - counts[several], ends, late))
        for group, reason in bad.items():
            failures.add(several[group], name, f"bytes that are no such bitmap or sketch: {reason}")
        only = walk.rows[np.clip(walk.first(live), 0, len(live) - 1)]
        index = np.where(counts == 1, only, -1)
        index[several] = len(column) + np.arange(len(several))
        return pa.concat_arrays([column, united.cast(column.type)]).take(pa.array(index, mask=index < 0))


def rbm32(several: Several) -> tuple[pa.Array, Bad]:
    """All 32-bit bitmaps of each group as one, so many groups at once that their arrays stay small."""
    sizes = pc.binary_length(several.values).to_numpy(zero_copy_only=False)
    made: list[pa.Array] = [pa.array([], pa.binary())]
    bad: Bad = {}
    for first, last in _chunks(several.sums(sizes), _BYTES_AT_ONCE):
        some = several.slice(first, last)
        bitmaps = roaring_columns.Bitmaps.of(some.values)
        parts = [
            _joined(bitmaps, some, start, end)
            for start, end in _chunks(some.sums(bitmaps.sizes), _POSITIONS_AT_ONCE)
        ]
        united, odd = pa.concat_arrays(parts), np.unique(some.group_of[bitmaps.odd])
        if len(odd):
            again, wrong = _one_by_one(some, odd, _rbm32)
            index = np.arange(len(united))
            index[odd] = len(united) + np.arange(len(odd))
            united = pa.concat_arrays([united, again]).take(pa.array(index))
            bad |= {first + group: reason for group, reason in wrong.items()}
        made.append(united)
    return pa.concat_arrays(made), bad


def _chunks(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive groups of about `most` together."""
    chunk_of = np.cumsum(sizes) // most
    firsts = np.flatnonzero(np.r_[True, chunk_of[1:] != chunk_of[:-1]][: len(sizes)])
    return zip(firsts.tolist(), [*firsts[1:].tolist(), len(sizes)], strict=False)


def _joined(bitmaps: roaring_columns.Bitmaps, several: Several, first: int, last: int) -> pa.Array:
    """The unions of some groups; what comes of odd bitmaps is not known here."""
    which = np.zeros(len(several.values), dtype=bool)
    which[several.starts[first] : several.ends[last - 1]] = True
    found, place = bitmaps.positions(which)
    keys = np.sort((several.group_of[which] - first)[place] << 32 | found, kind="stable")
    keys = keys[np.r_[True, keys[1:] != keys[:-1]][: len(keys)]]
    return roaring_columns.encode(keys & 0xFFFFFFFF, keys >> 32, last - first)


def _rbm32(bitmaps: Sequence[bytes], late: Sequence[bool]) -> bytes:
    return roaring.encode32(np.unique(np.concatenate([roaring.decode32(one) for one in bitmaps])))


def rbm64(several: Several) -> tuple[pa.Array, Bad]:
    """All 64-bit bitmaps of each group as one."""
    return _one_by_one(several, None, _rbm64)


def theta(several: Several) -> tuple[pa.Array, Bad]:
    """The union of theta sketches, compact and ordered."""
    return _one_by_one(several, None, _theta)


def hll(several: Several) -> tuple[pa.Array, Bad]:
    """The union of HLL sketches, as a compact HLL_4 with the size of the newest one."""
    return _one_by_one(several, None, _hll)


def _one_by_one(
    several: Several, groups: np.ndarray | None, union: Callable[[Sequence[bytes], Sequence[bool]], bytes]
) -> tuple[pa.Array, Bad]:
    """What `union` makes of each group, or of these."""
    wanted = range(len(several.starts)) if groups is None else groups.tolist()
    found: list[bytes | None] = []
    bad: Bad = {}
    for group, (parts, late) in zip(wanted, several.each(groups), strict=True):
        try:
            found.append(union(parts, late))
        except (ValueError, RuntimeError) as e:
            bad[group] = str(e)
            found.append(None)
    return pa.array(found, pa.binary()), bad


def _rbm64(bitmaps: Sequence[bytes], late: Sequence[bool]) -> bytes:
    if not any(late[1:]):
        return roaring_tree.union(*bitmaps)
    held = bitmaps[0]
    for given, older in zip(bitmaps[1:], late[1:], strict=True):
        held = roaring_tree.union(given, held) if older else roaring_tree.union(held, given)
    return held


def _theta(parts: Sequence[bytes], late: Sequence[bool]) -> bytes:
    union = datasketches.theta_union()
    for one in parts:
        union.update(datasketches.compact_theta_sketch.deserialize(one))
    return union.get_result().serialize()


def _hll(parts: Sequence[bytes], late: Sequence[bool]) -> bytes:
    sketches = [datasketches.hll_sketch.deserialize(one) for one in parts]
    held = sketches[0]
    if len({one.lg_config_k for one in sketches}) > 1:  # each union has the size of the newer one
        for given, older in zip(sketches[1:], late[1:], strict=True):
            held = _united([held, given] if older else [given, held])
        return held.serialize_compact()
    return _united(sketches[::-1]).serialize_compact()


def _united(sketches: Sequence[Any]) -> Any:
    """One of them all, of the size of the first."""
    union = datasketches.hll_union(sketches[0].lg_config_k)
    for one in sketches:
        union.update(one)
    return union.get_result(datasketches.tgt_hll_type.HLL_4)


def require_library(function: str) -> None:
    """Raise Unsupported if sketches cannot be merged here."""
    if datasketches is None:
        raise Unsupported(f"aggregate function {function}", "install the package datasketches")
