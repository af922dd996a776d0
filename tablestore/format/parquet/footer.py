"""Checks of Parquet footers, before Arrow reads their column chunks.

For a damaged chunk Arrow throws where its Python side does not catch, which ends the process. So footers are
checked here before anything reads their chunks or statistics, by the rules that Arrow checks against the
schema: lengths of statistics and of level histograms. It takes half a millisecond for 20 columns; files that
are only decoded, and files with our checksums, do not need it. Pure except for reading the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.format.parquet import thrift_compact as thrift
from tablestore.format.parquet.checked_file import has_checksums
from tablestore.format.parquet.thrift_compact import BINARY, INT32, INT64, LIST, STRUCT, Struct

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
