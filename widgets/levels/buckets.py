"""The buckets of a table: cells of an overview (runs, files, bytes, deletes, which are worst), and the rows
that a bucket keeps as long as its past is gone through, so that none moves (`local.js` does the same).

Pure: from `table.inspect.levels()` and the history's facts. Called by the overview figure and by the widget.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from widgets.history.history import History


@dataclass(frozen=True, slots=True)
class BucketCell:
    """One bucket of the overview."""

    partition: str
    bucket: int
    runs: int
    files: int
    bytes: int
    rows: int
    deletes: int
    masked: int = 0

    @property
    def id(self) -> str:
        """Names the bucket in traits: `l_year=1995/l_month=6/1`."""
        return f"{self.partition}/{self.bucket}"


def bucket_cells(files: pa.Table) -> tuple[BucketCell, ...]:
    """Every bucket with its runs, files, bytes and deletes, in partition and bucket order."""
    if not files.num_rows:
        return ()
    if "masked_rows" not in files.column_names:
        files = files.append_column("masked_rows", pa.nulls(files.num_rows, pa.int64()))
    grouped = files.group_by(["partition", "bucket"]).aggregate(
        [
            ("run", "count_distinct"),
            ("file_name", "count"),
            ("bytes", "sum"),
            ("rows", "sum"),
            ("deletes", "sum"),
            ("masked_rows", "sum"),
        ]
    )
    cells = [
        BucketCell(
            partition=row["partition"] or "",
            bucket=row["bucket"],
            runs=row["run_count_distinct"],
            files=row["file_name_count"],
            bytes=row["bytes_sum"] or 0,
            rows=row["rows_sum"] or 0,
            deletes=row["deletes_sum"] or 0,
            masked=row["masked_rows_sum"] or 0,
        )
        for row in grouped.to_pylist()
    ]
    return tuple(sorted(cells, key=lambda cell: (natural(cell.partition), cell.bucket)))


def natural(text: str) -> list[tuple[int, int, str]]:
    """A sort key in which `l_month=10` follows `l_month=9`."""
    parts = re.split(r"(\d+)", text)
    return [(1, int(part), "") if part.isdigit() and part.isascii() else (0, 0, part) for part in parts]


def worst(cells: Collection[BucketCell], limit: int = 5) -> list[BucketCell]:
    """The buckets with most runs, then most bytes."""
    return sorted(cells, key=lambda cell: (-cell.runs, -cell.bytes, natural(cell.id)))[:limit]


def short_partition(partition: str) -> str:
    """`l_year=1995/l_month=6` → `1995/6`."""
    return "/".join(part.split("=", 1)[-1] for part in partition.split("/"))


FOLDABLE = 64
"""More levels than any table has."""


def rows_kept(
    history: History | None, place: str, snapshot: int | None, stop: int
) -> tuple[int, tuple[int, ...]]:
    """How many rows level 0 has at least (at most `stop`), and the levels that are one row where they are
    empty: all of them now, in the past those that the bucket `place` never used."""
    past = (
        history is not None and snapshot is not None and history.covers(snapshot) and snapshot != history.last
    )
    if history is None or not past:
        return 0, tuple(range(FOLDABLE))
    ids = ["{}/{}".format(*each) for each in history.places]
    at = np.flatnonzero(history.place == ids.index(place)) if place in ids else np.zeros(0, np.int64)
    level = history.ints("level")[at]
    used = set(level.tolist())
    zero = at[level == 0]
    when = np.r_[history.added[zero], history.removed[zero]]
    by = np.repeat([1, -1], len(zero))
    most = int(np.cumsum(by[np.lexsort((by, when))]).max(initial=0))  # what goes, goes before what comes
    return min(most, stop), tuple(level for level in range(FOLDABLE) if level not in used)
