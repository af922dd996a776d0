"""Which rows of a data file a filter can select, by the file's indexes.

The result is a mask of rows, or a bool for all of them: it includes every row that the filter selects, and
may include others. A bloom filter can only exclude the whole file.
"""

from __future__ import annotations

import operator
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from tablestore.core.errors import Corrupt, brief
from tablestore.format.file_index import bitmap, bloom, bsi, container, range_bitmap, values
from tablestore.format.predicates.predicate import Always, And, Compare, Compound, In, IsNull, Leaf, Predicate
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType

Selection = np.ndarray | bool  # a mask of rows; True: any row may be selected, False: none is
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def select(data: bytes, path: str, where: Predicate, schema: TableSchema, rows: int) -> Selection:
    """Which rows of a file `where` (bound to the file's schema) may select; raises Corrupt naming `path`."""
    indexes = container.decode(data, path).indexes
    try:
        selected = _select(indexes, where, schema, rows)
    except (ValueError, struct.error, IndexError, KeyError) as e:
        raise Corrupt(path, f"not a readable file index: {brief(e)}") from e
    return selected if isinstance(selected, bool) or selected.any() else False


def _select(
    indexes: Mapping[str, Mapping[str, bytes | None]], p: Predicate, schema: TableSchema, rows: int
) -> Selection:
    if isinstance(p, Always):
        return p.value
    if isinstance(p, Leaf):
        field = schema.by_name.get(p.column)
        if field is None:
            return True
        selection: Selection = True
        for kind, data in indexes.get(p.column, {}).items():
            selection = _both(selection, _leaf(kind, data, p, field.type.as_nullable(), rows))
        return selection
    assert isinstance(p, Compound)
    parts = [_select(indexes, term, schema, rows) for term in p.terms]
    return reduce(_both if isinstance(p, And) else _either, parts)


def _both(a: Selection, b: Selection) -> Selection:
    if isinstance(a, bool):
        return b if a else False
    return (a if b else False) if isinstance(b, bool) else a & b


def _either(a: Selection, b: Selection) -> Selection:
    if isinstance(a, bool):
        return True if a else b
    return (True if b else a) if isinstance(b, bool) else a | b


def _leaf(kind: str, data: bytes | None, leaf: Leaf, t: DataType, rows: int) -> Selection:
    """The selection of one condition by one index."""
    if data is None:  # the column has no value
        return isinstance(leaf, IsNull) and not leaf.inverse
    if kind == bloom.KIND:
        wanted = _wanted(leaf, t)
        return wanted is None or any(bloom.may_hold(data, v, t) for v in wanted)
    if kind == bitmap.KIND:
        return _by_bitmap(bitmap.BitmapReader(data, t, rows), leaf, t)
    if kind == bsi.KIND:
        return _by_values(*bsi.read(data, rows), leaf, t)
    if kind == range_bitmap.KIND:
        return _by_codes(range_bitmap.read(data, t, rows), leaf, t)
    return True


def _wanted(leaf: Leaf, t: DataType) -> list[Any] | None:
    """The values that the condition allows, in the form of cells; None if it has no such list."""
    if isinstance(leaf, Compare) and leaf.op == "=":
        return values.literals(leaf.value, t)
    if isinstance(leaf, In) and not leaf.inverse:
        return [v for raw in leaf.values for v in values.literals(raw, t)]
    return None


def _refused(leaf: Leaf, t: DataType) -> list[Any] | None:
    """The values that the condition excludes; None if it has no such list, or if indexes round the cells."""
    if values.is_nanos(t):
        return None
    if isinstance(leaf, Compare) and leaf.op == "!=":
        return values.literals(leaf.value, t)
    if isinstance(leaf, In) and leaf.inverse:
        return [v for raw in leaf.values for v in values.literals(raw, t)]
    return None


def _by_bitmap(reader: bitmap.BitmapReader, leaf: Leaf, t: DataType) -> Selection:
    def mask_of(some: list[Any]) -> np.ndarray:
        mask = np.zeros(reader.rows, dtype=bool)
        for value in some:
            mask[reader.rows_of(value)] = True
        return mask

    if isinstance(leaf, IsNull):
        nulls = mask_of([None])
        return ~nulls if leaf.inverse else nulls
    wanted, refused = _wanted(leaf, t), _refused(leaf, t)
    if wanted is not None:
        return mask_of(wanted)
    return True if refused is None else ~mask_of([*refused, None])


def _by_values(numbers: np.ndarray, valid: np.ndarray, leaf: Leaf, t: DataType) -> Selection:
    if isinstance(leaf, IsNull):
        return valid if leaf.inverse else ~valid
    wanted, refused = _wanted(leaf, t), _refused(leaf, t)
    if wanted is not None:
        return valid & np.isin(numbers, np.array(wanted, dtype=np.int64))
    if refused is not None:
        return valid & ~np.isin(numbers, np.array(refused, dtype=np.int64))
    if isinstance(leaf, Compare) and leaf.op in _COMPARE:
        return valid & _COMPARE[_widened(leaf.op, t)](numbers, values.literals(leaf.value, t)[0])
    return True


def _widened(op: str, t: DataType) -> str:
    """The comparison for values of an index: where the index rounds cells, equal values may match, too."""
    return {"<": "<=", ">": ">="}.get(op, op) if values.is_nanos(t) else op


def _by_codes(coded: range_bitmap.Coded, leaf: Leaf, t: DataType) -> Selection:
    codes, keys = coded.codes, coded.keys
    if isinstance(leaf, IsNull):
        return codes >= 0 if leaf.inverse else codes < 0
    wanted, refused = _wanted(leaf, t), _refused(leaf, t)
    if wanted is not None or refused is not None:
        places = ((bisect_left(keys, v), v) for v in wanted or refused or ())
        named = [i for i, v in places if i < len(keys) and keys[i] == v]
        there = np.isin(codes, np.array(named, dtype=np.int64))
        return there if wanted is not None else (codes >= 0) & ~there
    if isinstance(leaf, Compare) and leaf.op in _COMPARE:
        # a float has two zeros: compare with the one that admits more
        bounds = values.literals(leaf.value, t)
        bound = max(bounds) if leaf.op in ("<=", ">") else min(bounds)
        place = (bisect_right if leaf.op in ("<=", ">") else bisect_left)(keys, bound)
        return (codes >= 0) & (codes < place) if leaf.op in ("<", "<=") else codes >= place
    return True
