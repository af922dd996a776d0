"""Tables with an embedded log: what goes into it, what is refused, several writers at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import (
    CommitConflict,
    Corrupt,
    InvalidOption,
    TablestoreError,
    Unsupported,
)
from tablestore.format.snapshot import BATCH_IDENTIFIER
from tablestore.log.log import CommitMark, FilesBehindLog, RowsInBetween
from tablestore.table.logged import LogCommitter
from tablestore.write.commit.committer import Committer
from tablestore.write.log_tee import without_updates_before
from tests.faults import SimEnv
from tests.log import held
from tests.table.logged_tables import APPEND, EVENTUAL, KEYED, LOG, SUMS, fails, interleaved, kinds, lake_of
from tests.tables import TableSpec


@pytest.mark.parametrize(
    ("options", "keyed", "words"),
    [
        ({"bucket": -1}, True, "bucket = -1"),
        ({"bucket": -2}, True, "bucket = -2"),
        ({"bucket": -1}, False, "bucket = -1"),
        ({"bucket": 2, "bucket-key": "k", "log.consistency": "eventual"}, False, "'log.consistency'"),
        ({"log.consistency": "eventual", "merge-engine": "aggregation"}, True, "'log.consistency'"),
        ({"log.changelog-mode": "upsert", "merge-engine": "partial-update"}, True, "'log.changelog-mode'"),
        ({"log.system": "kafka"}, True, "kafka.bootstrap.servers"),
        ({"log.system": "pulsar"}, True, "none, embedded, kafka"),
        ({"tablestore.log.compression": "gzip"}, True, "compression"),
        ({"log.sistem": "embedded"}, True, "log.sistem"),
    ],
)
def test_tables_that_cannot_have_a_log_are_refused_by_name(
    options: dict[str, Any], keyed: bool, words: str, tmp_path: Path
) -> None:
    spec = TableSpec(KEYED.columns, ("k",) if keyed else (), options={"log.system": "embedded", **options})
    with pytest.raises((InvalidOption, Unsupported), match=words):
        spec.create(tmp_path)
    assert lake_of(tmp_path).tables() == []


def test_what_a_log_is_cannot_change(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    for options in (
        {"log.system": "none"},
        {"log.consistency": "eventual"},
        {"log.changelog-mode": "all"},
        {"log.format": "json"},
    ):
        with pytest.raises(InvalidOption, match=next(iter(options))):
            t.alter(ts.set_options(options))
        with pytest.raises(InvalidOption, match=next(iter(options))):
            t.with_options(options)
    with pytest.raises(Unsupported, match="buckets"):
        t.alter(ts.set_options({"bucket": 3}))
    t = t.alter(ts.set_options({"log.retention": "1 d", "log.consistency": "transactional"}))
    assert t.options["log.retention"] == "1 d"
    plain = lake_of(tmp_path).create_table("d.p", schema={"k": ts.INT}, primary_key=["k"])
    logged = plain.alter(ts.set_options({"log.system": "embedded"}))
    logged.write([{"k": 1}])
    assert held.rows(logged) == held.merged(lake_of(tmp_path), logged)


def test_a_table_with_rows_gets_no_log(tmp_path: Path) -> None:
    t = lake_of(tmp_path).create_table("d.p", schema={"k": ts.INT}, primary_key=["k"])
    t.write([{"k": 1}])
    with pytest.raises(InvalidOption, match=r"'log\.system'"):
        t.alter(ts.set_options(LOG))


def test_every_kind_of_snapshot_names_offsets(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    t.write([{"k": k, "v": k} for k in range(5)])
    at = held.position(t)
    t.compact(full=True)
    t.analyze()
    t.overwrite([{"k": 1, "v": 2}])
    t.compact_manifests()
    t.truncate()
    snapshots = [t.store.snapshots.get(i) for i in t.store.snapshots.ids()]
    assert {s.commit_kind for s in snapshots} == {"APPEND", "COMPACT", "ANALYZE", "OVERWRITE"}
    assert held.position(t) == at == held.end(t)
    assert all("tablestore.log-offsets" in (s.properties or {}) for s in snapshots)


def test_deletes_and_updates_go_through_the_log_row_by_row(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    t.write([{"k": k, "v": k} for k in range(4)])
    t.update({"v": 9}, where="k = 1")
    t.delete("k = 2")
    t.delete([{"k": 3}])
    held.require_prefix(lake_of(tmp_path), t)
    assert sorted(kinds(t)) == [0, 0, 0, 0, 2, 3, 3]
    assert held.position(t) == held.end(t)


def test_a_partition_is_deleted_row_by_row_so_that_readers_see_it(tmp_path: Path) -> None:
    spec = TableSpec({"p": ts.STRING, "k": ts.INT}, ("p", "k"), ("p",), options=LOG)
    t = spec.create(tmp_path)
    t.write([{"p": p, "k": k} for p in "ab" for k in range(3)])
    t.delete("p = 'a'")
    assert kinds(t).count(3) == 3
    held.require_prefix(lake_of(tmp_path), t)


def test_an_upsert_log_has_no_row_from_before_an_update() -> None:
    rows = pa.record_batch({"k": pa.array([1, 1, 2, 3, 3]), "v": pa.array([0, 1, 0, 0, 1])})
    actual, now = without_updates_before(rows, pa.array([1, 2, 1, 1, 3], pa.int8()), ["k"])
    assert actual.to_pylist() == [{"k": 1, "v": 1}, {"k": 2, "v": 0}, {"k": 3, "v": 0}, {"k": 3, "v": 1}]
    assert now.to_pylist() == [2, 3, 3, 3]


def test_sums_keep_what_was_before(tmp_path: Path) -> None:
    t = SUMS.create(tmp_path)
    t.write([{"k": 1, "v": 5, "r": "+I"}, {"k": 1, "v": 2, "r": "-U"}], row_kind_column="r")
    assert kinds(t) == [0, 1]
    held.require_prefix(lake_of(tmp_path), t)


def test_a_rollback_behind_the_log_is_refused(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    t.write([{"k": 1, "v": 1}])
    t.tags.create("v1")
    t.branches.create("dev", tag="v1")
    t.compact(full=True)
    t.rollback(snapshot=1)
    t.write([{"k": 2, "v": 1}])
    with pytest.raises(Unsupported, match="overwrite"):
        t.rollback(tag="v1")
    dev = t.branch("dev")
    dev.write([{"k": 3, "v": 3}])
    assert dev.log is None
    with pytest.raises(Unsupported, match="fast_forward"):
        t.branches.fast_forward("dev")
    with pytest.raises(Unsupported, match="buckets"):
        t.rescale(4)
    assert held.position(t) == held.end(t)


def test_what_a_log_shows(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    assert lake_of(tmp_path).create_table("d.p", schema={"k": ts.INT}).log is None
    t.write([{"k": k, "v": k} for k in range(4)])
    log = t.log
    assert log is not None
    assert (log.system, log.consistency, log.topic) == ("embedded", "transactional", None)
    assert sum(log.end.values()) == 4
    assert log.end == log.in_files
    assert log.size
    assert repr(log).startswith("Log(embedded, transactional, ")
    assert "in files" in repr(log)
    assert log.finish() == ()


def test_rows_that_wait_in_the_log_come_under_their_own_mark(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    assert t._handle.log is not None
    with t.writer() as w:
        w.write([{"k": 1, "v": 1}])
    appender = t._handle.log.appender()
    rows = pa.record_batch({"k": pa.array([5], pa.int32()), "v": pa.array([6])})
    appender.write(0, pa.array([0], pa.int8()), rows)
    appender.commit(CommitMark("stream", 3, "place", {"a": "b"}, 12))
    assert t.log is not None
    assert len(t.log.finish()) == 1
    latest = t.store.snapshots.latest()
    assert latest is not None
    assert (latest.commit_user, latest.commit_identifier) == ("stream", 3)
    assert (latest.watermark, (latest.properties or {})["a"]) == (12, "b")
    assert t.position("stream") == (3, "place")
    assert t.write([{"k": 5, "v": 7}], user="stream", identifier=3).replayed


@pytest.mark.parametrize("in_files", [True, False])
def test_a_torn_file_before_a_sound_one_is_repaired(in_files: bool, tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    cursor = None
    for k in range(3):
        t.write([{"k": k, "v": 0}])
        cursor = cursor or list(t.stream(timeout=0.0))[-1].cursor
    for k in (3, 4, 5):  # killed before the files
        if in_files:
            t.write([{"k": k, "v": 0}])
        else:
            assert t._handle.log is not None
            appender = t._handle.log.appender()
            rows = pa.record_batch({"k": pa.array([k], pa.int32()), "v": pa.array([0])})
            appender.write(k % 2, pa.array([0], pa.int8()), rows)
            appender.commit(CommitMark(t.store.fresh_user(), BATCH_IDENTIFIER))
    (tmp_path / "d.db" / "t" / "tablestore" / "log" / f"{5:020}.log").write_bytes(bytes(700))
    t = lake_of(tmp_path).table("d.t")
    assert t.log is not None

    def sources(t: ts.Table) -> list[str]:
        return [step.source for step in t.stream(start=cursor, timeout=0.0) if step.to_arrow().num_rows]

    if in_files:
        assert "files" in sources(t)
    else:
        with pytest.raises(Corrupt, match=r"table\.log\.repair"):
            t.write([{"k": 9, "v": 9}])
    lost = t.log.repair()
    assert sum(lost.values()) == (0 if in_files else 1)
    assert t.log.repair() == {}
    t.write([{"k": 9, "v": 9}])
    assert t.log.in_files == t.log.end
    there = [0, 1, 2, 3, 5, 9, *([4] if in_files else [])]
    assert sorted(r["k"] for r in t.scan().to_arrow().to_pylist()) == sorted(there)
    steps = [
        (s.source, r["k"]) for s in t.stream(start=cursor, timeout=0.0) for r in s.to_arrow().to_pylist()
    ]
    assert sorted(k for _, k in steps) == sorted(there)[1:]
    assert {source for source, k in steps if k < 4} == {"files"}


def test_two_that_finish_the_log_at_once_bring_each_row_once(tmp_path: Path) -> None:
    t = SUMS.create(tmp_path)
    assert t._handle.log is not None
    for bucket, k in ((0, 1), (1, 2), (1, 2)):  # three batch writes that were killed
        appender = t._handle.log.appender()
        rows = pa.record_batch({"k": pa.array([k], pa.int32()), "v": pa.array([1])})
        appender.write(bucket, pa.array([0], pa.int8()), rows)
        appender.commit(CommitMark(t.store.fresh_user(), BATCH_IDENTIFIER))
    before, others = LogCommitter.from_log, [lake_of(tmp_path).table("d.t")]

    def interrupted(self: LogCommitter, *args: Any) -> tuple[int, ...]:
        created = before(self, *args)
        for other in others[:]:
            others.clear()
            assert other.log is not None
            other.log.finish()
        return created

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogCommitter, "from_log", interrupted)
        assert t.log is not None
        t.log.finish()
    assert held.rows(t) == ["{'k': 1, 'v': 1}", "{'k': 2, 'v': 2}"]
    assert t.store.snapshots.latest_id() == 3
    assert held.position(t) == held.end(t)


@pytest.mark.parametrize("spec", [KEYED, EVENTUAL, SUMS, APPEND], ids=["keyed", "eventual", "sums", "append"])
@pytest.mark.sample(2)
def test_writers_at_once_leave_files_that_are_the_log(spec: TableSpec, tmp_path: Path) -> None:
    spec.create(tmp_path)
    lake, errors, commits = lake_of(tmp_path), list[BaseException](), list[ts.Committed]()

    def run(number: int) -> None:
        t = lake_of(tmp_path).table("d.t")
        try:
            for step in range(4):
                with t.writer(user=f"w{number}", identifier=step) as w:
                    w.write([{"k": k % 5, "v": number * 100 + step} for k in range(3 + number)])
                    w.write([{"k": number, "v": step}])
                commits.append(w.committed or ts.Committed())
                if step == number:
                    with contextlib.suppress(CommitConflict):  # another writer compacted the same files
                        t.compact()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    t = lake.table("d.t")
    held.require_prefix(lake, t)
    assert held.position(t) == held.end(t)
    assert (len(held.logged(t)) and all(c.snapshots for c in commits)) or spec is EVENTUAL
    rows = sum(len(b.kinds) for b in held.logged(t))
    assert rows == 4 * sum(3 + n + 1 for n in range(3))


def test_an_update_is_done_again_where_the_log_moved_on(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    t.write([{"k": 1, "v": 1}])
    other = lake_of(tmp_path).table("d.t")
    with interleaved(lambda: other.write([{"k": 1, "v": 50}])):
        t.update({"v": 7}, where="v = 50 or v = 1")
    assert held.rows(t) == ["{'k': 1, 'v': 7}"]
    held.require_prefix(lake_of(tmp_path), t)


def test_rows_in_between_are_seen_by_the_append_itself(tmp_path: Path) -> None:
    t = KEYED.create(tmp_path)
    t.write([{"k": 1, "v": 1}])
    log, at = t._handle.log, held.position(t)
    assert log is not None
    rows = pa.record_batch({"k": pa.array([1], pa.int32()), "v": pa.array([6])})
    (bucket,) = at
    for after, there in ((at, False), ({}, True), (at, True)):
        appender = log.appender()
        appender.write(bucket, pa.array([0], pa.int8()), rows)
        other = log.appender()
        other.write(1 - bucket, pa.array([0], pa.int8()), rows)
        other.commit(CommitMark("other", 1))  # another bucket does not count
        before = held.end(t)
        if there:
            with pytest.raises(RowsInBetween):
                appender.commit(CommitMark("mine", 1), after=after)
            appender.abort()
            assert held.end(t) == before
        else:
            assert appender.commit(CommitMark("mine", 1), after=after) is not None


def test_an_error_behind_the_log_says_where_the_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = KEYED.create(tmp_path)

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", fails)
        with pytest.raises(FilesBehindLog, match=r"table\.log\.finish"):
            t.write([{"k": 1, "v": 1}])
    assert held.rows(t) == []
    assert sum(held.end(t).values()) == 1
    t.write([{"k": 2, "v": 2}])
    assert len(held.rows(t)) == 2
    with pytest.raises((InvalidOption, ts.InvalidRequest)):
        t.write([{"k": 3, "v": 3}], properties={"tablestore.log-offsets": "{}"})
    assert sum(held.end(t).values()) == 2
    assert issubclass(FilesBehindLog, TablestoreError)
    assert not issubclass(FilesBehindLog, CommitConflict)


def test_the_job_of_a_write_only_table_expires_its_log(tmp_path: Path) -> None:
    env = SimEnv()
    options = {"write-only": True, "log.retention": "1 h"}
    t = KEYED.create(tmp_path, options, env=env)

    def start_after(step: Callable[[], object]) -> int:
        """The offset at which the log starts after an hour, two writes and a step."""
        for _ in range(2):
            env.sleep(7200)
            t.write([{"k": k, "v": k} for k in range(8)])
        assert t.log is not None
        before = sum(t.log.start.values())
        env.sleep(7200)
        step()
        return sum(t.log.start.values()) - before

    assert start_after(lambda: t.write([{"k": 1, "v": 1}])) == 0
    assert start_after(t.compact) > 0
    assert start_after(t.expire_snapshots) > 0
    assert start_after(lambda: t.expire_snapshots(dry_run=True)) == 0
