"""All types in all formats and layouts come back as they were; what a format does not hold is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablestore.core.errors import InvalidOption, SchemaMismatch, Unsupported
from tablestore.core.options.table_options import TableOptions
from tablestore.format import datafile
from tablestore.format.data_format import FileRequest, FileSpec
from tablestore.format.datafile import DataFileWriter, WrittenFile
from tablestore.format.parquet.schema import KIND, ROW_ID, ROW_TRACKING, SEQUENCE
from tablestore.format.predicates.predicate import bind, col
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import BIGINT, INT, STRING, parse_type
from tablestore.io.fileio import LocalFileIO
from tablestore.io.paths import file_format
from tests.format import samples
from tests.tables import schema_of

IO = LocalFileIO()
FORMATS = ("parquet", "orc", "avro")
WIDE = {
    "parquet": (samples.PRIMITIVES, samples.NANOS, samples.NESTED, samples.VARIANT),
    "orc": (samples.PRIMITIVES, samples.NANOS, samples.NESTED),
    "avro": (samples.PRIMITIVES, samples.NESTED),
}


def keyed(rows: pa.Table) -> pa.Table:
    n = rows.num_rows
    system = [pa.array(range(n), pa.int64()), pa.array(np.arange(n, dtype=np.int8) % 4)]
    return pa.table([*system, *rows.columns], names=[SEQUENCE, KIND, *rows.column_names])


def write(
    path: Path,
    schema: TableSchema,
    rows: pa.Table,
    *,
    chunk: int = 1000,
    extra: tuple[str, ...] = (),
    **options: Any,
) -> WrittenFile:
    has_key = bool(schema.primary_keys)
    chosen = TableOptions.parse(schema.options | options)
    spec = FileSpec.of(chosen, keyed=has_key, extra=extra)
    writer = DataFileWriter(IO, str(path), schema, chosen, spec=spec)
    for batch in rows.to_batches(max_chunksize=chunk):
        writer.write(batch)
    return writer.close()


def read(
    path: Any,
    schema: TableSchema,
    columns: tuple[str, ...] | None = None,
    file_size: int | None = None,
    **how: Any,
) -> pa.Table:
    names = schema.names if columns is None else columns
    request = FileRequest(names, system=bool(schema.primary_keys), **how)
    return pa.Table.from_batches(datafile.read(IO, str(path), schema, request, file_size=file_size))


@pytest.mark.parametrize("layout", ["keyed", "append"])
@pytest.mark.parametrize("form", FORMATS)
def test_all_types_come_back_as_they_were(
    tmp_path: Path, seeds: tuple[int, ...], form: str, layout: str
) -> None:
    types = {"k": BIGINT.not_null(), **samples.types_of(*WIDE[form])}
    schema = schema_of(types, primary_key=("k",) if layout == "keyed" else ())
    for seed in seeds:
        rows = samples.table(samples.types_of(*WIDE[form]), 200, seed)
        given = keyed(rows) if layout == "keyed" else rows
        path = tmp_path / f"{seed}.{form}"
        written = write(path, schema, given, chunk=33, **{"file.format": form})
        back = read(path, schema, file_size=written.size, batch_rows=71)
        back.validate(full=True)
        assert back.schema.names == given.schema.names
        assert [f.type for f in back.schema if f.name in types] == [f.arrow.type for f in schema.fields]
        for name in given.column_names:
            assert back.column(name).combine_chunks().equals(given.column(name).combine_chunks()), name
        assert written.rows == 200
        some = tuple(np.random.default_rng(seed).permutation(list(types))[:4].tolist())
        assert read(path, schema, some, batch_rows=71).select(list(some)).equals(back.select(list(some)))


@pytest.mark.parametrize("form", FORMATS)
def test_masked_rows_are_left_out(tmp_path: Path, form: str) -> None:
    schema = schema_of({"k": BIGINT, "s": STRING})
    rows = pa.table({"k": range(5000), "s": [f"{i:06d}" for i in range(5000)]})
    path = tmp_path / f"x.{form}"
    write(path, schema, rows, **{"file.format": form, "file.block-size": "16 kb"})
    mask = np.zeros(5000, dtype=bool)
    mask[[0, 17, 2600, 4999]] = True
    assert read(path, schema, rows=mask, batch_rows=100).column("k").to_pylist() == [0, 17, 2600, 4999]
    where = bind(col("k") >= 2000, schema)
    assert set(read(path, schema, rows=mask, predicate=where).column("k").to_pylist()) >= {2600, 4999}
    nothing = FileRequest(("k",), system=False, rows=mask & False)
    assert list(datafile.read(IO, str(path), schema, nothing)) == []


@pytest.mark.parametrize("form", FORMATS)
def test_row_tracking_columns_follow_those_of_the_table(tmp_path: Path, form: str) -> None:
    schema = schema_of({"k": BIGINT})
    rows = pa.table({"k": [5, 6], ROW_ID: [100, 101], SEQUENCE: [3, 2]})
    path = tmp_path / f"x.{form}"
    written = write(path, schema, rows, extra=ROW_TRACKING, **{"file.format": form})
    assert read(path, schema, ("k", *ROW_TRACKING)).to_pydict() == rows.to_pydict()
    assert (written.min_sequence, written.max_sequence) == (2, 3)
    assert read(path, schema).column_names == ["k"]


def test_parquet_ids_of_nested_columns_are_those_of_java(tmp_path: Path) -> None:
    inner = {"type": "ARRAY", "element": "INT"}
    row = {"type": "ROW", "fields": [{"name": "x", "type": "INT"}, {"name": "y", "type": inner}]}
    types = samples.types_of({"r": row, "v": "VARIANT", "m": samples.NESTED["n_mapi"]})
    schema = schema_of(types)
    rows = pa.Table.from_arrays([pa.nulls(1, f.arrow.type) for f in schema.fields], names=list(types))
    write(tmp_path / "x.parquet", schema, rows)
    numbered = re.findall(r"field_id=(-?\d+) (\w+)", str(pq.ParquetFile(tmp_path / "x.parquet").schema))
    ids = {f.name: f.id for f in schema.fields} | {f.name: f.id for f in schema.by_name["r"].type.children}
    base = 536870911
    assert [(int(n), name) for n, name in numbered if int(n) >= 0] == [
        (ids["r"], "r"),
        (ids["x"], "x"),
        (ids["y"], "y"),
        (base + 1024 * ids["y"] + 1, "element"),
        (ids["v"], "v"),
        (0, "value"),
        (1, "metadata"),
        (ids["m"], "m"),
        (base - 1024 * ids["m"] - 1, "key"),
        (base + 1024 * ids["m"] + 1, "value"),
        (base + 1024 * ids["m"] + 2, "element"),
    ]


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("orc", "VARIANT"),
        ("avro", "VARIANT"),
        ("avro", "TIMESTAMP(9)"),
        ("avro", "TIME(6)"),
        ("avro", {"type": "MULTISET", "element": "INT"}),
        ("avro", {"type": "ARRAY", "element": "TIMESTAMP(7) WITH LOCAL TIME ZONE"}),
    ],
)
def test_what_a_format_does_not_hold_is_refused_by_name(form: str, kind: Any) -> None:
    for option in ("file.format", "changelog-file.format"):
        schema = schema_of({"k": INT, "c": parse_type(kind)}, primary_key=("k",), options={option: form})
        with pytest.raises(Unsupported, match=rf"(?i)columns in {form} files"):
            datafile.require_storable(schema, TableOptions.parse(schema.options))
    options = {"file.format.per.level": f"4:{form}"}
    schema = schema_of({"k": INT, "c": parse_type(kind)}, primary_key=("k",), options=options)
    with pytest.raises(Unsupported, match="columns in"):
        datafile.require_storable(schema, TableOptions.parse(schema.options))


@pytest.mark.parametrize(
    ("micros", "text"), [(-1, "last second before 1970"), (-62135596800000000, "before 1582-10-15")]
)
def test_timestamps_that_orc_would_spoil_are_refused(tmp_path: Path, micros: int, text: str) -> None:
    for name, kind in (("t", "TIMESTAMP(6)"), ("t", {"type": "ARRAY", "element": "TIMESTAMP(6)"})):
        schema = schema_of({name: parse_type(kind)})
        value = pa.array([micros], pa.timestamp("us"))
        column = value if kind == "TIMESTAMP(6)" else pa.ListArray.from_arrays([0, 1], value)
        with pytest.raises(Unsupported, match=rf"{text} in ORC files \(column 't'"):
            write(tmp_path / "x.orc", schema, pa.table({name: column}), **{"file.format": "orc"})


def test_orc_keeps_years_that_arrow_does_not_read(tmp_path: Path) -> None:
    row = {"type": "ROW", "fields": [{"name": "t", "type": "TIMESTAMP(3)"}]}
    kinds = {"t": "TIMESTAMP(3)", "u": "TIMESTAMP(6)", "a": {"type": "ARRAY", "element": "TIMESTAMP(6)"}}
    types = samples.types_of({**kinds, "m": {"type": "MAP", "key": "STRING", "value": row}, "s": "CHAR(9)"})
    for columns in (types, {"t": types["t"], "s": types["s"]}):
        schema = schema_of(columns)
        rows = samples.table(columns, 50, 1, years=(1583, 9999)).drop_columns(["k"])
        write(tmp_path / "x.orc", schema, rows, **{"file.format": "orc"})
        assert read(tmp_path / "x.orc", schema, batch_rows=20).equals(rows)
    schema = schema_of({"n": parse_type("TIMESTAMP(9)")})
    wide = schema_of({"n": parse_type("TIMESTAMP(6)")})
    far = pa.table({"n": pa.array([253402300799999999], pa.timestamp("us"))})
    write(tmp_path / "far.orc", wide, far, **{"file.format": "orc"})
    with pytest.raises(Unsupported, match=r"1677-09-21.*column 'n'"):
        read(tmp_path / "far.orc", schema)


@pytest.mark.parametrize("form", FORMATS)
def test_nulls_in_not_null_columns_are_refused(tmp_path: Path, form: str) -> None:
    schema = schema_of({"a": INT.not_null()})
    rows = pa.table({"a": pa.array([1, None], pa.int32())})
    with pytest.raises(SchemaMismatch, match="'a'"):
        write(tmp_path / f"x.{form}", schema, rows, **{"file.format": form})


def test_names_give_the_format() -> None:
    assert [
        file_format(n) for n in ("a.parquet", "a.zstd.orc", "a.ORC", "b.json.gz", "c.avro.zst", "plain")
    ] == [
        "parquet",
        "orc",
        "orc",
        "json",
        "avro",
        "",
    ]


def test_forms_by_level_and_for_changelogs() -> None:
    options = TableOptions.parse(
        {
            "file.format": "orc",
            "file.format.per.level": "0:avro,3:parquet",
            "file.compression.per.level": "0:null",
            "changelog-file.format": "parquet",
            "metadata.stats-mode.per.level": "0:none",
            "file.suffix.include.compression": "true",
        }
    )
    level0, level1 = FileSpec.of(options), FileSpec.of(options, level=1)
    assert (level0.format, level0.compression, level0.stats_mode, level0.suffix) == (
        "avro",
        "null",
        "none",
        ".zst.avro",
    )
    assert (level1.format, level1.compression, level1.suffix) == ("orc", "zstd", ".zst.orc")
    changelog = FileSpec.of(options, changelog=True)
    assert (changelog.format, changelog.indexed, level0.indexed) == ("parquet", False, True)
    assert FileSpec.of(options, keyed=False).format == "orc"
    with pytest.raises(InvalidOption, match=r"file\.format.*'csv'"):
        FileSpec.of(TableOptions.parse({"file.format": "csv"}))
