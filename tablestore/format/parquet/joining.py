"""Parquet files joined without decoding them: the row groups of all under one footer, page by page the same
bytes.

Only files of ours with checksums of their pages are joined (`checked_file`, FORMAT.md 25.3), whose footers
agree in everything but their row groups. Pages keep their checksums and those of their headers, so damage in
a source stays visible. Memory: the footers, and a buffer. Used by compaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tablestore.format.data_format import complaints, storing
from tablestore.format.parquet import thrift_compact as thrift
from tablestore.format.parquet.checked_file import CheckedFile, ending, joined_content, open_pages
from tablestore.format.parquet.thrift_compact import STRUCT, Struct
from tablestore.io.fileio import FileIO

_COPY_BYTES = 4 << 20
_ROWS, _GROUPS = 3, 4  # of FileMetaData
_CHUNKS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7  # of RowGroup
_CHUNK_OFFSET, _META = 2, 3  # of ColumnChunk
_PAGE_OFFSETS = (9, 11)  # of ColumnMetaData: of data pages, of the dictionary
_CHUNK_FIELDS = frozenset({_CHUNK_OFFSET, _META})
_META_FIELDS = frozenset({*range(1, 10), 11, 12, 13, 16})  # without indexes and filters outside the pages
_MOST_GROUPS = 32_767  # their ordinals have 16 bits


def join(io: FileIO, sources: Sequence[str], path: str) -> int | None:
    """Write a file with the row groups of `sources` in order; its bytes, or None where they cannot be joined
    and nothing was written. Raises Corrupt for damage in a footer or a page header."""
    with contextlib.ExitStack() as stack:
        parts: list[CheckedFile] = []
        footers: list[Struct] = []
        for source in sources:
            with complaints(source, "Parquet"):
                part = stack.enter_context(contextlib.closing(open_pages(io, source)))
                if not isinstance(part, CheckedFile):
                    return None
                footers.append(thrift.parquet_footer(part))
                parts.append(part)
        footer = _joined(footers, [part.pages.total_bytes for part in parts])
        return None if footer is None else _written(io, path, list(zip(sources, parts, strict=True)), footer)


def _written(io: FileIO, path: str, parts: Sequence[tuple[str, CheckedFile]], footer: Struct) -> int:
    with storing(path), contextlib.closing(io.open_output(path)) as sink:
        sink.write(thrift.MAGIC)
        size = len(thrift.MAGIC)
        for source, part in parts:
            at, end = len(thrift.MAGIC), part.pages.end
            while at < end:
                with complaints(source, "Parquet"):
                    data = part.read_at(min(_COPY_BYTES, end - at), at)
                if not data:
                    raise OSError(f"{source} ends at byte {at:,}, its pages at {end:,}")
                sink.write(data)
                at += len(data)
            size += part.pages.total_bytes
        content = joined_content([part.pages for _, part in parts])
        last = ending(content, thrift.footer_bytes(footer))
        sink.write(last)
    return size + len(last)


def _joined(footers: Sequence[Struct], sizes: Sequence[int]) -> Struct | None:
    """The footer of the joined file, whose sources have so many bytes of pages; None where they differ."""
    if len({_shared(footer) for footer in footers}) > 1:
        return None
    groups: list[Struct] = []
    before = 0
    for footer, size in zip(footers, sizes, strict=True):
        for group in thrift.field(footer, _GROUPS)[1]:
            moved = _moved_group(group, before, len(groups))
            if moved is None:
                return None
            groups.append(moved)
        before += size
    if len(groups) > _MOST_GROUPS:
        return None
    rows = sum(thrift.field(footer, _ROWS) for footer in footers)
    new = {_ROWS: rows, _GROUPS: (STRUCT, groups)}
    return [(number, kind, new.get(number, value)) for number, kind, value in footers[0]]


def _shared(footer: Struct) -> bytes:
    """What is the same in all files of a kind: version, schema, program, orders of columns."""
    return thrift.struct_bytes([field for field in footer if field[0] not in (_ROWS, _GROUPS)])


def _moved_group(group: Struct, by: int, ordinal: int) -> Struct | None:
    """The row group with its pages `by` bytes further on."""
    moved: Struct = []
    for number, kind, value in group:
        if number == _CHUNKS:
            chunks = [_moved_chunk(chunk, by) for chunk in value[1]]
            if None in chunks:
                return None
            value = (STRUCT, chunks)
        elif number == _GROUP_OFFSET:
            value += by
        elif number == _ORDINAL:
            value = ordinal
        moved.append((number, kind, value))
    return moved


def _moved_chunk(chunk: Struct, by: int) -> Struct | None:
    moved: Struct = []
    for number, kind, value in chunk:
        if number not in _CHUNK_FIELDS:
            return None
        if number == _META:
            if any(n not in _META_FIELDS for n, _, _ in value):
                return None
            value = [(n, k, v + by if n in _PAGE_OFFSETS else v) for n, k, v in value]
        elif value:  # most writers leave it 0
            value += by
        moved.append((number, kind, value))
    return moved
