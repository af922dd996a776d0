"""filesystem: files that are read and written, each format alike."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablestore as ts
from tablestore.sql import Session

COLUMNS = "id INT, s STRING, d DECIMAL(8, 2), f DOUBLE, b BOOLEAN, at TIMESTAMP(3), day DATE"
ROWS = """VALUES
  (1, 'a"b,c\\n' || chr(10) || chr(1) || 'é', 1.50, 0.1e0, TRUE, TIMESTAMP '2024-01-02 03:04:05.678',
   DATE '2024-01-02'),
  (2, '', -1.25, -2e30, FALSE, NULL, NULL),
  (3, NULL, NULL, NULL, NULL, NULL, NULL)"""


def table(session: Session, path: object, format: str, columns: str = COLUMNS, **options: str) -> None:
    more = "".join(f", '{k.replace('__', '.').replace('_', '-')}' = '{v}'" for k, v in options.items())
    session.sql(
        f"CREATE TEMPORARY TABLE files ({columns}) "
        f"WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}'{more})"
    )


def rows(session: Session, query: str = "SELECT * FROM files ORDER BY id") -> list[dict[str, object]]:
    return session.sql(query).to_arrow().to_pylist()


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_what_is_written_is_read_again(session: Session, tmp_path: Path, format: str):
    table(session, tmp_path / "out", format)
    assert session.sql(f"INSERT INTO files {ROWS}").rows_affected == 3
    actual = rows(session)
    assert [list(row.values()) for row in actual] == [
        list(row.values()) for row in rows(session, f"SELECT * FROM ({ROWS}) AS v (id, s, d, f, b, at, day)")
    ]
    session.sql("INSERT INTO files (id) VALUES (4)")
    assert rows(session, "SELECT id, s FROM files WHERE id > 3") == [{"id": 4, "s": None}]
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_files_become_rows_of_a_table(session: Session, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("4;dan;1.5\n5;;\n")
    (tmp_path / "in" / ".hidden").write_text("nonsense")
    columns = "id INT, who STRING, amount DECIMAL(8, 2)"
    # a semicolon within quotes ends no statement
    table(session, tmp_path / "in", "csv", columns, csv__field_delimiter=";")
    assert session.sql("INSERT INTO orders SELECT * FROM files").rows_affected == 2
    actual = rows(session, "SELECT order_id, customer, amount FROM orders WHERE order_id > 3 ORDER BY 1")
    assert [tuple(map(str, r.values())) for r in actual] == [("4", "dan", "1.50"), ("5", "None", "None")]


def test_one_file_and_a_header(session: Session, tmp_path: Path):
    (tmp_path / "one.csv").write_text("name,id\nann,1\nNA,2\n")
    options = {"tablestore__csv__header": "true", "csv__null_literal": "NA"}
    table(session, tmp_path / "one.csv", "csv", "id INT, name STRING, more INT", **options)
    assert rows(session) == [
        {"id": 1, "name": "ann", "more": None},
        {"id": 2, "name": None, "more": None},
    ]
    with pytest.raises(ts.Unsupported, match="names a directory"):
        session.sql("INSERT INTO files (id) VALUES (1)")


@pytest.mark.parametrize(
    ("columns", "options", "written"),
    [
        ("s STRING", {}, [("a",), (None,), ("",), (None,)]),
        ("s STRING", {"tablestore__csv__header": "true"}, [(None,), ("b",)]),
        ("s STRING, i INT", {"csv__null_literal": "NULL"}, [("", 1), ("NULL", 2), (None, None)]),
        ("s STRING, i INT", {"csv__null_literal": "0"}, [("0", 0), (None, None), ("", 10)]),
        ("s STRING, f DOUBLE", {"csv__field_delimiter": "."}, [("a.b", 1.5), ("c", None)]),
        ("s STRING", {}, [("\ufeffa",), ("b",)]),
    ],
)
def test_no_value_of_csv_is_another_afterwards(
    session: Session, tmp_path: Path, columns: str, options: dict[str, str], written: list[tuple[object, ...]]
):
    table(session, tmp_path / "out", "csv", columns, **options)
    for row in written:  # a file each: the first of a file is read in its own way
        marks = ", ".join("?" * len(row))
        session.sql(f"INSERT INTO files VALUES ({marks})", row)
    assert session.sql("SELECT count(*) FROM files").to_arrow()[0].to_pylist() == [len(written)]
    actual = [tuple(row.values()) for row in rows(session, "SELECT * FROM files")]
    assert sorted(actual, key=repr) == sorted(written, key=repr)


@pytest.mark.parametrize("text", ["", "a,b", "a\nb", "nil"])
def test_csv_without_quotes_refuses_what_needs_them(session: Session, tmp_path: Path, text: str):
    options = {"csv__disable_quote_character": "true", "csv__null_literal": "nil"}
    table(session, tmp_path / "out", "csv", "s STRING, i INT", **options)
    with pytest.raises(ts.SchemaMismatch, match=r"column 's'.*needs quotes"):
        session.sql("INSERT INTO files VALUES ('first', 1), (?, 2)", [text])
    session.sql("INSERT INTO files VALUES ('\"x\"', NULL)")
    assert rows(session, "SELECT * FROM files") == [{"s": '"x"', "i": None}]


def test_decimals_of_a_file_become_the_nearest_floats(session: Session, tmp_path: Path):
    table(session, tmp_path / "out", "parquet", "d DECIMAL(10, 4), f DECIMAL(10, 4)")
    session.sql("INSERT INTO files VALUES (1.2345, 1.2345)")
    session.sql("DROP TEMPORARY TABLE files")
    table(session, tmp_path / "out", "parquet", "d DOUBLE, f FLOAT")
    assert rows(session, "SELECT * FROM files WHERE d = 1.2345e0 AND f = CAST(1.2345 AS FLOAT)") != []


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_long_row_is_read_again_or_refused(session: Session, tmp_path: Path, format: str):
    table(session, tmp_path / "out", format, "s STRING")
    session.sql("INSERT INTO files SELECT repeat('abc', 1000000)")
    assert rows(session, "SELECT char_length(s) AS n FROM files") == [{"n": 3_000_000}]
    with pytest.raises(ts.SchemaMismatch, match="more than 16,777,216 bytes"):
        session.sql("INSERT INTO files SELECT repeat('abc', 3000000) || repeat('abc', 3000000)")
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_a_query_that_fails_leaves_no_file(session: Session, tmp_path: Path):
    table(session, tmp_path / "out", "parquet", "id INT NOT NULL, s STRING")
    with pytest.raises(ts.SchemaMismatch):
        session.sql("INSERT INTO files SELECT CASE WHEN order_id < 3 THEN order_id END, 'x' FROM orders")
    assert list((tmp_path / "out").iterdir()) == []


def test_links_below_the_path_are_not_followed(session: Session, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").symlink_to("/etc/hostname")
    table(session, tmp_path / "in", "csv", "line STRING")
    with pytest.raises(ts.TablestoreError, match="link"):
        session.sql("SELECT * FROM files").to_arrow()


def test_nested_columns_in_parquet(session: Session, tmp_path: Path):
    table(session, tmp_path / "out", "parquet", "id INT, l ARRAY<STRING>, x BYTES")
    session.sql("INSERT INTO files SELECT 1, ARRAY['p'], NULL")
    assert rows(session) == [{"id": 1, "l": ["p"], "x": None}]
    with pytest.raises(ts.Unsupported, match="parquet has all types"):
        session.sql("INSERT INTO files /*+ OPTIONS('format' = 'csv') */ SELECT 1, ARRAY['p'], NULL")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ("'format' = 'csv'", ts.InvalidOption, "needs option 'path'"),
        ("'path' = '/nowhere', 'format' = 'csv'", ts.NotFound, "/nowhere"),
        (
            "'path' = '/nowhere', 'format' = 'json', 'csv.null-literal' = 'x'",
            ts.InvalidOption,
            "'csv.null-literal' is one of format 'csv', and the format is 'json'",
        ),
        ("'path' = '/nowhere', 'format' = 'avro'", ts.InvalidOption, "one of csv, json, parquet"),
        ("'path' = '${env:NOT_SET_HERE}', 'format' = 'csv'", ts.InvalidOption, "NOT_SET_HERE"),
        ("'auto-compaction' = 'true'", ts.Unsupported, "one file"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    session: Session, options: str, error: type[Exception], says: str
):
    session.sql(f"CREATE TEMPORARY TABLE files (id INT) WITH ({options}, 'connector' = 'filesystem')")
    with pytest.raises(error, match=says):
        session.sql("SELECT * FROM files").to_arrow()


def test_a_file_that_does_not_fit_is_named(session: Session, tmp_path: Path):
    (tmp_path / "a.csv").write_text("x\n")
    table(session, tmp_path / "a.csv", "csv", "id INT")
    with pytest.raises(ts.SchemaMismatch, match=r"a\.csv, column 'id'"):
        session.sql("SELECT * FROM files").to_arrow()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "b.parquet")
    hint = f"/*+ OPTIONS('path' = '{tmp_path}/b.parquet', 'format' = 'json') */"
    with pytest.raises(ts.SchemaMismatch, match=r"b\.parquet"):
        session.sql(f"SELECT * FROM files {hint}").to_arrow()
