"""Scripts of SQL statements under tests/golden/flink-sql, each with the answers that Flink gave: `NAME.sql`
beside `NAME.answers.json`.

A script starts in a session whose catalog `lake`, an empty file system catalog, is in use; `${warehouse}` in
it stands for that catalog's directory, in answers too. Statements end with `;`. A comment `-- rows: 4` above
a statement makes it end after four rows (streams have no end). `answers` runs a script and gives an answer a
statement; a statement that fails is an answer as well, and the script goes on.

    recorded = sql_scripts.recorded("arithmetic")
    for statement, answer in zip(sql_scripts.statements("arithmetic"), recorded, strict=True): ...
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "golden" / "flink-sql"
WAREHOUSE = "${warehouse}"
TOKEN = re.compile(r"'(?:[^']|'')*'|`[^`]*`|--[^\n]*|/\*.*?\*/|[;()]|\w+|\S", re.DOTALL)
COMMENTS = re.compile(r"(?:\s|--[^\n]*\n)*")
DONE = [["OK"]], [["-1"]]
"""What Flink answers to a statement that gives no rows: definitions, and changes of unknown size."""


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """One statement of a script, without its `;`, the line that it starts at, and its `-- rows:`."""

    line: int
    text: str
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ScriptAnswer:
    """What a statement gave: rows of texts or None, sorted unless it has an ORDER BY, with the row kinds of a
    stream; no columns where it gives no rows; or the error."""

    columns: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    kinds: tuple[str, ...] = ()
    error: str = ""


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.sql"))


def statements(name: str) -> list[ScriptStatement]:
    return split((FOLDER / f"{name}.sql").read_text(encoding="utf-8"))


def recorded(name: str) -> list[ScriptAnswer]:
    """The recorded answers, one a statement."""
    document = json.loads((FOLDER / f"{name}.answers.json").read_text(encoding="utf-8"))
    return [_answer(recorded_answer) for recorded_answer in document["answers"]]


def split(text: str) -> list[ScriptStatement]:
    actual, start, depth = [], 0, 0
    for token in TOKEN.finditer(text):
        word = token[0].upper()
        depth += {"BEGIN": 1, "CASE": 1, "END": -1}.get(word, 0)  # a statement set holds statements
        if word == ";" and depth == 0:
            actual.append(_statement(text, start, token.start()))
            start = token.end()
    return actual


def _statement(text: str, start: int, end: int) -> ScriptStatement:
    comments = COMMENTS.match(text, start)
    limit = re.search(r"-- rows: (\d+)", comments[0])
    line = text.count("\n", 0, comments.end()) + 1
    return ScriptStatement(line, text[comments.end() : end].strip(), int(limit[1]) if limit else None)


def ordered(text: str) -> bool:
    """Whether the rows of the statement have an order: by an outer ORDER BY, or as columns of a table."""
    if text.upper().startswith(("DESC", "SHOW COLUMNS")):
        return True
    depth, words = 0, list[str]()
    for token in TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0:
            words.append(token[0].upper())
    return ("ORDER", "BY") in itertools.pairwise(words)


def sort_key(row: Sequence[str | None]) -> str:
    """What rows without an order are sorted by."""
    return json.dumps(row)


def answers(
    name: str, run: Callable[[ScriptStatement], tuple[Sequence, Sequence, Sequence]], *, warehouse: str
) -> list[ScriptAnswer]:
    """A script's answers: `run` gives (columns, rows, row kinds) of a statement or raises AssertionError."""
    actual, streaming = list[ScriptAnswer](), False
    for statement in statements(name):
        filled = ScriptStatement(
            statement.line, statement.text.replace(WAREHOUSE, warehouse), statement.limit
        )
        if "execution.runtime-mode" in statement.text:
            streaming = "streaming" in statement.text
        try:
            columns, rows, kinds = run(filled)
        except AssertionError as e:
            actual.append(ScriptAnswer(error=_problem(str(e), warehouse)))
            continue
        if rows in DONE:
            actual.append(ScriptAnswer())
            continue
        pairs = [(_without(row, warehouse), kind) for row, kind in zip(rows, kinds, strict=True)]
        if not ordered(statement.text):
            pairs.sort(key=lambda pair: (sort_key(pair[0]), pair[1]))
        shown = tuple(kind for _, kind in pairs) if streaming else ()
        actual.append(ScriptAnswer(tuple(map(tuple, columns)), tuple(row for row, _ in pairs), shown))
    return actual


def write(name: str, actual: list[ScriptAnswer], *, engine: str) -> None:
    """Record the answers: a line a statement and a row, so that a difference can be read."""
    parts = [_text(statement, answer) for statement, answer in zip(statements(name), actual, strict=True)]
    text = f'{{"engine": {_json(engine)}, "answers": [\n' + ",\n".join(parts) + "\n]}\n"
    (FOLDER / f"{name}.answers.json").write_text(text, encoding="utf-8")


def _text(statement: ScriptStatement, answer: ScriptAnswer) -> str:
    head = f' {{"line": {statement.line}, "sql": {_json(statement.text)}'
    if answer.error:
        return f'{head},\n  "error": {_json(answer.error)}}}'
    if not answer.columns:
        return f"{head}}}"
    rows = ",".join(f"\n   {_json(row)}" for row in answer.rows)
    text = f'{head},\n  "columns": {_json(answer.columns)},\n  "rows": [{rows}]'
    return f'{text},\n  "kinds": {_json(answer.kinds)}}}' if answer.kinds else f"{text}}}"


def _answer(actual: dict[str, Any]) -> ScriptAnswer:
    columns, rows = (tuple(map(tuple, actual.get(key, ()))) for key in ("columns", "rows"))
    return ScriptAnswer(columns, rows, tuple(actual.get("kinds", ())), actual.get("error", ""))


def _problem(text: str, warehouse: str) -> str:
    """The message without lists of what was expected, and without times of this run."""
    text = " ".join(re.split(r"\nWas expecting", text)[0].split()).replace(warehouse, WAREHOUSE)
    return re.sub(r"\b\d{13}\b", "…", text)[:300]


def _without(row: Sequence[str | None], warehouse: str) -> tuple[str | None, ...]:
    return tuple(cell and cell.replace(warehouse, WAREHOUSE) for cell in row)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
