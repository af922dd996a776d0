"""Change-log tables without a primary key: equal rows are stored once, with their count (FORMAT.md 11.8).

Stored, such a table is an aggregation table that any Paimon reads: its primary key is every column, and a
BIGINT named by `tablestore.row-count-field` is their sum. An insert is +1, a delete −1; a row is shown as
often as its count says, and not at all where that is 0 or less (a delete may come before the insert). A count
of 0 is marked as a delete, so that compaction to the oldest level drops it, which a sum never does. Pure.
Memory: a few ten thousand repeated rows at a time, whatever the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidOption, SchemaMismatch
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine, TableOptions
from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND
from tablestore.format.schema import ROW_COUNT_OPTION, TableSchema
from tablestore.format.types.arrow_types import BIGINT, DataField
from tablestore.lsm.merge.aggregation import Aggregation
from tablestore.lsm.merge.groups import Groups, SequenceOrder

COLUMN = "_count"
_ROWS = 65_536
_WHAT = "a change-log table without a primary key"


# creating one


def is_asked_for(options: Mapping[str, str], primary_key: Sequence[str]) -> bool:
    """Whether these options ask for such a table: the old `write-mode` = change-log without a primary key, or
    the option that names the column of counts."""
    if ROW_COUNT_OPTION in options and primary_key:
        raise InvalidOption(f"option {ROW_COUNT_OPTION!r} makes {_WHAT}: leave one of them out")
    changelog = options.get("write-mode") == "change-log"
    return ROW_COUNT_OPTION in options or (changelog and not primary_key)


def declared(
    fields: Sequence[DataField], partition_by: Sequence[str], options: Mapping[str, str]
) -> tuple[tuple[DataField, ...], tuple[str, ...], dict[str, str]]:
    """(columns, primary key, options) of the table as it is stored. All columns become NOT NULL; the count is
    1 by default, since engines that do not know it write NULL.

    Raises SchemaMismatch naming a column that cannot be part of a key or has the name of the counts.
    """
    given = {k: v for k, v in options.items() if k != "write-mode"}
    count = given.setdefault(ROW_COUNT_OPTION, COLUMN)
    for f in fields:
        if f.name == count:
            raise SchemaMismatch(
                f"column {f.name!r} has the name under which equal rows are counted: rename it, or set "
                f"{ROW_COUNT_OPTION!r} to another name"
            )
        if not f.type.is_scalar:
            raise SchemaMismatch(
                f"column {f.name!r} is {f.type}, which cannot be compared; in {_WHAT} the whole row is the "
                "key: leave the column out, or name a primary key"
            )
    if {f.name for f in fields} <= set(partition_by):
        raise SchemaMismatch(f"all columns are partition columns: {_WHAT} needs one more to count rows by")
    given.setdefault("merge-engine", MergeEngine.AGGREGATION.value)
    given.setdefault(f"fields.{count}.aggregate-function", "sum")
    return (*fields, DataField(len(fields), count, BIGINT, default="1")), tuple(f.name for f in fields), given


def require_sound(schema: TableSchema, options: TableOptions, count: str) -> None:
    """Raise InvalidOption where the schema or options would change the meaning of the counts."""
    require_counts(schema, count)
    problem = _problem(schema, options, count)
    if problem:
        raise InvalidOption(f"{_WHAT} ({ROW_COUNT_OPTION} = {count}): {problem}")


def outside(schema: TableSchema) -> tuple[str, ...]:
    """Columns that another engine added: rows that differ only in them are equal, and share the last value
    that is not NULL."""
    count = schema.row_count_field
    return () if count is None else tuple(n for n in schema.names if n not in (*schema.primary_keys, count))


def require_whole_rows(schema: TableSchema, before: TableSchema) -> None:
    """Raise InvalidOption for a change that adds a column: the key, which is every column, cannot grow."""
    added = [n for n in outside(schema) if n not in outside(before)]
    if added:
        raise InvalidOption(f"{_WHAT}: {added[0]!r} would not be in its key: columns cannot be added")


def require_counts(schema: TableSchema, count: str) -> None:
    """Raise InvalidOption where the column of counts is not a BIGINT outside the key: no row could be read
    correctly."""
    field = schema.by_name.get(count)
    fits = field is not None and field.type.as_nullable() == BIGINT and count not in schema.primary_keys
    if not (fits and schema.primary_keys):
        raise InvalidOption(
            f"option {ROW_COUNT_OPTION!r} is {count!r}, which is not a BIGINT column outside the key"
        )


def _problem(schema: TableSchema, options: TableOptions, count: str) -> str | None:
    if options.merge_engine is not MergeEngine.AGGREGATION:
        return f"merge-engine must be aggregation, not {options.merge_engine.value}"
    function = schema.options.get(f"fields.{count}.aggregate-function")
    if function != "sum":
        return f"'fields.{count}.aggregate-function' must be sum, not {function}"
    if options.changelog_producer is not ChangelogProducer.NONE:
        producer = options.changelog_producer.value
        return f"changelog-producer {producer} is not needed: what each commit adds is what changed"
    if options.rowkind_field is not None:
        return "'rowkind.field' would make row kinds part of the rows: hand them in by row_kind_column"
    if options.aggregation_removes:
        return "'aggregation.remove-record-on-delete' would forget counts"
    if options.sequence_fields:
        return "'sequence.field' means nothing: counts are added up in any order"
    return None


# merging


@dataclass(frozen=True, slots=True)
class Counting:
    """The table's merge function: sums, with rows of count 0 as deletes."""

    function: Aggregation
    count: str

    @property
    def sequence(self) -> SequenceOrder:
        """The order of the function inside."""
        return self.function.sequence

    def columns(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns to read for `names`: those and the counts."""
        return tuple(dict.fromkeys((*self.function.columns(names), self.count)))

    def refusing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the function inside."""
        return self.function.refusing(self.columns(names))

    def merge(self, rows: pa.RecordBatch, groups: Groups) -> pa.RecordBatch:
        """One row a key."""
        merged = self.function.merge(rows, groups)
        none = pc.equal(merged.column(self.count), 0)
        if not pc.any(none).as_py():
            return merged
        at = merged.schema.get_field_index(KIND)
        gone = pa.scalar(rowkind.DELETE, merged.schema.field(at).type)
        return merged.set_column(at, merged.schema.field(at), pc.if_else(none, gone, merged.column(at)))


# rows in, rows out


def counted(rows: pa.RecordBatch, kinds: pa.Array, count: str) -> tuple[pa.RecordBatch, pa.Array]:
    """Rows and their kinds as they are stored: +1 or −1 of each, all of kind +I."""
    gone = rowkind.retracts(kinds.to_numpy(zero_copy_only=False))
    signs = pa.array(np.where(gone, -1, 1).astype(np.int64))
    plain = pa.array(np.zeros(rows.num_rows, dtype=np.int8))
    return rows.append_column(count, signs), plain


def there(rows: pa.RecordBatch, count: str) -> pa.RecordBatch:
    """The stored rows with a count of 1 or more."""
    return rows.filter(pc.greater(rows.column(count), 0))


def negated(rows: pa.RecordBatch, count: str) -> pa.RecordBatch:
    """Stored rows that delete these: the same with negative counts."""
    at = rows.schema.get_field_index(count)
    return rows.set_column(at, rows.schema.field(at), pc.negate(rows.column(at)))


def numbers(rows: pa.RecordBatch, count: str) -> np.ndarray:
    """The count of each stored row; negative where deletes came before inserts."""
    return pc.fill_null(rows.column(count), 0).to_numpy(zero_copy_only=False)


def shown(batches: Iterable[pa.RecordBatch], count: str) -> Iterator[pa.RecordBatch]:
    """The rows as users see them: each stored row as often as its count says, without the count."""
    for batch in batches:
        yield from _repeated(batch, np.maximum(numbers(batch, count), 0), count)


def shown_changes(batches: Iterable[pa.RecordBatch], count: str) -> Iterator[pa.RecordBatch]:
    """The changes as users see them: +I or −D for each row, from stored changes with their kinds as texts in
    the first column.

    A −U or −D kind inverts the sign, as in the sum.
    """
    for batch in batches:
        gone = rowkind.retracts(rowkind.parse(batch.column(0)).to_numpy(zero_copy_only=False))
        signed = numbers(batch, count) * np.where(gone, -1, 1)
        kinds = pa.array(np.where(signed < 0, rowkind.DELETE, rowkind.INSERT).astype(np.int8))
        batch = batch.set_column(0, batch.schema.field(0), rowkind.texts(kinds))
        yield from _repeated(batch, np.abs(signed), count)


def _repeated(rows: pa.RecordBatch, times: np.ndarray, count: str) -> Iterator[pa.RecordBatch]:
    """Each row `times` times, in batches of bounded size."""
    names = [n for n in rows.schema.names if n != count]
    if (times == 1).all():
        if rows.num_rows:
            yield rows.select(names)
        return
    ends = np.cumsum(times)
    for start in range(0, int(ends[-1]), _ROWS):
        stop = min(start + _ROWS, int(ends[-1]))
        places = np.searchsorted(ends, np.arange(start, stop), side="right")
        yield rows.take(pa.array(places)).select(names)
