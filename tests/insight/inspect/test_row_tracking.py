"""Row ids and sequence numbers of append tables."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.insight.inspect.system import row_tracking
from tests.peers.cells import cells, in_order
from tests.read.golden import expected, java


def test_rows_have_the_ids_that_java_says() -> None:
    store = java("row_tracking")
    wanted = next(r for r in expected("row_tracking")["reads"] if r.get("suffix") == "$row_tracking")
    actual = row_tracking(store, store.snapshots.latest())
    assert actual.column_names == [name for name, _ in wanted["fields"]]
    assert in_order(cells(actual)) == in_order(wanted["rows"])


def ids(t: ts.Table) -> dict[int, tuple[int, int]]:
    """(row id, sequence number) by key."""
    store = ts.open(t.location).store
    rows = row_tracking(store, store.snapshots.latest()).to_pylist()
    return {r["k"]: (r["_ROW_ID"], r["_SEQUENCE_NUMBER"]) for r in rows}


def test_compaction_keeps_ids_and_later_rows_go_on(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "s": ts.STRING}, options={"row-tracking.enabled": "true"}
    )
    for commit in range(4):
        t.write([{"k": 3 * commit + i, "s": "é" * i} for i in range(3)])
    before = ids(t)
    assert before == {k: (k, k // 3 + 1) for k in range(12)}
    t.compact(full=True)
    assert ids(t) == before
    t.write([{"k": 12, "s": None}])
    t.compact(full=True)
    assert ids(t) == before | {12: (12, 6)}
    assert [s.next_row_id for s in map(t.store.snapshots.get, t.store.snapshots.ids())][-1] == 13
    assert ts.open(t.location).check() == []


def test_an_overwrite_gives_new_ids(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT}, options={"row-tracking.enabled": "true"}
    )
    t.write([{"k": 1}, {"k": 2}])
    t.overwrite([{"k": 1}])
    assert ids(t) == {1: (2, 2)}


def test_tables_without_row_tracking_have_no_ids(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT})
    with pytest.raises(ts.InvalidRequest, match="row-tracking"):
        row_tracking(t.store, None)
