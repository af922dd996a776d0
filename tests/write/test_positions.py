"""Replays are recognised however many foreign commits and expiries lie between (I11)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import tablestore as ts
from tablestore.format.snapshot import BATCH_IDENTIFIER


def make(tmp_path: Path) -> ts.Table:
    return ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.BIGINT}, primary_key=["k"], options={"write-only": True}
    )


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
    t = make(tmp_path)
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
    t = make(tmp_path)
    t.write(row(1))
    foreign_commits(t, 1, identifier=5)
    assert t.position("java") == (5, None)
    assert t.write(row(2), user="java", identifier=5).replayed
    assert not t.write(row(2), user="java", identifier=6).replayed


def test_a_position_is_committed_even_without_rows(tmp_path: Path) -> None:
    t = make(tmp_path)
    made = t.commit([], user="stream", identifier=1, position="p1")
    assert len(made.snapshots) == 1
    assert t.position("stream") == (1, "p1")
    assert t.commit([], user="stream", identifier=2).snapshots == ()
    assert t.check() == []


def test_batch_identifiers_are_never_replays(tmp_path: Path) -> None:
    t = make(tmp_path)
    for k in range(3):
        assert t.write(row(k), user="me").snapshots
    assert t.scan().count() == 3
