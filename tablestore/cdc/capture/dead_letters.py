"""Rows that do not fit: a table of each database of the lake, `cdc_dead_letters`, that holds what is known of
them and why they are not where they belong. Written in the same batches, each row once."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tablestore.cdc.capture.source import BadRow
from tablestore.core.errors import SchemaMismatch
from tablestore.format import rowkind
from tablestore.format.types.arrow_types import STRING, TIMESTAMP_LTZ
from tablestore.io.paths import DEAD_LETTERS
from tablestore.table.identifier import Identifier
from tablestore.table.lake import Lake

_COLUMNS = {
    "source_table": (STRING, "database.table in the source"),
    "position": (STRING, "where it is in the log of the source, or was read"),
    "committed": (TIMESTAMP_LTZ(3), "when it was committed in the source; NULL: read by a snapshot"),
    "row_kind": (STRING, "+I, -U, +U or -D"),
    "reason": (STRING, "why it does not fit"),
    "row": (STRING, "its values as JSON"),
}


def beside(target: str) -> str:
    """The table for rows that do not fit into `target`."""
    database = Identifier.parse(target).database
    return f"`{database}`.{DEAD_LETTERS}" if "." in database else f"{database}.{DEAD_LETTERS}"


def is_dead_letters(target: str) -> bool:
    """Whether it is such a table."""
    return Identifier.parse(target).table == DEAD_LETTERS


def create(lake: Lake, name: str) -> None:
    """Make the table unless it is there."""
    lake.create_table(
        name,
        schema={column: t for column, (t, _) in _COLUMNS.items()},
        comments={column: text for column, (_, text) in _COLUMNS.items()},
        comment="rows of a source that do not fit into the tables of this database",
        if_not_exists=True,
    )


def as_rows(bad: Sequence[BadRow]) -> pa.RecordBatch:
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
    return pa.RecordBatch.from_arrays(columns, names=list(_COLUMNS))


def failed(bad: BadRow) -> SchemaMismatch:
    """The error of a row that does not fit, where that is an error."""
    return SchemaMismatch(
        f"a row of {bad.table} at {bad.position} does not fit: {bad.reason}; "
        "bad_rows='dead-letter' puts such rows into a table of their own"
    )
