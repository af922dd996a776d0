"""Expiry foretold is expiry as it happens: the same snapshots, files and bytes, and who is in the way."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import NotFound
from tablestore.io.fileio import LocalFileIO
from tests.faults import SimEnv
from tests.tables import WRITE_ONLY, TableSpec
from tests.write.lives import lived, on_disk

EXPIRING = TableSpec(
    {"k": ts.BIGINT},
    primary_key=("k",),
    options=WRITE_ONLY | {"snapshot.num-retained.min": 1},
    new_env=SimEnv,
)


def row(k: int) -> pa.Table:
    return pa.table({"k": pa.array([k], pa.int64())})


def filled(path: Path, n: int = 5, **options: Any) -> ts.Table:
    t = EXPIRING.create(path, options)
    for k in range(n):
        t.write(row(k))
    return t


def outside(disk: dict[str, int]) -> dict[str, int]:
    """Without what expiry itself writes: hints, its history, snapshots that become changelogs."""
    written = ("snapshot/EARLIEST", "changelog/", "tablestore/history/")
    return {p: n for p, n in disk.items() if not p.startswith(written)}


def test_a_dry_run_lists_what_an_expiry_deletes(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        life = lived(tmp_path / str(seed), seed, steps=25)
        t = life.table
        for how in ({}, {"keep": 2}, {"keep": 1, "older_than": "10 min"}):
            asked = t.expire_snapshots(dry_run=True, **how)
            shown = {r["path"]: r for r in t.inspect.storage().files.to_pylist()}
            before = on_disk(t)
            done = t.expire_snapshots(**how)
            after = on_disk(t)
            assert (asked.snapshots, asked.changelogs) == (done.snapshots, done.changelogs), (seed, how)
            assert (set(asked.files), asked.bytes, asked.kinds) == (set(done.files), done.bytes, done.kinds)
            local = {p.removeprefix(f"{t.location}/") for p in asked.files}
            assert len(local) == len(asked.files) == len(done.files), (seed, how)  # each is told once
            copied = {p.replace("snapshot", "changelog"): n for p, n in before.items() if "snapshot-" in p}
            assert asked.bytes == sum({**copied, **before}[p] for p in local), (seed, how)
            gone = {p: n for p, n in outside(before).items() if p not in after}
            assert {p for p in local if not p.startswith("changelog/")} == set(gone), (seed, how)
            if not asked.changelogs:
                assert_storage_knew(
                    shown, local, asked.snapshots, decoupled=t.store.options.changelog_decoupled
                )
            assert t.check() == [], seed
            life.env.sleep(700)


def assert_storage_knew(
    shown: dict[str, dict[str, Any]], gone: set[str], snapshots: tuple[int, ...], *, decoupled: bool
) -> None:
    """The rows of files that only the expired snapshots needed are those that went; those that changes are
    read from may live on with a changelog."""
    alone = {
        path
        for path, r in shown.items()
        if r["state"] == "kept" and r["last_needed"] in snapshots
        if not (r["tags"] or r["branches"] or r["last_changelog"])
    }
    assert gone <= alone
    assert gone == alone or decoupled


def test_the_preview_says_what_stays_and_whose_reads_end(tmp_path: Path) -> None:
    t = filled(tmp_path)
    t.tags.create("v2", 2)
    t.consumers.reset("slow", 4)
    expired = t.expire_snapshots(keep=1, dry_run=True)
    assert (expired.snapshots, expired.remaining, expired.dry_run) == ((1, 2, 3), (4, 5), True)
    assert expired.protected_by == ("consumer slow (next snapshot 4)",)
    text = repr(expired)
    assert "at(snapshot=…) of 1 to 3" in text
    assert "tag v2: snapshot 2 stays readable by at(tag='v2')" in text
    assert "from snapshot 4: consumer slow (next snapshot 4)" in text
    assert "would go: call again with dry_run=False" in text
    done = t.expire_snapshots(keep=1)
    assert "\n" not in repr(done)
    assert [b.first for b in done.bounds] == [4, 5]
    with pytest.raises(NotFound):
        t.at(snapshot=3)
    assert t.at(tag="v2").scan().to_arrow().num_rows == 2


def test_age_says_until_when(tmp_path: Path) -> None:
    env = SimEnv()
    t = EXPIRING.create(tmp_path, {"snapshot.time-retained": "1 h"}, env=env)
    for k in range(3):
        t.write(row(k))
        env.sleep(600)
    expired = t.expire_snapshots(dry_run=True)
    (age,) = [b for b in expired.bounds if b.rule == "age"]
    assert expired.snapshots == ()
    assert age.until_ms == t.store.snapshots.get(2).time_millis + 3_600_000
    env.sleep((age.until_ms - env.now_ms()) / 1000)
    assert t.expire_snapshots(dry_run=True).snapshots == (1,)


def test_an_expiry_by_age_reads_each_snapshot_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = SimEnv()
    t = EXPIRING.create(tmp_path, {"snapshot.time-retained": "1 h"}, env=env)
    for k in range(8):
        t.write(row(k))
        env.sleep(60)
    env.sleep(4 * 3600)
    read, paths = LocalFileIO.read, list[str]()
    monkeypatch.setattr(LocalFileIO, "read", lambda io, path: paths.append(path) or read(io, path))
    assert t.expire_snapshots().snapshots == (1, 2, 3, 4, 5, 6, 7)
    assert {paths.count(t.store.paths.snapshot(i)) for i in range(3, 7)} == {1}


def test_consumers_that_will_be_forgotten_protect_nothing_beforehand(tmp_path: Path) -> None:
    env = SimEnv(now_ms=4_000_000_000_000)  # files are younger by the real clock: the consumer is old
    t = EXPIRING.create(tmp_path, {"consumer.expiration-time": "1 d"}, env=env)
    for k in range(4):
        t.write(row(k))
    t.consumers.reset("gone", 1)
    asked = t.expire_snapshots(keep=1, dry_run=True)
    assert (asked.forgotten, asked.snapshots) == (("gone",), (1, 2, 3))
    assert "consumer gone: its next snapshot 1 goes" in asked.text
    assert t.consumers.names() == ["gone"]
    done = t.expire_snapshots(keep=1)
    assert (done.forgotten, done.snapshots, t.consumers.names()) == (("gone",), (1, 2, 3), [])


def test_a_dry_run_lists_changelogs_that_only_the_expiry_makes(tmp_path: Path) -> None:
    t = filled(tmp_path, 9, **{"changelog.num-retained.min": 3, "changelog.num-retained.max": 3})
    t.compact(full=True)
    asked, done = t.expire_snapshots(keep=1, dry_run=True), t.expire_snapshots(keep=1)
    assert asked.changelogs == done.changelogs != ()
    assert (asked.kinds, set(asked.files)) == (done.kinds, set(done.files))
    assert any("long-lived changelogs" in text for text in done.keeps)


def test_a_commit_reports_what_it_expired(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {"write-only": False, "snapshot.num-retained.max": 3, "num-sorted-run.compaction-trigger": 50}
    t = filled(tmp_path, 3, **options)
    with caplog.at_level(logging.INFO, "tablestore"):
        done = t.write(row(9))
    assert done.expired is not None
    assert (done.expired.snapshots, done.expired.remaining) == ((1,), (2, 4))
    assert "expired=Expiry(snapshots 1..1" in repr(done)
    assert "expired" in caplog.text
    quiet = ts.open(filled(tmp_path / "b", 1, **options).location).write(row(1))
    assert quiet.expired is None
    assert "expired" not in repr(quiet)


def test_what_failed_after_a_commit_is_reported_with_it(tmp_path: Path) -> None:
    options = {"write-only": False, "snapshot.num-retained.max": 1, "num-sorted-run.compaction-trigger": 50}
    t = filled(tmp_path, 2, **options)
    Path(t.location, "consumer").mkdir()
    Path(t.location, "consumer", "consumer-x").write_text("no json")
    done = t.write(row(9))
    assert done.snapshot == 3
    assert done.expired is not None
    assert "not a consumer file" in done.expired.problems[0]


def test_a_compaction_reports_what_it_expired(tmp_path: Path) -> None:
    options = {"write-only": False, "snapshot.num-retained.max": 2, "num-sorted-run.compaction-trigger": 50}
    done = filled(tmp_path, 4, **options).compact(full=True)
    assert done.committed is not None
    assert done.committed.expired is not None
    assert done.committed.expired.snapshots == (3,)


def test_an_empty_table_has_nothing_to_expire(tmp_path: Path) -> None:
    expired = EXPIRING.create(tmp_path).expire_snapshots(dry_run=True)
    assert (expired.snapshots, expired.files, expired.empty) == ((), (), True)
