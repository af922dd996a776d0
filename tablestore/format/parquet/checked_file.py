"""Checksums of page headers and the footer of Parquet files (FORMAT.md 25.3); pages have Parquet's own.

Between the last page and the footer, where no offset points to, our files have

    content    w, CRC-32 of all bytes before            of a small file
               r, and for each page in the order of the file: bytes of its header, bytes of the page,
               CRC-32 of the header, values of a data page or 0  of others
               p, the same without the values           of others of earlier versions
    tail       bytes of the content, CRC-32 of it, CRC-32 of the footer and its length, `TSCRC32` and 1

with numbers of 32 bits, little-endian. (Not in the key-value metadata, which programs copy into other files.)
`CheckedSink` computes the checksums while Arrow writes. `open_checked` verifies the footer first, then each
header in the bytes that are read anyway. Files without a tail are read unverified. Memory: 32 bytes a page. A
file serves one thread at a time (Arrow has a lock). Used wherever Parquet files are opened. Without these
checksums, which no library has, a flipped bit in a header or the footer may give other rows.

For a damaged chunk Arrow throws where its Python side does not catch, which ends the process. So footers of
files without our checksums are checked before anything reads their chunks or statistics (`sound_metadata`),
by the rules that Arrow checks against the schema: lengths of statistics and of level histograms. It takes
half a millisecond for 20 columns; files that are only decoded do not need it.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.format.parquet import thrift_compact as thrift
from tablestore.format.parquet.thrift_compact import BINARY, INT32, INT64, LIST, STRUCT, Struct
from tablestore.io.fileio import FileIO

_OPTIONAL, _REPEATED = 1, 2
_BYTE_ARRAY, _FIXED = 6, 7
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE
_TYPE, _STATISTICS, _SIZE_STATISTICS = 1, 12, 16  # of ColumnMetaData
_BOUNDS = (1, 2, 5, 6)  # of Statistics: max, min, max_value, min_value
_TEXT_BYTES, _HISTOGRAMS = 1, {2: 0, 3: 1}  # of SizeStatistics: of repetition and of definition levels
# the required kinds of fields: Arrow ignores those of another kind
_ELEMENT = {1: INT32, 2: INT32, 3: INT32, 4: BINARY, 5: INT32}
_CHUNK = {3: STRUCT}
_META = {1: INT32, 2: LIST, 3: LIST, 4: INT32, 5: INT64, 6: INT64, 7: INT64, 9: INT64, 10: INT64, 11: INT64}
_WHOLE, _PAGES, _COUNTED = b"w", b"p", b"r"
_NUMBERS = {_PAGES: 3, _COUNTED: 4}  # of a page
_TAIL, _MARK = struct.Struct("<III8s"), b"TSCRC32\x01"
_PAGE, _CRC = struct.Struct("<IIII"), struct.Struct("<I")
_SMALL = 48 << 10  # bytes before the footer
_AT_ONCE = 64 << 10  # bytes that are read from the end at once, as Arrow does
_MAGIC = thrift.MAGIC


class CheckedSink(io.RawIOBase):
    """The output file of Arrow's Parquet writer: passes bytes on, those of a small file at the end, and
    computes checksums.

    Call `ends` before the writer is closed and `finish` after.
    """

    def __init__(self, sink: Any) -> None:
        self._sink, self._position = sink, 0
        self._few: list[bytes] | None = []  # the bytes so far, while the file is small
        self._pages = bytearray()
        self._header = b""
        self._footer: bytearray | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        self._position += len(data)
        if self._footer is not None:
            self._footer += data
        elif self._few is None:
            self._pass(data)
        else:
            self._few.append(bytes(data))
            if self._position > _SMALL:
                (magic, *pieces), self._few = self._few, None
                self._sink.write(magic)
                for piece in pieces:
                    self._pass(piece)
        return len(data)

    def _pass(self, data: bytes) -> None:
        """Write a page header or a page: Arrow writes each with one call."""
        if not self._header:
            self._header = data
        else:
            size, values = thrift.page_sizes(self._header)
            assert size == len(data), f"a page of {len(data)} bytes, its header says {size}"
            self._pages += _PAGE.pack(len(self._header), size, zlib.crc32(self._header), values)
            self._header = b""
        self._sink.write(data)

    def ends(self) -> None:
        """Treat the bytes from now on as the footer."""
        assert not self._header, "a page header without a page"
        self._footer = bytearray()

    def finish(self) -> int:
        """Write the checksums and the footer; returns the size of the file."""
        assert self._footer is not None, "a file is finished after it ended"
        before = b"".join(self._few or ())
        content = _COUNTED + self._pages if self._few is None else _WHOLE + _CRC.pack(zlib.crc32(before))
        self._sink.write(before + ending(content, self._footer))
        self._position += len(content) + _TAIL.size
        return self._position

    def close(self) -> None:
        self._sink.close()  # may fail; then `close` can be called again
        super().close()


def joined_content(parts: Sequence[PageHeaders]) -> bytes:
    """The content of the checksums of a file with the pages of these files, in order."""
    counted = all(part.values is not None for part in parts)
    kind = _COUNTED if counted else _PAGES
    return kind + b"".join(part.numbers(counted=counted) for part in parts)


def ending(content: bytes, footer: bytes | bytearray) -> bytes:
    """The end of a file behind its last page: checksums of this content, and the footer with its length."""
    checksum = zlib.crc32(memoryview(footer)[: -len(_MAGIC)])
    return b"".join((content, _TAIL.pack(len(content), zlib.crc32(content), checksum, _MARK), footer))


@dataclass(frozen=True, slots=True)
class PageHeaders:
    """The positions, lengths and checksums of all page headers of a file; `values` of data pages, 0 of other
    pages (None: a file of an earlier version)."""

    starts: np.ndarray
    lengths: np.ndarray
    checksums: np.ndarray
    end: int  # of the last page
    values: np.ndarray | None

    @classmethod
    def of(cls, kind: bytes, content: bytes) -> PageHeaders:
        """The headers in the content of a file's checksums."""
        numbers = np.frombuffer(content, dtype="<u4").reshape(-1, _NUMBERS[kind]).astype(np.int64).T
        lengths, sizes, checksums = numbers[:3]
        ends = len(_MAGIC) + np.cumsum(lengths + sizes)
        values = numbers[3] if kind == _COUNTED else None
        return cls(ends - lengths - sizes, lengths, checksums, int(ends[-1]), values)

    @property
    def total_bytes(self) -> int:
        """Bytes of all pages with their headers."""
        return self.end - len(_MAGIC)

    def numbers(self, *, counted: bool) -> bytes:
        """What a file's checksums say of its pages; `counted`: with the values of each."""
        sizes = np.diff(self.starts, append=self.end) - self.lengths
        columns = [self.lengths, sizes, self.checksums, *([self.values] if counted else [])]
        return np.stack(columns, axis=1).astype("<u4").tobytes()

    def require(self, data: bytes, at: int) -> None:
        """Raise ValueError if `data`, the bytes of the file from `at` on, has a changed header."""
        first, after = np.searchsorted(self.starts, (at, at + len(data)))
        view = memoryview(data)
        for i in range(first, after):
            begin, length = int(self.starts[i]) - at, int(self.lengths[i])
            header = view[begin : begin + length]
            if len(header) == length and zlib.crc32(header) != self.checksums[i]:
                raise ValueError(f"the page header at byte {at + begin:,} does not match its checksum")


class CheckedFile(io.RawIOBase):
    """A Parquet file for reading; raises ValueError where a page header is damaged."""

    def __init__(self, source: pa.NativeFile, pages: PageHeaders, tail: bytes = b"") -> None:
        self._source, self.pages, self._tail = source, pages, tail
        self._size, self._position = source.size(), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        left = self._size - self._position
        data = self.read_at(left if size is None or size < 0 else min(size, left), self._position)
        self._position += len(data)
        return data

    def read_at(self, size: int, at: int) -> bytes:
        """`size` bytes from position `at`; the position of `read` does not change."""
        in_tail = at - (self._size - len(self._tail))
        if in_tail >= 0:
            data = self._tail[in_tail : in_tail + size]
        else:
            data = self._source.read_at(size, at)
        self.pages.require(data, at)
        return data

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._source.close()


def open_checked(io: FileIO, path: str) -> pa.NativeFile:
    """A Parquet file for reading: its footer is verified at once, page headers when they are read.

    Raises ValueError for damage. Callers that decode pages must ask Arrow to verify their checksums.
    """
    opened = open_pages(io, path)
    return pa.PythonFile(opened, mode="r") if isinstance(opened, CheckedFile) else opened


def open_pages(io: FileIO, path: str) -> pa.NativeFile | CheckedFile:
    """The same for reads of single pages, without Arrow's file wrapper where possible."""
    source = io.open_input(path)
    try:
        opened = _checked(source)
    except BaseException:
        source.close()
        raise
    if opened is not source and isinstance(opened, pa.BufferReader):
        source.close()
    return opened


def open_again(io: FileIO, path: str, pages: PageHeaders | None) -> pa.NativeFile | CheckedFile:
    """The same for a file whose footer was read before: `pages` are those of the earlier `CheckedFile`."""
    source = io.open_input(path)
    return source if pages is None else CheckedFile(source, pages)


def _checked(source: pa.NativeFile) -> pa.NativeFile | CheckedFile:
    size = source.size()
    end = source.read_at(min(size, _AT_ONCE), max(size - _AT_ONCE, 0))
    length = int.from_bytes(end[-8:-4], "little")
    if end[-4:] != _MAGIC or length > size - 12:
        return source  # not a Parquet file: its reader will say so
    if len(end) < min(length + 8 + _TAIL.size, size):
        end = source.read_at(min(length + 8 + _TAIL.size, size), max(size - length - 8 - _TAIL.size, 0))
    kind, content = _content(source, size, end, length)
    if kind in _NUMBERS:
        return CheckedFile(source, PageHeaders.of(kind, content), end)
    if kind == _WHOLE:
        whole = end if len(end) == size else source.read_at(size, 0)
        before = size - 8 - length - _TAIL.size - 1 - _CRC.size
        if zlib.crc32(memoryview(whole)[:before]) != _CRC.unpack(content)[0]:
            raise ValueError("its pages do not match their checksum")
        return pa.BufferReader(whole)
    return pa.BufferReader(end) if len(end) == size else source


def _content(source: pa.NativeFile, size: int, end: bytes, footer_length: int) -> tuple[bytes, bytes]:
    """(kind, content) of the checksums of a file whose last bytes are `end`; empty if it has none."""
    footer = len(end) - 8 - footer_length
    if end[max(footer - len(_MARK), 0) : footer] != _MARK:
        return b"", b""
    length, own, wanted, _ = _TAIL.unpack_from(end, footer - _TAIL.size)
    if zlib.crc32(memoryview(end)[footer : -len(_MAGIC)]) != wanted:
        raise ValueError("its footer does not match its checksum")
    at = size - 8 - footer_length - _TAIL.size - length
    if at < 0:
        raise ValueError(f"{length} bytes of checksums in a file of {size}")
    begin = at - (size - len(end))
    content = end[begin : begin + length] if begin >= 0 else source.read_at(length, at)
    if zlib.crc32(content) != own:
        raise ValueError("its checksums do not match their own checksum")
    return content[:1], content[1:]


def require_pages(io: FileIO, path: str) -> bool:
    """Verify every page of a file by its checksum, without decoding it; whether the file has checksums.
    Raises ValueError for damage."""
    with contextlib.closing(open_pages(io, path)) as source:
        if isinstance(source, CheckedFile):
            pages = source.pages
            ends = np.append(pages.starts[1:], pages.end)
            for start, length, end in zip(
                pages.starts.tolist(), pages.lengths.tolist(), ends.tolist(), strict=True
            ):
                page = source.read_at(end - start, start)
                wanted = thrift.checksum(page[:length])
                if wanted is not None and zlib.crc32(memoryview(page)[length:]) != wanted:
                    raise ValueError(f"the page at byte {start:,} does not match its checksum")
            return True
        return has_checksums(source)


def has_checksums(source: pa.NativeFile) -> bool:
    """Whether a Parquet file, opened here, has a tail of checksums: then its footer was verified by it."""
    size = source.size()
    length = int.from_bytes(source.read_at(8, size - 8)[:4], "little")
    begin = size - 8 - length - len(_MARK)
    return begin >= 0 and bool(source.read_at(len(_MARK), begin) == _MARK)


_META |= {_STATISTICS: STRUCT, _SIZE_STATISTICS: STRUCT}
_IN_STATISTICS = dict.fromkeys(_BOUNDS, BINARY) | {3: INT64, 4: INT64}
_IN_SIZES = {_TEXT_BYTES: INT64} | dict.fromkeys(_HISTOGRAMS, LIST)


@dataclass(frozen=True, slots=True)
class _ColumnLeaf:
    kind: int  # physical type
    width: int  # bytes of a value, 0 if they differ
    levels: tuple[int, int]  # greatest repetition and definition level


def sound_metadata(source: pa.NativeFile) -> pq.FileMetaData:
    """The checked footer of a file that `open_checked` opened, whose chunks can be read safely; damage raises
    ValueError or Arrow's errors. A footer that its checksum has verified is as it was written."""
    footer = pq.read_metadata(source)
    require_sound_chunks(source)
    return footer


def require_sound_chunks(source: pa.NativeFile) -> None:
    """Raise ValueError for a file of the same kind whose chunks Arrow cannot read safely."""
    if not has_checksums(source):
        require_sound(thrift.parquet_footer(source))


def require_sound(tree: Struct) -> None:
    """Raise ValueError for a footer with a chunk on which Arrow would end the process."""
    try:
        leaves = list(_leaves(thrift.field(tree, 2)[1]))
        for group in thrift.field(tree, 4)[1]:
            _require_sound_group(thrift.field(group, 1)[1], leaves)
    except (TypeError, AttributeError) as e:  # values that are not structs and lists
        raise ValueError(f"a footer of another form: {e}") from e


def _require_sound_group(chunks: Sequence[Struct], leaves: Sequence[_ColumnLeaf]) -> None:
    if len(chunks) != len(leaves):
        raise ValueError(f"a row group of {len(chunks)} columns, the schema has {len(leaves)}")
    for chunk, leaf in zip(chunks, leaves, strict=True):
        (meta,) = (value for number, _, value in _of_kinds(chunk, _CHUNK) if number == 3)
        for number, _, value in _of_kinds(meta, _META):
            if number == _TYPE and value != leaf.kind:
                raise ValueError(f"a chunk of type {value}, its column has {leaf.kind}")
            if number == _STATISTICS:
                _require_statistics(value, leaf)
            elif number == _SIZE_STATISTICS:
                _require_sizes(value, leaf)


def _of_kinds(fields: Struct, kinds: Mapping[int, int]) -> Struct:
    for number, kind, _ in fields:
        if kinds.get(number, kind) != kind:
            raise ValueError(f"field {number} is of kind {kind}, not {kinds[number]}")
    return fields


def _require_statistics(statistics: Struct, leaf: _ColumnLeaf) -> None:
    for number, _, value in _of_kinds(statistics, _IN_STATISTICS):
        if number in _BOUNDS and len(value) < leaf.width:
            raise ValueError(f"a bound {value!r} of a column whose values have {leaf.width} bytes")


def _require_sizes(sizes: Struct, leaf: _ColumnLeaf) -> None:
    for number, _, value in _of_kinds(sizes, _IN_SIZES):
        if number == _TEXT_BYTES and leaf.kind != _BYTE_ARRAY:
            raise ValueError("text sizes of a column that is not text")
        if number in _HISTOGRAMS:
            (kind, counts), max_level = value, leaf.levels[_HISTOGRAMS[number]]
            if len(counts) not in (0, max_level + 1) or (counts and kind != INT64):
                raise ValueError(f"a histogram of {len(counts)} levels, of which there are {max_level + 1}")


def _leaves(elements: Sequence[Struct]) -> Iterator[_ColumnLeaf]:
    """The columns of a schema in order."""
    above = [(thrift.value(elements[0], 5) or 0, 0, 0)]  # children to come, levels
    for element in elements[1:]:
        while above and not above[-1][0]:
            above.pop()
        if not above:
            raise ValueError("the schema has elements that belong to none")
        left, repetition, definition = above.pop()
        above.append((left - 1, repetition, definition))
        values = {number: value for number, _, value in _of_kinds(element, _ELEMENT)}
        repetition += values.get(3) == _REPEATED
        definition += values.get(3) in (_OPTIONAL, _REPEATED)
        if values.get(5):
            above.append((values[5], repetition, definition))
        else:
            kind = values.get(1, -1)
            width = values.get(2, 0) if kind == _FIXED else _WIDTHS.get(kind, 0)
            yield _ColumnLeaf(kind, width, (repetition, definition))


def leaf_positions(footer: pq.FileMetaData) -> dict[str, int]:
    """Positions of a footer's columns by their paths; a plain column's path is its name."""
    return {footer.schema.column(i).path: i for i in range(len(footer.schema))}
