"""Projection: reading files of an older schema with the current one (FORMAT.md 22.2). Pure.

A file's columns are those of the schema it was written with, matched by field id: a rename changes nothing, a
column of another type is cast as Paimon casts it (`casts`), an id that the file lacks is NULL (also when
another id had its name before). The same holds inside ROW, ARRAY and MAP, at any depth. Used by read and lsm
around `datafile.read`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tablestore.core.errors import CommitConflict, SchemaMismatch, Unsupported
from tablestore.format.parquet.schema import SYSTEM_FIELDS
from tablestore.format.predicates.predicate import Always, IsNull, Leaf, Predicate, transform
from tablestore.format.schema import TableSchema
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import DataField, DataType, to_arrow
from tablestore.format.types.nested import joined, lists, struct_nulls, struct_of

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


@dataclass(frozen=True, slots=True)
class Projection:
    """Columns of the current schema, each with the file's column of that id (None: the file has none)."""

    targets: tuple[DataField, ...]
    sources: tuple[DataField | None, ...]
    file_columns: tuple[str, ...]

    @property
    def identity(self) -> bool:
        """Whether batches of the file need no change."""
        pairs = zip(self.targets, self.sources, strict=True)
        same = all(s is not None and (s.name, s.type) == (t.name, t.type) for t, s in pairs)
        return same and len(self.file_columns) == len(self.targets)


def projection(file_schema: TableSchema, table_schema: TableSchema, columns: Sequence[str]) -> Projection:
    """The projection of a file of `file_schema` to `columns` of `table_schema`.

    Raises Unsupported for a change of type that has no cast, CommitConflict where the file is of a newer
    schema and its values do not fit the older type.
    """
    newer = file_schema.id > table_schema.id
    targets = table_schema.columns(tuple(columns))
    sources = tuple(file_schema.by_id.get(f.id) for f in targets)
    for target, source in zip(targets, sources, strict=True):
        if source is not None and not _readable(source.type, target.type, explicit=not newer):
            change = f"{source.type} to {target.type}"
            if newer:
                raise CommitConflict(
                    f"column {target.name!r} is {source.type} since schema {file_schema.id}; this is schema "
                    f"{table_schema.id}, where it is {target.type}: refresh() the table"
                )
            raise Unsupported(f"reading column {target.name!r} changed from {change}")
    names = tuple(s.name for s in sources if s is not None)
    return Projection(
        targets, sources, names or file_schema.names[:1]
    )  # at least one column, to count the rows


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
            array = _read_as(batch.column(source.name), source.type, target, wanted)
        if array.null_count and not target.type.nullable:
            raise SchemaMismatch(f"column {target.name!r} is NOT NULL, but an older file has nulls there")
        arrays.append(array)
        fields.append(wanted.with_type(array.type))
    if not arrays:  # a batch without columns still has rows
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def refusing(file_schema: TableSchema, table_schema: TableSchema, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns whose values in a file of `file_schema` may be refused by `evolve`."""
    sources = {f.name: file_schema.by_id.get(f.id) for f in table_schema.columns(tuple(columns))}
    return tuple(
        name
        for name, source in sources.items()
        if (
            not table_schema.by_name[name].type.nullable
            if source is None
            else source.type != table_schema.by_name[name].type
        )
    )


def unknown_columns(of: TableSchema, to: TableSchema) -> list[str]:
    """Columns of schema `of` that schema `to` lacks, or of which it lacks a field."""
    ids = _ids(to.fields)
    return [f.name for f in of.fields if _ids((f,)) - ids]


def _ids(fields: tuple[DataField, ...]) -> set[int]:
    return {i for f in fields for i in (f.id, *_ids(f.type.children)) if i >= 0}


def evolve_predicate(p: Predicate, file_schema: TableSchema, table_schema: TableSchema) -> Predicate:
    """A predicate bound to `table_schema` as one on the file's columns, for use with its statistics.

    It selects the same rows or more: a condition on a column whose type changed, other than to a wider
    integer, is dropped, since bounds do not carry over, nor do NULLs that a cast may add.
    """

    def leaf(condition: Leaf) -> Predicate:
        target = table_schema.by_name[condition.column]
        source = file_schema.by_id.get(target.id)
        if source is None:
            return Always(isinstance(condition, IsNull) and not condition.inverse)
        same = bounds_carry_over(source.type, target.type)
        if not same and not (isinstance(condition, IsNull) and nulls_carry_over(source.type, target.type)):
            return Always(True)
        return replace(condition, column=source.name)

    return transform(p, leaf)


def bounds_carry_over(before: DataType, after: DataType) -> bool:
    """Whether raw bounds of `before` are bounds of the same values as `after`."""
    if before.root in _INTEGERS and after.root in _INTEGERS:
        return _INTEGERS.index(before.root) <= _INTEGERS.index(after.root)
    return before.as_nullable() == after.as_nullable()


def nulls_carry_over(before: DataType, after: DataType) -> bool:
    """Whether a value that is not NULL as `before` is not NULL as `after`: one too large for a DECIMAL is
    NULL."""
    return after.root != "DECIMAL" or before.as_nullable() == after.as_nullable()


def _readable(before: DataType, after: DataType, *, explicit: bool) -> bool:
    """Whether values of `before` can be read as `after`; `explicit` casts may lose something."""
    if before == after or before.as_nullable() == after.as_nullable():
        return True
    if before.root != after.root or not before.is_nested:
        return casts.allowed(before, after.as_nullable(), explicit=explicit)
    if before.root == "ROW":
        types_by_id = {f.id: f.type for f in before.children}
        kept = (f for f in after.children if f.id in types_by_id)
        return all(_readable(types_by_id[f.id], f.type, explicit=explicit) for f in kept)
    pairs = zip(before.children, after.children, strict=True)
    return all(_readable(old.type, new.type, explicit=explicit) for old, new in pairs)


def _read_as(array: pa.Array, source: DataType, target: DataField, wanted: pa.Field) -> pa.Array:
    """A column of the file in the current type; text may stay dictionary-encoded. Raises SchemaMismatch
    naming the column."""
    t = array.type
    same = t == wanted.type or (pa.types.is_dictionary(t) and t.value_type == wanted.type)
    if same and source.as_nullable() == target.type.as_nullable():
        return array
    try:
        return _changed(array, source, target.type)
    except SchemaMismatch as e:
        raise SchemaMismatch(f"column {target.name!r} was {source} and is {target.type}: {e}") from None


def _changed(array: pa.Array, before: DataType, after: DataType) -> pa.Array:
    """Values of `before` as `after`, also within nested ones."""
    if before.as_nullable() == after.as_nullable():
        return array
    if before.root != after.root or not before.is_nested:
        return casts.cast(array, before, after)
    if before.root == "ROW":
        return _changed_row(array, before, after)
    parts = lists(array)
    if before.root == "MULTISET":
        elements, counts = parts.children
        children = (_changed(elements, before.element, after.element), counts)
    else:
        trios = zip(parts.children, before.children, after.children, strict=True)
        children = tuple(_changed(c, old.type, new.type) for c, old, new in trios)
    return joined(replace(parts, children=children), to_arrow(after))


def _changed_row(array: pa.StructArray, before: DataType, after: DataType) -> pa.Array:
    at = {f.id: i for i, f in enumerate(before.children)}
    kept, wanted = array.flatten(), to_arrow(after)
    children = [
        pa.nulls(len(array), to_arrow(f.type))
        if f.id not in at
        else _changed(kept[at[f.id]], before.children[at[f.id]].type, f.type)
        for f in after.children
    ]
    return struct_of(children, wanted, struct_nulls(array), len(array))
