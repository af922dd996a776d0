"""The runs of one bucket over a few keys, for `insight.explain.merge_steps`: which bucket, which keys, and
their rows.

Of each run at most as many rows are kept as there are keys to show: a key among the first n of all runs is
among the first n of each that has it, since keys rise in a run (I3). Row groups outside a key filter are not
read; what deletion vectors mark is not there. Called by `Inspect.merging`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.format import binary_row, deletion_vector
from tablestore.format.data_format import FileRequest
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.manifest import DataFileMeta, ManifestEntry
from tablestore.format.parquet.schema import kv_schema
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import condition
from tablestore.format.snapshot import Snapshot
from tablestore.insight.explain.key_axis import key_axis
from tablestore.insight.explain.merge_steps import Merging, RunRows, StepPlace, merged_steps
from tablestore.insight.inspect.files import by_bucket
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.levels.sorted_run import Levels, SortedRun
from tablestore.lsm.merge.groups import joined, plain
from tablestore.lsm.merge.merge_function import in_table
from tablestore.meta.deletion_files import deletion_files
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import read_file
from tablestore.read.scan.pruning import TRUE, Filters, Pruner
from tablestore.read.scan.time_travel import expiring
from tablestore.read.supported import require_readable

MAX_KEYS = 1_000
Origins = Callable[[set[str]], Mapping[str, int]]
Bucket = tuple[tuple[bytes, int], list[ManifestEntry]]


@dataclass(frozen=True, slots=True)
class KeyWindow:
    """Which keys: those of `where`, those between two places of the bucket's key axis; at most `limit`."""

    where: Predicate | str | None = None
    between: tuple[float, float] | None = None
    limit: int = 10


def merging(
    store: Store,
    snapshot: Snapshot | None,
    window: KeyWindow,
    *,
    partition: str | None,
    bucket: int | None,
    newest: int | None,
    origins: Origins,
) -> Merging:
    """The merge of a bucket's newest runs (None: all) over the keys of a window. Without `bucket` and
    `partition` the bucket of the most runs.

    Raises InvalidRequest for a filter on columns that are no keys and for limits below 1, NotFound for a
    bucket without files.
    """
    schema = store.schema
    if not schema.primary_keys:
        raise Unsupported("merging of a table without a primary key", "its rows lie side by side: scan it")
    _require_limits(window, newest)
    require_readable(schema, store.options, schema.names)
    filters = _filters(store, window.where)
    chosen = _bucket(store, snapshot, filters, partition, bucket)
    if chosen is None:
        return merged_steps((), schema, store.options, limit=window.limit)
    (part, number), entries = chosen
    tree = Levels.of([e.file for e in entries], store.options.num_levels, store.key_order)
    runs = tree.runs[:newest]
    vectors = (
        deletion_files(store, snapshot).get((part, number), {}) if store.options.deletion_vectors else {}
    )
    reader = _WindowReader(store, part, number, window, filters, vectors, _axis(store, entries))
    named = _names(runs, origins({f.file_name for run in runs if run.level == 0 for f in run.files}))
    with expiring(store, 0 if snapshot is None else snapshot.id), in_table(store.paths.root):
        some = [
            RunRows(name, run.level, reader.rows(run), snapshot_id)
            for run, (name, snapshot_id) in zip(runs, named, strict=True)
        ]
        place = StepPlace(
            store.partition_text(part),
            number,
            None if snapshot is None else snapshot.id,
            unread=_unread(store, entries),
        )
        whole = len(runs) == tree.run_count
        return merged_steps(
            some,
            schema,
            store.options,
            limit=window.limit,
            drops_deletes=whole,
            output=f"L{tree.oldest_level if whole else max(tree.oldest_nonempty_level, 1)}",
            place=reader.spanned(place, some),
        )


def _require_limits(window: KeyWindow, newest: int | None) -> None:
    for name, value, most in (("limit", window.limit, MAX_KEYS), ("runs", newest, 1 << 30)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise InvalidRequest(f"{name} {value!r} must be a number from 1 to {most:,}")
    between = window.between
    if between is not None and not (_is_span(between) and between[0] <= between[1]):
        raise InvalidRequest(f"between {window.between!r} must be two places of the key axis, 0 to 1, rising")


def _is_span(between: object) -> bool:
    if not isinstance(between, tuple | list) or len(between) != 2:
        return False
    return all(isinstance(end, int | float) for end in between)


def _filters(store: Store, where: Predicate | str | None) -> Filters:
    """The filter's parts; only keys may be named, since a merge needs every row of a key."""
    where = condition(where, store.schema)
    if where is None:
        return Filters.of(None, store.schema)
    bound = predicate.bind(where, store.schema)
    keys = {*store.schema.primary_keys, *store.schema.partition_keys}
    for name in sorted(bound.columns - keys):
        raise InvalidRequest(
            f"where names {name!r}, which is no key column: a merge takes every row of a key; "
            f"keys: {', '.join(store.schema.primary_keys)}"
        )
    return Filters.of(bound, store.schema)


def _bucket(
    store: Store, snapshot: Snapshot | None, filters: Filters, partition: str | None, bucket: int | None
) -> Bucket | None:
    """The bucket that is named, or the one of the most runs."""
    entries = [e for e in store.manifests.live_entries(snapshot) if e.bucket != POSTPONE_BUCKET]
    if not entries:
        return None
    pruner = Pruner(store.schema, store.options, filters, store.partition_values, store.schema_of)
    as_columns = Entries.of(entries)
    keep = pruner.keep(as_columns)
    chosen = {(e.partition, e.bucket) for e, kept in zip(entries, keep, strict=True) if kept}
    buckets = [
        (place, some)
        for place, some in by_bucket(store, entries)
        if (partition is None or store.partition_text(place[0]) == partition)
        and (bucket is None or place[1] == bucket)
    ]
    if not buckets and (partition is not None or bucket is not None):
        named = [text for text in (partition, None if bucket is None else f"bucket {bucket}") if text]
        raise NotFound(f"no files in {' '.join(named)}; `inspect.buckets()` lists what there is")
    wanted = [item for item in buckets if item[0] in chosen] or buckets
    return max(wanted, key=lambda item: _run_count([e.file for e in item[1]]), default=None)


def _unread(store: Store, entries: Sequence[ManifestEntry]) -> str:
    """Why scans do not see some of these files yet, in their own words."""
    pruner = Pruner(
        store.schema, store.options, Filters.of(None, store.schema), store.partition_values, store.schema_of
    )
    verdicts = pruner.prune([e for e in entries if e.file.level == 0])
    return next((v.text for v in verdicts if v.rule == "invisible"), "")


def _run_count(files: Sequence[DataFileMeta]) -> int:
    return sum(f.level == 0 for f in files) + len({f.level for f in files if f.level})


def _axis(store: Store, entries: Sequence[ManifestEntry]) -> Callable[[bytes], float | None]:
    return key_axis([k for e in entries for k in (e.file.min_key, e.file.max_key)], store.key_types)


def _names(runs: Sequence[SortedRun], origins: Mapping[str, int]) -> list[tuple[str, int | None]]:
    """`L0 #412` for a run of level 0 whose snapshot is known, `L3` for a level."""
    named: list[tuple[str, int | None]] = []
    for run in runs:
        if run.level != 0:
            named.append((f"L{run.level}", None))
            continue
        file = run.files[0]
        origin = origins.get(file.file_name)
        name = f"L0 #{origin}" if origin is not None else f"L0 seq {file.min_sequence}"
        same = sum(n == name or n.startswith(f"{name} (") for n, _ in named)
        named.append((f"{name} ({same + 1})" if same else name, origin))
    return named


@dataclass(frozen=True)
class _WindowReader:
    """Reads the first rows of runs in the window."""

    store: Store
    partition: bytes
    bucket: int
    window: KeyWindow
    filters: Filters
    vectors: Mapping[str, DeletionFile]
    position: Callable[[bytes], float | None]

    def rows(self, run: SortedRun) -> pa.RecordBatch:
        """The run's first `limit` rows (and one more, to know of more) in the window."""
        kept: list[pa.RecordBatch] = []
        left = self.window.limit + 1
        for file in run.files:
            if not self._overlaps(file):
                continue
            for batch in self._batches(file):
                kept.append(batch.slice(0, left))
                left -= kept[-1].num_rows
                if left <= 0:
                    return plain(joined([plain(b) for b in kept]))
        if kept:
            return plain(joined([plain(b) for b in kept]))
        empty = kv_schema(self.store.schema)
        return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in empty], schema=empty)

    def spanned(self, place: StepPlace, runs: Sequence[RunRows]) -> StepPlace:
        """`place` with where the window's keys lie, and whether there are more behind it."""
        ends = [p for run in runs for p in self._positions(run.rows)]
        distinct = sorted(set(ends))[: self.window.limit]
        keys = {bytes(k) for run in runs for k in self._keys(run.rows)}
        more = len(keys) > self.window.limit
        if not distinct:
            return replace(place, more=more)
        return replace(place, first=distinct[0], last=distinct[-1], more=more)

    def _keys(self, rows: pa.RecordBatch) -> list[bytes]:
        fields = self.store.schema.key_fields
        return binary_row.encode_many([rows.column(f.name) for f in fields], [f.type for f in fields])

    def _positions(self, rows: pa.RecordBatch) -> list[float]:
        return [p for k in self._keys(rows) if (p := self.position(bytes(k))) is not None]

    def _overlaps(self, file: DataFileMeta) -> bool:
        if self.window.between is None:
            return True
        low, high = self.position(file.min_key), self.position(file.max_key)
        if low is None or high is None:
            return True
        return high >= self.window.between[0] and low <= self.window.between[1]

    def _batches(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """The file's rows in the window; none is empty."""
        where = None if self.filters.key == TRUE else self.filters.key
        vector = self.vectors.get(file.file_name)
        alive = None
        if vector is not None:
            rows = file.row_count
            alive = deletion_vector.read(self.store.io, vector, rows=rows).alive(0, rows)
        names = self.store.schema.names
        request = FileRequest(names, predicate=where, rows=alive, batch_rows=8_192)
        for batch in read_file(self.store, self.partition, self.bucket, file, request):
            if where is not None:
                batch = batch.filter(evaluate.mask(where, batch))
            batch = self._between(batch)
            if batch.num_rows:
                yield batch

    def _between(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows between the places asked for: keys rise, so both ends are searched."""
        if self.window.between is None or not batch.num_rows:
            return batch
        low, high = self.window.between
        first = self._search(batch, lambda p: p >= low - 1e-12)
        last = self._search(batch, lambda p: p > high + 1e-12)
        return batch.slice(first, last - first)

    def _search(self, batch: pa.RecordBatch, beyond: Callable[[float], bool]) -> int:
        """The first row whose place is beyond; the number of rows if none is."""
        low, high = 0, batch.num_rows
        while low < high:
            middle = (low + high) // 2
            at = self._positions(batch.slice(middle, 1))
            if at and beyond(at[0]):
                high = middle
            else:
                low = middle + 1
        return low
