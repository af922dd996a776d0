"""CREATE TABLE and CREATE TEMPORARY TABLE: what a statement says is what the table is."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.format.computed_columns import ComputedColumn, Watermark
from tablestore.sql import Session, SqlProblem

ALL_TYPES = {
    "BOOLEAN": "BOOLEAN",
    "tinyint": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT NOT NULL": "BIGINT NOT NULL",
    "FLOAT": "FLOAT",
    "DOUBLE PRECISION": "DOUBLE",
    "DECIMAL": "DECIMAL(10, 0)",
    "NUMERIC(20, 3)": "DECIMAL(20, 3)",
    "CHAR(3)": "CHAR(3)",
    "VARCHAR(5)": "VARCHAR(5)",
    "VARCHAR": "STRING",
    "VARBINARY": "BYTES",
    "STRING": "STRING",
    "BINARY(4)": "BINARY(4)",
    "VARBINARY(4)": "VARBINARY(4)",
    "BYTES": "BYTES",
    "DATE": "DATE",
    "TIME": "TIME(0)",
    "TIME(3)": "TIME(3)",
    "TIMESTAMP": "TIMESTAMP(6)",
    "TIMESTAMP(3)": "TIMESTAMP(3)",
    "TIMESTAMP(3) WITHOUT TIME ZONE": "TIMESTAMP(3)",
    "TIMESTAMP_LTZ": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    "TIMESTAMP_NTZ": "TIMESTAMP(6)",
    "LONG": "BIGINT",
    "ARRAY<ARRAY<INT NOT NULL>>": "ARRAY<ARRAY<INT NOT NULL>>",
    "INT ARRAY": "ARRAY<INT>",
    "MAP<STRING, DECIMAL(5, 2)>": "MAP<STRING, DECIMAL(5, 2)>",
    "MULTISET<STRING>": "MULTISET<STRING>",
    "ROW<\"a b\" INT, c STRING COMMENT 'it''s'>": "ROW<`a b` INT, `c` STRING COMMENT 'it''s'>",
    "ROW(a INT)": "ROW<`a` INT>",
    "STRUCT<long: LONG, s: STRUCT<x: INT>>": "ROW<`long` BIGINT, `s` ROW<`x` INT>>",
}


@pytest.mark.parametrize("written", ALL_TYPES)
def test_every_type_in_the_words_of_flink_and_spark(session: Session, written: str) -> None:
    session.sql(f"CREATE TABLE made (a {written}, b INT)")
    assert str(session.lake().table("shop.made").store.schema.fields[0].type) == ALL_TYPES[written]


def test_using_means_the_types_of_spark(session: Session) -> None:
    session.sql(
        "CREATE TABLE made (a TIMESTAMP, b BINARY, c ROW<d TIMESTAMP, e TIMESTAMP_NTZ>) USING paimon "
        "PARTITIONED BY (dt STRING) COMMENT 'spark''s' TBLPROPERTIES ('file.format' = 'avro')"
    )
    table = session.lake().table("shop.made")
    assert [str(f.type) for f in table.store.schema.fields] == [
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "BYTES",
        "ROW<`d` TIMESTAMP(6) WITH LOCAL TIME ZONE, `e` TIMESTAMP(6)>",
        "STRING",
    ]
    assert (table.partition_by, table.comment, table.options["file.format"]) == (("dt",), "spark's", "avro")


def test_keys_partitions_comments_defaults_and_options(session: Session) -> None:
    session.sql(
        "CREATE TABLE made (k INT COMMENT 'the key', `day` STRING, v DECIMAL(10, 2) DEFAULT 1.5 NOT NULL, "
        "CONSTRAINT pk PRIMARY KEY (k, `day`) NOT ENFORCED) COMMENT 'hello' PARTITIONED BY (`day`) "
        "WITH ('bucket' = '2', file.format = 'orc')"
    )
    table = session.lake().table("shop.made")
    schema = table.store.schema
    assert (table.primary_key, table.partition_by, table.comment) == (("k", "day"), ("day",), "hello")
    assert [str(f.type) for f in schema.fields] == [
        "INT NOT NULL",
        "STRING NOT NULL",
        "DECIMAL(10, 2) NOT NULL",
    ]
    assert [(f.description, f.default) for f in schema.fields] == [
        ("the key", None),
        (None, None),
        (None, "1.5"),
    ]
    assert table.options["bucket"] == "2"
    assert table.options["file.format"] == "orc"


def test_computed_columns_and_the_watermark_are_stored_as_flink_stores_them(session: Session) -> None:
    session.sql(
        "CREATE TABLE made (w AS v * 2 COMMENT 'it''s', k INT PRIMARY KEY NOT ENFORCED, p AS PROCTIME(), "
        "v DECIMAL(10, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS \"ts\" - INTERVAL '5' SECOND)"
    )
    options = dict(session.lake().table("shop.made").options)
    assert {k: v for k, v in options.items() if k.startswith("schema.")} == {
        "schema.0.name": "w",
        "schema.0.expr": "`v` * 2",
        "schema.0.data-type": "DECIMAL(21, 2)",
        "schema.0.comment": "it's",
        "schema.2.name": "p",
        "schema.2.expr": "PROCTIME()",
        "schema.2.data-type": "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
        "schema.watermark.0.rowtime": "ts",
        "schema.watermark.0.strategy.expr": "`ts` - INTERVAL '5' SECOND",
        "schema.watermark.0.strategy.data-type": "TIMESTAMP(6)",
    }


def test_parameters_are_part_of_what_is_stored(session: Session) -> None:
    session.sql("CREATE TABLE made (a INT DEFAULT ?, b AS a - ? || ?) COMMENT 'x'", [7, -5, "it's"])
    schema = session.lake().table("shop.made").store.schema
    assert (schema.fields[0].default, schema.options["schema.1.expr"]) == ("7", "`a` - -5 || 'it''s'")


def test_like_takes_over_all_but_what_is_excluded(session: Session) -> None:
    session.sql(
        "CREATE TABLE base (k INT, s AS k + 1, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, "
        "PRIMARY KEY (k) NOT ENFORCED) COMMENT 'base' WITH ('bucket' = '3', 'file.format' = 'avro')"
    )
    session.sql("CREATE TABLE whole (n INT, m AS n + k) WITH ('bucket' = '4') LIKE base")
    whole, base = (session.lake().table(f"shop.{name}") for name in ("whole", "base"))
    assert whole.schema.names == ["k", "ts", "n"]
    assert (whole.primary_key, whole.comment) == (("k",), None)
    assert whole.options["tablestore.uuid"] != base.options["tablestore.uuid"]
    shown = {k: v for k, v in whole.options.items() if "uuid" not in k and "data-type" not in k}
    assert shown == {
        "bucket": "4",
        "file.format": "avro",
        "schema.1.name": "s",
        "schema.1.expr": "`k` + 1",
        "schema.4.name": "m",
        "schema.4.expr": "`n` + `k`",
        "schema.watermark.0.rowtime": "ts",
        "schema.watermark.0.strategy.expr": "`ts`",
    }
    session.sql("CREATE TABLE bare LIKE base (EXCLUDING ALL)")
    bare = session.lake().table("shop.bare")
    assert (bare.schema.names, bare.primary_key) == (["k", "ts"], ())
    assert set(bare.options) == {"tablestore.uuid"}


def test_a_table_as_a_query_has_its_rows(session: Session) -> None:
    done = session.sql(
        "CREATE TABLE made (PRIMARY KEY (order_id) NOT ENFORCED) WITH ('bucket' = '1') AS "
        "SELECT order_id, amount * 2 AS twice, NULL AS nothing FROM orders WHERE amount IS NOT NULL"
    )
    table = session.lake().table("shop.made")
    assert (done.rows_affected, done.snapshots, table.primary_key) == (2, (1,), ("order_id",))
    assert table.scan().to_arrow().to_pylist() == [
        {"order_id": 1, "twice": Decimal("25.00"), "nothing": None},
        {"order_id": 2, "twice": Decimal("16.00"), "nothing": None},
    ]


def test_a_table_as_a_query_that_fails_is_not_made(session: Session) -> None:
    with pytest.raises(TablestoreError):
        session.sql("CREATE TABLE made AS SELECT order_id / (order_id - 1) AS n FROM orders")
    assert "shop.made" not in session.lake()


def test_a_temporary_table_lives_in_the_session(session: Session) -> None:
    session.sql(
        "CREATE TEMPORARY TABLE src (n INT NOT NULL, p AS PROCTIME(), x AS unheard_of(n), ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'password' = 'hidden')"
    )
    table = session.temporary["lake", "shop", "src"]
    assert [(f.name, str(f.type)) for f in table.columns] == [("n", "INT NOT NULL"), ("ts", "TIMESTAMP(3)")]
    assert table.names == ["n", "p", "x", "ts"]
    proctime = "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"
    assert table.computed == (
        ComputedColumn("p", "PROCTIME()", proctime, 1),
        ComputedColumn("x", "UNHEARD_OF(`n`)", "", 2),
    )
    assert table.watermark == Watermark("ts", "`ts`", "TIMESTAMP(3)")
    assert (table.connector, table.shown.options["password"]) == ("datagen", "***")
    assert "hidden" not in repr(session.temporary)
    assert "shop.src" not in session.lake()
    session.sql("CREATE TABLE kept LIKE src (EXCLUDING OPTIONS EXCLUDING GENERATED)")
    assert session.lake().table("shop.kept").schema.names == ["n", "ts"]


@pytest.mark.parametrize(
    ("text", "error", "column", "problem"),
    [
        ("CREATE TABLE orders (a INT)", ts.AlreadyExists, 1, "table orders exists"),
        ("CREATE TABLE t (a INTT)", ts.InvalidRequest, 17, "'INTT' is no type; did you mean INT"),
        ("CREATE TABLE t (a INT,,b INT)", SqlProblem, 23, "a column is expected; here is ','"),
        (
            "CREATE TABLE t (a INT DEFAULT 'x')",
            ts.SchemaMismatch,
            17,
            "default 'x' of column 'a' is not a value of INT",
        ),
        ("CREATE TABLE t (a INT DEFAULT b)", SqlProblem, 31, "b is no literal"),
        ("CREATE TABLE t (a INT, b AS aa + 1)", ts.NotFound, 24, "no column 'aa'; did you mean a?"),
        ("CREATE TABLE t (a INT, A INT, a AS 1)", ts.SchemaMismatch, 31, "there are two columns 'a'"),
        ("CREATE TABLE t (a STRING METADATA)", ts.Unsupported, 26, "METADATA column 'a' of a table in a"),
        ("CREATE TEMPORARY TABLE t (a INT METADATA FROM b)", SqlProblem, 47, "the key of the metadata"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'kafka')", ts.Unsupported, 1, "connector 'kafka'"),
        ("CREATE TABLE t (a INT) USING parquet", SqlProblem, 30, "USING parquet: tables of a catalog are"),
        ("CREATE TABLE t (a INT) LOCATION 's3://x'", ts.Unsupported, 24, "LOCATION"),
        ("CREATE TABLE t (a INT PRIMARY KEY ENFORCED)", SqlProblem, 35, "NOT ENFORCED is expected"),
        (
            "CREATE TABLE t (a INT, b INT, WATERMARK FOR b AS b)",
            ts.SchemaMismatch,
            31,
            "of a TIMESTAMP column",
        ),
        ("CREATE TABLE t (a INT) WITH ('bucket' = 'x')", ts.InvalidOption, 1, "bucket"),
        ("CREATE TABLE t (a INT) WITH ('buckets' = '1')", ts.InvalidOption, 1, "did you mean 'bucket'"),
        ("CREATE TABLE t (a INT) WITH ('a' = 'b', 'a' = 'c')", SqlProblem, 41, "'a' is named twice"),
        ("CREATE TABLE t (r.x INT)", ts.InvalidRequest, 1, "r.x is no name of a column"),
        ("CREATE TABLE t", SqlProblem, 15, "the columns are expected"),
        ("CREATE TABLE nowhere.t (a INT)", ts.NotFound, 1, "no database 'nowhere'"),
        ("CREATE TABLE t LIKE ordres", ts.NotFound, 21, "did you mean shop.orders"),
        ("CREATE TABLE t (a INT) LIKE orders (EXCLUDING KEYS)", SqlProblem, 47, "ALL or one of CONSTRAINTS"),
        ("CREATE TEMPORARY TABLE t (a INT)", ts.InvalidRequest, 1, "needs option 'connector'"),
        ("CREATE TABLE t (a AS (SELECT 1), b INT)", ts.InvalidRequest, 17, "holds no query"),
    ],
)
def test_what_is_refused(
    session: Session, text: str, error: type[TablestoreError], column: int, problem: str
) -> None:
    before = session.lake().tables()
    with pytest.raises(error) as e:
        session.sql(text)
    assert problem in str(e.value)
    assert getattr(e.value, "column", None) == column
    assert session.lake().tables() == before


@pytest.mark.parametrize(
    "name", ["a b", "é", "SELECT", "a.b", "x'y", 'x"y', "x`y", "-- c", "1", "primary key", "\n"]
)
def test_hostile_names_of_columns(session: Session, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    session.sql(
        f"CREATE TABLE made ({quoted} INT COMMENT ?, `twice` AS {quoted} * 2, r ROW<{quoted} INT>, "
        f"PRIMARY KEY ({quoted}) NOT ENFORCED)",
        [name],
    )
    table = session.lake().table("shop.made")
    assert table.primary_key == (name,)
    assert table.store.schema.fields[0].description == name
    assert table.store.schema.fields[1].type.children[0].name == name
    assert table.options["schema.1.expr"] == f"{quoted} * 2"


def test_computed_columns_are_read(session: Session) -> None:
    session.sql(
        "CREATE TABLE made (w AS v * 2, k INT, v DECIMAL(10, 2), now_ AS PROCTIME(), "
        "PRIMARY KEY (k) NOT ENFORCED)"
    )
    table = session.lake().table("shop.made")
    table.write([{"k": 1, "v": Decimal("1.50")}, {"k": 2, "v": None}])
    read = session.sql("SELECT * FROM made ORDER BY k").to_arrow()
    assert read.column_names == ["w", "k", "v", "now_"]
    assert read.drop_columns(["now_"]).to_pylist() == [
        {"w": Decimal("3.00"), "k": 1, "v": Decimal("1.50")},
        {"w": None, "k": 2, "v": None},
    ]
    text = "SELECT a.k, shop.made.w FROM shop.made JOIN made AS a ON a.w = shop.made.w WHERE made.w > 1"
    assert session.sql(text).to_arrow().to_pylist() == [{"k": 1, "w": Decimal("3.00")}]
    text = "WITH c AS (SELECT w, count(*) AS n FROM made GROUP BY w) SELECT n FROM c WHERE w IS NULL"
    assert session.sql(text).to_arrow().to_pylist() == [{"n": 1}]


def test_a_computed_column_that_cannot_be_computed_is_in_nobodys_way(session: Session) -> None:
    session.sql("CREATE TABLE made (k INT, w AS k + 1)")
    lake = session.lake()
    options = {**lake.table("shop.made").options, "schema.1.expr": "only_flink_knows(`k`)"}
    lake.create_table("shop.other", schema={"k": ts.INT}, options=options).write([{"k": 1}])
    assert session.sql("SELECT k, count(*) AS n FROM other GROUP BY k").to_arrow().to_pylist() == [
        {"k": 1, "n": 1}
    ]
    with pytest.raises(ts.NotFound, match="no function 'ONLY_FLINK_KNOWS'"):
        session.sql("SELECT w FROM other")


def test_a_keyed_table_without_buckets_gets_one_and_says_so(session: Session) -> None:
    keyed = "(id INT, p INT, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (p)"
    said = session.sql(f"CREATE TABLE fixed {keyed}").message
    remedy = "SET 'table-storage.bucket' = '-1'"
    assert f"is made, with 1 bucket: {remedy} before it gives Paimon's default; the primary key lacks" in said
    assert "with 1 bucket" not in session.sql(f"CREATE TABLE asked {keyed} WITH ('bucket' = '1')").message
    assert session.sql("CREATE TABLE plain (id INT)").message == "table plain is made"
    assert session.sql(f"{remedy}; CREATE TABLE moving {keyed}").message == "table moving is made"
    for table, rows in (("fixed", [(1, 1), (1, 2)]), ("moving", [(1, 2)])):
        session.sql(f"INSERT INTO {table} VALUES (1, 1); INSERT INTO {table} VALUES (1, 2)")
        result = session.sql(f"SELECT * FROM {table} ORDER BY p").to_arrow().to_pylist()
        assert [(r["id"], r["p"]) for r in result] == rows


def test_an_error_by_an_option_of_set_names_the_setting(session: Session) -> None:
    session.sql("SET 'table-storage.bucket' = '2'")
    with pytest.raises(ts.InvalidOption, match="SET gave 'bucket' = '2'") as e:
        session.sql("CREATE TABLE rows_only (a INT)")
    remedy = str(e.value).partition("'2'; ")[2].partition(" takes")[0]
    session.sql(f"{remedy}; CREATE TABLE rows_only (a INT)")


def test_names_of_the_table_store_mean_what_they_meant(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE rows_only (a INT) WITH ('write-mode' = 'append-only', 'bucket' = '1')")
    assert session.lake().table("shop.rows_only").options["bucket"] == "-1"
    with pytest.raises(ts.InvalidOption, match="an append table needs 'bucket-key' too"):
        session.sql("CREATE TABLE two (a INT) WITH ('write-mode' = 'append-only', 'bucket' = '2')")
    given = {
        "table-storage.log.properties.bootstrap.servers": "localhost:1",
        "table-storage.log.scan.startup.mode": "latest-offset",
        "table-storage.log.consistency": "eventual",
    }
    wanted = {
        "kafka.bootstrap.servers": "localhost:1",
        "scan.mode": "latest",
        "log.consistency": "eventual",
    }
    for key, value in given.items():
        session.sql(f"SET '{key}' = '{value}'")
    session.sql("CREATE TABLE by_settings (a INT PRIMARY KEY NOT ENFORCED)")
    by_settings = session.lake().table("shop.by_settings").options
    of_catalog = ts.connect(tmp_path / "other", **given)
    by_catalog = of_catalog.create_table("d.t", schema={"a": ts.INT}, primary_key=["a"]).options
    for options in (by_settings, by_catalog):
        assert {key: options[key] for key in wanted} == wanted
    remedy = r"CREATE CATALOG c WITH \('warehouse' = '…'\)"
    with pytest.raises(ts.Unsupported, match=remedy):
        session.sql("SET 'table-storage.file.root-path' = '/x'")
    with pytest.raises(ts.Unsupported, match=remedy):
        ts.connect(tmp_path / "other", **{"table-storage.file.root-path": "/x"})


@pytest.mark.parametrize(
    ("key", "taken", "refused"),
    [
        ("execution.checkpointing.unaligned", "false", "true"),
        ("execution.checkpointing.mode", "EXACTLY_ONCE", "AT_LEAST_ONCE"),
        ("parallelism.default", "", "4"),
    ],
)
def test_settings_of_other_jobs_are_refused_by_name(
    session: Session, key: str, taken: str, refused: str
) -> None:
    with pytest.raises(ts.Unsupported, match=f"{key} = {refused}"):
        session.sql(f"SET '{key}' = '{refused}'")
    if taken:
        session.sql(f"SET '{key}' = '{taken}'; RESET '{key}'")


def test_settings_say_what_new_tables_start_from(session: Session) -> None:
    session.sql("SET 'table-storage.file.format' = 'avro'; SET 'table-storage.bucket' = '3'")
    assert {"key": "table-storage.bucket", "value": "3"} in session.sql("SET").to_arrow().to_pylist()
    session.sql("CREATE TABLE made (a INT PRIMARY KEY NOT ENFORCED) WITH ('bucket' = '2')")
    session.sql("CREATE TABLE other LIKE made")
    for name in ("made", "other"):
        options = session.lake().table(f"shop.{name}").options
        assert (options["file.format"], options["bucket"]) == ("avro", "2")
    with pytest.raises(ts.InvalidOption, match="did you mean 'bucket'"):
        session.sql("SET 'table-storage.buckets' = '3'")
    session.sql("RESET 'table-storage.file.format'; CREATE TABLE third (a INT PRIMARY KEY NOT ENFORCED)")
    options = session.lake().table("shop.third").options
    assert ("file.format" in options, options["bucket"]) == (False, "3")
