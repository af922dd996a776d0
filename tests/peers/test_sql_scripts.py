"""Scripts of tests/golden/flink-sql in Flink again: the recorded answers are Flink's, and we read all tables
that it leaves as Flink does. Some of them a run, chosen by the
seed.

`./workbench test tests/peers/test_sql_scripts.py --rewrite` records them anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tests.peers import flink_texts, sql_scripts
from tests.peers.flink_sql import FlinkError, FlinkSql

pytestmark = pytest.mark.peer


@pytest.mark.sample(1, all=6)
@pytest.mark.parametrize("name", sql_scripts.names())
@pytest.mark.large
def test_flink_gives_the_recorded_answers(name: str, flink: FlinkSql, tmp_path: Path, rewrite: bool) -> None:
    def run(statement: sql_scripts.ScriptStatement) -> tuple[list, list, list]:
        outcome = flink.run(statement.text, limit=statement.limit or 10_000)
        return outcome.columns, outcome.rows, outcome.kinds

    flink.start(tmp_path)
    actual = sql_scripts.answers(name, run, warehouse=str(tmp_path))
    if rewrite:
        sql_scripts.write(name, actual, engine="Flink 2.0.0, Java Paimon 2.0.0")
    for asked, now, before in zip(
        sql_scripts.statements(name), actual, sql_scripts.recorded(name), strict=True
    ):
        assert now == before, f"{name}.sql, line {asked.line}: {asked.text}"
    both_read_all_tables(flink, ts.connect(str(tmp_path)))


def both_read_all_tables(flink: FlinkSql, lake: ts.Lake) -> None:
    """The rows that Flink and we find in every table that a script left are the same, or neither reads it."""
    for name in (f"{base}.{t}" for base in lake.databases() for t in lake.tables(base)):
        scan = lake.table(name).scan()
        columns = ", ".join(f"`{column}`" for column in scan.schema.names)
        try:
            theirs = flink.run(f"SELECT {columns} FROM `lake`.`{name.replace('.', '`.`')}`")
            rows = tuple(sorted(map(tuple, theirs.rows), key=sql_scripts.sort_key))
            answer = sql_scripts.ScriptAnswer(tuple(map(tuple, theirs.columns)), rows)
        except FlinkError as e:
            answer = sql_scripts.ScriptAnswer(error=str(e))
        assert flink_texts.difference(answer, scan.to_arrow, ordered=False, types=True) == "", name


def test_scripts_are_split_outside_of_quotes_comments_and_blocks() -> None:
    block = "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END"
    text = f"-- a; b\nSELECT ';' ;\n-- rows: 2\n\n{block};\nVALUES (1) -- ;\n;"
    actual = [(statement.line, statement.text, statement.limit) for statement in sql_scripts.split(text)]
    assert actual == [(2, "SELECT ';'", None), (5, block, 2), (6, "VALUES (1) -- ;", None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t ORDER\n BY a", True),
        ("SELECT * FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT rank() OVER (ORDER BY a) FROM t", False),
        ("SELECT 'x ORDER BY y'", False),
    ],
)
def test_only_an_outer_order_by_gives_rows_an_order(text: str, expected: bool) -> None:
    assert sql_scripts.ordered(text) is expected
