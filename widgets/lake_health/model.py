"""The tables of a lake by health: what each says of itself, the worst first.

Pure but for `read`, which asks one table. The verdict is that of `inspect.health()`; a table that cannot be
read is a row with its error. Bounds: `MAX_TABLES` are read, `SHOWN` are drawn, `COMMITS` of each. Called by
`widget`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from widgets.kit import format as fmt
from widgets.kit.svg import plain

MAX_TABLES, SHOWN, COMMITS = 2_000, 60, 40
STATES = ("broken", "risk", "due", "healthy", "empty")
WORDS = {
    "broken": "cannot be read",
    "risk": "make writers wait",
    "due": "wait for compaction",
    "healthy": "healthy",
    "empty": "empty",
}
SCHEMA = pa.schema(
    {
        "table": pa.string(),
        "state": pa.string(),
        "verdict": pa.string(),
        "buckets": pa.int64(),
        "due": pa.int64(),
        "opened": pa.float64(),
        "files": pa.int64(),
        "bytes": pa.int64(),
        "rows": pa.int64(),
        "snapshot": pa.int64(),
        "committed": pa.timestamp("ms"),
    }
)


@dataclass(frozen=True, slots=True)
class TableRow:
    """One table: its verdict and numbers, and the kinds and rows of its newest commits."""

    name: str
    state: str
    verdict: str
    buckets: int = 0
    due: int = 0
    opened: float = 0.0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    snapshot: int | None = None
    committed: datetime | None = None
    commits: tuple[tuple[str, int], ...] = ()

    @property
    def rank(self) -> tuple[object, ...]:
        """By which tables are ordered, the worst first."""
        return STATES.index(self.state), -self.due, -self.opened, -self.bytes, self.name


@dataclass(frozen=True, slots=True)
class LakeModel:
    """What is known of a lake: `rows` the worst first, of `tables` names; `reading` while more are read."""

    lake: str
    tables: int = 0
    rows: tuple[TableRow, ...] = ()
    reading: bool = False

    @property
    def verdict(self) -> str:
        """`12 tables: 1 cannot be read, 3 wait for compaction, 8 healthy`."""
        counts = ((state, sum(row.state == state for row in self.rows)) for state in STATES)
        parts = [f"{count:,} {WORDS[state]}" for state, count in counts if count]
        if not self.tables:
            return "no tables yet"
        return f"{fmt.plural(self.tables, 'table')}: {', '.join(parts) or 'none read yet'}"

    @property
    def state(self) -> str:
        """That of the worst table."""
        return min((row.state for row in self.rows), key=STATES.index, default="empty")

    @property
    def progress(self) -> str:
        """`reading 13 of 40 tables`, empty when all are read."""
        left = self.tables - len(self.rows)
        if self.reading:
            return f"reading {len(self.rows) + 1:,} of {fmt.plural(self.tables, 'table')} …"
        return f"{fmt.plural(left, 'table')} not read" if left else ""

    @property
    def sums(self) -> tuple[int, int, int]:
        """Files, bytes and rows of the tables that were read."""
        files, size = sum(row.files for row in self.rows), sum(row.bytes for row in self.rows)
        return files, size, sum(row.rows for row in self.rows)


def ordered(rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """The worst first."""
    return tuple(sorted(rows, key=lambda row: row.rank))


def read(lake: Any, name: str) -> TableRow:
    """One table of a lake; what goes wrong is said in its row."""
    try:
        table = lake.table(name)
        health = table.inspect.health()
        newest = table.inspect.snapshots(newest=COMMITS).select(
            ["commit_kind", "delta_record_count", "commit_time"]
        )
    except Exception as error:
        return TableRow(name, "broken", f"{type(error).__name__}: {error}")
    kinds, rows, times = (newest[column].to_pylist() for column in newest.column_names)
    return TableRow(
        name,
        health.state,
        health.verdict,
        health.buckets.num_rows,
        health.due,
        health.opened,
        health.files,
        health.bytes,
        health.rows,
        health.snapshot,
        times[-1] if times else None,
        tuple(zip(kinds, (row or 0 for row in rows), strict=True)),
    )


def table_of(model: LakeModel) -> pa.Table:
    """A row a table, the worst first."""
    names = ("name", *SCHEMA.names[1:])
    columns = [[getattr(row, name) for row in model.rows] for name in names]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def text_of(model: LakeModel) -> str:
    """The lake in a terminal."""
    lines = [f"{plain(model.lake)}: {model.verdict}"]
    wide = max((min(len(row.name), 40) for row in model.rows[:SHOWN]), default=0)
    for row in model.rows[:SHOWN]:
        name = plain(row.name)
        name = name if len(name) <= 40 else f"{name[:39]}…"
        held = f"{fmt.count(row.files):>8} files {fmt.bytes_text(row.bytes):>9}"
        lines.append(f"  {name:<{wide}} {held}  {plain(row.verdict)[:200]}")
    if len(model.rows) > SHOWN:
        lines.append(f"  … and {fmt.plural(len(model.rows) - SHOWN, 'more table')}")
    lines += [model.progress] if model.progress else []
    return "\n".join(lines)
