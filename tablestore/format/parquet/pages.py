"""Rows of a Parquet file by their positions: only the pages that contain them are read and decoded.

    column chunk   [dictionary page] data page, data page, …      each a header, then compressed values

A small Parquet file is assembled in memory of those pages and a footer for them, and decoded like any other
file. Pages of the wanted columns begin at the same rows only in places, so what is decoded is a stretch
between two such rows: 8,192 rows in our files, 20,000 in Java's. Pages are found by the list of page headers
that our files have (`checked_file`), by the offset index, or by walking the headers, and cached in the
`PageLayout`; headers may contain minimum and maximum, too. Nested and INT96 columns cannot be read so.
Memory: the pages that are read. Used by `parquet/data.py` for lookups; `PageLayout`s are shared between
threads.

Arrow reads whole column chunks. One row of two columns out of a row group with 1,000,000 takes 0.5 ms of CPU
here, 39 ms there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.format.parquet import thrift_compact as thrift
from tablestore.format.parquet.checked_file import CheckedFile, require_sound
from tablestore.format.parquet.thrift_compact import INT32, LIST, STRUCT, Bounds, Struct

Source: TypeAlias = pa.NativeFile | CheckedFile
_INT96, _REPEATED = 3, 2
# ColumnMetaData: fields that stay the same for a chunk of other pages, and some others
_KEPT, _VALUES, _BYTES, _DATA_OFFSET, _DICTIONARY_OFFSET = (1, 2, 3, 4), 5, 7, 9, 11


@dataclass(frozen=True, slots=True)
class _ChunkPages:
    """The pages of one column chunk. `firsts` and `offsets` have one item more than there are data pages."""

    meta: bytes  # the first fields of the chunk's ColumnMetaData, which others follow
    dictionary: tuple[int, int] | None  # offset and bytes with the header
    firsts: np.ndarray
    offsets: np.ndarray


@dataclass(frozen=True, slots=True)
class _ColumnChunk:
    meta: bytes
    begin: int
    end: int
    rows: int  # values, which are the group's rows in plain columns
    index: tuple[int, int] | None  # offset and bytes of the offset index


@dataclass(frozen=True, slots=True)
class _Footer:
    """What Arrow's footer object lacks: the schema elements of plain columns, their chunks by row group."""

    version: int
    elements: dict[str, bytes]
    groups: tuple[dict[str, _ColumnChunk], ...]

    @classmethod
    def of(cls, tree: Struct) -> _Footer:
        elements, leaves = _plain_columns(thrift.field(tree, 2)[1])
        groups = (thrift.field(group, 1)[1] for group in thrift.field(tree, 4)[1])
        chunks = ({n: _chunk_of(columns[at]) for n, at in leaves.items()} for columns in groups)
        return cls(thrift.value(tree, 1) or 1, elements, tuple(chunks))


class PageLayout:
    """A file's footer, and the positions of the pages of its plain columns, read on first use."""

    def __init__(self, source: Source) -> None:
        tree = thrift.parquet_footer(source)
        self.headers = source.pages if isinstance(source, CheckedFile) else None
        if self.headers is None:  # else the footer's checksum has verified it
            require_sound(tree)
        self.footer = pq.read_metadata(source)
        counts = [self.footer.row_group(g).num_rows for g in range(self.footer.num_row_groups)]
        self.starts = np.cumsum([0, *counts])
        self._known = _Footer.of(tree)
        self._pages: dict[tuple[int, str], _ChunkPages] = {}
        self._cuts: dict[tuple[int, tuple[str, ...]], np.ndarray] = {}
        self._frames: dict[tuple[str, ...], tuple[bytes, bytes]] = {}
        self._pages_lock = threading.Lock()
        self.encoded: dict[tuple[int, tuple[str, ...]], list[str]] = {}  # text that stays so, for readers

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return int(self.starts[-1])

    @property
    def nbytes(self) -> int:
        """Approximate bytes in memory, once all pages are known."""
        chunks = max(1, self.footer.num_row_groups) * self.footer.num_columns
        return 4_096 + 2_048 * chunks + 160 * chunks * (self.rows // 8_192)

    def group_rows(self, group: int) -> int:
        """Rows of a row group."""
        return int(self.starts[group + 1] - self.starts[group])

    def reads(self, names: Sequence[str]) -> bool:
        """Whether `read` can read these columns."""
        return all(name in self._known.elements for name in names)

    def page_bounds(
        self, source: Source, group: int, name: str
    ) -> tuple[np.ndarray, tuple[Bounds, ...]] | None:
        """(first rows of a column's pages with the number of rows at the end; minimum and maximum of each
        page in Parquet's form); None if the headers lack them. Walks the page headers; the bounds are not
        cached."""
        chunk = self._chunk(group, name)
        if chunk.index is not None:
            return None
        bounds: list[Bounds | None] = []
        pages = self._kept(group, name, _walked(source, chunk, bounds))
        page_bounds = tuple(b for b in bounds if b is not None)
        return None if len(page_bounds) < len(bounds) else (pages.firsts, page_bounds)

    def stretches(
        self, source: Source, group: int, places: np.ndarray, names: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(starts, stops) of the stretches of rows of a group that contain the ascending `places`."""
        cuts = self._cuts.get((group, tuple(names)))
        if cuts is None:
            firsts = [self._of(source, group, name).firsts for name in names]
            first, others = firsts[0], [f for f in firsts[1:] if f is not firsts[0]]
            cuts = reduce(partial(np.intersect1d, assume_unique=True), others, first)
            self._cuts[group, tuple(names)] = cuts
        chosen = np.unique(np.searchsorted(cuts, places, side="right") - 1)
        return cuts[chosen], cuts[chosen + 1]

    def read(
        self,
        source: Source,
        group: int,
        stretches: tuple[np.ndarray, np.ndarray],
        names: Sequence[str],
        *,
        dictionary: Sequence[str] = (),
        last: int | None = None,
    ) -> pa.RecordBatch:
        """The rows of these stretches of a group, one after another; text of `dictionary` stays encoded.

        Of the last stretch the first `last` rows only, if given.
        """
        begins, ends = stretches
        rows = int((ends - begins).sum())
        counts = b"\x16" + thrift.long_bytes(rows)
        out = bytearray(thrift.MAGIC)
        chunks, spans = [], dict[int, tuple[np.ndarray, np.ndarray]]()
        for name in names:
            pages = self._of(source, group, name)
            places = spans.get(id(pages.firsts))  # columns often share them
            if places is None:
                places = np.searchsorted(pages.firsts, begins), np.searchsorted(pages.firsts, ends)
                spans[id(pages.firsts)] = places
            first, after = places
            chunks.append(_copied(source, out, pages, first, after, counts))
        head, tail = self._frame(tuple(names))
        size = b"\x16" + thrift.long_bytes(len(out))
        group_bytes = (
            b"\x19" + thrift.list_head(STRUCT, len(chunks)) + b"".join(chunks) + size + counts + b"\0"
        )
        out += thrift.ended(head + counts + b"\x19\x1c" + group_bytes + tail)  # a list of one row group
        file = pa.BufferReader(pa.py_buffer(out))
        parquet = pq.ParquetFile(file, read_dictionary=list(dictionary), page_checksum_verification=True)
        asked = rows if last is None else rows - int(ends[-1] - begins[-1]) + last
        return next(parquet.iter_batches(asked, use_threads=False))

    def _frame(self, names: tuple[str, ...]) -> tuple[bytes, bytes]:
        """(bytes before, bytes after) the row groups of a footer for these columns."""
        frame = self._frames.get(names)
        if frame is None:
            parsed = self._known
            root = [(4, thrift.BINARY, b"schema"), (5, INT32, len(names))]
            elements = [root, *(parsed.elements[name] for name in names)]
            head: Struct = [(1, INT32, parsed.version), (2, LIST, (STRUCT, elements))]
            by = self.footer.created_by.encode()  # decoders work around bugs of some writers
            tail = b"\x28" + thrift.varint_bytes(len(by)) + by + b"\0"
            frame = self._frames[names] = thrift.struct_bytes(head)[:-1], tail
        return frame

    def _chunk(self, group: int, name: str) -> _ColumnChunk:
        chunk, rows = self._known.groups[group][name], self.group_rows(group)
        if chunk.rows != rows:
            raise ValueError(f"column {name!r} has {chunk.rows} values in {rows} rows")
        return chunk

    def _of(self, source: Source, group: int, name: str) -> _ChunkPages:
        with self._pages_lock:
            pages = self._pages.get((group, name))
        if pages is None:
            chunk = self._chunk(group, name)
            pages = self._kept(
                group, name, self._listed(chunk) or _indexed(source, chunk) or _walked(source, chunk)
            )
        return pages

    def _listed(self, chunk: _ColumnChunk) -> _ChunkPages | None:
        """The pages of a chunk by the file's list of page headers; None where it does not say enough."""
        headers = self.headers
        if headers is None or headers.values is None:
            return None
        first, after = np.searchsorted(headers.starts, (chunk.begin, chunk.end)).tolist()
        offsets = np.append(headers.starts, headers.end)[first : after + 1]
        values = headers.values[first:after]
        if first == after or offsets[0] != chunk.begin or offsets[-1] != chunk.end:
            return None
        dictionary = (chunk.begin, int(offsets[1] - offsets[0])) if not values[0] else None
        if dictionary is not None:
            offsets, values = offsets[1:], values[1:]
        if not values.all() or values.sum() != chunk.rows:
            return None
        return _ChunkPages(chunk.meta, dictionary, np.append(0, np.cumsum(values)), offsets)

    def _kept(self, group: int, name: str, pages: _ChunkPages) -> _ChunkPages:
        """Cache and return the pages of a column; equal first rows are shared with other columns."""
        with self._pages_lock:
            same = (p.firsts for (g, _), p in self._pages.items() if g == group)
            shared = next((f for f in same if np.array_equal(f, pages.firsts)), pages.firsts)
            kept = self._pages[group, name] = replace(pages, firsts=shared)
        return kept


def _chunk_of(chunk: Struct) -> _ColumnChunk:
    meta = thrift.field(chunk, 3)
    data, dictionary = thrift.field(meta, _DATA_OFFSET), thrift.value(meta, _DICTIONARY_OFFSET)
    begin = min(data, dictionary) if dictionary else data
    index = thrift.value(chunk, 4), thrift.value(chunk, 5)
    return _ColumnChunk(
        thrift.struct_bytes([f for f in meta if f[0] in _KEPT])[:-1],
        begin,
        begin + thrift.field(meta, _BYTES),
        thrift.field(meta, _VALUES),
        index if None not in index else None,
    )


def _copied(
    source: Source, out: bytearray, pages: _ChunkPages, first: np.ndarray, after: np.ndarray, rows: bytes
) -> bytes:
    """Append stretches of pages (numbers of their first page, and of the one after the last) to `out`;
    returns the bytes of their new column chunk. `rows`: 0x16 and the number of rows.

    0x26 start of the chunk   0x1c its metadata: type, encodings, path, codec as they were
    0x16 values   0x16 decoded bytes (not used)   0x16 bytes   0x26 first data page
    0x26 dictionary page, if there is one   0x00   0x00
    """
    start = len(out)
    if pages.dictionary is not None:
        out += source.read_at(pages.dictionary[1], pages.dictionary[0])
    data = len(out)
    for low, high in zip(pages.offsets[first].tolist(), pages.offsets[after].tolist(), strict=True):
        out += source.read_at(high - low, low)
    size, begin = b"\x16" + thrift.long_bytes(len(out) - start), b"\x26" + thrift.long_bytes(start)
    end = begin if pages.dictionary is not None else b""
    place = b"\x26" + thrift.long_bytes(data)
    return b"".join((begin, b"\x1c", pages.meta, rows, size, size, place, end, b"\0\0"))


def _plain_columns(elements: Sequence[Struct]) -> tuple[dict[str, bytes], dict[str, int]]:
    """(schema elements, chunk numbers) of the columns that are neither nested nor INT96."""
    plain_elements: dict[str, bytes] = {}
    leaves: dict[str, int] = {}
    at = leaf = 0

    def skip() -> None:
        nonlocal at, leaf
        children = thrift.value(elements[at], 5) or 0
        at, leaf = at + 1, leaf + (not children)
        for _ in range(children):
            skip()

    for _ in range(thrift.value(elements[0], 5) or 0):
        at = max(at, 1)
        element = elements[at]
        name = thrift.field(element, 4).decode()
        plain = not thrift.value(element, 5) and thrift.value(element, 3) != _REPEATED
        if plain and thrift.value(element, 1) != _INT96:
            plain_elements[name], leaves[name] = thrift.struct_bytes(element), leaf
        skip()
    return plain_elements, leaves


# An item of an offset index: 0x16 offset, 0x15 bytes with the header, 0x16 first row, 0x00: field headers and
# numbers alike are varints, so that all items are decoded at once.
_ITEM = ((0, 0x16), (2, 0x15), (4, 0x16), (6, 0))


def _indexed(source: Source, chunk: _ColumnChunk) -> _ChunkPages | None:
    """The pages of a chunk by its offset index; None without one, or for an unusual form of it."""
    if chunk.index is None:
        return None
    data = source.read_at(chunk.index[1], chunk.index[0])
    if len(data) < 3 or data[0] != 0x19 or data[1] & 0x0F != STRUCT:
        return None
    count, at = (data[1] >> 4, 2) if data[1] >> 4 < 15 else thrift.read_varint(data, 2)
    numbers = _varints(np.frombuffer(data, dtype=np.uint8, offset=at))
    if not count or len(numbers) < 7 * count:
        return None
    items = numbers[: 7 * count].reshape(count, 7)
    offsets, sizes, firsts = (items[:, i] >> 1 for i in (1, 3, 5))
    ends = offsets + sizes
    sound = all((items[:, i] == byte).all() for i, byte in _ITEM) and (ends[:-1] == offsets[1:]).all()
    if not sound or firsts[0] or (np.diff(firsts) <= 0).any() or firsts[-1] >= chunk.rows:
        return None
    if offsets[0] < chunk.begin or ends[-1] > chunk.end:
        return None
    before = int(offsets[0]) - chunk.begin
    dictionary = (chunk.begin, before) if before else None
    return _ChunkPages(chunk.meta, dictionary, np.append(firsts, chunk.rows), np.append(offsets, ends[-1]))


def _varints(data: np.ndarray) -> np.ndarray:
    """All numbers of a stream of varints; those above 63 bits come out wrong."""
    ends = np.flatnonzero(data < 0x80)
    data = data[: ends[-1] + 1] if len(ends) else data[:0]
    starts = np.append(0, ends[:-1] + 1)[: len(ends)]
    if not len(starts):
        return np.zeros(0, dtype=np.int64)
    place = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    return np.add.reduceat((data & 0x7F).astype(np.int64) << np.minimum(7 * place, 63), starts)


def _walked(source: Source, chunk: _ColumnChunk, bounds: list[Bounds | None] | None = None) -> _ChunkPages:
    """The pages of a chunk by their headers; raises ValueError for damage. The minimum and maximum of each
    page are appended to `bounds`, if given."""
    at, rows = chunk.begin, 0
    dictionary: tuple[int, int] | None = None
    firsts, offsets = [], []
    while rows < chunk.rows:
        header = thrift.header(source, at, chunk.end)
        end = at + header.length + header.size
        if header.kind == thrift.DICTIONARY:
            dictionary = at, end - at
        elif header.kind in (thrift.DATA, thrift.DATA_V2):
            firsts.append(rows)
            offsets.append(at)
            if bounds is not None:
                bounds.append(header.bounds)
            rows += header.values
        elif header.kind != thrift.INDEX:
            raise ValueError(f"a page of type {header.kind} at byte {at}")
        if end <= at or end > chunk.end:
            raise ValueError(
                f"a page of {end - at} bytes at byte {at}, where its column has {chunk.end - at}"
            )
        at = end
    if rows != chunk.rows:
        raise ValueError(f"pages of {rows} values for {chunk.rows} rows")
    return _ChunkPages(chunk.meta, dictionary, np.array([*firsts, rows]), np.array([*offsets, at]))
