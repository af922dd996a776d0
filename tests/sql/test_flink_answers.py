"""The scripts of tests/golden/flink-sql in a session of ours: every answer is Flink's, but for those that
`differences.tsv` there lists.

A line of it is a script, a statement's line, `meant` or `open`, and why or how it differs. What is meant must
differ; what is open may agree any day: `--rewrite` drops it then, as it adds new differences as open ones.
Streaming statements run, too: those that have an end to it, others for as many rows as the script says.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.sql import Session
from tests.peers import flink_texts, sql_scripts

PATIENCE_SECONDS = 20.0  # for rows of a stream that do not come
LISTED = sql_scripts.FOLDER / "differences.tsv"
HEADER = "script\tline\tkind\twhy\n"


@pytest.mark.parametrize("name", sql_scripts.names())
@pytest.mark.sample(2)
def test_answers_are_flinks_but_for_listed_differences(name: str, tmp_path: Path, rewrite: bool) -> None:
    actual, listed = differences(name, str(tmp_path)), listed_differences()
    before = {line: entry for (script, line), entry in listed.items() if script == name}
    if rewrite:
        others = {key: entry for key, entry in listed.items() if key[0] != name}
        kept = {(name, line): before.get(line, ("open", brief(text))) for line, text in actual.items()}
        write(others | kept)
        return
    unlisted = {line: text for line, text in actual.items() if line not in before}
    assert not unlisted, "\n".join(f"{name}.sql, line {line}: {text}" for line, text in unlisted.items())
    agreeing = [line for line, (kind, _) in before.items() if kind == "meant" and line not in actual]
    assert not agreeing, f"{name}.sql, lines {agreeing}: listed as meant to differ, and they agree"


def test_the_listed_differences_are_of_statements_and_have_a_kind() -> None:
    lines = {
        name: {statement.line for statement in sql_scripts.statements(name)} for name in sql_scripts.names()
    }
    for (script, line), (kind, why) in listed_differences().items():
        assert line in lines[script], f"{script}.sql has no statement at line {line}"
        assert kind in ("meant", "open")
        assert why


def differences(name: str, warehouse: str) -> dict[int, str]:
    """How answers of ours differ from Flink's, by the lines of the statements."""
    session, actual = ts.sql_session(), dict[int, str]()
    session.sql(f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{warehouse}')")
    session.sql("USE CATALOG lake; SET 'table.dml-sync' = 'true'; SET 'execution.target' = 'local'")
    for statement, answer in zip(sql_scripts.statements(name), sql_scripts.recorded(name), strict=True):
        filled = statement.text.replace(sql_scripts.WAREHOUSE, warehouse)
        run = functools.partial(rows, session, filled, statement.limit)
        text = flink_texts.difference(
            placed(answer, warehouse), run, ordered=sql_scripts.ordered(statement.text)
        )
        if text:
            actual[statement.line] = f"{statement.text}\n{text.replace(warehouse, sql_scripts.WAREHOUSE)}"
    return actual


def placed(answer: sql_scripts.ScriptAnswer, warehouse: str) -> sql_scripts.ScriptAnswer:
    """The answer over this warehouse."""
    rows = [[cell and cell.replace(sql_scripts.WAREHOUSE, warehouse) for cell in row] for row in answer.rows]
    return replace(answer, rows=tuple(map(tuple, rows)))


def rows(session: Session, text: str, limit: int | None) -> pa.Table:
    """What a statement gives; of a stream without an end the first rows, as many as its script says."""
    result = session.sql(text)
    if not result.endless:
        return result.to_arrow()
    giving_up = threading.Timer(PATIENCE_SECONDS, result.stop)
    giving_up.start()
    try:
        return result.head(limit)
    finally:
        giving_up.cancel()
        result.stop()


def listed_differences() -> dict[tuple[str, int], tuple[str, str]]:
    """(kind, why) by (script, line)."""
    rows = [row.split("\t") for row in LISTED.read_text(encoding="utf-8").splitlines()[1:]]
    return {(script, int(line)): (kind, why) for script, line, kind, why in rows}


def write(entries: dict[tuple[str, int], tuple[str, str]]) -> None:
    rows = [f"{script}\t{line}\t{kind}\t{why}\n" for (script, line), (kind, why) in sorted(entries.items())]
    LISTED.write_text(HEADER + "".join(rows), encoding="utf-8")


def brief(text: str) -> str:
    """The difference in one short line, for the list."""
    said = text.partition("\n")[2] if "\n" in text else text
    for line in text.splitlines():
        if line.startswith(("rows of ours", "an error of ours", "no error of ours", "columns ")):
            return "other rows" if line.startswith("rows") else line[:110].replace("\t", " ")
    return said[:110]
