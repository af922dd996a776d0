"""Which ALTERs leave the messages of a topic readable: they name columns, so a name stays with its column.

A message is read under the columns that the table has then: what it lacks is NULL, what is no longer a column
is passed over. That gives what the files of the table give, whose columns have ids, as long as no name moves
to another column and values of the old type read the same in the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tablestore.core.errors import Unsupported
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataField, DataType

_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def require_readable(earlier: Iterable[TableSchema], altered: TableSchema) -> None:
    """Raise Unsupported, naming the column, where messages written under an earlier schema would be read
    otherwise than files of that schema."""
    for schema in earlier:
        _require(schema.shown.fields, altered.shown.fields, "")


def _require(before: Sequence[DataField], after: Sequence[DataField], within: str) -> None:
    by_id, by_name = {f.id: f for f in before}, {f.name: f for f in before}
    for f in after:
        old, name = by_id.get(f.id), f"{within}{f.name}"
        if old is not None and old.name != f.name:
            raise _refused(
                f"renaming column {within}{old.name} to {f.name}", "whose messages have the old name"
            )
        if old is None and f.name in by_name:
            why = "whose messages have values of the column of that name that was dropped"
            raise _refused(f"a new column {name}", why)
        if old is not None:
            _require_type(old.type, f.type, name)


def _require_type(before: DataType, after: DataType, name: str) -> None:
    if before.root == after.root == "ROW":
        _require(before.children, after.children, f"{name}.")
    elif before.root == after.root == "ARRAY":
        _require_type(before.element, after.element, f"{name}.element")
    elif not _reads_alike(before, after):
        raise _refused(f"type {after} of column {name}", f"whose messages have values of type {before}")


def _reads_alike(before: DataType, after: DataType) -> bool:
    """Whether texts of values of a type give, under another one, what a cast of the values gives."""
    if before.as_nullable() == after.as_nullable():
        return True
    if before.root in _WHOLE and after.root in _WHOLE:
        return _WHOLE.index(before.root) <= _WHOLE.index(after.root)
    if before.root == after.root == "DECIMAL":
        return before.scale == after.scale and before.precision <= after.precision
    longer = before.precision <= after.precision
    return before.root == after.root and longer and (before.root in ("VARCHAR", "VARBINARY"))


def _refused(what: str, why: str) -> Unsupported:
    remedy = "make a table with these columns and insert the rows; columns may be added, dropped and widened"
    return Unsupported(f"{what} of a table with a log in Kafka", f"{why}: {remedy}")
