"""Reading data files in ORC and Avro, as other writers make them, in the exact types of the table schema.

ORC keeps a TIME as an integer and timestamps in nanoseconds. In Avro the local-timestamp types mean instants
here, their names are swapped (format facts 3). Whole columns are converted; Avro is decoded record by record
first, so it is the slow one. Used by read.
"""

from __future__ import annotations

import io as bytes_io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from tablestore.errors import Corrupt, Unavailable, Unsupported
from tablestore.format.parquet_schema import SYSTEM_FIELDS
from tablestore.format.schema import TableSchema
from tablestore.io.fileio import FileIO


def read(
    io: FileIO,
    path: str,
    schema: TableSchema,
    columns: Sequence[str],
    *,
    file_size: int | None = None,
    batch_rows: int = 65536,
    system: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Batches of a file written with `schema`: the system columns (unless `system` is false), then `columns`.

    Raises Corrupt, naming the file, when it is missing, damaged, of another size or without a column.
    """
    fields = [*(SYSTEM_FIELDS if system else ()), *(f.arrow for f in schema.columns(tuple(columns)))]
    wanted = pa.schema(fields)
    try:
        data = io.read(path)
        if file_size is not None and len(data) != file_size:
            raise Corrupt(path, f"it has {len(data):,} bytes; the manifest says {file_size:,}")
        if path.endswith(".orc"):
            padded = {f.name for f in schema.columns(tuple(columns)) if f.type.root == "CHAR"}
            yield from _orc(data, path, wanted, padded, batch_rows)
        else:
            yield from _avro(data, path, wanted, batch_rows)
    except FileNotFoundError as e:
        raise Corrupt(path, "the file is missing") from e
    except (Corrupt, Unavailable, Unsupported):
        raise
    except Exception as e:  # damaged bytes surface as whatever a decoder trips over
        raise Corrupt(path, f"not a readable data file: {e!r}") from e


def _orc(
    data: bytes, path: str, wanted: pa.Schema, padded: set[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Stripe by stripe. ORC pads CHAR columns (`padded`) with blanks and cannot tell them from given ones."""
    file = orc.ORCFile(pa.BufferReader(data))
    _require(wanted.names, file.schema.names, path)
    for i in range(file.nstripes):
        stripe = file.read_stripe(i, columns=wanted.names)
        arrays = [_cast(stripe.column(f.name), f.type) for f in wanted]
        arrays = [
            pc.utf8_rtrim(a, " ") if f.name in padded else a for a, f in zip(arrays, wanted, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=wanted)
        for start in range(0, rows.num_rows, batch_rows):
            yield rows.slice(start, batch_rows)


def _avro(data: bytes, path: str, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    reader = fastavro.reader(bytes_io.BytesIO(data))
    record = reader.writer_schema
    if isinstance(record, list):  # older files have the record in a union with null
        record = next(r for r in record if isinstance(r, dict))
    _require(wanted.names, [f["name"] for f in record["fields"]], path)
    while records := list(islice(reader, batch_rows)):
        arrays = [_from_cells([r[f.name] for r in records], f.type) for f in wanted]
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _from_cells(values: list[Any], t: pa.DataType) -> pa.Array:
    """Decoded Avro cells as a column; timestamps come as UTC, with or without saying so."""
    if pa.types.is_timestamp(t):
        return pa.array(values, pa.timestamp(t.unit, tz="UTC")).cast(t)
    return pa.array(values, t)


def _cast(array: pa.Array, t: pa.DataType) -> pa.Array:
    if pa.types.is_time(t):
        array = array.cast(pa.int32())
    return array if array.type == t else array.cast(t)


def _require(names: Sequence[str], there: Sequence[str], path: str) -> None:
    for name in names:
        if name not in there:
            raise Corrupt(path, f"it has no column {name!r}; columns: {', '.join(there)}")
