"""A write whose compaction lost a race or failed is in the table and says so; no exception leaves rows.

Where readers wait for the compaction it is done again, by a replay too if the first attempt was killed.
"""

from __future__ import annotations

import random
import re
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict, CommitUnknown, RowsNotVisible, Unavailable
from tablestore.format.snapshot import COMPACT, Snapshot
from tablestore.meta import manifest_cache
from tablestore.meta.manifests import ManifestStore
from tablestore.meta.snapshots import SnapshotStore
from tablestore.table.table import Table

SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
WAITING = {
    "deletion vectors": {"deletion-vectors.enabled": True},
    "first-row": {"merge-engine": "first-row"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "leveled": {"deletion-vectors.enabled": True, "tablestore.compaction.strategy": "leveled"},
}


class ProcessGone(BaseException):
    """The process is gone."""


def made(path: Path, **options: Any) -> Table:
    return ts.connect(str(path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 2, **options}
    )


def batch(*keys: int, v: int = 1) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array([v] * len(keys), pa.int32())})


def before_publish(monkeypatch: pytest.MonkeyPatch, kind: str, act: Any, *, times: int = 1) -> None:
    """Have `act` called before a snapshot of `kind` is published, so many times."""
    publish, left = SnapshotStore.publish, [times]

    def acting(self: SnapshotStore, snapshot: Snapshot) -> bool:
        if snapshot.commit_kind == kind and left[0] > 0:
            left[0] -= 1
            act()
        return publish(self, snapshot)

    monkeypatch.setattr(SnapshotStore, "publish", acting)


def failing(error: BaseException) -> Any:
    def fail() -> None:
        raise error

    return fail


def files(t: Table) -> set[str]:
    return {p.name for p in Path(t.location).rglob("*") if p.parent.name.startswith("bucket-")}


def named(t: Table) -> set[str]:
    store = t.store
    entries = [
        e
        for s in store.snapshots.all()
        for e in (*store.manifests.delta_entries(s), *store.manifests.changelog_entries(s))
    ]
    return {e.file.file_name for e in entries}


def test_who_retries_what_is_refused_writes_each_row_once(tmp_path: Path) -> None:
    made(tmp_path, bucket=1, **SUM, **{"num-sorted-run.compaction-trigger": 2})

    def write() -> None:
        t = ts.connect(str(tmp_path)).table("d.t")
        for _ in range(6):
            while True:
                try:
                    t.write(batch(1))
                    break
                except CommitConflict:
                    continue

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t = ts.connect(str(tmp_path)).table("d.t")
    assert t.scan().to_arrow().to_pylist() == [{"k": 1, "v": 18}]
    assert t.check() == []


@pytest.mark.parametrize("error", [Unavailable(5, "no answer"), CommitUnknown("no answer")])
def test_a_compaction_that_fails_takes_no_rows_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    t = made(tmp_path, bucket=1, **SUM, **{"num-sorted-run.compaction-trigger": 2})
    t.write(batch(1))
    before_publish(monkeypatch, COMPACT, failing(error))
    done = t.write(batch(1))
    assert done.lost_compaction is not None
    assert done.lost_compaction.unknown == isinstance(error, CommitUnknown)
    assert (files(t) == named(t)) == isinstance(error, Unavailable), "files of an unknown outcome stay"
    assert t.scan().to_arrow().to_pylist() == [{"k": 1, "v": 2}]
    t.write(batch(1))
    latest = t.store.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind == COMPACT
    assert t.scan().to_arrow().to_pylist() == [{"k": 1, "v": 3}]
    assert t.check() == []


@pytest.mark.parametrize("kind", WAITING)
def test_a_lost_compaction_is_done_again_where_readers_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    t = made(tmp_path, **WAITING[kind])
    t.write(batch(*range(20)))
    other = t.writer()
    other.write(batch(3, 4, 41, v=2))
    before_publish(monkeypatch, COMPACT, lambda: other.__exit__(None, None, None))
    done = t.write(batch(3, 4, 40, v=3))
    assert (len(done.snapshots), done.lost_compaction) == (2, None)
    actual = dict(zip(*t.scan().to_arrow().to_pydict().values(), strict=True))
    assert actual.keys() == {*range(20), 40, 41}
    assert actual[3] in ((1,) if kind == "first-row" else (2, 3)), "both wrote at once"
    assert files(t) == named(t)
    assert t.check() == []


@pytest.mark.parametrize("kind", WAITING)
def test_a_write_that_readers_do_not_see_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    t = made(tmp_path, **WAITING[kind], **{"tablestore.compaction.leveled.level0-file-num-trigger": 1})
    t.write(batch(*range(20)))
    since = t.store.snapshots.latest_id()
    with monkeypatch.context() as patch:
        before_publish(patch, COMPACT, failing(Unavailable(28, "No space left on device")), times=1000)
        for _ in range(2):  # a replay is no answer either
            with pytest.raises(CommitUnknown, match="No space left") as raised:
                t.write(batch(*range(10, 30), v=2), user="u", identifier=7)
    assert isinstance(raised.value, RowsNotVisible)
    assert t.write(batch(*range(10, 30), v=2), user="u", identifier=7).replayed
    assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [*range(30)]
    if kind in ("lookup", "full-compaction"):
        assert t.changes(since=since).num_rows == 30
    assert t.check() == []


@pytest.mark.parametrize("kind", WAITING)
def test_the_call_that_shows_the_rows_of_a_batch_works_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = made(tmp_path, **WAITING[kind], **{"tablestore.compaction.leveled.level0-file-num-trigger": 1})
    with monkeypatch.context() as patch:
        before_publish(patch, COMPACT, failing(Unavailable(28, "No space left on device")), times=1000)
        with pytest.raises(RowsNotVisible, match="do not write them again") as raised:
            table.write(batch(1, 2, 3))
    assert raised.value.snapshot == 1
    (call,) = re.findall(r"table\.compact\(\S*\)", str(raised.value))
    eval(call, {"table": table})
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 2, 3]
    if kind in ("lookup", "full-compaction"):
        assert table.changes(since=0).num_rows == 3
    assert table.check() == []


@pytest.mark.parametrize("kind", WAITING)
def test_a_replay_finishes_what_a_kill_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    t = made(tmp_path, **WAITING[kind], **{"tablestore.compaction.leveled.level0-file-num-trigger": 1})
    t.write(batch(*range(20)))
    with monkeypatch.context() as patch:
        before_publish(patch, COMPACT, failing(ProcessGone()))
        with pytest.raises(ProcessGone):
            t.write(batch(*range(10, 30), v=2), user="u", identifier=7)
    assert [(v.invariant, v.where) for v in t.check()] == [("I13", "snapshot-3")]
    assert ("pending lookups" in t.inspect.doctor().kinds) == (kind != "full-compaction")
    done = t.write(batch(*range(10, 30), v=2), user="u", identifier=7)
    assert (done.replayed, done.snapshots) == (True, (4,))
    assert sorted(t.scan().to_arrow()["k"].to_pylist()) == [*range(30)]
    if kind in ("lookup", "full-compaction"):
        assert t.changes(since=3).num_rows == 30, "10 new rows, 10 pairs"
    assert t.write(batch(1), user="u", identifier=7).snapshots == ()
    assert t.check() == []


@pytest.mark.parametrize("expires", ["before", "meanwhile"])
@pytest.mark.parametrize("kind", [kind for kind in WAITING if kind not in ("lookup", "full-compaction")])
def test_a_replay_finishes_what_a_kill_left_in_a_snapshot_that_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, expires: str
) -> None:
    t = made(tmp_path, **WAITING[kind], **{"tablestore.compaction.leveled.level0-file-num-trigger": 1})
    with monkeypatch.context() as patch:
        before_publish(patch, COMPACT, failing(ProcessGone()))
        with pytest.raises(ProcessGone):
            t.write(batch(*range(30)), user="u", identifier=7)
    assert t.scan().count() == 0
    blind = t.with_options({"write-only": True})
    for k in range(30, 40):
        blind.write(batch(k))
    if expires == "before":
        t.expire_snapshots(keep=1)
    delta_entries, expired = ManifestStore.delta_entries, [expires == "before"]

    def late(self: ManifestStore, snapshot: Snapshot, **asked: Any) -> Any:
        if snapshot.commit_user == "u" and not expired[0]:
            expired[0] = True
            ts.open(t.location).expire_snapshots(keep=1)
            manifest_cache.LOCAL.clear()
        return delta_entries(self, snapshot, **asked)

    monkeypatch.setattr(ManifestStore, "delta_entries", late)
    assert t.write(batch(*range(30)), user="u", identifier=7).replayed
    assert expired[0]
    assert set(range(30)) <= set(t.scan().to_arrow()["k"].to_pylist())
    assert t.check() == []


def test_a_replay_of_handed_over_messages_finishes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = made(tmp_path, **{"deletion-vectors.enabled": True})
    writer = t.open_writer(compact=True)
    writer.write(batch(1, 2, 3))
    messages = writer.prepare()
    with monkeypatch.context() as patch:
        before_publish(patch, COMPACT, failing(ProcessGone()))
        with pytest.raises(ProcessGone):
            t.commit(messages, user="u", identifier=7)
    assert t.scan().count() == 0
    assert t.commit([], user="u", identifier=7).snapshots == (2,)
    assert t.scan().count() == 3
    assert t.check() == []


@pytest.mark.parametrize("verb", ["delete", "update"])
def test_a_delete_again_takes_away_what_readers_still_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    t = made(tmp_path, **{"deletion-vectors.enabled": True})
    t.write(batch(*range(20)))
    low = ts.col("k") < 5

    def act() -> ts.Committed:
        return t.delete(low) if verb == "delete" else t.update({"v": 9}, where=low)

    with monkeypatch.context() as patch:
        before_publish(patch, COMPACT, failing(ProcessGone()))
        with pytest.raises(ProcessGone):
            act()
    assert t.scan(where=low).to_arrow()["v"].to_pylist() == [1] * 5
    act()
    assert t.scan(where=low).to_arrow()["v"].to_pylist() == [] if verb == "delete" else [9] * 5
    assert t.check() == []


def test_tables_that_leave_level_0_to_others_are_left_alone(tmp_path: Path) -> None:
    t = made(tmp_path, **{"deletion-vectors.enabled": True, "write-only": True})
    t.write(batch(1), user="u", identifier=1)
    assert t.write(batch(1), user="u", identifier=1).snapshots == ()
    assert t.check() == []


def test_a_bucket_that_is_not_due_is_no_interrupted_commit(tmp_path: Path) -> None:
    """Commits that compact one bucket and leave their own file at level 0 of the other one."""
    t = made(tmp_path, **{"changelog-producer": "full-compaction", "full-compaction.delta-commits": 1000})
    rng, left = random.Random(1), 0
    for _ in range(14):
        done = t.write(batch(*{rng.randrange(60) for _ in range(rng.choice([1, 3, 15, 60]))}))
        added = {
            e.identity for e in t.store.manifests.delta_entries(t.store.snapshots.get(done.snapshots[0]))
        }
        newest = t.store.manifests.live_entries(t.store.snapshots.latest())
        left += len(done.snapshots) == 2 and any(e.file.level == 0 and e.identity in added for e in newest)
        assert t.check() == []
    assert left >= 3


def test_buckets_that_are_not_due_wait_by_rule_whoever_compacts_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compaction that comes with a commit is lost, and another commit does it, as Java's writers may."""
    t = made(tmp_path, **{"changelog-producer": "full-compaction", "full-compaction.delta-commits": 1000})
    rng, waited = random.Random(1), 0
    for _ in range(14):
        with monkeypatch.context() as patch:
            before_publish(patch, COMPACT, failing(Unavailable(5, "no answer")))
            t.write(batch(*{rng.randrange(60) for _ in range(rng.choice([1, 3, 15, 60]))}))
        newest = t.store.snapshots.latest()
        files = t.store.manifests.live_entries(newest)
        waited += newest.commit_kind == COMPACT and any(e.file.level == 0 for e in files)
        assert t.check() == []
    assert waited
