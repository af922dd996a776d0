"""What brings a table of the lake to the columns that the rules want: changes of its schema. Pure.

Columns are compared with what the table has, so that the same answer comes again after a kill, and nothing
once all is done. The table stores which columns of the source it was given (option `COLUMNS`): of columns
that it has beside them nobody knows here, and they are never dropped. Types only become wider, as Paimon
allows; a column that is wide enough stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tablestore.cdc.capture.shapes import TargetShape, widened
from tablestore.core.errors import SchemaMismatch
from tablestore.format import schema_change as change
from tablestore.format.schema import TableSchema
from tablestore.format.schema_change import Change
from tablestore.format.types.data_type import DataType

COLUMNS = "tablestore.cdc.columns"


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """Changes of columns in order, each as `(what, in words)`, and further ones that change no row: comments
    and what is noted of the source."""

    changes: tuple[tuple[Change, str], ...] = ()
    notes: tuple[Change, ...] = ()

    @property
    def all(self) -> list[Change]:
        return [*(c for c, _ in self.changes), *self.notes]

    @property
    def words(self) -> str:
        return "; ".join(text for _, text in self.changes)


def recorded(names: Sequence[str]) -> str:
    """The columns of the source as option `COLUMNS` stores them."""
    return json.dumps(list(names), ensure_ascii=False)


def adjustment(
    schema: TableSchema,
    wanted: TargetShape,
    source: Sequence[str],
    *,
    renamed: Mapping[str, str],
    merged: bool = False,
) -> SchemaChanges:
    """What brings `schema` to `wanted`, the shape for a table with the columns `source`, of which some were
    `renamed` (old name: new name).

    Into a `merged` table other tables are captured, too, or not all columns of the source are known: its
    columns are neither dropped nor moved. Raises SchemaMismatch for another key or partitions, and for a type
    that cannot become the wanted one.
    """
    earlier = json.loads(schema.options.get(COLUMNS, "null"))
    columns = _TargetColumns(schema, () if merged or earlier is None else earlier)
    if earlier != list(source):  # else this was done before
        columns.rename(renamed)
    _require_keys(columns, schema, wanted)
    columns.drop([n for n in columns.known if n not in source and n not in names_of(wanted)])
    columns.fit(wanted, keys={*columns.keys, *schema.partition_keys})
    if earlier is not None and not merged:
        columns.move(wanted)
    if not merged and earlier != list(source):
        columns.notes.append(change.set_options({COLUMNS: recorded(source)}))
    return SchemaChanges(tuple(columns.changes), tuple(columns.notes))


def names_of(shape: TargetShape) -> list[str]:
    return [c.name for c in shape.columns]


class _TargetColumns:
    """The columns of a table while changes are worked out. `known` are those that came from the source."""

    def __init__(self, schema: TableSchema, names: Sequence[str]) -> None:
        self.fields = {f.name: f for f in schema.fields}
        self.order = [f.name for f in schema.fields]
        self.keys = list(schema.primary_keys)
        self.known = list(names)
        self.changes: list[tuple[Change, str]] = []
        self.notes: list[Change] = []

    def rename(self, renamed: Mapping[str, str]) -> None:
        pairs = {old: new for old, new in renamed.items() if old in self.fields and old != new}
        pairs = {
            old: new for old, new in pairs.items() if new not in self.fields or new in (*pairs, *self.known)
        }
        self.drop([new for new in pairs.values() if new in self.fields and new not in pairs])
        clashing = [old for old, new in pairs.items() if new in self.fields]
        for number, old in enumerate(clashing):
            self._rename(old, f"__renamed_{number}", "")
        for old, new in pairs.items():
            now = f"__renamed_{clashing.index(old)}" if old in clashing else old
            self._rename(now, new, f"{old} is {new}")

    def _rename(self, old: str, new: str, words: str) -> None:
        self.changes.append((change.rename(old, new), words or f"{old} gets another name"))
        self.fields[new] = self.fields.pop(old)
        self.order = [new if n == old else n for n in self.order]
        self.keys = [new if n == old else n for n in self.keys]
        self.known = [new if n == old else n for n in self.known]

    def drop(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.fields:
                self.changes.append((change.drop(name), f"dropped {name}"))
                del self.fields[name]
                self.order.remove(name)
                self.known = [n for n in self.known if n != name]

    def fit(self, wanted: TargetShape, keys: set[str]) -> None:
        """Add what is missing, widen what is too narrow, allow NULL and take over comments."""
        before: str | None = None
        for column in wanted.columns:
            name, t = column.name, column.type
            if name not in self.fields:
                t = t.as_nullable()
                added = change.add(
                    name, t, after=before, first=before is None, comment=column.comment or None
                )
                self.changes.append((added, f"added {name} {t}"))
                self.order.insert(0 if before is None else self.order.index(before) + 1, name)
            else:
                field = self.fields[name]
                wide = widened(field.type, t)
                if wide is None:
                    raise _no_such_cast(name, field.type, t)
                if wide.as_nullable() != field.type.as_nullable():
                    if name in keys:
                        raise _key_column(name, field.type, t)
                    self.changes.append((change.retype(name, wide), f"{name} is {wide.as_nullable()}"))
                if t.nullable and not field.type.nullable and name not in keys:
                    self.changes.append((change.nullable(name), f"{name} may be NULL"))
                if column.comment and column.comment != field.description:
                    self.notes.append(change.comment(name, column.comment))
            before = name

    def move(self, wanted: TargetShape) -> None:
        """Bring the columns of the source into its order; others stay where they are."""
        names = names_of(wanted)
        order = [n for n in self.order if n in names]
        for at, name in enumerate(names):
            if order[at] == name:
                continue
            order.remove(name)
            order.insert(at, name)
            place = change.move(name, after=names[at - 1]) if at else change.move(name, first=True)
            self.changes.append((place, f"moved {name}"))


def _require_keys(columns: _TargetColumns, schema: TableSchema, wanted: TargetShape) -> None:
    if not schema.primary_keys and wanted.primary_key:
        raise SchemaMismatch(
            "changes are captured into a table with a primary key, and this one has none: drop it, or "
            "choose another"
        )
    keys = {"primary key": (set(columns.keys), set(wanted.primary_key))}
    keys["partition columns"] = (set(schema.partition_keys), set(wanted.partition_by))
    for what, (here, there) in keys.items():
        if here != there:
            raise SchemaMismatch(
                f"the {what} of the table are {_list(here)}, and those of the source {_list(there)}: a key "
                "stays as it was created; drop the table and capture it anew"
            )


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _key_column(name: str, here: DataType, there: DataType) -> SchemaMismatch:
    return SchemaMismatch(
        f"column {name!r} of the key is {here.as_nullable()} here and {there.as_nullable()} in the source, "
        "and the type of a key never changes: drop the table and capture it anew, or go on with "
        "schema_change='ignore', where keys that do not fit are bad rows"
    )


def _no_such_cast(name: str, here: DataType, there: DataType) -> SchemaMismatch:
    return SchemaMismatch(
        f"column {name!r} is {here.as_nullable()} here and {there.as_nullable()} in the source, and no wider "
        "type has both: drop the table and capture it anew, or say by type_mapping what it becomes"
    )
