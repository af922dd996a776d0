"""The part of `check` that opens data files: checksums, rows (`file_rows.py`), which row of a key is newer.

Each small file is read once, and those of a kind are looked at together. In memory are 65,536 rows of
small files, or one batch of a large one; for I5 the keys and sequence numbers of one bucket.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, TablestoreError
from tablestore.core.options.values import DATA_FORMATS
from tablestore.format import checksums, datafile
from tablestore.format.data_format import FileRequest, complaints, counted
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.parquet.checked_file import require_pages
from tablestore.format.parquet.schema import SEQUENCE
from tablestore.insight.check.file_rows import FileRows, comparable
from tablestore.insight.check.findings import CHECKSUMS, FILE_INDEXES, CheckFindings
from tablestore.insight.check.live_files import NeededFile, PlacedFiles
from tablestore.io.fileio import FileIO, LocalFileIO
from tablestore.io.paths import POSTPONE_BUCKET, file_format, inside, join
from tablestore.io.routed import read_together
from tablestore.lsm.levels.sorted_run import newest_first
from tablestore.meta.deletion_files import Place
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import BATCH_ROWS, stored

_TOGETHER = 256
_SMALL_BYTES = 256 << 10
_DAMAGE = (TablestoreError, OSError, pa.ArrowException, ValueError, KeyError)


class _Held(LocalFileIO):
    """A file whose bytes are in memory: a reader of Parquet asks for no more than to open it."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._data)


class DataCheck:
    """Checks files one by one, then the newest state bucket by bucket."""

    def __init__(self, store: Store, findings: CheckFindings, at_once: Container[Place] = ()) -> None:
        self._store, self._found, self._at_once = store, findings, at_once
        self._keyed = bool(store.schema.primary_keys)

    def run(self, files: Iterable[NeededFile]) -> None:
        """Every file that some snapshot needs: small ones of a kind together."""
        some: list[NeededFile] = []
        rows, kind = 0, None
        for needed in files:
            e = needed.entry
            form = file_format(e.file.file_name)
            if form not in DATA_FORMATS:
                self._found.note(f"contents of {form} files are not checked")
                continue
            own = (form, e.file.schema_id, e.file.write_cols, e.total_buckets)
            rows += e.file.row_count
            alone = e.file.file_size > _SMALL_BYTES
            if some and (alone or own != kind or rows > BATCH_ROWS or len(some) == _TOGETHER):
                self._files(some)
                some, rows = [], e.file.row_count
            some.append(needed)
            kind = None if alone else own
        if some:
            self._files(some)

    def order(self, newest: Iterable[PlacedFiles]) -> None:
        """I5 over the live files of the newest snapshot, bucket by bucket."""
        if self._keyed and not self._store.options.sequence_field:
            self._sequences(newest)

    def _files(self, some: Sequence[NeededFile]) -> None:
        """Files of one kind, their rows in one batch; alone where it cannot be said which of them cannot be
        looked at."""
        try:
            self._together(some)
        except _DAMAGE as error:
            if len(some) == 1:
                self._violate(some[0], "I2", str(error))
                return
            for needed in some:
                self._files([needed])

    def _violate(self, needed: NeededFile, invariant: str, text: str) -> None:
        with self._found.about(needed):
            if invariant == "deletes":
                self._deletes(needed, text)
            else:
                self._found.violate(invariant, needed.path, text)

    def _together(self, some: Sequence[NeededFile]) -> None:
        first = some[0].entry.file
        schema = self._store.schema_of(first.schema_id)
        written = schema.names if first.write_cols is None else first.write_cols
        columns = [f for f in schema.fields if f.type.is_scalar and f.name in written]
        rows = FileRows(self._store, [needed.entry for needed in some], schema, columns)
        whole = set(range(len(some)))
        for batch, owner in self._batches(some, [f.name for f in columns], whole):
            for i, invariant, text in rows.look(batch, owner):
                self._violate(some[i], invariant, text)
        for place in sorted(whole):
            for i, invariant, text in rows.totals(place):
                self._violate(some[i], invariant, text)
        for note in rows.notes:
            self._found.note(note)

    def _batches(
        self, some: Sequence[NeededFile], names: Sequence[str], whole: set[int]
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """(rows, the place of each row's file): the batches of one file, or all rows of several in one. What
        cannot be read to its end is reported and taken from `whole`."""
        parts: list[pa.RecordBatch] = []
        owners: list[np.ndarray] = []
        for i, (needed, data) in enumerate(zip(some, self._small_files(some), strict=True)):
            try:
                for batch in self._rows_of(needed, data, names):
                    owner = np.full(batch.num_rows, i)
                    if len(some) == 1:
                        yield batch, owner
                    else:
                        parts.append(batch)
                        owners.append(owner)
            except _DAMAGE as error:
                if len(some) == 1:
                    raise
                self._violate(some[i], "I2", str(error))
                whole.discard(i)
        if parts:
            yield pa.concat_batches(parts), np.concatenate(owners)

    def _small_files(self, some: Sequence[NeededFile]) -> Iterable[bytes | Exception | None]:
        """The bytes of small Parquet files, or why they cannot be read; None for other files."""
        paths = [needed.path for needed in some]
        if file_format(paths[0]) != "parquet" or some[0].entry.file.file_size > _SMALL_BYTES:
            return [None] * len(some)
        return read_together(self._bytes, paths)

    def _bytes(self, path: str) -> bytes | Exception:
        try:
            with complaints(path, "Parquet"):
                return self._store.io.read(path)
        except TablestoreError as error:
            return error

    def _rows_of(
        self, needed: NeededFile, data: bytes | Exception | None, names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a file whose bytes, all of them, are those that were written."""
        e, path, store = needed.entry, needed.path, self._store
        if isinstance(data, Exception):
            raise data
        io = store.io if data is None else _Held(data)
        with self._found.about(needed):
            self._checksums(io, path)
            self._indexes(path, e.file)
        request = FileRequest(names, system=self._keyed)
        if data is None:
            yield from stored(store, path, e.file, request)
            return
        schema, size = store.schema_of(e.file.schema_id), e.file.file_size
        batches = datafile.read(io, path, schema, request, file_size=size)
        yield from counted(batches, e.file.row_count, path)

    def _checksums(self, io: FileIO, path: str) -> None:
        """All bytes of the file are those that were written, columns included that nobody reads."""
        if file_format(path) == "parquet":
            with complaints(path, "Parquet"):
                self._found.looked_at(path, checksum=require_pages(io, path))
            return
        written = None
        try:
            written = checksums.written_sum(io, self._store.paths.checksums_dir, path)
        except Corrupt as error:
            with self._found.beside(CHECKSUMS):
                self._found.violate("I2", error.path, str(error))
        if written is not None:
            checksums.require_same_sum(io, path, *written)
        self._found.looked_at(path, checksum=written is not None)

    def _indexes(self, path: str, file: DataFileMeta) -> None:
        """I2: the indexes beside the file are those that were written; missing ones were reported."""
        for name in file.extra_files:
            beside = join(path.rpartition("/")[0], inside(name))
            try:
                checksums.require_named(beside, self._store.io.read(beside))
            except FileNotFoundError:
                continue
            except (TablestoreError, OSError) as error:
                with self._found.beside(FILE_INDEXES):
                    self._found.violate("I2", beside, str(error))

    def _deletes(self, needed: NeededFile, text: str) -> None:
        file = needed.entry.file
        if needed.lenient and file.delete_count == 0:
            self._found.note(f"{needed.path}: {text}: its writer never counts deletes")
        elif not file.file_name.startswith(self._store.options.changelog_file_prefix):
            self._found.violate("I8", needed.path, text)

    # newest state

    def _sequences(self, newest: Iterable[PlacedFiles]) -> None:
        """I5: of one key, the row in the newer run has the higher sequence number.

        Two writers that start from one snapshot number their rows alike: the one that commits last may have
        the lower numbers. Readers go by the number alone; I5 says nothing of such a bucket, nor, where its
        commits have expired, of files whose sequence ranges overlap.
        """
        for (partition, bucket), entries in newest:
            files = [e.file for e in entries if file_format(e.file.file_name) in DATA_FORMATS]
            if bucket == POSTPONE_BUCKET or not files:
                continue
            if (partition, bucket) in self._at_once:
                where = self._store.bucket_dir(partition, bucket)
                self._found.note(f"{where}: which rows are newer is not checked: two writers wrote at once")
                continue
            if len({f.level for f in files}) == 1 and files[0].level > 0:
                continue
            try:
                self._bucket(partition, bucket, files)
            except (TablestoreError, OSError, pa.ArrowException) as e:
                self._found.violate("I2", self._store.bucket_dir(partition, bucket), str(e))

    def _bucket(self, partition: bytes, bucket: int, files: list[DataFileMeta]) -> None:
        order = sorted((f for f in files if f.level == 0), key=newest_first)
        order += sorted((f for f in files if f.level > 0), key=lambda f: f.level)
        parts = []
        names = self._store.schema.trimmed_primary_keys
        for rank, f in enumerate(order):
            place = rank if f.level == 0 else len(order) + f.level
            parts += [_ranked(b, names, place, rank) for b in self._keys_of(partition, bucket, f)]
        if not parts:
            return
        rows = pa.Table.from_batches(parts)
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(n, "ascending") for n in (*names, "rank")]))
        same = np.ones(max(rows.num_rows - 1, 0), dtype=bool)
        for name in names:
            column = rows.column(name).combine_chunks()
            same &= pc.equal(column.slice(1), column.slice(0, max(len(column) - 1, 0))).to_numpy(
                zero_copy_only=False
            )
        numbers = rows.column(SEQUENCE).to_numpy()
        owner = rows.column("file").to_numpy()
        low = np.array([f.min_sequence for f in order])[owner]
        high = np.array([f.max_sequence for f in order])[owner]
        disjoint = (high[:-1] < low[1:]) | (high[1:] < low[:-1])
        older = same & disjoint & (numbers[1:] >= numbers[:-1])
        if older.any():
            where = self._store.bucket_dir(partition, bucket)
            self._found.violate("I5", where, f"{int(older.sum())} keys have an older row in a newer run")

    def _keys_of(self, partition: bytes, bucket: int, f: DataFileMeta) -> Iterable[pa.RecordBatch]:
        own = self._store.schema_of(f.schema_id)
        names = [own.by_id[k.id].name for k in self._store.schema.key_fields]
        path = self._store.file_path(partition, bucket, f)
        return stored(self._store, path, f, FileRequest(names))


def _ranked(batch: pa.RecordBatch, names: Sequence[str], rank: int, file: int) -> pa.RecordBatch:
    """Comparable keys, sequence numbers, the rank of the run (smaller is newer), the number of the file."""
    keys = [comparable(c) for c in batch.columns[2:]]
    ranks, files = (pa.repeat(pa.scalar(n, pa.int32()), batch.num_rows) for n in (rank, file))
    return pa.RecordBatch.from_arrays(
        [*keys, batch.column(SEQUENCE), ranks, files], names=[*names, SEQUENCE, "rank", "file"]
    )
