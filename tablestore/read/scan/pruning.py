"""The live files that a scan can skip, and why (FORMAT.md 10.4). Pure: values in, verdicts out.

A filter's conjuncts are used by the columns that they read. Partition columns: decided exactly, once a
partition. Bucket key: equality names the bucket, under the entry's own number of buckets. Key columns: may
skip any file. Everything else may skip only what overlaps no other file, or a whole section at once: in an
overlapping section a skipped newer row would bring an older one back, and engines that compute rows skip none
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Corrupt, Unsupported
from tablestore.core.options.table_options import MergeEngine, TableOptions
from tablestore.format import binary_row, evolution, hashing, stats
from tablestore.format.binary_row import comparable_keys
from tablestore.format.manifests.manifest import DataFileMeta, ManifestEntry, ManifestFileMeta, SimpleStats
from tablestore.format.predicates import evaluate, literal, predicate
from tablestore.format.predicates.predicate import Always, Compare, In, Predicate
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.levels.sorted_run import key_sections
from tablestore.meta.entries import Entries
from tablestore.read.scan.file_read import select_embedded
from tablestore.read.scan.file_stats import stats_by_name, unpadded
from tablestore.read.scan.refusal import Refusal, refusal

TRUE = Always(True)
RULES = ("invisible", "partition", "bucket", "key range", "column stats", "file index")
_MAX_POINTS = 1_000
_MAX_PARTITIONS = 16  # that are read one by one
ONE_FORM = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "VARCHAR")
_COMPUTING = (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
SchemaOf = Callable[[int], TableSchema]


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """Whether a file is read, and why not: `rule` is one of RULES, `text` is for a person; empty if kept.

    `refusal` has the statistics that were compared. A kept file has one, too, where they alone would skip it;
    `note` says why it is read.
    """

    entry: ManifestEntry
    kept: bool
    rule: str = ""
    text: str = ""
    refusal: Refusal | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Filters:
    """The parts of a bound predicate, by what its conjuncts may be used for."""

    whole: Predicate
    partition: Predicate  # partition columns only
    key: Predicate  # key and partition columns only, none of `partition`
    rows: Predicate  # what rows must still be asked: all but `partition`

    @classmethod
    def of(cls, where: Predicate | None, schema: TableSchema) -> Filters:
        """The parts of a bound predicate; None selects everything."""
        parts = predicate.conjuncts(where) if where is not None else ()
        keys = frozenset(schema.primary_keys + schema.partition_keys)
        partition = [p for p in parts if p.columns <= frozenset(schema.partition_keys)]
        others = [p for p in parts if p not in partition]
        on_key = [p for p in others if p.columns <= keys] if schema.primary_keys else []
        conditions = (predicate.all_of(*some) for some in (parts, partition, on_key, others))
        return cls(*conditions)


def selected_partitions(
    partitions: Iterable[bytes],
    where: Predicate,
    decode: Callable[[bytes], Sequence[Any]],
    schema: TableSchema,
) -> dict[bytes, bool]:
    """For each partition whether `where` (over partition columns) is true in it."""
    distinct = list(dict.fromkeys(partitions))
    if where == TRUE or not distinct:
        return dict.fromkeys(distinct, True)
    if not schema.partition_keys:  # what is left then without a column is FALSE
        return dict.fromkeys(distinct, False)
    columns = zip(*(decode(p) for p in distinct), strict=True)
    arrays = [
        literal.array(values, f.type) for values, f in zip(columns, schema.partition_fields, strict=True)
    ]
    chosen = evaluate.mask(where, pa.RecordBatch.from_arrays(arrays, names=list(schema.partition_keys)))
    return dict(zip(distinct, chosen.to_numpy(zero_copy_only=False).tolist(), strict=True))


def matching_manifests(
    manifests: Sequence[ManifestFileMeta],
    where: Predicate,
    schema: TableSchema,
    buckets: frozenset[int] | None = None,
) -> list[ManifestFileMeta]:
    """The manifests that may hold an entry of a partition in `where` and of one of `buckets` (None: any)."""
    types = [f.type.as_nullable() for f in schema.partition_fields]
    matches: dict[tuple[SimpleStats, int], bool] = {}  # many manifests are of the same partitions
    chosen = []
    for m in manifests:
        low, high = m.min_bucket, m.max_bucket
        if not (buckets is None or low is None or high is None or any(low <= b <= high for b in buckets)):
            continue
        if where != TRUE:
            nulls = any(m.partition_stats.null_counts or (1,))
            about = m.partition_stats, m.num_added + m.num_deleted if nulls else 1
            if about not in matches:
                matches[about] = _may_match(*about, where, types, schema)
            if not matches[about]:
                continue
        chosen.append(m)
    return chosen


def _may_match(
    about: SimpleStats, rows: int, where: Predicate, types: Sequence[DataType], schema: TableSchema
) -> bool:
    try:
        columns = stats.decode(about, types, rows)
    except Corrupt:  # written without partition statistics
        return True
    return evaluate.may_match(where, dict(zip(schema.partition_keys, columns, strict=True)))


def buckets_of(
    where: Predicate, schema: TableSchema, options: TableOptions
) -> Callable[[int], frozenset[int] | None]:
    """A function of a number of buckets that gives those that rows of `where` can be in, None for any.

    Only where every bucket-key column is compared for equality. Zero and NaN are stored in more than one
    form, so they name no bucket.
    """
    fields = schema.columns(schema.bucket_keys) if options.bucket > 0 else ()
    points = [_points(where, f.name) for f in fields]
    count = 1
    for values in points:
        count *= _MAX_POINTS + 1 if values is None else len(values)
    if not fields or count > _MAX_POINTS:
        return lambda buckets: None
    types = [f.type for f in fields]
    rows = list(product(*(values or () for values in points)))
    columns = zip(*rows, strict=True) if rows else ((),) * len(fields)
    arrays = [literal.array(values, t) for values, t in zip(columns, types, strict=True)]
    by_count: dict[int, frozenset[int] | None] = {}

    def of(buckets: int) -> frozenset[int] | None:
        if buckets not in by_count:
            by_count[buckets] = _hashed(arrays, types, buckets, options.bucket_function)
        return by_count[buckets]

    return of


def partitions_of(where: Predicate, schema: TableSchema) -> frozenset[bytes] | None:
    """The serialized partitions that `where` (over partition columns) can be true in; None for any.

    Only where every partition column is compared for equality with few values, and of types with one form.
    """
    fields = schema.partition_fields
    if not fields or any(f.type.root not in ONE_FORM for f in fields):
        return None
    points = [_points(where, f.name) for f in fields]
    count = 1
    for values in points:
        count *= _MAX_POINTS + 1 if values is None else len(values)
    if count > _MAX_PARTITIONS or any(v is None for values in points for v in values or ()):
        return None
    rows = list(product(*(values or () for values in points)))
    if not rows:
        return frozenset()
    arrays = [literal.array(vs, f.type) for vs, f in zip(zip(*rows, strict=True), fields, strict=True)]
    return frozenset(binary_row.encode_many(arrays, [f.type for f in fields]))


def _hashed(arrays: list[pa.Array], types: list[Any], buckets: int, function: str) -> frozenset[int] | None:
    if buckets <= 0:
        return None
    if not len(arrays[0]):
        return frozenset()
    try:
        return frozenset(hashing.bucket_of(arrays, types, buckets, function).tolist())
    except Unsupported:
        return None


def _points(where: Predicate, column: str) -> tuple[Any, ...] | None:
    """The values that conjuncts of `where` allow a column to have; None for no such list."""
    for p in predicate.conjuncts(where):
        if isinstance(p, Compare) and p.column == column and p.op == "=":
            values: tuple[Any, ...] = (p.value,)
        elif isinstance(p, In) and p.column == column and not p.inverse:
            values = p.values
        else:
            continue
        if not any(isinstance(v, float) and (v == 0 or v != v) for v in values):
            return values
    return None


@dataclass(frozen=True)
class Pruner:
    """The decisions for one table, filter and schema. `prune` is the entry."""

    schema: TableSchema
    options: TableOptions
    filters: Filters
    decode_partition: Callable[[bytes], Sequence[Any]]
    schema_of: SchemaOf
    independent: bool = False  # rows stand for themselves: no file hides rows of another
    all_levels: bool = False  # level 0 is read and merged also where reads wait for a compaction of it

    def prune(self, entries: Sequence[ManifestEntry], *, min_level: int = 0) -> list[FileVerdict]:
        """A verdict on each entry, in order. Files below `min_level` are invisible to this scan."""
        chosen = selected_partitions(
            (e.partition for e in entries), self.filters.partition, self.decode_partition, self.schema
        )
        buckets = buckets_of(self.filters.whole, self.schema, self.options)
        verdicts = [self._by_itself(e, chosen, buckets, min_level) for e in entries]
        if self.filters.rows == TRUE:
            return verdicts
        return self._by_column_stats(verdicts)

    def keep(self, entries: Entries, *, min_level: int = 0) -> np.ndarray:
        """Which entries `prune` keeps, decided by whole columns where possible: True for a file to be
        read."""
        kept = self._visible(entries, min_level)
        if self.filters.partition != TRUE:
            distinct, codes = entries.partitions()
            chosen = selected_partitions(distinct, self.filters.partition, self.decode_partition, self.schema)
            kept &= np.array([chosen[p] for p in distinct], dtype=bool)[codes]
        if self.filters.rows == TRUE:
            return kept
        totals = entries.numbers("total_buckets")
        buckets = buckets_of(self.filters.whole, self.schema, self.options)
        for total in np.unique(totals).tolist():
            wanted = buckets(total)
            if wanted is not None:
                there = np.isin(entries.numbers("bucket"), np.array(sorted(wanted), dtype=np.int64))
                kept &= (totals != total) | there
        rest = np.flatnonzero(kept)
        if len(rest):
            kept[rest] = [v.kept for v in self.prune(entries.take(rest), min_level=min_level)]
        return kept

    def _visible(self, entries: Entries, min_level: int) -> np.ndarray:
        pairs = entries.numbers("bucket") << 32 | entries.numbers("level")
        distinct, codes = np.unique(pairs, return_inverse=True)
        shown = [not self._invisible(p >> 32, p & 0xFFFFFFFF, min_level) for p in distinct.tolist()]
        return np.array(shown, dtype=bool)[codes]

    def _by_itself(
        self,
        entry: ManifestEntry,
        chosen: Mapping[bytes, bool],
        buckets: Callable[[int], frozenset[int] | None],
        min_level: int,
    ) -> FileVerdict:
        """The verdict on a file that needs no other file."""
        hidden = self._invisible(entry.bucket, entry.file.level, min_level)
        if hidden:
            return FileVerdict(entry, False, "invisible", hidden)
        if not chosen[entry.partition]:
            return FileVerdict(entry, False, "partition", f"not {self.filters.partition!r}")
        wanted = buckets(entry.total_buckets)
        if wanted is not None and entry.bucket not in wanted:
            names = ", ".join(map(str, sorted(wanted))) or "none"
            return FileVerdict(
                entry, False, "bucket", f"the keys asked for are in bucket {names} of {entry.total_buckets}"
            )
        if self.filters.key != TRUE:
            refused = refusal(self.filters.key, self._key_stats(entry))
            if refused is not None:
                return FileVerdict(entry, False, "key range", refused.text(self.schema), refused)
        return FileVerdict(entry, True)

    def _invisible(self, bucket: int, level: int, min_level: int) -> str:
        if self.independent:
            return ""
        if bucket == POSTPONE_BUCKET:
            return "rows of the postponed bucket are seen once compacted"
        if level == 0 and self.schema.primary_keys and not self.all_levels:
            if self.options.merge_engine is MergeEngine.FIRST_ROW:
                return "first-row tables show level 0 once compacted"
            if self.options.deletion_vectors and not self.options.merge_on_read:
                return "deletion-vector tables show level 0 once compacted"
        if level < min_level:
            return f"level {level} is below the level {min_level} this scan starts at"
        return ""

    def _partition_stats(self, entry: ManifestEntry) -> dict[str, stats.ColumnStats]:
        rows = max(entry.file.row_count, 1)
        values = self.decode_partition(entry.partition)
        return {
            name: stats.ColumnStats(v, v, rows if v is None else 0, rows)
            for name, v in zip(self.schema.partition_keys, values, strict=True)
        }

    def _key_stats(self, entry: ManifestEntry) -> dict[str, stats.ColumnStats]:
        partition_stats = self._partition_stats(entry)
        types = [f.type.as_nullable() for f in self.schema.key_fields]
        try:
            key_stats = stats.decode(entry.file.key_stats, types, entry.file.row_count)
        except Corrupt:  # without key statistics: nothing to go by
            return partition_stats
        key_stats = unpadded(entry.file, types, key_stats)
        return partition_stats | dict(zip(self.schema.trimmed_primary_keys, key_stats, strict=True))

    def _by_column_stats(self, verdicts: list[FileVerdict]) -> list[FileVerdict]:
        """The verdicts, with those files skipped whose column statistics exclude the filter."""
        changed: dict[tuple[Any, ...], FileVerdict] = {}
        groups: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        for v in verdicts:
            if v.kept:
                groups.setdefault((v.entry.partition, v.entry.bucket), []).append(v.entry)
        for entries in groups.values():
            by_file = {id(e.file): e for e in entries}
            for together in self._skipped_together([e.file for e in entries]):
                if len(together) > 1 and self.options.merge_engine in _COMPUTING:
                    continue  # a merged row may hold a value of no file, or of more than one
                asked = [self._refused(by_file[id(f)]) for f in together]
                if all(v is not None for v in asked):
                    beside = _neighbours_text(len(together) - 1)
                    judged = [replace(v, text=v.text + beside) for v in asked if v is not None]
                else:  # a newer file may hide rows of an older one, so none of them can be left out
                    judged = [_kept_for_neighbours(v, len(together) - 1) for v in asked if v is not None]
                changed |= {v.entry.identity: v for v in judged}
        return [changed.get(v.entry.identity, v) if v.kept else v for v in verdicts]

    def _skipped_together(self, files: list[DataFileMeta]) -> list[tuple[DataFileMeta, ...]]:
        """Files that must be skipped together or not at all: each alone, or those of a section."""
        lone = self.independent or not self.schema.primary_keys
        once = self.options.deletion_vectors or self.options.merge_engine is MergeEngine.FIRST_ROW
        if lone or (once and all(f.level > 0 for f in files)):
            return [(f,) for f in files]  # what a newer file supersedes is marked as deleted, or not there
        key = comparable_keys([f.type for f in self.schema.key_fields])
        groups: list[tuple[DataFileMeta, ...]] = []
        for section in key_sections(files, key):
            groups.append(tuple(f for run in section for f in run.files))
        return groups

    def _refused(self, entry: ManifestEntry) -> FileVerdict | None:
        """The verdict on a file of which no row can be selected; None if one may be."""
        file = entry.file
        own = self.schema_of(file.schema_id)
        key_stats = self._key_stats(entry) if self.schema.primary_keys else self._partition_stats(entry)
        refused = refusal(self.filters.rows, {**stats_by_name(file, own, self.schema), **key_stats})
        if refused is not None:
            return FileVerdict(entry, False, "column stats", refused.text(self.schema), refused)
        if file.embedded_index is None or not self.options.file_index_read:
            return None
        asked = evolution.evolve_predicate(self.filters.rows, own, self.schema)
        if select_embedded(file, asked, own) is not False:
            return None
        return FileVerdict(entry, False, "file index", f"its index has no row of {self.filters.rows!r}")


def _kept_for_neighbours(refused: FileVerdict, others: int) -> FileVerdict:
    """The verdict on a file that must be read since files that it overlaps are."""
    beside = "a file it overlaps" if others == 1 else f"one of the {others} files it overlaps"
    note = f"its own {refused.rule} would leave it out, but {beside} with may hold other rows of its keys"
    return FileVerdict(refused.entry, True, refusal=refused.refusal, note=note)


def _neighbours_text(count: int) -> str:
    if count == 0:
        return ""
    return f", nor can the {'file' if count == 1 else f'{count} files'} it overlaps with"
