"""Data files: what is written comes back, in Java's form and with Java's statistics; damage is named."""

from __future__ import annotations

import errno
import io as bytes_io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablestore.core.errors import Corrupt, InvalidOption, Unavailable
from tablestore.core.options.table_options import TableOptions
from tablestore.format import binary_row, datafile, stats
from tablestore.format.data_format import FileRequest
from tablestore.format.datafile import DataFileWriter, WrittenFile
from tablestore.format.manifests import manifest
from tablestore.format.parquet.schema import KIND, SEQUENCE, kv_schema
from tablestore.format.predicates import literal
from tablestore.format.predicates.predicate import bind, col
from tablestore.format.schema import TableSchema, from_json
from tablestore.format.types import arrow_types as t
from tablestore.io.fileio import LocalFileIO
from tests.tables import schema_of

GOLDEN = Path(__file__).parents[1] / "golden"
JAVA = GOLDEN / "paimon-java" / "warehouse" / "j.db"
PYPAIMON = GOLDEN / "paimon" / "warehouse" / "g.db"
IO = LocalFileIO()


def keyed(columns: dict[str, t.DataType], **options: str) -> TableSchema:
    return schema_of(columns, primary_key=("k",), options=options)


def kv(
    schema: TableSchema, first_sequence: int = 0, kinds: list[int] | None = None, **raw: list[Any]
) -> pa.RecordBatch:
    """A kv batch of raw values."""
    n = len(next(iter(raw.values())))
    system = [pa.array(range(first_sequence, first_sequence + n)), pa.array(kinds or [0] * n, pa.int8())]
    values = [literal.array(raw[f.name], f.type) for f in schema.fields]
    return pa.RecordBatch.from_arrays(system + values, schema=kv_schema(schema))


def write(path: Path, schema: TableSchema, *batches: pa.RecordBatch, **options: Any) -> WrittenFile:
    writer = DataFileWriter(IO, str(path), schema, TableOptions.parse(schema.options | options))
    for batch in batches:
        writer.write(batch)
    return writer.close()


def rows(
    path: Any,
    schema: TableSchema,
    columns: tuple[str, ...] | None = None,
    file_size: int | None = None,
    **how: Any,
) -> pa.Table:
    names = schema.names if columns is None else columns
    request = FileRequest(names, **how)
    return pa.Table.from_batches(
        datafile.read(IO, str(path), schema, request, file_size=file_size), kv_schema(schema, tuple(names))
    )


def test_a_file_knows_its_keys_sequences_deletes_and_size(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT, "s": t.STRING})
    first = kv(schema, 10, [0, 3], k=[1, 2], s=["b", None])
    second = kv(schema, 3, [1, 2, 3], k=[5, 7, 9], s=["a", "c", "b"])
    written = write(tmp_path / "x.parquet", schema, first, second)
    keys = [f.type for f in schema.key_fields]
    assert (written.rows, written.delete_count) == (5, 3)
    assert (written.min_sequence, written.max_sequence) == (3, 11)
    assert binary_row.decode(written.min_key, keys) == (1,)
    assert binary_row.decode(written.max_key, keys) == (9,)
    assert written.size == (tmp_path / "x.parquet").stat().st_size
    assert stats.decode(written.key_stats, keys, 5) == [stats.ColumnStats(1, 9, 0, 5)]
    assert stats.decode(written.value_stats, [t.INT, t.STRING], 5)[1] == stats.ColumnStats("a", "c", 1, 5)


def test_the_physical_columns_are_those_java_writes(tmp_path: Path) -> None:
    source = next((JAVA / "pk_all_types_parquet").rglob("data-*.parquet"))
    schema = golden_schemas("pk_all_types_parquet")[0]
    written = write(tmp_path / "x.parquet", schema, *rows(source, schema).to_batches())
    theirs = str(pq.ParquetFile(source).schema).splitlines()[2:]
    ours = str(pq.ParquetFile(written.path).schema).splitlines()[2:]
    differ = [(a.split()[:3], b) for a, b in zip(theirs, ours, strict=True) if a != b]
    assert [a[0] for a in differ] == [
        ["optional", "int96", "field_id=21"],
        ["optional", "int96", "field_id=24"],
    ]
    assert all(
        "timeUnit=nanoseconds" in b for _, b in differ
    )  # Arrow writes INT96 for all timestamps or none


def golden_schemas(table: str, root: Path = JAVA) -> dict[int, TableSchema]:
    schemas = (from_json(p.read_bytes(), str(p)) for p in (root / table / "schema").glob("schema-*"))
    return {s.id: s for s in schemas}


def golden_files(table: str) -> Iterator[tuple[Path, manifest.DataFileMeta]]:
    """Every file a table's manifests ever added."""
    seen = set()
    for m in sorted((JAVA / table / "manifest").glob("manifest-*")):
        if m.name.startswith("manifest-list"):
            continue
        for e in manifest.decode_entries(m.read_bytes(), str(m)):
            path = next((JAVA / table).rglob(e.file.file_name), None)
            if e.kind == manifest.ADD and path is not None and path not in seen:
                seen.add(path)
                yield path, e.file


@pytest.mark.parametrize(
    "table", ["pk_all_types_parquet", "pk_levels", "pk_many_keys", "pk_write_only", "part_types"]
)
def test_statistics_equal_those_of_java_for_the_same_rows(tmp_path: Path, table: str) -> None:
    schemas, compared = golden_schemas(table), 0
    for path, meta in golden_files(table):
        schema = schemas[meta.schema_id]
        written = write(
            tmp_path / path.name, schema, *rows(path, schema, file_size=meta.file_size).to_batches()
        )
        assert (written.min_key, written.max_key) == (meta.min_key, meta.max_key)
        assert (written.rows, written.delete_count) == (meta.row_count, meta.delete_count)
        assert (written.min_sequence, written.max_sequence) == (meta.min_sequence, meta.max_sequence)
        assert written.key_stats == meta.key_stats
        assert written.value_stats_cols == meta.value_stats_cols
        types = [f.type.as_nullable() for f in schema.fields]
        ours, theirs = (
            stats.decode(s, types, meta.row_count) for s in (written.value_stats, meta.value_stats)
        )
        for f, a, b in zip(schema.fields, ours, theirs, strict=True):
            nanos = (
                f.type.root.startswith("TIMESTAMP") and f.type.precision > 6
            )  # INT96 has no bounds in Java
            assert (a.null_count if nanos else a) == (b.null_count if nanos else b), f.name
        compared += 1
    assert compared > 2


def pk_parquet_files() -> list[Path]:
    both = [*JAVA.glob("pk_*"), *PYPAIMON.glob("pk_*")]
    nested = ("pk_nested", "pk_aggregation")
    return [f for d in sorted(both) if not d.name.startswith(nested) for f in sorted(d.rglob("*.parquet"))]


def test_files_of_other_writers_read_with_the_exact_types_of_the_schema() -> None:
    kinds = set()
    for path in pk_parquet_files():
        table = next(p for p in path.parents if (p / "schema").is_dir())
        schema = golden_schemas(table.name, table.parent)[0]
        read = rows(path, schema)
        assert read.schema == kv_schema(schema)
        assert read.num_rows == pq.ParquetFile(path).metadata.num_rows
        kinds |= {
            c.physical_type for c in map(pq.ParquetFile(path).metadata.row_group(0).column, range(4, 5))
        }
    assert len(pk_parquet_files()) > 100


@pytest.mark.parametrize("root", [JAVA, PYPAIMON])
def test_values_of_every_type_in_other_writers_files_equal_a_plain_parquet_read(root: Path) -> None:
    schema = golden_schemas("pk_all_types_parquet", root)[0]
    for path in (root / "pk_all_types_parquet").rglob("*.parquet"):
        plain = pq.ParquetFile(path).read(columns=list(schema.names))
        read = rows(path, schema).select(list(schema.names))
        for name in schema.names:
            assert read[name].cast(plain.schema.field(name).type).equals(plain[name]), name


def test_thin_files_have_no_key_columns_and_read_the_same(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT, "s": t.STRING})
    batch = kv(schema, k=[1, 2], s=["a", "b"])
    written = write(tmp_path / "x.parquet", schema, batch, **{"data-file.thin-mode": "true"})
    assert datafile.row_groups(IO, written.path).columns == (SEQUENCE, KIND, "k", "s")
    assert rows(written.path, schema).equals(pa.Table.from_batches([batch]))


def test_a_projection_reads_only_what_is_asked_in_that_order(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT, "s": t.STRING, "v": t.DOUBLE})
    written = write(tmp_path / "x.parquet", schema, kv(schema, k=[1], s=["a"], v=[0.5]))
    assert rows(written.path, schema, ("v", "k")).column_names == [SEQUENCE, KIND, "v", "k"]
    batch = next(datafile.read(IO, written.path, schema, FileRequest(("v", "k"), system=False)))
    assert batch.to_pylist() == [{"v": 0.5, "k": 1}]


def test_memory_is_bounded_by_row_groups_and_the_size_is_known_before_the_end(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT, "s": t.STRING})
    options = TableOptions.parse({"file.block-size": "64 kb"})
    writer = DataFileWriter(IO, str(tmp_path / "x.parquet"), schema, options)
    text = ["x" * 20 + str(i) for i in range(10_000)]
    for start in range(0, 10_000, 100):
        part = slice(start, start + 100)
        writer.write(kv(schema, start, k=list(range(start, start + 100)), s=text[part]))
    before = writer.bytes_written
    written = writer.close()
    groups = datafile.row_groups(IO, written.path).groups
    assert sum(g.rows for g in groups) == 10_000
    assert all(g.rows < 2_000 for g in groups)
    assert 0.5 < before / written.size < 1.3  # footer and page index come last
    assert rows(written.path, schema)["s"].to_pylist() == text


def test_one_large_batch_is_cut_into_row_groups(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT})
    written = write(
        tmp_path / "x.parquet", schema, kv(schema, k=list(range(5000))), **{"file.block-size": "16 kb"}
    )
    assert len(datafile.row_groups(IO, written.path).groups) == 4
    assert rows(written.path, schema)["k"].to_pylist() == list(range(5000))


def test_row_groups_in_which_nothing_matches_are_skipped(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT, "s": t.STRING})
    parts = [kv(schema, k=[i, i + 1], s=[None, f"s{i}"]) for i in range(0, 40, 2)]
    written = write(tmp_path / "x.parquet", schema, *parts, **{"file.block-size": "1 b"})
    whole = rows(written.path, schema, predicate=bind(col("k") >= 0, schema))
    chosen = rows(written.path, schema, predicate=bind((col("k") == 7) & col("s").startswith("s"), schema))
    none = rows(written.path, schema, ("s",), predicate=bind(col("k") > 100, schema))
    assert whole.num_rows == 40
    assert 7 in chosen["k"].to_pylist()
    assert chosen.num_rows < 5
    assert none.num_rows == 0


def test_dictionary_reads_keep_codes_for_rewriting_and_mix_with_plain_text(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT, "few": t.STRING, "many": t.STRING})
    n = 4000
    batches = []
    for part in range(2):
        low, texts = part * n, [f"{part}-{i}" for i in range(n)]
        few = [None if i % 7 == 0 else "abc"[i % 3] * (part + 1) for i in range(n)]
        batches.append(kv(schema, low, k=list(range(low, low + n)), few=few, many=texts))
    paths = [write(tmp_path / f"{i}.parquet", schema, b).path for i, b in enumerate(batches)]
    in_dictionaries = FileRequest(schema.names, dictionary=True, batch_rows=1000)
    coded = [b for p in paths for b in datafile.read(IO, p, schema, in_dictionaries)]
    assert [pa.types.is_dictionary(coded[0].schema.field(c).type) for c in ("few", "many")] == [True, False]
    expected = pa.Table.from_batches(batches)
    for order in (coded, [*batches[:1], *coded[4:]], [*coded[:4], *batches[1:]]):
        again = write(tmp_path / "again.parquet", schema, *order)
        assert rows(again.path, schema).equals(expected)
    footer = pq.ParquetFile(again.path).metadata.row_group(0)
    used = {
        footer.column(i).path_in_schema: set(footer.column(i).encodings) for i in range(footer.num_columns)
    }
    assert "RLE_DICTIONARY" in used["few"]
    assert used["many"] == {"PLAIN", "RLE"}
    few = footer.column(list(used).index("few"))
    assert few.total_uncompressed_size < 2 * n  # codes throughout, though the dictionaries differed
    assert "DELTA_BINARY_PACKED" in used["_KEY_k"] & used[SEQUENCE]


@pytest.mark.parametrize(
    ("options", "columns", "bounds"),
    [
        ({}, None, ("a" * 16, "c" * 15 + "d")),
        ({"metadata.stats-mode": "full"}, None, ("a" * 20, "c" * 20)),
        ({"metadata.stats-mode": "truncate(2)"}, None, ("aa", "cd")),
        ({"metadata.stats-mode": "counts"}, None, (None, None)),
        ({"metadata.stats-mode": "none"}, (), None),
        ({"metadata.stats-mode": "none", "fields.s.stats-mode": "truncate(1)"}, ("s",), ("a", "d")),
        ({"metadata.stats-mode": "none", "metadata.stats-dense-store": "false"}, None, (None, None)),
        ({"fields.k.stats-mode": "none"}, ("s",), ("a" * 16, "c" * 15 + "d")),
    ],
)
def test_statistics_follow_the_stats_mode(
    tmp_path: Path, options: dict[str, str], columns: tuple[str, ...] | None, bounds: Any
) -> None:
    schema = keyed({"k": t.INT, "s": t.STRING}, **options)
    texts = ["a" * 20, "c" * 20, None]
    written = write(tmp_path / "x.parquet", schema, kv(schema, k=[1, 2, 3], s=texts))
    assert written.value_stats_cols == columns
    kept = schema.columns(schema.names if columns is None else columns)
    decoded = stats.decode(written.value_stats, [f.type for f in kept], 3)
    by_name = {f.name: s for f, s in zip(kept, decoded, strict=True)}
    if bounds is not None:
        counted = (
            1 if options.get("metadata.stats-mode") != "none" or "fields.s.stats-mode" in options else None
        )
        assert by_name["s"] == stats.ColumnStats(*bounds, counted, 3)
    assert stats.decode(written.key_stats, [schema.fields[0].type], 3) == [stats.ColumnStats(1, 3, 0, 3)]


def test_nan_is_above_all_numbers_and_bounds_are_null_where_all_is_null(tmp_path: Path) -> None:
    nan = float("nan")
    schema = keyed({"k": t.INT, "f": t.DOUBLE, "g": t.FLOAT, "n": t.DOUBLE, "z": t.DOUBLE})
    batch = kv(schema, k=[1, 2], f=[nan, 1.0], g=[1.0, 2.0], n=[None, None], z=[0.0, -0.0])
    written = write(tmp_path / "x.parquet", schema, batch)
    _, *decoded = stats.decode(written.value_stats, [x.type for x in schema.fields], 2)
    assert [repr((s.min, s.max)) for s in decoded] == [
        "(1.0, nan)",
        "(1.0, 2.0)",
        "(None, None)",
        "(-0.0, 0.0)",
    ]
    assert [s.null_count for s in decoded] == [0, 0, 2, 0]


def test_text_too_long_for_the_footer_leaves_bounds_unknown_and_keys_exact(tmp_path: Path) -> None:
    schema = keyed({"k": t.STRING})
    keys = ["a" * 9000, "b" * 9000]
    written = write(tmp_path / "x.parquet", schema, kv(schema, k=keys))
    types = [f.type for f in schema.key_fields]
    assert binary_row.decode(written.max_key, types) == (keys[1],)
    assert stats.decode(written.value_stats, types, 2)[0].null_count == 0
    assert rows(written.path, schema)["k"].to_pylist() == keys


def test_a_missing_file_a_damaged_one_and_a_wrong_size_are_named(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT, "s": t.STRING})
    path = tmp_path / "x.parquet"
    written = write(path, schema, kv(schema, k=list(range(1000)), s=[f"row {i}" for i in range(1000)]))
    whole = path.read_bytes()
    damaged = {
        "missing": None,
        "the manifest says": whole + b"PAR1",
        "not a readable": whole[: len(whole) // 2],
        "readable": whole[:4] + bytes(reversed(whole[4:-400])) + whole[-400:],
    }
    for problem, data in damaged.items():
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(Corrupt) as e:
            list(
                datafile.read(
                    IO,
                    str(path),
                    schema,
                    FileRequest(schema.names),
                    file_size=written.size if "manifest" in problem else None,
                )
            )
        assert e.value.path == str(path)
        assert problem in e.value.problem
    path.write_bytes(whole)
    wider = keyed({"k": t.INT, "s": t.STRING, "v": t.INT})
    with pytest.raises(Corrupt, match="no column 'v'"):
        list(datafile.read(IO, str(path), wider, FileRequest(wider.names)))
    with pytest.raises(Corrupt, match="missing"):
        datafile.row_groups(IO, str(tmp_path / "none.parquet"))


class SmallDisk(LocalFileIO):
    """Takes so many bytes, then says the disk is full."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def open_output(self, path: str) -> Any:
        Path(path).touch()
        disk = self

        class BoundedSink(bytes_io.RawIOBase):
            at = 0

            def writable(self) -> bool:
                return True

            def write(self, data: Any) -> int:
                if self.at + len(data) > disk.room:
                    raise OSError(errno.ENOSPC, "No space left on device")
                self.at += len(data)
                return len(data)

            def tell(self) -> int:
                return self.at

        return pa.PythonFile(BoundedSink(), mode="w")


@pytest.mark.parametrize("room", [0, 100, 2000])
def test_a_full_disk_says_so_and_abort_leaves_nothing(tmp_path: Path, room: int) -> None:
    schema = keyed({"k": t.INT, "s": t.STRING})
    path = tmp_path / "x.parquet"
    writer = DataFileWriter(SmallDisk(room), str(path), schema, TableOptions())
    rng = np.random.default_rng(1)
    with pytest.raises(Unavailable) as e:  # noqa: PT012 - which of the two meets the full disk depends on its room
        writer.write(kv(schema, k=list(range(1000)), s=[rng.bytes(8).hex() for _ in range(1000)]))
        writer.close()
    assert "free some space" in str(e.value)
    writer.abort()
    assert not path.exists()


def test_abort_before_during_and_after_writing_leaves_no_file(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT})
    for steps in range(3):
        path = tmp_path / f"{steps}.parquet"
        writer = DataFileWriter(IO, str(path), schema, TableOptions.parse({"file.block-size": "1 b"}))
        for i in range(steps):
            writer.write(kv(schema, k=[2 * i, 2 * i + 1]))
        writer.abort()
        assert not path.exists()


def test_formats_and_codecs_that_cannot_be_written_are_refused_by_name(tmp_path: Path) -> None:
    schema = keyed({"k": t.INT})
    with pytest.raises(InvalidOption, match=r"file\.format.*'csv'"):
        write(tmp_path / "x.csv", schema, **{"file.format": "csv"})
    with pytest.raises(InvalidOption, match=r"file\.compression.*'best'"):
        write(tmp_path / "x", schema, **{"file.compression": "best"})
