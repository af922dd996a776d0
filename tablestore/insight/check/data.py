"""The part of `check` that opens data files: order, counts, statistics, buckets, which row of a key is newer.

Rules are written down a second time here with plain Arrow comparisons; only the bucket hash and the readers
of the file formats are the engine's. One batch of one file is in memory at a time; for I5 the keys and
sequence numbers of one bucket.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, TablestoreError, Unsupported
from tablestore.core.options.values import DATA_FORMATS
from tablestore.format import binary_row, checksums, data_checksum, hashing, rowkind
from tablestore.format.data_format import complaints
from tablestore.format.file_spec import file_format
from tablestore.format.manifests.manifest import DataFileMeta, ManifestEntry
from tablestore.format.parquet.checked_file import require_pages
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.predicates import literal
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import DataField
from tablestore.insight.check.findings import CHECKSUMS, FILE_INDEXES, Findings
from tablestore.io.paths import POSTPONE_BUCKET, inside, join
from tablestore.lsm.levels.sorted_run import newest_first
from tablestore.meta.deletion_files import Place
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import stored
from tablestore.read.scan.file_stats import own_stats

_FLOATS = ("FLOAT", "DOUBLE")


class DataCheck:
    """Checks files one by one, then the newest state bucket by bucket."""

    def __init__(
        self, store: Store, found: Findings, lenient: set[str], at_once: Container[Place] = ()
    ) -> None:
        self._store, self._found, self._lenient, self._at_once = store, found, lenient, at_once
        self._keyed = bool(store.schema.primary_keys)

    def run(self, entries: Iterable[tuple[ManifestEntry, Iterable[str]]]) -> None:
        """Every file that some snapshot needs, with who needs it."""
        for e, holders in entries:
            if file_format(e.file.file_name) not in DATA_FORMATS:
                self._found.note(f"contents of {file_format(e.file.file_name)} files are not checked")
                continue
            with self._found.about(holders):
                try:
                    self._file(e)
                except (TablestoreError, OSError, pa.ArrowException, ValueError, KeyError) as error:
                    self._found.violate("I2", self._path(e), str(error))

    def order(self, newest: Sequence[ManifestEntry]) -> None:
        """I5 over the live files of the newest snapshot, bucket by bucket."""
        if self._keyed and not self._store.options.sequence_field:
            self._sequences(newest)

    def _path(self, e: ManifestEntry) -> str:
        return self._store.file_path(e.partition, e.bucket, e.file)

    def _file(self, e: ManifestEntry) -> None:
        schema = self._store.schema_of(e.file.schema_id)
        columns = [
            f
            for f in schema.fields
            if f.type.is_scalar and (e.file.write_cols is None or f.name in e.file.write_cols)
        ]
        scanned = _ScannedFile(e, schema, columns, self._keyed)
        names = [f.name for f in columns]
        changelog = e.file.file_name.startswith(self._store.options.changelog_file_prefix)
        path = self._path(e)
        self._checksums(path)
        self._indexes(path, e.file)
        strict = not changelog and e.bucket != POSTPONE_BUCKET
        for batch in stored(self._store, path, e.file, names, system=self._keyed):
            for invariant, text in (*scanned.look(batch, strict=strict), *self._places(e, schema, batch)):
                self._found.violate(invariant, path, text)
        for invariant, text in scanned.totals():
            if invariant == "deletes":
                self._deletes(e, path, text, changelog)
            else:
                self._found.violate(invariant, path, text)

    def _checksums(self, path: str) -> None:
        """All bytes of the file are those that were written, columns included that nobody reads."""
        io = self._store.io
        if file_format(path) == "parquet":
            with complaints(path, "Parquet"):
                self._found.looked_at(path, checksum=require_pages(io, path))
            return
        written = None
        try:
            written = data_checksum.as_written(io, self._store.paths.checksums_dir, path)
        except Corrupt as error:
            with self._found.beside(CHECKSUMS):
                self._found.violate("I2", error.path, str(error))
        if written is not None:
            data_checksum.require_same(io, path, *written)
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

    def _deletes(self, e: ManifestEntry, path: str, text: str, changelog: bool) -> None:
        if e.file.file_name in self._lenient and e.file.delete_count == 0:
            self._found.note(f"{path}: {text}: its writer never counts deletes")
        elif not changelog:
            self._found.violate("I8", path, text)

    def _places(
        self, e: ManifestEntry, schema: TableSchema, batch: pa.RecordBatch
    ) -> Iterable[tuple[str, str]]:
        """I10: rows are in the partition and bucket their values say."""
        values = self._store.partition_values(e.partition)
        for f, value in zip(self._store.schema.partition_fields, values, strict=True):
            column = batch.column(schema.by_id[f.id].name)
            same = column.is_null() if value is None else pc.equal(column, literal.scalar(value, f.type))
            if f.type.root in _FLOATS and value != value:
                same = pc.is_nan(column)
            if pc.all(pc.fill_null(same, False)).as_py() is False:  # of no rows it is NULL
                yield "I10", f"holds rows of another partition: {f.name} is not always {value!r}"
        fixed = self._store.options.bucket > 0 and e.total_buckets > 0
        if not fixed or (not self._keyed and "bucket-key" not in self._store.schema.options):
            return
        ids = [f.id for f in self._store.schema.columns(self._store.schema.bucket_keys)]
        if not all(i in schema.by_id for i in ids):
            return
        fields = [schema.by_id[i] for i in ids]
        arrays = [batch.column(f.name) for f in fields]
        function = self._store.options.bucket_function
        try:
            buckets = hashing.bucket_of(arrays, [f.type for f in fields], e.total_buckets, function)
        except Unsupported as unknown:
            self._found.note(f"buckets are not checked: {unknown}")
            return
        wrong = int(np.count_nonzero(buckets != e.bucket))
        if wrong:
            yield "I10", f"{wrong} rows belong to another bucket than {e.bucket} of {e.total_buckets}"

    # newest state

    def _sequences(self, newest: Sequence[ManifestEntry]) -> None:
        """I5: of one key, the row in the newer run has the higher sequence number.

        Two writers that start from one snapshot number their rows alike: the one that commits last may have
        the lower numbers. Readers go by the number alone; I5 says nothing of such a bucket, nor, where its
        commits have expired, of files whose sequence ranges overlap.
        """
        buckets: dict[tuple[bytes, int], list[DataFileMeta]] = {}
        for e in newest:
            if file_format(e.file.file_name) in DATA_FORMATS and e.bucket != POSTPONE_BUCKET:
                buckets.setdefault((e.partition, e.bucket), []).append(e.file)
        for (partition, bucket), files in buckets.items():
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
        return stored(self._store, path, f, names)


def _ranked(batch: pa.RecordBatch, names: Sequence[str], rank: int, file: int) -> pa.RecordBatch:
    """Comparable keys, sequence numbers, the rank of the run (smaller is newer), the number of the file."""
    keys = [_comparable(c) for c in batch.columns[2:]]
    ranks, files = (pa.repeat(pa.scalar(n, pa.int32()), batch.num_rows) for n in (rank, file))
    return pa.RecordBatch.from_arrays(
        [*keys, batch.column(SEQUENCE), ranks, files], names=[*names, SEQUENCE, "rank", "file"]
    )


def _comparable(array: pa.Array) -> pa.Array:
    """The array in a form whose Arrow order is the key order.

    Floats go by their bits: −0.0 is below 0.0, NaN is the greatest.
    """
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int8())
    if not pa.types.is_floating(array.type):
        return array
    values = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(values), np.float64("nan"), values).view(np.int64)
    return pa.array(np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits))


def ascending(columns: Sequence[pa.Array]) -> bool:
    """Whether rows strictly increase, column by column in the key order."""
    if not columns:  # the file's schema has no key, which is reported of the schema
        return True
    rows = len(columns[0])
    less = pa.array(np.zeros(max(rows - 1, 0), dtype=bool))
    for column in reversed([_comparable(c) for c in columns]):
        before, after = column.slice(0, max(rows - 1, 0)), column.slice(1)
        less = pc.or_(pc.less(before, after), pc.and_(pc.equal(before, after), less))
    return bool(pc.all(less).as_py()) if rows > 1 else True


@dataclass
class _ScannedFile:
    """The contents of one data file, added up batch by batch, and what is wrong with them."""

    entry: ManifestEntry
    schema: TableSchema
    columns: Sequence[DataField]
    keyed: bool
    rows: int = 0
    deletes: int = 0
    first: pa.RecordBatch | None = None
    last: pa.RecordBatch | None = None
    nulls: dict[str, int] = field(default_factory=dict)

    @cached_property
    def recorded(self) -> dict[str, ColumnStats]:
        """The file's statistics, by column."""
        return own_stats(self.entry.file, self.schema)

    def look(self, batch: pa.RecordBatch, *, strict: bool) -> list[tuple[str, str]]:
        """What is wrong with a batch by itself and after the one before.

        Keys of changelog files may repeat, those of postponed ones are in no order: not `strict`.
        """
        if not batch.num_rows:
            return []
        wrong = self._system(batch, strict=strict) if self.keyed else []
        for f in self.columns:
            column = batch.column(f.name)
            self.nulls[f.name] = self.nulls.get(f.name, 0) + column.null_count
            if column.null_count and not f.type.nullable:
                wrong.append(("I3", f"column {f.name} is NOT NULL and holds nulls"))
        wrong += self._outside(batch)
        self.rows += batch.num_rows
        self.first = batch.slice(0, 1) if self.first is None else self.first
        self.last = batch.slice(batch.num_rows - 1)
        return wrong

    def _system(self, batch: pa.RecordBatch, *, strict: bool) -> list[tuple[str, str]]:
        wrong, f = [], self.entry.file
        names = self.schema.trimmed_primary_keys
        rows = batch if self.last is None else pa.concat_batches([self.last, batch])
        if strict and not ascending([rows.column(n) for n in names]):
            wrong.append(("I3", "keys do not strictly increase"))
        kinds, numbers = batch.column(KIND).to_numpy(), batch.column(SEQUENCE).to_numpy()
        if kinds.min() < 0 or kinds.max() > 3:
            wrong.append(("I3", f"row kind {int(kinds.max())} is none"))
        self.deletes += int(np.count_nonzero(rowkind.retracts(kinds)))
        if numbers.min() < f.min_sequence or numbers.max() > f.max_sequence:
            text = (
                f"sequence numbers {numbers.min()}..{numbers.max()} leave {f.min_sequence}..{f.max_sequence}"
            )
            wrong.append(("I8", text))
        return wrong

    def _outside(self, batch: pa.RecordBatch) -> list[tuple[str, str]]:
        """Columns with a value outside the file's statistics."""
        known = self.recorded
        orc = file_format(self.entry.file.file_name) == "orc"
        wrong = []
        for f in self.columns:
            if orc and f.type.root == "CHAR":
                continue  # ORC loses trailing blanks that the statistics still have
            if f.name in known and _outside(batch.column(f.name), known[f.name], f):
                wrong.append(("I8", f"values of {f.name} lie outside its statistics"))
        return wrong

    def totals(self) -> list[tuple[str, str]]:
        """What is wrong with the counts, null counts and first and last keys of the whole file."""
        f, wrong = self.entry.file, []
        if self.rows != f.row_count:
            wrong.append(("I8", f"holds {self.rows} rows, its manifest says {f.row_count}"))
        for name, known in self.recorded.items():
            if known.null_count is not None and name in self.nulls and self.nulls[name] != known.null_count:
                wrong.append(
                    ("I8", f"{name} has {self.nulls[name]} nulls, its statistics say {known.null_count}")
                )
        if self.keyed and f.delete_count is not None and self.deletes != f.delete_count:
            wrong.append(
                ("deletes", f"holds {self.deletes} -U and -D rows, its manifest says {f.delete_count}")
            )
        if self.keyed and self.first is not None and self.last is not None:
            for what, row, recorded in (("least", self.first, f.min_key), ("greatest", self.last, f.max_key)):
                if self._key(row) != self._recorded_key(recorded):
                    wrong.append(("I4", f"its {what} key is not the one its manifest says"))
        return wrong

    def _key(self, row: pa.RecordBatch) -> tuple[Any, ...]:
        fields = self.schema.key_fields
        values = [binary_row.raw_values(row.column(f.name), f.type)[0] for f in fields]
        return binary_row.sort_key(values, [f.type for f in fields])

    def _recorded_key(self, key: bytes) -> tuple[Any, ...]:
        types = [f.type for f in self.schema.key_fields]
        return binary_row.key_order(key, types)


def _outside(column: pa.Array, known: ColumnStats, f: DataField) -> bool:
    """Whether a value lies below or above the bounds; NaN, which no bound includes, does not count."""
    if f.type.root in _FLOATS:
        column = column.filter(pc.invert(pc.is_nan(column)))
    if column.null_count == len(column):
        return False
    ends = pc.min_max(column)
    low, high = literal.array([known.min, known.max], f.type)  # NULL and NaN bound nothing
    return bool(pc.less(ends["min"], low).as_py() or pc.greater(ends["max"], high).as_py())
