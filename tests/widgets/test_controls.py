"""CompactionControls: model, figure, actions in the background."""

import threading

import pytest

from tests.widgets import frames
from widgets import CompactionControls, LsmLevels, SnapshotTimeline
from widgets.controls.figure import controls_figure
from widgets.controls.model import STATES, picks_of

PLACES = (("m=1", 0), ("m=1", 1), ("m=2", 0))


def test_rules_keep_the_order_and_the_words_of_the_engine():
    pick = picks_of(frames.FakeTable(appends=7).compact(dry_run=True))[0]
    assert [trial.rule for trial in pick.trials] == [
        "early full",
        "size amplification",
        "size ratio",
        "file number",
    ]
    assert [STATES[trial.state] for trial in pick.trials] == ["–", "×", "✓", "○"]
    assert pick.trials[1].text == "359.7 × 100 ≤ 200 × 560.0 MiB"


def test_buckets_with_work_come_first_and_larger_ones_before_smaller():
    picks = picks_of(frames.FakeTable(buckets=PLACES, appends=10).compact(dry_run=True))
    fires = [pick.fires for pick in picks]
    assert fires == sorted(fires, reverse=True)
    sizes = [pick.bytes for pick in picks if pick.fires]
    assert sizes == sorted(sizes, reverse=True)


def test_the_runs_after_are_those_kept_and_the_new_one():
    controls = CompactionControls(frames.FakeTable(appends=7))
    model = controls.model
    assert len(model.runs) == 8
    assert [run.level for run in model.after] == [3, 5]
    assert sum(run.bytes for run in model.after) == sum(run.bytes for run in model.runs)


@pytest.mark.parametrize("width", [300, 324, 660, 1040])
def test_the_figure_prints_every_sum_and_one_rule_is_tinted(width):
    body = controls_figure(CompactionControls(frames.FakeTable(appends=7)).model, width=width).body
    assert "117.9 ×1.01 &lt; 241.8" in body
    assert body.count(">take<") == 2
    assert body.count("var(--lw-compact-tint)") == 1
    assert "writes ≈ " in body


def test_a_quiet_bucket_says_why():
    controls = CompactionControls(frames.FakeTable(appends=2))
    assert controls.model.waiting == 0
    assert "next: nothing, 3 runs, trigger 5: nothing to do" in repr(controls)
    assert not controls.frame["fires"]
    assert "Quiet: no rule fires in any bucket." in controls.frame["svg"]


def test_planning_writes_nothing():
    table = frames.FakeTable(appends=7)
    controls = CompactionControls(table)
    controls.refresh()
    controls.full = True
    assert len(table.log) == 7


def test_a_step_compacts_the_bucket_in_focus_and_linked_views_follow():
    table = frames.FakeTable(buckets=PLACES, appends=10)
    timeline, levels, controls = SnapshotTimeline(table), LsmLevels(table), CompactionControls(table)
    timeline.link(levels)
    timeline.link(controls)
    controls.link(levels)
    pick = controls.model.pick
    assert levels.opened == pick.id
    assert levels.model.plan.inputs == pick.names
    controls.step().wait(240)
    assert table.log[-1]["commit_kind"] == "COMPACT"
    assert timeline.snapshot == levels.snapshot == 11
    assert controls.model.done == ("compacted 1 buckets",)
    gone = {row["file_name"] for row in table.states[10]} - {row["file_name"] for row in table.states[11]}
    assert gone == pick.names


def test_run_until_quiet_leaves_no_bucket_with_work():
    table = frames.FakeTable(buckets=PLACES, appends=10)
    controls = CompactionControls(table)
    assert controls.model.waiting > 0
    controls.run_until_quiet().wait(240)
    assert controls.model.waiting == 0
    assert not controls.busy
    assert controls.frame["busy"] == ""


def test_choosing_a_bucket_in_the_levels_focuses_its_plan():
    table = frames.FakeTable(buckets=PLACES, appends=10)
    levels, controls = LsmLevels(table), CompactionControls(table)
    controls.link(levels)
    levels.opened = "m=2/0"
    assert controls.model.pick.id == "m=2/0"
    controls.index = 0
    assert levels.opened == controls.model.picks[0].id


def test_a_scope_is_passed_to_the_table():
    table = frames.FakeTable(buckets=PLACES, appends=10)
    controls = CompactionControls(table, partition="m=1", bucket=1)
    assert [pick.id for pick in controls.data()] == ["m=1/1"]
    controls.step().wait(240)
    assert {
        row["partition"] for row in table.states[11] if row["file_source"] == "COMPACT" and row["level"] == 3
    } == {"m=1"}


def test_while_the_past_is_shown_nothing_can_be_compacted():
    table = frames.FakeTable(appends=7)
    timeline, controls = SnapshotTimeline(table), CompactionControls(table)
    timeline.link(controls)
    timeline.index = 2
    assert controls.frame["disabled"] == "viewing the past: read-only"
    controls.step().wait(240)
    assert len(table.log) == 7
    timeline.index = 6
    assert controls.frame["disabled"] == ""


def test_a_failure_is_shown_and_raised_by_wait_and_the_next_step_works():
    table = frames.FakeTable(appends=7)
    controls = CompactionControls(table)
    table.fail_with = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        controls.step().wait(240)
    assert controls.model.error == "OSError: disk full"
    assert "OSError: disk full" in controls.frame["svg"]
    table.fail_with = None
    controls.step().wait(240)
    assert controls.model.error == ""
    assert table.log[-1]["commit_kind"] == "COMPACT"


def test_a_second_step_is_ignored_while_one_runs():
    table = frames.FakeTable(appends=7)
    controls = CompactionControls(table)
    inside, release = threading.Event(), threading.Event()
    work = table.compact

    def slow(**request):
        if not request.get("dry_run"):
            inside.set()
            assert release.wait(240)
        return work(**request)

    table.compact = slow
    controls.step()
    assert inside.wait(240)
    assert controls.busy
    controls.step()
    assert controls.frame["busy"] != ""
    release.set()
    controls.wait(240)
    assert len(table.log) == 8


def test_pause_stops_after_the_round_that_runs():
    table = frames.FakeTable(buckets=PLACES, appends=10)
    controls = CompactionControls(table)
    rounds = []
    work = table.compact

    def never_quiet(**request):
        if not request.get("dry_run"):
            rounds.append(request)
            controls.pause()
            return frames.FakeResult((), "one round")
        return work(**request)

    table.compact = never_quiet
    controls.run_until_quiet().wait(240)
    assert len(rounds) == 1


def test_buttons_of_the_page_reach_the_table():
    table = frames.FakeTable(appends=7)
    controls = CompactionControls(table)
    controls._handle_custom_msg({"verb": "step"}, [])
    controls.wait(240)
    assert len(table.log) == 8
    controls._handle_custom_msg({"verb": "no such verb"}, [])
    assert len(table.log) == 8


def test_a_plan_that_fails_is_an_error_in_the_view():
    table = frames.FakeTable(appends=7)
    controls = CompactionControls(table)

    def broken(**request):
        raise ValueError("manifest-2: corrupt")

    table.compact = broken
    controls.refresh()
    assert controls.frame["error"]["text"] == "ValueError: manifest-2: corrupt"
