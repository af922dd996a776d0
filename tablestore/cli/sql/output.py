"""Results of statements on standard output: text, JSON or CSV, as they come; a stream until
its end or Ctrl-C, then what came in all.

What a statement without rows did goes to standard error, where output is for programs.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.quantities import many
from tablestore.format.types.arrow_types import is_number
from tablestore.sql import Result
from tablestore.sql.rendering import TextRows, seconds, texts


class CountedStream:
    """The rows of a SELECT in streaming mode, counted by kind of change while they are read."""

    def __init__(self, result: Result) -> None:
        self._result, self._kinds, self._began = result, Counter[str](), time.monotonic()

    @property
    def schema(self) -> pa.Schema:
        """The columns; the first is the kind of change."""
        return self._result.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come."""
        for batch in self._result.to_batches():
            for group in pc.value_counts(batch.column(0)).to_pylist():
                self._kinds[group["values"]] += group["counts"]
            yield batch

    def summary(self) -> str:
        """`3 changes (+I 1, -U 1, +U 1) · 2.50 s`."""
        kinds = ", ".join(f"{kind} {rows:,}" for kind, rows in sorted(self._kinds.items()))
        words = many(self._kinds.total(), "change") + (f" ({kinds})" if kinds else "")
        return f"{words} · {seconds(time.monotonic() - self._began)}"


Writer = Callable[[Result | CountedStream], None]
_AT_ONCE = 1000  # rows whose columns of text stand below each other


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
        return
    names = [_json_texts(pa.array([name]))[0].as_py() for name in result.schema.names]
    for batch in result.to_batches():
        columns: list[Any] = []
        for name, column in zip(names, batch.columns, strict=True):
            columns += [f"{', ' if columns else '{'}{name}: ", json_texts(column)]
        _print_lines(pc.binary_join_element_wise(*columns, "}", ""))


def as_csv(result: Result | CountedStream) -> None:
    """A line of names, then a line a row. NULL is nothing, an empty text a pair of quotes."""
    if not result.schema.names:
        print(result.summary(), file=sys.stderr)
        return
    print(",".join(_in_csv(pa.array(result.schema.names)).to_pylist()), flush=True)
    for batch in result.to_batches():
        columns = [csv_texts(column) for column in batch.columns]
        _print_lines(pc.binary_join_element_wise(*columns, ","))


def _print_lines(lines: pa.Array) -> None:
    """What was printed of a batch is there before the next is waited for."""
    if len(lines):
        print("\n".join(lines.to_pylist()), flush=True)


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


def csv_texts(column: pa.Array) -> pa.Array:
    """Values as CSV has them."""
    strings = texts(column)
    return (strings if _is_bare(column.type) else _in_csv(strings)).fill_null("")


def _is_bare(kind: pa.DataType) -> bool:
    """Whether no value needs quotes."""
    return is_number(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)


def _in_csv(texts: pa.Array) -> pa.Array:
    """Texts in quotes where they need them."""
    needed = pc.match_substring_regex(texts, r'^$|^\s|\s$|[,"\r\n]')
    if not pc.any(needed).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), texts)


def json_texts(column: pa.Array) -> pa.Array:
    """Values as JSON has them."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return json_texts(column.dictionary_decode())
    if pa.types.is_boolean(kind):
        strings = pc.if_else(column, "true", "false")
    elif pa.types.is_integer(kind):
        strings = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        shown = texts(column)
        strings = pc.if_else(pc.is_finite(column), shown, pc.binary_join_element_wise('"', shown, '"', ""))
    elif pa.types.is_nested(kind):
        strings = pa.array([_nested(value) for value in column], pa.string())
    elif _is_bytes(kind):
        strings = pa.array([None if v is None else f'"{v.hex()}"' for v in column.to_pylist()], pa.string())
    else:
        strings = _json_texts(texts(column))
    return strings.fill_null("null")


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def _json_texts(texts: pa.Array) -> pa.Array:
    """Texts in quotes; those with characters that JSON escapes one by one."""
    special = pc.match_substring_regex(texts, r'[\x00-\x1f"\\]')
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    if not pc.any(special).as_py():
        return quoted
    special = special.fill_null(False)
    escaped = [json.dumps(text, ensure_ascii=False) for text in texts.filter(special).to_pylist()]
    return pc.replace_with_mask(quoted, special, pa.array(escaped, pa.string()))


def _nested(value: pa.Scalar) -> str:
    """A list, a map as a list of pairs, or a row as JSON."""
    if not value.is_valid:
        return "null"
    kind = value.type
    if pa.types.is_struct(kind):
        names = (json.dumps(name, ensure_ascii=False) for name in kind.names)
        return "{" + ", ".join(f"{name}: {_nested(value[i])}" for i, name in enumerate(names)) + "}"
    if pa.types.is_map(kind):
        return "[" + ", ".join(f"[{_nested(e[0])}, {_nested(e[1])}]" for e in value.values) + "]"
    if pa.types.is_nested(kind):
        return "[" + ", ".join(map(_nested, value.values)) + "]"
    return str(json_texts(pa.array([value.as_py()], kind))[0].as_py())


def show(result: Result, *, width: int) -> bool:
    """Print the rows of a stream as they come, and what came when it ends; whether it has ended by itself,
    not by Ctrl-C."""
    stream, table, ended = CountedStream(result), TextRows(result.schema, width=width), True
    if result.endless:
        print("rows come until Ctrl-C", flush=True)
    try:
        for batch in stream.to_batches():
            print("\n".join(table.lines(pa.Table.from_batches([batch]))), flush=True)
    except KeyboardInterrupt:
        ended = False
        result.stop()
        print()
    print("\n".join([*table.omitted(), ("" if ended else "stopped: ") + stream.summary()]))
    return ended
