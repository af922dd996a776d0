"""Files of an older schema seen through the current one (format facts section 22). Pure.

A file's columns are those of the schema it was written with, matched by field id: a rename changes nothing, a
widened column is cast, an id the file does not know is NULL (also when another id had its name before).
Used by read and lsm around `datafile.read`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.errors import SchemaMismatch, Unsupported
from tablestore.format.parquet_schema import SYSTEM_FIELDS
from tablestore.format.predicate import Always, IsNull, Leaf, Predicate, transform
from tablestore.format.schema import TableSchema
from tablestore.format.types import DataField, DataType

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}


@dataclass(frozen=True, slots=True)
class Projection:
    """Columns wanted of the current schema, each with the file's column of that id (None: it has none)."""

    targets: tuple[DataField, ...]
    sources: tuple[DataField | None, ...]
    file_columns: tuple[str, ...]

    @property
    def identity(self) -> bool:
        """Whether batches of the file pass as they are."""
        pairs = zip(self.targets, self.sources, strict=True)
        same = all(s is not None and (s.name, s.type) == (t.name, t.type) for t, s in pairs)
        return same and len(self.file_columns) == len(self.targets)


def projection(file_schema: TableSchema, table_schema: TableSchema, columns: Sequence[str]) -> Projection:
    """How to make `columns` of `table_schema` out of a file of `file_schema`, reading its `file_columns`.

    Raises Unsupported for a change of type that may lose values.
    """
    targets = table_schema.columns(tuple(columns))
    sources = tuple(file_schema.by_id.get(f.id) for f in targets)
    for target, source in zip(targets, sources, strict=True):
        if source is not None and not _widens(source.type, target.type):
            change = f"{source.type} to {target.type}"
            raise Unsupported(
                f"reading column {target.name!r} changed from {change}", "only widening changes so far"
            )
    names = tuple(s.name for s in sources if s is not None)
    return Projection(
        targets, sources, names or file_schema.names[:1]
    )  # one column at least, to count the rows


def evolve(batch: pa.RecordBatch, through: Projection) -> pa.RecordBatch:
    """A batch of the file's columns as one of the current schema; system columns stay in front."""
    if through.identity:
        return batch
    system = [f for f in SYSTEM_FIELDS if f.name in batch.schema.names]
    arrays = [batch.column(f.name) for f in system]
    fields = list(system)
    for target, source in zip(through.targets, through.sources, strict=True):
        wanted = target.arrow
        if source is None:
            array = pa.nulls(batch.num_rows, wanted.type)
        else:
            array = _cut(_cast(batch.column(source.name), wanted.type), source.type, target.type)
        if array.null_count and not target.type.nullable:
            raise SchemaMismatch(f"column {target.name!r} is NOT NULL, but an older file has nulls there")
        arrays.append(array)
        fields.append(wanted.with_type(array.type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def evolve_predicate(p: Predicate, file_schema: TableSchema, table_schema: TableSchema) -> Predicate:
    """A predicate bound to `table_schema` as one on the file's columns, for use with its statistics.

    It selects the same rows or more: a condition on a column whose type changed, other than integers that
    grew, is given up, since bounds do not carry over.
    """

    def leaf(found: Leaf) -> Predicate:
        target = table_schema.by_name[found.column]
        source = file_schema.by_id.get(target.id)
        if source is None:
            return Always(isinstance(found, IsNull) and not found.inverse)
        carries_over = source.type.as_nullable() == target.type.as_nullable() or _grown(
            source.type, target.type
        )
        if not carries_over and not isinstance(found, IsNull):
            return Always(True)
        return replace(found, column=source.name)

    return transform(p, leaf)


def _grown(before: DataType, after: DataType) -> bool:
    both = before.root in _INTEGERS and after.root in _INTEGERS
    return both and _INTEGERS.index(before.root) <= _INTEGERS.index(after.root)


def _widens(before: DataType, after: DataType) -> bool:
    """Whether `before` may be read as `after` (floats may lose digits of integers, as in Paimon)."""
    if before.as_nullable() == after.as_nullable() or _grown(before, after):
        return True
    if after.root == "DOUBLE" or (after.root == "FLOAT" and before.root != "DOUBLE"):
        return before.root in (*_INTEGERS, "FLOAT", "DECIMAL")
    if after.root == "DECIMAL":
        digits = _DIGITS.get(before.root, before.precision - before.scale if before.root == "DECIMAL" else 99)
        return before.scale <= after.scale and digits <= after.precision - after.scale
    if (before.is_string and after.is_string) or (before.is_binary and after.is_binary):
        return True  # what is longer than the new length is cut, as in Paimon
    same = before.root == after.root and before.root in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
    return same and before.precision <= after.precision


def _cut(array: pa.Array, before: DataType, after: DataType) -> pa.Array:
    """Text and bytes at most as long as their new type says."""
    if not (after.is_string or after.is_binary) or before.precision <= after.precision:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    cut = pc.utf8_slice_codeunits if after.is_string else pc.binary_slice
    return cut(array, 0, after.precision)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    kept = pa.types.is_dictionary(array.type) and array.type.value_type == wanted
    if kept or array.type == wanted:
        return array
    return array.cast(wanted, safe=not pa.types.is_floating(wanted))
