"""Results of statements on standard output: text, JSON or CSV, row by row as they come.

What a statement without rows did goes to standard error, where output is for programs.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from notebooks.cli.sql_stream import CountedStream
from tablestore.sql import Result
from tablestore.sql.rendering import TextRows, is_number, shown

Writer = Callable[[Result | CountedStream], None]
_AT_ONCE = 1000  # rows whose columns of text stand below each other
_PLAIN = (int, float, str, bool, type(None))


def as_text(result: Result | CountedStream) -> None:
    """All rows as a table; columns of a long one may grow on the way."""
    if not result.schema.names:
        print(result.summary())
        return
    rows, table = 0, TextRows(result.schema, width=None)
    for part in parts(result):
        print("\n".join(table.lines(part)))
        rows += part.num_rows
    print(f"({rows:,} row{'' if rows == 1 else 's'})")


def as_json(result: Result | CountedStream) -> None:
    """An object a row and line; numbers with decimals and times are texts, bytes hexadecimal ones."""
    if not result.schema.names:
        print(result.summary(), file=sys.stderr)
    for part in parts(result):
        for row in rows_of(part):
            pairs = zip(result.schema.names, map(json_value, row), strict=True)
            print(json.dumps(dict(pairs), ensure_ascii=False))


def as_csv(result: Result | CountedStream) -> None:
    """A line of names, then a line a row. NULL is nothing, an empty text a pair of quotes."""
    if not result.schema.names:
        print(result.summary(), file=sys.stderr)
        return
    numbers = [is_number(field.type) for field in result.schema]
    print(",".join(map(csv_text, result.schema.names)))
    for part in parts(result):
        for row in rows_of(part):
            cells = zip(row, numbers, strict=True)
            print(",".join(csv_cell(value, number=number) for value, number in cells))


WRITERS: dict[str, Writer] = {"text": as_text, "json": as_json, "csv": as_csv}


def parts(result: Result | CountedStream) -> Iterator[pa.Table]:
    """The rows in tables of at most `_AT_ONCE`; at least one table. What was printed of one is there before
    the next is waited for."""
    any_rows = False
    for batch in result.to_batches():
        for start in range(0, batch.num_rows, _AT_ONCE):
            any_rows = True
            yield pa.Table.from_batches([batch.slice(start, _AT_ONCE)])
        sys.stdout.flush()
    if not any_rows:
        yield result.schema.empty_table()


def rows_of(rows: pa.Table) -> Iterator[tuple[pa.Scalar, ...]]:
    """The rows, as Arrow's values."""
    return zip(*rows.columns, strict=True)


def json_value(value: pa.Scalar) -> Any:
    """A value as JSON has it."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {name: json_value(value[i]) for i, name in enumerate(kind.names)}
    if pa.types.is_map(kind):
        return [[json_value(entry[0]), json_value(entry[1])] for entry in value.values]
    if pa.types.is_nested(kind):
        return [json_value(one) for one in value.values]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return value.as_py().hex()
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return shown(value)
    found = value.as_py()
    if isinstance(found, float) and not math.isfinite(found):
        return str(found)
    return found if isinstance(found, _PLAIN) else shown(value)


def csv_cell(value: pa.Scalar, *, number: bool) -> str:
    """A value as CSV has it."""
    if not value.is_valid:
        return ""
    return shown(value) if number else csv_text(shown(value))


def csv_text(text: str) -> str:
    """A text in quotes where it needs them."""
    needed = not text or text != text.strip() or any(c in text for c in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if needed else text
