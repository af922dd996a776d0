"""ALTER TABLE, DROP TABLE, ANALYZE TABLE: a statement does what the verb does."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.sql import Session, SqlProblem

MADE = (
    "CREATE TABLE t (k INT NOT NULL COMMENT 'the key', p AS PROCTIME(), v DECIMAL(10, 2), "
    "d AS CAST(ts AS DATE) COMMENT 'it''s', w AS v * 2 + 1, n VARCHAR(5), ts TIMESTAMP(3), "
    "r ROW<x INT, y STRING>, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, "
    "PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2')"
)


@pytest.fixture
def session_with_table(session: Session) -> Session:
    session.sql(MADE)
    return session


def schema(session: Session, name: str = "shop.t") -> Any:
    return session.lake().table(name).store.schema


def layout(session: Session) -> list[str]:
    return [row["name"] for row in session.sql("DESCRIBE t").to_arrow().to_pylist()]


def test_options_and_the_comment(session_with_table: Session) -> None:
    session_with_table.sql("ALTER TABLE t SET ('snapshot.num-retained.min' = '3', 'comment' = 'hello')")
    session_with_table.sql("ALTER TABLE t SET TBLPROPERTIES ('file.format' = 'avro')")
    assert schema(session_with_table).comment == "hello"
    assert schema(session_with_table).options["snapshot.num-retained.min"] == "3"
    session_with_table.sql("ALTER TABLE t RESET ('snapshot.num-retained.min', 'comment')")
    session_with_table.sql("ALTER TABLE t UNSET TBLPROPERTIES ('file.format')")
    assert schema(session_with_table).comment is None
    assert not {"file.format", "snapshot.num-retained.min"} & set(schema(session_with_table).options)


def test_columns_come_go_and_move(session_with_table: Session) -> None:
    before = layout(session_with_table)
    assert before == ["k", "p", "v", "d", "w", "n", "ts", "r"]
    session_with_table.sql(
        "ALTER TABLE t ADD (x INT COMMENT 'c' AFTER k, y AS k + 1, z STRING DEFAULT 'a' FIRST)"
    )
    assert layout(session_with_table) == ["z", "k", "x", "p", "v", "d", "w", "n", "ts", "r", "y"]
    session_with_table.sql(
        "ALTER TABLE t DROP (w, x); ALTER TABLE t DROP COLUMN z; ALTER TABLE t RENAME d TO d2"
    )
    session_with_table.sql("ALTER TABLE t RENAME COLUMN v TO v2")
    assert layout(session_with_table) == ["k", "p", "v2", "d2", "n", "ts", "r", "y"]
    session_with_table.sql("ALTER TABLE t MODIFY (n VARCHAR(9) COMMENT 'wider' FIRST, v2 DECIMAL(12, 2))")
    assert layout(session_with_table) == ["n", "k", "p", "v2", "d2", "ts", "r", "y"]
    assert str(schema(session_with_table).by_name["n"].type) == "VARCHAR(9)"
    options = {k: v for k, v in schema(session_with_table).options.items() if k.startswith("schema.")}
    assert options == {
        "schema.2.name": "p",
        "schema.2.expr": "PROCTIME()",
        "schema.2.data-type": "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
        "schema.4.name": "d2",
        "schema.4.expr": "CAST(`ts` AS DATE)",
        "schema.4.data-type": "DATE",
        "schema.4.comment": "it's",
        "schema.7.name": "y",
        "schema.7.expr": "`k` + 1",
        "schema.7.data-type": "INT NOT NULL",
        "schema.watermark.0.rowtime": "ts",
        "schema.watermark.0.strategy.expr": "`ts` - INTERVAL '5' SECOND",
        "schema.watermark.0.strategy.data-type": "TIMESTAMP(6)",
    }


def test_the_python_face_keeps_computed_columns_in_their_places(session_with_table: Session) -> None:
    table = session_with_table.lake().table("shop.t")
    table.alter(ts.drop("n"), ts.add("a", ts.INT, first=True), ts.move("r", first=True))
    assert layout(session_with_table) == ["r", "a", "k", "p", "v", "d", "w", "ts"]
    with pytest.raises(ts.InvalidRequest, match="column 'w' is computed"):
        table.alter(ts.retype("w", ts.BIGINT))
    with pytest.raises(ts.InvalidOption, match="of a computed column or the watermark"):
        table.alter(ts.reset_options("schema.1.expr"))


def test_computed_columns_change_and_the_watermark(session_with_table: Session) -> None:
    session_with_table.sql(
        "ALTER TABLE t MODIFY w AS v * 3 COMMENT 'thrice'; ALTER TABLE t MODIFY d AS CAST(ts AS DATE) FIRST"
    )
    assert layout(session_with_table) == ["d", "k", "p", "v", "w", "n", "ts", "r"]
    assert schema(session_with_table).options["schema.4.expr"] == "`v` * 3"
    session_with_table.sql("ALTER TABLE t DROP WATERMARK")
    assert "schema.watermark.0.rowtime" not in schema(session_with_table).options
    with pytest.raises(ts.NotFound, match="has no watermark: write ADD WATERMARK"):
        session_with_table.sql("ALTER TABLE t MODIFY WATERMARK FOR ts AS ts")
    session_with_table.sql("ALTER TABLE t ADD WATERMARK FOR ts AS ts - INTERVAL '1' SECOND")
    session_with_table.sql("ALTER TABLE t MODIFY WATERMARK FOR ts AS ts")
    assert schema(session_with_table).options["schema.watermark.0.strategy.expr"] == "`ts`"


def test_alter_column_of_spark_and_nested_fields(session_with_table: Session) -> None:
    session_with_table.sql(
        "ALTER TABLE t ADD COLUMNS (r.z INT AFTER x); ALTER TABLE t RENAME COLUMN r.y TO yy"
    )
    session_with_table.sql(
        "ALTER TABLE t ALTER COLUMN r.x TYPE BIGINT; ALTER TABLE t ALTER COLUMN n COMMENT 'a name' AFTER k"
    )
    session_with_table.sql("ALTER TABLE t ALTER COLUMN v SET DEFAULT 1.5; ALTER TABLE t DROP r.z")
    assert str(schema(session_with_table).by_name["r"].type) == "ROW<`x` BIGINT, `yy` STRING>"
    assert (
        schema(session_with_table).by_name["v"].default,
        schema(session_with_table).by_name["n"].description,
    ) == ("1.5", "a name")
    assert layout(session_with_table)[:2] == ["k", "n"]
    session_with_table.sql("ALTER TABLE t ALTER COLUMN v DROP DEFAULT")
    session_with_table.sql("ALTER TABLE t SET ('alter-column-null-to-not-null.disabled' = 'false')")
    session_with_table.sql("ALTER TABLE t ALTER COLUMN v SET NOT NULL")
    assert (
        schema(session_with_table).by_name["v"].default,
        schema(session_with_table).by_name["v"].type.nullable,
    ) == (None, False)
    session_with_table.sql("ALTER TABLE t MODIFY v DECIMAL(10, 2)")
    assert schema(session_with_table).by_name["v"].type.nullable


def test_a_table_gets_another_name(session: Session) -> None:
    session.sql(
        "CREATE DATABASE stock; ALTER TABLE orders RENAME TO `a b`; ALTER TABLE events RENAME TO stock.e"
    )
    assert session.lake().tables() == ["shop.a b", "stock.e"]
    session.sql(
        "CREATE TEMPORARY TABLE src (a INT) WITH ('connector' = 'datagen'); ALTER TABLE src RENAME TO s2"
    )
    assert list(session.temporary) == [("lake", "shop", "s2")]
    with pytest.raises(ts.AlreadyExists):
        session.sql("CREATE TABLE c (a INT); ALTER TABLE c RENAME TO `a b`")


def test_partitions_are_dropped(session: Session) -> None:
    events = session.lake().table("shop.events")
    session.sql("ALTER TABLE events ADD PARTITION (day = '2027-01-01')")
    with pytest.raises(ts.AlreadyExists, match="partition day=2026-01-01 of events exists"):
        session.sql("ALTER TABLE events ADD PARTITION (day = '2026-01-01')")
    session.sql("ALTER TABLE events ADD IF NOT EXISTS PARTITION (day = '2026-01-01')")
    done = session.sql("ALTER TABLE events DROP PARTITION (day = DATE '2026-01-01')")
    assert done.snapshots == (2,)
    assert events.refresh().scan().to_arrow()["day"].to_pylist() == [dt.date(2026, 1, 2)]
    with pytest.raises(ts.NotFound, match="no partition day=2026-01-01"):
        session.sql("ALTER TABLE events DROP PARTITION (day = '2026-01-02'), PARTITION (day = '2026-01-01')")
    assert events.refresh().scan().count() == 1
    session.sql(
        "ALTER TABLE events DROP IF EXISTS PARTITION (day = '2026-01-02'), PARTITION (day = '2026-01-01')"
    )
    assert events.refresh().scan().count() == 0


def test_drop_and_analyze(session: Session) -> None:
    done = session.sql("ANALYZE TABLE orders COMPUTE STATISTICS FOR COLUMNS customer")
    assert done.snapshots == (3,)
    session.sql(
        "ANALYZE TABLE orders COMPUTE STATISTICS; ANALYZE TABLE orders COMPUTE STATISTICS FOR ALL COLUMNS"
    )
    session.sql("CREATE TEMPORARY TABLE orders (a INT) WITH ('connector' = 'datagen')")
    with pytest.raises(ts.InvalidRequest, match="write DROP TEMPORARY TABLE"):
        session.sql("DROP TABLE orders")
    session.sql("DROP TEMPORARY TABLE orders; DROP TABLE orders; DROP TABLE IF EXISTS orders")
    assert session.lake().tables() == ["shop.events"]


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        (
            "ALTER TABLE t DROP v",
            ts.InvalidRequest,
            "column 20: column 'v' cannot be dropped: 'w' is computed",
        ),
        ("ALTER TABLE t DROP ts", ts.InvalidRequest, "'ts' cannot be dropped: 'd' is computed from it"),
        ("ALTER TABLE t RENAME v TO x", ts.InvalidRequest, "'v' cannot be renamed: 'w' is computed from it"),
        ("ALTER TABLE t DROP (n, zz)", ts.NotFound, "column 24: no column 'zz'"),
        ("ALTER TABLE t ADD (x INT, n INT)", ts.AlreadyExists, "column 27: column 'n' exists"),
        ("ALTER TABLE t ADD x INTT", ts.InvalidRequest, "'INTT' is no type"),
        ("ALTER TABLE t ADD x AS zz", ts.NotFound, "no column 'zz'"),
        ("ALTER TABLE t ADD x INT NOT NULL", ts.SchemaMismatch, "is NOT NULL, but the rows that exist"),
        ("ALTER TABLE t MODIFY k BIGINT", ts.InvalidRequest, "part of a key; its type cannot change"),
        ("ALTER TABLE t MODIFY n INT AFTER zz", ts.NotFound, "no column 'zz'"),
        ("ALTER TABLE t MODIFY n AS 1", ts.InvalidRequest, "is stored"),
        ("ALTER TABLE t DROP PRIMARY KEY", ts.Unsupported, "column 20: not supported: DROP PRIMARY KEY"),
        ("ALTER TABLE t ADD PRIMARY KEY (n) NOT ENFORCED", ts.Unsupported, "ADD PRIMARY KEY"),
        ("ALTER TABLE t ADD WATERMARK FOR ts AS ts", ts.AlreadyExists, "write MODIFY WATERMARK"),
        ("ALTER TABLE t SET ('merge-engine' = 'x')", ts.InvalidOption, "merge-engine"),
        ("ALTER TABLE t SET ('connector' = 'kafka')", ts.Unsupported, "connector 'kafka'"),
        ("ALTER TABLE t SET ('schema.1.expr' = 'x')", ts.InvalidOption, "of a computed column"),
        (
            "ALTER TABLE t FROB",
            SqlProblem,
            "SET, RESET, RENAME, ADD, MODIFY, DROP or ALTER COLUMN is expected",
        ),
        ("ALTER TABLE t ALTER COLUMN n", SqlProblem, "TYPE, COMMENT, SET or DROP DEFAULT"),
        ("ALTER TABLE tt DROP n", ts.NotFound, "column 13: no table 'shop.tt'"),
        ("ALTER TABLE t DROP PARTITION (k = 1)", ts.InvalidRequest, "is not partitioned"),
        ("ALTER TABLE t RENAME TO other.shop.t", ts.InvalidRequest, "a table stays in its catalog"),
        ("ALTER TABLE t$snapshots SET ('a' = 'b')", ts.InvalidRequest, "is a system table"),
        ("DROP TABLE tt", ts.NotFound, "column 12: no table 'shop.tt'"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS zz", ts.NotFound, "zz"),
    ],
)
def test_what_is_refused(
    session_with_table: Session, text: str, error: type[TablestoreError], problem: str
) -> None:
    session_with_table.sql("ALTER TABLE t ADD filler INT")
    before = schema(session_with_table)
    with pytest.raises(error) as e:
        session_with_table.sql(text)
    assert problem in str(e.value)
    assert schema(session_with_table) == before


def test_if_exists(session: Session) -> None:
    assert "no table" in session.sql("ALTER TABLE IF EXISTS nope DROP a").message
    assert "no table" in session.sql("ALTER TABLE IF EXISTS nope RENAME TO b").message


@pytest.mark.parametrize(
    "name", ["a b", "é", "WATERMARK", "PRIMARY", "a.b", "x'y", 'x"y', "x`y", "-- c", "1", "COLUMN"]
)
def test_hostile_names_of_columns(session: Session, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    session.sql(f"CREATE TABLE t (a INT, b STRING); ALTER TABLE t ADD {quoted} INT COMMENT ? FIRST", [name])
    session.sql(f"ALTER TABLE t MODIFY {quoted} BIGINT; ALTER TABLE t ADD c AS {quoted} + 1")
    session.sql(f"ALTER TABLE t ALTER COLUMN {quoted} COMMENT 'x' AFTER a; ALTER TABLE t DROP c")
    session.sql(
        f"ALTER TABLE t RENAME {quoted} TO {quoted[:-1]}2`; ALTER TABLE t RENAME {quoted[:-1]}2` TO {quoted}"
    )
    assert layout(session) == ["a", name, "b"]
    session.sql(f"ALTER TABLE t DROP {quoted}")
    assert layout(session) == ["a", "b"]


def test_compact(session: Session) -> None:
    done = session.sql("ALTER TABLE orders COMPACT")
    assert done.snapshots == (3,)
    orders = session.lake().table("shop.orders")
    assert set(orders.inspect.files()["level"].to_pylist()) == {5}
    assert session.sql("ALTER TABLE orders COMPACT").snapshots == ()
    events = session.lake().table("shop.events")
    events.write([{"day": dt.date(2026, 1, day), "n": n} for day in (1, 2) for n in range(3)])
    session.sql("ALTER TABLE events PARTITION (day = '2026-01-01') COMPACT")
    files = [
        len(session.sql(f"SELECT * FROM events$files WHERE `partition` = '{{2026-01-0{d}}}'")) for d in (1, 2)
    ]
    assert files == [1, 2]
