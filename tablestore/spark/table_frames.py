"""A scan as a frame of Spark: its files by Spark's own Parquet scan where that gives the same rows.

Such a scan prunes columns and skips row groups. Of files that must be merged it leaves out the rows that the
keys alone say are superseded. Where a merge makes new values, or Spark cannot read a file as we do, rows come
through the data source, at the same snapshot and by the same condition. Called for every place of a table in
a query (`query_planning.py`).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, repeat
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tablestore.core import quantities
from tablestore.core.errors import InvalidRequest
from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND
from tablestore.format.predicates.predicate import Predicate, bind
from tablestore.format.predicates.predicate_text import parse
from tablestore.format.schema import TableSchema
from tablestore.io.paths import is_object_location
from tablestore.meta.store import Store
from tablestore.read.scan.data_split import DataSplit, chooses_rows, lost_rows
from tablestore.read.scan.plan import PlanCounts
from tablestore.read.scan.scan_mode import SnapshotState
from tablestore.read.scan.split_generator import split_raw_and_merged
from tablestore.spark import jvm
from tablestore.spark.exchange import column, spark_condition, spark_schema
from tablestore.spark.source_options import TABLE_SOURCE
from tablestore.table.scan import Scan

log = logging.getLogger(__name__)
MOST_ROWS_MASKED = 50_000_000
"""Rows whose keys are merged here at most, before Spark starts; more are merged in Spark's tasks. Each is a
bit in Spark's driver and in what its tasks get."""
MOST_BYTES_KEPT = 16_000_000
"""Bits of rows, of all tables together, that are kept for the next query."""
_WORD = 64
_masks: dict[Any, np.ndarray] = {}
_lock = threading.Lock()
_ENTRY = 1_000  # bytes that a split counts for, however few rows it has
_CHOSEN_HERE = ("where", "columns", "pushdown")  # options that a planned read has in another form


@dataclass(frozen=True, slots=True)
class ScanParts:
    """Who reads what of a plan: Spark the `files`, (path, bytes, place) each, the data source `rest` splits.

    Spark leaves out rows whose bit is set in `lost` (whole words, lowest bit first). The bit of a file's
    first row is at its place; a file whose place is None loses none. With `by_kind` Spark leaves out rows
    that take away, too. `shown`: the plan in a line."""

    shown: str
    files: tuple[tuple[str, int, int | None], ...] = ()
    by_kind: bool = False
    lost: bytes = b""
    rest: int = 0


def frame_of_scan(
    spark: SparkSession,
    scan: Scan,
    wanted: StructType,
    *,
    options: Mapping[str, str],
    chosen: Predicate | None,
) -> DataFrame:
    """The rows of a scan in the columns and types of `wanted`. Those that `scan.where` leaves out may be
    among them, those that `chosen`, a part of it, leaves out are not. `options` are those of the source."""
    text = text_of(scan.where, scan.store.schema)
    if text is None and scan.where is not None:
        scan, text = replace(scan, where=chosen), options.get("where")
    names = wanted.names or [_cheapest(scan.store.schema)]
    needed = {*names, *(() if chosen is None else chosen.columns)}
    schema = spark_schema(pa.schema([f for f in scan.schema if f.name in needed]))
    parts = _parts(scan)
    frames = []
    if parts.files:
        frame = _native_scan(spark, schema, parts)
        if chosen is not None:
            frame = frame.where(spark_condition(bind(chosen, scan.store.schema)))
        frames.append(frame)
    if parts.rest or not parts.files:
        given = {k: v for k, v in options.items() if k not in _CHOSEN_HERE} | pin_of(scan)
        given |= {"splits": "merged" if parts.files else "all"} | ({} if text is None else {"where": text})
        texts = {k: str(v) for k, v in given.items()}
        frames.append(jvm.frame(spark, "rows", TABLE_SOURCE, schema.json(), texts, parts.shown))
    all_rows = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    return all_rows.select(*(_typed(all_rows, f.name, wanted) for f in wanted.fields))


def _parts(scan: Scan) -> ScanParts:
    """Who reads what of a scan. Files that must be merged are Spark's, too, where the rows to leave out are
    known from the keys and are not too many; else the data source merges them.

    Memory: one part of the plan, path and size of Spark's files, and splits of `MOST_ROWS_MASKED` rows.
    """
    store = scan.store
    if not isinstance(scan.target, SnapshotState):
        return ScanParts(store.paths.root, rest=1)
    at = "no snapshot" if scan.snapshot is None else f"snapshot {scan.snapshot.id}"
    sorted_files = _Sorted(store, "rows of two branches" if scan.other is not None else _hindrance(store))
    counts = PlanCounts()
    for part in scan.plan_parts():
        counts.add(part)
        sorted_files.add(part.splits)
    shown = f"{store.paths.root} {at}: {counts}"
    if counts.manifests_skipped:
        manifests = quantities.many(counts.manifests, "manifest")
        shown += f", {counts.manifests_skipped:,} of {manifests} unread"
    log.info("%s", shown)
    return sorted_files.parts(shown)


@dataclass
class _Sorted:
    """The files of a plan, sorted part by part: those that are read as they lie and, in `others`, those that
    must be merged. `why` says what hinders Spark from reading the first, `why_others` the second."""

    store: Store
    why: str
    files: list[tuple[str, int, int | None]] = field(default_factory=list)
    by_kind: bool = False
    splits: int = 0
    merged: int = 0
    merged_rows: int = 0
    others: list[DataSplit] = field(default_factory=list)
    why_others: str = ""

    def __post_init__(self) -> None:
        if not chooses_rows(self.store):
            self.why_others = "a merge that makes new values"

    def add(self, splits: Sequence[DataSplit]) -> None:
        """The splits of one part."""
        store = self.store
        for split in (p for s in splits for p in split_raw_and_merged(s, store.schema, store.options)):
            self.splits += 1
            if not split.plain:
                self._add_merged(split)
                continue
            self.why = self.why or _unlike(store, split)
            if not self.why:
                self.files += _named(store, split, repeat(None))
                keyed = bool(store.schema.primary_keys)
                self.by_kind = self.by_kind or (keyed and any(f.level == 0 for f in split.files))

    def _add_merged(self, split: DataSplit) -> None:
        self.merged, self.merged_rows = self.merged + 1, self.merged_rows + split.rows
        too_many = "many rows to merge" if self.merged_rows > MOST_ROWS_MASKED else ""
        self.why_others = self.why_others or _unlike(self.store, split) or too_many
        if self.why or self.why_others:
            self.others.clear()
        else:
            self.others.append(split)

    def parts(self, shown: str) -> ScanParts:
        """Who reads what."""
        if self.why:  # then the data source reads everything
            return ScanParts(f"{shown}; by Python workers: {self.why}", rest=self.splits)
        files, by_kind = tuple(self.files), self.by_kind
        if not self.merged:
            return ScanParts(shown, files, by_kind)
        if self.why_others:
            parts = quantities.many(self.merged, "split")
            shown += f"; {parts} by Python workers: {self.why_others}"
            return ScanParts(shown, files, by_kind, rest=self.merged)
        masks, place = [], 0
        merged: list[tuple[str, int, int | None]] = []
        for split in self.others:
            masks.append(_lost(self.store, split))
            merged += _named(self.store, split, accumulate((f.row_count for f in split.files), initial=place))
            place += len(masks[-1]) * _WORD
        words = np.concatenate(masks)
        shown += f"; {quantities.many(int(np.bitwise_count(words).sum()), 'row')} superseded"
        return ScanParts(shown, (*files, *merged), by_kind, words.tobytes())


def _named(store: Store, split: DataSplit, places: Iterable[int | None]) -> list[tuple[str, int, int | None]]:
    """Path, bytes and place of each file of a split."""
    folder = split.partition, split.bucket
    files = zip(split.files, places, strict=False)
    return [(store.readable_path(*folder, f), f.file_size, place) for f, place in files]


def _lost(store: Store, split: DataSplit) -> np.ndarray:
    """`lost_rows` as words of bits (uint64), kept while they are few: the files of a split never change, and
    a program asks again."""
    names, options = tuple(f.file_name for f in split.files), frozenset(store.schema.options.items())
    key = store.paths.root, store.schema.id, options, names, split.deletion_files
    with _lock:
        words = _masks.pop(key, None)
    if words is None:
        lost = lost_rows(store, split)
        bits = np.packbits(np.pad(lost, (0, -len(lost) % _WORD)), bitorder="little")
        words = bits.view("<u8")
    with _lock:
        _masks[key] = words  # the newest at the end
        while len(_masks) > 1 and sum(w.nbytes + _ENTRY for w in _masks.values()) > MOST_BYTES_KEPT:
            del _masks[next(iter(_masks))]
    return words


def is_newest(scan: Scan) -> bool:
    """Whether a scan reads one snapshot whole that nobody named, under today's columns."""
    target = scan.target
    return isinstance(target, SnapshotState) and target.whole and not target.travelled and scan.other is None


def pin_of(scan: Scan) -> dict[str, int]:
    """The option that keeps a scan at the snapshot that is the newest now."""
    return {"pinned": 0 if scan.snapshot is None else scan.snapshot.id} if is_newest(scan) else {}


def _cheapest(schema: TableSchema) -> str:
    """The column to read where only the number of rows is asked for."""
    keys = schema.trimmed_primary_keys
    return keys[0] if keys else schema.shown.names[0]


def _typed(frame: DataFrame, name: str, wanted: StructType) -> Column:
    """A column in the type that it had when the relation was made."""
    kind = wanted[name].dataType
    return column(name) if frame.schema[name].dataType == kind else column(name).cast(kind).alias(name)


def text_of(where: Predicate | None, schema: TableSchema) -> str | None:
    """A condition as text for the data source; None where text cannot say it."""
    if where is None:
        return None
    try:
        same = bind(parse(repr(where)), schema) == bind(where, schema)
    except InvalidRequest:
        return None
    return repr(where) if same else None


def _hindrance(store: Store) -> str:
    """Why Spark's own Parquet reader would not give the rows of a table as the engine does; empty if it may,
    which depends on the files (`_unlike`)."""
    schema = store.schema
    types = [f.arrow.type for f in schema.shown.fields]
    if store.options.scan_tolerant:
        return "damaged or lost files are passed over"  # Spark has options of its own for that
    if schema.row_count_field is not None:
        return "rows come as often as they are counted"
    if is_object_location(store.paths.root):
        return "an object store, for which PySpark comes without hadoop-aws"
    if any(pa.types.is_time(t) or (pa.types.is_timestamp(t) and t.unit == "ns") for t in types):
        return "columns of TIME or of nanoseconds"
    return ""


def _unlike(store: Store, split: DataSplit) -> str:
    """Why Spark would not read the files of a split as the engine does; empty if it would."""
    if any(not f.file_name.endswith(".parquet") for f in split.files):
        return "files of another format than Parquet"
    return "files of older schemas" if any(f.schema_id != store.schema.id for f in split.files) else ""


def _native_scan(spark: SparkSession, schema: StructType, parts: ScanParts) -> DataFrame:
    """Spark's scan of files, without the rows that are lost. At level 0 it filters by row kind: some writers
    never count their deletes."""
    read = StructType([*schema.fields]).add(KIND, "byte", True) if parts.by_kind else schema
    how = {"datetimeRebaseMode": "CORRECTED"}  # Paimon's calendar, also before 1582-10-15
    rows = jvm.frame(spark, "files", read.json(), json.dumps(parts.files), parts.lost, how, parts.shown)
    if parts.by_kind:
        rows = rows.where(F.col(KIND).isin(rowkind.INSERT, rowkind.UPDATE_AFTER))
    return rows.select(*(column(n) for n in schema.names))
