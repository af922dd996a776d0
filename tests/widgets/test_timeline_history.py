"""SnapshotTimeline: names, branches, expired snapshots, pauses, range and zoom, watching a job."""

import re
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tests.widgets import frames
from widgets import LsmLevels, SnapshotTimeline
from widgets.timeline.figure import shown_at, timeline_figure
from widgets.timeline.model import timeline_model


def references(*rows: tuple[str, str, int | None]) -> pa.Table:
    columns = {
        "kind": [kind for kind, _, _ in rows],
        "name": [name for _, name, _ in rows],
        "snapshot_id": pa.array([snapshot for _, _, snapshot in rows], pa.int64()),
        "commit_kind": ["APPEND"] * len(rows),
        "commit_time": pa.array([frames.START] * len(rows), pa.timestamp("ms")),
    }
    return pa.table(columns)


def figure(model, index=0, **options):
    return timeline_figure(model, index=index, width=1040, **options)


def test_tags_are_flags_branches_bend_off_and_meeting_names_are_counted():
    names = references(("tag", "nightly", 380), ("branch", "exp-ratio", 394), ("branch", "empty", None))
    model = timeline_model(frames.commits(46, first=367), references=names)
    body = figure(model).body
    assert ">nightly<" in body
    assert ">exp-ratio<" in body
    assert ">empty<" not in body
    crowd = references(*((("tag", f"t{n}", 380 + n)) for n in range(5)))
    body = figure(timeline_model(frames.commits(46, first=367), references=crowd)).body
    assert ">t0 +3<" in body
    assert ">t4<" in body


def test_an_expired_snapshot_that_a_tag_keeps_can_still_be_chosen():
    names = references(("tag", "early", 200), ("tag", "nightly", 380))
    model = timeline_model(frames.commits(46, first=367), references=names)
    assert (model.kept, model.expired, int(model.ids[0])) == (1, 366, 200)
    assert model.sentence(0) == "#200 APPEND · 12:00:00 · expired, kept by tag early"
    assert model.find("early") == 0
    body = figure(model, index=0).body
    assert "kept by tag" in body
    assert "expired 1–366" in body


def test_pauses_are_spans_with_words_also_where_they_are_still_open():
    model = timeline_model(frames.commits(46, first=367), paused=[(375, 380), (408, None), (900, 950)])
    body = figure(model).body
    assert body.count("auto-compaction paused") == 2


@pytest.mark.parametrize("width", [600, 700, 1040])
@pytest.mark.parametrize("count", [1, 40, 10_000])
def test_no_name_leaves_the_picture(width, count):
    names = references(
        *(("branch" if n % 2 else "tag", f"a long name {n}", count - n) for n in range(min(count, 3)))
    )
    model = timeline_model(frames.commits(count), references=names)
    body = timeline_figure(model, index=count - 1, width=width).body
    xs = [float(x) for x in re.findall(r' x="(-?[\d.]+)"', body)]
    assert all(0 <= x <= width for x in xs)


def test_a_range_limits_picture_and_data_and_moves_with_the_selection():
    timeline = SnapshotTimeline(frames.commits(40))
    timeline.range = (11, 15)
    assert timeline.data()["snapshot_id"].to_pylist() == [11, 12, 13, 14, 15]
    assert (timeline.frame["meta"]["first"], timeline.frame["meta"]["last"]) == (10, 15)
    assert "showing #11 … #15" in timeline.frame["subtitle"]
    assert timeline.code.endswith('(pc.field("snapshot_id") >= 11) & (pc.field("snapshot_id") <= 15))')
    timeline.index = 20
    assert timeline.range == (17, 21)
    timeline.index = 2
    assert timeline.range == (3, 7)
    timeline.range = ()
    assert timeline.data().num_rows == 40


def test_zoom_keeps_the_selected_commit_and_ends_at_all():
    timeline = SnapshotTimeline(frames.commits(64))
    timeline.snapshot = 40
    timeline.zoom(2)
    assert timeline.range == (24, 55)
    for _ in range(6):
        timeline.zoom(2)
    assert timeline.range[1] - timeline.range[0] == 4
    assert timeline.range[0] <= 40 <= timeline.range[1]
    for _ in range(8):
        timeline.zoom(0.5)
    assert timeline.range == ()


def test_what_is_chosen_of_a_long_history_is_drawn_as_bins_when_it_is_dense():
    model = timeline_model(frames.commits(10_000))
    chosen = (1000, 4000)
    assert shown_at(model, 0, 1040, chosen) == chosen
    lens = timeline_figure(model, index=2000, width=1040, chosen=chosen)
    assert lens.height == timeline_figure(model, index=2000, width=1040).height
    assert len(lens.body) < 60_000
    assert lens.meta["says"] == []
    timeline = SnapshotTimeline(frames.commits(10_000))
    timeline.range = (1001, 4000)
    timeline.snapshot = 2001
    assert timeline.spoken[0].startswith("#2001 ")


def test_messages_of_the_page_zoom_and_choose():
    timeline = SnapshotTimeline(frames.commits(40))
    timeline._on_verb(timeline, {"verb": "range", "first": 4, "last": 7}, [])
    assert timeline.range == (5, 8)
    timeline._on_verb(timeline, {"verb": "zoom", "closer": False}, [])
    assert timeline.range[0] <= 40 <= timeline.range[1]


def test_text_of_names_is_escaped():
    hostile = "<img src=x onerror=alert(1)>"
    model = timeline_model(
        frames.commits(9), references=references(("tag", hostile, 3), ("branch", hostile, 5))
    )
    body = figure(model).body
    assert "<img" not in body
    assert "&lt;img" in body


@pytest.fixture
def orders(tmp_path: Path) -> ts.Table:
    """A real table of four snapshots, the oldest of which only a tag keeps."""
    table = ts.connect(str(tmp_path)).create_table(
        "shop.orders",
        schema={"k": ts.BIGINT},
        primary_key=["k"],
        options={"bucket": 1, "write-only": True},
    )
    for at in range(4):
        table.write({"k": [at]})
    table.tags.create("early", snapshot=1)
    table.expire_snapshots(keep=2)
    return table


def test_linked_levels_travel_to_a_snapshot_that_only_a_tag_keeps(orders: ts.Table):
    timeline, levels = SnapshotTimeline(orders), LsmLevels(orders)
    timeline.link(levels)
    timeline.jump = "early"
    assert (timeline.snapshot, levels.snapshot, levels.model.count) == (1, 1, 1)
    assert "error" not in levels.frame


def test_watching_follows_a_writer_until_it_is_stopped(orders: ts.Table):
    before = set(threading.enumerate())
    timeline = SnapshotTimeline(orders, follow=0.1)
    arrived = threading.Event()
    timeline.observe(lambda change: arrived.set() if change["new"] == 5 else None, "snapshot")
    orders.write({"k": [9]})
    assert arrived.wait(60)
    (watcher,) = (t for t in threading.enumerate() if t.name == "watch-SnapshotTimeline" and t not in before)
    timeline.close()
    watcher.join(60)
    assert not watcher.is_alive()


def test_a_watch_shows_what_came_between_the_last_reading_and_its_start(orders: ts.Table):
    timeline, arrived = SnapshotTimeline(orders), threading.Event()
    timeline.observe(lambda change: arrived.set() if change["new"] == 5 else None, "snapshot")
    orders.write({"k": [9]})
    timeline.watch(0.1)
    assert arrived.wait(60)
    timeline.close()
