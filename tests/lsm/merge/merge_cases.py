"""The small cases of the merge engines: a text file of tables and records, and how it is read.

    # comment
    partial-update a INT; b INT
    partial-update.remove-record-on-delete = true
    > I(1, 1) D(9, 9) I(., 2)
    ----
    1, 1 | - | 9, 2 => 9, 2

The answer is the row after each commit of one record and after a full compaction: "-" there is none, "error"
the key cannot be merged, "refused" the record is not accepted. Records: I +I, U +U, B −U, D −D, C a full
compaction. Values are Python's, `.` is NULL. Lines of a block are keys of one table; one that starts with
">>" has a table of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from tablestore.format.types.type_text import parse_type
from tests import text_cases

FILE = Path(__file__).parent / "cases" / "merge_engines.txt"
KINDS = {"I": "+I", "U": "+U", "B": "-U", "D": "-D"}
_RECORD = re.compile(r"C|([IUBD])(\((?:[^()]|\([^()]*\))*\))")


Line = list[tuple[str, tuple[Any, ...]] | None]


@dataclass(frozen=True)
class Case:
    """One table, and a line of records for each of its keys."""

    engine: str
    columns: dict[str, Any]
    options: dict[str, str]
    texts: tuple[str, ...]

    @property
    def lines(self) -> list[Line]:
        """(kind, values) of each record; None is a full compaction."""
        return [_records(text) for text in self.texts]

    @property
    def steps(self) -> list[list[tuple[int, str, tuple[Any, ...]]] | None]:
        """What to commit together: the first record of every line as (key, kind, values), the second, …;
        None is a full compaction."""
        longest = max(map(len, self.lines))
        collected: list[list[tuple[int, str, tuple[Any, ...]]] | None] = []
        for n in range(longest):
            there = [(key, line[n]) for key, line in enumerate(self.lines) if n < len(line)]
            collected.append(
                None if there[0][1] is None else [(key, *r) for key, r in there if r is not None]
            )
        return collected

    @property
    def all_options(self) -> dict[str, str]:
        """The options of the table."""
        return {"merge-engine": self.engine, "bucket": "1", "write-only": "true", **self.options}

    @property
    def name(self) -> str:
        """What a failure shows."""
        return f"{self.engine} {self.columns} {self.options} {self.texts}"

    def create(self, warehouse: Path) -> ts.Table:
        """The table, made by us."""
        types = {n: parse_type(t) for n, t in {"k": "INT NOT NULL", **self.columns}.items()}
        return ts.connect(str(warehouse)).create_table(
            "d.t", schema=types, primary_key=["k"], options=self.all_options
        )

    def rows(self, table: ts.Table, records: list[tuple[int, str, tuple[Any, ...]]]) -> pa.Table:
        """Records as a table."""
        columns = list(zip(*((key, *values) for key, _, values in records), strict=True))
        arrays = [
            pa.array([_arrow(v, f.type) for v in column], f.type)
            for column, f in zip(columns, table.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=table.schema)


def _records(text: str) -> Line:
    collected: Line = []
    for match in _RECORD.finditer(text):
        if match[1] is None:
            collected.append(None)
            continue
        literal = re.sub(r"(?<=[(,\[ ])\.(?=[,)\]])", "None", match[2])
        collected.append((KINDS[match[1]], ast.literal_eval(literal[:-1] + ",)")))
    return collected


def _arrow(value: Any, t: pa.DataType) -> Any:
    if pa.types.is_decimal(t) and value is not None:
        return Decimal(value)
    if isinstance(value, dict):
        return [(k, _arrow(v, t.item_type)) for k, v in value.items()]
    if isinstance(value, list):
        return [_arrow(v, t.value_type) for v in value]
    if isinstance(value, tuple):
        return dict(zip((f.name for f in t), value, strict=True))
    return value


def text_of(row: dict[str, Any] | None) -> str:
    """A row as the cases show it; what has no order is sorted."""
    return "-" if row is None else ", ".join(_text(v) for n, v in row.items() if n != "k")


def _text(value: Any) -> str:
    if value is None:
        return "."
    if isinstance(value, dict):
        return "(" + ", ".join(_text(v) for v in value.values()) + ")"
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return "{" + ", ".join(sorted(f"{_text(k)}: {_text(v)}" for k, v in value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(sorted(_text(v) for v in value)) + "]"
    return repr(value) if isinstance(value, str) else str(value)


def tables_of(lines: list[str]) -> Iterator[Case]:
    """The tables of one block of the file: one for the lines with ">", if any, and one for each with ">>"."""
    engine, _, columns = lines[0].partition(" ")
    named = dict(c.strip().split(" ", 1) for c in columns.split(";"))
    options = dict(line.split(" = ", 1) for line in lines[1:] if not line.startswith(">"))
    texts = [line for line in lines if line.startswith(">")]
    together = tuple(text for text in texts if not text.startswith(">>"))
    for part in [together, *((text,) for text in texts if text.startswith(">>"))]:
        if part:
            yield Case(engine, named, options, part)


def cases() -> Iterator[tuple[Case, list[str]]]:
    """Every table of the file, with the answers to its lines."""
    for block, answers in text_cases.blocks(FILE):
        lines = text_cases.lines_of(block)
        texts = [line for line in lines if line.startswith(">")]
        answer = dict(zip(texts, answers.splitlines(), strict=True))
        for case in tables_of(lines):
            yield case, [answer[text] for text in case.texts]
