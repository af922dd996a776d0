"""The buckets of a table as cells of an overview: runs, files, bytes, deletes, and which are worst.

Pure: from `table.inspect.levels()`. Called by the overview figure and by the widget.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from heapq import nsmallest

import pyarrow as pa


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
    """The buckets with most runs, then most bytes; of equal ones the first."""
    return nsmallest(limit, cells, key=lambda cell: (-cell.runs, -cell.bytes))
