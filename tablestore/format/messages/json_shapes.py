"""Whether the values of JSON messages have the shapes that were asked for.

DuckDB gives NULL where a list was asked for and something else is there, and an object without fields
where an object was: rows of NULLs that nobody wrote. Only messages in which that may have happened are
looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch

Run = Callable[[str, pa.Array], pa.Array]
_ELEMENTS = "[*]"


def require_shapes(texts: pa.Array, found: pa.StructArray, wanted: Mapping[str, Any], run: Run) -> None:
    """Raise SchemaMismatch, naming the place, for a text that has something else than null where `wanted`
    has an object or a list. `found` are the values as DuckDB gave them, `run` runs a query over texts."""
    doubtful = _doubtful(found, wanted, np.ones(len(found), bool))
    if not doubtful.any():
        return
    places = [("$", "OBJECT"), *_places("$", wanted)]
    some = texts.take(pa.array(np.flatnonzero(doubtful)))
    wrong = run(f"SELECT [{', '.join(_test(path, kind) for path, kind in places)}] FROM texts", some)
    flat = pc.list_flatten(wrong).to_numpy(zero_copy_only=False)
    if flat.any():
        path, kind = places[int(np.argmax(flat)) % len(places)]
        what = "a JSON object" if kind == "OBJECT" else "a JSON array"
        raise SchemaMismatch("the message is not a JSON object" if path == "$" else f"{path} is not {what}")


def _doubtful(values: pa.Array, wanted: Any, there: np.ndarray) -> np.ndarray:
    """Which values may have come of another shape; `there`: those whose parents are not NULL."""
    doubtful = np.zeros(len(values), bool)
    valid = values.is_valid().to_numpy(zero_copy_only=False) & there
    if isinstance(wanted, Mapping):
        empty = valid.copy()
        for i, child in enumerate(wanted.values()):
            field = pc.struct_field(values, [i])
            empty &= field.is_null().to_numpy(zero_copy_only=False)
            doubtful |= _doubtful(field, child, valid)
        return doubtful | empty
    if isinstance(wanted, list):
        doubtful = there & ~valid
        if not isinstance(wanted[0], str):
            elements = pc.list_flatten(values)
            of = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
            doubtful[of[_doubtful(elements, wanted[0], np.ones(len(elements), bool))]] = True
    return doubtful


def _places(path: str, wanted: Any) -> Iterator[tuple[str, str]]:
    """(path, type) of the objects and lists in an object or a list."""
    children = (
        [(f'{path}."{_escaped(name)}"', child) for name, child in wanted.items()]
        if isinstance(wanted, Mapping)
        else [(path + _ELEMENTS, wanted[0])]
    )
    for place, child in children:
        if not isinstance(child, str):
            yield place, "OBJECT" if isinstance(child, Mapping) else "ARRAY"
            yield from _places(place, child)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def _test(path: str, kind: str) -> str:
    """The condition that something else is there."""
    literal = "'" + path.replace("'", "''") + "'"
    if path == "$":
        return f"coalesce(json_type(v) <> '{kind}', false)"
    if _ELEMENTS in path:
        return f"len(list_filter(json_type(v, {literal}), lambda t: t NOT IN ('NULL', '{kind}'))) > 0"
    return f"coalesce(json_type(v, {literal}) NOT IN ('NULL', '{kind}'), false)"
