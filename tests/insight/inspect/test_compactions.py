"""`inspect.compactions()`: every compaction a table has had, also after its snapshot expired."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, InvalidRequest, TablestoreError
from tablestore.format import compaction_record
from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect.commits import explained
from tablestore.meta import compaction_history, deltas
from tablestore.meta.store import Store
from tablestore.write.retention.expire import ExpirePolicy, expire
from tests.faults import FaultyIO, Killed, SimEnv
from tests.tables import TableSpec

AMPLIFIED = {"compaction.max-size-amplification-percent": 100}
KEPT = {"snapshot.num-retained.min": 2, "snapshot.num-retained.max": 2}


TABLE = TableSpec(
    {"p": ts.INT, "k": ts.INT, "v": ts.INT},
    primary_key=("p", "k"),
    partition_by=("p",),
    options={"num-sorted-run.compaction-trigger": 3},
    new_env=SimEnv,
)


def rows_of(keys: Iterable[int], partition: int = 0) -> pa.Table:
    k = pa.array(list(keys), pa.int32())
    return pa.table({"p": pa.array([partition] * len(k), pa.int32()), "k": k, "v": k})


def put(table: ts.Table, first: int = 0, partitions: int = 1, rows: int = 20) -> None:
    table.write(pa.concat_tables(rows_of(range(first, first + rows), p) for p in range(partitions)))


def compaction_rows(table: ts.Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in table.inspect.compactions().select(columns).to_pylist()]


def test_each_pick_of_each_bucket_is_a_row_with_its_reason(tmp_path):
    table = TABLE.create(tmp_path, AMPLIFIED)
    for _ in range(3):
        put(table, partitions=2)
    compactions = table.inspect.compactions()
    assert compactions.select(["snapshot_id", "partition", "bucket", "strategy", "rule"]).to_pylist() == [
        {"snapshot_id": 4, "partition": p, "bucket": 0, "strategy": "universal", "rule": "size amplification"}
        for p in ("p=0", "p=1")
    ]
    row = compactions.to_pylist()[0]
    assert row["inputs"].startswith("L0×3 → L3, 3 files")
    assert "% of 100 %)" in row["reason"]
    assert row["explanation"].splitlines()[0] == f"{row['inputs']}, because {row['rule']}: {row['reason']}"
    assert "○ file number: runs 3 ≤ trigger 3" in row["explanation"]
    assert (row["files_read"], row["rows_in"], row["files_written"], row["rows_out"]) == (3, 60, 1, 20)
    live = table.inspect.files().to_pylist()
    assert row["bytes_written"] == next(f["file_size_in_bytes"] for f in live)
    assert (row["full"], row["asked"], row["stalled"]) == (True, False, False)
    assert table.inspect.compactions(partition="p=1").num_rows == 1


def test_a_record_is_what_the_pick_said(tmp_path):
    table = TABLE.create(tmp_path, {"num-sorted-run.compaction-trigger": 2, "write-only": True})
    for i in range(4):
        put(table, first=i)
    done = table.with_options({"write-only": False}).compact()
    assert compaction_rows(table, "explanation") == [(done.picks[0].decision.explain(),)]


def test_full_compactions_are_marked_as_asked_for(tmp_path):
    table = TABLE.create(tmp_path)
    put(table)
    put(table)
    table.compact(full=True)
    assert compaction_rows(table, "rule", "full", "asked", "reason") == [
        ("full", True, True, "asked for, 2 runs to L3")
    ]


def test_a_write_stall_is_marked(tmp_path):
    stop = {"num-sorted-run.compaction-trigger": 2, "num-sorted-run.stop-trigger": 2}
    table = TABLE.create(tmp_path, stop | {"write-buffer-size": "1 kb"})
    with table.writer() as w:
        for i in range(9):
            w.write(rows_of(range(i * 20, i * 20 + 60)))
    assert (True,) in compaction_rows(table, "stalled")
    assert table.inspect.compactions().filter(pc.field("stalled")).column("rule")[0].as_py()


def test_leveled_compactions_keep_their_scores(tmp_path):
    options = {"tablestore.compaction.strategy": "leveled"}
    table = TABLE.create(tmp_path, options | {"tablestore.compaction.leveled.level0-file-num-trigger": 2})
    put(table)
    put(table)
    ((strategy, rule, reason, explanation),) = compaction_rows(
        table, "strategy", "rule", "reason", "explanation"
    )
    assert (strategy, rule, reason) == ("leveled", "level 0", "2 files / trigger 2 = score 1.00")
    assert "× level 1: 0.0 / target 1.0 GiB = score 0.00" in explanation


def test_append_tables_keep_theirs(tmp_path):
    table = TABLE.create(tmp_path, {"compaction.min.file-num": 2}, primary_key=())
    put(table)
    put(table)
    table.compact()
    ((strategy, rule, inputs, moved, written),) = compaction_rows(
        table, "strategy", "rule", "inputs", "bytes_moved", "files_written"
    )
    assert (strategy, rule, moved, written) == ("append", "small files", 0, 1)
    assert inputs.startswith("L0×2 → L0, 2 files")


def test_tasks_of_engines_bring_their_records_along(tmp_path):
    for name, keyed in (("keyed", True), ("append", False)):
        options = {"write-only": True, "compaction.min.file-num": 2}
        table = TABLE.create(tmp_path / name, options | AMPLIFIED, primary_key=("p", "k") if keyed else ())
        for _ in range(3):
            put(table)
        tasks = table.buckets_to_compact()
        messages = [ts.compact_bucket(table.location, task) for task in tasks]
        table.commit(messages, user="job", identifier=1)
        assert compaction_rows(table, "rule") == [("size amplification" if keyed else "small files",)]


def test_postponed_rows_keep_why_they_moved(tmp_path):
    table = TABLE.create(tmp_path, {"bucket": -2})
    put(table)
    table.compact()
    rows = compaction_rows(table, "strategy", "rule", "bucket", "bytes_written", "rows_out")
    placed = table.inspect.files()
    moved = (sum(placed["file_size_in_bytes"].to_pylist()), sum(placed["record_count"].to_pylist()))
    assert ("postponed", "postponed", -2, *moved) in rows


def test_expired_snapshots_leave_what_they_did(tmp_path):
    table = TABLE.create(tmp_path, KEPT)
    for i in range(3):
        put(table, first=i)
    before = table.inspect.compactions()
    for i in range(6):
        put(table, first=10 * i)
    assert table.store.snapshots.earliest_id() > before.column("snapshot_id")[0].as_py()
    assert table.inspect.compactions().slice(0, before.num_rows) == before
    done = compaction_history.expired(table.store)
    assert [d.snapshot for d in done] == list(range(1, table.store.snapshots.earliest_id()))
    assert done[0].counts.added_rows == 20
    assert done[0].counts.deleted_files == 0
    assert table.check() == []
    assert not table.remove_orphans(older_than="0 ms", force=True).files


def test_many_small_history_files_become_one(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction_history, "_JOIN_EVERY", 8)
    table = TABLE.create(tmp_path, KEPT)
    for i in range(16):
        put(table, first=i, rows=2)
    names = [s.name for s in table.store.io.list(table.store.paths.history_dir)]
    assert len(names) < 8
    snapshots = [d.snapshot for d in compaction_history.expired(table.store)]
    assert snapshots == list(range(1, table.store.snapshots.earliest_id()))


def test_a_table_may_decline_its_history(tmp_path):
    table = TABLE.create(tmp_path, KEPT | {"tablestore.history.enabled": False})
    for i in range(8):
        put(table, first=i)
    assert not table.store.io.exists(table.store.paths.history_dir)
    assert all(i >= table.store.snapshots.earliest_id() for (i,) in compaction_rows(table, "snapshot_id"))


@pytest.mark.parametrize("mode", FaultyIO.MODES)
def test_a_kill_anywhere_in_expiry_shows_no_compaction_twice_or_not_at_all(tmp_path, mode):
    table = TABLE.create(tmp_path, {"snapshot.num-retained.min": 100})
    for i in range(5):
        put(table, first=i)
    whole = table.inspect.compactions()
    snapshots = table.store.snapshots.ids()
    for fail_at in range(200):
        io = FaultyIO(fail_at, mode)
        try:
            copy = Store.open(table.store.paths.root, io=io, env=table.store.env)
            shorten(copy, keep=max(1, len(snapshots) - 3 - fail_at % 3))
            finished = io.count <= fail_at
        except (Killed, TablestoreError):
            finished = False
        assert table.refresh().inspect.compactions() == whole
        if finished:
            return
    raise AssertionError("it never came to its end")


def shorten(store: Store, *, keep: int) -> None:
    expire(store, ExpirePolicy(keep_max=keep, keep_min=1, age_ms=1 << 50, limit=100))


def test_a_branch_shows_its_own(tmp_path):
    table = TABLE.create(tmp_path)
    for i in range(3):
        put(table, first=i)
    table.tags.create("here")
    table.branches.create("b", tag="here")
    branch = table.branch("b")
    put(branch)
    branch.compact(full=True)
    assert compaction_rows(branch, "rule")[-1] == ("full",)
    assert ("full",) not in compaction_rows(table, "rule")
    table.branches.fast_forward("b")
    assert compaction_rows(table.refresh(), "rule") == compaction_rows(branch, "rule")


def test_a_rollback_takes_its_compactions_back(tmp_path):
    table = TABLE.create(tmp_path)
    for i in range(3):
        put(table, first=i)
    assert compaction_rows(table, "snapshot_id") == [(4,)]
    table.rollback(snapshot=3)
    assert compaction_rows(table.refresh(), "snapshot_id") == []


def test_the_property_is_the_engines(tmp_path):
    table = TABLE.create(tmp_path)
    with pytest.raises(InvalidRequest, match="is set by the engine"):
        put_with(table, {compaction_record.PROPERTY: "[]"})


def put_with(table: ts.Table, properties: dict[str, str]) -> None:
    with table.writer(properties=properties) as w:
        w.write(rows_of([1]))


def test_a_damaged_history_is_reported_and_hinders_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction_history, "_JOIN_EVERY", 8)
    table = TABLE.create(tmp_path, KEPT)
    for i in range(8):
        put(table, first=i)
    store = table.store
    name = store.io.list(store.paths.history_dir)[0].name
    store.io.replace(f"{store.paths.history_dir}/{name}", b"{\xff")
    with pytest.raises(Corrupt, match=name):
        table.inspect.compactions()
    for i in range(9):
        put(table, first=i, rows=1)
    assert table.check() == []


def test_a_table_that_goes_back_to_a_tag_forgets_what_came_after(tmp_path):
    table = TABLE.create(tmp_path)
    for i in range(3):
        put(table, first=i)
    table.tags.create("early")
    for i in range(6):
        put(table, first=i)
    table.expire_snapshots(keep=2)
    ids = [i for (i,) in compaction_rows(table, "snapshot_id")]
    assert len(ids) > 2
    table.rollback(tag="early")
    table = table.refresh()
    assert compaction_rows(table, "snapshot_id") == [(4,)]
    for i in range(20, 24):
        put(table, first=i)
    table.expire_snapshots(keep=1)
    done = compaction_history.expired(table.store)
    assert [d.snapshot for d in done] == list(range(1, table.store.snapshots.earliest_id()))
    assert max(d.counts.added_rows for d in done if d.kind == "APPEND") == 20
    assert table.check() == []


def test_of_two_processes_that_expire_a_snapshot_the_one_that_found_its_manifests_is_believed(
    tmp_path: Path,
) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT}, primary_key=["k"], options={"bucket": 1, "write-only": True}
    )
    for k in range(9):
        table.write(pa.table({"k": pa.array([k], pa.int32())}))
    store, ids = table.store, range(1, 9)
    snapshots = [store.snapshots.get(i) for i in ids]

    def keep(snapshot: Snapshot) -> None:
        read = deltas.read_both(store.manifests, [snapshot])
        lines = compaction_history.lines(store, [snapshot], read, explained)
        compaction_history.keep(store, lines, snapshot.id, snapshot.id)

    for s in snapshots:
        keep(s)
    for s in snapshots:
        store.io.delete(store.paths.manifest(s.delta_manifest_list))
        keep(s)  # the names of its files sort before or after the others
    for i in ids:
        store.io.delete(store.paths.snapshot(i))
    kept = compaction_history.expired(Store.open(table.location))
    assert [d.snapshot for d in kept] == list(ids)
    assert all(d.counts is not None for d in kept)


GOLDEN = Path(__file__).parents[2] / "golden" / "paimon-java" / "warehouse" / "j.db"


def keyed_golden() -> list[str]:
    return [
        p.name for p in sorted(GOLDEN.iterdir()) if (p / "snapshot").is_dir() and ts.open(str(p)).primary_key
    ]


def test_what_java_compacted_is_what_our_rules_say_or_was_asked_for():
    """The files that lay there before each of its commits are known, and its rules are ours."""
    counts = {"done the same, because ": 0, "taken nothing, so it was asked for: ": 0}
    for name in keyed_golden():
        for row in ts.open(str(GOLDEN / name)).inspect.compactions().to_pylist():
            first, before, said, *trials = row["explanation"].splitlines()
            assert row["rule"] is None
            assert first == f"{row['inputs']}, by another engine, which records no reasons"
            assert before.startswith("  before it: L0")
            actual = [c for c in counts if said.startswith(f"  universal compaction here would have {c}")]
            assert len(actual) == 1, f"{name}: {row['explanation']}"
            counts[actual[0]] += 1
            assert any("✓" in line for line in trials) == actual[0].startswith("done")
    assert counts["done the same, because "] > 60
    assert 0 < counts["taken nothing, so it was asked for: "] < 10


def test_what_is_known_of_others_outlives_their_snapshots(tmp_path):
    name = next(n for n in keyed_golden() if ts.open(str(GOLDEN / n)).inspect.compactions().num_rows)
    shutil.copytree(GOLDEN / name, tmp_path / "t")
    table = ts.open(str(tmp_path / "t"))
    before = compaction_rows(table, "snapshot_id", "explanation")
    table.expire_snapshots(keep=1)
    assert compaction_rows(table.refresh(), "snapshot_id", "explanation") == before


def test_snapshots_that_left_no_trace_are_named(tmp_path):
    table = TABLE.create(tmp_path, AMPLIFIED | {"snapshot.num-retained.min": 100})
    for _ in range(4):
        put(table)
    assert b"missing" not in (table.inspect.compactions().schema.metadata or {})
    silent = table.with_options({"tablestore.history.enabled": False})
    last = table.refresh().store.snapshots.latest_id()
    silent.expire_snapshots(keep=last - 3)  # 1..3 go, unseen
    table.expire_snapshots(keep=1)
    assert table.refresh().inspect.compactions().schema.metadata == {b"missing": b"1..3"}


@pytest.mark.parametrize("strategy", ["universal", "leveled"])
@pytest.mark.sample(1)
def test_sums_that_had_no_room_are_found_again(tmp_path, monkeypatch, strategy):
    options = {
        **KEPT,
        "tablestore.compaction.strategy": strategy,
        "tablestore.compaction.leveled.level0-file-num-trigger": 3,
    }
    with monkeypatch.context() as patch:
        whole = compaction_record.to_property
        patch.setattr(
            compaction_record, "to_property", lambda actual, max_bytes=1: whole(actual, max_bytes=max_bytes)
        )
        table = TABLE.create(tmp_path / "short", options)
        for _ in range(7):
            put(table, partitions=2)
        (last,) = (s for s in table.refresh().store.snapshots.all() if s.commit_kind == "COMPACT")
        assert not any(r.trials for r in compaction_history.of(table.store, last))
    plain = TABLE.create(tmp_path / "plain", options)
    for _ in range(7):
        put(plain, partitions=2)
    columns = ["snapshot_id", "partition", "rule", "explanation"]
    actual, wanted = (t.refresh().inspect.compactions().select(columns) for t in (table, plain))
    assert wanted.num_rows >= 4
    assert actual.to_pylist() == wanted.to_pylist()
