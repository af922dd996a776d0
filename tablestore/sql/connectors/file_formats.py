"""Rows of files in CSV, JSON and Parquet, read and written batch by batch: what `filesystem` is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from tablestore.core.errors import NotFound, SchemaMismatch, Unsupported
from tablestore.format.messages import row_json
from tablestore.format.types import cast_text
from tablestore.format.types.arrow_types import STRING
from tablestore.format.types.casts import nearest_floats
from tablestore.format.types.data_type import DataField, DataType
from tablestore.sql.connectors.connector import ConnectorOptions

_BLOCK_BYTES = 16 << 20  # of CSV and JSON that are parsed at once: a row is no longer
_AS_TEXT = frozenset("DATE TIME TIMESTAMP TIMESTAMP_LTZ".split())  # what JSON has as texts
_FLOATS = ("FLOAT", "DOUBLE")


class RowWriter(Protocol):
    """Writes rows to a file that is open."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""

    def close(self) -> None:
        """Write what is still to be written and close the file."""

    def abandon(self) -> None:
        """Close the file as it is."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How files of a format are read and written."""

    read: Callable[[Any, str, ConnectorOptions, Sequence[str]], Iterator[pa.RecordBatch]]
    writer: Callable[[Any, ConnectorOptions], RowWriter]


# Parquet


def _read_parquet(
    file: Any, path: str, options: ConnectorOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    try:
        parquet = pa.parquet.ParquetFile(file)
        stored = [name for name in columns if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(columns=stored):
            yield _as_columns(batch, options, columns, path)
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"{path}: {e}") from None


class _ParquetRows:
    def __init__(self, file: Any, options: ConnectorOptions) -> None:
        self._file = file
        self._writer = pa.parquet.ParquetWriter(file, options.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()
        self._file.close()

    def abandon(self) -> None:
        self.close()


# CSV


def _read_csv(
    file: Any, path: str, options: ConnectorOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Values as texts, then as what the columns are; without a header they come in the order of columns."""
    names = [f.name for f in options.columns]
    header = options.values["tablestore.csv.header"]
    literal = options.values["csv.null-literal"]
    read = pa.csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=None if header else names)
    convert = pa.csv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        include_columns=list(columns) or None,
        include_missing_columns=header,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=["", *([] if literal is None else [literal])],
    )
    try:
        for batch in pa.csv.open_csv(file, read, _csv_parse(options), convert):
            yield _as_columns(batch, options, columns, path)
    except pa.ArrowInvalid as e:
        if "Empty CSV" not in str(e):
            raise SchemaMismatch(f"{path}: {e}") from None


def _csv_parse(options: ConnectorOptions) -> pa.csv.ParseOptions:
    quote = False if options.values["csv.disable-quote-character"] else options.values["csv.quote-character"]
    return pa.csv.ParseOptions(
        delimiter=options.values["csv.field-delimiter"],
        quote_char=quote,
        newlines_in_values=quote is not False,
        ignore_empty_lines=len(options.columns) > 1,  # of one column such a line is a row with NULL
    )


class _CsvRows:
    """Lines of texts, in quotes where they would be read as something else without."""

    def __init__(self, file: Any, options: ConnectorOptions) -> None:
        for f in options.columns:
            _require_plain(f, "CSV")
        values = options.values
        self._file, self._options, self._literal = file, options, values["csv.null-literal"] or ""
        self._nulls = pa.array(["", self._literal])
        self._signs = [values["csv.field-delimiter"], "\n", "\r", "\ufeff"]  # a byte order mark is cut off
        if not values["csv.disable-quote-character"]:
            self._signs.append(values["csv.quote-character"])
        if values["tablestore.csv.header"]:
            self._lines([self._quoted(pa.array([f.name]), f.name) for f in options.columns])

    def write(self, batch: pa.RecordBatch) -> None:
        texts = (cast_text.of(a, f.type) for a, f in zip(batch.columns, self._options.columns, strict=True))
        quoted = [self._quoted(text, f.name) for text, f in zip(texts, self._options.columns, strict=True)]
        self._lines([text.fill_null(self._literal) for text in quoted])

    def _quoted(self, text: pa.Array, name: str) -> pa.Array:
        needed = pc.is_in(text, self._nulls)
        for sign in self._signs:
            needed = pc.or_(needed, pc.match_substring(text, sign).fill_null(False))
        if not pc.any(needed).as_py():
            return text
        values = self._options.values
        if values["csv.disable-quote-character"]:
            value = text[pc.index(needed, True).as_py()].as_py()
            problem = f"column {name!r}: {value[:40]!r} needs quotes"
            raise SchemaMismatch(f"{problem}, and option 'csv.disable-quote-character' is true")
        quote = values["csv.quote-character"]
        doubled = pc.replace_substring(text, quote, quote * 2)
        return pc.if_else(needed, pc.binary_join_element_wise(quote, doubled, quote, ""), text)

    def _lines(self, columns: list[pa.Array]) -> None:
        joined = pc.binary_join_element_wise(*columns, self._options.values["csv.field-delimiter"])
        _write_lines(self._file, joined)

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        self._file.close()


# JSON


def _read_json(
    file: Any, path: str, options: ConnectorOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    wanted = [f for f in options.columns if f.name in columns]
    if file.size() == 0:
        return
    schema = pa.schema([pa.field(f.name, _json_type(f.type)) for f in wanted])
    parse = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        read = pa.json.ReadOptions(block_size=_BLOCK_BYTES)
        for batch in pa.json.open_json(file, read_options=read, parse_options=parse):
            yield _as_columns(batch, options, columns, path)
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"{path}: {e}") from None


def _json_type(t: DataType) -> pa.DataType:
    if t.is_binary:
        raise Unsupported(f"{t} columns in JSON files", "JSON has texts and numbers")
    return pa.string() if t.root in _AS_TEXT else DataField(0, "", t).arrow.type


class _JsonLines:
    """One object a line, all columns in it."""

    def __init__(self, file: Any, options: ConnectorOptions) -> None:
        require_json(options.columns)
        self._file, self._options = file, options

    def write(self, batch: pa.RecordBatch) -> None:
        _write_lines(self._file, json_objects(batch, self._options.columns))

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        self._file.close()


def require_json(columns: Sequence[DataField]) -> None:
    """Raise Unsupported for columns that are not written as JSON."""
    for f in columns:
        _require_plain(f, "JSON")


def json_objects(batch: pa.RecordBatch, columns: Sequence[DataField]) -> pa.Array:
    """Each row as the text of a JSON object, without a line end in it."""
    for array, f in zip(batch.columns, columns, strict=True):
        if f.type.root in _FLOATS and pc.all(pc.is_finite(array)).as_py() is False:
            raise SchemaMismatch(f"column {f.name!r}: JSON has no NaN and no infinity")
    return row_json.json_objects(batch, columns, _json_values)


def _json_values(array: pa.Array, t: DataType) -> pa.Array:
    if t.root in _AS_TEXT:
        return row_json.json_values(cast_text.of(array, t), STRING)
    if t.root in _FLOATS:
        return cast_text.of(array, t).fill_null("null")
    return row_json.json_values(array, t)


# both


def _write_lines(file: Any, lines: pa.Array) -> None:
    """Each text and a line end. Raises SchemaMismatch for a line that could not be read again."""
    if (pc.max(pc.binary_length(lines)).as_py() or 0) >= _BLOCK_BYTES:
        raise SchemaMismatch(f"a row of more than {_BLOCK_BYTES:,} bytes: parquet has rows of any length")
    whole = pc.binary_join_element_wise(lines, "\n", "").cast(pa.binary())
    _, offsets, data = whole.buffers()
    first, *_, last = pa.Array.from_buffers(pa.int32(), len(whole) + 1, [None, offsets], offset=whole.offset)
    file.write(data.slice(first.as_py(), last.as_py() - first.as_py()))


def _require_plain(f: DataField, format: str) -> None:
    if f.type.is_nested or f.type.is_binary or f.type.root == "VARIANT":
        raise Unsupported(f"column {f.name!r} of type {f.type} in {format} files", "parquet has all types")


def _as_columns(
    batch: pa.RecordBatch, options: ConnectorOptions, columns: Sequence[str], path: str
) -> pa.RecordBatch:
    """What a file has, as the columns: texts are parsed, a column that is missing is NULL. Raises
    SchemaMismatch naming file and column."""
    fields = {f.name: f for f in options.columns}
    arrays = []
    for name in columns:
        if name not in fields:
            raise NotFound.among("column", name, fields)
        f = fields[name]
        if name not in batch.schema.names:
            arrays.append(pa.nulls(batch.num_rows, f.arrow.type))
            continue
        array = batch.column(name)
        try:
            arrays.append(_typed(array, f))
        except (SchemaMismatch, pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
            raise SchemaMismatch(f"{path}, column {name!r}: {e}") from None
        if not f.type.nullable and arrays[-1].null_count:
            raise SchemaMismatch(f"{path}, column {name!r} is NOT NULL and has a row without a value")
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([fields[name].arrow for name in columns]))


def _typed(array: pa.Array, f: DataField) -> pa.Array:
    if array.type == f.arrow.type:
        return array
    if pa.types.is_string(array.type) and not (f.type.is_string or f.type.is_nested or f.type.is_binary):
        return cast_text.parsed(array, f.type)
    if pa.types.is_decimal(array.type) and pa.types.is_floating(f.arrow.type):
        return nearest_floats(array, f.arrow.type)
    return array.cast(f.arrow.type)


FORMATS: Mapping[str, FileFormat] = MappingProxyType(
    {
        "csv": FileFormat(_read_csv, _CsvRows),
        "json": FileFormat(_read_json, _JsonLines),
        "parquet": FileFormat(_read_parquet, _ParquetRows),
    }
)
