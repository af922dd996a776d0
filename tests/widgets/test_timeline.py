"""SnapshotTimeline: model, figure, traits."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest

from tests.widgets import frames
from widgets import SnapshotTimeline
from widgets.kit import format as fmt
from widgets.kit.svg import num
from widgets.timeline.figure import is_dense, timeline_figure
from widgets.timeline.model import APPEND, COMPACT, PAGE, bins, timeline_model
from widgets.timeline.strip import glyph


def test_a_compaction_adds_no_rows_and_an_append_rewrites_nothing():
    model = timeline_model(frames.commits(200))
    compacts = model.kinds == COMPACT
    assert compacts.any()
    assert (model.rows[compacts] == 0).all()
    assert (model.rewritten[~compacts] == 0).all()
    assert model.rewritten[compacts].sum() > 0


def test_commits_are_ordered_by_id_whatever_order_they_come_in():
    commits = frames.commits(20)
    assert (timeline_model(commits.take(list(range(19, -1, -1)))).ids == np.arange(1, 21)).all()


def test_missing_optional_columns_count_as_nothing():
    model = timeline_model(pa.table({"snapshot_id": [4, 5], "commit_kind": ["APPEND", "COMPACT"]}))
    assert model.sentence(1) == "#5 COMPACT · +0 rows · 0 files → 0"
    assert model.expired == 3


def test_unknown_kinds_are_drawn_as_analyze():
    model = timeline_model(pa.table({"snapshot_id": [1], "commit_kind": ["SOMETHING"]}))
    assert model.kind(0) == "ANALYZE"


def test_bins_keep_every_row_and_byte_and_name_rare_kinds():
    model = timeline_model(frames.commits(10_000))
    binned = bins(model, 235)
    assert binned.per == 43
    assert len(binned.append) <= 235
    assert int(binned.append.sum() + binned.overwrite.sum()) == int(model.rows.sum())
    assert int(binned.rewritten.sum()) == int(model.rewritten.sum())
    kinds, counts = np.unique(model.kinds, return_counts=True)
    per_kind = {kind: sum(n for _, k, n in binned.rare if k == kind) for kind in kinds.tolist()}
    expected = {
        k: int(n) if n < 0.02 * 10_000 and k != APPEND else 0
        for k, n in zip(kinds.tolist(), counts, strict=True)
    }
    assert per_kind == expected


@pytest.mark.parametrize("text", ["#412", "412", " 412 ", "nightly", "12:47", "2026-11-20 12:47:11"])
def test_a_commit_is_found_by_id_tag_or_time(text):
    commits = frames.commits(3, first=411)
    times = [frames.START.replace(minute=m) for m in (46, 47, 48)]
    commits = commits.set_column(2, "commit_time", pa.array(times, pa.timestamp("ms")))
    assert timeline_model(commits, tags={"nightly": 412}).find(text) == 1


@pytest.mark.parametrize("text", ["", "no such tag", "99999", "²", "25:99", "#", "a-b-c"])
def test_what_is_not_found_is_none(text):
    assert timeline_model(frames.commits(3)).find(text) is None


def test_few_commits_are_drawn_one_by_one_and_many_as_density_with_a_lens():
    few, many = timeline_model(frames.commits(50)), timeline_model(frames.commits(10_000))
    assert not is_dense(few, 1040)
    assert is_dense(many, 1040)
    ordinary = timeline_figure(few, index=49, width=1040)
    lens = timeline_figure(many, index=7818, width=1040)
    assert (ordinary.meta["first"], ordinary.meta["last"]) == (0, 50)
    assert (lens.meta["first"], lens.meta["last"]) == (7800, 7800 + PAGE)
    assert "#7810" in lens.body
    assert len(lens.body) < 60_000
    whole = lens.meta["regions"][0]
    x = whole["x"] + 7818.5 * whole["w"] / whole["n"]
    top, bottom = whole["cursor"]
    assert f'x1="{num(x)}" y1="{num(float(top))}" x2="{num(x)}" y2="{num(float(bottom))}"' in lens.body


def test_the_height_does_not_depend_on_the_selected_commit():
    model = timeline_model(frames.commits(10_000))
    heights = {timeline_figure(model, index=at, width=1040).height for at in (0, 31, 9_999)}
    assert len(heights) == 1


@pytest.mark.parametrize("count", [0, 1, 2, 149, 150, 151, 160])
@pytest.mark.parametrize("width", [480, 700, 1040])
def test_every_size_of_history_can_be_drawn(count, width):
    figure = timeline_figure(timeline_model(frames.commits(count, first=1000)), index=count - 1, width=width)
    xs = [float(x) for x in re.findall(r' x="(-?[\d.]+)"', figure.body)]
    assert all(0 <= x <= width for x in xs)


def test_kinds_differ_in_shape_and_not_only_in_colour():
    shapes = [re.match(r"<(\w+)", glyph(kind, 10, 10)).group(1) for kind in range(4)]
    assert shapes == ["circle", "polygon", "rect", "circle"]
    assert 'fill="var(--lw-bg)"' in glyph(3, 10, 10)


def test_expired_commits_are_named():
    figure = timeline_figure(timeline_model(frames.commits(40, first=367)), index=39, width=1040)
    assert "expired 1–366" in figure.body


def test_setting_the_index_moves_the_snapshot_and_observers_hear_of_it():
    timeline = SnapshotTimeline(frames.commits(30))
    calls = []
    timeline.observe(lambda change: calls.append(change["new"]), "snapshot")
    timeline.index = 4
    timeline.snapshot = 20
    assert (timeline.index, timeline.selected, calls) == (19, (20,), [5, 20])


def test_an_index_out_of_range_is_brought_back():
    timeline = SnapshotTimeline(frames.commits(30))
    timeline.index = 99
    assert (timeline.index, timeline.snapshot) == (29, 30)
    timeline.index = -7
    assert (timeline.index, timeline.snapshot) == (0, 1)


def test_jumping_to_an_id_selects_it():
    timeline = SnapshotTimeline(frames.commits(30))
    timeline.jump = "#7"
    assert timeline.snapshot == 7


def test_a_new_page_is_sent_only_when_the_selection_leaves_the_old_one():
    timeline = SnapshotTimeline(frames.commits(10_000))
    frame = timeline.frame
    timeline.index -= 1
    assert timeline.frame is frame
    timeline.index -= 2 * PAGE
    assert timeline.frame is not frame


def test_refresh_follows_the_latest_but_keeps_a_past_snapshot():
    table = frames.FakeTable(appends=6)
    latest, past = SnapshotTimeline(table), SnapshotTimeline(table)
    past.snapshot = 3
    table.append()
    assert latest.refresh().snapshot == 7
    assert past.refresh().snapshot == 3
    assert past.index == 2


def test_an_empty_table_says_so_and_its_first_commit_appears():
    table = frames.FakeTable(appends=0)
    timeline = SnapshotTimeline(table)
    assert "Nothing written yet" in timeline.text()
    assert timeline.snapshot is None
    table.append()
    assert timeline.refresh().snapshot == 1


def test_a_source_that_fails_shows_its_error_and_keeps_the_picture():
    table = frames.FakeTable()
    timeline = SnapshotTimeline(table)
    picture = timeline.frame["svg"]

    def broken() -> pa.Table:
        raise OSError("snapshot-3: truncated")

    table.inspect.commits = broken
    timeline.refresh()
    assert timeline.frame["error"]["text"] == "OSError: snapshot-3: truncated"
    assert timeline.frame["svg"] == picture
    del table.inspect.commits
    assert "error" not in timeline.refresh().frame


def test_the_text_form_marks_the_selected_commit():
    timeline = SnapshotTimeline(frames.FakeTable(appends=3))
    timeline.index = 1
    assert repr(timeline).splitlines()[1] == "#1 ●[●]● #3"


def test_one_row_is_a_row():
    assert [fmt.plus_rows(number) for number in (-1, 0, 1, 2_000)] == [
        "−1 row",
        "+0 rows",
        "+1 row",
        "+2,000 rows",
    ]


def test_a_statement_of_the_source_and_how_late_a_commit_is_are_shown():
    ddl = "ALTER TABLE `or ders` ADD COLUMN <b>note</b> VARCHAR(40)"
    properties = [
        {"tablestore.source-time": "1000"},
        {"tablestore.statement": ddl},
        {"tablestore.source-time": "soon"},
    ]
    commits = pa.table(
        {
            "snapshot_id": [1, 2, 3],
            "commit_kind": ["APPEND"] * 3,
            "commit_time": pa.array([2_500, 3_000, 4_000], pa.timestamp("ms")),
            "rows_added": [1, 0, 1],
            "properties": [json.dumps(each) for each in properties],
        }
    )
    view = SnapshotTimeline(commits)
    assert view.model.late == {0: 1.5}
    assert view.model.sentence(0).endswith("+1 row · 1.5 s behind its source")
    assert view.model.sentence(1).endswith("· ALTER TABLE `or ders` ADD COLUMN <b…")
    assert view.model.spoken(1) == f"2, APPEND, 0 rows, {ddl}"
    body = view.figure(width=900).body
    assert "ADD COLUMN &lt;b" in body
    assert "<b" not in body
