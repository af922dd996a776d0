"""What a filter may skip, and that it never skips a row it should select."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.format.predicates import evaluate, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.types.arrow_types import DataField, parse_type
from tablestore.insight.explain.explanation import Explanation
from tablestore.meta.store import Store
from tablestore.read.scan import pruning
from tablestore.read.scan.plan import PlanCounts, plan
from tablestore.table.table import Table
from tests.read import golden
from tests.tables import WRITE_ONLY, TableSpec

ROWS = pa.schema(
    [("k", pa.int32()), ("p", pa.int32()), ("v", pa.int64()), ("s", pa.string()), ("f", pa.float64())]
)


UNCOMPACTED = TableSpec(ROWS, primary_key=("k", "p"), partition_by=("p",), options=WRITE_ONLY | {"bucket": 2})


def rows(keys: Any, p: int, v: int) -> pa.Table:
    keys = list(keys)
    created = {
        "k": keys,
        "p": [p] * len(keys),
        "v": [v] * len(keys),
        "s": [f"s{v}"] * len(keys),
        "f": [v / 2] * len(keys),
    }
    return pa.table(created, schema=ROWS)


def verdicts(table: Table, where: Predicate) -> dict[str, int]:
    counts = PlanCounts()
    counts.add(table.scan(where=where).plan(complete=True))
    return dict(counts.skipped)


def kept_files(table: Table, where: Predicate) -> int:
    return sum(len(s.files) for s in table.scan(where=where).plan().splits)


def test_partitions_are_decided_exactly(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    for p in range(4):
        table.write(rows(range(10), p, 1))
    assert verdicts(table, col("p") == 2) == {"partition": 6}
    assert verdicts(table, (col("p") != 2) & (col("p") < 3)) == {"partition": 4}
    assert verdicts(table, col("p").is_in([0, 3]) & (col("v") > 5)) == {"partition": 4, "column stats": 4}
    assert kept_files(table, col("p") == 99) == 0


def test_manifests_of_other_partitions_are_not_opened(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    for p in range(4):
        table.write(rows(range(10), p, 1))
    plan = table.scan(where=col("p") == 2).plan()
    assert (plan.manifests, plan.manifests_skipped) == (4, 3)
    assert sum(len(s.files) for s in plan.splits) == 2
    assert "3 of 4 manifests not opened" in repr(Explanation(plan))


def test_equality_on_the_bucket_key_names_the_bucket(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path)
    table.write(rows(range(100), 0, 1))
    actual = verdicts(table, col("k") == 17)
    assert actual == {"bucket": 1}
    assert table.scan(where=col("k") == 17).to_arrow().num_rows == 1
    assert verdicts(table, col("k").is_in(list(range(100)))) == {}
    assert verdicts(table, col("k") > 17) == {}


def test_each_file_is_pruned_under_its_own_number_of_buckets(tmp_path: Path) -> None:
    schema = UNCOMPACTED.create(tmp_path).store.schema
    where = predicate.bind(col("k") == 17, schema)
    of = pruning.buckets_of(where, schema, ts.open(str(tmp_path / "d.db" / "t")).store.options)
    few, many = of(2), of(64)
    assert few is not None
    assert many is not None
    assert len(few) == len(many) == 1
    assert next(iter(many)) % 2 == next(iter(few)) or next(iter(many)) >= 2
    assert of(-1) is None


def test_zero_names_no_bucket_because_it_has_two_signs(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.z", schema={"f": ts.DOUBLE, "v": ts.INT}, primary_key=["f"], options={"bucket": 8}
    )
    table.write(pa.table({"f": [0.0, -0.0, 1.5], "v": pa.array([1, 2, 3], pa.int32())}))
    assert sorted(table.scan(where=col("f") == 0.0).to_arrow()["v"].to_pylist()) == [1, 2]
    assert table.scan(where=col("f") == 1.5).to_arrow()["v"].to_pylist() == [3]


@pytest.mark.large
def test_java_put_every_key_into_the_bucket_that_equality_names() -> None:
    store = golden.java("pk_many_keys")
    names = store.schema.primary_keys
    everything = golden.read(store)
    actual = 0
    for row in everything.to_pylist():
        if row["f"] == 0 or row["f"] != row["f"]:
            continue  # zeros and NaN name no bucket
        where = predicate.all_of(*(col(n) == row[n] for n in names))
        planned_files = golden.planned(store, where=where)
        assert {s.bucket for s in planned_files.splits} <= {0, 1, 2}
        assert len({s.bucket for s in planned_files.splits}) == 1
        assert repr(golden.read(store, where=where).to_pylist()) == repr([row])
        actual += 1
    assert actual > 80


@pytest.mark.parametrize(
    ("store", "key"), [(golden.java("append_bucketed"), "k"), (golden.python("append_bucketed"), "b")]
)
@pytest.mark.sample(1)
def test_bucket_keys_of_append_tables_name_the_bucket(store: Store, key: str) -> None:
    everything = golden.read(store)
    assert len({s.bucket for s in golden.planned(store).splits}) > 1
    for value in everything.column(key).unique().to_pylist():
        where = col(key).is_null() if value is None else col(key) == value
        wanted = everything.filter(evaluate.mask(predicate.bind(where, store.schema), everything))
        assert golden.read(store, where=where).num_rows == wanted.num_rows > 0
        if value is not None:
            assert len({s.bucket for s in golden.planned(store, where=where).splits}) == 1


@pytest.mark.parametrize(
    "store", [golden.java("part_special"), golden.python("part_append"), golden.java("part_types")]
)
@pytest.mark.sample(1)
def test_special_partition_values_are_found_by_their_values(store: Store) -> None:
    everything = golden.read(store)
    for name in store.schema.partition_keys:
        for value in everything.column(name).unique().to_pylist():
            where = col(name).is_null() if value is None else col(name) == value
            wanted = everything.filter(evaluate.mask(predicate.bind(where, store.schema), everything))
            content = golden.read(store, where=where)
            assert sorted(map(repr, content.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
            assert content.num_rows
            rest = golden.read(store, where=~where)
            nulls = 0 if value is None else everything.column(name).null_count
            assert content.num_rows + rest.num_rows + nulls == everything.num_rows


@pytest.mark.parametrize(
    "store",
    [
        golden.java("pk_all_types_parquet"),
        golden.java("pk_all_types_orc"),
        golden.java("pk_all_types_avro"),
        golden.java("append_all_types"),
        golden.python("pk_all_types_parquet"),
        golden.python("pk_stats_full"),
    ],
    ids=lambda store: store.paths.root.rsplit("/", 3)[-1],
)
@pytest.mark.sample(1)
def test_statistics_of_every_type_never_hide_a_row(store: Store) -> None:
    everything = golden.read(store)
    shown = list(store.schema.primary_keys or store.schema.names[:1])
    for name in everything.column_names:
        values = everything.column(name).drop_null().unique().to_pylist()
        column, least, most = col(name), min(values), max(values)
        asked = (column == least, column != least, column <= least)  # what the statistics of each end decide
        for where in (*asked, column == most, column != most, column >= most):
            wanted = everything.filter(evaluate.mask(predicate.bind(where, store.schema), everything))
            content = golden.read(store, where=where, columns=shown)
            assert _sorted(content) == _sorted(wanted.select(shown)), where


def _sorted(rows: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*rows.to_pydict().values(), strict=True)))


def test_key_ranges_skip_files_of_overlapping_sections(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1})
    table.write(rows(range(0, 50), 0, 1))
    table.write(rows(range(40, 90), 0, 2))
    assert verdicts(table, col("k") < 30) == {"key range": 1}
    assert table.scan(where=col("k") < 30).to_arrow().num_rows == 30


def test_a_value_filter_never_brings_an_older_row_back(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1})
    table.write(rows(range(50), 0, 1))
    table.write(rows(range(10, 20), 0, 9))  # its statistics alone say: nothing with v = 1 here
    scan = table.scan(where=col("v") == 1)
    assert verdicts(table, col("v") == 1) == {}
    assert sorted(scan.to_arrow()["k"].to_pylist()) == [*range(10), *range(20, 50)]


def test_a_section_is_skipped_when_none_of_its_files_can_match(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1})
    table.write(rows(range(50), 0, 1))
    table.write(rows(range(10, 20), 0, 9))
    table.write(rows(range(100, 120), 0, 30))
    assert verdicts(table, col("v") > 20) == {"column stats": 2}
    text = repr(table.scan(where=col("v") > 20).explain())
    assert "v is 9, nor can the file it overlaps with" in text


def test_reasons_give_the_condition_and_the_range_of_the_file(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1})
    table.write(rows(range(50), 0, 1))
    table.write(rows(range(100, 120), 0, 30))
    explained = table.scan(where=col("v") > 20).explain()
    assert explained.summary == "skipped 1 of 2 files: 1 by column stats"
    actual = explained.to_arrow().to_pylist()
    assert [r["kept"] for r in actual].count(False) == 1
    skipped = next(r for r in actual if not r["kept"])
    assert skipped["rule"] == "column stats"
    assert skipped["reason"] == "not v > 20: v is 1"
    kept = next(r for r in actual if r["kept"])
    assert (kept["split"], kept["read"], kept["reason"]) == (0, "raw", None)


def test_a_column_added_later_is_null_in_older_files(tmp_path: Path) -> None:
    table = UNCOMPACTED.create(tmp_path, {"bucket": 1})
    table.write(rows(range(5), 0, 1))
    store = _with_column(table.store, "later", "INT")
    assert not plan(store, store.snapshots.latest(), col("later") == 3).splits
    assert len(plan(store, store.snapshots.latest(), col("later").is_null()).splits) == 1


def _with_column(store: Store, name: str, kind: str) -> Store:
    top = store.schema.highest_field_id + 1
    fields = (*store.schema.fields, DataField(top, name, parse_type(kind)))
    newer = replace(store.schema, id=store.schema.id + 1, fields=fields, highest_field_id=top)
    assert store.schemas.commit(newer)
    return Store.open(store.paths.root)


OPERATORS = (
    lambda c, v: c == v,
    lambda c, v: c != v,
    lambda c, v: c < v,
    lambda c, v: c <= v,
    lambda c, v: c > v,
    lambda c, v: c >= v,
    lambda c, v: c.is_in([v, v]),
    lambda c, v: ~c.is_in([v]),
    lambda c, v: c.between(v, v),
    lambda c, v: c.is_null(),
    lambda c, v: c.is_not_null(),
)


def random_predicate(rng: random.Random, depth: int = 2) -> Predicate:
    if depth and rng.random() < 0.6:
        left, right = random_predicate(rng, depth - 1), random_predicate(rng, depth - 1)
        return left & right if rng.random() < 0.6 else left | right
    name = rng.choice("kpvsf")
    value: Any = rng.randrange(-2, 60) if name in "kv" else rng.randrange(4)
    if name == "s":
        if rng.random() < 0.3:
            return col("s").startswith(rng.choice(["", "a", "ab", "é", "zz"]))
        value = rng.choice(["", "a", "abcdefghijklmnopqrst", "é中", "zz"])
    if name == "f":
        value = rng.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), -3.25])
    actual = rng.choice(OPERATORS)(col(name), value)
    return ~actual if rng.random() < 0.2 else actual


def random_rows(rng: random.Random) -> pa.Table:
    n = rng.randrange(1, 25)
    keys = rng.sample(range(60), n)
    texts = ["", "a", "abcdefghijklmnopqrst", "abcdefghijklmnopqrsu", "é中", "zz", None]
    floats = [0.0, -0.0, 1.5, float("nan"), float("inf"), -3.25, None]
    base = rng.randrange(50)
    created = {
        "k": keys,
        "p": [rng.randrange(4) for _ in keys],
        "v": [rng.choice([None, *range(base, base + 5)]) for _ in keys],
        "s": [rng.choice(texts) for _ in keys],
        "f": [rng.choice(floats) for _ in keys],
        "rowkind": [rng.choice(["+I", "+I", "+U", "-D", "-U"]) for _ in keys],
    }
    return pa.table(created, schema=ROWS.append(pa.field("rowkind", pa.string())))


@pytest.mark.large
def test_every_filter_selects_what_it_selects_from_the_whole_table(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        table = random_table(tmp_path / str(seed), rng)
        everything = table.scan().to_arrow()
        for _ in range(40):
            where = random_predicate(rng)
            bound = predicate.bind(where, table.store.schema)
            wanted = everything.filter(evaluate.mask(bound, everything))
            rows = table.scan(where=where).to_arrow()
            assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, wanted.to_pylist())), (
                seed,
                where,
            )
        assert table.check() == []


def random_table(path: Path, rng: random.Random) -> Table:
    """A few commits with deletes, perhaps compacted, perhaps of several row groups a file."""
    options = {"bucket": rng.choice([1, 2, 3]), "write-only": rng.random() < 0.5}
    if rng.random() < 0.5:
        options["file.block-size"] = "300 b"
    table = UNCOMPACTED.create(path, options)
    for _ in range(rng.randrange(1, 9)):
        table.write(random_rows(rng), row_kind_column="rowkind")
        if rng.random() < 0.15:
            table.compact(full=rng.random() < 0.5)
    return table
