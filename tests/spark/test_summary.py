"""The continuous GROUP BY follows a table's changelog, retractions included, and counts nothing twice."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablestore as ts
from tablestore.cdc.change_feed import ChangeFeed
from tablestore.core.errors import InvalidRequest
from tablestore.spark import Summary, maintain

pytestmark = pytest.mark.spark
SPEC = Summary(
    keys=("colour",),
    sums={"total": pc.field("price"), "doubled": pc.field("price") * pc.field("count")},
    count="rows",
    columns=("colour", "price", "count"),
    averages={"mean": "total"},
    where=ts.col("price") < 100,
)
ROWS = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        ("colour", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("count", pa.int64()),
    ]
)


def rows(*some: tuple[int, str, str], kind: str = "+I") -> pa.Table:
    values = [{"id": i, "colour": c, "price": Decimal(p), "count": 2} for i, c, p in some]
    return pa.Table.from_pylist(values, ROWS).append_column("k", [[kind] * len(values)])


def tables(lake: ts.Lake) -> tuple[ts.Table, ts.Table]:
    options = {"bucket": 2, "changelog-producer": "input"}
    source = lake.create_table("d.goods", schema=ROWS, primary_key=["id"], options=options)
    columns = {
        "colour": "STRING",
        "total": "DECIMAL(38, 2)",
        "doubled": "DECIMAL(38, 2)",
        "mean": "DECIMAL(38, 4)",
        "rows": "BIGINT",
    }
    return source, lake.create_table("d.by_colour", schema=columns, primary_key=["colour"])


def follow(spark, source: ts.Table, target: ts.Table, checkpoint: Path) -> list[int]:
    done: list[int] = []
    query = maintain(
        spark,
        source.location,
        target.location,
        SPEC,
        user="by-colour",
        checkpoint=str(checkpoint),
        interval_seconds=None,
        on_batch=lambda b: done.append(b.source_snapshot),
    )
    query.awaitTermination()
    return done


def content(target: ts.Table) -> dict[str, tuple]:
    return {
        r["colour"]: (str(r["total"]), str(r["doubled"]), str(r["mean"]), r["rows"])
        for r in target.scan().to_arrow().to_pylist()
    }


def test_sums_follow_inserts_updates_and_deletes(spark, lake: ts.Lake, tmp_path: Path):
    source, target = tables(lake)
    source.write(
        rows((1, "red", "1.00"), (2, "red", "2.01"), (3, "blue", "5.00"), (4, "red", "100.00")),
        row_kind_column="k",
    )
    assert follow(spark, source, target, tmp_path / "ck") == [1]
    assert content(target) == {"red": ("3.01", "6.02", "1.5050", 2), "blue": ("5.00", "10.00", "5.0000", 1)}
    source.update({"colour": "blue"}, where=ts.col("id") == 2)
    source.write(rows((3, "blue", "5.00"), kind="-D"), row_kind_column="k")
    source.write(rows((5, "green", "0.01")), row_kind_column="k")
    assert follow(spark, source, target, tmp_path / "ck") == [4]
    assert content(target) == {
        "red": ("1.00", "2.00", "1.0000", 1),
        "blue": ("2.01", "4.02", "2.0100", 1),
        "green": ("0.01", "0.02", "0.0100", 1),
    }
    source.write(rows((1, "red", "1.00"), kind="-D"), row_kind_column="k")
    shutil.rmtree(tmp_path / "ck")  # the target knows how far it is
    assert follow(spark, source, target, tmp_path / "ck") == [5]
    assert "red" not in content(target)
    assert follow(spark, source, target, tmp_path / "ck") == []
    assert target.position("by-colour") == (2, "5")
    assert target.check() == []


def test_a_batch_done_twice_adds_nothing(spark, lake: ts.Lake, tmp_path: Path):
    source, target = tables(lake)
    source.write(rows((1, "red", "1.00")), row_kind_column="k")
    follow(spark, source, target, tmp_path / "ck")
    for path in (tmp_path / "ck" / "commits").iterdir():
        path.unlink()
    assert follow(spark, source, target, tmp_path / "ck") == []
    assert content(target)["red"] == ("1.00", "2.00", "1.0000", 1)


def test_a_full_load_without_changelog_is_followed_by_its_rows(spark, lake: ts.Lake, tmp_path: Path):
    source, target = tables(lake)
    for i in range(3):
        writer = source.open_writer(changelog=False)
        writer.write(rows((i, "red", "1.00")).drop(["k"]))
        source.commit(writer.prepare(), user="load", identifier=i, properties={"tablestore.phase": "full"})
        if i == 0:
            assert follow(spark, source, target, tmp_path / "ck") == [1]
    source.compact(full=True)
    assert follow(spark, source, target, tmp_path / "ck") == [4]
    assert content(target)["red"] == ("3.00", "6.00", "1.0000", 3)


def test_latest_begins_behind_what_is_there(lake: ts.Lake):
    source, _ = tables(lake)
    feed = ChangeFeed(source.location, start="latest")
    empty = feed.next(feed.initial(), limit=None)
    source.write(rows((1, "red", "1.00")), row_kind_column="k")
    assert len(feed.pieces(empty, feed.next(empty, limit=None))) == 1
    here = feed.next(feed.initial(), limit=None)
    assert feed.pieces(feed.initial(), here) == []
    source.write(rows((2, "red", "1.00")), row_kind_column="k")
    [piece] = feed.pieces(here, feed.next(here, limit=None))
    assert [batch["id"].to_pylist() for batch, _ in piece.read(source.location, ["id"])] == [[2]]
    again = ChangeFeed(source.location, start="2")
    assert [p.snapshot for p in again.pieces(again.initial(), again.next(again.initial(), limit=5))] == [2]


def test_partial_sums_are_exact_and_do_not_depend_on_the_cut():
    values = [(i, "red" if i % 3 else "blue", f"{i % 90}.{i % 100:02}") for i in range(1000)]
    batch = rows(*values).drop(["k"]).combine_chunks().to_batches()[0]
    kinds = pa.array([0 if i % 5 else 3 for i in range(1000)], pa.int8())
    whole = SPEC.partial(batch, kinds)
    parts = [SPEC.partial(batch.slice(at, 77), kinds.slice(at, 77)) for at in range(0, 1000, 77)]
    order = [("colour", "ascending")]
    assert SPEC.merge(parts).sort_by(order) == SPEC.merge([whole]).sort_by(order)
    signs = [1 if k == 0 else -1 for k in kinds.to_pylist()]
    by_hand = sum(s * Decimal(p) for s, (_, c, p) in zip(signs, values, strict=True) if c == "red")
    assert whole.filter(pc.equal(whole["colour"], "red"))["total"].to_pylist() == [by_hand]


def test_the_target_must_be_keyed_by_the_groups(spark, lake: ts.Lake, tmp_path: Path):
    source, _ = tables(lake)
    wrong = lake.create_table("d.wrong", schema={"rows": "BIGINT"}, primary_key=["rows"])
    with pytest.raises(InvalidRequest, match="colour"):
        maintain(spark, source.location, wrong.location, SPEC, user="u", checkpoint=str(tmp_path / "ck"))
