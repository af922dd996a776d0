"""What a piece of a capture changes in tables of the lake: its rows in their columns, and dead letters.

Columns are taken by name, cast, computed, or NULL where the source has none. A row is bad whose value does
not fit its column, that has NULL where the target takes none, or of which a computed column cannot be
computed; of a deletion only the key counts. An update that moves a row to another key, or another partition,
is a deletion and an insertion. Picklable; columns at a time. Bad rows go into `cdc_dead_letters`, a table of
each database of the lake, in the same batches, each row once.

Memory: the rows that the piece gives at a time, and bad rows, a thousand of each table.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.computed import CapturedMetadata, ComputedTarget
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import BadRow, CapturePiece, TableRows, TableShape
from tablestore.cdc.phase import PHASE_OPTION
from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch
from tablestore.flow.batch import WorkOf
from tablestore.flow.writing import RowsWritten, TableChanges, TableRefused, TableTarget, Takes
from tablestore.format import rowkind
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tablestore.format.types.arrow_types import STRING, TIMESTAMP_LTZ
from tablestore.format.types.casts import checked, flags
from tablestore.format.types.data_type import DataField, DataType, to_arrow
from tablestore.io.paths import DEAD_LETTERS
from tablestore.table.identifier import Identifier
from tablestore.table.lake import Lake
from tablestore.table.table import Table

_LETTER_COLUMNS = {
    "source_table": (STRING, "database.table in the source"),
    "position": (STRING, "where it is in the log of the source, or was read"),
    "committed": (TIMESTAMP_LTZ(3), "when it was committed in the source; NULL: read by a snapshot"),
    "row_kind": (STRING, "+I, -U, +U or -D"),
    "reason": (STRING, "why it does not fit"),
    "row": (STRING, "its values as JSON"),
}


def dead_letters_beside(target: str) -> str:
    """The table for rows that do not fit into `target`."""
    database = Identifier.parse(target).database
    return f"`{database}`.{DEAD_LETTERS}" if "." in database else f"{database}.{DEAD_LETTERS}"


def is_dead_letters(target: str) -> bool:
    """Whether it is such a table."""
    return Identifier.parse(target).table == DEAD_LETTERS


def create_dead_letters(lake: Lake, name: str) -> None:
    """Make the table unless it is there."""
    lake.create_table(
        name,
        schema={column: t for column, (t, _) in _LETTER_COLUMNS.items()},
        comments={column: text for column, (_, text) in _LETTER_COLUMNS.items()},
        comment="rows of a source that do not fit into the tables of this database",
        if_not_exists=True,
    )


def letter_rows(bad: Sequence[BadRow]) -> pa.RecordBatch:
    """The rows of the table."""
    columns = [
        pa.array([str(row.table) for row in bad], pa.string()),
        pa.array([row.position for row in bad], pa.string()),
        pa.array(
            [None if row.seconds is None else row.seconds * 1000 for row in bad], pa.timestamp("ms", "UTC")
        ),
        pa.array([rowkind.TEXTS[row.kind] for row in bad], pa.string()),
        pa.array([row.reason for row in bad], pa.string()),
        pa.array([row.row for row in bad], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(_LETTER_COLUMNS))


def does_not_fit(bad: BadRow) -> SchemaMismatch:
    """The error of a row that does not fit, where that is an error."""
    return SchemaMismatch(
        f"a row of {bad.table} at {bad.position} does not fit: {bad.reason}; "
        "bad_rows='dead-letter' puts such rows into a table of their own"
    )


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

    @classmethod
    def of(
        cls,
        rules: CaptureRules,
        table: SourceName,
        shape: TableShape,
        fields: Sequence[DataField],
        *,
        primary_key: Sequence[str],
        partition_by: Sequence[str] = (),
    ) -> Conversion:
        """How rows of the table become rows of its table in the lake, which has these columns, and this
        primary key and partitions."""
        columns = {field.name for field in fields}
        key = tuple(dict.fromkeys((*primary_key, *partition_by)))
        for column in key:
            if column not in columns:
                raise NotFound.among(f"key column of {rules.target(table)}", column, columns)
        needed = rules.needed(table, columns)
        computed = tuple(c for c in rules.computed_of(table) if c.name in needed)
        source = {c.name: c.type for c in shape.columns}
        types = source | {c.name: c.type for c in rules.metadata}
        for added in computed:
            types[added.name] = added.type(types)  # of columns that the table may have lost
        return cls(table, source, tuple(fields), key, computed, rules.metadata, keyed=bool(primary_key))

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


_LETTERS = 1_000  # rows that do not fit and are written together


@dataclass(frozen=True)
class CaptureChanges:
    """The changes of pieces (`flow.writing.PieceChanges`); `routes` says to which of the `targets` each table
    of the source goes. `letters`: rows that do not fit are written beside it; else they are errors, or have
    their table refused, where the source goes on without it (`pausing`). Tables without a route are passed
    over."""

    rules: CaptureRules
    routes: Mapping[SourceName, str]
    targets: Mapping[str, TableTarget]
    letters: bool = False
    pausing: bool = False

    def of(self, work: WorkOf[CapturePiece], takes: Takes) -> Iterator[TableChanges | TableRefused]:
        """The changes; nothing is read of a piece without a table that is asked for."""
        chosen = {name: target for name, target in self.routes.items() if self._is_asked_for(target, takes)}
        if chosen.keys() & work.piece.tables.keys():
            yield from _PieceRows(self, work.piece, chosen, takes).changes()

    def are_logged(self, work: WorkOf[CapturePiece], table: Table) -> bool:
        """All but rows of a snapshot of which the table wants no changelog."""
        return work.piece.chunk is None or table.options.get(PHASE_OPTION, "true") == "true"

    def letters_of(self, target: str) -> str | None:
        """The table for rows that do not fit into a target."""
        return dead_letters_beside(target) if self.letters else None

    def _is_asked_for(self, target: str, takes: Takes) -> bool:
        letters = self.letters_of(target)
        return takes(target) or (letters is not None and takes(letters))


@dataclass(slots=True)
class _PieceRows:
    """The rows of one piece, on their way into the tables that are `chosen`."""

    of: CaptureChanges
    piece: CapturePiece
    chosen: Mapping[SourceName, str]
    takes: Takes
    conversions: dict[SourceName, Conversion] = field(default_factory=dict)
    bad: dict[str, list[BadRow]] = field(default_factory=dict)  # by table that takes them
    refused: set[SourceName] = field(default_factory=set)

    def changes(self) -> Iterator[TableChanges | TableRefused]:
        for part in self.piece.read():
            if part.table not in self.chosen or part.table in self.refused:
                continue
            target = self.chosen[part.table]
            if isinstance(part, BadRow):
                bad: Sequence[BadRow] = [part]
                converted = TableChanges(target, RowsWritten(bad_rows=1))
            else:
                done = self._conversion(part.table, target).convert(part)
                bad = done.bad
                counted = _counted(part, done.rows.num_rows, len(bad))
                rows = done.rows if done.rows.num_rows else None
                converted = TableChanges(target, counted, rows, done.kinds)
            if self.takes(target):
                yield converted
            yield from self._kept(self.of.letters_of(target), bad)
        for letters in list(self.bad):
            yield from self._letters(letters)

    def _conversion(self, name: SourceName, target: str) -> Conversion:
        if name not in self.conversions:
            shape = self.piece.tables.get(name)
            if shape is None:
                raise InvalidRequest(f"a piece gives rows of {name}, and does not say what they look like")
            table = self.of.targets[target].opened()
            self.conversions[name] = Conversion.of(
                self.of.rules,
                name,
                shape,
                table.store.schema.fields,
                primary_key=table.primary_key,
                partition_by=table.partition_by,
            )
        return self.conversions[name]

    def _kept(self, letters: str | None, bad: Sequence[BadRow]) -> Iterator[TableChanges | TableRefused]:
        """Keep rows that do not fit for a table of theirs; where there is none they are an error."""
        if not bad or (letters is None and bad[0].unheld):
            return
        if letters is None:
            error = does_not_fit(bad[0])
            if not self.of.pausing:
                raise error
            self.refused.add(bad[0].table)
            yield TableRefused(bad[0].table, str(error))
            return
        waiting = self.bad.setdefault(letters, [])
        waiting.extend(bad)
        if len(waiting) >= _LETTERS:
            yield from self._letters(letters)

    def _letters(self, letters: str) -> Iterator[TableChanges]:
        bad = self.bad.pop(letters)
        if self.takes(letters):
            yield TableChanges(letters, RowsWritten(changes=len(bad)), letter_rows(bad))


def _counted(part: TableRows, rows: int, bad: int) -> RowsWritten:
    """The count of a part of a piece that has this many good and bad rows."""
    if part.seconds is None:
        return RowsWritten(snapshot_rows=rows, bad_rows=bad)
    return RowsWritten(changes=rows, bad_rows=bad, newest=pc.max(part.seconds).as_py())
