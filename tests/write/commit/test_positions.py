"""Replays are recognised however many foreign commits and expiries lie between (I11)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import tablestore as ts
from tablestore.format.snapshot import BATCH_IDENTIFIER
from tests.tables import KEYED, WRITE_ONLY

UNCOMPACTED = KEYED.with_options(WRITE_ONLY)


def row(k: int) -> pa.Table:
    return pa.table({"k": [k]})


def foreign_commits(t: ts.Table, n: int, identifier: int = BATCH_IDENTIFIER) -> None:
    """Snapshots as another engine leaves them: same state, no properties of ours."""
    store = t.store
    for _ in range(n):
        latest = store.snapshots.latest()
        empty = latest.delta_manifest_list
        foreign = replace(
            latest,
            id=latest.id + 1,
            uuid=None,
            commit_user="java",
            commit_identifier=identifier,
            properties=None,
            writer_version=None,
            delta_record_count=0,
            base_manifest_list=latest.base_manifest_list,
            delta_manifest_list=empty,
        )
        assert store.snapshots.publish(foreign)


def test_two_hundred_foreign_commits_and_expiry_do_not_hide_a_position(tmp_path: Path) -> None:
    t = UNCOMPACTED.create(tmp_path)
    t.write(row(1), user="stream", identifier=7, position="binlog.000004:1234")
    t.write(row(2))
    foreign_commits(t, 200)
    assert t.position("stream") == (7, "binlog.000004:1234")
    expired = t.expire_snapshots(keep=3)
    assert "stream positions in snapshot 2" in expired.protected_by
    assert t.position("stream") == (7, "binlog.000004:1234")
    again = t.write(row(99), user="stream", identifier=7)
    assert again.replayed
    t.write(row(3), user="other", identifier=1)
    assert t.position("stream") == (7, "binlog.000004:1234")
    t.expire_snapshots(keep=1)
    assert len(t.store.snapshots.ids()) == 1
    assert t.write(row(99), user="stream", identifier=6).replayed
    assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]


def test_a_foreign_stream_of_the_same_user_counts_too(tmp_path: Path) -> None:
    t = UNCOMPACTED.create(tmp_path)
    t.write(row(1))
    foreign_commits(t, 1, identifier=5)
    assert t.position("java") == (5, None)
    assert t.write(row(2), user="java", identifier=5).replayed
    assert not t.write(row(2), user="java", identifier=6).replayed


def test_a_position_is_committed_even_without_rows(tmp_path: Path) -> None:
    t = UNCOMPACTED.create(tmp_path)
    created = t.commit([], user="stream", identifier=1, position="p1")
    assert len(created.snapshots) == 1
    assert t.position("stream") == (1, "p1")
    assert t.commit([], user="stream", identifier=2).snapshots == ()
    assert t.check() == []


def test_batch_identifiers_are_never_replays(tmp_path: Path) -> None:
    t = UNCOMPACTED.create(tmp_path)
    for k in range(3):
        assert t.write(row(k), user="me").snapshots
    assert t.scan().count() == 3


def foreign_expiry(t: ts.Table) -> None:
    """Only the newest snapshot stays, as another engine leaves it."""
    latest = t.store.snapshots.latest_id()
    for i in t.store.snapshots.ids():
        if i != latest:
            t.store.snapshots.delete(i)
    t.store.snapshots.hint_earliest(latest)


def kept(t: ts.Table) -> list[str]:
    return sorted(p.name for p in Path(t.store.paths.positions_dir).glob("*"))


def test_a_position_outlives_its_snapshot(tmp_path: Path) -> None:
    t = UNCOMPACTED.create(tmp_path)
    t.write(row(1), user="stream", identifier=7, position="p7")
    t.write(row(2))
    assert kept(t) == ["positions-2"]
    foreign_commits(t, 3, identifier=4)
    foreign_expiry(t)
    assert t.position("stream") == (7, "p7")
    assert t.position("java") == (4, None)
    assert t.write(row(99), user="stream", identifier=7).replayed
    t.write(row(3), user="stream", identifier=8)
    assert t.position("stream") == (8, "p7")
    assert t.position("java") == (4, None)
    assert kept(t) == ["positions-6"]
    assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]


def test_a_replay_keeps_a_position_that_a_kill_left_in_its_snapshot_alone(tmp_path: Path) -> None:
    t = UNCOMPACTED.create(tmp_path)
    t.write(row(1), user="stream", identifier=7, position="p7")
    for p in Path(t.store.paths.positions_dir).glob("*"):
        p.unlink()
    assert t.write(row(1), user="stream", identifier=7).replayed
    foreign_commits(t, 2)
    foreign_expiry(t)
    assert t.position("stream") == (7, "p7")


def test_a_position_that_was_rolled_back_is_never_used(tmp_path: Path) -> None:
    t = UNCOMPACTED.create(tmp_path)
    t.write(row(1), user="stream", identifier=1)
    t.write(row(2), user="stream", identifier=2)
    file = Path(t.store.paths.positions_dir) / "positions-2"
    later = file.read_bytes()
    t.rollback(snapshot=1)
    assert not file.exists()
    file.write_bytes(later)  # another engine rolls back without looking there
    assert t.position("stream") == (1, None)
    foreign_commits(t, 2)  # takes the id of the snapshot that is gone
    assert t.position("stream") == (1, None)
    t.store.snapshots.delete(1)
    assert t.position("stream") == (1, None), "positions-2 is of another snapshot 2"
    t.write(row(3), user="stream", identifier=2)
    assert kept(t) == ["positions-4"]
    file = Path(t.store.paths.positions_dir) / "positions-9"
    file.write_bytes(later.replace(b'"snapshot": 2', b'"snapshot": 9'))
    t.write(row(4), user="stream", identifier=3)
    assert kept(t) == ["positions-5"], "one of a later snapshot that is not there goes"


def test_tables_that_no_stream_writes_keep_no_positions(tmp_path: Path) -> None:
    t = UNCOMPACTED.create(tmp_path)
    t.write(row(1))
    assert not Path(t.store.paths.positions_dir).exists()


def test_hints_are_hints_at_both_ends(tmp_path: Path) -> None:
    t = UNCOMPACTED.create(tmp_path)
    for k in range(6):
        t.write(row(k))
    hints = Path(t.store.paths.snapshot_dir)
    (hints / "EARLIEST").write_text("4")
    (hints / "LATEST").write_text("3")
    assert (t.store.snapshots.earliest_id(), t.store.snapshots.latest_id()) == (1, 6)
    assert t.changes(since=0).num_rows == 6
    assert next(t.stream(start="earliest", follow=False)).snapshot == 1
    t.expire_snapshots(keep=6)
    assert (hints / "EARLIEST").read_text() == "1", "others trust it"
    (hints / "EARLIEST").write_text("4")
    t.expire_snapshots(keep=2)
    assert t.store.snapshots.ids() == [5, 6]
    assert t.check() == []
