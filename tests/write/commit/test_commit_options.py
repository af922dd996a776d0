"""Options of commits: strict mode, snapshots of nothing, the time a commit takes, files that come twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.env import Env
from tablestore.core.errors import CommitConflict
from tablestore.format.commit_message import CommitMessage
from tablestore.meta.snapshots import SnapshotStore
from tablestore.meta.store import Store
from tablestore.table.table import Table
from tablestore.write.commit.committer import CommitRequest, Committer

STRICT = "commit.strict-mode.last-safe-snapshot"


def made(path: Path, **options: Any) -> Table:
    return ts.connect(str(path)).create_table(
        "d.t",
        schema={"p": ts.INT, "k": ts.INT, "v": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": 1, "write-only": True} | options,
    )


def rows(p: int, *keys: int) -> pa.Table:
    return pa.table({name: pa.array(v, pa.int32()) for name, v in (("p", [p] * len(keys)), ("k", keys))})


def strict(t: Table, last_safe: int) -> Table:
    return t.refresh().with_options({STRICT: last_safe})


def test_a_strict_commit_is_refused_by_a_compaction_of_its_partition(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write(rows(1, 1), user="a")
    t.write(rows(2, 1), user="a")
    t.with_options({"write-only": False}).compact(full=True, partition={"p": 1})
    with pytest.raises(CommitConflict, match=r"snapshot 3 \(COMPACT by .* changed a partition") as refused:
        strict(t, 2).write(rows(1, 2), user="b")
    assert refused.value.snapshot == 3
    assert strict(t, 2).write(rows(2, 2), user="b").snapshot == 4
    assert strict(t, 3).write(rows(1, 2), user="b").snapshot == 5
    assert t.refresh().check() == []


def test_a_strict_append_looks_past_appends_but_a_strict_overwrite_does_not(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write(rows(1, 1), user="a")
    t.write(rows(1, 2), user="a")
    assert strict(t, 1).write(rows(1, 3), user="b").snapshot == 3
    with pytest.raises(CommitConflict, match=r"snapshot 2 \(APPEND by a\)"):
        strict(t, 1).overwrite(rows(1, 4))
    assert strict(t, 1).overwrite(rows(2, 4)).snapshot == 4
    with pytest.raises(CommitConflict, match=r"snapshot 4 \(OVERWRITE by "):
        strict(t, 3).write(rows(2, 5), user="b")
    assert sorted(t.refresh().scan().to_arrow().column("k").to_pylist()) == [1, 2, 3, 4]


def test_strict_commits_look_past_their_own_user_and_a_first_one_may_look_past_all(tmp_path: Path) -> None:
    t = made(tmp_path, **{"write-only": False, "compaction.force-up-level-0": True})
    t.write(rows(1, 1), user="a")
    assert t.store.snapshots.get(2).commit_kind == "COMPACT"
    with pytest.raises(CommitConflict, match=r"snapshot 2 \(COMPACT by a\)"):
        strict(t, 0).write(rows(1, 2), user="b")
    assert strict(t, 0).write(rows(1, 2), user="a").snapshots == (3, 4)
    assert strict(t, -1).write(rows(1, 3), user="b").snapshots == (5, 6)
    assert t.refresh().check() == []


def test_a_strict_commit_is_refused_where_nobody_knows_any_more_what_happened(tmp_path: Path) -> None:
    t = made(tmp_path)
    for k in range(3):
        t.write(rows(1, k))
    t.expire_snapshots(keep=1)
    assert strict(t, 2).write(rows(1, 3)).snapshot == 4
    with pytest.raises(CommitConflict, match=r"snapshot 2, .*has expired; name a later one"):
        strict(t, 1).write(rows(1, 7))


def test_deletion_vectors_of_others_are_seen_by_strict_commits(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.a",
        schema={"p": ts.INT, "k": ts.INT},
        partition_by=["p"],
        options={"deletion-vectors.enabled": True},
    )
    t.write(rows(1, 1, 2).select(["p", "k"]))
    t.write(rows(2, 1, 2).select(["p", "k"]))
    t.delete((ts.col("p") == 1) & (ts.col("k") == 1))
    with pytest.raises(CommitConflict, match=r"snapshot 3 \(OVERWRITE by "):
        strict(t, 2).write(rows(1, 3).select(["p", "k"]))
    assert strict(t, 2).write(rows(2, 3).select(["p", "k"])).snapshot == 4


@pytest.mark.parametrize("identifier", [None, 7])
def test_nothing_makes_a_snapshot_only_where_an_option_says_so(
    tmp_path: Path, identifier: int | None
) -> None:
    t = made(tmp_path)
    stream = {"user": "s"} if identifier is None else {"user": "s", "identifier": identifier}
    both = {"commit.force-create-snapshot": identifier is None, "snapshot.ignore-empty-commit": True}
    assert t.with_options(both).write(rows(1), **stream).snapshots == ()
    wanted = {"snapshot.ignore-empty-commit": False} if identifier is None else {}
    forced = t.with_options(wanted or {"commit.force-create-snapshot": True})
    assert forced.write(rows(1), watermark=5, **stream).snapshots == (1,)
    value = t.store.snapshots.get(1)
    assert (value.commit_kind, value.total_record_count, value.watermark) == ("APPEND", 0, 5)
    assert value.commit_user == "s"
    if identifier is not None:
        assert forced.write(rows(1), **stream).replayed
    assert forced.write(rows(1, 1), user="s", identifier=8).snapshots == (2,)
    assert t.refresh().scan().to_arrow().num_rows == 1
    assert t.refresh().check() == []


@dataclass(frozen=True)
class SlowWaits(Env):
    """Every wait takes two seconds; none takes time."""

    waited: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return 2.0 * len(self.waited)

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


@pytest.mark.parametrize(("options", "tries"), [({"commit.timeout": "5 s"}, 4), ({}, 8)])
def test_a_commit_gives_up_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], tries: int
) -> None:
    t = made(tmp_path, **{"commit.max-retries": 7} | options)
    writer = t.open_writer(user="a")
    writer.write(rows(1, 1))
    messages = [ts.format.commit_message.decode(m) for m in writer.prepare()]
    env = SlowWaits()
    store = Store.open(t.location, env=env)
    monkeypatch.setattr(SnapshotStore, "publish", lambda self, snapshot: False)
    with pytest.raises(CommitConflict, match=rf"others were first {tries} times in \d+ ms"):
        Committer(store).commit(messages, CommitRequest("a"))
    assert len(env.waited) == tries - 1


def messages_of(t: Table, *batches: pa.Table) -> list[bytes]:
    writer = t.open_writer(user="engine")
    collected = []
    for batch in batches:
        writer.write(batch)
        collected += writer.prepare()
    return collected


def test_messages_that_come_twice_are_refused(tmp_path: Path) -> None:
    t = made(tmp_path, **{"changelog-producer": "input"})
    first, second = messages_of(t, rows(1, 1), rows(1, 2))
    t.commit([first], user="engine")
    with pytest.raises(CommitConflict, match="in the table already; these messages were committed before"):
        t.commit([first, second], user="engine")
    assert t.commit([second], user="engine").snapshots == (2,)
    t.with_options({"write-only": False}).compact(full=True)
    assert t.refresh().scan().to_arrow().num_rows == 2
    assert t.refresh().check() == []


def test_messages_that_come_twice_are_discarded_if_so_asked(tmp_path: Path) -> None:
    t = made(tmp_path, **{"changelog-producer": "input", "commit.discard-duplicate-files": True})
    first, second = messages_of(t, rows(1, 1), rows(2, 2))
    t.commit([first], user="engine")
    assert t.commit([first], user="engine").replayed
    assert t.commit([first, second], user="engine").snapshots == (2,)
    assert t.refresh().scan().to_arrow().num_rows == 2
    assert t.changes(since=0).column("k").to_pylist() == [1, 2]
    assert t.refresh().check() == []


def test_a_file_that_moved_up_is_known_all_the_same(tmp_path: Path) -> None:
    t = made(tmp_path)
    messages = messages_of(t, rows(1, 1))
    t.commit(messages, user="engine")
    t.with_options({"write-only": False}).compact(full=True)
    assert t.refresh().inspect.files().column("level").to_pylist() != [0]
    with pytest.raises(CommitConflict, match="in the table already"):
        t.commit(messages, user="engine")


def test_two_engines_that_commit_the_same_messages_at_once(tmp_path: Path, monkeypatch: Any) -> None:
    t = made(tmp_path)
    messages = messages_of(t, rows(1, 1))
    decoded: list[CommitMessage] = [ts.format.commit_message.decode(m) for m in messages]
    publish = SnapshotStore.publish

    def after_the_other(self: SnapshotStore, snapshot: Any) -> bool:
        monkeypatch.setattr(SnapshotStore, "publish", publish)
        ts.open(t.location).commit(messages, user="other")
        return publish(self, snapshot)

    monkeypatch.setattr(SnapshotStore, "publish", after_the_other)
    with pytest.raises(CommitConflict, match="in the table already"):
        Committer(t.store).commit(decoded, CommitRequest("engine", handed_over=True))
    assert t.refresh().check() == []


def test_commit_users_start_as_the_table_says_and_splits_come_by_partition(tmp_path: Path) -> None:
    options = {"commit.user-prefix": "job", "scan.plan-sort-partition": True}
    t = ts.connect(tmp_path).create_table(
        "d.s", schema={"p": ts.INT, "k": ts.INT}, primary_key=["p", "k"], partition_by=["p"], options=options
    )
    for p in (10, 2, 7):
        t.write([{"p": p, "k": 1}])
    users = t.inspect.snapshots().column("commit_user").to_pylist()
    assert [u[:4] for u in users] == ["job_"] * 3
    assert len(set(users)) == 3
    assert t.scan(["p"]).to_arrow().column("p").to_pylist() == [2, 7, 10]
