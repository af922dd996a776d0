"""LsmLevels: model, figures, traits."""

import re

import numpy as np
import pyarrow as pa
import pytest

from tests.widgets import frames
from widgets import LsmLevels, SnapshotTimeline
from widgets.levels.axis import key_axis
from widgets.levels.buckets import bucket_cells, natural, worst
from widgets.levels.figure import levels_figure
from widgets.levels.model import CompactionPlan, lsm_model
from widgets.levels.overview import overview, overview_figure, places_for

INPUTS = frozenset(f"data-{n}-0.parquet" for n in (412, 411, 410, 409, 400))


def sample_model(**options):
    return lsm_model(frames.sample_files(), num_levels=6, l0_slots=4, snapshot=412, **options)


def many_buckets(partitions: int = 84, buckets: int = 2, files: int = 1) -> pa.Table:
    rows = [
        frames.file(
            0,
            n * 10,
            n * 10 + 5,
            mib=4,
            name=f"f-{p}-{b}-{n}",
            partition=f"y={1992 + p // 12}/m={p % 12 + 1}",
            bucket=b,
        )
        for p in range(partitions)
        for b in range(buckets)
        for n in range(files + (p == 5 and b == 1))
    ]
    return frames.files(rows)


def test_lanes_are_level_0_newest_first_then_every_level():
    model = sample_model()
    assert [lane.label for lane in model.lanes] == ["L0", "", "", "", "L1", "L2", "L3", "L4", "L5"]
    assert [lane.note for lane in model.lanes[:4]] == ["12:47:00", "12:46:00", "12:45:00", "12:44:00"]
    assert [lane.note for lane in model.lanes[4:]] == ["empty", "empty", "1 file", "2 files", "5 files"]


def test_a_snapshot_column_names_the_runs_of_level_0():
    files = frames.sample_files()
    files = files.append_column("snapshot_id", pa.array([412, 411, 410, 409] + [400] * 8, pa.int64()))
    assert [lane.note for lane in lsm_model(files, l0_slots=4).lanes[:4]] == ["#412", "#411", "#410", "#409"]


def test_files_bytes_and_runs_add_up_to_the_input():
    files, model = frames.sample_files(), sample_model()
    assert len(model.files) == files.num_rows
    assert model.bytes == sum(files["bytes"].to_pylist())
    assert model.rows == sum(files["rows"].to_pylist())
    assert model.runs == 7


def test_rows_stay_in_place_when_levels_empty():
    full = sample_model()
    after = lsm_model(frames.sample_files().slice(5), num_levels=6, l0_slots=4)
    assert [lane.label for lane in full.lanes] == [lane.label for lane in after.lanes]
    assert levels_figure(full, width=1040).height == levels_figure(after, width=1040).height


def test_overlap_counts_the_runs_that_hold_each_key():
    rows = [
        frames.file(0, 0, 750_000, mib=1, name="a", minute=2),
        frames.file(0, 300_000, 1_200_000, mib=1, name="b", minute=1),
        frames.file(5, 0, 1_500_000, mib=9, name="c"),
    ]
    model = lsm_model(frames.files(rows))
    assert model.overlap == ((0.0, 2), (0.2, 3), (0.5, 2), (0.8, 1), (1.0, 0))


def test_a_file_of_a_single_key_is_a_run_to_read_there():
    rows = [
        frames.file(0, 0, 0, mib=1, name="a", minute=2),
        frames.file(0, 100, 100, mib=1, name="b", minute=1),
        frames.file(5, 0, 100, mib=9, name="c"),
        frames.file(5, 100, 100, mib=9, name="d"),
    ]
    model = lsm_model(frames.files(rows))
    assert [count for _, count in model.overlap] == [2, 1, 2, 1, 0]


@pytest.mark.parametrize(
    ("last", "labels"), [(2, ["0", "1", "2"]), (250, ["0", "50", "100"]), (400_000, ["0", "50 k", "100 k"])]
)
def test_ticks_of_whole_keys_are_whole(last, labels):
    axis = key_axis(np.array([0.0]), np.array([1.0]), pa.array(["0"]), pa.array([str(last)]))
    assert [label for _, label in axis.ticks()][:3] == labels


def test_ticks_are_round_numbers_only_if_positions_follow_the_key():
    model = sample_model()
    assert [label for _, label in model.ticks][:3] == ["0", "0.2 M", "0.4 M"]
    words = frames.sample_files().set_column(8, "min_key", pa.array(["a"] * 12))
    ends = lsm_model(words).ticks
    assert [label for _, label in ends] == ["a", "1,500,000"]


@pytest.mark.parametrize("last", [7, 99, 850_000, 999_999, 1_000_000, 12_345_678_901])
def test_any_span_of_keys_has_a_few_ticks(last):
    model = lsm_model(
        frames.files([frames.file(level, 0, last, mib=1, name=f"f{level}") for level in (0, 5)])
    )
    assert 4 <= len(model.ticks) <= 9


def test_ticks_follow_the_first_column_of_a_composite_key():
    files = frames.sample_files()
    for at, name in ((8, "min_key"), (9, "max_key")):
        keys = pa.array([f"[{key}, 7]" for key in files[name].to_pylist()])
        files = files.set_column(at, name, keys)
    assert lsm_model(files).ticks == sample_model().ticks


def test_ticks_are_not_guessed_when_positions_are_ranks():
    files = frames.sample_files()
    skewed = pa.array([x**3 for x in files["min_key_pos"].to_pylist()])
    ends = lsm_model(files.set_column(10, "min_key_pos", skewed)).ticks
    assert len(ends) == 2


def test_a_file_with_a_fifth_of_deletes_is_hatched():
    hatched = {file.name for file in sample_model().files if file.many_deletes}
    assert hatched == {"data-411-0.parquet"}
    assert levels_figure(sample_model(), width=1040).body.count("url(#lw-minus)") == 2


def test_the_plan_rings_its_inputs_and_reverses_the_output_level():
    body = levels_figure(sample_model(plan=CompactionPlan(INPUTS, 3)), width=1040).body
    assert body.count('stroke-dasharray="4 3"') == len(INPUTS) + 1
    assert "input of next compaction" in body
    assert body.count("input of next compaction") == len(INPUTS)


def test_every_file_has_a_label_for_screen_readers():
    body = levels_figure(sample_model(), width=1040).body
    assert 'aria-label="level 5, 128 MiB, keys 930,000 to 1,239,000"' in body
    assert body.count('role="gridcell"') == 12


def test_zoom_shows_only_the_files_of_the_range():
    body = levels_figure(sample_model(), width=1040, view=(0.0, 0.1)).body
    shown = re.findall(r'data-name="([^"]+)"', body)
    assert "data-409-0.parquet" not in shown
    assert "data-381-0.parquet" in shown
    assert "data-381-4.parquet" not in shown


def test_in_bytes_mode_widths_follow_sizes():
    body = levels_figure(sample_model(), width=1040, mode="bytes").body
    boxes = re.findall(r'data-name="(data-381-\d)[^>]*><rect x="[\d.]+" y="[\d.]+" width="([\d.]+)"', body)
    widths = {name: float(width) for name, width in boxes}
    assert widths["data-381-0"] / widths["data-381-4"] == pytest.approx(128 / 48, rel=0.03)


def test_ten_thousand_files_become_columns_and_stay_small():
    rows = [frames.file(5, n * 150, n * 150 + 149, mib=1, name=f"f{n}") for n in range(10_000)]
    model = lsm_model(frames.files(rows))
    whole = levels_figure(model, width=1040)
    assert "10,000 files" in whole.body
    assert len(whole.body) < 60_000
    zoomed = levels_figure(model, width=1040, view=(0.5, 0.51))
    assert 90 <= zoomed.body.count('class="file"') <= 110


@pytest.mark.parametrize("runs", [0, 1, 12, 30, 70])
@pytest.mark.parametrize("width", [480, 716, 1040])
def test_any_number_of_runs_can_be_drawn_inside_the_picture(runs, width):
    rows = [frames.file(0, 0, 1000 * (n + 1), mib=n + 1, name=f"f{n}", minute=n % 60) for n in range(runs)]
    figure = levels_figure(lsm_model(frames.files(rows)), width=width)
    right = [
        float(x) + float(w) for x, w in re.findall(r'x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', figure.body)
    ]
    assert all(edge <= width for edge in right)


def test_too_many_runs_of_level_0_share_the_last_row_and_are_still_counted():
    rows = [frames.file(0, n, 1000 + n, mib=1, name=f"f{n}", minute=n % 60) for n in range(500)]
    model = lsm_model(frames.files(rows))
    assert model.runs == 500
    assert len(model.files) == 500
    assert sum(1 for lane in model.lanes if lane.level == 0) == 18
    assert model.lanes[17].note == "+483"
    assert levels_figure(model, width=1040).height < 700


def test_files_without_keys_lie_across_the_whole_axis():
    files = frames.sample_files().slice(0, 3)
    for at, name in ((8, "min_key"), (9, "max_key")):
        files = files.set_column(at, name, pa.nulls(3, pa.string()))
    for at, name in ((10, "min_key_pos"), (11, "max_key_pos")):
        files = files.set_column(at, name, pa.nulls(3, pa.float64()))
    levels = LsmLevels(files)
    assert {(file.lo, file.hi) for file in levels.model.files} == {(0.0, 1.0)}
    assert levels.model.ticks == ()
    assert {card["min_key"] for card in levels.frame["cards"]} == {None}
    assert "None" not in levels.frame["svg"]


def test_partitions_sort_by_number():
    assert sorted(["m=10", "m=9", "m=1"], key=natural) == ["m=1", "m=9", "m=10"]


def test_bucket_cells_sum_up_each_bucket():
    cells = bucket_cells(many_buckets(files=2))
    assert len(cells) == 168
    assert sum(cell.files for cell in cells) == 168 * 2 + 1
    assert worst(cells, 1)[0].id == "y=1992/m=6/1"


def test_the_overview_marks_buckets_above_the_trigger_and_stalling_ones():
    cells = bucket_cells(many_buckets(files=8))
    view = overview(cells, trigger=5, stop_trigger=8, places=100)
    body = overview_figure(view, width=1040, colour_by="runs", opened="y=1992/m=6/1").body
    assert body.count("writers stall</title>") == 1
    assert body.count("above the trigger") == 168
    assert "above trigger 5: 168 buckets" in body


def test_partitions_that_do_not_fit_are_left_out_by_name():
    cells = bucket_cells(many_buckets(partitions=400, buckets=1))
    view = overview(cells, trigger=5, stop_trigger=8, places=places_for(700, cells))
    assert 0 < len(view.partitions) < 400
    assert (
        f"newest {len(view.partitions)} of 400 partitions"
        in overview_figure(view, width=700, colour_by="bytes", opened="").body
    )


def test_more_than_eight_buckets_become_one_row_of_the_worst():
    cells = bucket_cells(many_buckets(partitions=6, buckets=16))
    view = overview(cells, trigger=5, stop_trigger=8, places=100)
    assert [name for name, _ in view.rows] == ["worst of 16"]
    assert view.rows[0][1][5].id == "y=1992/m=6/1"


def test_a_timeline_click_shows_the_levels_of_that_snapshot():
    table = frames.FakeTable(appends=5)
    timeline = SnapshotTimeline(table)
    levels = LsmLevels(table)
    timeline.link(levels)
    assert levels.snapshot == 5
    timeline.index = 1
    assert levels.snapshot == 2
    assert levels.model.runs == 3
    assert levels.frame["title"] == "Levels at #2"


def test_without_a_table_a_callback_gives_the_files_of_a_snapshot():
    asked = []

    def levels_at(snapshot):
        asked.append(snapshot)
        return frames.sample_files()

    timeline = SnapshotTimeline(frames.commits(4))
    timeline.link(LsmLevels(frames.sample_files(), levels_at=levels_at, snapshot=4))
    timeline.index = 0
    assert asked == [4, 1]


def test_an_expired_snapshot_is_an_error_in_the_view_and_the_picture_stays():
    levels = LsmLevels(frames.FakeTable(appends=3), snapshot=3)
    picture = levels.frame["svg"]
    levels.snapshot = 99
    assert levels.frame["error"]["text"] == "LookupError: no snapshot 99; have 1..3"
    assert levels.frame["svg"] == picture
    levels.snapshot = 2
    assert "error" not in levels.frame


def test_a_table_of_many_buckets_opens_the_worst_and_any_other_on_request():
    table = frames.FakeTable(buckets=(("m=1", 0), ("m=1", 1), ("m=2", 0)), appends=8)
    levels = LsmLevels(table)
    assert levels.opened == worst(bucket_cells(levels.data()), 1)[0].id
    assert "overview" in levels.frame
    levels.opened = "m=2/0"
    assert (levels.model.partition, levels.model.bucket) == ("m=2", 0)


def test_one_bucket_has_no_overview():
    table = frames.FakeTable(buckets=(("m=1", 0), ("m=1", 1)), appends=4)
    levels = LsmLevels(table, partition="m=1", bucket=1)
    assert "overview" not in levels.frame
    assert set(levels.data()["bucket"].to_pylist()) == {1}


def test_neighbouring_empty_levels_are_one_row():
    table = frames.FakeTable(appends=7)
    levels = LsmLevels(table)
    table.compact()
    levels.refresh()
    assert levels.model.runs == 2
    assert [(lane.label, lane.note) for lane in levels.model.lanes] == [
        ("L0–L2", "empty"),
        ("L3", "1 file"),
        ("L4", "empty"),
        ("L5", "4 files"),
    ]


def test_the_plan_of_another_bucket_is_not_outlined():
    levels = LsmLevels(frames.sample_files())
    levels.plan = {"inputs": list(INPUTS), "output_level": 3, "bucket": "/0"}
    assert levels.model.plan.inputs == INPUTS
    levels.plan = {"inputs": list(INPUTS), "output_level": 3, "bucket": "m=7/0"}
    assert levels.model.plan == CompactionPlan()


def test_state_sent_for_ten_files_is_small():
    levels = LsmLevels(frames.sample_files().slice(0, 10))
    assert len(levels.frame["svg"]) + len(str(levels.frame["cards"])) < 15_000


def test_the_text_form_has_a_line_a_run_and_marks_the_plan():
    levels = LsmLevels(frames.sample_files(), snapshot=412, title="tpch.lineitem")
    levels.plan = {"inputs": list(INPUTS), "output_level": 3}
    rows = repr(levels).splitlines()
    assert rows[0] == "tpch.lineitem  bucket 0  #412  7 runs  920 MiB"
    assert len(rows) == 8
    assert rows[2].endswith("−D 34 % > next")
    assert rows[5].endswith("> next, out")


def test_an_empty_table_keeps_its_lanes():
    levels = LsmLevels(frames.files([]))
    assert "Nothing written yet." in levels.text()
    assert [lane.label for lane in levels.model.lanes] == ["L0", "L1", "L2", "L3", "L4", "L5"]
