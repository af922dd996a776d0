"""How DuckDB gets the rows of a scan: files that hold just the table's rows it reads itself, the rest
comes as Arrow: as a table, with its row count for the order of joins, where that fits in memory, else as a
stream.

Where the newest row of a key wins, the rows of a bucket are those of its oldest run whose keys no newer file
has, and the newest of what newer files hold. So DuckDB reads the large run itself, without those keys (an
anti join), and only the few newer rows are merged here. Valid where a newer level always wins: merge engine
deduplicate, no sequence field, no ignored deletes, no deletion vectors, a primary key that holds the
partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from tablestore.core.options.values import MergeEngine
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.parquet.schema import KIND
from tablestore.format.predicates.predicate import Predicate, any_of
from tablestore.read.scan import parallel
from tablestore.read.scan.data_split import ROWKIND, DataSplit, partitions_suffice
from tablestore.read.scan.plan import Plan
from tablestore.read.scan.pruning import TRUE, Filters
from tablestore.read.scan.split_generator import split_raw_and_merged
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.query.planning import TableOccurrence
from tablestore.sql.query.pushdown import TableRead
from tablestore.sql.text import literal_text, quoted
from tablestore.table.lazy_read import SchemaScan
from tablestore.table.scan import Scan

_KEYS = frozenset("TINYINT SMALLINT INT BIGINT CHAR VARCHAR DATE".split())  # equal here, equal in DuckDB
_SHARE = 4  # so many times the newer rows must be in the oldest run
_MOST_ROWS = 20_000_000  # newer rows, which are kept in memory

_WORTHWHILE_BYTES = 1 << 20  # of files below which DuckDB's own reader gains nothing
_TABLE_BYTES = 1 << 30  # of rows that are kept in memory for the sake of their count
_WIDTHS = {"VARCHAR": 32, "CHAR": 32, "VARBINARY": 64, "BINARY": 64, "DECIMAL": 16}
_NATIVE = frozenset(
    "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR DATE".split()
)  # types that both readers of Parquet understand alike


@dataclass(frozen=True, slots=True)
class NewerRows:
    """`base` are the files of the oldest runs, `newer` what lies over them, a split a bucket."""

    base: tuple[tuple[DataSplit, DataFileMeta], ...]
    newer: tuple[DataSplit, ...]

    def changes(self, scan: Scan, where: Predicate | None) -> Iterator[pa.RecordBatch]:
        """The newest row of every key of a condition that newer files have, its kind in the first column."""
        key = Filters.of(where, scan.store.schema).key
        names = columns(scan)
        tasks = [
            partial(
                s.read, scan.store, names, None if key == TRUE else key, with_kinds=True, keep_retracts=True
            )
            for s in self.newer
        ]
        threads = parallel.threads(scan.store, [s.size for s in self.newer])
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


class ScanRows:
    """The rows of a scan as an Arrow stream that can be read more than once; reading begins with its first
    batch."""

    def __init__(self, scan: Any, connection: DuckConnection | None = None, plan: Plan | None = None) -> None:
        self._scan, self._connection, self._found = scan, connection, plan
        self.schema: pa.Schema = scan.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        batches = self._scan.to_batches() if self._found is None else self._scan.batches_of(self._found)
        return batches if self._connection is None else self._connection.watched(batches)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)


@dataclass
class Feed:
    """How one scan reaches DuckDB: under the names of `views`, from `files` and, of what is left, as Arrow.

    `flagged` are files in which rows may be of a kind that takes away. `plan` is None where all is Arrow.
    With `counted` no row is read: the query asks how many there are, and the files say it.
    """

    views: list[str]
    scan: Any
    files: list[str] = field(default_factory=list)
    flagged: list[str] = field(default_factory=list)
    plan: Plan | None = None
    rows: int = 0
    base: list[str] = field(default_factory=list)
    over: NewerRows = NewerRows((), ())
    where: Predicate | None = None
    counted: bool = False

    @property
    def native(self) -> tuple[str, ...]:
        """The files that DuckDB reads."""
        return (*self.files, *self.flagged, *self.base)

    @property
    def text(self) -> str:
        """What it is, for people."""
        if self.counted:
            return f"{self.rows} rows are counted by the metadata of their files"
        left = 0 if self.plan is None else len(self.plan.splits)
        if not self.native:
            return "rows come from the scan"
        newer = f", {len(self.base)} of them without the keys of newer files" if self.base else ""
        rest = f"; {left} splits come merged" if left else ""
        return f"DuckDB reads {len(self.native)} files{newer}{rest}"

    def register(self, connection: DuckConnection, *, joined: bool, planning: bool = False) -> None:
        """Make the views. `joined`: the query has other tables, so their order matters; `planning`: no row
        will be read."""
        if self.counted:
            for view in self.views:
                column = f"CAST(NULL AS INTEGER) AS {self._columns}"
                text = f"CREATE TEMP VIEW {quoted(view)} AS SELECT {column} FROM range({self.rows})"
                connection.duck.execute(text).fetchall()
            return
        rows: Any = ScanRows(self.scan, connection, self.plan)
        if self.plan is not None and not self.plan.splits:
            rows = None
        elif (joined and self._fits()) or (len(self.views) > 1 and not planning):
            rows = pa.Table.from_batches(rows.batches(), rows.schema)
        for view in self.views:
            if not self.native:
                connection.duck.register(view, self.scan.schema.empty_table() if rows is None else rows)
                continue
            parts = [
                self._select(files, kinds)
                for files, kinds in ((self.files, False), (self.flagged, True))
                if files
            ]
            if self.base:
                parts += self._overlaid(connection, view, planning=planning)
            if rows is not None:
                connection.duck.register(f"{view}_merged", rows)
                parts.append(f"SELECT {self._columns} FROM {quoted(view + '_merged')}")
            text = " UNION ALL ".join(parts)
            connection.duck.execute(f"CREATE TEMP VIEW {quoted(view)} AS {text}").fetchall()

    def _overlaid(self, connection: DuckConnection, view: str, *, planning: bool) -> list[str]:
        """The oldest run without the keys of newer files, and the rows of these."""
        schema, newer = change_schema(self.scan), f"{view}_newer"
        batches = () if planning else connection.watched(self.over.changes(self.scan, self.where))
        connection.duck.register(newer, pa.Table.from_batches(batches, schema))
        keys = ", ".join(quoted(name) for name in self.scan.store.schema.primary_keys)
        kinds = f"{quoted(ROWKIND)} IN ('+I', '+U')"
        return [
            f"{self._select(self.base, False)} ANTI JOIN {quoted(newer)} USING ({keys})",
            f"SELECT {self._columns} FROM {quoted(newer)} WHERE {kinds}",
        ]

    def _fits(self) -> bool:
        if not isinstance(self.scan, Scan):
            return isinstance(self.scan, SchemaScan) and self.scan.small
        widths = (_WIDTHS.get(f.type.root, 8) for f in self.scan.store.schema.columns(self.scan.names))
        return self.rows * sum(widths) <= _TABLE_BYTES

    @property
    def _columns(self) -> str:
        return ", ".join(quoted(name) for name in self.scan.schema.names)

    def _select(self, files: Sequence[str], kinds: bool) -> str:
        listed = ", ".join(map(literal_text, files))
        text = f"SELECT {self._columns} FROM read_parquet([{listed}], hive_partitioning = false)"
        return f"{text} WHERE {quoted(KIND)} IN (0, 2)" if kinds else text


def feeds(sources: Sequence[TableOccurrence]) -> list[Feed]:
    """How each table of a query is fed; a table that stands there more than once is read once."""
    groups: dict[int, list[TableOccurrence]] = {}
    for source in sources:
        groups.setdefault(id(source.whole), []).append(source)
    planned_feeds: list[Feed] = []
    for group in groups.values():
        planned = [_feed(source) for source in group]
        if len(group) > 1 and all(not f.native for f in planned):
            planned_feeds.append(replace(_feed(_together(group)), views=[source.view for source in group]))
        else:
            planned_feeds += planned
    return planned_feeds


def _together(group: Sequence[TableOccurrence]) -> TableOccurrence:
    """What serves all places where the table stands."""
    columns = dict.fromkeys(name for source in group for name in source.read.columns)
    wheres = [source.read.where for source in group]
    where = None if any(w is None for w in wheres) else any_of(*(w for w in wheres if w is not None))
    return replace(group[0], read=TableRead(tuple(columns), where))


def _feed(source: TableOccurrence) -> Feed:
    """How a scan is fed. Of a plan in parts, paths of files and splits to merge are kept; where DuckDB reads
    no file, the scan plans again, part by part, when it is read."""
    scan = source.scan()
    if not isinstance(scan, Scan):
        return Feed([source.view], scan)
    planned = scan.plan_parts()
    first, second = next(planned, None), next(planned, None)
    if first is None:
        return Feed([source.view], scan)
    parts = partial(iter, (first,)) if second is None else scan.plan_parts
    rows = size = 0
    whole = _as_stored(scan)
    for part in parts():
        rows, size = rows + sum(s.rows for s in part.splits), size + sum(s.size for s in part.splits)
        whole = whole and all(s.whole for s in part.splits)
    feed = Feed([source.view], scan, rows=rows)
    if whole and source.read.counted and scan.where is None:
        return replace(feed, counted=True)
    listed = whole and partitions_suffice(scan.store, scan.names, first.where)
    if size < _WORTHWHILE_BYTES or listed or not _native(scan):
        return replace(feed, plan=None if second is not None or scan.other is not None else first)
    left = [split for part in parts() for split in _without_files(scan, part, feed)]
    over, rest = over_files(left) if possible(scan) else (feed.over, left)
    if all(_readable(scan, replace(split, raw=True, files=(file,))) for split, file in over.base):
        feed.base += [_local(scan.store.readable_path(s.partition, s.bucket, f)) for s, f in over.base]
        feed, left = replace(feed, over=over), rest
    return replace(feed, plan=replace(first, splits=tuple(left)), where=first.where)


def _without_files(scan: Scan, part: Plan, feed: Feed) -> Iterator[DataSplit]:
    """The splits of a part that are left once the feed has the files that DuckDB reads."""
    schema, options = scan.store.schema, scan.store.options
    for split in (p for s in part.splits for p in split_raw_and_merged(s, schema, options)):
        if not _readable(scan, split):
            yield split
            continue
        for file in split.files:
            path = _local(scan.store.readable_path(split.partition, split.bucket, file))
            (feed.flagged if schema.primary_keys and file.level == 0 else feed.files).append(path)


def _as_stored(scan: Scan) -> bool:
    """Whether what the files of a scan hold is what it gives, merged or not."""
    options, counts = scan.store.options, scan.store.schema.row_count_field
    whole = scan.limit is None and scan.whole and scan.other is None
    return whole and not options.scan_tolerant and counts is None


def _native(scan: Scan) -> bool:
    """Whether DuckDB's reader may take files of this scan."""
    if not scan.names or not _as_stored(scan):
        return False
    asked = "tablestore.read.verify-checksums" in scan.store.schema.options
    if asked and scan.store.options.verify_checksums:
        return False  # DuckDB's reader does not verify pages
    return all(f.type.root in _NATIVE for f in scan.store.schema.columns(scan.names))


def _readable(scan: Scan, split: DataSplit) -> bool:
    """Whether the files of a split hold its rows in the columns of the table."""
    schema = scan.store.schema.id
    return (
        split.plain
        and all(
            f.schema_id == schema
            and f.file_name.endswith(".parquet")
            and f.write_cols is None
            and f.external_path is None
            and f.first_row_id is None
            for f in split.files
        )
        and scan.store.paths.root.startswith(("/", "file:"))
    )


def _local(path: str) -> str:
    return urlsplit(path).path if path.startswith("file:") else path
