"""CompactionPlay: the record, the runs it takes, rows that merge, before and after; no browser."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
import widgets
from tablestore.insight.simulator import Simulator, Workload
from widgets.play.figure import levels_of, play_figure
from widgets.play.model import MERGES, RESULT, RULE, STOPS, TAKES


def table_at(folder: Path, *, writes: int = 6, **options: object) -> ts.Table:
    """Runs of keys that overlap by half."""
    table = ts.connect(str(folder)).create_table(
        "shop.orders",
        schema={"id": ts.BIGINT, "v": ts.INT},
        primary_key=["id"],
        options={"bucket": 1, "write-only": "true", **options},
    )
    for n in range(writes):
        ids = list(range(100 * n, 100 * n + 200))
        table.write({"id": ids, "v": [n] * len(ids)})
    return table


@pytest.fixture
def compacted(tmp_path: Path) -> ts.Table:
    table = table_at(tmp_path)
    table.with_options({"write-only": "false"}).compact()
    return table


def test_the_captions_are_the_record_of_the_engine(compacted: ts.Table) -> None:
    play = widgets.CompactionPlay(compacted)
    (record,) = compacted.inspect.compactions().to_pylist()
    assert play.model.record == record
    captions = [caption for caption, _ in play.model.scenes]
    assert captions == [RULE, TAKES, *[MERGES] * STOPS, RESULT]
    said = play.data()["says"].to_pylist()
    assert said[0] == f"{record['rule'].capitalize()} fires: {record['reason']}"
    assert said[1].startswith("It takes 6 runs, ")
    assert said[-1].startswith(f"{record['rows_in']:,} → {record['rows_out']:,} rows, ")
    assert said[-1].endswith("; runs 6 → 1.")
    assert str(play).splitlines()[1] == f"1. Rule: {said[0]}"


def test_it_takes_what_is_gone_and_merges_rows_from_left_to_right(compacted: ts.Table) -> None:
    model = widgets.CompactionPlay(compacted).model
    before = compacted.inspect.levels(6)
    assert sum(run.files for run in model.taken) == before.num_rows
    assert sum(run.rows for run in model.taken) == model.record["rows_in"]
    assert list(model.stops) == sorted(model.stops)
    rows = {row["id"]: row["v"] for row in compacted.scan().to_arrow().to_pylist()}
    assert model.rows is not None
    keys = [int(step.key.replace(",", "")) for step in model.rows.steps]
    assert keys == sorted(keys)
    assert len(keys) == STOPS
    assert [int(step.values["v"] or 0) for step in model.rows.steps] == [rows[key] for key in keys]


def test_scenes_ring_then_sweep_then_show_what_is_left_and_keep_their_height(compacted: ts.Table) -> None:
    model = widgets.CompactionPlay(compacted).model
    shown = [levels_of(model, at) for at in range(len(model.scenes))]
    assert not shown[0].columns.planned.any()
    assert shown[1].columns.planned.all()
    written = [levels.plan.running.written for levels in shown[2:-1]]
    assert written == sorted(written)
    assert 0 < written[0] < written[-1] <= model.record["bytes_written"]
    assert shown[-1].bytes == compacted.inspect.levels()["bytes"].to_numpy().sum()
    for width in (1040, 700):
        figures = [play_figure(model, at=at, width=width) for at in range(len(model.scenes))]
        assert len({figure.height for figure in figures}) == 1


def test_runs_in_the_middle_and_simulations_sweep_without_rows(tmp_path: Path) -> None:
    simulated = widgets.CompactionPlay(Simulator(Workload(keys=500), {}).advance(12))
    assert simulated.model.no_rows == "a simulation has sizes, not rows"
    assert [caption for caption, _ in simulated.model.scenes].count(MERGES) == STOPS
    assert "the merge has passed 50 %" in simulated.text().lower() or "passed 10 %" in simulated.text()


def test_another_snapshot_plays_the_compaction_before_it(compacted: ts.Table) -> None:
    compacted.write({"id": [1], "v": [1]})
    compacted.compact(full=True)
    play = widgets.CompactionPlay(compacted)
    assert play.model.snapshot == 9
    assert play.data()["says"].to_pylist()[0] == "A full compaction was asked for; no rule had to fire."
    play.snapshot = 8
    assert play.model.snapshot == 7
    play.snapshot = 3
    assert play.model.scenes == ()
    assert str(play) == "shop.orders  no compaction yet"
    assert "No compaction yet." in play.frame["svg"]


def test_what_has_expired_is_said(compacted: ts.Table) -> None:
    compacted.write({"id": [1], "v": [1]})
    compacted.expire_snapshots(keep=2)
    play = widgets.CompactionPlay(compacted)
    assert "compaction #7 cannot be played" in play.frame["error"]["text"]
    assert play.frame["error"]["what"] == "This compaction cannot be played."


def test_a_link_follows_bucket_and_snapshot(tmp_path: Path) -> None:
    table = table_at(tmp_path, bucket=2)
    table.with_options({"write-only": "false"}).compact(full=True)
    timeline, play = widgets.SnapshotTimeline(table), widgets.CompactionPlay(table)
    timeline.link(play)
    play.opened = "/1"
    assert play.model.record["bucket"] == 1
    timeline.snapshot = 2
    assert play.model.scenes == ()
