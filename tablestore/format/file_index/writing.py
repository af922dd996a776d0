"""Making the file indexes of a table's options while a data file is written.

    file-index.<kind>.columns = a, b, m[key]        file-index.<kind>.<column>.<option> = …

`m[key]` indexes the values under one key of a map. Memory until the file is finished: 8 bytes a
row and column, or 4 and each distinct text of a batch; of a bloom filter only its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidOption, SchemaMismatch, Unsupported
from tablestore.format.data_format import plain
from tablestore.format.file_index import bitmap, bloom, bsi, container, range_bitmap, values
from tablestore.format.file_index.container import Container
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType

KINDS: dict[str, Any] = {m.KIND: m for m in (bloom, bitmap, bsi, range_bitmap)}
_WRITERS: dict[str, Any] = {
    bloom.KIND: bloom.BloomWriter,
    bitmap.KIND: bitmap.BitmapWriter,
    bsi.KIND: bsi.BitSliceWriter,
    range_bitmap.KIND: range_bitmap.RangeBitmapWriter,
}
_PREFIX, _COLUMNS = "file-index.", ".columns"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index: of a column, or of the values under `key` of a map column, whose type is `type`."""

    kind: str
    column: str
    key: str | None
    type: DataType
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The column's name in the container."""
        return self.column if self.key is None else f"{self.column}[{self.key}]"


def index_specs(schema: TableSchema) -> tuple[IndexSpec, ...]:
    """The indexes of the options; raises InvalidOption or Unsupported for ones that cannot be made."""
    index_options = {k: v for k, v in schema.options.items() if k.startswith(_PREFIX)}
    specs = []
    for option, text in index_options.items():
        if not option.endswith(_COLUMNS):
            continue
        kind = option[len(_PREFIX) : -len(_COLUMNS)]
        for name in (part.strip() for part in text.split(",")):
            if not name:
                raise InvalidOption(f"option {option!r} is {text!r}; it must be names of columns")
            specs.append(_spec(schema, index_options, option, kind, name))
    _refuse_strays(index_options, specs)
    return tuple(specs)


def _spec(
    schema: TableSchema, index_options: Mapping[str, str], option: str, kind: str, name: str
) -> IndexSpec:
    if kind not in KINDS:
        raise Unsupported(f"file indexes of kind {kind!r}", f"there are {', '.join(KINDS)}")
    column, key = _parts(name)
    field = schema.by_name.get(column)
    if field is None:
        raise InvalidOption(f"option {option!r} names {column!r}, which is not a column")
    t = field.type
    if key is not None:
        if t.root != "MAP" or not t.children[0].type.is_string:
            raise InvalidOption(
                f"option {option!r} names {name!r}, but {column!r} is not a map with text keys"
            )
        t = t.children[1].type
    if not KINDS[kind].takes(t):
        raise Unsupported(f"{kind} indexes of {t} columns", f"option {option!r} names {name!r}")
    own: dict[str, str] = {}
    for whose in dict.fromkeys((column, name)):
        prefix = f"{_PREFIX}{kind}.{whose}."
        own |= {k[len(prefix) :]: v for k, v in index_options.items() if k.startswith(prefix)}
    spec = IndexSpec(kind, column, key, t, own)
    _writer(spec)
    return spec


def _parts(name: str) -> tuple[str, str | None]:
    column, bracket, key = name.partition("[")
    return (column, key[:-1]) if bracket and key.endswith("]") else (name, None)


def _refuse_strays(index_options: Mapping[str, str], specs: list[IndexSpec]) -> None:
    """Raise InvalidOption for index options of a column without that index."""
    declared = {(s.kind, whose) for s in specs for whose in (s.column, s.name)}
    for option in index_options:
        parts = option[len(_PREFIX) :].split(".")
        if len(parts) == 3 and not option.endswith(_COLUMNS) and (parts[0], parts[1]) not in declared:
            wanted = f"'{_PREFIX}{parts[0]}{_COLUMNS}' = {parts[1]!r}"
            raise InvalidOption(f"option {option!r} belongs to no index; declare it with {wanted}")


def _writer(spec: IndexSpec) -> Any:
    try:
        return _WRITERS[spec.kind](spec.type, spec.options)
    except ValueError as e:
        raise InvalidOption(f"an option of the {spec.kind} index of {spec.name!r} is wrong: {e}") from None


class FileIndexes:
    """The indexes of one data file while it is written."""

    def __init__(self, specs: tuple[IndexSpec, ...]) -> None:
        self._writers = [(spec, _writer(spec)) for spec in specs]

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of the file."""
        for spec, writer in self._writers:
            array = plain(batch.column(spec.column))
            if spec.key is not None:
                array = _under(array, spec.key)
            writer.add(values.cells(array, spec.type))

    def finish(self) -> bytes:
        """The container of all indexes."""
        indexes: dict[str, dict[str, bytes]] = {}
        for spec, writer in self._writers:
            try:
                indexes.setdefault(spec.name, {})[spec.kind] = writer.finish()
            except ValueError as e:
                raise SchemaMismatch(f"the {spec.kind} index of {spec.name!r}: {e}") from None
        return container.encode(Container(indexes))


def _under(maps: pa.Array, key: str) -> pa.Array:
    """The value under a key in each row, NULL where there is none."""
    bounds = maps.offsets.to_numpy(zero_copy_only=False)
    start, count = int(bounds[0]), int(bounds[-1] - bounds[0])
    keys, items = maps.keys.slice(start, count), maps.items.slice(start, count)
    places = np.flatnonzero(pc.equal(keys, key).to_numpy(zero_copy_only=False).astype(bool))
    rows = np.searchsorted(bounds, places + start, side="right") - 1
    at = np.zeros(len(maps), dtype=np.int64)
    missing = np.ones(len(maps), dtype=bool)
    at[rows], missing[rows] = places, False
    return items.take(pa.array(at, mask=missing))
