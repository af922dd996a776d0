"""UPDATE, DELETE, TRUNCATE and MERGE: each against DuckDB's own, over random rows and statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tablestore as ts
from tablestore.sql import Session, SqlProblem
from tablestore.sql.statements import changing, merge

KINDS: dict[str, dict[str, Any]] = {
    "keyed": {"primary_key": ["k"], "options": {"bucket": 2}},
    "append": {"options": {"deletion-vectors.enabled": True}},
    "counted": {"options": {"write-mode": "change-log", "bucket": 1}},
}
COLUMNS = {"k": ts.INT, "a": ts.INT, "s": ts.STRING}

numbers = st.integers(-3, 3)
texts = st.sampled_from(["x", "y", "", "it's"])
some_rows = st.dictionaries(st.integers(0, 12), st.tuples(numbers, texts), max_size=10)
expressions = st.sampled_from(
    [
        "7",
        "a + 1",
        "a * a",
        "-a",
        "CASE WHEN a > 0 THEN k ELSE a END",
        "(SELECT count(a) FROM other)",
        "length(s)",
    ]
)
conditions = st.recursive(
    st.one_of(
        st.tuples(st.sampled_from("ka"), st.sampled_from(["=", "<>", "<", ">="]), numbers).map(
            lambda t: f"{t[0]} {t[1]} {t[2]}"
        ),
        st.sampled_from(
            [
                *("s = 'it''s'", "s LIKE 'x%'", "k % 2 = 0", "a IN (1, 2)", "a IN (SELECT a FROM other)"),
                *("a = k", "EXISTS (SELECT 1 FROM other AS o WHERE o.k = t.k)", "upper(s) = 'Y'"),
                "NOT a BETWEEN 0 AND 2",
            ]
        ),
    ),
    lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
        lambda t: f"({t[0]} {t[1]} {t[2]})"
    ),
    max_leaves=4,
)


class Both:
    """The same tables here and in DuckDB."""

    def __init__(self, path: Path, kind: str, target: dict[int, Any], other: dict[int, Any]) -> None:
        lake = ts.connect(path)
        self.ours, self.theirs = ts.sql_session(lake), duckdb.connect()
        for name, rows in (("t", target), ("other", other)):
            options = KINDS[kind] if name == "t" else {}
            table = lake.create_table(f"default.{name}", schema=COLUMNS, **options)
            data = pa.table(
                {
                    "k": pa.array(rows, pa.int32()),
                    "a": pa.array([a for a, _ in rows.values()], pa.int32()),
                    "s": pa.array([s for _, s in rows.values()], pa.string()),
                }
            )
            half = len(data) // 2 if name == "t" else 0
            for part in (data[:half], data[half:]):
                if len(part):
                    table.write(part)
            self.theirs.register("rows", data)
            self.theirs.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")

    def run(self, statement: str) -> None:
        self.ours.sql(statement)
        self.theirs.execute(statement)

    def require_equal(self) -> None:
        query = "SELECT * FROM t ORDER BY k, a, s"
        actual = [tuple(row.values()) for row in self.ours.sql(query).to_arrow().to_pylist()]
        assert actual == self.theirs.sql(query).fetchall()


def examples(request: pytest.FixtureRequest) -> settings:
    """Six examples with the default of `--rounds`, as many times more with more of them."""
    return settings(
        max_examples=max(2, 6 * request.config.option.rounds // 5),
        phases=(Phase.explicit, Phase.generate),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1)
def test_update_and_delete_do_what_duckdb_does(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, kind: str
) -> None:
    @examples(request)
    @given(target=some_rows, other=some_rows, value=expressions, where=conditions, gone=conditions)
    def example(target: dict[int, Any], other: dict[int, Any], value: str, where: str, gone: str) -> None:
        both = Both(tmp_path_factory.mktemp("lake"), kind, target, other)
        both.run(f"UPDATE t SET a = {value}, s = 'new' WHERE {where}")
        both.require_equal()
        both.run(f"DELETE FROM t WHERE {gone}")
        both.require_equal()

    example()


conditional = st.sampled_from(
    [
        "WHEN MATCHED AND s.a > 0 THEN UPDATE SET a = s.a + t.a",
        "WHEN MATCHED AND t.a < s.a THEN UPDATE SET a = t.a * 2, s = 'less'",
        "WHEN MATCHED AND s.s = 'x' THEN DELETE",
        "WHEN NOT MATCHED AND s.a > 0 THEN INSERT (k, a, s) VALUES (s.k, s.a * 2, 'in')",
        "WHEN NOT MATCHED BY SOURCE AND t.a > 0 THEN DELETE",
    ]
)
unconditional = st.sampled_from(
    [
        "WHEN MATCHED THEN UPDATE SET a = s.a, s = s.s",
        "WHEN MATCHED THEN DELETE",
        "WHEN NOT MATCHED THEN INSERT (k, a, s) VALUES (s.k, s.a, s.s)",
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s = 'alone'",
    ]
)
clauses = st.tuples(
    st.lists(conditional, max_size=3),
    st.lists(unconditional, min_size=1, max_size=2, unique_by=lambda when: when.split(" THEN ")[0]),
).map(lambda lists: [*lists[0], *lists[1]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1)
def test_merge_does_what_duckdb_does(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, kind: str
) -> None:
    @examples(request)
    @given(target=some_rows, other=some_rows, whens=clauses)
    def example(target: dict[int, Any], other: dict[int, Any], whens: list[str]) -> None:
        both = Both(tmp_path_factory.mktemp("lake"), kind, target, other)
        both.run(f"MERGE INTO t USING other AS s ON t.k = s.k {' '.join(whens)}")
        both.require_equal()

    example()


@pytest.mark.parametrize("few", [2, 1_000])
def test_merge_of_many_rows_is_that_of_few(
    session: Session, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(changing, "BATCH_ROWS", few)
    monkeypatch.setattr(merge, "_FEW", few)
    source = ", ".join(f"({k}, 'c{k}', {k}.5)" for k in range(2, 9))
    result = session.sql(
        f"MERGE INTO orders AS t USING (VALUES {source}) AS s (order_id, customer, amount) "
        "ON t.order_id = s.order_id WHEN MATCHED AND s.order_id = 2 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET customer = s.customer WHEN NOT MATCHED THEN INSERT *"
    )
    assert result.rows_affected == 7
    after = session.sql("SELECT order_id, customer FROM orders ORDER BY 1").to_arrow().to_pydict()
    assert after["order_id"] == [1, *range(3, 9)]
    assert after["customer"][1:] == [f"c{k}" for k in range(3, 9)]


def test_merge_with_stars_and_a_query(session: Session) -> None:
    session.sql(
        "MERGE INTO orders AS t "
        "USING (SELECT order_id + 1 AS order_id, 'm' AS customer, 1.5 AS amount FROM orders) AS s "
        "ON t.order_id = s.order_id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    result = session.sql("SELECT order_id, customer FROM orders ORDER BY 1").to_arrow()
    assert result["customer"].to_pylist() == ["ann", "m", "m", "m"]


@pytest.mark.parametrize(
    ("statement", "kind", "problem"),
    [
        ("UPDATE orders SET nope = 1", ts.NotFound, "no column 'nope'"),
        ("UPDATE orders SET order_id = 1", ts.InvalidRequest, "part of the primary key"),
        ("UPDATE orders SET amount = 1, amount = 2", SqlProblem, "'amount' gets two values"),
        ("UPDATE orders AS o SET x.amount = 1", SqlProblem, "'x' is not what is changed: o is"),
        (
            "UPDATE orders SET amount = 1e9",
            ts.SchemaMismatch,
            "and a value does not fit",
        ),
        ("UPDATE orders SET amount = order_id * 1e9", ts.SchemaMismatch, "and a value does not fit"),
        ("UPDATE orders SET customer = order_id", ts.SchemaMismatch, "column 'customer' is int32"),
        (
            "MERGE INTO orders AS o USING (VALUES (1)) AS s (i) ON o.order_id = s.i "
            "WHEN MATCHED THEN UPDATE SET customer = s.i",
            ts.SchemaMismatch,
            "column 'customer' is int32",
        ),
        ("DELETE FROM orders WHERE order_id = (SELECT 1 / 0 FROM nope)", ts.NotFound, "no table 'shop.nope'"),
        ("DELETE FROM events WHERE n = 1", ts.InvalidRequest, "deletion"),
        ("TRUNCATE TABLE events PARTITION (n = 1)", ts.NotFound, "no partition column 'n'"),
        (
            "MERGE INTO orders t USING (VALUES (1), (1)) AS s (id) ON t.order_id = s.id "
            "WHEN MATCHED THEN DELETE",
            ts.InvalidRequest,
            "matches more than one row of the source",
        ),
        (
            "MERGE INTO orders USING orders ON 1 = 1 WHEN MATCHED THEN DELETE",
            SqlProblem,
            "are both named orders",
        ),
        (
            "MERGE INTO orders t USING events s ON t.order_id = s.n WHEN NOT MATCHED THEN INSERT *",
            ts.InvalidRequest,
            "the source lacks 'order_id'",
        ),
        (
            "MERGE INTO orders t USING events s ON t.order_id = s.n "
            "WHEN MATCHED THEN UPDATE SET order_id = 5",
            ts.InvalidRequest,
            "part of the primary key",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_written(
    session: Session, statement: str, kind: type[Exception], problem: str
) -> None:
    with pytest.raises(kind) as e:
        session.sql(statement)
    assert problem in str(e.value)
    assert session.sql("SELECT max(snapshot_id) AS n FROM orders$snapshots").to_arrow()["n"].to_pylist() == [
        2
    ]


def test_truncate(session: Session) -> None:
    session.sql("TRUNCATE TABLE events PARTITION (day = '2026-01-01')")
    assert session.sql("SELECT n FROM events").to_arrow()["n"].to_pylist() == [2]
    session.sql("TRUNCATE TABLE events")
    assert len(session.sql("SELECT n FROM events")) == 0


def test_a_merge_that_only_inserts_needs_no_deletion_vectors(session: Session) -> None:
    session.sql("CREATE TABLE plain (k INT, a INT); INSERT INTO plain VALUES (1, 1), (2, 2)")
    source = "MERGE INTO plain t USING (VALUES (2, 20), (3, 30)) AS s (k, a) ON t.k = s.k"
    inserts = "WHEN NOT MATCHED THEN INSERT (k, a) VALUES (s.k, s.a)"
    assert session.sql(f"{source} {inserts}").rows_affected == 1
    assert session.sql("SELECT * FROM plain ORDER BY k").to_arrow()["a"].to_pylist() == [1, 2, 30]
    snapshots = session.lake().table("shop.plain").inspect.snapshots().num_rows
    updates = f"{source} WHEN MATCHED THEN UPDATE SET a = s.a {inserts}"
    with pytest.raises(ts.InvalidRequest, match="by deletion vectors only"):
        session.sql(updates)
    table = session.lake().table("shop.plain")
    assert (table.inspect.snapshots().num_rows, table.check()) == (snapshots, [])


@pytest.mark.parametrize("statement", ["UPDATE plain SET a = a + 1", "DELETE FROM plain WHERE a = 1"])
def test_the_remedy_of_a_statement_is_a_statement(session: Session, statement: str) -> None:
    session.sql("CREATE TABLE plain (k INT, a INT); INSERT INTO plain VALUES (1, 1), (2, 2)")
    with pytest.raises(ts.InvalidRequest) as e:
        session.sql(statement)
    remedy = str(e.value).partition("or first ")[2].splitlines()[0]
    session.sql(f"{remedy}; {statement}")
    there = session.sql("SELECT sum(a) AS total FROM plain").to_arrow()["total"].to_pylist()
    assert there == [5 if statement.startswith("UPDATE") else 2]


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("UPDATE d SET a = DEFAULT WHERE k = 1", (1, 5, "y", 3)),
        ("UPDATE d SET a = DEFAULT, s = default, b = DEFAULT", (1, 5, "x", None)),
        ("UPDATE d SET a = DEFAULT, s = upper(s)", (1, 5, "Y", 3)),
        (
            "MERGE INTO d USING (VALUES (1, 7)) AS s (k, a) ON d.k = s.k "
            "WHEN MATCHED THEN UPDATE SET s = DEFAULT, a = s.a",
            (1, 7, "x", 3),
        ),
        (
            "MERGE INTO d USING (VALUES (0, 7)) AS s (k, a) ON d.k = s.k "
            "WHEN NOT MATCHED THEN INSERT (k, a, s, b) VALUES (s.k, DEFAULT, 'new', DEFAULT)",
            (0, 5, "new", None),
        ),
    ],
)
def test_default_is_that_of_the_column(session: Session, statement: str, row: tuple[Any, ...]) -> None:
    columns = "k INT PRIMARY KEY NOT ENFORCED, a INT DEFAULT 5, s STRING DEFAULT 'x', b INT"
    session.sql(f"CREATE TABLE d ({columns}) WITH ('bucket' = '1'); INSERT INTO d VALUES (1, 2, 'y', 3)")
    session.sql(statement)
    assert tuple(session.sql("SELECT * FROM d ORDER BY k").to_arrow().to_pylist()[0].values()) == row


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("INSERT INTO d VALUES (1, DEFAULT, DEFAULT)", (1, 5, None)),
        ("INSERT INTO d VALUES (1, 6, 'z'), (0, DEFAULT, 'a')", (0, 5, "a")),
        ("INSERT INTO d (s, a, k) VALUES ('b', default, 0)", (0, 5, "b")),
        ("UPDATE d SET a = DEFAULT", (1, 5, "y")),
        ("UPDATE d SET a = DEFAULT, s = upper(s)", (1, 5, "Y")),
        (
            "MERGE INTO d USING (VALUES (1, 7)) AS n (k, a) ON d.k = n.k "
            "WHEN MATCHED THEN UPDATE SET a = DEFAULT",
            (1, 5, "y"),
        ),
        (
            "MERGE INTO d USING (VALUES (0, 7)) AS n (k, a) ON d.k = n.k "
            "WHEN NOT MATCHED THEN INSERT (k, a) VALUES (n.k, DEFAULT)",
            (0, 5, None),
        ),
    ],
)
def test_default_of_a_column_without_nulls(session: Session, statement: str, row: tuple[Any, ...]) -> None:
    session.sql("CREATE TABLE d (k INT PRIMARY KEY NOT ENFORCED, a INT NOT NULL DEFAULT 5, s STRING)")
    session.sql("INSERT INTO d VALUES (1, 2, 'y')")
    session.sql(statement)
    assert tuple(session.sql("SELECT * FROM d ORDER BY k").to_arrow().to_pylist()[0].values()) == row


def test_default_of_a_column_that_has_none_and_no_nulls_is_refused(session: Session) -> None:
    session.sql("CREATE TABLE d (k INT PRIMARY KEY NOT ENFORCED, a INT NOT NULL)")
    with pytest.raises(ts.SchemaMismatch, match="column 'a' is NOT NULL"):
        session.sql("INSERT INTO d VALUES (1, DEFAULT)")
    assert session.sql("SELECT * FROM d").to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("UPDATE {c}.shop.d SET {c}.shop.d.a = shop.d.a + 1 WHERE {c}.shop.d.k = 1", [(1, 3), (2, 3)]),
        ("UPDATE shop.d SET a = 9 WHERE upper(shop.d.s) = 'X'", [(1, 9), (2, 3)]),
        ("DELETE FROM {c}.shop.d WHERE {c}.shop.d.k = 1", [(2, 3)]),
        ("DELETE FROM shop.d WHERE length(shop.d.s) = 2", [(1, 2)]),
        (
            "MERGE INTO {c}.shop.d USING {c}.shop.n ON {c}.shop.d.k = {c}.shop.n.k "
            "WHEN MATCHED THEN UPDATE SET {c}.shop.d.a = shop.d.a * shop.n.a "
            "WHEN NOT MATCHED THEN INSERT (k, a) VALUES ({c}.shop.n.k, shop.n.a)",
            [(1, 14), (2, 3), (8, 8)],
        ),
    ],
)
def test_columns_of_a_table_that_is_named_whole(
    session: Session, statement: str, rows: list[tuple[int, int]]
) -> None:
    session.sql(
        "CREATE TABLE d (k INT PRIMARY KEY NOT ENFORCED, a INT, s STRING); CREATE TABLE n (k INT, a INT)"
    )
    session.sql("INSERT INTO d VALUES (1, 2, 'x'), (2, 3, 'yy'); INSERT INTO n VALUES (1, 7), (8, 8)")
    session.sql(statement.format(c=session.catalog))
    result = session.sql("SELECT k, a FROM d ORDER BY k").to_arrow().to_pylist()
    assert [tuple(row.values()) for row in result] == rows


def test_a_column_of_another_database_is_not_what_is_changed(session: Session) -> None:
    session.sql("CREATE TABLE d (k INT PRIMARY KEY NOT ENFORCED, a INT)")
    with pytest.raises(ts.InvalidRequest, match=r"'other\.d' is not what is changed"):
        session.sql("UPDATE shop.d SET other.d.a = 1")


def test_a_null_that_is_computed_for_a_column_without_nulls_is_refused(session: Session) -> None:
    session.sql("CREATE TABLE d (k INT PRIMARY KEY NOT ENFORCED, a INT NOT NULL DEFAULT 5, s STRING)")
    session.sql("INSERT INTO d VALUES (1, 2, 'y')")
    with pytest.raises(ts.SchemaMismatch, match="column 'a' is NOT NULL and row 0"):
        session.sql("UPDATE d SET a = NULL, s = upper(s)")
    assert session.sql("SELECT * FROM d").to_arrow().to_pylist() == [{"k": 1, "a": 2, "s": "y"}]
