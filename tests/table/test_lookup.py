"""Point reads against scans: the same rows for every engine, format, kind of bucket and state of the tree."""

from __future__ import annotations

import pickle
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import Corrupt, NotFound, SchemaMismatch
from tablestore.format.parquet.pages import PageLayout
from tablestore.lsm.lookup.cache import LOCAL
from tablestore.table.table import Table
from tests.faults import FaultyIO

KINDS: dict[str, dict[str, Any]] = {
    "deduplicate": {},
    "write-only": {"write-only": True},
    "sequence field": {"sequence.field": "n", "write-only": True},
    "descending": {"sequence.field": "n", "sequence.field.sort-order": "descending"},
    "ignore-delete": {"ignore-delete": True, "write-only": True},
    "partial-update": {
        "merge-engine": "partial-update",
        "ignore-delete": True,
        "fields.n.sequence-group": "v",
        "write-only": True,
    },
    "aggregation": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "aggregation, looked up": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "changelog-producer": "lookup",
    },
    "first-row": {"merge-engine": "first-row", "ignore-delete": True},
    "lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": True},
    "deletion vectors, merged when read": {
        "deletion-vectors.enabled": True,
        "deletion-vectors.merge-on-read": True,
        "write-only": True,
    },
    "orc": {"file.format": "orc", "write-only": True},
    "avro": {"file.format": "avro", "write-only": True},
    "thin": {"data-file.thin-mode": True, "write-only": True},
    "one bucket of many files": {
        "bucket": 1,
        "target-file-size": "4 kb",
        "num-sorted-run.compaction-trigger": 3,
    },
    "dynamic buckets": {"bucket": -1, "dynamic-bucket.target-row-num": 20},
    "no cache": {"lookup.cache-max-memory-size": "0 b", "write-only": True},
}
FIELDS = {
    "p": ts.STRING.not_null(),
    "a": ts.STRING.not_null(),
    "b": ts.BIGINT.not_null(),
    "n": ts.INT,
    "v": ts.STRING,
}
SPACE = [(p, a, b) for p in ("x", "y") for a in ("", "a", "aé", "b\U0001f600") for b in range(-6, 14)]


def grown(path: Path, rng: random.Random, options: dict[str, Any], *, partitioned: bool) -> Table:
    """A table that was written to a few times."""
    table = ts.connect(str(path)).create_table(
        "d.t",
        schema=FIELDS,
        primary_key=["p", "a", "b"],
        partition_by=["p"] if partitioned else [],
        options={"bucket": 3} | options,
    )
    for step in range(rng.randrange(3, 8)):
        chosen = rng.sample(SPACE, rng.randrange(1, 90))
        kinds = ["-D" if step and rng.random() < 0.2 else "+I" for _ in chosen]
        if options.get("merge-engine") == "aggregation":
            kinds = ["+I"] * len(chosen)
        p, a, b = zip(*chosen, strict=True)
        n = [rng.choice([None, *range(5)]) for _ in chosen]
        columns = {"p": p, "a": a, "b": b, "n": n, "v": [f"{step}" for _ in chosen], "rowkind": kinds}
        table.write(pa.table({k: pa.array(v) for k, v in columns.items()}), row_kind_column="rowkind")
        if rng.random() < 0.2:
            table.compact(full=rng.random() < 0.5)
    return table


def agree(table: Table, keys: list[tuple]) -> None:
    """`get_many` and `get` of these keys give what a scan gives."""
    on = table.primary_key
    scanned = {tuple(r[k] for k in on): r for r in table.scan().to_arrow().to_pylist()}
    asked = pa.table({k: pa.array(c) for k, c in zip(on, zip(*keys, strict=True), strict=True)})
    rows = table.get_many(asked).to_pylist()
    wanted = {key: scanned[key] for key in keys if key in scanned}
    assert {tuple(r[k] for k in on): r for r in rows} == wanted
    assert len(rows) == len(wanted)
    for key in keys[:: max(1, len(keys) // 25)]:
        assert table.get(dict(zip(on, key, strict=True))) == scanned.get(key)


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(2, all=18)
def test_point_reads_agree_with_a_scan(
    tmp_path: Path, seeds: tuple[int, ...], kind: str, partitioned: bool
) -> None:
    for seed in seeds[::5]:
        rng = random.Random(f"{seed} {kind}")
        table = grown(tmp_path / f"{seed}", rng, KINDS[kind], partitioned=partitioned)
        agree(table, SPACE)
        agree(table, rng.sample(SPACE, 3))
        agree(table.at(snapshot=rng.choice([1, 2])), SPACE)
        assert table.check() == []


def test_rows_of_large_files_are_found_by_their_pages(tmp_path: Path) -> None:
    count = 60_000
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT.not_null(), "d": ts.DECIMAL(20, 2), "s": ts.STRING, "x": ts.ARRAY(ts.INT)},
        primary_key=["k"],
        options={"bucket": 1, "write-only": True},
    )
    keys = pa.array(range(0, 3 * count, 3), pa.int64())
    decimals = pa.array([None if i % 7 == 0 else Decimal(i) / 4 for i in range(count)], pa.decimal128(20, 2))
    texts = pa.array([f"text {i % 1000}" if i % 5 else None for i in range(count)])
    lists = pa.array([[i, i] for i in range(count)], pa.list_(pa.int32()))
    table.write(pa.table({"k": keys, "d": decimals, "s": texts, "x": lists}))
    asked = [0, 3, 3 * 8_192, 3 * 8_191, 90_000, 90_001, 3 * count - 3, 3 * count, -1]
    agree(table, [(k,) for k in asked])
    flat = table.get_many({"k": asked}, ["s", "d", "k"])
    assert sorted(flat.column("k").to_pylist()) == sorted(
        k for k in asked if k % 3 == 0 and 0 <= k < 3 * count
    )
    assert {r["k"]: r["s"] for r in flat.to_pylist()} == {
        k: None if (k // 3) % 5 == 0 else f"text {k // 3 % 1000}" for k in flat.column("k").to_pylist()
    }


def test_a_lookup_reads_few_pages_of_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT.not_null(), "s": ts.STRING},
        primary_key=["k"],
        options={"bucket": 1, "write-only": True},
    )
    table.write(pa.table({"k": range(80_000), "s": [f"{i:0100}" for i in range(80_000)]}))
    decoded: list[int] = []
    whole = PageLayout.read

    def counted(self: PageLayout, source: Any, group: int, stretches: Any, *args: Any, **options: Any) -> Any:
        decoded.append(int((stretches[1] - stretches[0]).sum()))
        return whole(self, source, group, stretches, *args, **options)

    monkeypatch.setattr(PageLayout, "read", counted)
    assert table.get({"k": 40_000}) == {"k": 40_000, "s": f"{40_000:0100}"}
    assert table.get_many({"k": [1, 79_999, 2]}).num_rows == 3
    of_keys, of_rows = [8_192, 8_192, 80_000 % 8_192], [8_192, 8_192 + 80_000 % 8_192]
    assert decoded == [of_keys[0], of_rows[0], *of_keys[1:], of_rows[1]]


@pytest.mark.parametrize("cached", [True, False])
def test_a_row_that_is_asked_for_again_is_not_read_again(tmp_path: Path, cached: bool) -> None:
    options = {} if cached else {"lookup.cache-max-memory-size": "0 b"}
    io = FaultyIO()
    table = ts.connect(str(tmp_path), io=io).create_table(
        "d.t",
        schema={"k": ts.BIGINT.not_null(), "s": ts.STRING},
        primary_key=["k"],
        options={"bucket": 1, "write-only": True, **options},
    )
    table.write(pa.table({"k": range(80_000), "s": [f"{i % 9:0100}" for i in range(80_000)]}))
    table.write([{"k": 5, "s": "new"}])

    def reads(*keys: int) -> int:
        io.log.clear()
        for k in keys:
            assert table.get({"k": k}) == {"k": k, "s": "new" if k == 5 else f"{k % 9:0100}"}
        return sum(".parquet" in line for line in io.log)

    assert reads(40_000, 5, 77) > 0
    assert (reads(77, 40_000, 5) == 0) == cached
    table.delete([{"k": 77}])
    assert table.get({"k": 77}) is None
    table.write([{"k": 40_000, "s": "other"}])
    assert table.get({"k": 40_000}) == {"k": 40_000, "s": "other"}


@pytest.mark.parametrize("kind", ["BIGINT", "STRING", "DECIMAL(30, 2)", "TIMESTAMP(3)", "DATE", "BINARY(8)"])
def test_keys_are_found_in_each_of_many_row_groups(tmp_path: Path, kind: str) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": f"{kind} NOT NULL", "n": "INT NOT NULL", "v": "INT"},
        primary_key=["k", "n"],
        options={"bucket": 1, "write-only": True, "file.block-size": "8 kb"},
    )
    numbers = pa.array([i // 3 - 1_000 for i in range(6_000)], pa.int64())
    keys = {
        "BIGINT": numbers,
        "STRING": pa.array([f"{n:+06}é" for n in numbers.to_pylist()]),
        "DECIMAL(30, 2)": numbers.cast(pa.decimal128(30, 2)),
        "TIMESTAMP(3)": numbers.cast(pa.timestamp("ms")),
        "DATE": numbers.cast(pa.int32()).cast(pa.date32()),
        "BINARY(8)": pa.array([(n + 2**40).to_bytes(8, "big") for n in numbers.to_pylist()]),
    }[kind]
    n = pa.array([i % 3 for i in range(6_000)], pa.int32())
    table.write(pa.table({"k": keys, "n": n, "v": pa.array(range(6_000), pa.int32())}))
    (data,) = tmp_path.glob("d.db/t/bucket-0/*.parquet")
    assert pq.read_metadata(data).num_row_groups > 5
    places = [0, 1, 2, 5_999, *range(3, 6_000, 397)]
    asked = pa.table({"k": keys.take(pa.array(places)), "n": n.take(pa.array(places))})
    actual = table.get_many(asked)
    assert sorted(actual.column("v").to_pylist()) == sorted(places)
    assert table.get({"k": keys[4_001].as_py(), "n": 2})["v"] == 4_001
    assert table.get({"k": keys[4_001].as_py(), "n": 3}) is None


@pytest.mark.parametrize("threshold", ["0 b", "1 mb"])
def test_files_whose_bloom_filter_lacks_the_key_are_not_opened(tmp_path: Path, threshold: str) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT.not_null(), "v": ts.INT},
        primary_key=["k"],
        options={
            "bucket": 1,
            "write-only": True,
            "file-index.bloom-filter.columns": "k",
            "file-index.bloom-filter.k.fpp": "0.0001",
            "file-index.in-manifest-threshold": threshold,
        },
    )
    for step in range(5):
        keys = range(step, 100, 5)
        table.write(pa.table({"k": keys, "v": pa.array([step] * len(keys), pa.int32())}))
    LOCAL.clear()
    io = FaultyIO()
    assert ts.open(table.location, io=io).get({"k": 53}) == {"k": 53, "v": 3}
    assert len({line for line in io.log if line.startswith("open ") and line.endswith(".parquet")}) == 1
    agree(table, [(k,) for k in range(-1, 101)])


def test_every_old_schema_is_seen_through_todays(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    table = lake.create_table(
        "d.t", schema={"k": ts.INT.not_null(), "v": ts.INT}, primary_key=["k"], options={"bucket": 2}
    )
    table.write(pa.table({"k": pa.array(range(20), pa.int32()), "v": pa.array(range(20), pa.int32())}))
    table = table.alter(ts.rename("v", "w"), ts.add("z", ts.STRING))
    table.write(pa.table({"k": pa.array([3], pa.int32()), "w": pa.array([33], pa.int32()), "z": ["z"]}))
    table = table.alter(ts.retype("w", ts.BIGINT))
    agree(table, [(k,) for k in range(-2, 23)])
    assert table.get({"k": 3}) == {"k": 3, "w": 33, "z": "z"}
    assert table.get({"k": 4}, ["w"]) == {"w": 4}
    assert table.at(snapshot=1).get({"k": 4}) == {"k": 4, "v": 4}


def test_after_a_rescale_every_bucket_is_asked(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT.not_null(), "v": ts.INT}, primary_key=["k"], options={"bucket": 2}
    )
    rows = pa.table({"k": pa.array(range(50), pa.int32()), "v": pa.array(range(50), pa.int32())})
    table.write(rows)
    table.rescale(5)
    table = table.refresh()
    agree(table, [(k,) for k in range(60)])
    agree(table.at(snapshot=1), [(k,) for k in range(60)])


@pytest.mark.parametrize("kind", [ts.FLOAT, ts.DOUBLE])
def test_a_zero_of_the_other_sign_is_another_key(tmp_path: Path, kind: Any) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": kind.not_null(), "v": ts.INT}, primary_key=["k"], options={"bucket": 2}
    )
    table.write([{"k": k, "v": v} for v, k in enumerate([0.5, -0.0, 2.0, float("inf")])])
    assert table.get({"k": 0.0}) is None
    assert table.get({"k": -0.0}, ["v"]) == {"v": 1}
    assert table.get_many({"k": [2.0, 7.0, 0.0]}).column("v").to_pylist() == [2]
    assert table.get({"k": 10**400}) is None
    assert table.scan(where=ts.col("k") <= 10**400).to_arrow().num_rows == 3
    assert table.scan(where=ts.col("k") > -(10**400)).to_arrow().num_rows == 4
    assert table.scan(where=ts.col("k") == float("inf")).to_arrow().num_rows == 1
    table.delete({"k": [0.0, 0.5]})
    table.write([{"k": 0.0, "v": 4}])
    table.refresh().compact(full=True)
    rows = table.refresh().scan().to_arrow().column("v").to_pylist()
    assert sorted(rows) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_every_nan_is_one_key_whatever_its_bits(tmp_path: Path, kind: pa.DataType) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": kind, "v": ts.INT}, primary_key=["k"], options={"bucket": 7}
    )
    bits = np.array([0x7FC00001, 0xFFC00000, 0x7FC00000], np.uint32).view(np.float32)
    if kind == pa.float64():
        bits = np.array([0x7FF8 << 48 | 1, 0xFFF8 << 48, 0x7FF8 << 48], np.uint64).view(np.float64)
    for v in range(3):
        table.write(pa.table({"k": pa.array(bits[v : v + 1], kind), "v": pa.array([v], pa.int32())}))
    assert table.refresh().scan().to_arrow().column("v").to_pylist() == [2]
    assert table.refresh().get_many(pa.table({"k": pa.array(bits, kind)})).column("v").to_pylist() == [2]
    assert table.refresh().get({"k": bits[1]}, ["v"]) == {"v": 2}
    assert table.refresh().check() == []


def test_of_the_two_zeros_the_one_asked_for_is_found(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.DOUBLE.not_null(), "n": ts.INT.not_null(), "v": ts.INT},
        primary_key=["k", "n"],
        options={"bucket": 1},
    )
    nan = float("nan")
    table.write([{"k": k, "n": 1, "v": v} for v, k in enumerate([0.0, -0.0, nan, 1.0])])
    for v, k in enumerate([0.0, -0.0, nan]):
        assert table.get({"k": k, "n": 1}, ["v"]) == {"v": v}
        assert repr(table.get({"k": k, "n": 1})["k"]) == repr(k)
    assert table.get({"k": 0, "n": 1}, ["v"]) == {"v": 0}
    assert table.get({"k": 0.0, "n": 2}) is None


def test_a_row_of_no_columns_is_there_or_not(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1}
    )
    table.write([{"k": 1, "v": 1}])
    assert table.get({"k": 1}, []) == {}
    assert table.get({"k": 2}, []) is None


def test_no_keys_find_nothing(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1}
    )
    table.write(pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32())}))
    for keys in (
        pa.table({"k": pa.chunked_array([], pa.int32())}),
        pa.table({"k": pa.array([], pa.int32())}),
    ):
        actual = table.get_many(keys, columns=["v"])
        assert actual.num_rows == 0
        assert actual.schema == pa.schema([("v", pa.int32())])
        assert table.delete(keys).snapshots == ()
    assert table.refresh().scan().count() == 1


def test_keys_of_floats_are_found_in_tables_with_nested_columns(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.DOUBLE.not_null(), "v": ts.ARRAY(ts.INT)},
        primary_key=["k"],
        options={"bucket": 1},
    )
    lists = pa.array([[1], None, [2, 3]], pa.list_(pa.int32()))
    table.write(pa.table({"k": [0.5, float("nan"), 2.0], "v": lists}))
    assert table.get_many({"k": [2.0, 0.5]}).to_pylist() == [{"k": 0.5, "v": [1]}, {"k": 2.0, "v": [2, 3]}]
    assert table.get_many({"k": [float("nan")]}, columns=["v"]).to_pylist() == [{"v": None}]
    table.delete({"k": [float("nan"), 0.5]})
    assert table.refresh().scan().to_arrow().to_pylist() == [{"k": 2.0, "v": [2, 3]}]


def test_what_is_no_key_of_the_table_is_refused_or_not_found(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT.not_null(), "v": ts.INT}, primary_key=["k"], options={"bucket": 2}
    )
    assert table.get({"k": 1}) is None
    table.write(pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32())}))
    assert table.get({"k": 2**40}) is None
    assert table.get_many({"k": []}).num_rows == 0
    with pytest.raises(SchemaMismatch):
        table.get_many({"v": [1]})
    with pytest.raises(NotFound):
        table.get({"k": 1}, ["nothing"])


def test_a_new_snapshot_is_seen_at_once_and_a_table_may_travel(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT.not_null(), "v": ts.INT}, primary_key=["k"], options={"bucket": 1}
    )
    for v in range(5):
        table.write(pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([v], pa.int32())}))
        assert table.get({"k": 1}) == {"k": 1, "v": v}
    assert pickle.loads(pickle.dumps(table)).get({"k": 1}) == {"k": 1, "v": 4}
    table.delete(col("k") == 1)
    assert table.get({"k": 1}) is None
    table.rollback(snapshot=2)
    assert table.get({"k": 1}) == {"k": 1, "v": 1}


def test_a_damaged_file_is_named_by_the_lookup(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT.not_null(), "v": ts.STRING}, primary_key=["k"], options={"bucket": 1}
    )
    table.write(pa.table({"k": pa.array(range(40_000), pa.int32()), "v": [f"{i}" for i in range(40_000)]}))
    (data,) = tmp_path.glob("d.db/t/bucket-0/*.parquet")
    chunk = pq.read_metadata(data).row_group(0).column(3)
    raw = bytearray(data.read_bytes())
    at = chunk.data_page_offset
    raw[at : at + 20_000] = bytes(20_000)
    data.write_bytes(raw)
    LOCAL.clear()
    with pytest.raises(Corrupt, match=data.name):
        table.get({"k": 100})
    data.unlink()
    LOCAL.clear()
    with pytest.raises(Corrupt, match=data.name):
        table.get({"k": 100})


def test_a_key_is_looked_for_in_the_newest_files_first(tmp_path: Path) -> None:
    """What older files say of it cannot count."""
    io = FaultyIO()
    t = ts.connect(str(tmp_path), io=io).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1, "write-only": True}
    )
    for v in range(4):
        t.write(pa.table({"k": pa.array(range(50), pa.int32()), "v": pa.array([v] * 50, pa.int32())}))
    LOCAL.clear()
    io.log.clear()
    assert t.get({"k": 7}) == {"k": 7, "v": 3}
    assert len({line for line in io.log if line.startswith("open ")}) == 1, io.log


@pytest.mark.parametrize("late_first", [True, False])
def test_of_rows_written_at_the_same_time_the_higher_sequence_number_counts(
    tmp_path: Path, late_first: bool
) -> None:
    """Two writers number from the same snapshot on, so neither file is newer as a whole."""
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1, "write-only": True}
    )
    t.write([{"k": 0, "v": 0}])
    early, late = t.open_writer(), t.open_writer()
    early.write(pa.table({"k": [7, *range(20, 40)], "v": [1] * 21}))  # key 7 has the lower number here
    late.write(pa.table({"k": [1, 2, 3, 7], "v": [2] * 4}))  # ... and the file the lower ones in all
    for number, writer in enumerate([late, early] if late_first else [early, late]):
        t.commit(writer.prepare(), user=f"w{number}", identifier=1)
    assert t.get({"k": 7}) == {"k": 7, "v": 2}
    assert t.scan(where=col("k") == 7).to_arrow().to_pylist() == [{"k": 7, "v": 2}]
