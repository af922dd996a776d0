"""Conversion: changes of a table in the source as changes of its table in the lake, and the rows that cannot
be some.

Columns are taken by name, cast, computed, or NULL where the source has none. A row is bad whose value does
not fit its column, that has NULL where the target takes none, or of which a computed column cannot be
computed; of a deletion only the key counts. An update that moves a row to another key, or another partition,
is a deletion and an insertion. Picklable; columns at a time.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.computed import ComputedTarget
from tablestore.cdc.capture.metadata import CapturedMetadata
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import BadRow, TableRows
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tablestore.format.types.casts import checked, flags
from tablestore.format.types.data_type import DataField, DataType, to_arrow

_NO_KEY = (
    "the table has no primary key, and only insertions are followed (keyless='append'): name its key in "
    "primary_keys"
)


@dataclass(frozen=True, slots=True)
class Converted:
    """Rows in the columns of the target, their row kinds (int8), and the bad rows, which are not in them."""

    rows: pa.RecordBatch
    kinds: pa.Array
    bad: list[BadRow]


@dataclass(frozen=True, slots=True)
class _Problem:
    """Rows (a mask) that are bad for a reason, of which `shown` are the values."""

    rows: np.ndarray
    reason: str
    shown: pa.Array | None = None

    def text(self, row: int) -> str:
        if self.shown is None:
            return self.reason
        value = repr(self.shown[row].as_py())
        return f"{value if len(value) <= 80 else value[:77] + '...'} {self.reason}"


@dataclass(frozen=True)
class Conversion:
    """How rows of `table`, with columns of the types `source`, become rows of `fields` of the target, whose
    primary key and partition columns are `key`. Where the target is not `keyed`, nothing tells which
    of its rows an update or a deletion is about, and such a change is bad."""

    table: SourceName
    source: Mapping[str, DataType]
    fields: tuple[DataField, ...]
    key: tuple[str, ...]
    computed: tuple[ComputedTarget, ...] = ()
    metadata: tuple[CapturedMetadata, ...] = ()
    keyed: bool = True

    def convert(self, changes: TableRows) -> Converted:
        """The changes as changes of the target, in their order; the two images of an update lie next to each
        other."""
        kinds = changes.kinds.to_numpy(zero_copy_only=False)
        computed, computed_problems = self._made(changes)
        columns, problems = [], dict(computed_problems)
        for f in self.fields:
            column, column_problems = self._column(f, computed, len(kinds))
            problems.setdefault(f.name, []).extend(column_problems)
            columns.append(column)
        retracted = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
        bad = np.zeros(len(kinds), np.bool_)
        counted: list[_Problem] = []
        for name, column_problems in problems.items():
            for problem in column_problems:
                rows = problem.rows if name in self.key else problem.rows & ~retracted
                if rows.any():
                    counted.append(_Problem(rows, problem.reason, problem.shown))
                    bad |= rows
        if not self.keyed and (kinds != INSERT).any():
            changed = kinds != INSERT
            counted, bad = [_Problem(changed, _NO_KEY), *counted], bad | changed
        if retracted.any():
            pairs = zip(columns, self.fields, strict=True)
            columns = [c if f.name in self.key else _present(c, f) for c, f in pairs]
        new_kinds, kept, reported = self._outcome(kinds, columns, bad)
        rows = pa.RecordBatch.from_arrays(columns, names=[f.name for f in self.fields])
        if not kept.all():
            rows, new_kinds = rows.filter(pa.array(kept)), new_kinds[kept]
        bad_rows = [self._bad_row(changes, int(i), counted) for i in np.flatnonzero(reported)]
        return Converted(rows, pa.array(new_kinds, pa.int8()), bad_rows)

    def _made(
        self, changes: TableRows
    ) -> tuple[dict[str, tuple[pa.Array, DataType]], dict[str, list[_Problem]]]:
        """All columns by name, and the problems of computed ones."""
        rows = changes.rows
        columns = {name: (rows.column(name), t) for name, t in self.source.items()}
        columns |= {column.name: (column.values(changes), column.type) for column in self.metadata}
        problems: dict[str, list[_Problem]] = {}
        for column in self.computed:
            array, t, wrong = column.values(columns, rows.num_rows)
            columns[column.name] = array, t
            if wrong is not None:
                used = sorted(column.expression.columns)
                shown = columns[used[0]][0] if used else None
                reason = f"in {used[0]!r} gives no {column}" if used else f"there is no {column}"
                problems[column.name] = [_Problem(wrong, reason, shown)]
        return columns, problems

    def _column(
        self, f: DataField, computed: Mapping[str, tuple[pa.Array, DataType]], rows: int
    ) -> tuple[pa.Array, list[_Problem]]:
        if f.name not in computed:
            if f.type.nullable or f.default is not None:
                return pa.nulls(rows, to_arrow(f.type)), []
            everywhere = np.ones(rows, np.bool_)
            reason = f"column {f.name!r} is NOT NULL in the target and the source has no such column"
            return pa.nulls(rows, to_arrow(f.type)), [_Problem(everywhere, reason)]
        array, t = computed[f.name]
        values, wrong = checked(array, t, f.type)
        problems = []
        if wrong is not None:
            problems.append(_Problem(wrong, f"does not fit column {f.name!r}, which is {f.type}", array))
        if not f.type.nullable and array.null_count and f.default is None:
            problems.append(
                _Problem(flags(array.is_null()), f"column {f.name!r} is NOT NULL and has no value")
            )
        return values, problems

    def _outcome(
        self, kinds: np.ndarray, columns: list[pa.Array], bad: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(row kinds, rows that stay, bad rows that are reported).

        Of an update with a bad new image nothing is done, unless its key is another: then the old row goes.
        Of one with a bad old image, which the target cannot have, the new one is inserted.
        """
        changed, kept, reported = kinds.copy(), ~bad, bad.copy()
        if not self.keyed:
            return changed, kept, reported
        before = np.flatnonzero(kinds == UPDATE_BEFORE)
        before = before[before + 1 < len(kinds)]
        before = before[kinds[before + 1] == UPDATE_AFTER]
        if not len(before):
            return changed, kept, reported
        after = before + 1
        moved = np.zeros(len(before), np.bool_)
        places = {f.name: i for i, f in enumerate(self.fields)}
        for name in self.key:
            column = columns[places[name]]
            old, new = column.take(pa.array(before)), column.take(pa.array(after))
            moved |= ~flags(pc.equal(old, new))
        old_bad, new_bad = bad[before], bad[after]
        changed[before[moved]] = DELETE
        changed[after[moved]] = INSERT
        changed[after[old_bad]] = INSERT
        reported[before[old_bad]] = False
        kept[before[new_bad & ~moved]] = False
        return changed, kept, reported

    def _bad_row(self, changes: TableRows, row: int, problems: Sequence[_Problem]) -> BadRow:
        reasons = [problem.text(row) for problem in problems if problem.rows[row]]
        seconds = None if changes.seconds is None else changes.seconds[row].as_py()
        kind = changes.kinds[row].as_py()
        values = {name: changes.rows.column(name)[row].as_py() for name in self.source}
        return BadRow(
            self.table, changes.position, kind, "; ".join(dict.fromkeys(reasons)), as_json(values), seconds
        )


def as_json(row: Mapping[str, Any]) -> str:
    """A row as JSON: decimals and times as text, bytes in base64."""
    return json.dumps(row, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (date, datetime, time)):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return str(value)


def _present(array: pa.Array, f: DataField) -> pa.Array:
    """The column of a batch with deletions, of whose rows the key alone counts: the least value of the type
    where a NOT NULL column has none."""
    needless = f.type.nullable or f.default is not None or not f.type.is_scalar
    return array if needless or not array.null_count else pc.fill_null(array, _least(array.type))


def _least(t: pa.DataType) -> pa.Scalar:
    if pa.types.is_temporal(t):
        return pa.scalar(0, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return pa.scalar("" if pa.types.is_string(t) else b"", t)
    return pa.scalar(Decimal(0) if pa.types.is_decimal(t) else False if pa.types.is_boolean(t) else 0, t)
