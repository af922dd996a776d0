"""CompactionControls over a simulator and over real tables: settings, forecasts, refusals."""

import re
import threading
import time

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.insight.simulator import Schedule, Simulator, Workload, simulate
from tests.widgets import frames
from tests.widgets.foreign import stored_by_another
from widgets import CompactionControls
from widgets.controls import rules, settings
from widgets.controls.figure import controls_figure

TRIGGER, RATIO = "num-sorted-run.compaction-trigger", "compaction.size-ratio"
LEVELED = {
    settings.STRATEGY: "leveled",
    "tablestore.compaction.leveled.max-bytes-for-level-base": "60 kb",
    "target-file-size": "20 kb",
}


def simulator(options: dict[str, object] | None = None, *, flushes: int = 7, **workload: object) -> Simulator:
    """A simulator that compacts only when it is asked to."""
    created = Simulator(
        Workload("uniform", rows=200, keys=2_000, **({"deletes": 0.1} | workload)),
        options or {TRIGGER: 5},
        schedule=Schedule(write_only=True),
    )
    for _ in range(flushes):
        created.flush()
    return created


@pytest.fixture
def orders(tmp_path) -> ts.Table:
    """Six runs in one bucket of a real table that compacts only when asked."""
    table = ts.connect(str(tmp_path)).create_table(
        "shop.orders",
        schema={"id": ts.BIGINT, "v": ts.INT},
        primary_key=["id"],
        options={"bucket": 1, "write-only": True},
    )
    for at in range(6):
        table.write(pa.table({"id": range(at * 10, at * 10 + 50), "v": pa.array([at] * 50, pa.int32())}))
    return table


def test_settings_show_what_is_in_force_and_a_simulation_takes_new_ones_at_once():
    source = simulator(flushes=4)
    controls = CompactionControls(source)
    assert [(f["label"], f["value"]) for f in controls.frame["inputs"]] == [
        ("runs ≥", "5"),
        ("ratio %", "1"),
        ("max amp %", "200"),
    ]
    assert controls.model.waiting == 0
    controls.asked = {TRIGGER: "3"}
    assert (source.options[TRIGGER], controls.asked, controls.model.waiting) == ("3", {}, 1)
    assert controls.model.settings.trigger == 3
    controls.asked = {TRIGGER: "few"}
    assert "num-sorted-run.compaction-trigger" in controls.frame["refusal"]
    assert (source.options[TRIGGER], controls.asked) == ("3", {})
    controls.asked = {RATIO: "2"}
    assert controls.frame["refusal"] == ""


def test_edits_on_a_table_are_a_preview_until_they_are_stored(orders):
    controls = CompactionControls(orders)
    assert controls.model.waiting == 1
    controls.asked = {TRIGGER: "9"}
    assert controls.model.waiting == 0
    assert orders.refresh().options.get(TRIGGER) is None
    assert controls.frame["store"] == f"table.alter(ts.set_options({{'{TRIGGER}': '9'}}))"
    assert controls.code == f"table.with_options({{'{TRIGGER}': '9'}}).compact(dry_run=True)"
    controls.reset()
    assert (controls.asked, controls.model.waiting, controls.frame["store"]) == ({}, 1, "")
    controls.asked = {TRIGGER: "9"}
    controls.store()
    assert orders.refresh().options[TRIGGER] == "9"
    assert (controls.asked, controls.model.waiting) == ({}, 0)
    assert orders.refresh().inspect.commits().num_rows == 6


def test_a_value_that_is_in_force_already_is_no_change(orders):
    controls = CompactionControls(orders)
    controls.asked = {TRIGGER: "5", RATIO: " 1 "}
    assert controls.asked == {}


def test_a_step_leaves_the_rows_as_they_were_and_is_kept(orders):
    rows = orders.scan().to_arrow().sort_by("id")
    controls = CompactionControls(orders)
    forecast = controls.model.pick.forecast
    controls.step().wait(240)
    (done,) = controls.done
    assert done.committed.snapshot == 7
    assert done.picks[0].record.bytes_read == forecast.read
    assert orders.refresh().scan().to_arrow().sort_by("id").equals(rows)
    assert controls.model.waiting == 0
    assert controls.model.done[-1].startswith("snapshot 7: read ")


def test_a_step_under_a_preview_compacts_by_it_and_stores_nothing(orders):
    controls = CompactionControls(orders)
    controls.asked = {settings.STRATEGY: "leveled"}
    assert controls.frame["warning"] == settings.LEVELED_WARNING
    assert controls.model.pick.rule == "level 0"
    controls.step().wait(240)
    assert orders.inspect.compactions()["strategy"].to_pylist() == ["leveled"]
    assert settings.STRATEGY not in orders.refresh().options


def test_a_setting_that_does_not_go_with_the_table_is_refused_with_its_words(tmp_path):
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"id": ts.BIGINT, "v": ts.INT},
        primary_key=["id"],
        options={"bucket": 1, "changelog-producer": "full-compaction"},
    )
    controls = CompactionControls(table)
    controls.asked = {TRIGGER: "few"}
    assert TRIGGER in controls.frame["refusal"]
    assert controls.asked == {}
    controls.asked = {settings.STRATEGY: "leveled"}
    assert controls.frame["refusal"] == ""
    assert controls.asked == {settings.STRATEGY: "leveled"}


def test_the_runs_after_are_those_that_there_are_then():
    for options in ({TRIGGER: 3}, LEVELED):
        source = simulator(options, flushes=1)
        controls = CompactionControls(source)
        steps = 0
        for _ in range(12):
            while controls.model.waiting:
                foretold = [(run.level, run.bytes) for run in controls.model.after]
                controls.step().wait(240)
                assert [(run.level, run.bytes) for run in controls.model.runs] == foretold
                steps += 1
            controls.flush().wait(240)
        assert steps == len(controls.done) > 3


def test_deletes_and_estimates_are_reported_in_the_engine_s_words():
    source = simulator()
    body = CompactionControls(source).figure(width=324).body
    assert "−D: drops " in body
    assert "rows: merged in the simulation" in body
    kept = simulator({TRIGGER: 4, "num-levels": 4}, flushes=8, deletes=0.2)
    kept.compact(full=True)
    for _ in range(5):
        kept.flush()
    controls = CompactionControls(kept)
    assert "−D: keeps " in controls.figure(width=1040).body or "drops" in repr(controls)


def test_leveled_counts_level_0_and_its_rules_keep_their_places():
    source = simulator(LEVELED)
    orders_seen = set()
    controls = CompactionControls(source)
    assert (controls.model.backlog, controls.model.settings.trigger) == (7, 4)
    for _ in range(4):
        body = controls.figure(width=324).body
        orders_seen.add(
            tuple(sorted((f"Level {n}" for n in range(4)), key=lambda name: body.find(f">{name}<")))
        )
        controls.step().wait(240)
    assert orders_seen == {("Level 0", "Level 1", "Level 2", "Level 3")}
    assert (controls.frame["warning"], controls.frame["remark"]) == ("", settings.NOT_PAIMONS)


@pytest.mark.parametrize("options", [{}, LEVELED], ids=["universal", "leveled"])
def test_the_panel_is_as_high_as_what_it_says_whether_or_not_a_rule_fires(options):
    controls, fired = CompactionControls(simulator(options, flushes=1)), set()
    for _ in range(9):
        fired.add(controls.model.pick.fires)
        for width in (324, 640):
            drawn = controls.figure(width=width)
            lowest = max(float(y) for y in re.findall(r'<text [^>]*?\by="([\d.]+)"', drawn.body))
            assert lowest < drawn.height <= lowest + 32
        controls.flush().wait(240)
    assert fired == {False, True}


def test_auto_flushes_and_compacts_until_paused():
    controls = CompactionControls(simulator(flushes=1), every_ms=50)
    seen = threading.Event()

    def look(_change):
        if len(controls.done) >= 2:
            seen.set()

    controls.observe(look, "frame")
    controls.auto = True
    assert controls.busy
    assert seen.wait(240)
    controls.pause().wait(240)
    assert not controls.auto
    before = len(controls.done)
    controls.step()
    controls.wait(240)
    assert len(controls.done) <= before + 1


def test_pause_ends_a_wait_at_once():
    controls = CompactionControls(simulator(flushes=1), every_ms=600_000)
    controls.auto = True
    while not controls.model.done:
        time.sleep(0.01)
    controls.pause().wait(240)  # raises if it waits on
    assert not controls.busy


def test_a_round_that_is_paused_is_given_up_as_a_whole(tmp_path):
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"id": ts.BIGINT, "v": ts.INT},
        primary_key=["id"],
        options={"bucket": 4, "write-only": True},
    )
    for at in range(6):
        table.write(pa.table({"id": range(200), "v": pa.array([at] * 200, pa.int32())}))
    controls = CompactionControls(table)
    assert controls.model.waiting == 4
    controls.observe(lambda change: controls.pause() if "bucket" in change["new"] else None, "progress")
    controls.run_until_quiet().wait(240)
    assert (controls.done, controls.busy, controls.model.error) == ((), False, "")
    assert table.refresh().inspect.commits().num_rows == 6
    assert controls.model.waiting == 4
    controls.unobserve_all("progress")
    controls.run_until_quiet().wait(240)
    assert controls.model.waiting == 0
    assert table.refresh().check() == []


def test_what_cannot_be_compacted_says_why_and_what_can_be_seen():
    controls = CompactionControls(simulate(Workload(rows=100), flushes=5))
    assert "compaction of a Run" in controls.model.refused
    assert controls.frame["disabled"] == "cannot be compacted from here"
    assert "Snapshots, levels and sizes are shown." in controls.frame["svg"]
    assert "compaction of a Run" in repr(controls)
    controls.step().run_until_quiet().wait(1)
    assert controls.done == ()


def test_a_foreign_table_that_is_not_written_by_us_is_refused_with_the_option(orders):
    controls = CompactionControls(stored_by_another(orders, {"metadata.iceberg.storage": "table-location"}))
    assert "metadata.iceberg.storage" in controls.model.refused
    assert "metadata.iceberg.storage" in controls.frame["svg"]


def test_append_and_write_only_tables_say_what_compaction_means_there(tmp_path, orders):
    assert "leave compaction to jobs" in CompactionControls(orders).frame["remark"]
    log = ts.connect(str(tmp_path / "log")).create_table("d.log", schema={"id": ts.BIGINT})
    for at in range(6):
        log.write(pa.table({"id": range(at, at + 20)}))
    controls = CompactionControls(log)
    assert controls.frame["inputs"] == []
    assert controls.frame["strategy"] == ""
    assert "no levels" in controls.frame["remark"]
    rows = log.scan().count()
    controls.full = True
    if controls.model.waiting:
        controls.step().wait(240)
    assert log.refresh().scan().count() == rows


def test_an_empty_table_says_so(tmp_path):
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"id": ts.BIGINT}, primary_key=["id"], options={"bucket": 1}
    )
    assert "Nothing to plan yet." in CompactionControls(table).frame["svg"]


def test_names_from_data_are_escaped_in_every_part():
    hostile = "<img src=x onerror=alert(1)>"
    table = frames.FakeTable(buckets=((f"p={hostile}", 0), ("p=2", 0)), appends=9, name=hostile)
    controls = CompactionControls(table)
    for drawn in (controls.figure(width=324).body, controls.to_svg(width=324), controls.to_svg(width=1040)):
        assert "<img" not in drawn
    controls.index = 1
    assert hostile in controls.frame["place"]


@pytest.mark.parametrize("width", [300, 324, 700, 1040])
def test_the_static_picture_draws_the_settings_the_page_has_inputs_for(width):
    controls = CompactionControls(simulator())
    live = controls_figure(controls.model, width=width).body
    still = controls_figure(controls.model, width=width, inputs=True).body
    assert "runs ≥" in still
    assert "runs ≥" not in live


@pytest.mark.parametrize(
    ("lines", "said", "left"),
    [
        (("1 × 1.01 ≥ 2 L0 take",), "all 2 runs", ""),
        (("1 × 1.01 < 2 L0 stop",), "only 1 of 2 runs, 1 × 1.01 < 2 L0 stop", ""),
        (
            ("9 × 1.01 ≥ 2 L0 take",),
            "runs 8 > trigger 5: 4 runs at least; all 8 runs",
            "runs 8 > trigger 5: 4 runs at least",
        ),
        (
            ("9 × 1.01 < 12 L1 stop",),
            "2 of 4 runs, 9 × 1.01 < 12 L1 stop; 1 more comes along",
            "2 of 4 runs; 1 more comes along",
        ),
        ((), "5.2 × 100 > 200 × 1.0 KiB (500 % of 200 %)", "5.2 × 100 > 200 × 1.0 KiB (500 % of 200 %)"),
    ],
)
def test_what_a_sum_says_beyond_its_comparisons_is_kept(lines, said, left):
    assert rules._beyond(lines, said) == left


def test_hundreds_of_runs_stay_a_small_picture():
    source = simulator({TRIGGER: 5, "num-sorted-run.stop-trigger": 8}, flushes=300)
    controls = CompactionControls(source)
    assert len(controls.model.runs) == 300
    assert len(controls.frame["svg"]) < 12_000
    assert ">300 runs<" in controls.frame["svg"]


def test_a_panel_that_is_closed_leaves_the_table_alone(orders):
    panel = CompactionControls(orders, every_ms=50)
    panel.auto = True
    panel.close()
    panel.wait(240)
    assert not panel.auto
    assert not panel.busy


def test_of_many_buckets_the_one_that_is_looked_at_is_planned(tmp_path, monkeypatch):
    table = ts.connect(str(tmp_path)).create_table(
        "shop.many",
        schema={"id": ts.BIGINT, "v": ts.INT},
        primary_key=["id"],
        options={"bucket": 4, "write-only": True},
    )
    for at in range(6):
        table.write(pa.table({"id": range(80 + at), "v": pa.array([at] * (80 + at), pa.int32())}))
    whole = {(pick.partition or "", pick.bucket): pick for pick in table.compact(dry_run=True).picks}
    planned, compact = [], ts.Table.compact

    def spied(self, **asked):
        planned.append(asked.get("bucket"))
        return compact(self, **asked)

    monkeypatch.setattr(ts.Table, "compact", spied)
    controls = CompactionControls(table)
    assert (len(controls.data()), controls.model.waiting, len(planned)) == (4, 4, 1)
    controls.index = 2
    assert planned == [controls.data()[at].bucket for at in (0, 2)]
    for pick in controls.data():
        own = whole[pick.partition, pick.bucket].decision
        assert (pick.reason, pick.bytes) == (own.reason.text, own.unit.size)
