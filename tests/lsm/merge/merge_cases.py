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

FILE = Path(__file__).parent / "merge_engines.txt"
KINDS = {"I": "+I", "U": "+U", "B": "-U", "D": "-D"}
_RECORD = re.compile(r"C|([IUBD])(\((?:[^()]|\([^()]*\))*\))")


Line = list[tuple[str, tuple[Any, ...]] | None]


@dataclass(frozen=True)
class Case:
    """One table, and a line of records for each of its keys."""

    number: int
    engine: str
    columns: dict[str, Any]
    options: dict[str, str]
    texts: tuple[str, ...]
    wanted: tuple[str, ...]

    @property
    def lines(self) -> list[Line]:
        """(kind, values) of each record; None is a full compaction."""
        return [_records(text) for text in self.texts]

    @property
    def steps(self) -> list[list[tuple[int, str, tuple[Any, ...]]] | None]:
        """What to commit together: the first record of every line as (key, kind, values), the second, …;
        None is a full compaction."""
        longest = max(map(len, self.lines))
        found: list[list[tuple[int, str, tuple[Any, ...]]] | None] = []
        for n in range(longest):
            there = [(key, line[n]) for key, line in enumerate(self.lines) if n < len(line)]
            found.append(None if there[0][1] is None else [(key, *r) for key, r in there if r is not None])
        return found

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
    found: Line = []
    for match in _RECORD.finditer(text):
        if match[1] is None:
            found.append(None)
            continue
        literal = re.sub(r"(?<=[(,\[ ])\.(?=[,)\]])", "None", match[2])
        found.append((KINDS[match[1]], ast.literal_eval(literal[:-1] + ",)")))
    return found


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
    """Every table of the file."""
    number = 0
    for block in FILE.read_text(encoding="utf-8").split("====\n"):
        head, _, below = block.partition("----\n")
        lines = [line for line in head.splitlines() if line and not line.startswith("#")]
        engine, _, columns = lines[0].partition(" ")
        named = dict(c.strip().split(" ", 1) for c in columns.split(";"))
        options = dict(line.split(" = ", 1) for line in lines[1:] if not line.startswith(">"))
        texts = [line for line in lines if line.startswith(">")]
        answers = [*map(str.strip, below.splitlines()), *[""] * len(texts)]
        pairs = list(zip(texts, answers, strict=False))
        together = [pair for pair in pairs if not pair[0].startswith(">>")]
        for part in [together, *([pair] for pair in pairs if pair[0].startswith(">>"))]:
            if part:
                yield Case(number, engine, named, options, *zip(*part, strict=True))
                number += 1


def rewritten(answers: dict[tuple[str, str], str]) -> str:
    """The file with other answers: of each (block's head, line)."""
    blocks = []
    for block in FILE.read_text(encoding="utf-8").split("====\n"):
        head = block.partition("----\n")[0]
        lines = [line for line in head.splitlines() if line.startswith(">")]
        blocks.append(head + "----\n" + "".join(f"{answers[_title(head), line]}\n" for line in lines))
    return "====\n".join(blocks)


def _title(head: str) -> str:
    lines = [line for line in head.splitlines() if line and not line.startswith(("#", ">"))]
    return "\n".join(lines)


def title(case: Case) -> str:
    """The head of a case's block."""
    columns = "; ".join(f"{n} {t}" for n, t in case.columns.items())
    return "\n".join([f"{case.engine} {columns}", *(f"{k} = {v}" for k, v in case.options.items())])
