"""listagg: values of a key joined into one text.

Blank values are skipped, late ones are put first. Whole columns at once: texts in order of their groups
become a list array, which Arrow joins. With `distinct` the first value is kept whole, and of the others only
new tokens are added. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.types.arrow_types import DataType, to_arrow
from tablestore.lsm.merge.aggregators.flat import Flat
from tablestore.lsm.merge.walk import OLDER, SET, SKIP, Failures, Walk

# Java's white space, which excludes no-break spaces.
_BLANK = (
    r"^[\t\n\x0B\f\r\x1C-\x1F \x{1680}\x{2000}-\x{2006}\x{2008}-\x{200A}\x{2028}\x{2029}\x{205F}\x{3000}]*$"
)


def _is_blank(texts: pa.Array) -> np.ndarray:
    return pc.fill_null(pc.match_substring_regex(texts, _BLANK), True).to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True)
class ListAgg:
    """Joins texts with `delimiter`; `distinct` adds only new tokens."""

    delimiter: str = ","
    distinct: bool = False

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array:
        """One text a group; NULL if all are blank."""
        texts = column.take(pa.array(walk.rows))
        live = (walk.actions != SKIP) & walk.since_set()
        blank = _is_blank(texts)
        kept = np.flatnonzero(live & ~blank)
        late = walk.actions[kept] == OLDER
        kept = kept[np.lexsort((np.where(late, -kept, kept), ~late, walk.group_of[kept]))]
        groups = walk.group_of[kept]
        counts = np.bincount(groups, minlength=len(walk.starts))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), texts.take(pa.array(kept)))
        joined = pc.binary_join(self._new_tokens(lists) if self.distinct else lists, self.delimiter)
        blank &= live & ((walk.actions == SET) | (walk.actions == OLDER))
        return _with_blanks(joined.cast(to_arrow(t)), counts, texts, walk.last(blank))

    def _new_tokens(self, lists: pa.Array) -> pa.Array:
        """Of each list the first value whole, and of the others the tokens that no value before has."""
        values, starts = lists.flatten(), lists.offsets.to_numpy()
        group_of = np.repeat(np.arange(len(lists)), np.diff(starts))
        split = pc.split_pattern(values, self.delimiter)
        tokens, value_of = split.flatten(), pc.list_parent_indices(split).to_numpy()
        flat = Flat(np.arange(len(tokens)), group_of[value_of], np.zeros(len(tokens), dtype=bool))
        flat = flat.firsts(tokens.dictionary_encode().indices.to_numpy())
        first = starts[:-1][np.diff(starts) > 0]
        new = flat.numbers[~_is_blank(tokens)[flat.numbers] & ~np.isin(value_of[flat.numbers], first)]
        groups = np.concatenate([group_of[first], group_of[value_of[new]]])
        order = np.argsort(groups, kind="stable")
        texts = pa.concat_arrays([values.take(pa.array(first)), tokens.take(pa.array(new))])
        ends = np.cumsum(np.bincount(groups, minlength=len(lists)))
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), texts.take(pa.array(order)))


def _with_blanks(joined: pa.Array, counts: np.ndarray, texts: pa.Array, last_blank: np.ndarray) -> pa.Array:
    """Groups without any token get the blank they were reset to, or the last late one (as in Java: a late
    blank replaces nothing)."""
    places = np.where(counts > 0, len(texts) + np.arange(len(counts)), last_blank)
    return pa.concat_arrays([texts, joined]).take(pa.array(places, mask=places < 0))
