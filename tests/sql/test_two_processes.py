"""Two sessions in two processes on one warehouse: each statement is carried out wholly or not at all, what it
met is named, and nothing of what was answered is lost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts

KINDS = (
    "(id INT, n INT, note STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2')",
    "(id INT, n INT, note STRING) WITH ('deletion-vectors.enabled' = 'true', 'bucket' = '-1')",
)
ACCOUNTS, EACH = 4, 100
ROUNDS = 4
NAMED = ("CommitConflict", "AlreadyExists", "NotFound", "InvalidRequest", "SchemaMismatch")


def statements(rng: random.Random, who: int) -> list[tuple[str, str]]:
    """(what it is for, the statement) of one process."""
    collected = []
    for i in range(ROUNDS):
        rows = ", ".join(f"({100 * who + i}, {k}, 'p{who} r{i}')" for k in range(5))
        payer, payee = rng.sample(range(ACCOUNTS), 2)
        collected += [
            (f"insert p{who} r{i}", f"INSERT INTO log VALUES {rows}"),
            ("count", "UPDATE counter SET n = n + 1 WHERE id = 0"),
            (
                "transfer",
                f"MERGE INTO accounts AS a USING (VALUES ({payer}, -3), ({payee}, 3)) AS d (id, by_n) "
                "ON a.id = d.id WHEN MATCHED THEN UPDATE SET n = a.n + d.by_n",
            ),
            (f"alter c{i}", f"ALTER TABLE wide ADD c{i} INT"),
            (f"create {i}", f"CREATE TABLE side_{i} (id INT)"),
            (f"drop {i}", f"DROP TABLE side_{i}"),
            ("copy", "CREATE TABLE copy AS SELECT id, n FROM accounts"),
            ("drop copy", "DROP TABLE copy"),
            (f"delete p{who}", f"DELETE FROM log WHERE id = {100 * who + rng.randrange(i + 1)}"),
        ]
    return collected


def run(warehouse: str, who: str, seed: str) -> None:
    """What one process does; prints what became of each statement."""
    session = ts.sql_session(ts.connect(warehouse))
    session.sql("USE shop")
    print("ready", flush=True)
    sys.stdin.readline()
    for purpose, text in statements(random.Random(int(seed)), int(who)):
        try:
            session.sql(text)
            outcome = ""
        except ts.TablestoreError as e:
            outcome = type(e).__name__
        print(json.dumps([purpose, text, outcome]), flush=True)


def outcomes(warehouse: Path, seeds: tuple[int, int]) -> list[list[tuple[str, str, str]]]:
    """What two processes report that start at the same moment."""
    created = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(warehouse), str(who), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for who, seed in enumerate(seeds)
    ]
    try:
        for process in created:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in created:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        actual = [process.communicate(timeout=240)[0] for process in created]
        assert [process.returncode for process in created] == [0, 0]
    finally:
        for process in created:
            process.kill()
    return [[tuple(json.loads(line)) for line in text.splitlines()] for text in actual]


@pytest.mark.large
def test_each_statement_is_whole_or_nothing(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    first = seeds[0]
    lake = ts.connect(tmp_path)
    session = ts.sql_session(lake)
    session.sql("CREATE DATABASE shop; USE shop; CREATE TABLE log (id INT, n INT, note STRING)")
    for i, name in enumerate(("counter", "accounts", "wide")):
        session.sql(f"CREATE TABLE {name} {KINDS[(first + i) % 2]}")
    session.sql("INSERT INTO counter VALUES (0, 0, ''); INSERT INTO wide VALUES (0, 0, '')")
    for account in range(ACCOUNTS):
        session.sql("INSERT INTO accounts VALUES (?, ?, '')", [account, EACH])
    reports = outcomes(tmp_path, (first, first + 1))
    assert [len(report) for report in reports] == [9 * ROUNDS] * 2
    both = [entry for report in reports for entry in report]
    assert {error for *_, error in both} <= {"", *NAMED}, Counter(error for *_, error in both)

    def rows(text: str) -> list[dict[str, Any]]:
        return session.sql(text).to_arrow().to_pylist()

    done = Counter(purpose for purpose, _, error in both if not error)
    assert rows("SELECT n FROM counter") == [{"n": done["count"]}], "no update is lost, none is half done"
    assert rows("SELECT sum(n) AS total, count(*) AS n FROM accounts") == [
        {"total": ACCOUNTS * EACH, "n": ACCOUNTS}
    ]
    kept = {row["note"]: row["n"] for row in rows("SELECT note, count(*) AS n FROM log GROUP BY note")}
    inserted = {purpose.removeprefix("insert ") for purpose in done if purpose.startswith("insert")}
    assert set(kept) <= inserted
    assert set(kept.values()) <= {5}, "five rows of a statement, or none"
    for report in reports:
        gone = {text for purpose, text, error in report if purpose.startswith("delete") and not error}
        for purpose, text, error in report:
            if (
                purpose.startswith("insert")
                and not error
                and not any(_deletes(statement, text) for statement in gone)
            ):
                assert purpose.removeprefix("insert ") in kept
    columns = session.sql("SELECT * FROM wide").to_arrow().column_names
    assert sorted(columns[3:]) == [f"c{i}" for i in range(ROUNDS)]
    assert all(done[f"alter c{i}"] == 1 for i in range(ROUNDS)), "exactly one of the two adds a column"
    if "shop.copy" in lake:
        assert rows("SELECT count(*) AS n FROM copy") == [{"n": ACCOUNTS}]
    for i in range(ROUNDS):
        there = f"shop.side_{i}" in lake
        left = done[f"create {i}"] - done[f"drop {i}"]
        assert left == int(there) or (left, there) == (-1, False), "two may drop one table at the same moment"
    for name in lake.tables("shop"):
        assert lake.table(f"shop.{name}").check() == []


def _deletes(delete: str, insert: str) -> bool:
    """Whether a DELETE is of the rows of an INSERT."""
    return f"({delete.rpartition(' ')[2]}, " in insert


if __name__ == "__main__":
    run(*sys.argv[1:])
