"""Data files in every format, with Java Paimon: each reads what the other wrote, and says the same of it."""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Unsupported
from tablestore.format.file_index import container
from tablestore.format.file_index.container import Container
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.read.scan.file_stats import own_stats
from tests.format import samples
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer
FORMATS = ("parquet", "orc", "avro")
HELD = {
    "parquet": (samples.PRIMITIVES, samples.NANOS, samples.NESTED),
    "orc": (samples.PRIMITIVES, samples.NANOS, samples.NESTED),
    "avro": (samples.PRIMITIVES, samples.NESTED),
}


def two_tables(
    java: JavaPaimon, folder: Path, columns: dict[str, Any], *, keyed: bool, options: dict[str, Any]
) -> tuple[str, str]:
    """Paths of two tables of the same schema: one for us to write, one for Java."""
    paths = [str(folder / "d.db" / name) for name in ("ours", "theirs")]
    for path in paths:
        java.create(
            path,
            {"k": "BIGINT NOT NULL" if keyed else "BIGINT", **columns},
            primary_keys=["k"] if keyed else [],
            options={"bucket": 1 if keyed else -1, "write-only": "true", **options},
        )
    return paths[0], paths[1]


def columns_of(form: str) -> dict[str, Any]:
    return {name: text for group in HELD[form] for name, text in group.items()}


def our_rows(path: str, roots: Sequence[Path] = ()) -> list[list[Any]]:
    t = ts.open(path, roots=roots)
    types = {f.name: f.type for f in t.store.schema.fields}
    return in_order(cells(t.scan().to_arrow(), types))


def files(path: str) -> list[DataFileMeta]:
    store = ts.open(path).store
    return [e.file for e in store.manifests.live_entries(store.snapshots.latest())]


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.sample(2)
def test_each_reads_all_types_that_the_other_wrote_and_statistics_agree(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], form: str, keyed: bool
) -> None:
    for seed in seeds[::2]:
        columns = columns_of(form)
        options = {"file.format": form}
        ours, theirs = two_tables(java, tmp_path / str(seed), columns, keyed=keyed, options=options)
        rows = samples.table(samples.types_of(columns), 60, seed)
        ts.open(ours).write(rows)
        java.write(theirs, cells(rows, samples.types_of(columns)))
        expected = java.rows(theirs)
        assert our_rows(theirs) == expected
        assert java.rows(ours) == expected
        assert our_rows(ours) == expected
        (mine,), (other,) = files(ours), files(theirs)
        assert (mine.value_stats_cols, mine.row_count) == (other.value_stats_cols, other.row_count)
        assert (mine.min_sequence, mine.max_sequence) == (other.min_sequence, other.max_sequence)
        assert (mine.min_key, mine.max_key) == (other.min_key, other.max_key)
        assert (mine.delete_count, mine.extra_files) == (other.delete_count, other.extra_files)
        assert mine.key_stats == other.key_stats
        assert stats_by_column(ours, mine) == stats_by_column(theirs, other)
        if form != "orc":  # Java pads CHAR values there
            assert mine.value_stats == other.value_stats
        assert ts.open(ours).check() == []
        assert ts.open(theirs).check() == []


def stats_by_column(path: str, file: DataFileMeta) -> dict[str, Any]:
    return own_stats(file, ts.open(path).store.schema)


EDGES = {
    "f": "FLOAT",
    "d": "DOUBLE",
    "nan": "DOUBLE",
    "zero": "DOUBLE",
    "s": "STRING",
    "top": "STRING",
    "b": "BYTES",
    "ff": "BYTES",
    "none": "INT",
    "i": "INT",
    "a": {"type": "ARRAY", "element": "INT"},
}
MODES: list[dict[str, Any]] = [
    {"metadata.stats-mode": "full"},
    {"metadata.stats-mode": "counts"},
    {"metadata.stats-mode": "none"},
    {"metadata.stats-mode": "none", "metadata.stats-dense-store": "false"},
    {"metadata.stats-mode": "truncate(3)", "fields.s.stats-mode": "none", "fields.i.stats-mode": "counts"},
    {"metadata.stats-keep-first-n-columns": 3, "fields.ff.stats-mode": "full"},
    {"metadata.stats-dense-store": "false"},
    {"metadata.stats-mode.per.level": "0:counts", "file.compression.per.level": "0:none"},
    {"data-file.thin-mode": "true"},
]


def edge_rows() -> pa.Table:
    nan, top = float("nan"), "\U0010ffff" * 20
    columns = {
        "k": pa.array([1, 2, 3, 4], pa.int64()),
        "f": pa.array([1.5, -2.5, None, 0.25], pa.float32()),
        "d": pa.array([1e300, -1e-300, None, 2.0]),
        "nan": pa.array([nan, 1.0, None, -1.0]),
        "zero": pa.array([0.0, 0.0, None, 0.0]),
        "s": ["a" * 30, "é中" * 12, None, "b" * 15 + "\U0010ffff" + "c"],
        "top": [top, "a", None, "b"],
        "b": [b"\x01" * 40, b"", None, b"\x02" * 15 + b"\xff\xff"],
        "ff": [b"\xff" * 20, b"\x00", None, b"\x01"],
        "none": pa.array([None] * 4, pa.int32()),
        "i": pa.array([-5, 7, None, 2**31 - 1], pa.int32()),
        "a": pa.array([[1], None, [], [2]], pa.list_(pa.int32())),
    }
    return pa.table(columns)


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.sample(1)
def test_statistics_are_those_of_java_in_every_mode(
    java: JavaPaimon, tmp_path: Path, form: str, keyed: bool
) -> None:
    rows = edge_rows()
    for number, mode in enumerate(MODES):
        options = {"file.format": form, **mode}
        if form == "avro":
            options.pop("file.compression.per.level", None)
        ours, theirs = two_tables(java, tmp_path / str(number), EDGES, keyed=keyed, options=options)
        ts.open(ours).write(rows)
        java.write(theirs, cells(rows))
        (mine,), (other,) = files(ours), files(theirs)
        assert mine.value_stats_cols == other.value_stats_cols, mode
        for name, column_stats in stats_by_column(theirs, other).items():
            if not (form == "orc" and name == "nan"):  # Java forgets numbers beside NaN there
                assert repr(stats_by_column(ours, mine)[name]) == repr(column_stats), (mode, name)
        assert (mine.key_stats, mine.value_stats.null_counts) == (
            other.key_stats,
            other.value_stats.null_counts,
        )
        assert java.rows(ours) == our_rows(ours) == java.rows(theirs) == our_rows(theirs)


INDEXED = {
    "i8": "TINYINT",
    "i16": "SMALLINT",
    "i32": "INT",
    "i64": "BIGINT",
    "yes": "BOOLEAN",
    "f": "FLOAT",
    "d": "DOUBLE",
    "s": "STRING",
    "b": "BYTES",
    "dec": "DECIMAL(12, 3)",
    "day": "DATE",
    "clock": "TIME(3)",
    "ts3": "TIMESTAMP(3)",
    "ts6": "TIMESTAMP(6)",
    "ltz": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "m": {"type": "MAP", "key": "STRING", "value": "INT"},
}
INDEXES = {
    "file-index.bloom-filter.columns": "i8,i16,i32,i64,f,d,s,b,day,clock,ts3,ts6,ltz,m[k0],m[nowhere]",
    "file-index.bitmap.columns": "i8,i16,i32,i64,yes,f,d,s,day,clock,ts3,ts6,ltz,m[k1]",
    "file-index.bsi.columns": "i8,i16,i32,dec,day,clock,ts3,ts6,ltz",
    "file-index.range-bitmap.columns": "i8,i16,i32,i64,yes,f,d,s,dec,day,clock,ts3,ts6,ltz",
    "file-index.bitmap.s.index-block-size": "100b",
    "file-index.range-bitmap.s.chunk-size": "40b",
    "file-index.range-bitmap.i32.chunk-size": "24b",
}
BLOOMS = {f"file-index.bloom-filter.{c}.items": "200" for c in INDEXED if c not in ("yes", "dec", "m")}


def container_of(path: str, file: DataFileMeta) -> Container:
    if file.embedded_index is not None:
        return container.decode(file.embedded_index, file.file_name)
    (name,) = file.extra_files
    return container.decode((Path(path) / "bucket-0" / name).read_bytes(), name)


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("threshold", ["0b", "10 mb"], ids=["beside", "embedded"])
@pytest.mark.sample(1)
def test_file_indexes_are_those_of_java_byte_by_byte(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], keyed: bool, threshold: str
) -> None:
    for seed in seeds[::2]:
        options = {**INDEXES, **BLOOMS, "file-index.bloom-filter.m.items": "50"}
        options["file-index.in-manifest-threshold"] = threshold
        ours, theirs = two_tables(java, tmp_path / str(seed), INDEXED, keyed=keyed, options=options)
        types = samples.types_of(INDEXED)
        rows = samples.table(types, 150, seed)
        ts.open(ours).write(rows)
        java.write(theirs, cells(rows, types))
        (mine,), (other,) = files(ours), files(theirs)
        assert (mine.embedded_index is None) == (other.embedded_index is None)
        assert [n.rpartition(".")[2] for n in mine.extra_files] == [
            n.rpartition(".")[2] for n in other.extra_files
        ]
        actual, expected = container_of(ours, mine).indexes, container_of(theirs, other).indexes
        assert {c: set(kinds) for c, kinds in actual.items()} == {c: set(k) for c, k in expected.items()}
        for column, kinds in expected.items():
            for kind, data in kinds.items():
                if kind != "bitmap":  # Java's bitmaps lie in the order of its hash map
                    assert actual[column][kind] == data, (column, kind)
                else:
                    assert len(actual[column][kind]) == len(data), (column, kind)
        asked_alike(java, ours, theirs, rows, seed)


def asked_alike(java: JavaPaimon, ours: str, theirs: str, rows: pa.Table, seed: int) -> None:
    """Some filters give the same rows in both tables and engines."""
    rng = random.Random(seed)
    types = {n: t for n, t in samples.types_of(INDEXED).items() if t.root != "MAP"}
    for name in rng.sample(sorted(types), 4):
        op = rng.choice(sorted(OPERATORS))
        value = rng.choice([v for v in rows.column(name).to_pylist() if v is not None])
        condition = OPERATORS[op](ts.col(name), value)
        actual = [cells(ts.open(p).scan(where=condition).to_arrow(), all_types(p)) for p in (ours, theirs)]
        column = pa.table({name: pa.array([value], rows.schema.field(name).type)})
        literal = cells(column, types)[0][0]
        asked = [java.rows(p, where=[op, name, literal]) for p in (ours, theirs)]
        assert in_order(actual[0]) == in_order(actual[1]) == asked[0] == asked[1], (name, op, value)


def all_types(path: str) -> dict[str, Any]:
    return {f.name: f.type for f in ts.open(path).store.schema.fields}


OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


FORMS: list[dict[str, Any]] = [
    {"file.format.per.level": "0:avro,5:orc", "file.compression.per.level": "0:deflate,5:lz4"},
    {"file.format": "orc", "changelog-file.format": "parquet", "file.compression": "none"},
    {"changelog-file.format": "avro", "changelog-file.compression": "bzip2", "file.compression": "gzip"},
    {"file.format": "avro", "file.compression": "null", "changelog-file.compression": "zstd"},
    {"file.suffix.include.compression": "true", "file.compression": "zstd", "file.compression.zstd-level": 5},
    {"file.format": "orc", "file.suffix.include.compression": "true", "file.compression": "snappy"},
    {"data-file.prefix": "d_", "changelog-file.prefix": "c_", "file.block-size": "16 kb"},
    {"file.format": "avro", "file.compression": "snappy", "data-file.path-directory": "data/files"},
]


@pytest.mark.parametrize("form", FORMS, ids=[" ".join(map(str, f.values())) for f in FORMS])
@pytest.mark.sample(2)
def test_forms_of_files_by_level_and_kind_go_both_ways(
    java: JavaPaimon, tmp_path: Path, form: dict[str, Any]
) -> None:
    options = {"changelog-producer": "input", "write-only": "false", **form}
    ours, theirs = two_tables(java, tmp_path, {"s": "STRING", "n": "INT"}, keyed=True, options=options)
    for turn in range(3):
        rows = pa.table(
            {"k": range(turn, turn + 300), "s": ["x" * turn] * 300, "n": pa.array(range(300), pa.int32())}
        )
        ts.open(ours).write(rows)
        java.write(theirs, cells(rows), identifier=turn)
    ts.open(ours).compact(full=True)
    java.compact(theirs, identifier=9)
    assert java.rows(ours) == our_rows(ours) == java.rows(theirs) == our_rows(theirs)
    assert java.stream(ours) == java.stream(theirs)
    assert suffixes(ours) == suffixes(theirs)
    assert ts.open(ours).check() == []
    for path in (ours, theirs):  # each goes on with the other's
        java.write(path, [[1, "java", 1]], identifier=20)
        ts.open(path).write(pa.table({"k": [2], "s": ["python"], "n": pa.array([2], pa.int32())}))
        assert java.rows(path) == our_rows(path)


def suffixes(path: str) -> list[str]:
    """What data files are called but for their uuids."""
    names = (p.name for p in Path(path).rglob("bucket-*/*"))
    return sorted({re.sub(r"[0-9a-f]{8}-.*?(?=\.)", "", name) for name in names})


def test_data_files_outside_the_table_are_found_by_both(java: JavaPaimon, tmp_path: Path) -> None:
    roots = f"file:{tmp_path}/one,file://{tmp_path}/two"
    options = {"data-file.external-paths": roots, "data-file.external-paths.strategy": "round-robin"}
    columns = {"s": "STRING", "p": "STRING NOT NULL"}
    path, places = str(tmp_path / "d.db" / "t"), [tmp_path / "one", tmp_path / "two"]
    java.create(
        path,
        {"k": "INT NOT NULL", **columns},
        primary_keys=["k", "p"],
        partition_keys=["p"],
        options={
            "bucket": 1,
            "file-index.bitmap.columns": "s",
            "file-index.in-manifest-threshold": "0b",
            **options,
        },
    )
    for turn in range(3):
        rows = pa.table({"k": pa.array([turn, 9], pa.int32()), "s": ["ours", "x"], "p": ["a/b", "c"]})
        ts.open(path, roots=places).write(rows)
        java.write(path, [[turn, "java", "a/b"], [turn + 5, "y", "c"]], identifier=turn)
        assert our_rows(path, roots=places) == java.rows(path)
    assert {str(p.relative_to(tmp_path)).split("/")[0] for p in tmp_path.rglob("data-*")} == {"one", "two"}
    ts.open(path, roots=places).compact(full=True)
    java.compact(path, identifier=9)
    assert our_rows(path, roots=places) == java.rows(path)
    assert ts.open(path, roots=places).check() == []


def test_int96_of_java_is_read_or_refused_and_never_wrapped(java: JavaPaimon, tmp_path: Path) -> None:
    path = str(tmp_path / "d.db" / "t")
    fields = {"k": "INT", "t": "TIMESTAMP(9)", "a": {"type": "ARRAY", "element": "TIMESTAMP(9)"}}
    java.create(path, fields, options={"bucket": -1})
    texts = [
        "1677-09-22 00:00:00.000000001",
        "1969-12-31 23:59:59.999999999",
        "2262-04-11 23:47:16.854775807",
    ]
    java.write(path, [[i, text, [text, None]] for i, text in enumerate(texts)])
    assert our_rows(path) == java.rows(path)
    for number, text in enumerate(
        ("0001-01-01 00:00:00.000000000", "1677-01-01 12:00:00.500000000", "2262-04-12 00:00:00.000000001")
    ):
        java.write(path, [[9, None, [text]]], identifier=number + 1)
        with pytest.raises(Unsupported, match=r"1677-09-21.*column 'a' of .*parquet"):
            ts.open(path).scan().to_arrow()
        assert ts.open(path).scan(columns=["k"]).to_arrow().num_rows == 4 + number


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.sample(1)
def test_years_1_to_9999_go_both_ways(java: JavaPaimon, tmp_path: Path, form: str) -> None:
    columns = {
        "t3": "TIMESTAMP(3)",
        "t6": "TIMESTAMP(6)",
        "z": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "d": "DATE",
    }
    ours, theirs = two_tables(java, tmp_path, columns, keyed=True, options={"file.format": form})
    types = samples.types_of(columns)
    first = 1583 if form == "orc" else 1  # older ones come back from ORC by another calendar
    rows = samples.table(types, 40, 1, years=(first, 9999))
    ts.open(ours).write(rows)
    java.write(theirs, cells(rows, types))
    assert java.rows(ours) == our_rows(ours) == java.rows(theirs) == our_rows(theirs)


def test_variants_go_both_ways(java: JavaPaimon, tmp_path: Path) -> None:
    ours, theirs = two_tables(java, tmp_path, samples.VARIANT, keyed=True, options={})
    types = samples.types_of(samples.VARIANT)
    rows = samples.table(types, 20, 3)
    ts.open(ours).write(rows)
    java.write(theirs, cells(rows, types))
    assert java.rows(ours) == our_rows(ours) == java.rows(theirs) == our_rows(theirs)
    assert (
        [f.value_stats_cols for f in files(ours)] == [f.value_stats_cols for f in files(theirs)] == [("k",)]
    )
    for form in ("orc", "avro"):
        make = ts.connect(str(tmp_path)).create_table
        with pytest.raises(Unsupported, match=rf"(?i)VARIANT columns in {form}"):
            make(f"d.{form}", schema={"v": ts.VARIANT}, options={"file.format": form})
