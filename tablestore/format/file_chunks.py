"""The parts of one data file: row groups and column chunks of Parquet, stripes of ORC, blocks of Avro.

One row a column of a group, with sizes, encodings and statistics as far as the format has them: ORC has no
sizes by column, Avro neither columns nor statistics. Parquet and ORC are read from their footers, Avro by
reading its blocks. Bounds are text in the types of the file's schema. Used by `inspect.row_groups`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.core.errors import Unsupported
from tablestore.core.extras import required
from tablestore.format import stats
from tablestore.format.avro import blocks as avro_blocks
from tablestore.format.data_format import complaints
from tablestore.format.parquet.checked_file import open_checked, sound_metadata
from tablestore.format.parquet.schema import KEY_PREFIX, SYSTEM_COLUMNS
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.schema import TableSchema
from tablestore.format.text import cast_text
from tablestore.format.types.arrow_types import DataType
from tablestore.io.fileio import FileIO
from tablestore.io.paths import file_format

CHUNKS = result_schema(
    "row_group int32, rows int64, group_bytes int64, column string, type string, codec string, "
    "encodings string, bytes int64, raw_bytes int64, nulls int64, min string, max string"
)
_NOTHING = (None, None, None)


def chunks(io: FileIO, path: str, schema: TableSchema) -> pa.Table:
    """The chunks of a data file that was written under `schema`; raises Corrupt naming it."""
    form = file_format(path)
    if form not in _READERS:
        raise Unsupported(f"data files such as {path!r}", f"formats read: {', '.join(_READERS)}")
    with complaints(path, form):
        rows = list(_READERS[form](io, path, schema))
    return table_of(CHUNKS, rows)


def _parquet(io: FileIO, path: str, schema: TableSchema) -> Iterator[tuple[Any, ...]]:
    with contextlib.closing(open_checked(io, path)) as source:
        footer = sound_metadata(source)
    for g in range(footer.num_row_groups):
        group = footer.row_group(g)
        parts = [group.column(c) for c in range(group.num_columns)]
        size = sum(p.total_compressed_size for p in parts)
        for c, part in enumerate(parts):
            encodings = ", ".join(_data_encodings(part.encodings))
            sizes = (part.total_compressed_size, part.total_uncompressed_size)
            kind = _type_of(part.path_in_schema, schema)
            facts = (part.physical_type if kind is None else str(kind), part.compression.lower(), encodings)
            bounds = _bounds(footer, g, c, kind)
            yield g, group.num_rows, size, part.path_in_schema, *facts, *sizes, *bounds


def _data_encodings(names: tuple[str, ...]) -> list[str]:
    """Encodings of values: RLE and BIT_PACKED, which also encode levels, count only if there is no other."""
    values = sorted(set(names) - {"RLE", "BIT_PACKED"})
    if "PLAIN" in values and any("DICTIONARY" in n for n in values):
        values.remove("PLAIN")  # of the dictionary's own page
    return values or sorted(set(names))


def _bounds(footer: pq.FileMetaData, group: int, column: int, kind: DataType | None) -> tuple[Any, ...]:
    """(NULLs, minimum, maximum); a nested column has no bounds."""
    footer_stats = footer.row_group(group).column(column).statistics
    if footer_stats is None:
        return _NOTHING
    nulls = footer_stats.null_count if footer_stats.has_null_count else None
    if kind is None:
        return nulls, None, None
    bounds = stats.of_column(footer, column, kind, group=group)
    return nulls, *(None if v is None else cast_text(v, kind) for v in (bounds.min, bounds.max))


def _type_of(column: str, schema: TableSchema) -> DataType | None:
    if column in SYSTEM_COLUMNS:
        return SYSTEM_COLUMNS[column].type
    plain = column if column in schema.by_name else column.removeprefix(KEY_PREFIX)
    field = schema.by_name.get(plain)
    return None if field is None or field.type.children else field.type


def _orc(io: FileIO, path: str, schema: TableSchema) -> Iterator[tuple[Any, ...]]:
    with contextlib.closing(io.open_input(path)) as source:
        reader = required("pyorc", by="what stripes of ORC files hold").Reader(source)
        codec = reader.compression.name.lower()
        for g in range(reader.num_of_stripes):
            stripe = reader.read_stripe(g)
            for name, kind in reader.schema.fields.items():
                stats = stripe[kind.column_id].statistics
                nulls = len(stripe) - stats["number_of_values"] if "number_of_values" in stats else None
                own = _type_of(name, schema)
                bounds = (_orc_text(stats.get(end), own) for end in ("minimum", "maximum"))
                facts = (str(kind) if own is None else str(own), codec, None, None, None)
                yield g, len(stripe), stripe.bytes_length, name, *facts, nulls, *bounds


def _orc_text(value: Any, kind: DataType | None) -> str | None:
    """A stripe's bound as text, for types whose values are the same in ORC and in the table."""
    if value is None or kind is None or kind.root in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return None
    return str(value)


def _avro(io: FileIO, path: str, schema: TableSchema) -> Iterator[tuple[Any, ...]]:
    header, blocks = avro_blocks.BlockReader().parse(io.read(path), path)
    for g, block in enumerate(blocks):
        yield (
            g,
            block.rows,
            len(block.data),
            "all columns",
            "record",
            header.codec,
            None,
            len(block.data),
            None,
            *_NOTHING,
        )


_READERS = {"parquet": _parquet, "orc": _orc, "avro": _avro}
