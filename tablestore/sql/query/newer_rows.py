"""Unmerged changes laid over files: where the newest row of a key wins, the rows of a bucket are those of its
oldest run whose keys no newer file has, and the newest of what newer files hold.

So DuckDB reads the large run itself, without the keys that the few newer rows have (an anti join), and only
those few are merged here. Valid where a newer level always wins: merge engine deduplicate, no sequence field,
no ignored deletes, no deletion vectors, a primary key that holds the partition. Pure but for reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import pyarrow as pa

from tablestore.core.options.values import MergeEngine
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.read.scan import parallel
from tablestore.read.scan.data_split import ROWKIND, DataSplit
from tablestore.read.scan.plan import Plan
from tablestore.read.scan.pruning import TRUE, Filters
from tablestore.table.scan import Scan

_KEYS = frozenset("TINYINT SMALLINT INT BIGINT CHAR VARCHAR DATE".split())  # equal here, equal in DuckDB
_SHARE = 4  # so many times the newer rows must be in the oldest run
_MOST_ROWS = 20_000_000  # newer rows, which are kept in memory


@dataclass(frozen=True, slots=True)
class NewerRows:
    """`base` are the files of the oldest runs, `newer` what lies over them, a split a bucket."""

    base: tuple[tuple[DataSplit, DataFileMeta], ...]
    newer: tuple[DataSplit, ...]

    def changes(self, scan: Scan, found: Plan) -> Iterator[pa.RecordBatch]:
        """The newest row of every key that newer files have, its kind in the first column."""
        key = Filters.of(found.where, scan.store.schema).key
        names = columns(scan)
        tasks = [
            partial(
                s.read, scan.store, names, None if key == TRUE else key, with_kinds=True, keep_retracts=True
            )
            for s in self.newer
        ]
        threads = parallel.threads(scan.store.options, [s.size for s in self.newer])
        return parallel.in_order(tasks, threads=threads, size_of=attrgetter("nbytes"))


def columns(scan: Scan) -> tuple[str, ...]:
    """The columns of the scan, and those of the key."""
    return tuple(dict.fromkeys((*scan.names, *scan.store.schema.primary_keys)))


def change_schema(scan: Scan) -> pa.Schema:
    """Columns of `NewerRows.changes`."""
    fields = [f.arrow for f in scan.store.schema.columns(columns(scan))]
    return pa.schema([pa.field(ROWKIND, pa.string(), nullable=False), *fields])


def possible(scan: Scan) -> bool:
    """Whether the newest row of a key wins in this table, whatever it holds."""
    schema, options = scan.store.schema, scan.store.options
    if (
        not schema.primary_keys
        or ROWKIND in schema.names
        or options.merge_engine is not MergeEngine.DEDUPLICATE
    ):
        return False
    if options.sequence_fields or options.ignore_delete or options.deletion_vectors:
        return False
    return set(schema.partition_keys) <= set(schema.primary_keys) and all(
        f.type.root in _KEYS for f in schema.columns(schema.primary_keys)
    )


def over_files(splits: Sequence[DataSplit]) -> tuple[NewerRows, list[DataSplit]]:
    """What of the splits is large enough below its changes, and the others."""
    base: list[tuple[DataSplit, DataFileMeta]] = []
    newer: list[DataSplit] = []
    others: list[DataSplit] = []
    for split in splits:
        oldest = max(f.level for f in split.files)
        below = [f for f in split.files if f.level == oldest]
        above = [f for f in split.files if f.level != oldest]
        few = sum(f.row_count for f in above) * _SHARE <= sum(f.row_count for f in below)
        plain = oldest > 0 and not any(split.deletion_files) and all(f.delete_count == 0 for f in below)
        if split.raw or not above or not few or not plain:
            others.append(split)
            continue
        base += [(split, f) for f in below]
        newer.append(replace(split, files=tuple(above), deletion_files=()))
    if sum(s.rows for s in newer) > _MOST_ROWS:
        return NewerRows((), ()), list(splits)
    return NewerRows(tuple(base), tuple(newer)), others
