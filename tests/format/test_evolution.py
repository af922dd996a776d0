"""Old files under new schemas: columns by field id, widened values, conditions that stay honest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format import datafile
from tablestore.format.data_format import FileRequest
from tablestore.format.evolution import evolve, evolve_predicate, projection
from tablestore.format.manifests import manifest
from tablestore.format.parquet.schema import kv_schema
from tablestore.format.predicates import literal
from tablestore.format.predicates.evaluate import may_match
from tablestore.format.predicates.predicate import Always, bind, col
from tablestore.format.schema import TableSchema, from_json
from tablestore.format.stats import ColumnStats
from tablestore.format.types import arrow_types as t
from tablestore.format.types.arrow_types import DataField, DataType
from tablestore.io.fileio import LocalFileIO

GOLDEN = Path(__file__).parents[1] / "golden" / "paimon" / "warehouse" / "g.db" / "schema_evolution"


def schema(*fields: tuple[int, str, DataType], version: int = 0) -> TableSchema:
    columns = tuple(DataField(i, name, kind) for i, name, kind in fields)
    return TableSchema(version, columns, max(f.id for f in columns), primary_keys=("k",))


def altered(*kinds: DataType) -> list[TableSchema]:
    """Schemas in which column `v` has these types."""
    return [schema((0, "k", t.INT), (1, "v", kind)) for kind in kinds]


OLD = schema((0, "k", t.INT.not_null()), (1, "a", t.INT), (2, "gone", t.STRING))
NEW = schema(
    (0, "k", t.INT.not_null()),
    (3, "gone", t.DOUBLE),
    (1, "renamed", t.BIGINT),
    (4, "late", t.DATE),
    version=1,
)


def batch(of: TableSchema, **raw: list[Any]) -> pa.RecordBatch:
    system = [pa.array(range(n := len(next(iter(raw.values()))))), pa.array([0] * n, pa.int8())]
    values = [literal.array(raw[f.name], f.type) for f in of.fields]
    return pa.RecordBatch.from_arrays(system + values, schema=kv_schema(of))


def test_columns_are_matched_by_id_so_a_reused_name_is_a_new_column() -> None:
    through = projection(OLD, NEW, NEW.names)
    assert through.file_columns == ("k", "a")
    seen = evolve(batch(OLD, k=[1, 2], a=[5, None], gone=["x", "y"]), through)
    assert seen.schema == kv_schema(NEW)
    assert seen.select(list(NEW.names)).to_pylist() == [
        {"k": 1, "gone": None, "renamed": 5, "late": None},
        {"k": 2, "gone": None, "renamed": None, "late": None},
    ]
    assert seen.column("_SEQUENCE_NUMBER").to_pylist() == [0, 1]


def test_a_projection_of_new_columns_only_still_counts_the_rows() -> None:
    through = projection(OLD, NEW, ("late",))
    assert through.file_columns == ("k",)
    plain = batch(OLD, k=[1, 2, 3], a=[1, 2, 3], gone=["", "", ""]).select(["k"])
    assert evolve(plain, through).to_pydict() == {"late": [None] * 3}


def test_an_unchanged_schema_passes_batches_untouched() -> None:
    same = batch(OLD, k=[1], a=[2], gone=["x"])
    assert evolve(same, projection(OLD, OLD, OLD.names)) is same
    assert projection(OLD, OLD, ("a",)).identity
    assert not projection(OLD, replace(NEW, id=2), ("k", "renamed")).identity


@pytest.mark.parametrize(
    ("before", "after", "raw", "expected"),
    [
        (t.TINYINT, t.BIGINT, -5, -5),
        (t.INT, t.DOUBLE, 7, 7.0),
        (t.BIGINT, t.FLOAT, 2**40 + 1, float(2**40)),
        (t.FLOAT, t.DOUBLE, 0.5, 0.5),
        (t.INT, t.DECIMAL(12, 2), 3, 300),
        (t.DECIMAL(5, 2), t.DECIMAL(8, 4), 125, 12500),
        (t.DECIMAL(5, 2), t.DOUBLE, 125, 1.25),
        (t.VARCHAR(5), t.STRING, "ab", "ab"),
        (t.CHAR(5), t.VARCHAR(9), "ab", "ab"),
        (t.BINARY(2), t.BYTES, b"ab", b"ab"),
        (t.TIMESTAMP(3), t.TIMESTAMP(9), 5, 5_000_000),
        (t.INT.not_null(), t.INT, 5, 5),
        # what loses something, as by the original
        (t.BIGINT, t.INT, 2**32 + 5, 5),
        (t.DOUBLE, t.TINYINT, 300.9, 44),
        (t.INT, t.STRING, -7, "-7"),
        (t.STRING, t.INT, "12.9", 12),
        (t.DECIMAL(12, 2), t.INT, -199, -1),
        (t.DECIMAL(8, 2), t.DECIMAL(4, 1), 125, 13),
        (t.INT, t.DECIMAL(3, 2), 100, None),
        (t.TIMESTAMP(6), t.TIMESTAMP(3), 1999, 1),
        (t.TIMESTAMP(3), t.DATE, -1, 0),
        (t.BOOLEAN, t.BIGINT, True, 1),
    ],
)
def test_values_are_cast(before: DataType, after: DataType, raw: Any, expected: Any) -> None:
    old, new = altered(before, after)
    seen = evolve(batch(old, k=[1], v=[raw]), projection(old, new, ("k", "v")))
    assert seen.column("v").equals(literal.array([expected], after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (t.DATE, t.INT),
        (t.DECIMAL(5, 2), t.BOOLEAN),
        (t.FLOAT, t.TIMESTAMP(3)),
        (t.TIMESTAMP(6), t.VARCHAR(30)),
        (t.ARRAY(t.INT), t.INT),
        (t.ARRAY(t.INT), t.MAP(t.INT, t.INT)),
        (t.ROW(a=t.DATE), t.ROW(a=t.INT)),
    ],
)
def test_changes_without_a_cast_are_refused_by_name(before: DataType, after: DataType) -> None:
    old, new = altered(before, after)
    with pytest.raises(Unsupported) as e:
        projection(old, new, ("v",))
    assert f"column 'v' changed from {before} to {after}" in str(e.value)
    assert projection(old, new, ("k",)).file_columns == ("k",)


def test_a_value_that_cannot_be_cast_names_its_column() -> None:
    old, new = altered(t.STRING, t.INT)
    with pytest.raises(SchemaMismatch, match=r"'v' was STRING and is INT: 'abc'"):
        evolve(batch(old, k=[1, 2], v=["1", "abc"]), projection(old, new, ("k", "v")))


def nested_rows(of: TableSchema, values: list[Any], *, ahead: int = 1) -> pa.RecordBatch:
    """A batch of keys and `values`, as a slice of a longer one."""
    column = pa.array([*([values[0]] * ahead), *values], t.to_arrow(of.by_name["v"].type))
    rows = pa.RecordBatch.from_arrays(
        [pa.array(range(len(column)), pa.int32()), column], schema=pa.schema([f.arrow for f in of.fields])
    )
    return rows.slice(ahead)


FIRST = DataType("ROW", children=(DataField(2, "x", t.INT), DataField(3, "y", t.STRING)))
LATER = DataType(
    "ROW", children=(DataField(3, "why", t.STRING), DataField(4, "z", t.DATE), DataField(2, "x", t.BIGINT))
)
SEEN_ONE = {"why": "a", "z": None, "x": 1}


@pytest.mark.parametrize(
    ("before", "after", "given", "expected"),
    [
        (FIRST, LATER, [{"x": 1, "y": "a"}, None], [SEEN_ONE, None]),
        (
            t.ARRAY(FIRST),
            t.ARRAY(LATER),
            [[{"x": 1, "y": "a"}, None], None, []],
            [[SEEN_ONE, None], None, []],
        ),
        (
            t.MAP(t.STRING, FIRST),
            t.MAP(t.STRING, LATER),
            [[("k", {"x": 1, "y": "a"}), ("n", None)], None, []],
            [[("k", SEEN_ONE), ("n", None)], None, []],
        ),
        (t.ARRAY(t.ARRAY(t.INT)), t.ARRAY(t.ARRAY(t.STRING)), [[[1, None], None]], [[["1", None], None]]),
        (t.MULTISET(t.INT), t.MULTISET(t.BIGINT), [[(1, 2)], None], [[(1, 2)], None]),
        (t.ARRAY(t.INT), t.STRING, [[1, None], [], None], ["[1, null]", "[]", None]),
        (t.MAP(t.INT, t.BOOLEAN), t.STRING, [[(1, True), (2, None)], None], ["{1 -> true, 2 -> null}", None]),
        (FIRST, t.STRING, [{"x": 1, "y": None}, None], ["{1, null}", None]),
    ],
)
def test_what_is_nested_evolves_by_its_own_ids(
    before: DataType, after: DataType, given: list[Any], expected: list[Any]
) -> None:
    old, new = altered(before, after)
    seen = evolve(nested_rows(old, given), projection(old, new, ("k", "v")))
    assert seen.schema == pa.schema([f.arrow for f in new.fields])
    assert seen.column("v").to_pylist() == expected
    seen.validate(full=True)


@pytest.mark.parametrize("coded", [False, True])
def test_text_and_bytes_longer_than_their_new_type_are_cut(coded: bool) -> None:
    old = schema((0, "k", t.INT), (1, "s", t.STRING), (2, "b", t.BYTES))
    new = schema((0, "k", t.INT), (1, "s", t.VARCHAR(2)), (2, "b", t.BINARY(1)))
    rows = batch(old, k=[1, 2], s=["é中\U0001f600", None], b=[b"xyz", b""])
    if coded:
        rows = rows.set_column(3, "s", rows.column("s").dictionary_encode())
    seen = evolve(rows, projection(old, new, ("s", "b")))
    assert seen.select(["s", "b"]).to_pydict() == {"s": ["é中", None], "b": [b"x", b"\0"]}


def test_nulls_of_a_column_made_not_null_are_refused() -> None:
    new = schema((0, "k", t.INT.not_null()), (1, "a", t.INT.not_null()))
    with pytest.raises(SchemaMismatch, match="'a'"):
        evolve(batch(OLD, k=[1], a=[None], gone=[""]), projection(OLD, new, new.names))


def test_dictionary_encoded_text_stays_encoded() -> None:
    new = schema((0, "k", t.INT.not_null()), (2, "text", t.STRING), (4, "late", t.DATE))
    plain = batch(OLD, k=[1, 2], a=[1, 1], gone=["x", "x"])
    coded = plain.set_column(4, "gone", plain.column("gone").dictionary_encode())
    seen = evolve(coded, projection(OLD, new, new.names))
    assert pa.types.is_dictionary(seen.schema.field("text").type)
    assert seen.column("text").to_pylist() == ["x", "x"]


def test_conditions_follow_renames_and_know_absent_columns_as_null() -> None:
    def seen(p: Any) -> Any:
        return evolve_predicate(bind(p, NEW), OLD, NEW)

    assert seen(col("renamed") > 10**12).column == "a"
    assert seen(col("gone") > 1.0) == Always(False)
    assert seen(~(col("gone") > 1.0)) == Always(False)
    assert seen(col("gone").is_null() | (col("k") == 1)) == Always(True)
    assert seen(col("late").is_not_null() & (col("k") == 1)) == Always(False)
    assert not may_match(seen(col("renamed") > 10**12), {"a": ColumnStats(1, 9, 0, 5)})
    assert may_match(seen(col("renamed") > 5), {"a": ColumnStats(1, 9, 0, 5)})


def test_conditions_on_a_column_whose_type_changed_are_given_up_but_for_null() -> None:
    old, new = altered(t.FLOAT, t.DOUBLE)
    p = bind((col("v") < 0.1) & (col("k") == 1), new)
    assert evolve_predicate(p, old, new) == bind(col("k") == 1, old)
    assert evolve_predicate(bind(col("v").is_null(), new), old, new) == col("v").is_null()
    small = schema((0, "k", t.INT), (1, "v", t.DECIMAL(3, 1)))  # where a large value reads as NULL
    assert evolve_predicate(bind(col("v").is_null(), small), old, small) == Always(True)


def test_another_writers_files_of_four_schemas_read_under_the_latest() -> None:
    schemas = {
        s.id: s for s in (from_json(p.read_bytes(), str(p)) for p in (GOLDEN / "schema").glob("schema-*"))
    }
    latest, read = schemas[max(schemas)], {}
    for m in (GOLDEN / "manifest").glob("manifest-*"):
        if m.name.startswith("manifest-list"):
            continue
        for e in manifest.decode_entries(m.read_bytes(), str(m)):
            own = schemas[e.file.schema_id]
            through = projection(own, latest, latest.names)
            path = str(GOLDEN / "bucket-0" / e.file.file_name)
            request = FileRequest(through.file_columns)
            for rows in datafile.read(LocalFileIO(), path, own, request, file_size=e.file.file_size):
                seen = evolve(rows, through)
                assert seen.schema == kv_schema(latest)
                read |= {(e.file.schema_id, r["k"]): r for r in seen.select(list(latest.names)).to_pylist()}
    oldest = {"k": 0, "i": 0, "f": 0.0, "s2": "s0", "added": None, "gone": None}
    assert read[0, 0] == oldest
    assert read[2, 2]["i"] == 1099511627778
    assert len({of for of, _ in read}) > 2
