"""The part of `check` that compares rows of data files with what their manifest entries say.

Rules are written down a second time here with plain Arrow comparisons; only the bucket hash and the readers
of the file formats are the engine's. Files that have one schema are looked at together: a batch holds rows of
several, and its `owner` says for each row which file it is of. So many small files cost what one file of
their rows costs. Pure. Memory: one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Unsupported
from tablestore.format import binary_row, hashing, rowkind
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.predicates import literal
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import DataField
from tablestore.io.paths import POSTPONE_BUCKET, file_format
from tablestore.meta.store import Store
from tablestore.read.scan.file_stats import own_stats

Wrong = tuple[int, str, str]
"""The place of a file among those looked at, the invariant, what is wrong."""
_FLOATS = ("FLOAT", "DOUBLE")


@dataclass
class FileRows:
    """Rows of some files of one schema, added up batch by batch, and what is wrong with them.

    `files` were written with `schema` and for one number of buckets; `columns` are those that are looked at.
    `notes`: what could not be looked at.
    """

    store: Store
    files: Sequence[ManifestEntry]
    schema: TableSchema
    columns: Sequence[DataField]
    notes: list[str] = field(default_factory=list)
    _nulls: dict[str, np.ndarray] = field(default_factory=dict)
    _least: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    _greatest: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    _last: pa.RecordBatch | None = None  # the keys of the last row so far, and whose it is
    _last_owner: int = -1

    def __post_init__(self) -> None:
        self.keyed = bool(self.store.schema.primary_keys)
        self._rows, self._deletes = (np.zeros(len(self.files), np.int64) for _ in range(2))

    def look(self, batch: pa.RecordBatch, owner: np.ndarray) -> Iterator[Wrong]:
        """What is wrong with a batch by itself and after the one before; `owner` ascends."""
        if not batch.num_rows:
            return
        if self.keyed:
            yield from self._system(batch, owner)
        for f in self.columns:
            column = batch.column(f.name)
            if not column.null_count:
                continue
            null = column.is_null().to_numpy(zero_copy_only=False)
            self._nulls[f.name] = self._nulls.get(f.name, 0) + self._sums(owner[null])
            if not f.type.nullable:
                text = f"column {f.name} is NOT NULL and holds nulls"
                yield from ((i, "I3", text) for i in _owners(owner, null))
        yield from self._outside(batch, owner)
        yield from self._partition(batch, owner)
        yield from self._bucket(batch, owner)
        self._rows += self._sums(owner)

    def _sums(self, owner: np.ndarray) -> np.ndarray:
        """How many of these rows each file has."""
        return np.bincount(owner, minlength=len(self.files))

    def _system(self, batch: pa.RecordBatch, owner: np.ndarray) -> Iterator[Wrong]:
        self._ends(batch, owner)
        keys = batch.select(self.schema.trimmed_primary_keys)
        yield from self._order(keys, owner)
        kinds, numbers = batch.column(KIND).to_numpy(), batch.column(SEQUENCE).to_numpy()
        for i in _owners(owner, (kinds < 0) | (kinds > 3)):
            yield i, "I3", f"row kind {int(kinds[owner == i].max())} is none"
        self._deletes += self._sums(owner[rowkind.retracts(kinds)])
        low, high = self._sequences
        for i in _owners(owner, (numbers < low[owner]) | (numbers > high[owner])):
            own = numbers[owner == i]
            yield i, "I8", f"sequence numbers {own.min()}..{own.max()} leave {low[i]}..{high[i]}"

    @cached_property
    def _sequences(self) -> tuple[np.ndarray, np.ndarray]:
        files = [e.file for e in self.files]
        return np.array([f.min_sequence for f in files]), np.array([f.max_sequence for f in files])

    def _ends(self, batch: pa.RecordBatch, owner: np.ndarray) -> None:
        """Note the first and the last key of each file."""
        ends = np.append(np.flatnonzero(np.diff(owner)), len(owner) - 1)
        starts = np.append(0, ends[:-1] + 1)
        fields = self.schema.key_fields
        for at, noted, again in ((starts, self._least, False), (ends, self._greatest, True)):
            cells = [binary_row.raw_values(batch.column(f.name).take(pa.array(at)), f.type) for f in fields]
            keys = zip(*cells, strict=True) if cells else iter([()] * len(at))
            for i, key in zip(owner[at].tolist(), keys, strict=True):
                if again or i not in noted:
                    noted[i] = key

    def _order(self, keys: pa.RecordBatch, owner: np.ndarray) -> Iterator[Wrong]:
        """I3 where it holds: keys of changelog files may repeat, those of postponed ones are in no order."""
        whose = owner
        if self._last is not None:
            keys, whose = pa.concat_batches([self._last, keys]), np.append(self._last_owner, owner)
        self._last, self._last_owner = keys.slice(keys.num_rows - 1), int(owner[-1])
        wrong = ~rising(keys.columns) & (whose[1:] == whose[:-1]) if keys.num_columns else np.zeros(0, bool)
        changelog = self.store.options.changelog_file_prefix
        for i in _owners(whose[1:], wrong) if wrong.any() else ():
            e = self.files[i]
            if not e.file.file_name.startswith(changelog) and e.bucket != POSTPONE_BUCKET:
                yield i, "I3", "keys do not strictly increase"

    def _outside(self, batch: pa.RecordBatch, owner: np.ndarray) -> Iterator[Wrong]:
        """Columns with a value below or above the bounds of the file's statistics; NaN, which no bound
        includes, does not count, and neither NULL nor NaN is a bound."""
        for f in self.columns:
            bounds = self._bounds.get(f.name)
            if bounds is None:
                continue
            column = batch.column(f.name)
            low, high = (self._each_row(ends, owner) for ends in bounds)
            wrong = pc.or_kleene(pc.less(column, low), pc.greater(column, high))
            if pc.any(wrong).as_py():
                text = f"values of {f.name} lie outside its statistics"
                yield from ((i, "I8", text) for i in _owners(owner, _true(wrong)))

    def _each_row(self, values: pa.Array, owner: np.ndarray) -> pa.Array | pa.Scalar:
        """The values, one a file, for each row."""
        return values[0] if len(self.files) == 1 else values.take(pa.array(owner))

    @cached_property
    def _recorded(self) -> list[dict[str, ColumnStats]]:
        """Each file's statistics, by column."""
        return [own_stats(e.file, self.schema) for e in self.files]

    @cached_property
    def _bounds(self) -> dict[str, tuple[pa.Array, pa.Array]]:
        """(least, greatest) values by statistics, one a file, of the columns that have some."""
        orc = [file_format(e.file.file_name) == "orc" for e in self.files]
        unknown, bounds = ColumnStats(None, None, None, 0), {}
        for f in self.columns:
            # ORC loses trailing blanks that the statistics still have
            bounds_written = [
                unknown if is_orc and f.type.root == "CHAR" else recorded.get(f.name, unknown)
                for recorded, is_orc in zip(self._recorded, orc, strict=True)
            ]
            if any(k.min is not None or k.max is not None for k in bounds_written):
                ends = [k.min for k in bounds_written], [k.max for k in bounds_written]
                bounds[f.name] = literal.array(ends[0], f.type), literal.array(ends[1], f.type)
        return bounds

    def _partition(self, batch: pa.RecordBatch, owner: np.ndarray) -> Iterator[Wrong]:
        """I10: rows are in the partition their values say."""
        for n, f in enumerate(self.store.schema.partition_fields):
            column = batch.column(self.schema.by_id[f.id].name)
            values = self._each_row(literal.array([p[n] for p in self._partitions], f.type), owner)
            same = pc.or_(
                pc.fill_null(pc.equal(column, values), False), pc.and_(pc.is_null(column), pc.is_null(values))
            )
            if f.type.root in _FLOATS:
                both = pc.and_(pc.is_nan(column), pc.is_nan(values))
                same = pc.or_(same, pc.fill_null(both, False))
            if not pc.all(same).as_py():
                for i in _owners(owner, ~_true(same)):
                    value = self._partitions[i][n]
                    yield i, "I10", f"holds rows of another partition: {f.name} is not always {value!r}"

    @cached_property
    def _partitions(self) -> list[tuple[Any, ...]]:
        return [self.store.partition_values(e.partition) for e in self.files]

    def _bucket(self, batch: pa.RecordBatch, owner: np.ndarray) -> Iterator[Wrong]:
        """I10: rows are in the bucket their values say."""
        total = self.files[0].total_buckets
        fixed = self.store.options.bucket > 0 and total > 0
        if not fixed or (not self.keyed and "bucket-key" not in self.store.schema.options):
            return
        ids = [f.id for f in self.store.schema.columns(self.store.schema.bucket_keys)]
        if not all(i in self.schema.by_id for i in ids):
            return
        fields = [self.schema.by_id[i] for i in ids]
        arrays = [batch.column(f.name) for f in fields]
        function = self.store.options.bucket_function
        try:
            buckets = hashing.bucket_of(arrays, [f.type for f in fields], total, function)
        except Unsupported as unknown:
            self.notes.append(f"buckets are not checked: {unknown}")
            return
        elsewhere = buckets != np.array([e.bucket for e in self.files])[owner]
        counts = self._sums(owner[elsewhere])
        for i in np.flatnonzero(counts).tolist():
            text = f"{counts[i]} rows belong to another bucket than {self.files[i].bucket} of {total}"
            yield i, "I10", text

    def totals(self, i: int) -> Iterator[Wrong]:
        """What is wrong with the counts, null counts, first and last keys of a file that was read whole;
        "deletes" stands for I8 where it is the count of deletes."""
        f = self.files[i].file
        if self._rows[i] != f.row_count:
            yield i, "I8", f"holds {self._rows[i]} rows, its manifest says {f.row_count}"
        looked_at = {c.name for c in self.columns} if self._rows[i] else ()
        for name, written in self._recorded[i].items():
            nulls = int(self._nulls[name][i]) if name in self._nulls else 0
            if written.null_count is not None and name in looked_at and nulls != written.null_count:
                yield i, "I8", f"{name} has {nulls} nulls, its statistics say {written.null_count}"
        if self.keyed and f.delete_count is not None and self._deletes[i] != f.delete_count:
            text = f"holds {self._deletes[i]} -U and -D rows, its manifest says {f.delete_count}"
            yield i, "deletes", text
        if self.keyed and i in self._least:
            types = [k.type for k in self.schema.key_fields]
            ends = ("least", self._least[i], f.min_key), ("greatest", self._greatest[i], f.max_key)
            for what, key, recorded in ends:
                if binary_row.sort_key(key, types) != binary_row.key_order(recorded, types):
                    yield i, "I4", f"its {what} key is not the one its manifest says"


def _owners(owner: np.ndarray, wrong: np.ndarray) -> list[int]:
    """The files that have one of the rows that are `wrong`."""
    owners: list[int] = np.unique(owner[wrong]).tolist() if wrong.any() else []
    return owners


def _true(mask: pa.Array) -> np.ndarray:
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


def comparable(array: pa.Array) -> pa.Array:
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


def rising(columns: Sequence[pa.Array]) -> np.ndarray:
    """Whether each row but the first is above the one before, column by column in the key order."""
    rows = len(columns[0])
    less = pa.array(np.zeros(max(rows - 1, 0), dtype=bool))
    for column in reversed([comparable(c) for c in columns]):
        before, after = column.slice(0, max(rows - 1, 0)), column.slice(1)
        less = pc.or_(pc.less(before, after), pc.and_(pc.equal(before, after), less))
    return less.fill_null(True).to_numpy(zero_copy_only=False)
