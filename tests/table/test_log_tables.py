"""`table.log` as tables: segments, transactions, and the offsets of snapshots of other engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.table import log_view

OPTIONS = {"log.system": "embedded", "bucket": 2}


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    created = ts.connect(tmp_path).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options=OPTIONS
    )
    for step in range(3):
        created.write({"k": [1, 2, 3, 4], "v": [step] * 4}, user="till", identifier=step)
    return created


def test_segments_are_the_files_of_each_bucket_without_a_gap(table: ts.Table) -> None:
    log = table.log
    assert log is not None
    rows = log.segments().to_pylist()
    assert sum(row["record_count"] for row in rows) == 12
    assert sum(row["bytes"] for row in rows) < (log.size or 0)
    for bucket in (0, 1):
        own = [row for row in rows if row["bucket"] == bucket]
        assert [row["start"] for row in own] == [0, *(row["end"] for row in own[:-1])]
        assert own[-1]["end"] == log.end[bucket] == log.visible[bucket] == log.in_files[bucket]


def test_older_rows_of_a_key_go_in_a_segment(table: ts.Table) -> None:
    for step in range(90):
        table.write({"k": [1, 2, 3, 4], "v": [step] * 4})
    assert table.log is not None
    first = [row for row in table.log.segments().to_pylist() if row["first"] == 1]
    assert {row["last"] for row in first} == {32}
    assert {row["transactions"] for row in first} == {32}
    assert all(row["record_count"] <= row["end"] - row["start"] for row in first)


def test_transactions_name_who_committed_them(table: ts.Table) -> None:
    assert table.log is not None
    assert table.log.transactions().num_rows == 3
    behind = table.log.transactions(table.log.end)
    assert behind.num_rows == 0
    assert table.log.transactions()["commit_identifier"].to_pylist() == [0, 1, 2]
    with pytest.raises(ts.InvalidRequest, match="no place in a log"):
        table.log.transactions({0: -4})


def test_a_snapshot_of_another_engine_has_the_offsets_of_the_one_before(table: ts.Table) -> None:
    actual = [table.store.snapshots.get(n) for n in (1, 2, 3)]
    plain = replace(actual[1], properties=None)
    get = dict(zip((1, 2, 3), (actual[0], plain, actual[2]), strict=True)).__getitem__
    offsets = log_view.snapshots([actual[0], plain, actual[2]], get)["offsets"].to_pylist()
    assert offsets[0] == offsets[1] != offsets[2]
    assert log_view.snapshots([plain], get)["offsets"].to_pylist() == [offsets[0]]


def test_offsets_that_have_expired_are_null(table: ts.Table) -> None:
    def gone(snapshot_id: int) -> Snapshot:
        raise NotFound(f"snapshot {snapshot_id}")

    plain = replace(table.store.snapshots.get(2), properties=None)
    assert log_view.snapshots([plain], gone)["offsets"].to_pylist() == [None]
