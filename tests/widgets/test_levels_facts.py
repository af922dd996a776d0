"""LsmLevels: deletion vectors, compactions at work, age, tables without keys, zoom, the selected file."""

import re

import pyarrow as pa
import pytest

from tests.widgets import frames
from tests.widgets.test_levels import INPUTS
from widgets import LsmLevels
from widgets.levels.buckets import bucket_cells
from widgets.levels.figure import levels_figure
from widgets.levels.layout import lay_out
from widgets.levels.model import MAX_LEVEL0, CompactionPlan, Running, lsm_model

RUNNING = {"share": 0.46, "written": round(47.3 * 2**20), "expected": 104 * 2**20}


def masked_files() -> pa.Table:
    files = frames.sample_files()
    rows = pa.array([None] * 5 + [9120, None, 0] + [None] * 4, pa.int64())
    return files.append_column("masked_rows", rows)


def keyless_files(sizes: list[float]) -> pa.Table:
    files = frames.files([frames.file(0, 0, 1, mib=mib, name=f"f{at}") for at, mib in enumerate(sizes)])
    for at, name in ((8, "min_key"), (9, "max_key")):
        files = files.set_column(at, name, pa.nulls(len(sizes), pa.string()))
    for at, name in ((10, "min_key_pos"), (11, "max_key_pos")):
        files = files.set_column(at, name, pa.nulls(len(sizes), pa.float64()))
    return files


def test_a_deletion_vector_folds_the_corner_and_is_reported_everywhere():
    levels = LsmLevels(masked_files())
    folds = levels_figure(levels.model, width=1040).body.count(
        'fill="var(--lw-l0)" stroke="var(--lw-edge)"/>'
    )
    assert (
        folds
        - levels_figure(lsm_model(frames.sample_files()), width=1040).body.count(
            'fill="var(--lw-l0)" stroke="var(--lw-edge)"/>'
        )
        == 2
    )
    cards = {card["name"]: card["masked"] for card in levels.frame["cards"]}
    assert (cards["data-390-0.parquet"], cards["data-390-1.parquet"]) == (9_120, None)
    assert levels.frame["svg"].count("deletion vector 9,120") == 1
    assert any(line.endswith(" dv") for line in levels.text().splitlines())
    assert bucket_cells(masked_files())[0].masked == 9120


def test_a_compaction_at_work_splits_its_output_lane_and_says_how_far_it_is():
    plan = CompactionPlan.of({"inputs": list(INPUTS), "output_level": 3, "running": RUNNING})
    assert plan.running == Running(**RUNNING)
    idle, busy = (
        levels_figure(lsm_model(frames.sample_files(), plan=p), width=1040)
        for p in (CompactionPlan(INPUTS, 3), plan)
    )
    assert idle.height == busy.height
    assert "47.3 of ≈ 104 MiB" in busy.body
    assert "≈" not in idle.body
    assert 'stroke-dasharray="2 3"' in busy.body


@pytest.mark.parametrize("share", [-1.0, 0.0, 1.0, 7.0])
def test_a_frontier_stays_between_the_keys_of_its_inputs(share):
    plan = CompactionPlan(INPUTS, 3, Running(share, 1, 2))
    model = lsm_model(frames.sample_files(), plan=plan)
    body = levels_figure(model, width=1040).body
    frame = lay_out(model, width=1040).frame
    at = float(re.search(r'<path d="M([\d.]+) 0h10', body).group(1)) + 5
    assert frame.left <= at <= frame.right


def test_age_shades_by_sequence_numbers_and_keeps_every_place():
    model = lsm_model(frames.sample_files())
    by_level = levels_figure(model, width=1040).body
    by_age = levels_figure(model, width=1040, fill_by="origin").body
    assert "newest … oldest rows" in by_age
    boxes = [re.findall(r'x="[\d.]+" y="[\d.]+" width="[\d.]+"', body) for body in (by_level, by_age)]
    assert boxes[0] == boxes[1]
    assert model.columns.age.max() <= 1
    assert model.columns.age.min() >= 0


def test_files_without_keys_stand_by_size_in_fixed_rows():
    model = lsm_model(keyless_files([200, 130, 64, 3, 0.5, 0.2]))
    assert [(lane.note, lane.count) for lane in model.lanes] == [
        ("≥ 128 MiB", 2),
        ("16–128 MiB", 1),
        ("1–16 MiB", 1),
        ("< 1 MiB", 2),
    ]
    assert not model.keyed
    assert model.runs_text == "6 files"
    body = levels_figure(model, width=1040).body
    assert "runs to read" not in body
    assert body.count('class="file"') == 6
    few, none = (lsm_model(keyless_files(sizes)) for sizes in ([200], [0.1] * 9))
    assert levels_figure(few, width=700).height == levels_figure(none, width=700).height


def test_zoom_brings_finer_ticks():
    axis = lsm_model(frames.sample_files()).axis
    whole, part = axis.ticks(), axis.ticks((0.4, 0.42))
    assert len(part) >= 4
    assert all(0.4 <= round(x, 9) <= 0.42 for x, _ in part)
    assert {label for _, label in part}.isdisjoint({label for _, label in whole} - {"0.6 M"})
    assert axis.key_at(0.5) == "750,000"


def test_inputs_among_columns_are_ringed_once():
    rows = [frames.file(5, n * 150, n * 150 + 149, mib=1, name=f"f{n}") for n in range(10_000)]
    plan = CompactionPlan(frozenset(f"f{n}" for n in range(100, 200)), 5)
    body = levels_figure(lsm_model(frames.files(rows), plan=plan), width=1040).body
    assert body.count('stroke-dasharray="4 3"') == 2  # the ring and the legend


def test_only_files_drawn_as_boxes_become_objects_and_cards():
    rows = [frames.file(5, n * 150, n * 150 + 149, mib=1, name=f"f{n}") for n in range(10_000)]
    levels = LsmLevels(frames.files([*rows, frames.file(0, 0, 900_000, mib=2, name="new", minute=1)]))
    assert [card["name"] for card in levels.frame["cards"]] == ["new"]
    levels.key_range = (0.5, 0.505)
    assert 40 <= len(levels.frame["cards"]) <= 60


def test_a_thousand_runs_of_level_0_are_few_rows():
    rows = [frames.file(0, n, n + 5, mib=1, name=f"f{n}", minute=n % 60) for n in range(1000)]
    assert sum(lane.level == 0 for lane in lsm_model(frames.files(rows)).lanes) == MAX_LEVEL0


def test_the_selected_file_is_at_hand_with_its_line_of_code():
    levels = LsmLevels(frames.FakeTable(appends=3), snapshot=2)
    assert levels.file == {}
    assert levels.code == "orders.inspect.levels(2, bucket=0)"
    name = levels.model.files[0].name
    levels.selected = (name,)
    assert levels.file["file_name"] == name
    assert levels.code == f'orders.inspect.levels(2, bucket=0).filter(pc.field("file_name") == {name!r})'


def test_past_states_are_read_once_until_refresh():
    table, asked = frames.FakeTable(appends=5), []
    levels = LsmLevels(
        table.inspect.levels(), levels_at=lambda s: asked.append(s) or table.inspect.levels(snapshot=s)
    )
    for snapshot in (1, 2, 1, 2, 1):
        levels.snapshot = snapshot
    assert asked == [None, 1, 2]
    levels.refresh()
    assert asked == [None, 1, 2, 1]


def test_a_range_that_is_no_range_shows_everything():
    levels = LsmLevels(frames.sample_files())
    whole = levels.frame["svg"]
    for odd in ((0.5, 0.5), (0.3,), (5.0, 9.0)):
        levels.key_range = odd
        assert levels.frame["svg"] == whole
