"""Columns at a glance: what the metadata of the files that a plan reads says of each column. No data is read.

Numbers are of stored rows: where rows are still to be merged, superseded ones count. Bounds hold every value;
those of long text are cut. Used by `Explanation.columns` and the card of a scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tablestore.format import stats
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import DataField
from tablestore.meta import statistics
from tablestore.read.scan.file_stats import stats_by_name
from tablestore.read.scan.plan import Plan
from tablestore.read.scan.refusal import bounds_text

PARTS = 12
"""Parts of equal width between the bounds of a column of numbers, for which rows are estimated."""
COLUMNS = result_schema(
    "column string, type string, rows int64, nulls int64, distinct int64, distinct_most int64, "
    "min string, max string, spread spread",
    spread=pa.list_(pa.float64()),
)
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE")
_PLACED = (*_WHOLE, "FLOAT", "DOUBLE")


def column_facts(plan: Plan, names: Sequence[str]) -> pa.Table:
    """One row a column of `names`. Unknown is NULL.

    `distinct` is what `analyze` counted of the snapshot, `distinct_most` the most that its rows and bounds
    allow. `spread` estimates the rows in `PARTS` parts from `min` to `max`, as if each file's rows lay evenly
    between the file's own bounds.
    """
    stats_of_files = list(_of_files(plan))
    counted = statistics.read(plan.store, plan.snapshot)
    distinct = {} if counted is None else {n: c.distinct_count for n, c in counted.columns.items()}
    rows = []
    for name in names:
        field = plan.store.schema.by_name[name]
        parts = [of_file.get(name, ColumnStats(None, None, None, n)) for n, of_file in stats_of_files]
        whole = stats.together(parts, field.type.as_nullable())
        bounds = bounds_text(whole, name, plan.store.schema)
        most = _most(whole, field)
        counts = whole.rows, whole.null_count, distinct.get(name), most
        rows.append((name, str(field.type), *counts, *bounds, _spread(parts, whole, field)))
    return table_of(COLUMNS, rows)


def _of_files(plan: Plan) -> Iterator[tuple[int, dict[str, ColumnStats]]]:
    """(rows, statistics by name) of each file that is read."""
    for branch in plan.branches:
        for split in branch.splits:
            for file in split.files:
                written = branch.store.schema_of(file.schema_id)
                yield file.row_count, stats_by_name(file, written, plan.store.schema)


def _most(whole: ColumnStats, field: DataField) -> int | None:
    """The most distinct values, NULL aside, that there can be."""
    rows = whole.rows - (whole.null_count or 0)
    if field.type.root == "BOOLEAN":
        return min(rows, 2)
    if field.type.root in _WHOLE and isinstance(whole.min, int) and isinstance(whole.max, int):
        return min(rows, whole.max - whole.min + 1)
    return rows


def _spread(parts: Sequence[ColumnStats], whole: ColumnStats, field: DataField) -> list[float] | None:
    """Rows of each part; None where values have no place on an axis, or bounds are not known."""
    low, high = whole.min, whole.max
    if (
        field.type.root not in _PLACED
        or not isinstance(low, int | float)
        or not isinstance(high, int | float)
    ):
        return None
    there = [p for p in parts if not p.all_null]
    starts = np.array([p.min for p in there], dtype=float)
    ends = np.array([p.max for p in there], dtype=float)
    rows = np.array([p.rows - (p.null_count or 0) for p in there], dtype=float)
    if not (np.isfinite(starts).all() and np.isfinite(ends).all()):
        return None
    edges = np.linspace(float(low), float(high), PARTS + 1)
    width = np.where(ends > starts, ends - starts, 1.0)
    below = np.clip((edges[:, None] - starts) / width, 0.0, 1.0)
    below = np.where(ends > starts, below, edges[:, None] > starts)  # a lone value lies in one part
    below[0], below[-1] = 0.0, 1.0
    return [float(n) for n in np.diff((below * rows).sum(axis=1))]
