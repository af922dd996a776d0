"""File indexes at work: files skipped in planning and when opened, rows selected, never a wrong row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.read.scan.plan import plan
from tests.tables import TableSpec

BLOOM = {"file-index.bloom-filter.columns": "s", "file-index.bloom-filter.s.items": "200"}
BITMAP = {"file-index.bitmap.columns": "s"}


TEXTS = TableSpec({"k": ts.INT, "s": ts.STRING})


def rows(first: int, texts: list[str]) -> pa.Table:
    return pa.table({"k": pa.array(range(first, first + len(texts)), pa.int32()), "s": texts})


def rules(t: ts.Table, where: ts.Predicate) -> list[str]:
    store = ts.open(t.location).store
    return [v.rule for v in plan(store, store.snapshots.latest(), where).verdicts]


@pytest.mark.parametrize("index", [BLOOM, BITMAP], ids=["bloom", "bitmap"])
def test_an_index_in_the_manifest_skips_files_while_planning(tmp_path: Path, index: dict[str, str]) -> None:
    t = TEXTS.create(tmp_path, index | {"file-index.in-manifest-threshold": "10 kb"})
    t.write(rows(0, ["a", "m", "z"]))
    t.write(rows(3, ["a", "n", "z"]))
    assert sorted(rules(t, ts.col("s") == "n")) == ["", "file index"]
    assert t.scan(where=ts.col("s") == "n").to_arrow().to_pylist() == [{"k": 4, "s": "n"}]
    assert rules(t, ts.col("s") == "q") == ["file index", "file index"]
    off = ts.open(t.location).scan(where=ts.col("s") == "q")
    assert off.to_arrow().num_rows == 0


def test_an_index_beside_the_file_is_asked_when_it_is_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    t = TEXTS.create(tmp_path, BITMAP | {"file-index.in-manifest-threshold": "0b"})
    t.write(rows(0, ["a", "m", "z"]))
    (data,) = tmp_path.rglob("data-*.parquet")
    (index,) = tmp_path.rglob(f"{data.name}.*.index")
    assert rules(t, ts.col("s") == "q") == [""]
    sound = data.read_bytes()
    data.write_bytes(b"x" * len(sound))  # whoever opens it would see
    assert t.scan(where=ts.col("s") == "q").to_arrow().num_rows == 0
    data.write_bytes(sound)
    index.write_bytes(b"no index")
    assert t.scan(where=ts.col("s") == "m").to_arrow().num_rows == 1
    index.unlink()
    assert t.scan(where=ts.col("s") == "m").to_arrow().num_rows == 1
    assert caplog.text.count("is read without its index, which mend() makes again") == 2


def test_reading_indexes_can_be_switched_off(tmp_path: Path) -> None:
    options = {**BITMAP, "file-index.in-manifest-threshold": "0b", "file-index.read.enabled": "false"}
    t = TEXTS.create(tmp_path, options)
    t.write(rows(0, ["a", "m", "z"]))
    next(tmp_path.rglob("*.index")).unlink()
    assert t.scan(where=ts.col("s") == "m").to_arrow().num_rows == 1


def test_value_indexes_decide_only_where_no_other_file_hides_rows(tmp_path: Path) -> None:
    t = TEXTS.create(tmp_path, BITMAP | {"write-only": "true"}, primary_key=("k",))
    t.write(rows(0, ["a", "old", "z"]))
    t.write(rows(0, ["a", "new", "z"]))
    assert t.scan(where=ts.col("s") == "old").to_arrow().num_rows == 0
    assert t.scan(where=ts.col("s") == "new").to_arrow().num_rows == 1
    assert rules(t, ts.col("s") == "old") == ["", ""]
    assert rules(t, ts.col("s") == "q") == ["file index", "file index"]  # a whole section at once


def test_an_index_of_a_renamed_column_is_still_asked(tmp_path: Path) -> None:
    t = TEXTS.create(tmp_path, BITMAP)
    t.write(rows(0, ["a", "m", "z"]))
    t = t.alter(ts.rename("s", "text"))
    assert rules(t, ts.col("text") == "q") == ["file index"]
    assert t.scan(where=ts.col("text") == "m").to_arrow().to_pylist() == [{"k": 1, "text": "m"}]
    t.write(pa.table({"k": pa.array([9], pa.int32()), "text": ["m"]}))
    assert t.scan(where=ts.col("text") == "m").to_arrow().num_rows == 2
    assert t.check() == []
