"""Random statements of SQL over tables of every kind: after each one a table holds what DuckDB's own holds,
and a query gives the same rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.sql import Session
from tests.campaign.outcome import Outcome

STATEMENTS = 8
"""A turn, each with a query behind it."""
_COLUMNS = "k INT, d DOUBLE, f FLOAT, n DECIMAL(12, 3), s {text}, t DATE, m TIMESTAMP{digits}"
_NAMES = "kdfnstm"
TABLES = {
    "keyed": ", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2')",
    "keyed with deletion vectors": ", PRIMARY KEY (k) NOT ENFORCED) "
    "WITH ('bucket' = '1', 'deletion-vectors.enabled' = 'true')",
    "moving keys": ", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '-1')",
    "appended": ") WITH ('deletion-vectors.enabled' = 'true')",
    "counted": ") WITH ('write-mode' = 'change-log', 'bucket' = '1')",
}
NO_NULLS = "counted"  # a whole row is its key
_TEXTS = ("'a'", "'ab'", "''", "'it''s'", "'%'", "'ü'", "'A'")
_DATES = ("0001-01-01", "1500-03-01", "1582-10-10", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31")


class Words:
    """Random parts of statements, in the SQL that both understand alike."""

    def __init__(self, seed: int, *, nulls: bool) -> None:
        self.draw, self._nulls = random.Random(seed), nulls

    def number(self) -> str:
        """A decimal literal of 1 to 9 digits."""
        digits = str(self.draw.randint(0, 10 ** self.draw.randint(1, 9)))
        at = self.draw.randint(max(0, len(digits) - 3), len(digits))
        sign = self.draw.choice(("", "-"))
        return f"{sign}{digits[:at] or '0'}.{digits[at:] or '0'}"

    def value(self, column: str) -> str:
        """A literal for a column, sometimes NULL."""
        if self._nulls and column != "k" and self.draw.random() < 0.1:
            return "NULL"
        if column == "k":
            return str(self.draw.randint(-3, 12))
        if column in "dfn":
            return self.number()
        if column == "s":
            return self.draw.choice(_TEXTS)
        day = self.draw.choice(_DATES)
        hour = self.draw.choice(("00:00:00", "23:59:59.999999", "12:34:56.000001"))
        return f"DATE '{day}'" if column == "t" else f"TIMESTAMP '{day} {hour}'"

    def rows(self) -> str:
        """Rows of different keys, as VALUES has them."""
        keys = self.draw.sample(range(-3, 13), self.draw.randint(1, 6))
        return ", ".join(f"({k}, {', '.join(self.value(c) for c in _NAMES[1:])})" for k in keys)

    def condition(self, depth: int = 2) -> str:
        """A condition on the table."""
        if depth and self.draw.random() < 0.5:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            actual = f"({left} {self.draw.choice(('AND', 'OR'))} {right})"
            return f"NOT {actual}" if self.draw.random() < 0.2 else actual
        column = self.draw.choice(_NAMES)
        first, second = (self._compared(column) for _ in range(2))
        forms = [f"{column} {self.draw.choice(('=', '<>', '<', '<=', '>', '>='))} {first}"] * 4
        forms += [f"{column} IN ({first}, {second})", f"{column} BETWEEN {first} AND {second}"]
        forms += [f"{column} IS NULL", f"{column} IS NOT NULL", "s LIKE 'a%'", "k % 2 = 0", "upper(s) = 'A'"]
        return self.draw.choice(forms)

    def _compared(self, column: str) -> str:
        actual = "NULL"
        while actual == "NULL":
            actual = self.value(column)
        return f"CAST({actual} AS FLOAT)" if column == "f" else actual

    def changes(self) -> str:
        """What UPDATE sets; never a key."""
        forms = {c: [self.value(c)] for c in _NAMES[1:]}
        forms["d"] += [f"d + {self.number()}", "CAST(n AS DOUBLE)", "d * 2"]
        forms["f"] += ["CAST(n AS FLOAT)", "CAST(d AS FLOAT)"]
        forms["n"] += ["-n", "k", "CAST(k AS DECIMAL(5, 1)) + 0.5"]
        forms["s"] += ["upper(s)", "CASE WHEN k > 3 THEN s ELSE 'b' END"]
        chosen = self.draw.sample(_NAMES[1:], self.draw.randint(1, 3))
        return ", ".join(f"{c} = {self.draw.choice(forms[c])}" for c in chosen)

    def query(self) -> str:
        """A query whose rows do not depend on an order."""
        where = self.condition()
        return self.draw.choice(
            (
                f"SELECT * FROM t WHERE {where}",
                f"SELECT k, d, CAST(n AS DOUBLE) AS x FROM t WHERE {where}",
                f"SELECT count(*) AS a, count(s) AS b, sum(n) AS c, sum(k) AS e, min(d) AS g, max(f) AS h, "
                f"min(t) AS i, max(m) AS j FROM t WHERE {where}",
                f"SELECT s, count(*) AS a, max(n) AS b FROM t WHERE {where} GROUP BY s HAVING count(*) > 0",
                f"SELECT DISTINCT t, s FROM t WHERE {where}",
                f"SELECT a.k, b.s, b.n FROM t AS a JOIN t AS b ON a.k = b.k + 1 WHERE a.{self._of_one()}",
                f"SELECT k FROM t WHERE n > (SELECT min(n) FROM t) AND {where}",
            )
        )

    def _of_one(self) -> str:
        return f"k > {self.draw.randint(-3, 10)}"


class DuckPair:
    """The same table here and in DuckDB."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.ours: Session = ts.sql_session(ts.connect(folder / "lake"))
        self.theirs, self.keyed = duckdb.connect(), "PRIMARY KEY" in TABLES[kind]
        self.ours.sql(f"CREATE TABLE t ({_COLUMNS.format(text='STRING', digits='(6)')}{TABLES[kind]}")
        key = ", PRIMARY KEY (k))" if self.keyed else ")"
        self.theirs.execute(f"CREATE TABLE t ({_COLUMNS.format(text='VARCHAR', digits='')}{key}")

    def change(self, words: Words) -> str:
        """Run one random statement in both; its text."""
        kind = words.draw.choice(("INSERT", "INSERT", "INSERT", "UPDATE", "UPDATE", "DELETE", "MERGE"))
        if kind == "INSERT":
            values = f"INTO t VALUES {words.rows()}"
            self.ours.sql(f"INSERT {values}")
            self.theirs.execute(f"INSERT {'OR REPLACE ' if self.keyed else ''}{values}")
            return f"INSERT {values}"
        if kind == "MERGE":
            names = ", ".join(_NAMES)
            taken = ", ".join(f"s.{name}" for name in _NAMES)
            text = (
                f"MERGE INTO t USING (SELECT * FROM (VALUES {words.rows()}) AS v ({names})) AS s "
                "ON t.k = s.k "
                "WHEN MATCHED AND t.k > 3 THEN DELETE WHEN MATCHED THEN UPDATE SET d = s.d, n = s.n, s = s.s "
                f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({taken})"
            )
        elif kind == "UPDATE":
            text = f"UPDATE t SET {words.changes()} WHERE {words.condition()}"
        else:
            text = f"DELETE FROM t WHERE {words.condition(3)}"
        self.ours.sql(text)
        self.theirs.execute(text)
        return text

    def rows(self, query: str) -> tuple[list[Any], list[Any]]:
        """Ours and theirs, sorted."""
        ours = [tuple(row.values()) for row in self.ours.sql(query).to_arrow().to_pylist()]
        return sorted(ours, key=repr), sorted(self.theirs.sql(query).fetchall(), key=repr)


def run(seed: int, folder: Path) -> Outcome:
    """A turn: statements over one kind of table."""
    kind = sorted(TABLES)[seed % len(TABLES)]
    words, pair = Words(seed, nulls=kind != NO_NULLS), DuckPair(folder, kind)
    done: list[str] = []
    for _ in range(STATEMENTS):
        try:
            done.append(pair.change(words))
            for query in ("SELECT * FROM t", words.query()):
                ours, theirs = pair.rows(query)
                if ours != theirs:
                    text = f"{kind}: {query}\n  here {ours}\n  DuckDB {theirs}\n  after {'; '.join(done)}"
                    return Outcome(len(done), {f"statements on {kind}": len(done)}, (text,))
        except (TablestoreError, duckdb.Error) as e:
            text = f"{kind}: {type(e).__name__}: {e}\n  after {'; '.join(done)}"
            return Outcome(len(done) + 1, {f"statements on {kind}": len(done)}, (text,))
    problems = pair.ours.lake().table("default.t").check()
    wrong = tuple(f"{kind}: check: {problem}" for problem in problems)
    return Outcome(len(done), {f"statements on {kind}": len(done)}, wrong)
