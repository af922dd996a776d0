"""File indexes: Java's bytes, no row left out that a filter selects, and damage told with the file's name."""

from __future__ import annotations

import contextlib
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.errors import Corrupt, InvalidOption, SchemaMismatch, Unsupported
from tablestore.format import datafile
from tablestore.format.data_format import FileRequest
from tablestore.format.file_index import bitmap, bloom, bsi, container, range_bitmap, reading
from tablestore.format.file_index.container import Container
from tablestore.format.file_index.writing import KINDS, FileIndexes, index_specs
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import col
from tablestore.format.schema import TableSchema, from_json
from tablestore.format.types.arrow_types import DataType
from tablestore.io.fileio import LocalFileIO
from tests.format import samples
from tests.tables import schema_of

JAVA = Path(__file__).parents[1] / "golden" / "paimon-java" / "warehouse" / "j.db"


def every_index(types: dict[str, DataType]) -> dict[str, str]:
    """Options that give each column all kinds that take its type."""
    options = {}
    for kind, module in KINDS.items():
        names = [n for n, t in types.items() if module.takes(t)]
        names = [n for n in names if (kind, n) != (bsi.KIND, "f_i64")]  # the smallest BIGINT has no magnitude
        if names:
            options[f"file-index.{kind}.columns"] = ",".join(names)
    return options


def indexed(schema: TableSchema, rows: pa.Table) -> bytes:
    indexes = FileIndexes(index_specs(schema))
    for batch in rows.to_batches(max_chunksize=37):
        indexes.update(batch)
    return indexes.finish()


def test_hashes_are_those_of_their_definitions() -> None:
    texts = pa.array([b"", b"a", b"abc", b"Nobody inspects the spammish repetition"])
    hashes = [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B, 0x44BC2CF5AD770999, 0xFBCEA83C8A378BF1]
    assert bloom.xxh64(texts).view(np.uint64).tolist() == hashes
    assert bloom.xxh64(texts.slice(2)).view(np.uint64).tolist() == hashes[2:]
    assert bloom.wang(np.array([1, -1, 42])).tolist() == [
        6614235796240398542,
        6614246905173314819,
        1098236396662648698,
    ]


@pytest.mark.parametrize("table", ["file_index", "pk_file_index"])
def test_containers_of_java_are_made_again_from_the_rows(table: str) -> None:
    seen = 0
    for path in sorted((JAVA / table / "bucket-0").glob("*.index")):
        schema = from_json(max((JAVA / table / "schema").iterdir()).read_bytes(), "schema")
        of_java = container.decode(path.read_bytes(), str(path)).indexes
        ours = FileIndexes(index_specs(schema))
        source = str(path).removesuffix(".index")
        request = FileRequest(schema.names, system=bool(schema.primary_keys))
        for batch in datafile.read(LocalFileIO(), source, schema, request):
            ours.update(batch)
        assert container.decode(ours.finish(), "made again").indexes == of_java
        seen += len(of_java)
    assert seen or table == "pk_file_index"


@pytest.mark.parametrize("with_key", [False, True], ids=["columns", "map keys"])
def test_a_container_keeps_names_of_any_characters(with_key: bool) -> None:
    name = "é中\U0001f600\0x" + ("[k]" if with_key else "")
    given = {name: {"bitmap": b"12", "bsi": None}, "b": {"bloom-filter": b""}}
    assert container.decode(container.encode(Container(given)), "x").indexes == given


def test_no_row_that_a_filter_selects_is_left_out(seeds: tuple[int, ...]) -> None:
    types = {
        n: t for n, t in samples.types_of(samples.PRIMITIVES, samples.NANOS).items() if t.root != "DECIMAL"
    }
    types |= {"dec": DataType("DECIMAL", precision=12, scale=3), "zero": DataType("DOUBLE")}
    schema = schema_of({"k": DataType("BIGINT"), **types}, options=every_index({**types}))
    for seed in seeds:
        rng = random.Random(seed)
        rows = samples.table(types, 120, seed)
        rows = rows.set_column(
            rows.column_names.index("zero"),
            "zero",
            pa.array([rng.choice([0.0, -0.0, float("nan"), 1.0, -1.0, None]) for _ in range(120)]),
        )
        data = indexed(schema, rows)
        for name in types:
            for condition in rng.sample(conditions(name, rows.column(name), rng), 5):
                where = predicate.bind(condition, schema)
                wanted = evaluate.mask(where, rows.combine_chunks()).to_numpy(zero_copy_only=False)
                chosen = reading.select(data, "x", where, schema, 120)
                mask = np.full(120, chosen) if isinstance(chosen, bool) else chosen
                assert not (wanted & ~mask).any(), (condition, seed)
                if name not in ("f_bytes", "f_bin", "f_ts9", "f_ltz9"):  # exact but where only blooms are
                    assert (wanted == mask).all(), (condition, seed)


def conditions(name: str, column: pa.ChunkedArray, rng: random.Random) -> list[Any]:
    valid = [v for v in column if v.is_valid]
    a, b = rng.choice(valid), rng.choice(valid)
    c = col(name)
    predicates = [c == a, c != a, c < a, c <= a, c > a, c >= a, c.is_in([a, b]), ~c.is_in([a, b])]
    predicates += [
        c.is_null(),
        c.is_not_null(),
        (c == a) | (c == b),
        (c > a) & (c < b),
        (c > a) | c.is_null(),
    ]
    return predicates


def test_timestamps_above_microseconds_are_only_ever_let_through(seeds: tuple[int, ...]) -> None:
    types = {"t": DataType("TIMESTAMP", precision=9)}
    schema = schema_of(types, options=every_index(types))
    rows = pa.table({"t": pa.array([1_000_001, 1_000_002, None], pa.int64()).cast(pa.timestamp("ns"))})
    data = indexed(schema, rows)
    value = rows.column("t")[0]
    for condition, least in ((col("t") != value, [1]), (col("t") > value, [1]), (col("t") == value, [0])):
        actual = reading.select(data, "x", predicate.bind(condition, schema), schema, 3)
        mask = np.full(3, actual) if isinstance(actual, bool) else actual
        assert all(mask[i] for i in least), condition


def test_values_of_map_keys_are_indexed_for_other_engines() -> None:
    types = samples.types_of({"m": {"type": "MAP", "key": "STRING", "value": "INT"}})
    schema = schema_of(types, options={"file-index.bitmap.columns": "m[a], m[zz]"})
    rows = pa.table(
        {
            "m": pa.array(
                [[("a", 1)], None, [("b", 2), ("a", 3)], [], [("a", None)]], pa.map_(pa.string(), pa.int32())
            )
        }
    )
    indexes = container.decode(indexed(schema, rows), "x").indexes
    reader = bitmap.BitmapReader(indexes["m[a]"]["bitmap"], types["m"].children[1].type, 5)
    assert [reader.rows_of(v).tolist() for v in (1, 3, 2, None)] == [[0], [2], [], [1, 3, 4]]
    assert bitmap.BitmapReader(indexes["m[zz]"]["bitmap"], types["m"].children[1].type, 5).rows_of(
        None
    ).tolist() == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_a_bitmap_of_many_values_is_cut_into_blocks() -> None:
    t = DataType("VARCHAR", precision=100)
    rows = pa.table({"s": [f"value {i % 500:05d}" for i in range(1500)]})
    for options in (
        {},
        {"file-index.bitmap.s.index-block-size": "200b"},
        {"file-index.bitmap.s.version": "1"},
    ):
        schema = schema_of({"s": t}, options={"file-index.bitmap.columns": "s", **options})
        data = container.decode(indexed(schema, rows), "x").indexes["s"]["bitmap"]
        reader = bitmap.BitmapReader(data, t, 1500)
        for i in (0, 17, 250, 499):
            assert reader.rows_of(f"value {i:05d}".encode()).tolist() == [i, i + 500, i + 1000]
        for absent in (b"", b"value 00017x", b"zzz"):
            assert reader.rows_of(absent).tolist() == []


def test_options_that_make_no_index_are_reported() -> None:
    types = samples.types_of(
        {"s": "STRING", "yes": "BOOLEAN", "m": {"type": "MAP", "key": "INT", "value": "INT"}}
    )
    for options, error, text in (
        ({"file-index.bitmap.columns": "s,nope"}, InvalidOption, "'nope', which is not a column"),
        ({"file-index.bitmap.columns": "s,,"}, InvalidOption, "names of columns"),
        ({"file-index.bloom-filter.columns": "yes"}, Unsupported, "bloom-filter indexes of BOOLEAN"),
        ({"file-index.zone.columns": "s"}, Unsupported, "kind 'zone'"),
        ({"file-index.bitmap.columns": "m[1]"}, InvalidOption, "not a map with text keys"),
        ({"file-index.bitmap.s.index-block-size": "1kb"}, InvalidOption, "declare it with"),
        (
            {"file-index.bloom-filter.columns": "s", "file-index.bloom-filter.s.fpp": "2"},
            InvalidOption,
            "fpp",
        ),
    ):
        with pytest.raises(error, match=text):
            index_specs(schema_of(types, options=options))


def test_damaged_indexes_are_reported_with_the_file(seeds: tuple[int, ...]) -> None:
    types = {"i": DataType("INT"), "s": DataType("VARCHAR", precision=9)}
    schema = schema_of(types, options=every_index(types) | {"file-index.bloom-filter.i.items": "50"})
    rows = pa.table(
        {
            "i": pa.array([i % 7 if i % 5 else None for i in range(90)], pa.int32()),
            "s": [f"v{i % 9}" for i in range(90)],
        }
    )
    sound = indexed(schema, rows)
    questions = [predicate.bind(c, schema) for c in ((col("i") == 3) & (col("s") > "v3"), col("s") == "v4")]

    def ask(data: bytes) -> None:
        for where in questions:
            rows = reading.select(data, "some.index", where, schema, 90)
            assert isinstance(rows, bool) or len(rows) == 90

    ask(sound)
    for data in (b"", sound[:11], sound[:60], sound[: len(sound) // 2], b"x" + sound[1:]):
        with pytest.raises(Corrupt, match=r"some\.index"):
            ask(data)
    for seed in seeds:
        rng = random.Random(seed)
        for _ in range(100):
            at = rng.randrange(len(sound))
            with contextlib.suppress(Corrupt):
                ask(sound[:at] + bytes([rng.randrange(256)]) + sound[at + 1 :])
    with pytest.raises(Corrupt, match="rows"):
        reading.select(sound, "some.index", questions[0], schema, 91)


def test_huge_promises_of_an_index_are_not_believed() -> None:
    huge = 2**31 - 1
    for kind, data in (
        (bsi.KIND, struct.pack(">bi", 1, huge) + b"\0\0"),
        (bitmap.KIND, struct.pack(">bii?i", 2, 10, huge, False, huge)),
        (range_bitmap.KIND, struct.pack(">ibii", 9, 1, 10, huge)),
        (bloom.KIND, struct.pack(">i", huge)),
    ):
        whole = container.encode(Container({"i": {kind: data}}))
        schema = schema_of({"i": DataType("INT")})
        with pytest.raises(Corrupt, match="x"):
            reading.select(whole, "x", predicate.bind(col("i") == 3, schema), schema, 10)


def test_the_smallest_bigint_is_refused_by_a_bit_sliced_index() -> None:
    schema = schema_of({"i": DataType("BIGINT")}, options={"file-index.bsi.columns": "i"})
    with pytest.raises(SchemaMismatch, match="bsi index of 'i'"):
        indexed(schema, pa.table({"i": [-(2**63)]}))
