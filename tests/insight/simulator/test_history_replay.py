"""Replays of real tables: their own files come out again, and other options give what they would have."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, Unsupported
from tablestore.insight.explain.table_history import BucketEvent, CompactionMode, events
from tablestore.insight.inspect.amplification.ledger import Ledger
from tablestore.insight.simulator import Replay, ReplayedHistory
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.table.table import Table
from tests.faults import SimEnv
from tests.tables import TableSpec

TRIGGER = "num-sorted-run.compaction-trigger"
KEYS = 600
COMMITS = 24
LEVELED = {
    "tablestore.compaction.strategy": "leveled",
    "tablestore.compaction.leveled.max-bytes-for-level-base": "60 kb",
    "num-levels": 4,
    "target-file-size": "30 kb",
}
TABLES: dict[str, dict[str, Any]] = {
    "universal": {TRIGGER: 4},
    "universal, many small files": {TRIGGER: 3, "target-file-size": "20 kb"},
    "size ratio 30, four levels": {TRIGGER: 4, "compaction.size-ratio": 30, "num-levels": 4},
    "leveled": LEVELED,
    "lookup": {TRIGGER: 4, "changelog-producer": "lookup"},
    "lookup that need not wait": {TRIGGER: 4, "changelog-producer": "lookup", "lookup-wait": False},
    "full-compaction": {
        TRIGGER: 4,
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": 5,
    },
    "leveled, full compactions": {
        **LEVELED,
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": 5,
        "compaction.incremental-size-threshold": "150 kb",
    },
    "leveled, lookups rewrite files that could move": {
        **LEVELED,
        "tablestore.compaction.leveled.level0-file-num-trigger": 1,
        "tablestore.compaction.leveled.max-bytes-for-level-base": "4 kb",
        "num-levels": 3,
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": True,
        "changelog-producer": "lookup",
        "lookup-wait": False,
    },
    "deletion vectors": {TRIGGER: 4, "deletion-vectors.enabled": True},
    "first-row": {TRIGGER: 4, "merge-engine": "first-row"},
    "write-only": {TRIGGER: 4, "write-only": True},
    "stalls": {TRIGGER: 2, "num-sorted-run.stop-trigger": 3, "write-buffer-size": "4 kb"},
}


BYTES = TableSpec(
    {"k": ts.BIGINT, "v": ts.BYTES},
    primary_key=("k",),
    options={"file.compression": "none"},
    new_env=SimEnv,
)


def some_rows(chance: np.random.Generator, *, deletes: bool) -> pa.Table:
    keys = np.unique(chance.integers(0, KEYS, 90))
    values = [chance.bytes(100) for _ in keys]
    kinds = np.where(chance.random(len(keys)) < 0.1, "-D", "+I") if deletes else np.full(len(keys), "+I")
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.binary()), "_kind": kinds})


def live(table: Table, seed: int, *, jobs: bool = True) -> Table:
    """Commits of random rows and deletes, some of many flushes, and some compactions by hand."""
    rows, chance = np.random.default_rng(seed), random.Random(seed)
    deletes = table.options.get("merge-engine") != "first-row"
    job = table.with_options({"write-only": False})
    for _ in range(COMMITS):
        with table.writer() as w:
            for _ in range(1 if chance.random() < 0.8 else 4):
                w.write(some_rows(rows, deletes=deletes), row_kind_column="_kind")
        if jobs and chance.random() < 0.15:
            job.compact(full=chance.random() < 0.5)
    return table


def history_of(table: Table, change: Callable[[BucketEvent], BucketEvent] = lambda e: e) -> ReplayedHistory:
    return ReplayedHistory(map(change, events(table.store)), table.store.schema, table.store.options)


def names(levels: Levels) -> set[tuple[int, str]]:
    return {(f.level, f.file_name) for f in levels.files}


def real_amplification(table: Table) -> float:
    ledger = Ledger(table.store.key_types)
    return [ledger.enter(e) for e in events(table.store)][-1].write_amplification or 0.0


def require_same(history: ReplayedHistory, replay: Replay) -> None:
    for place, real in history.real.items():
        assert names(replay.levels[place]) == names(real)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(2)
def test_the_own_options_give_the_own_files_again(tmp_path: Path, seeds: tuple[int, ...], name: str) -> None:
    for seed in seeds[::5]:
        table = live(BYTES.create(tmp_path / str(seed), TABLES[name]), seed)
        history = history_of(table)
        assert history.unexplained == []
        replay = history.replay()
        require_same(history, replay)
        assert names(history.real["", 0]) == {
            (e.file.level, e.file.file_name)
            for e in table.store.manifests.live_entries(table.store.snapshots.latest())
        }
        assert replay.write_amplification == pytest.approx(real_amplification(table), rel=0.02)
        if name == "stalls":
            assert replay.total("stalls") > 0


@pytest.mark.parametrize("name", ["universal", "leveled", "deletion vectors", "write-only"])
@pytest.mark.sample(2)
def test_without_records_the_own_files_come_out_too(
    tmp_path: Path, seeds: tuple[int, ...], name: str
) -> None:
    """As of tables of which nobody kept why they were compacted."""
    for seed in seeds[::5]:
        table = live(BYTES.create(tmp_path / str(seed), TABLES[name]), seed)
        history = history_of(table, lambda e: replace(e, records=()))
        assert history.unexplained == []
        require_same(history, history.replay())


def test_without_records_a_file_that_moved_on_within_its_commit_has_its_real_size(tmp_path: Path) -> None:
    """A commit of this life merges level 0 into level 1, to 61,523 bytes, and moves that file to level 2, as
    the target is 61,440; by an estimate of 60,925 bytes it would stay."""
    table = live(BYTES.create(tmp_path, LEVELED), 988_206)
    history = history_of(table, lambda e: replace(e, records=()))
    assert history.unexplained == []
    require_same(history, history.replay())


@pytest.mark.parametrize("name", ["universal", "universal, many small files", "leveled", "write-only"])
@pytest.mark.sample(2)
def test_estimates_alone_come_near_where_overlap_can_be_learned(tmp_path: Path, name: str) -> None:
    """Within 2 %, where no real output is used: keys are drawn evenly, so that merges tell how many there
    are."""
    table = live(BYTES.create(tmp_path, TABLES[name]), 7)
    history = history_of(table)
    replay = history.replay(estimates=True)
    assert replay.known == 0
    assert replay.write_amplification == pytest.approx(real_amplification(table), rel=0.02)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("universal", {TRIGGER: 8}),
        ("universal", {TRIGGER: 2}),
        ("universal", {"compaction.size-ratio": 60}),
        ("universal", LEVELED),
        ("leveled", {"tablestore.compaction.strategy": "universal", "num-levels": 6, TRIGGER: 4}),
        ("universal", {"target-file-size": "20 kb"}),
    ],
)
@pytest.mark.large
def test_other_options_give_what_a_table_with_them_has(
    tmp_path: Path, before: str, after: dict[str, Any]
) -> None:
    """The same rows written to a table with the other options: write amplification within 5 %, as many
    runs."""
    table = live(BYTES.create(tmp_path / "before", TABLES[before]), 11, jobs=False)
    other = live(BYTES.create(tmp_path / "after", TABLES[before] | after), 11, jobs=False)
    answer = table.what_if(after)
    assert answer.reproduced
    assert answer.changed.write_amplification == pytest.approx(real_amplification(other), rel=0.05)
    real = history_of(other).replay()
    assert [r.bytes_ingested for r in answer.changed.rows] == [r.bytes_ingested for r in real.rows]
    assert answer.changed.mean("runs") == pytest.approx(real.mean("runs"), rel=0.05)
    assert answer.changed.total("compactions") == pytest.approx(real.total("compactions"), rel=0.1)


def test_what_if_shows_both_sides(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path, TABLES["universal"]), 3)
    before = table.store.snapshots.latest_id()
    answer = table.what_if({TRIGGER: 8})
    text = repr(answer)
    assert text.startswith("WhatIf(num-sorted-run.compaction-trigger = 8)")
    assert "ends with the same files" in text
    rows = answer.to_arrow()
    assert set(rows["variant"].to_pylist()) == {"as it was", "changed"}
    assert rows.num_rows == 2 * answer.history.commits
    (runs,) = (d for d in answer.differences if d.name == "runs, mean")
    assert runs.after > runs.before
    assert table.store.snapshots.latest_id() == before


def test_a_history_that_begins_late_starts_from_what_was_there(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path, TABLES["universal"]), 5)
    table.expire_snapshots(keep=12)
    history = history_of(table)
    assert history.unexplained == []
    require_same(history, history.replay())
    assert table.what_if({TRIGGER: 3}).reproduced


def test_overwritten_files_go_under_other_options_too(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path, TABLES["universal"]), 5)
    table.overwrite(some_rows(np.random.default_rng(0), deletes=False).drop_columns(["_kind"]))
    answer = table.what_if({TRIGGER: 9})
    assert answer.reproduced
    assert names(answer.changed.levels["", 0]) == names(answer.history.real["", 0])


def test_writers_that_only_write_do_so_under_other_options(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path, TABLES["write-only"]), 2)
    modes = {o.mode for o in history_of(table).places["", 0] if o.flushes}
    assert modes == {CompactionMode.NEVER}


def test_commits_before_the_first_full_compaction_did_not_compact(tmp_path: Path) -> None:
    """Every fifth commit compacts fully; the four before it settled, and there was nothing to do."""
    table = BYTES.create(tmp_path, TABLES["full-compaction"] | {TRIGGER: 6})
    rows = np.random.default_rng(1)
    for _ in range(5):
        table.write(some_rows(rows, deletes=False), row_kind_column="_kind")
    history = history_of(table)
    assert [o.mode for o in history.places["", 0]] == [CompactionMode.SETTLE] * 4 + [CompactionMode.FULLY]
    replay = history.replay()
    assert [r.compactions for r in replay.rows] == [0, 0, 0, 0, 1]
    assert replay.write_amplification == real_amplification(table)


def test_what_one_commit_wrote_and_moved_on_comes_out_again(tmp_path: Path) -> None:
    """Level 0 was merged into level 1, which was then too large, and its one file went to level 2."""
    table = live(BYTES.create(tmp_path, LEVELED), 780928)
    moves = [[r.bytes_written > 0 for r in e.records] for e in events(table.store) if len(e.records) > 1]
    assert moves == [[True, False]]
    history = history_of(table)
    replay = history.replay()
    require_same(history, replay)
    assert replay.write_amplification == real_amplification(table)


def test_commits_that_only_write_at_the_end_stay_uncompacted(tmp_path: Path) -> None:
    """The last of them makes as many runs as start a compaction, and none was made."""
    table = live(BYTES.create(tmp_path, TABLES["universal"]), 4)
    table.compact(full=True)
    only = table.with_options({"write-only": True})
    for seed in range(4):
        only.write(some_rows(np.random.default_rng(seed), deletes=False), row_kind_column="_kind")
    history = history_of(table)
    last = history.places["", 0][-1]
    assert (last.left_alone, last.mode) == (True, CompactionMode.NEVER)
    assert history.unexplained == []
    require_same(history, history.replay())
    assert table.what_if({TRIGGER: 6}).reproduced


def test_what_no_rule_did_is_reported(tmp_path: Path) -> None:
    """A table that was compacted under options that nobody stored."""
    table = BYTES.create(tmp_path, {TRIGGER: 9})
    live(table.with_options({TRIGGER: 2}), 1, jobs=False)
    history = history_of(table)
    assert history.unexplained
    assert "compacted by no rule of these options" in repr(table.what_if({TRIGGER: 3}))
    require_same(history, history.replay())


def test_what_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path / "k", TABLES["universal"]), 1)
    with pytest.raises(InvalidRequest, match="change nothing"):
        table.what_if({"snapshot.time-retained": "1 h"})
    with pytest.raises(InvalidOption):
        table.what_if({TRIGGER: "few"})
    bare = ts.connect(str(tmp_path / "b")).create_table("d.a", schema={"v": ts.INT})
    with pytest.raises(Unsupported, match="primary key"):
        bare.what_if({TRIGGER: 3})
