"""ALTER in both engines: the same schemas come of the same changes, refused changes are refused by both, and
rows written before and after are read alike by both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.format.checksums import unsealed
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import parse_type
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaError, JavaPaimon

pytestmark = pytest.mark.peer

COLUMNS = {
    "k": "INT NOT NULL",
    "a": "INT",
    "s": "STRING",
    "r": {"type": "ROW", "fields": [{"name": "x", "type": "INT"}, {"name": "y", "type": "STRING"}]},
    "l": {
        "type": "ARRAY",
        "element": {"type": "ROW", "fields": [{"name": "p", "type": "INT"}, {"name": "q", "type": "DATE"}]},
    },
    "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"},
}
OPTIONS = {"bucket": "1", "sequence.field": "a", "write-only": "true"}
CHANGES: list[tuple[dict[str, Any], Any]] = [
    (
        {"change": "add", "name": "c", "type": "DOUBLE", "comment": "said"},
        ts.add("c", ts.DOUBLE, comment="said"),
    ),
    ({"change": "add", "name": "c", "type": "INT", "after": "k"}, ts.add("c", ts.INT, after="k")),
    ({"change": "add", "name": "c", "type": "INT", "before": "k"}, ts.add("c", ts.INT, before="k")),
    ({"change": "add", "name": "c", "type": "INT", "first": True}, ts.add("c", ts.INT, first=True)),
    ({"change": "add", "name": ["r", "z"], "type": COLUMNS["l"]}, ts.add("r.z", "ARRAY<ROW<p INT, q DATE>>")),
    ({"change": "add", "name": ["l", "element", "z"], "type": "INT"}, ts.add("l.element.z", ts.INT)),
    ({"change": "rename", "name": "a", "to": "z"}, ts.rename("a", "z")),
    ({"change": "rename", "name": "k", "to": "id"}, ts.rename("k", "id")),
    ({"change": "rename", "name": ["r", "y"], "to": "why"}, ts.rename("r.y", "why")),
    ({"change": "drop", "name": "s"}, ts.drop("s")),
    ({"change": "drop", "name": ["l", "element", "p"]}, ts.drop("l.element.p")),
    ({"change": "drop", "name": "a"}, ts.drop("a")),
    ({"change": "drop", "name": "k"}, ts.drop("k")),
    ({"change": "drop", "name": "nothing"}, ts.drop("nothing")),
    ({"change": "type", "name": "a", "type": "BIGINT"}, ts.retype("a", ts.BIGINT)),
    ({"change": "type", "name": "s", "type": "INT"}, ts.retype("s", ts.INT)),
    ({"change": "type", "name": "a", "type": "DATE"}, ts.retype("a", ts.DATE)),
    ({"change": "type", "name": "k", "type": "BIGINT NOT NULL"}, ts.retype("k", ts.BIGINT)),
    ({"change": "type", "name": ["r", "x"], "type": "STRING"}, ts.retype("r.x", ts.STRING)),
    ({"change": "type", "name": ["m", "value"], "type": "STRING"}, ts.retype("m.value", ts.STRING)),
    (
        {"change": "type", "name": ["l", "element", "p"], "type": "BIGINT"},
        ts.retype("l.element.p", ts.BIGINT),
    ),
    ({"change": "nullability", "name": "a", "nullable": False}, ts.not_null("a")),
    ({"change": "nullability", "name": "k", "nullable": True}, ts.nullable("k")),
    ({"change": "position", "name": "s", "after": "k"}, ts.move("s", after="k")),
    ({"change": "position", "name": "s", "first": True}, ts.move("s", first=True)),
    ({"change": "comment", "name": "s", "comment": "text"}, ts.comment("s", "text")),
    ({"change": "default", "name": "s", "value": "none"}, ts.default("s", "none")),
    ({"change": "default", "name": "a", "value": "abc"}, ts.default("a", "abc")),
    ({"change": "set_option", "key": "bucket", "value": "4"}, ts.set_options({"bucket": 4})),
    ({"change": "set_option", "key": "bucket", "value": "-1"}, ts.set_options({"bucket": -1})),
    (
        {"change": "set_option", "key": "merge-engine", "value": "first-row"},
        ts.set_options({"merge-engine": "first-row"}),
    ),
    ({"change": "set_option", "key": "bucket-key", "value": "k"}, ts.set_options({"bucket-key": "k"})),
    ({"change": "set_option", "key": "num-levels", "value": "7"}, ts.set_options({"num-levels": 7})),
    ({"change": "remove_option", "key": "bucket"}, ts.reset_options("bucket")),
    ({"change": "remove_option", "key": "write-only"}, ts.reset_options("write-only")),
    ({"change": "table_comment", "comment": "the table"}, ts.comment(None, "the table")),
]


@pytest.fixture
def path(java: JavaPaimon, tmp_path: Path) -> str:
    """A table by Java with one row."""
    path = str(tmp_path / "d.db" / "t")
    java.create(path, COLUMNS, primary_keys=["k"], options=OPTIONS)
    java.write(path, [[1, 2, "3", {"x": 4, "y": "five"}, [{"p": 6, "q": "2026-01-01"}, None], [["k", 7]]]])
    return path


def stored(path: str, number: int) -> dict[str, Any] | None:
    file = Path(path) / "schema" / f"schema-{number}"
    if not file.exists():
        return None
    body = json.loads(unsealed(file.read_bytes()))
    del body["timeMillis"]
    return body


@pytest.mark.parametrize(
    ("theirs", "ours"), CHANGES, ids=lambda c: c["change"] if isinstance(c, dict) else None
)
@pytest.mark.sample(12)
def test_the_same_schema_comes_of_the_same_change(
    java: JavaPaimon, path: str, theirs: dict[str, Any], ours: Any
) -> None:
    try:
        java.alter(path, [theirs])
    except JavaError:
        with pytest.raises(TablestoreError):
            ts.open(path).alter(ours)
        assert stored(path, 1) is None
        return
    theirs_stored = stored(path, 1)
    (Path(path) / "schema" / "schema-1").unlink()
    ts.open(path).alter(ours)
    assert stored(path, 1) == theirs_stored


def seen(path: str) -> list[list[Any]]:
    t = ts.open(path)
    types = {f.name: f.type for f in t.store.schema.fields}
    return in_order(cells(t.scan().to_arrow(), types))


STEPS = [
    ({"change": "type", "name": "s", "type": "BIGINT"}, ts.retype("s", ts.BIGINT)),
    ({"change": "add", "name": "c", "type": "DATE", "after": "k"}, ts.add("c", ts.DATE, after="k")),
    ({"change": "rename", "name": ["r", "x"], "to": "ex"}, ts.rename("r.x", "ex")),
    ({"change": "add", "name": ["r", "z"], "type": "INT"}, ts.add("r.z", ts.INT)),
    (
        {"change": "type", "name": ["l", "element", "p"], "type": "STRING"},
        ts.retype("l.element.p", ts.STRING),
    ),
    ({"change": "drop", "name": ["l", "element", "q"]}, ts.drop("l.element.q")),
    ({"change": "type", "name": ["m", "value"], "type": "INT"}, ts.retype("m.value", ts.INT)),
]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_of_before_and_after_are_read_alike_whoever_wrote_and_altered(
    java: JavaPaimon, tmp_path: Path, file_format: str
) -> None:
    path = str(tmp_path / "d.db" / "t")
    java.create(path, COLUMNS, primary_keys=["k"], options={**OPTIONS, "file.format": file_format})
    first = [k := 1, 2, "3", {"x": 4, "y": "five"}, [{"p": 6, "q": "2026-01-01"}, None], [["k", 2**32 + 7]]]
    java.write(path, [first, [k + 1, 1, None, None, None, None]])
    for number, (theirs, ours) in enumerate(STEPS):
        if number % 2:
            java.alter(path, [theirs])
        else:
            ts.open(path).alter(ours)
        assert seen(path) == java.rows(path)
    t = ts.open(path)
    row = {
        "k": 3,
        "c": None,
        "a": 1,
        "s": 5,
        "r": {"ex": 1, "y": "w", "z": 2},
        "l": [{"p": "x"}],
        "m": [("k", 1)],
    }
    t.write(pa.Table.from_pylist([row], schema=t.schema))
    java.write(path, [[4, "2026-01-02", 1, 6, {"ex": 1, "y": "w", "z": 2}, [{"p": "y"}], []]], identifier=5)
    assert seen(path) == java.rows(path)
    assert len(seen(path)) == 4
    ts.open(path).with_options({"write-only": False}).compact(full=True)
    assert seen(path) == java.rows(path)
    assert ts.open(path).check() == []


def test_options_that_name_a_column_follow_its_rename_as_in_java(java: JavaPaimon, tmp_path: Path) -> None:
    columns = {"k": "INT NOT NULL", "a": "INT", "b": "INT", "s": "INT"}
    options = {
        "bucket": "1",
        "bucket-key": "k",
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "a,b",
        "fields.a.aggregate-function": "sum",
        "fields.a.ignore-retract": "true",
    }
    renames = [("a", "total"), ("s", "version"), ("k", "id")]
    schemas = []
    for engine in ("java", "ours"):
        path = str(tmp_path / "d.db" / engine)
        java.create(path, columns, primary_keys=["k"], options=options)
        if engine == "java":
            java.alter(path, [{"change": "rename", "name": old, "to": new} for old, new in renames])
        else:
            ts.open(path).alter(*(ts.rename(old, new) for old, new in renames))
        schemas.append(stored(path, 1))
    assert schemas[0] == schemas[1]


def test_a_branch_has_schemas_of_its_own(java: JavaPaimon, path: str) -> None:
    t = ts.open(path)
    t.branches.create("b")
    t.branch("b").alter(ts.add("c", ts.INT, after="k"))
    assert "c" in t.branch("b").schema.names
    assert "c" not in t.refresh().schema.names
    java.alter(path, [{"change": "rename", "name": "c", "to": "d"}], branch="b")
    assert "d" in ts.open(path).branch("b").schema.names


VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [1, -128],
    "SMALLINT": [300, -5],
    "INT": [70000, -1],
    "BIGINT": [5_000_000_000, -5_120_000_000],
    "FLOAT": [1.5, -300.25],
    "DOUBLE": [123456.789, -0.001],
    "DECIMAL(7, 3)": ["1234.567", "-0.500"],
    "DECIMAL(30, 5)": ["12345678901234567890.12345", "-1.00000"],
    "CHAR(4)": ["abcd", "é"],
    "VARCHAR(6)": ["abcdef", ""],
    "STRING": ["a longer text", "x"],
    "BYTES": [{"hex": "6162636465"}, {"hex": ""}],
    "DATE": ["2026-01-02", "1969-12-31"],
    "TIME(3)": ["12:30:15.050", "00:00:00.000"],
    "TIMESTAMP(3)": ["2026-01-02 03:04:05.678", "1969-12-31 12:00:00.001"],
    "TIMESTAMP(6)": ["2026-01-02 03:04:05.678901", "1969-12-31 12:00:00.000001"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ["2026-01-02 03:04:05.678901Z", "1969-12-31 12:00:00.000001Z"],
}
NESTED: dict[str, Any] = {
    "ARRAY": {"type": "ARRAY", "element": "INT"},
    "MAP": {"type": "MAP", "key": "STRING NOT NULL", "value": "DATE"},
    "ROW": {
        "type": "ROW",
        "fields": [{"name": "x", "type": "DECIMAL(4, 2)"}, {"name": "y", "type": "TIME(0)"}],
    },
}
VALUES |= {"ARRAY": [[1, None], [5]], "MAP": [[["k", "2026-01-02"], ["n", None]]]}
VALUES |= {"ROW": [{"x": "1.50", "y": "03:04:05.000"}]}
TEXT_OF = {"BOOLEAN": "yes", "DATE": "2026-1-2", "TIME(3)": "1:02:03.5", "BYTES": "abc"}


def text_for(target: str) -> str:
    """A text that casts to the type."""
    if "TIMESTAMP" in target:
        return "2026-01-02 03:04:05.678"
    return TEXT_OF.get(target, "abc" if "CHAR" in target or target == "STRING" else "12.5")


@pytest.mark.parametrize("source", VALUES)
@pytest.mark.sample(6)
def test_a_column_altered_to_any_type_reads_alike(java: JavaPaimon, tmp_path: Path, source: str) -> None:
    kind = NESTED.get(source, source)
    before, scalars = parse_type(kind), [t for t in VALUES if t not in (*NESTED, source)]
    targets = [t for t in scalars if casts.allowed(before, parse_type(t), explicit=True)]
    rows = [[value] * len(targets) for value in VALUES[source]]
    if before.is_string:  # a text that is a value of the target, where it fits
        targets = [t for t in targets if len(text_for(t)) <= before.precision]
        rows = [[text_for(t) for t in targets]]
    path = str(tmp_path / "d.db" / "t")
    columns = {"k": "INT NOT NULL"} | {f"c{i}": kind for i in range(len(targets))}
    java.create(path, columns, primary_keys=["k"], options={"bucket": "1"})
    java.write(path, [[k, *row] for k, row in enumerate([*rows, [None] * len(targets)])])
    java.alter(path, [{"change": "type", "name": f"c{i}", "type": t} for i, t in enumerate(targets)])
    assert seen(path) == java.rows(path)
    assert len(seen(path)) == len(rows) + 1


def test_a_new_table_has_the_schema_that_java_gives_it(java: JavaPaimon, tmp_path: Path) -> None:
    columns = COLUMNS | {
        "deep": {
            "type": "ROW",
            "fields": [
                {"name": "u", "type": {"type": "MAP", "key": "INT NOT NULL", "value": COLUMNS["r"]}},
                {"name": "v", "type": {"type": "MULTISET", "element": "STRING"}},
            ],
        },
        "t": "TIMESTAMP(9) WITH LOCAL TIME ZONE",
        "w": "VARIANT",
        "x": "DECIMAL(38, 38)",
        "y": "BYTES NOT NULL",
        "z": "TIME(0)",
    }
    path = str(tmp_path / "d.db" / "theirs")
    java.create(path, columns, primary_keys=["k"], options={"bucket": "3"}, comment="both")
    table = ts.connect(str(tmp_path)).create_table(
        "d.ours",
        schema={name: parse_type(t) for name, t in columns.items()},
        primary_key=["k"],
        options={"bucket": 3},
        comment="both",
    )
    ours, theirs = stored(table.location, 0), stored(path, 0)
    del ours["options"]["tablestore.uuid"]
    assert ours == theirs


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_null_is_the_default_of_its_column_as_in_java(
    java: JavaPaimon, tmp_path: Path, engine: str
) -> None:
    rows, read = [(1, None, "x"), (1, 3, None), (2, None, None)], []
    for writer in ("java", "ours"):
        path = str(tmp_path / writer / "d.db" / "t")
        columns = {"k": "INT NOT NULL", "v": "INT", "s": "STRING"}
        options = {"bucket": "1", "merge-engine": engine}
        java.create(path, columns, primary_keys=["k"], options=options)
        java.alter(
            path, [{"change": "default", "name": n, "value": d} for n, d in (("v", "7"), ("s", "none"))]
        )
        for row in rows:
            if writer == "java":
                java.write(path, [row])
            else:
                ts.open(path).write([dict(zip("kvs", row, strict=True))])
        read.append(in_order(ts.open(path).scan().to_arrow().to_pylist()))
        assert len(java.rows(path)) == 2
    assert read[0] == read[1]
    assert {row["s"] for row in read[0]} == {"none"}
