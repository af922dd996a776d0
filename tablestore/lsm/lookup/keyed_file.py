"""KeyedFile: lookups in one data file, from keys to positions and from positions to rows.

Keys are strictly increasing in a file (I3), so a key is found by binary search in the row group that can hold
it; the keys of a file with few rows are read at once. For few keys only the pages whose bounds admit them are
read; for more keys the key columns of the row group are read as a whole. Rows are read by their pages; where
the greater part of a row group's pages is wanted, it is decoded as a whole. What was read stays in the lookup
cache, also a row that is read alone. Memory beyond that: one row group. Used by lookups through the levels
and by point reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Corrupt
from tablestore.format import binary_row, datafile, evolution
from tablestore.format.data_format import FileRequest
from tablestore.format.evolution import Projection
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.predicates import literal
from tablestore.format.random_access import RandomFile
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField
from tablestore.io.fileio import FileIO
from tablestore.lsm.lookup.cache import LOCAL, CacheBounds, LookupCache
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.groups import joined, plain, take
from tablestore.lsm.merge.keys import Component

T = TypeVar("T")
_FEW_ROWS = 16_384  # of a smaller file all keys are read at once
_FEW = 64  # keys that are searched one by one where not all can be at once
_COLUMN_BYTES = 256  # of a row in memory, beside its value
_SMALL_BYTES = 64 << 10  # of a file with few rows that is read at once, as its layout costs more
_MAX_SINGLE = 8  # keys of a row group that are searched page by page, in all
_NONE = np.zeros(0, dtype=np.int64)
# a footer's bounds omit NaN, and its times may have another unit than the table's
_UNBOUNDED = ("FLOAT", "DOUBLE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


@dataclass(frozen=True)
class SortedKeys:
    """The keys of consecutive rows, prepared for search.

    `packed` has each key as one number, made of its components by `lows` and `widths`; None if they do not
    fit.
    """

    parts: tuple[Component, ...]
    packed: np.ndarray | None
    lows: tuple[int, ...] = ()
    widths: tuple[int, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[Component]) -> SortedKeys:
        """The prepared form of one or more keys in strictly increasing order."""
        if not all(isinstance(p, np.ndarray) for p in parts):
            return cls(tuple(parts), None)
        lows = tuple(int(p.min()) for p in parts)
        widths = tuple((int(p.max()) - low).bit_length() for p, low in zip(parts, lows, strict=True))
        if sum(widths) > 63:
            return cls(tuple(parts), None)
        return cls((), _pack(parts, lows, widths), lows, widths)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        kept = self.parts if self.packed is None else (self.packed,)
        return 512 + sum(p.nbytes for p in kept)

    def find(self, wanted: Sequence[Component]) -> tuple[np.ndarray, np.ndarray]:
        """(positions in `wanted`, positions here) of equal keys; `wanted` is strictly increasing, too."""
        if self.packed is not None:
            return self._find_packed(wanted, self.packed)
        if len(wanted[0]) > _FEW:
            return _matches(wanted, self.parts)
        asked, there, start = [], [], 0
        for i in range(len(wanted[0])):
            key = key_columns.key_at(wanted, i)
            start = key_columns.rows_up_to(self.parts, key, start)
            if start and not key_columns.less(key_columns.key_at(self.parts, start - 1), key):
                asked.append(i)
                there.append(start - 1)
        return np.array(asked, dtype=np.int64), np.array(there, dtype=np.int64)

    def _find_packed(self, wanted: Sequence[Component], packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if len(wanted[0]) == 1:
            return self._find_one(wanted, packed)
        inside = np.ones(len(wanted[0]), dtype=bool)
        for values, low, width in zip(wanted, self.lows, self.widths, strict=True):
            assert isinstance(values, np.ndarray)
            inside &= (values >= low) & (values <= low + (1 << width) - 1)
        asked = np.flatnonzero(inside)
        codes = _pack([p[asked] for p in wanted], self.lows, self.widths)
        at = np.minimum(np.searchsorted(packed, codes), len(packed) - 1)
        hit = packed[at] == codes
        return asked[hit], at[hit]

    def _find_one(self, wanted: Sequence[Component], packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        code = 0
        for values, low, width in zip(wanted, self.lows, self.widths, strict=True):
            above = int(values[0]) - low
            if above < 0 or above >> width:
                return _NONE, _NONE
            code = code << width | above
        at = int(packed.searchsorted(code))
        if at == len(packed) or packed[at] != code:
            return _NONE, _NONE
        return np.zeros(1, dtype=np.int64), np.array([at])


def _pack(parts: Sequence[Component], lows: Sequence[int], widths: Sequence[int]) -> np.ndarray:
    packed = np.zeros(len(parts[0]), dtype=np.int64)
    for values, low, width in zip(parts, lows, widths, strict=True):
        packed <<= width
        packed += values - low
    return packed


def _matches(wanted: Sequence[Component], parts: Sequence[Component]) -> tuple[np.ndarray, np.ndarray]:
    """(positions in `wanted`, positions in `parts`) of equal keys; both are strictly increasing."""
    low = key_columns.rows_up_to(parts, key_columns.key_at(wanted, 0))
    low = max(0, low - 1)
    high = key_columns.rows_up_to(parts, key_columns.key_at(wanted, -1), low)
    if low == high:
        return _NONE, _NONE
    count, some = len(wanted[0]), key_columns.sliced(parts, low, high)
    codes = key_columns.codes(key_columns.concatenated([list(wanted), some]))
    asked, there = codes[:count], codes[count:]
    at = np.minimum(np.searchsorted(there, asked), len(there) - 1)
    hit = there[at] == asked
    return np.flatnonzero(hit), at[hit] + low


@dataclass(frozen=True)
class _PageBounds:
    """The first rows of a row group's pages with the number of rows at the end, and each page's bounds of the
    first key component."""

    firsts: np.ndarray
    lows: list[Component]
    highs: list[Component]

    def of(self, wanted: Sequence[Component]) -> set[int]:
        """The pages that may hold one of these keys."""
        first = wanted[: len(self.lows)]
        pages: set[int] = set()
        for i in range(len(wanted[0])):
            key = key_columns.key_at(first, i)
            pages.update(
                range(key_columns.rows_before(self.highs, key), key_columns.rows_up_to(self.lows, key))
            )
        return pages


@dataclass(frozen=True)
class _OpenedFile:
    """A file's layout, and the bounds of the first key component of its row groups if known. By row group:
    `pages`, read on first use (None: unknown), and `asked`, the keys that were searched in them."""

    file: RandomFile
    lows: list[Component] | None
    highs: list[Component] | None
    pages: dict[int, _PageBounds | None] = field(default_factory=dict, repr=False)
    asked: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def groups(self) -> int:
        return len(self.file.starts) - 1


class KeyedFile:
    """A data file of a bucket, written with schema `own` and read in `schema`; with `checksums_dir` it is
    verified when it is opened, if its format has no checksums."""

    def __init__(
        self,
        io: FileIO,
        path: str,
        file: DataFileMeta,
        own: TableSchema,
        schema: TableSchema,
        *,
        bounds: CacheBounds,
        cache: LookupCache = LOCAL,
        checksums_dir: str | None = None,
    ) -> None:
        self._io, self._own, self._schema, self._checksums_dir = io, own, schema, checksums_dir
        self.path, self.file = path, file
        self._bounds, self._cache = bounds, cache
        self._through: dict[tuple[str, ...], Projection] = {}
        # the path identifies a file; the rest is for files of tests that reuse a path
        self._name = path, file.file_size, file.row_count, file.min_sequence, file.max_sequence, schema.id
        self._small = (*self._name, "keys") if file.row_count < _FEW_ROWS else None

    @property
    def known(self) -> bool:
        """Whether something of the file is in the cache."""
        return self._cache.get(self._small or (*self._name, "layout")) is not None

    def find(self, wanted: Sequence[Component]) -> tuple[np.ndarray, np.ndarray]:
        """(positions in `wanted`, positions in the file) of the keys that the file has; `wanted` is strictly
        increasing."""
        if self._small is not None:
            return self._load(self._small, self._all_keys, lambda keys: keys.nbytes).find(wanted)
        opened = self._opened()
        asked: list[np.ndarray] = []
        positions: list[np.ndarray] = []
        for group in range(opened.groups):
            start, stop = self._within(opened, group, wanted)
            if start >= stop:
                continue
            some = key_columns.sliced(wanted, start, stop)
            for first, keys in self._sought(opened, group, some):
                places, there = keys.find(some)
                asked.append(places + start)
                positions.append(there + first + opened.file.starts[group])
        if not asked:
            return _NONE, _NONE
        return np.concatenate(asked), np.concatenate(positions)

    def rows(self, positions: np.ndarray, columns: Sequence[str]) -> pa.RecordBatch:
        """kv rows at one or more ascending positions; text may be dictionary-encoded."""
        through = self._projection(tuple(columns))
        if self._small is not None and self.file.file_size <= _SMALL_BYTES:
            return evolution.evolve(take(self._all_rows(through.file_columns), positions), through)
        opened = self._opened()
        group_of = np.searchsorted(opened.file.starts, positions, side="right") - 1
        batches: list[pa.RecordBatch] = []
        for group in np.unique(group_of).tolist():
            places = positions[group_of == group] - opened.file.starts[group]
            batches.append(self._rows(opened.file, group, places, through.file_columns))
        return evolution.evolve(joined(batches), through)

    def _projection(self, columns: tuple[str, ...]) -> Projection:
        if columns not in self._through:
            self._through[columns] = evolution.projection(self._own, self._schema, columns)
        return self._through[columns]

    def _rows(
        self, file: RandomFile, group: int, places: np.ndarray, columns: tuple[str, ...]
    ) -> pa.RecordBatch:
        name = (*self._name, group, columns)
        whole = self._cache.get(name)
        if whole is None:
            single = (*name, int(places[0])) if len(places) == 1 else None
            kept = None if single is None else self._cache.get(single)
            if kept is not None:
                return kept
            alone = file.rows(self._io, group, places, columns)
            if alone is not None:
                return alone if single is None else self._keep_row(single, alone)
            if file.group_bytes(group) > self._bounds.max_bytes // 2:
                return joined(file.chosen(self._io, group, places, columns))
            whole = joined(file.group(self._io, group, columns, system=True, dictionary=True))
            self._cache.put(name, whole, nbytes=whole.nbytes, bounds=self._bounds, rows=True)
        return take(whole, places)

    def _keep_row(self, name: Hashable, row: pa.RecordBatch) -> pa.RecordBatch:
        """The row, which is in the cache for whoever asks for its key again."""
        row = plain(row)  # a dictionary would hold the values of other rows
        self._cache.put(
            name, row, nbytes=row.nbytes + _COLUMN_BYTES * row.num_columns, bounds=self._bounds, rows=True
        )
        return row

    def _opened(self) -> _OpenedFile:
        return self._load((*self._name, "layout"), self._open, lambda opened: opened.file.nbytes)

    @property
    def _bounded(self) -> DataField | None:
        """The file's column of the first key column, if the file's bounds hold in the table's type too."""
        first = self._schema.key_fields[0]
        source = self._own.by_id.get(first.id)
        same = source is not None and source.type == first.type and first.type.root not in _UNBOUNDED
        return source if same else None

    def _open(self) -> _OpenedFile:
        rows, size = self.file.row_count, self.file.file_size
        file = RandomFile(
            self._io, self.path, self._own, rows=rows, file_size=size, checksums_dir=self._checksums_dir
        )
        first, source = self._schema.key_fields[0], self._bounded
        if len(file.starts) < 3 or source is None:
            return _OpenedFile(file, None, None)
        bounds = file.bounds(source.name)
        if bounds is None or any(k.min is None or k.max is None for k in bounds):
            return _OpenedFile(file, None, None)
        lows, highs = ([getattr(k, end) for k in bounds] for end in ("min", "max"))
        return _OpenedFile(file, _components(lows, first), _components(highs, first))

    def _within(self, opened: _OpenedFile, group: int, wanted: Sequence[Component]) -> tuple[int, int]:
        """(start, stop) of the keys that a row group may hold, by the bounds of the first key column."""
        if opened.lows is None or opened.highs is None:
            return 0, len(wanted[0])
        first = wanted[: len(opened.lows)]
        low, high = key_columns.key_at(opened.lows, group), key_columns.key_at(opened.highs, group)
        return key_columns.rows_before(first, low), key_columns.rows_up_to(first, high)

    def _sought(
        self, opened: _OpenedFile, group: int, wanted: Sequence[Component]
    ) -> list[tuple[int, SortedKeys]]:
        """The parts of a row group in which these keys may be: (position of the first row, keys from there
        on)."""
        few = opened.asked.get(group, 0) + len(wanted[0])
        if few <= _MAX_SINGLE and self._cache.get((*self._name, group)) is None:
            opened.asked[group] = few
            pages = self._pages(opened, group)
            if pages is not None:
                page_keys = [self._page(opened, group, pages, n) for n in sorted(pages.of(wanted))]
                if None not in page_keys:
                    return [f for f in page_keys if f is not None]
        return [(0, self._keys(opened, group))]

    def _pages(self, opened: _OpenedFile, group: int) -> _PageBounds | None:
        if group not in opened.pages:
            source, first = self._bounded, self._schema.key_fields[0]
            bounds = None if source is None else opened.file.page_bounds(self._io, group, source.name)
            opened.pages[group] = (
                None
                if bounds is None
                else _PageBounds(bounds[0], _components(bounds[1], first), _components(bounds[2], first))
            )
        return opened.pages[group]

    def _page(
        self, opened: _OpenedFile, group: int, pages: _PageBounds, number: int
    ) -> tuple[int, SortedKeys] | None:
        """(first row, keys) of a page of the first key column; None where pages cannot be read alone."""
        begin, end = pages.firsts[number : number + 2].tolist()
        name = (*self._name, group, "page", number)
        keys = self._cache.get(name)
        if keys is None:
            through = self._key_columns
            rows = opened.file.rows(
                self._io, group, np.arange(begin, end), through.file_columns, system=False
            )
            if rows is None:
                return None
            evolved = evolution.evolve(rows, through)
            keys = SortedKeys.of(key_columns.of_batch(evolved, self._schema.key_fields))
            self._cache.put(name, keys, nbytes=keys.nbytes, bounds=self._bounds)
        return begin, keys

    def _keys(self, opened: _OpenedFile, group: int) -> SortedKeys:
        def read() -> SortedKeys:
            through = self._key_columns
            return self._sorted(opened.file.group(self._io, group, through.file_columns), through)

        return self._load((*self._name, group), read, lambda keys: keys.nbytes)

    def _all_keys(self) -> SortedKeys:
        through = self._key_columns
        return self._sorted(self._whole(FileRequest(through.file_columns, system=False)), through)

    def _all_rows(self, columns: tuple[str, ...]) -> pa.RecordBatch:
        def read() -> pa.RecordBatch:
            return joined(self._whole(FileRequest(columns, dictionary=True)))

        return self._load((*self._name, 0, columns), read, lambda rows: rows.nbytes, rows=True)

    def _whole(self, request: FileRequest) -> list[pa.RecordBatch]:
        """All batches of the file, whose rows are counted."""
        size, checksums_dir = self.file.file_size, self._checksums_dir
        read = datafile.read(
            self._io, self.path, self._own, request, file_size=size, checksums_dir=checksums_dir
        )
        batches = list(read)
        count = sum(b.num_rows for b in batches)
        if count != self.file.row_count:
            raise Corrupt(self.path, f"holds {count:,} rows, its manifest says {self.file.row_count:,}")
        return batches

    @property
    def _key_columns(self) -> Projection:
        return self._projection(tuple(f.name for f in self._schema.key_fields))

    def _sorted(self, batches: Sequence[pa.RecordBatch], through: Projection) -> SortedKeys:
        evolved = [evolution.evolve(b, through) for b in batches]
        return SortedKeys.of(key_columns.of_columns(evolved, self._schema.key_fields))

    def _load(
        self, name: Hashable, make: Callable[[], T], weigh: Callable[[T], int], *, rows: bool = False
    ) -> T:
        return self._cache.load(name, make, weigh=weigh, bounds=self._bounds, rows=rows)


def _components(values: list[object], field: DataField) -> list[Component]:
    return key_columns.components([literal.array(values, field.type)], [field.type])


def file_bounds(files: Sequence[DataFileMeta], keys: Sequence[DataField]) -> list[Component]:
    """Components of min and max key of each file, in turn."""
    types = [f.type for f in keys]
    ends = [binary_row.decode_key(end, types) for f in files for end in (f.min_key, f.max_key)]
    arrays = [literal.array(values, t) for values, t in zip(zip(*ends, strict=True), types, strict=True)]
    return key_columns.components(arrays, types)
