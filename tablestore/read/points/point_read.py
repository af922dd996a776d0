"""The rows of given primary keys: found in each file of their bucket, then merged as a scan would.

The keys are looked up in each file (`lsm/lookup/keyed_file.py`), one key in the newest first; only their
rows are read and given to the table's merge function, so that engines, sequence fields, deletes, deletion
vectors and ties between runs mean the same as in `data_split`. The reader keeps which files a bucket has; the
lookup cache their keys, and rows that were asked for alone. Memory: the rows of 65,536 keys and what
`KeyedFile` needs. Used by `Table.get`, deletes by key and lookup joins. Safe to share
between threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.format import deletion_vector, evolution
from tablestore.format.binary_row import DamagedRow
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.parquet.schema import SEQUENCE
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate, all_of, col
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.levels.sorted_run import key_sections, old_to_new
from tablestore.lsm.lookup.cache import CacheBounds
from tablestore.lsm.lookup.keyed_file import KeyedFile, file_bounds
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.changelog import NewestLevels, with_level
from tablestore.lsm.merge.groups import MergeFunction, grouped, joined, plain, without_retracts
from tablestore.lsm.merge.keys import Component, Key
from tablestore.lsm.merge.merge_function import Deduplicate, in_table, merge_function
from tablestore.meta.deletion_files import deletion_files
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.file_read import select_rows
from tablestore.read.scan.pruning import TRUE, Filters, Pruner
from tablestore.read.scan.split_generator import splits
from tablestore.read.scan.time_travel import expiring
from tablestore.read.supported import require_readable, require_readable_file

_MAX_KEYS = 65_536  # keys that are looked up at once
_FEW = 16  # keys up to which file indexes are asked before a file is read
Found = tuple[np.ndarray, pa.RecordBatch]  # places among the keys, their rows in one file


@dataclass
class _SplitFile:
    """A file of a split. `vector`, the place of its deletion vector, is read when first needed."""

    keyed: KeyedFile
    level: int
    vector: DeletionFile | None
    _positions: np.ndarray | None = field(default=None, repr=False)

    def find(self, store: Store, wanted: Sequence[Component]) -> tuple[np.ndarray, np.ndarray]:
        """(places among the keys, positions in the file) of rows that are not deleted."""
        places, positions = self.keyed.find(wanted)
        if self.vector is None or not len(places):
            return places, positions
        if self._positions is None:
            rows = self.keyed.file.row_count
            self._positions = deletion_vector.read(store.io, self.vector, rows=rows).positions
        alive = ~np.isin(positions, self._positions, assume_unique=True)
        return places[alive], positions[alive]


@dataclass(frozen=True)
class _Split:
    """Files that a scan merges with each other (`raw`: reads without a merge), older runs first, with the
    first and the last key of each."""

    raw: bool
    files: tuple[tuple[Key, Key, _SplitFile], ...]


class PointReader:
    """Rows by key of one snapshot, under the schema of `store`."""

    def __init__(self, store: Store, snapshot: Snapshot) -> None:
        self._store, self._snapshot = store, snapshot
        self._function: MergeFunction = merge_function(store.schema, store.options, reading=True)
        last = isinstance(self._function, Deduplicate) and not self._function.ignore_delete
        self._last_wins = last and not self._function.sequence.names
        self._schemas: dict[tuple[str, ...], pa.Schema] = {}
        self._splits: dict[tuple[bytes | None, int | None], tuple[_Split, ...]] = {}
        self._splits_lock = threading.Lock()
        self._last: tuple[bytes | None, Entries] | None = None

    def read(
        self, partition: bytes | None, bucket: int | None, keys: pa.RecordBatch, names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Rows with one of `keys` (key columns, strictly increasing) as columns `names`, in key order within
        a bucket. All keys must be of this partition and bucket; None: they may be in any."""
        store, wanted_schema = self._store, self._readable(tuple(names))
        with expiring(store, self._snapshot.id), in_table(store.paths.root):
            for split in self._of(partition, bucket):
                for start in range(0, keys.num_rows, _MAX_KEYS):
                    some = keys.slice(start, _MAX_KEYS)
                    rows = self._read(split, some, names)
                    if rows is not None and rows.num_rows:
                        arrays = [rows.column(n) for n in names]
                        yield pa.RecordBatch.from_arrays(arrays, schema=wanted_schema)

    def _readable(self, names: tuple[str, ...]) -> pa.Schema:
        """The schema of rows with these columns; raises Unsupported for those that cannot be read."""
        if names not in self._schemas:
            schema = self._store.schema
            require_readable(schema, self._store.options, names)
            self._schemas[names] = pa.schema([f.arrow for f in schema.columns(names)])
        return self._schemas[names]

    def _read(self, split: _Split, keys: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch | None:
        function = self._function
        levels = self._store.options.merges_by_level and not split.raw
        matches = self._found(split, keys, function.columns(names), levels)
        if not matches:
            return None
        rows = plain(joined([batch for _, batch in matches]))
        if len(matches) == 1 and not levels:  # a key with a single row passes unchanged
            return without_retracts(rows)
        places = np.concatenate([p for p, _ in matches])
        if split.raw:
            return without_retracts(rows.take(pa.array(np.argsort(places, kind="stable"))))
        if levels:
            function = NewestLevels(function)
        merged = function.merge(rows, grouped(places, function.sequence.numbers(rows)))
        return without_retracts(merged)

    def _found(
        self, split: _Split, keys: pa.RecordBatch, columns: Sequence[str], levels: bool
    ) -> list[Found]:
        """The rows of the keys in each file, older runs first. Where the last row of a key wins and there is
        one key, newer runs are searched first, and no file whose sequence numbers all are lower than one that
        came."""
        wanted = key_columns.of_batch(keys, self._store.schema.key_fields)
        first, last = key_columns.key_at(wanted, 0), key_columns.key_at(wanted, -1)
        few = keys.num_rows <= _FEW
        newest_first = keys.num_rows == 1 and self._last_wins and not (levels or split.raw)
        matches, reached = list[Found](), -1
        for low, high, file in reversed(split.files) if newest_first else split.files:
            if file.keyed.file.max_sequence < reached:
                continue
            if key_columns.less(last, low) or key_columns.less(high, first):
                continue
            if few and self._excluded(file.keyed, keys):
                continue
            places, positions = file.find(self._store, wanted)
            if len(places):
                rows = file.keyed.rows(positions, columns)
                matches.append((places, with_level(rows, file.level) if levels else rows))
                if newest_first:
                    reached = max(reached, rows.column(SEQUENCE)[0].as_py())
        return matches[::-1] if newest_first else matches

    def _excluded(self, keyed: KeyedFile, keys: pa.RecordBatch) -> bool:
        """Whether the indexes of a file that was not read before say that it has none of the keys."""
        file, store = keyed.file, self._store
        if (file.embedded_index is None and not file.extra_files) or keyed.known:
            return False
        where = _one_of(keys, store.schema)
        asked = evolution.evolve_predicate(where, store.schema_of(file.schema_id), store.schema)
        return select_rows(store, keyed.path, file, asked) is False

    def _of(self, partition: bytes | None, bucket: int | None) -> tuple[_Split, ...]:
        with self._splits_lock:
            splits = self._splits.get((partition, bucket))
        if splits is None:
            try:
                splits = tuple(self._made(s) for s in self._planned(partition, bucket))
            except DamagedRow:  # the error names the manifest, one of those that are cached
                self._store.manifests.stored_entries(self._snapshot)
                raise
            with self._splits_lock:
                self._splits[partition, bucket] = splits
        return splits

    def _planned(self, partition: bytes | None, bucket: int | None) -> tuple[DataSplit, ...]:
        """The splits of a scan of a bucket; of all buckets that the keys may be in, if it is not known."""
        store, entries = self._store, self._live(partition, bucket)
        if bucket is not None:
            entries = entries.filter(entries.numbers("bucket") == bucket)
        nothing = Filters(TRUE, TRUE, TRUE, TRUE)
        pruner = Pruner(store.schema, store.options, nothing, store.partition_values, store.schema_of)
        entries = entries.filter(entries.numbers("bucket") != POSTPONE_BUCKET)
        vectors = deletion_files(store, self._snapshot) if store.options.deletion_vectors else {}
        return splits(
            entries.filter(pruner.keep(entries)) if len(entries) else entries,
            snapshot_id=self._snapshot.id,
            schema=store.schema,
            options=store.options,
            deletions=vectors,
        )

    def _live(self, partition: bytes | None, bucket: int | None) -> Entries:
        """The live files of a partition, kept for its other buckets; of the bucket that is asked for first
        only what may be in it, so that one lookup opens no manifest of others."""
        last = self._last
        if last is None or last[0] != partition:
            manifests = self._store.manifests
            if partition is not None and bucket is not None and not self._splits:
                return manifests.live_in_bucket(self._snapshot, partition, bucket)
            chosen = None if partition is None else (partition,)
            last = self._last = partition, manifests.live_entries(self._snapshot, partitions=chosen)
        return last[1]

    def _made(self, split: DataSplit) -> _Split:
        store, order = self._store, _old_to_new(split, self._store)
        bounds = CacheBounds.of(store.options)
        files = []
        for number in order:
            meta = split.files[number]
            own = store.schema_of(meta.schema_id)
            require_readable_file(meta, own)
            path = store.file_path(split.partition, split.bucket, meta)
            keyed = KeyedFile(
                store.io, path, meta, own, store.schema, bounds=bounds, checksums_dir=store.checksums_dir
            )
            files.append(_SplitFile(keyed, meta.level, split.deletion_file(number)))
        ends = file_bounds([f.keyed.file for f in files], store.schema.key_fields)
        keys = [key_columns.key_at(ends, i) for i in range(2 * len(files))]
        return _Split(split.raw, tuple(zip(keys[::2], keys[1::2], files, strict=True)))


def _one_of(keys: pa.RecordBatch, schema: TableSchema) -> Predicate:
    """The condition that each key column has one of these values."""
    conditions = [col(f.name).is_in(keys.column(f.name).to_pylist()) for f in schema.key_fields]
    return predicate.bind(all_of(*conditions), schema)


def _old_to_new(split: DataSplit, store: Store) -> list[int]:
    """The numbers of a split's files, those of older runs first: a merge decides ties by it."""
    if split.raw:
        return list(range(len(split.files)))
    number = {(f.level, f.file_name): i for i, f in enumerate(split.files)}
    return [
        number[f.level, f.file_name]
        for section in key_sections(split.files, store.key_order)
        for run in old_to_new(section)
        for f in run.files
    ]
