"""Two sets of options side by side: levels after each commit, one key axis, a verdict that adds up."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.insight.inspect.columns import LEVELS
from tablestore.insight.simulator import Workload, simulate
from tablestore.insight.simulator.replay_result import Steps
from tests.insight.simulator.test_history_replay import BYTES, TABLES, TRIGGER, live

WORKLOAD = Workload("uniform", rows=500, keys=5_000, deletes=0.1)
PLACE = ("", 0)


def test_after_each_commit_the_replay_has_the_files_the_table_had(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path, TABLES["universal"]), 3)
    answer = table.what_if({TRIGGER: 8})
    for commit, row in enumerate(answer.actual.commits(PLACE)):
        mine, real = answer.actual.levels_table(PLACE, commit), table.inspect.levels(snapshot=row.snapshot)
        for column in ("file_name", "level", "run", "rows", "bytes", "min_key", "max_key"):
            assert mine[column].to_pylist() == real[column].to_pylist(), (row.snapshot, column)


def test_amplification_of_a_replay_is_that_of_the_table(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path, TABLES["universal"]), 4)
    mine = table.what_if({TRIGGER: 8}).actual.amplification(PLACE).to_pylist()
    real = {r["snapshot_id"]: r for r in table.inspect.amplification(per="snapshot").to_pylist()}
    for row in mine:
        at = real[row["snapshot_id"]]
        assert (row["runs"], row["live_bytes"]) == (at["runs"], at["live_bytes"])
        assert row["write_amplification"] == pytest.approx(at["write_amplification"], rel=0.02)
        for name in ("space_amplification", "space_min", "space_max", "why"):
            assert row[name] == at[name], (row["snapshot_id"], name)


def test_both_sides_share_one_key_axis_at_every_commit() -> None:
    answer = ts.what_if(WORKLOAD, {TRIGGER: 8}, flushes=30)
    seen: dict[str, tuple[float, float]] = {}
    for commit in range(30):
        for side in answer.levels(PLACE, commit):
            assert side.schema == LEVELS
            for row in side.to_pylist():
                for end in ("min_key", "max_key"):
                    place = row[f"{end}_pos"]
                    assert 0 <= place <= 1
                    assert seen.setdefault(row[end], place) == pytest.approx(place)


def test_a_file_is_labelled_with_the_commit_it_came_with() -> None:
    answer = ts.what_if(WORKLOAD, {TRIGGER: 8}, flushes=12)
    newest = answer.changed.levels_table(PLACE, 6).to_pylist()[0]
    assert (newest["level"], newest["snapshot_id"]) == (0, 7)


def test_a_workload_compared_is_the_workload_simulated() -> None:
    answer = ts.what_if(WORKLOAD, {TRIGGER: 8}, {TRIGGER: 4}, flushes=60, seed=5)
    for trigger, side in ((4, answer.actual), (8, answer.changed)):
        run = simulate(WORKLOAD, {TRIGGER: trigger}, flushes=60, seed=5)
        at = side.rows[-1]
        assert at.write_amplification == pytest.approx(run.summary.write_amplification)
        assert (at.live_bytes, at.compactions) == (run.summary.live_bytes, run.summary.compactions)
        space = side.amplification(PLACE)["space_amplification"].to_pylist()[-1]
        assert space == pytest.approx(run.summary.space_amplification)
        files = {(f.level, f.row_count) for f in run.levels().files}
        assert files == {(f.level, f.row_count) for f in side.levels[PLACE].files}


def test_a_simulation_is_compared_as_it_went() -> None:
    run = simulate(WORKLOAD, {TRIGGER: 4}, flushes=30, seed=5, buckets=2)
    answer = ts.what_if(run, {TRIGGER: 8})
    assert answer.actual.total("live_bytes") == run.summary.live_bytes
    assert (answer.actual.options.trigger, len(answer.actual.rows)) == (4, 60)
    other = ts.what_if(run.simulator, {TRIGGER: 8}, {TRIGGER: 3}, flushes=10)
    assert (other.actual.options.trigger, len(other.actual.rows)) == (3, 20)


def test_the_verdict_says_what_the_differences_say() -> None:
    answer = ts.what_if(WORKLOAD, {TRIGGER: 8}, flushes=60)
    count = {d.name: d for d in answer.differences}["compactions"]
    said = answer.verdict("B")
    assert said.startswith(f"B compacts {count.after} times instead of {count.before} and writes ")
    assert " less; a reader merges " in said
    assert ", and the files at the end hold " in said


def test_another_b_leaves_a_as_it_is(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path, TABLES["universal"]), 6)
    first = table.what_if({TRIGGER: 8})
    other = first.under({TRIGGER: 3})
    assert other.actual is first.actual
    assert other.changed.rows == table.what_if({TRIGGER: 3}).changed.rows
    simulated = ts.what_if(WORKLOAD, {TRIGGER: 8}, flushes=30)
    alone = ts.what_if(WORKLOAD, {TRIGGER: 3}, flushes=30)
    assert simulated.under({TRIGGER: 3}).changed.rows == alone.changed.rows


def test_a_baseline_stands_in_for_the_own_options(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path, TABLES["universal"]), 6)
    answer = table.what_if({TRIGGER: 8}, baseline={TRIGGER: 3})
    assert answer.actual.rows == table.what_if({TRIGGER: 3}).changed.rows
    assert answer.reproduced
    with pytest.raises(InvalidRequest, match="change nothing"):
        table.what_if({TRIGGER: 3}, baseline={TRIGGER: 3})


def test_progress_is_reported_and_can_end_the_work(tmp_path: Path) -> None:
    table = live(BYTES.create(tmp_path, TABLES["universal"]), 6)
    reports: list[tuple[int, int]] = []
    answer = table.what_if({TRIGGER: 8}, progress=lambda done, whole: reports.append((done, whole)))
    commits = answer.history.commits
    assert reports == sorted(reports)
    assert reports[-1] == (3 * commits - 1, 3 * commits)

    def stop(done: int, _whole: int) -> None:
        if done > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ts.what_if(WORKLOAD, {TRIGGER: 8}, flushes=1_000_000, samples=16, progress=stop)


def test_levels_of_a_long_history_are_kept_as_far_as_they_fit() -> None:
    answer = ts.what_if(WORKLOAD, {TRIGGER: 8}, flushes=40)
    whole, few = answer.actual.steps[PLACE], Steps(most=20)
    for commit in range(len(whole)):
        few.add(commit, whole.at(commit))
    assert 0 < few.first_kept < 39
    assert few.at(39) == whole.at(39)
    with pytest.raises(NotFound, match=rf"have {few.first_kept}\.\.39"):
        few.at(few.first_kept - 1)
