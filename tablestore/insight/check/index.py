"""The part of `check` that looks at what lies beside the data files: deletion vectors, hash indexes, row ids.

A deletion vector belongs to one live file of its bucket, its rows are rows of that file, its checksum holds.
The hash indexes of a partition name each hash once, and every key's bucket is the one its hash is in. Row ids
of files do not overlap and lie below the snapshot's next one. Reads each container once; for hash indexes
the key columns of one bucket at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property

import numpy as np

from tablestore.core.errors import Corrupt, TablestoreError
from tablestore.core.options.table_options import TableOptions
from tablestore.format import checksums, deletion_vector, hashing
from tablestore.format.data_format import FileRequest
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.index_manifest import DELETION_VECTORS, HASH, IndexEntry
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.snapshot import Snapshot
from tablestore.insight.check.findings import HASH_INDEXES, CheckFindings
from tablestore.insight.check.live_files import LiveEntries, PlacedFiles
from tablestore.meta.deletion_files import Place
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import stored
from tablestore.write.routing.routing import BucketMode


class IndexCheck:
    """Index files of the snapshots of one table."""

    def __init__(self, store: Store, findings: CheckFindings) -> None:
        self._store, self._found = store, findings
        self._known: set[tuple[str, str, int, int]] = set()  # vectors that were read and are sound

    def snapshot(self, where: str, snapshot: Snapshot, live: LiveEntries) -> None:
        """What a snapshot's index manifest says of its live files, and their row ids."""
        self._row_ids(where, snapshot, live)
        if snapshot.index_manifest is None:
            return
        path = self._store.paths.manifest(snapshot.index_manifest)
        try:
            entries = self._store.manifests.index_entries(snapshot)
        except (TablestoreError, OSError) as error:
            beside = self._found.beside(HASH_INDEXES) if self._only_hashes else nullcontext()
            with beside:
                self._found.violate("I2", path, str(error))
            return
        for e in entries:
            if e.file.index_type == HASH:
                with self._found.beside(HASH_INDEXES):
                    self._file(where, e)
            else:
                self._file(where, e)
        self._vectors(where, entries, live)

    @cached_property
    def _only_hashes(self) -> bool:
        """Whether index manifests name hash indexes alone, in every snapshot: rows do without these."""
        store = self._store
        if BucketMode.of(store.schema, store.options) is not BucketMode.DYNAMIC:
            return False
        try:
            schemas = [store.schema_of(i) for i in store.schemas.ids()]
        except TablestoreError:
            return False
        return not any(TableOptions.parse(s.options).deletion_vectors for s in schemas)

    def _file(self, where: str, e: IndexEntry) -> None:
        """I2: the index file is there, in its size."""
        path = e.file.file_name
        try:
            path = self._store.index_path(e.partition, e.bucket, e.file)
            size = len(checksums.require_named(path, self._store.io.read(path)))
            self._found.looked_at(path, checksum=checksums.is_named(path))
        except FileNotFoundError:
            self._found.violate("I2", path, f"is missing; {where} needs it")
        except (TablestoreError, OSError) as error:
            self._found.violate("I2", path, str(error))
        else:
            if size != e.file.file_size:
                self._found.violate("I2", path, f"has {size} bytes, {where} says {e.file.file_size}")

    def _vectors(self, where: str, entries: Sequence[IndexEntry], live: LiveEntries) -> None:
        rows: dict[Place, dict[str, int]] = {}
        marked = {(e.partition, r.data_file) for e in entries for r in e.file.dv_ranges or ()}
        for data in live.of({partition for partition, _ in marked}):
            if (data.partition, data.file.file_name) in marked:
                there = rows.setdefault((data.partition, data.bucket), {})
                there[data.file.file_name] = data.file.row_count
        named: set[tuple[bytes, int, str]] = set()
        for e in entries:
            if e.file.index_type != DELETION_VECTORS:
                continue
            path = self._store.index_path(e.partition, e.bucket, e.file)
            there = rows.get((e.partition, e.bucket), {})
            if e.file.row_count != len(e.file.dv_ranges or ()):
                ranges = len(e.file.dv_ranges or ())
                self._found.violate("I8", path, f"holds {ranges} vectors, {where} says {e.file.row_count}")
            for r in e.file.dv_ranges or ():
                if (e.partition, e.bucket, r.data_file) in named:
                    self._found.violate("I6", path, f"{r.data_file} has two deletion vectors in {where}")
                named.add((e.partition, e.bucket, r.data_file))
                if r.data_file not in there:
                    text = f"a deletion vector of {r.data_file}, which is not live in its bucket at {where}"
                    self._found.violate("I6", path, text)
                    continue
                self._vector(
                    path,
                    r.data_file,
                    DeletionFile(path, r.offset, r.length, r.cardinality),
                    there[r.data_file],
                )

    def _vector(self, path: str, data_file: str, file: DeletionFile, rows: int) -> None:
        """I8: positions are rows of the file, as many as promised; the checksum holds."""
        identity = (path, data_file, file.offset, file.length)
        if identity in self._known:
            return
        try:
            deletion_vector.read(self._store.io, file, rows=rows)
        except (TablestoreError, OSError) as e:
            self._found.violate("I8", path, f"{data_file}: {e}")
        else:
            self._known.add(identity)

    def _row_ids(self, where: str, snapshot: Snapshot, live: Iterable[ManifestEntry]) -> None:
        """I8: no two files give one row id, none reaches the snapshot's next one."""
        if not self._store.options.row_tracking:
            return
        files = (e.file for e in live)
        ids = [(f.first_row_id, f.row_count, f.file_name) for f in files if f.first_row_id is not None]
        end, last = 0, ""
        for first, count, name in sorted(ids):
            if first < end:
                self._found.violate("I8", where, f"{name} and {last} share row ids from {first} on")
            end, last = first + count, name
        if ids and snapshot.next_row_id is not None and end > snapshot.next_row_id:
            text = f"row ids reach {end}, nextRowId is {snapshot.next_row_id}"
            self._found.violate("I8", where, text)

    def hashes(self, snapshot: Snapshot, live: Iterable[PlacedFiles]) -> None:
        """I10: on tables of dynamic buckets every key is in the bucket that has its hash."""
        hashed: dict[Place, np.ndarray] = {}
        try:
            entries = self._store.manifests.index_entries(snapshot)
        except (TablestoreError, OSError):
            return  # reported when the snapshot was looked at
        for e in entries:
            if e.file.index_type != HASH:
                continue
            path = self._store.index_path(e.partition, e.bucket, e.file)
            try:
                hashes = hashing.decode_index(self._store.io.read(path), path)
            except (TablestoreError, OSError):
                continue  # reported when the file was looked at
            if len(hashes) != e.file.row_count:
                self._found.violate(
                    "I8", path, f"holds {len(hashes)} hashes, {e.file.row_count} are promised"
                )
            hashed[e.partition, e.bucket] = hashes
        self._once(hashed)
        for place, files in live:
            self._keys(place, files, hashed.get(place))

    def _once(self, hashed: dict[Place, np.ndarray]) -> None:
        by_partition: dict[bytes, list[np.ndarray]] = {}
        for (partition, _), hashes in hashed.items():
            by_partition.setdefault(partition, []).append(np.unique(hashes))
        for partition, parts in by_partition.items():
            together = np.concatenate(parts)
            twice = len(together) - len(np.unique(together))
            if twice:
                text = f"{twice} hashes are in the indexes of two buckets"
                self._found.violate("I10", self._store.partition_text(partition) or "table", text)

    def _keys(self, place: Place, files: Sequence[ManifestEntry], hashed: np.ndarray | None) -> None:
        where = self._store.bucket_dir(*place)
        if hashed is None:
            self._found.violate("I10", where, "holds rows, and no index has their hashes")
            return
        types = [f.type for f in self._store.schema.key_fields]
        missing = 0
        for e in files:
            own = self._store.schema_of(e.file.schema_id)
            names = [own.by_id[f.id].name for f in self._store.schema.key_fields]
            path = self._store.file_path(e.partition, e.bucket, e.file)
            try:
                for batch in stored(self._store, path, e.file, FileRequest(names, system=False)):
                    missing += int(
                        np.count_nonzero(~np.isin(hashing.hash_rows(batch.columns, types), hashed))
                    )
            except (Corrupt, OSError):
                return  # reported when the file was looked at
        if missing:
            self._found.violate("I10", where, f"the hashes of {missing} rows are not in its index")
