"""Commits that others are first with: what snapshots hold, doctor, alarms and metrics say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.cli.metrics import commit_families
from tablestore.format.snapshot import LostRaces, Snapshot
from tablestore.meta.snapshots import SnapshotStore
from tablestore.write.commit.committer import COUNTER
from tests.tables import KEYED, WRITE_ONLY

QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms", "commit.max-retries": 3}


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": [f"v{k}" for k in keys]})


def figures() -> dict[str, float]:
    """What the metrics say of the commits of this process."""
    return {family.name: family.samples[()] for family in commit_families(COUNTER.counts)}


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    return KEYED.with_options(WRITE_ONLY).create(tmp_path, QUICK)


def write_late(table: ts.Table, monkeypatch: pytest.MonkeyPatch, key: int, first: int) -> None:
    """Write a row while others are `first` so many times."""
    publish, left = SnapshotStore.publish, [first]

    def late(self: SnapshotStore, snapshot: Snapshot, **how: Any) -> bool:
        if left[0] and snapshot.commit_user == "late":
            left[0] -= 1
            table.write(rows(100 + left[0]), user="first")
        return publish(self, snapshot, **how)

    with monkeypatch.context() as patched:
        patched.setattr(SnapshotStore, "publish", late)
        table.write(rows(key), user="late")


def test_metrics_doctor_and_alarms_say_what_the_snapshots_hold(
    table: ts.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = figures()
    for key, first in enumerate((0, 2, 3, 0)):
        write_late(table, monkeypatch, key, first)
    snapshots = [table.store.snapshots.get(i) for i in table.store.snapshots.ids()]
    races = [LostRaces.of(s.properties) for s in snapshots]
    assert [r.retries for r in races] == [0, 0, 0, 2, 0, 0, 0, 3, 0]
    assert [r.millis > 0 for r in races] == [bool(r.retries) for r in races]
    grown = {name: value - before[name] for name, value in figures().items()}
    assert grown == {
        "tablestore_commits_total": 9,
        "tablestore_commit_retries_total": 5,
        "tablestore_commit_retry_seconds_total": pytest.approx(sum(r.millis for r in races) / 1000),
        "tablestore_commit_conflicts_total": 0,
    }
    table = table.refresh()
    assert "tablestore.commit.retries" in table.inspect.commits()["properties"][3].as_py()
    assert "commit races" not in table.inspect.doctor().kinds
    [finding] = [f for f in table.inspect.doctor(lost_races=5) if f.kind == "commit races"]
    assert (finding.evidence["retries"], finding.evidence["commits"], finding.evidence["users"]) == (5, 9, 2)
    assert finding.evidence["seconds"] == sum(r.millis for r in races) / 1000


def test_many_lost_races_are_an_alarm_with_a_beginning(
    table: ts.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in range(8):
        write_late(table, monkeypatch, key, 3)
    history = table.refresh().inspect.alarms()
    [alarm] = [a for a in history.holding if a.finding.kind == "commit races"]
    assert alarm.measure == "per_hour"
    assert alarm.finding.evidence["retries"] == 24
    assert alarm.began == table.store.snapshots.get(28).time_millis  # the seventh commit brings 21


def test_a_commit_that_is_refused_is_counted(table: ts.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = figures()["tablestore_commit_conflicts_total"]
    with pytest.raises(ts.CommitConflict, match="others were first 4 times"):
        write_late(table, monkeypatch, 1, 4)
    assert figures()["tablestore_commit_conflicts_total"] == before + 1
