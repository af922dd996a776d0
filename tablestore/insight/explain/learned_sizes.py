"""What a table tells of the sizes of its next merges: its newest compactions, live files, and sampled keys.

The model is kept until the newest snapshot, the schema or the target size of files changes, so that all views
and dry runs of now estimate alike. Keys are read within a budget of about 20 ms of a local table: a number of
keys and of files, so that every view of one snapshot sees the same sample. Buckets with the most bytes come
first. A bucket with more keys than are left is read up to one key, in every file. Files of remote stores are
not read: one request would cost more than the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow.parquet as pq

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.format import datafile, evolution, rowkind
from tablestore.format.data_format import FileRequest, complaints
from tablestore.format.manifests.manifest import ADD, DataFileMeta, ManifestEntry
from tablestore.format.parquet.checked_file import open_checked, sound_metadata
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.insight.explain.merge_size import UNKNOWN, KeySample, Merge, SizeModel
from tablestore.io.confined import is_local
from tablestore.io.paths import file_format
from tablestore.lsm.levels.sorted_run import newest_first
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.keys import Component
from tablestore.meta.entries import Entries
from tablestore.meta.manifests import ManifestStore
from tablestore.meta.store import Store

_SNAPSHOTS_READ = 64  # in which compactions to learn from are looked for
_MERGES_LEARNED, _FILES_LEARNED = 64, 256
_State = tuple[Snapshot, int, int]  # newest snapshot, schema, target size of files
_KEPT: WeakKeyDictionary[ManifestStore, tuple[_State, SizeModel]] = WeakKeyDictionary()


def learned_sizes(store: Store, at: Snapshot | None = None) -> SizeModel:
    """The model of the table as it is now, or as it was `at` a snapshot. UNKNOWN where it has no snapshot or
    no primary key."""
    if at is not None and store.schema.primary_keys:
        return _learned(store, at)
    latest = store.snapshots.latest()
    if latest is None or not store.schema.primary_keys:
        return UNKNOWN
    state = latest, store.schema.id, store.options.target_bytes(keyed=True)
    kept = _KEPT.get(store.manifests)
    if kept is None or kept[0] != state:
        kept = _KEPT[store.manifests] = state, _learned(store, latest)
    return kept[1]


def _learned(store: Store, latest: Snapshot) -> SizeModel:
    live = store.manifests.live_entries(latest)
    some = live.take(np.arange(len(live))[-_FILES_LEARNED:]).objects
    return SizeModel.learned(
        newest_merges(store, latest),
        store.key_types,
        [e.file for e in some],
        samples=key_samples(store, live),
        target_bytes=store.options.target_bytes(keyed=True),
    )


def newest_merges(store: Store, latest: Snapshot) -> list[Merge]:
    """What the newest compactions up to a snapshot read and wrote, without going through all of them."""
    merges: list[Merge] = []
    for snapshot_id in range(latest.id, max(0, latest.id - _SNAPSHOTS_READ), -1):
        try:
            snapshot = store.snapshots.get(snapshot_id)
            if snapshot.commit_kind == COMPACT:
                merges += _merges(store.manifests.delta_entries(snapshot))
        except NotFound:  # expired, maybe just now
            break
        if len(merges) >= _MERGES_LEARNED:
            break
    return merges


def _merges(entries: Entries) -> list[Merge]:
    """The first merges of a commit: files read and written, by bucket."""
    by_bucket: dict[tuple[bytes, int], tuple[list[DataFileMeta], list[DataFileMeta]]] = {}
    for e in entries:
        read, written = by_bucket.setdefault((e.partition, e.bucket), ([], []))
        (written if e.kind == ADD else read).append(e.file)
    pairs: list[Merge] = []
    for read, written in islice(by_bucket.values(), _MERGES_LEARNED):
        moved = {f.file_name for f in read} & {f.file_name for f in written}
        files = [[f for f in some if f.file_name not in moved] for some in (read, written)]
        if files[0] and files[1]:
            pairs.append((files[0], files[1]))
    return pairs


MOST_KEYS = 60_000  # of all buckets together: about 20 ms
MOST_FILES = 24
_FEWEST_KEYS = 1_000  # of a bucket that is read in part
_FOOTERS = 2  # of a bucket
_BATCH_ROWS = 2_048


def key_samples(
    store: Store, live: Entries, *, most_keys: int | None = None, most_files: int = MOST_FILES
) -> tuple[KeySample, ...]:
    """Samples of the buckets of `live` that hold several files, largest first, as far as the budget goes.

    A bucket whose files cannot be read has none: `check` says what is wrong with it.
    """
    if not is_local(store.io) or not store.schema.primary_keys:
        return ()
    samples: list[KeySample] = []
    most_keys = MOST_KEYS if most_keys is None else most_keys
    for place in _places(live):
        if most_files < 2 or most_keys < _FEWEST_KEYS:
            break
        if len(place) > most_files:
            continue
        entries = live.take(place).objects
        if any(file_format(e.file.file_name) != "parquet" for e in entries):
            continue
        try:
            sample = _sample(store, entries, most_keys)
        except (TablestoreError, OSError):
            continue
        samples.append(sample)
        most_keys, most_files = most_keys - sample.count, most_files - len(place)
    return tuple(samples)


def _places(live: Entries) -> list[np.ndarray]:
    """The positions of each bucket's files, buckets of one file left out, those of most bytes first."""
    if not len(live):
        return []
    _, partitions = live.partitions()
    pairs = partitions.astype(np.int64) << 32 | live.numbers("bucket") & 0xFFFFFFFF
    _, codes, files = np.unique(pairs, return_inverse=True, return_counts=True)
    size = np.bincount(codes, weights=live.numbers("file_size"))
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(files)
    chosen = [b for b in np.argsort(-size, kind="stable").tolist() if files[b] > 1]
    return [order[ends[b] - files[b] : ends[b]] for b in chosen]


def _sample(store: Store, entries: Sequence[ManifestEntry], most_keys: int) -> KeySample:
    """The keys of one bucket's files: all, or those up to the key at which the largest has given its
    share."""
    share = min(1.0, most_keys / max(1, sum(e.file.row_count for e in entries)))
    bound: key_columns.Key | None = None
    read: list[_Read] = []
    for entry in sorted(entries, key=lambda e: -e.file.row_count):
        rows = max(1, round(entry.file.row_count * share))
        sample = _Read(store, entry, bound, None if share == 1 else rows if bound is None else 2 * rows)
        if share < 1 and bound is None:
            bound = sample.last
        read.append(sample)
    codes = key_columns.codes(key_columns.concatenated([part for r in read for part in r.parts]))
    ends = np.cumsum([r.rows for r in read]).tolist()
    pieces = [codes[end - r.rows : end] for r, end in zip(read, ends, strict=True)]
    stops = [p[-1] for p, r in zip(pieces, read, strict=True) if not r.ended]
    lengths = [int(np.searchsorted(p, min(stops), side="right")) if stops else len(p) for p in pieces]
    names = [r.file.file_name for r in read]
    footers = np.array([_footer_bytes(store, r) for r in read[:_FOOTERS]])
    return KeySample(
        tuple(sorted((r.file for r in read), key=lambda f: (f.level, *newest_first(f)))),
        {n: p[:many] for n, p, many in zip(names, pieces, lengths, strict=True)},
        {
            n: r.deletes[:many]
            for n, r, many in zip(names, read, lengths, strict=True)
            if r.deletes is not None
        },
        not stops,
        *footers.mean(axis=0).tolist(),
    )


class _Read:
    """The first keys of a file: up to `bound`, `most` rows at most (None: all). `ended`: no key is left."""

    def __init__(
        self, store: Store, entry: ManifestEntry, bound: key_columns.Key | None, most: int | None
    ) -> None:
        self.file: DataFileMeta = entry.file
        self.path = store.file_path(entry.partition, entry.bucket, entry.file)
        self.parts: list[list[Component]] = []
        self.rows, self.ended = 0, True
        kinds: list[np.ndarray] = []
        for keys, kind in self._batches(store, _BATCH_ROWS if most is None else min(_BATCH_ROWS, most)):
            self.parts.append(keys)
            self.rows += len(keys[0])
            kinds += [] if kind is None else [kind]
            past = bound is not None and key_columns.less(bound, self.last)
            if past or (most is not None and self.rows >= most):
                self.ended = self.rows >= self.file.row_count
                break
        self.deletes = rowkind.retracts(np.concatenate(kinds)) if kinds else None

    @property
    def last(self) -> key_columns.Key:
        """The greatest key that was read."""
        return key_columns.key_at(self.parts[-1], -1)

    def _batches(self, store: Store, rows: int) -> Iterator[tuple[list[Component], np.ndarray | None]]:
        own, fields = store.schema_of(self.file.schema_id), store.schema.key_fields
        through = evolution.projection(own, store.schema, [f.name for f in fields])
        system = self.file.delete_count != 0
        batches = datafile.read(
            store.io,
            self.path,
            own,
            FileRequest(through.file_columns, system=system, batch_rows=rows),
            file_size=self.file.file_size,
        )
        for batch in batches:
            kinds = batch.column(KIND).to_numpy() if system else None
            yield key_columns.of_batch(evolution.evolve(batch, through), fields), kinds


def _footer_bytes(store: Store, read: _Read) -> tuple[float, float]:
    """Bytes of a file that do not grow with its rows: the footer, dictionaries, and of every column chunk as
    much as the smallest one takes. Then the bytes of a row's sequence number."""
    with complaints(read.path, "Parquet"), open_checked(store.io, read.path) as source:
        footer = sound_metadata(source)
        groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
        chunks = [g.column(c) for g in groups for c in range(g.num_columns)]
        least = min((c.total_compressed_size for c in chunks), default=0)
        data = [(c.path_in_schema, max(0, _data_bytes(c) - least)) for c in chunks]
    numbers = sum(size for name, size in data if name == SEQUENCE)
    return float(read.file.file_size - sum(size for _, size in data)), numbers / max(1, read.file.row_count)


def _data_bytes(chunk: pq.ColumnChunkMetaData) -> int:
    """Bytes of a column chunk without its dictionary."""
    pages = chunk.dictionary_page_offset
    return int(chunk.total_compressed_size - (0 if pages is None else chunk.data_page_offset - pages))
