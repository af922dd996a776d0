"""Altered tables: old rows under new columns, at once and after compaction; changes that race."""

from __future__ import annotations

import threading
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    lake = ts.connect(str(tmp_path))
    columns = {"k": ts.INT, "a": ts.INT, "b": ts.STRING}
    t = lake.create_table("d.t", schema=columns, primary_key=["k"], options={"write-only": True})
    t.write([{"k": 1, "a": 10, "b": "x"}, {"k": 2, "a": 20, "b": "y"}])
    return t


def rows(t: ts.Table) -> list[dict]:
    return sorted(t.scan().to_arrow().to_pylist(), key=lambda r: r["k"])


def test_old_rows_are_seen_through_the_new_schema(table: ts.Table) -> None:
    t = table.alter(ts.add("c", ts.DATE, after="k"), ts.rename("a", "amount"), ts.retype("amount", ts.BIGINT))
    t = t.alter(ts.drop("b"), ts.add("b", ts.INT))
    t.write([{"k": 3, "c": date(2026, 1, 1), "amount": 2**40, "b": 7}, {"k": 2, "amount": 21}])
    expected = [
        {"k": 1, "c": None, "amount": 10, "b": None},
        {"k": 2, "c": None, "amount": 21, "b": None},
        {"k": 3, "c": date(2026, 1, 1), "amount": 2**40, "b": 7},
    ]
    assert rows(t) == expected
    assert rows(t.refresh()) == expected
    t.with_options({"write-only": False}).compact(full=True)
    assert rows(t) == expected
    assert rows(t.at(snapshot=1)) == [{"k": 1, "a": 10, "b": "x"}, {"k": 2, "a": 20, "b": "y"}]
    assert t.check() == []


def test_filters_hold_on_columns_whose_type_changed(table: ts.Table) -> None:
    t = table.alter(ts.retype("a", ts.STRING), ts.retype("b", ts.VARCHAR(5)))
    assert t.scan(where=ts.col("a") == "10").to_arrow().to_pylist() == [{"k": 1, "a": "10", "b": "x"}]
    assert t.scan(where=ts.col("a") < "2").to_arrow().num_rows == 1
    small = t.alter(ts.retype("a", ts.STRING), ts.add("d", ts.DECIMAL(3, 1)))
    assert small.scan(where=ts.col("d").is_null()).to_arrow().num_rows == 2


def test_a_value_that_became_null_by_a_cast_is_found_as_null(table: ts.Table) -> None:
    t = table.alter(ts.retype("a", ts.DECIMAL(3, 2)))
    assert [r["a"] for r in rows(t)] == [None, None]
    assert t.scan(where=ts.col("a").is_null()).to_arrow().num_rows == 2


def test_a_text_that_is_no_number_is_named_when_read(table: ts.Table) -> None:
    t = table.alter(ts.retype("b", ts.INT))
    with pytest.raises(ts.SchemaMismatch, match=r"'b' was STRING and is INT: 'x'"):
        t.scan().to_arrow()
    assert t.alter(ts.retype("b", ts.STRING)).scan().to_arrow().num_rows == 2


def test_nothing_to_change_stores_no_schema(table: ts.Table) -> None:
    before = table.store.schemas.ids()
    table.alter()
    table.alter(ts.retype("a", ts.INT), ts.set_options({"bucket": 1}))
    assert table.store.schemas.ids() == before


def test_a_refused_change_stores_nothing(table: ts.Table) -> None:
    with pytest.raises(InvalidRequest):
        table.alter(ts.add("c", ts.INT), ts.drop("k"))
    with pytest.raises(InvalidRequest, match="num-levels"):
        table.alter(ts.set_options({"num-levels": 1}))
    with pytest.raises(InvalidOption, match="bucket-key"):
        table.alter(ts.set_options({"bucket-key": "a"}))
    with pytest.raises(NotFound):
        table.alter(ts.drop("nothing"))
    assert table.store.schemas.ids() == [0]


def test_a_table_of_the_past_cannot_be_altered(table: ts.Table) -> None:
    with pytest.raises(InvalidRequest):
        table.at(snapshot=1).alter(ts.add("c", ts.INT))


def test_changes_that_race_are_all_kept(table: ts.Table) -> None:
    threads = [threading.Thread(target=lambda i=i: table.alter(ts.add(f"c{i}", ts.INT))) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t = table.refresh()
    assert set(t.schema.names) == {"k", "a", "b", *(f"c{i}" for i in range(6))}
    ids = [f.id for f in t.store.schema.fields]
    assert len(set(ids)) == len(ids)
    assert t.store.schemas.ids() == list(range(7))


def test_a_writer_that_began_before_a_change_still_commits(table: ts.Table) -> None:
    with table.writer() as w:
        w.write([{"k": 3, "a": 30, "b": "z"}])
        altered = table.alter(ts.drop("b"), ts.rename("a", "amount"), ts.add("b", ts.INT))
    assert rows(altered)[2] == {"k": 3, "amount": 30, "b": None}
    assert altered.check() == []


def test_a_change_is_refused_on_the_schema_that_it_meets(table: ts.Table) -> None:
    table.alter(ts.drop("b"))
    with pytest.raises(NotFound, match="'b'"):
        table.alter(ts.rename("b", "c"))


def test_rows_nested_in_others_evolve_through_compaction(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    columns = {"k": ts.INT, "r": ts.ROW(x=ts.INT, y=ts.STRING), "l": ts.ARRAY(ts.ROW(p=ts.INT))}
    t = lake.create_table("d.n", schema=columns, primary_key=["k"])
    t.write([{"k": 1, "r": {"x": 1, "y": "a"}, "l": [{"p": 1}, None]}, {"k": 2, "r": None, "l": None}])
    t = t.alter(
        ts.add("r.z", ts.DATE, first=True),
        ts.rename("r.y", "why"),
        ts.retype("l.element.p", ts.STRING),
        ts.add("l.element.q", ts.INT),
    )
    t.write([{"k": 3, "r": {"z": date(2026, 1, 1), "x": 3, "why": "c"}, "l": []}])
    expected = [
        {"k": 1, "r": {"z": None, "x": 1, "why": "a"}, "l": [{"p": "1", "q": None}, None]},
        {"k": 2, "r": None, "l": None},
        {"k": 3, "r": {"z": date(2026, 1, 1), "x": 3, "why": "c"}, "l": []},
    ]
    assert rows(t) == expected
    t.compact(full=True)
    assert rows(t) == expected
    assert t.check() == []


CHANGES = [
    (ts.INT, ts.BIGINT, lambda i: i * 7 - 30, [5, -30, 2**40]),
    (ts.INT, ts.TINYINT, lambda i: i * 100, [44, -56, 100]),
    (ts.INT, ts.STRING, lambda i: i * 3, ["9", "12", "3"]),
    (ts.STRING, ts.INT, lambda i: f"{i * 5}.7", [10, 50, 100]),
    (ts.DOUBLE, ts.INT, lambda i: i * 2.5, [2, 5, 12]),
    (ts.DECIMAL(6, 3), ts.DECIMAL(3, 1), lambda i: f"{i * 11}.456", [11.5, 22.5, 99.5]),
    (ts.TIMESTAMP(3), ts.DATE, lambda i: i * 40_000_000 - 90_000_000, ["1970-01-01", "1969-12-31"]),
    (ts.STRING, ts.VARCHAR(2), lambda i: f"{'abc'[i % 3]}{i:03d}", ["a0", "b0", "c"]),
]


@pytest.mark.parametrize("index", ["none", "bloom-filter", "bitmap"])
@pytest.mark.parametrize(("before", "after", "value", "asked"), CHANGES, ids=lambda p: str(p)[:12])
@pytest.mark.sample(8)
def test_a_filter_selects_what_it_selects_from_all_rows_whatever_the_files_were(
    tmp_path: Path, before: Any, after: Any, value: Any, asked: list[Any], index: str
) -> None:
    """Three files of the old type and two of the new, with statistics and file indexes of their own types."""
    options = {"write-only": True, "bucket": -1}
    if index != "none" and before.root != "DECIMAL":
        options[f"file-index.{index}.columns"] = "v"
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT, "v": before}, options=options)
    kind = t.schema.field("v").type
    for part in range(3):
        given = [value(i) if i % 4 else None for i in range(part * 10, part * 10 + 10)]
        raw = [Decimal(v) if v and before.root == "DECIMAL" else v for v in given]
        t.write(pa.table({"k": pa.array(range(10), pa.int32()), "v": pa.array(raw, kind)}))
    t = t.alter(ts.retype("v", after))
    rows = t.scan().to_arrow()
    t.write(rows.slice(3, 5))
    t.write(rows.slice(12, 5))
    rows = t.scan().to_arrow()
    for literal in asked:
        scalar = pa.scalar(literal).cast(t.schema.field("v").type)
        compared = {
            "==": (ts.col("v") == literal, pc.equal(rows["v"], scalar)),
            "<": (ts.col("v") < literal, pc.less(rows["v"], scalar)),
            ">=": (ts.col("v") >= literal, pc.greater_equal(rows["v"], scalar)),
            "!=": (ts.col("v") != literal, pc.not_equal(rows["v"], scalar)),
            "null": (ts.col("v").is_null(), pc.is_null(rows["v"])),
            "there": (ts.col("v").is_not_null(), pc.is_valid(rows["v"])),
        }
        for name, (where, mask) in compared.items():
            actual = t.scan(where=where).to_arrow().to_pylist()
            assert sorted(map(str, actual)) == sorted(map(str, rows.filter(mask).to_pylist())), name


def test_a_table_opened_before_a_change_never_loses_what_came_with_it(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    columns = {"k": ts.INT, "v": ts.INT, "r": ts.ROW(x=ts.INT)}
    old = lake.create_table("d.t", schema=columns, primary_key=["k"], options={"write-only": True})
    old.write([{"k": 1, "v": 1, "r": {"x": 1}}])
    new = old.alter(ts.add("r.y", ts.INT), ts.add("c", ts.INT))
    new.write([{"k": 2, "v": 2, "r": {"x": 2, "y": 2}, "c": 2}])
    assert [r["k"] for r in rows(old)] == [1, 2]
    old.write([{"k": 3, "v": 3}])
    with pytest.raises(ts.CommitConflict, match="adds r, c"):
        old.compact(full=True)
    with pytest.raises(ts.CommitConflict, match="refresh"):
        old.update({"v": 5}, where=ts.col("k") == 2)
    retyped = new.alter(ts.retype("v", ts.BIGINT))
    retyped.write([{"k": 4, "v": 2**40}])
    with pytest.raises(ts.CommitConflict, match="'v' is BIGINT since schema 2"):
        rows(old)
    expected = [
        {"k": 1, "v": 1, "r": {"x": 1, "y": None}, "c": None},
        {"k": 2, "v": 2, "r": {"x": 2, "y": 2}, "c": 2},
        {"k": 3, "v": 3, "r": None, "c": None},
        {"k": 4, "v": 2**40, "r": None, "c": None},
    ]
    assert rows(retyped) == expected
    retyped.compact(full=True)
    assert rows(retyped) == expected
    assert retyped.check() == []


def test_the_past_has_the_columns_it_had(table: ts.Table) -> None:
    now = table.alter(ts.rename("a", "amount"), ts.add("c", ts.INT))
    then = now.at(snapshot=1)
    assert then.schema.names == ["k", "a", "b"]
    assert then.get({"k": 1}) == {"k": 1, "a": 10, "b": "x"}
    assert then.get_many([{"k": 2}]).to_pylist() == [{"k": 2, "a": 20, "b": "y"}]
    (split,) = then.scan().plan().splits
    (batch,) = then.read_split(split)
    assert batch.schema.names == ["k", "a", "b"]
    assert now.schema.names == ["k", "amount", "b", "c"]


@pytest.mark.parametrize("key", [["k"], []])
def test_a_type_that_older_files_cannot_be_read_as_is_refused(tmp_path: Path, key: list[str]) -> None:
    """Each step has a cast, the files of the first schema have none; Java would read the table no more."""
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=key)
    t.write([{"k": 1, "v": 3}])
    t = t.alter(ts.retype("v", ts.STRING))
    t.write([{"k": 2, "v": "2026-01-02"}])
    with pytest.raises(InvalidRequest, match=r"'v' changed from INT to DATE .* files of schema 0 .* rewrite"):
        t.alter(ts.retype("v", ts.DATE))
    if key:
        t.with_options({"compaction.force-rewrite-all-files": True}).compact(full=True)
    else:
        t.overwrite(t.scan().to_arrow())
    t.delete("v = '3'") if key else t.overwrite(t.scan(where="v <> '3'").to_arrow())
    if key:
        t.compact(full=True)
    t = t.alter(ts.retype("v", ts.DATE))
    assert rows(t) == [{"k": 2, "v": date(2026, 1, 2)}]


def test_an_alter_after_which_nothing_could_be_written_is_refused(tmp_path: Path) -> None:
    options = {"file-index.bsi.columns": "v", "bucket": 1}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options=options
    )
    with pytest.raises(InvalidRequest, match=r"bsi indexes of STRING columns"):
        t.alter(ts.retype("v", ts.STRING))
    t = t.alter(ts.retype("v", ts.BIGINT))
    t.write([{"k": 1, "v": 2**40}])
    assert t.scan(where="v > 5").count() == 1
