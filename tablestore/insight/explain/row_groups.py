"""Which row groups of a plan's files are read, and why the others are not: one row a row group.

Opens the footers of Parquet files, and nothing else but file indexes and deletion vectors. The filter of
each file, its statistics, indexes and masks are those by which `data_split` and `datafile.read` go. ORC and
Avro files are read whole: such a file counts as one group.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.format import deletion_vector, evolution
from tablestore.format.data_format import complaints
from tablestore.format.file_spec import file_format
from tablestore.format.parquet.checked_file import open_checked
from tablestore.format.parquet.data import group_stats
from tablestore.format.parquet.footer import sound_metadata
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.schema import TableSchema
from tablestore.meta.store import Store
from tablestore.read.scan import file_index
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.pruning import TRUE
from tablestore.read.scan.refusal import refusal
from tablestore.read.scan.time_travel import expiring

ROW_GROUPS = result_schema(
    "partition string, bucket int32, level int32, file_name string, row_group int32, rows int64, "
    "bytes int64, kept bool, rule string, reason string, compared string, merged bool"
)
Verdict = tuple[str | None, str | None, str | None]  # rule, reason, what was compared; of None: read
_READ: Verdict = (None, None, None)


def row_group_plan(
    store: Store,
    splits: Collection[DataSplit],
    where: Predicate | None,
    *,
    files: Collection[str] | None = None,
    limit: int | None = None,
) -> pa.Table:
    """The row groups of the files of `splits`, of those named `files` only, of `limit` files at most."""
    rows: list[tuple[Any, ...]] = []
    chosen = (
        (split, number, asked, merged)
        for split in splits
        for number, asked, merged in split.row_group_filters(store, where)
        if files is None or split.files[number].file_name in files
    )
    for split, number, asked, merged in islice(chosen, limit):
        file = split.files[number]
        place = (store.partition_text(split.partition), split.bucket, file.level, file.file_name)
        with expiring(store, split.snapshot_id):
            groups = list(_groups(store, split, number, asked))
        for group, (count, size, verdict) in enumerate(groups):
            rows.append((*place, group, count, size, verdict[0] is None, *verdict, merged))
    return table_of(ROW_GROUPS, rows)


def _groups(
    store: Store, split: DataSplit, number: int, asked: Predicate
) -> Iterator[tuple[int, int, Verdict]]:
    """Rows, bytes and verdict of each row group of a file."""
    file = split.files[number]
    own, path = store.schema_of(file.schema_id), store.file_path(split.partition, split.bucket, file)
    where = None if asked == TRUE else evolution.evolve_predicate(asked, own, store.schema)
    selected = True if where is None else file_index.select_rows(store, path, file, where)
    if file_format(file.file_name) != "parquet":
        missed: Verdict = ("file index", f"its index has no row of {asked!r}", None)
        yield file.row_count, file.file_size, missed if selected is False else _READ
        return
    with complaints(path, "Parquet"), contextlib.closing(open_checked(store.io, path)) as source:
        footer = sound_metadata(source)
    alive = split.deletion_file(number)
    masks: list[tuple[str, str, np.ndarray]] = []
    if not isinstance(selected, bool):
        masks.append(("file index", f"its index has no row of {asked!r} there", selected))
    if alive is not None:
        mask = deletion_vector.read(store.io, alive, rows=file.row_count).alive(0, file.row_count)
        if mask is not None:  # a vector may name no row
            masks.append(("deletion vector", "every row there is deleted", mask))
    at = 0
    for g in range(footer.num_row_groups):
        part = footer.row_group(g)
        size = sum(part.column(c).total_compressed_size for c in range(part.num_columns))
        if selected is False:
            verdict: Verdict = ("file index", f"its index has no row of {asked!r}", None)
        else:
            verdict = _by_stats(footer, g, own, where) or _by_masks(masks, at, at + part.num_rows)
        yield part.num_rows, size, verdict
        at += part.num_rows


def _by_stats(
    footer: pq.FileMetaData, group: int, own: TableSchema, where: Predicate | None
) -> Verdict | None:
    if where is None:
        return None
    reason = refusal(where, group_stats(footer, group, own, where.columns))
    return None if reason is None else ("column stats", reason.text(own), reason.compared())


def _by_masks(masks: list[tuple[str, str, np.ndarray]], start: int, end: int) -> Verdict:
    """What leaves no row of a row group; rows that only both masks together exclude count for the last."""
    left = np.ones(end - start, dtype=bool)
    for rule, reason, mask in masks:
        left &= mask[start:end]
        if not left.any():
            return rule, reason, None
    return _READ
