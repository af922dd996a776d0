"""The small cases of the merge engines: a text file of tables and records, and how it is read.

    # comment
    partial-update a INT; b INT
    partial-update.remove-record-on-delete = true
    > I(1, 1) D(9, 9) I(., 2)
    ----
    1, 1 | - | 9, 2 => 9, 2

The answer is the row after each commit of one record and after a full compaction: "-" there is none, "error"
the key cannot be merged, "refused" the record is not accepted. Records: I +I, U +U, B −U, D −D, C a full
compaction. Values are Python's, `.` is NULL.
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
from tablestore.format.type_text import parse_type

FILE = Path(__file__).parent / "merge_engines.txt"
KINDS = {"I": "+I", "U": "+U", "B": "-U", "D": "-D"}
_RECORD = re.compile(r"C|([IUBD])(\((?:[^()]|\([^()]*\))*\))")


@dataclass(frozen=True)
class Case:
    """One table and one sequence of records."""

    number: int
    engine: str
    columns: dict[str, Any]
    options: dict[str, str]
    text: str
    wanted: str

    @property
    def records(self) -> list[tuple[str, tuple[Any, ...]] | None]:
        """(kind, values); None is a full compaction."""
        found: list[tuple[str, tuple[Any, ...]] | None] = []
        for match in _RECORD.finditer(self.text):
            if match[1] is None:
                found.append(None)
                continue
            literal = re.sub(r"(?<=[(,\[ ])\.(?=[,)\]])", "None", match[2])
            value = ast.literal_eval(literal[:-1] + ",)")
            found.append((KINDS[match[1]], value))
        return found

    @property
    def all_options(self) -> dict[str, str]:
        """The options of the table."""
        return {"merge-engine": self.engine, "bucket": "1", "write-only": "true", **self.options}

    def create(self, warehouse: Path) -> ts.Table:
        """The table, made by us."""
        schema = {"k": "INT NOT NULL", **self.columns}
        types = {n: parse_type(t) for n, t in schema.items()}
        return ts.connect(str(warehouse)).create_table(
            "d.t", schema=types, primary_key=["k"], options=self.all_options
        )

    def rows(self, table: ts.Table, values: tuple[Any, ...]) -> pa.Table:
        """One record as a table of one row."""
        cells = (1, *values)
        arrays = [pa.array([_arrow(v, f.type)], f.type) for v, f in zip(cells, table.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=table.schema)


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


def cases() -> Iterator[Case]:
    """Every case of the file."""
    number = 0
    for block in FILE.read_text(encoding="utf-8").split("====\n"):
        head, _, below = block.partition("----\n")
        lines = [line for line in head.splitlines() if line and not line.startswith("#")]
        engine, _, columns = lines[0].partition(" ")
        named = dict(c.strip().split(" ", 1) for c in columns.split(";"))
        options = dict(line.split(" = ", 1) for line in lines[1:] if not line.startswith("> "))
        texts = [line[2:] for line in lines if line.startswith("> ")]
        answers = below.splitlines() or [""] * len(texts)
        for text, answer in zip(texts, answers, strict=False):
            yield Case(number, engine, named, options, text, answer.strip())
            number += 1


def rewritten(answers: list[str]) -> str:
    """The file with other answers."""
    left, blocks = list(answers), []
    for block in FILE.read_text(encoding="utf-8").split("====\n"):
        head = block.partition("----\n")[0]
        count = sum(line.startswith("> ") for line in head.splitlines())
        blocks.append(head + "----\n" + "".join(f"{left.pop(0)}\n" for _ in range(count)))
    return "====\n".join(blocks)
