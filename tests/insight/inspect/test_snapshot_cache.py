"""A refresh reads new snapshots alone: commits, compactions and edits after commits, expiry and rollback."""

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.inspect.commits import CommitSums, SnapshotCache
from tablestore.insight.inspect.inspect import Inspect
from tablestore.meta.snapshots import SnapshotStore


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    options = {"bucket": 1, "num-sorted-run.compaction-trigger": 2, "snapshot.num-retained.min": 1000}
    created = ts.connect(tmp_path).create_table(
        "d.t", schema={"k": ts.BIGINT, "v": ts.STRING}, primary_key=["k"], options=options
    )
    for n in range(8):
        created.write({"k": list(range(n, n + 20)), "v": [f"{n}"] * 20})
    return created


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of snapshot files that are read."""
    read, actual = SnapshotStore.get, list[int]()

    def spied(self: SnapshotStore, snapshot_id: int) -> object:
        actual.append(snapshot_id)
        return read(self, snapshot_id)

    monkeypatch.setattr(SnapshotStore, "get", spied)
    return actual


def views(inspect: Inspect) -> list[pa.Table]:
    return [inspect.commits(), inspect.compactions(), inspect.snapshots(), inspect.edits(), inspect.stays()]


def fresh(table: ts.Table) -> Inspect:
    return ts.open(table.location).inspect


def same(table: ts.Table) -> None:
    for actual, wanted in zip(views(table.inspect), views(fresh(table)), strict=True):
        order = [(name, "ascending") for name in wanted.column_names[:2]]
        assert actual.sort_by(order).to_pylist() == wanted.sort_by(order).to_pylist()
        assert actual.schema.equals(wanted.schema)


def test_a_commit_reads_its_own_snapshots_alone(table: ts.Table, asked: list[int]) -> None:
    views(table.inspect)
    last = table.inspect.latest_snapshot_id()
    table.write({"k": [1], "v": ["new"]})
    asked.clear()
    views(table.inspect)
    new = set(range(last + 1, table.inspect.latest_snapshot_id() + 1))
    assert set(asked) <= new | {last}  # the last one, to see that it is still the same
    assert len(asked) <= 8  # whatever their number
    same(table)
    asked.clear()
    views(table.inspect)
    assert set(asked) <= {max(new)}


def test_sums_are_kept_of_the_snapshots_last_asked_for_alone(table: ts.Table) -> None:
    sums = CommitSums(table.store, SnapshotCache(table.store))
    sums.table()
    for n in range(12):
        table.write({"k": [n], "v": ["more"]})
        table.expire_snapshots(keep=4)
        assert sums.table().equals(fresh(table).commits())
        assert len(sums._by_delta) <= 4
    sums.table(2)
    assert len(sums._by_delta) == 2
    assert sums.table().equals(fresh(table).commits())


def test_what_expires_is_dropped_and_what_is_rolled_back_read_again(table: ts.Table) -> None:
    for turn in range(3):
        same(table)
        table.expire_snapshots(keep=9 - 2 * turn)
        same(table)
        table.write({"k": [turn], "v": ["more"]})
    table.rollback(snapshot=table.inspect.latest_snapshot_id() - 2)
    for n in range(4):
        table.write({"k": [n, n + 1], "v": ["other", "other"]})
        same(table)
    assert table.inspect.compactions(bucket=0).equals(fresh(table).compactions(bucket=0))
    assert table.inspect.compactions(bucket=1).num_rows == 0
