"""Amplification over snapshots: what is known, what is estimated, what is drawn, said and linked."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from tests.insight.explain.random_trees import random_tree
from tests.insight.explain.test_amplification_after import waiting
from tests.widgets import frames
from widgets import CompactionControls, SnapshotTimeline, TableHealth
from widgets.amplification.chart import Line, Panel, drawn, plot_of
from widgets.amplification.figure import amplification_figure
from widgets.amplification.model import READ, SPACE, WRITE, NextAmplification, amplification_model, sparkline
from widgets.amplification.widget import AmplificationChart
from widgets.kit import format as fmt

XSS = "<img src=x onerror=alert(1)>"


def rows(count: int, *, expired: int = 0, why: str = "as if rows were drawn") -> pa.Table:
    """A history in the form of `inspect.amplification(per="snapshot")`."""
    at = np.arange(count)
    runs = np.where(at < expired, None, 1 + at % 5)
    return pa.table(
        {
            "snapshot_id": pa.array(at + 1, pa.int64()),
            "commit_kind": pa.array(["COMPACT" if n % 5 == 4 else "APPEND" for n in at]),
            "compactions": pa.array((at % 5 == 4).astype(int), pa.int64()),
            "write_amplification": pa.array(1 + at / count, pa.float64()),
            "compactions_exact": pa.array([True] * count),
            "runs": pa.array(runs, pa.int64()),
            "point_files": pa.array(runs, pa.float64()),
            "space_amplification": pa.array(np.where(at < expired, None, 1 + at % 5 / 10), pa.float64()),
            "space_exact": pa.array(at % 5 == 0),
            "why": pa.array([why] * count),
            "since_snapshot": pa.array([1] * count, pa.int64()),
        }
    )


def test_numbers_are_those_of_the_engine() -> None:
    model = amplification_model(rows(10))
    assert [model.value(series, 6) for series in (WRITE, READ, SPACE)] == [1.6, 2.0, 1.1]
    assert model.sentence(6) == "#7 APPEND · write 1.60 · read 2 · space ≈ 1.10"
    assert model.sentence(5) == "#6 APPEND · write 1.50 · read 1 · space 1.00"
    assert model.exactness(6) == "space estimated: as if rows were drawn"
    assert model.exactness(5) == "space exact: as if rows were drawn"


def test_an_expired_snapshot_is_a_gap_and_said_so() -> None:
    model = amplification_model(rows(10, expired=4))
    assert model.value(READ, 3) is None
    assert model.sentence(3) == "#4 APPEND · write 1.30 · read – · space –"
    assert "has expired" in model.exactness(3)
    body = amplification_figure(model, index=9, width=1040).body
    assert body.count('fill="url(#lw-ghost)"') == 2
    assert ">expired<" in body


def test_runs_of_several_buckets_are_a_mean() -> None:
    table = rows(6).set_column(6, "point_files", pa.array([1.5] * 6))
    model = amplification_model(table)
    assert not model.one_bucket
    assert model.shown(READ, 2) == "1.5"
    assert model.trigger is None


def test_a_line_of_more_commits_than_pixels_is_the_span_of_each_pixel() -> None:
    values = np.tile([1.0, 5.0], 5_000)
    panel = Panel("Read", (), (Line(values),), floor=0.0, decimals=0, step=True)
    plot = plot_of(panel, left=0, width=320, right_room=62)
    body = drawn(panel, plot, x=0, width=320)
    assert len(body) < 12_000
    low, high = plot.y(1.0), plot.y(5.0)
    assert f" {low:.1f}".rstrip("0").rstrip(".") in body
    assert f"V{high:.1f}".rstrip("0").rstrip(".") in body


def test_two_lines_of_many_commits_are_means_of_a_few_pixels() -> None:
    waves = (
        Line(np.tile([1.0, 3.0], 1_000), label="A"),
        Line(np.tile([4.0, 6.0], 1_000), bold=True, label="B"),
    )
    panel = Panel("Read", (), waves, floor=0.0, decimals=0, step=True)
    plot = plot_of(panel, left=0, width=320, right_room=60)
    body = drawn(panel, plot, x=0, width=320)
    courses = re.findall(r'd="(M[^"]+)" fill="none"', body)
    heights = [{round(float(y)) for y in re.findall(r" ([0-9.]+)", course)} for course in courses]
    assert [len(line_heights) <= 3 for line_heights in heights] == [True, True]
    assert round(plot.y(2.0)) in heights[0]
    assert round(plot.y(5.0)) in heights[1]


def test_a_frame_of_ten_thousand_snapshots_stays_small() -> None:
    figure = amplification_figure(amplification_model(rows(10_000)), index=0, width=1040, cursor=False)
    assert len(figure.body) < 40_000
    assert figure.height == amplification_figure(amplification_model(rows(3)), index=0, width=1040).height


def test_a_forecast_carries_its_sign() -> None:
    model = amplification_model(rows(8), after=NextAmplification(2.33, 3, 1.29))
    body = amplification_figure(model, index=7, width=1040).body
    assert ">≈ 2.33<" in body
    assert ">3<" in body
    assert ">≈ 1.29<" in body


@pytest.mark.parametrize("width", [1040, 700, 420])
@pytest.mark.parametrize("count", [0, 1, 2, 60])
def test_every_label_lies_inside_and_is_well_formed(width: int, count: int) -> None:
    figure = amplification_figure(amplification_model(rows(count)), index=count - 1, width=width)
    tree = ElementTree.fromstring(f"<svg>{figure.body}</svg>")
    for element in tree.iter("text"):
        assert 0 <= float(element.get("x", 0)) <= width


def test_names_from_data_are_only_text() -> None:
    chart = AmplificationChart(rows(4, why=XSS), title=XSS).wait(60)
    for text in (chart.to_svg(), chart.frame["svg"], chart._repr_mimebundle_()[0]["text/html"]):
        assert "<img src=x" not in text


def test_the_text_form_has_a_line_a_number() -> None:
    said = AmplificationChart(rows(20), title="shop.orders").wait(60).text().splitlines()
    assert said[0] == "shop.orders  amplification  #1 … #20"
    assert [line.split()[0] for line in said[1:4]] == ["write", "read", "space"]
    assert said[1].endswith("1.95")
    assert sparkline(np.array([np.nan, 1.0, 2.0]), 3, floor=1.0) == " ▁█"


def test_a_timeline_leads_and_follows() -> None:
    table = frames.commits(12)
    timeline, chart = SnapshotTimeline(table), AmplificationChart(rows(12)).wait(60)
    timeline.link(chart)
    timeline.index = 4
    assert (chart.index, chart.snapshot) == (4, 5)
    chart.index = 8
    assert (timeline.index, timeline.snapshot) == (8, 9)
    assert [values[2] for values in chart.series["values"]] == ["1.17", "3", "≈ 1.20"]
    assert chart.series["kinds"][4] == "COMPACT"


def test_of_a_real_table_and_of_its_opened_bucket(tmp_path: Path) -> None:
    table = waiting(tmp_path, buckets=2)
    chart = AmplificationChart(table.with_options({"write-only": False})).wait(60)
    whole = table.inspect.amplification(per="snapshot")
    assert chart.data().equals(whole)
    assert chart.model.after.space == pytest.approx(1.0)
    assert chart.model.after.read is None
    chart.opened = "/1"
    chart.wait(60)
    assert chart.data().equals(table.inspect.amplification(per="snapshot", partition="", bucket=1))
    assert chart.model.after.read == 1
    assert chart.code == "table.inspect.amplification(per=\"snapshot\", partition='', bucket=1)"


def test_new_commits_are_followed_and_the_past_is_kept(tmp_path: Path) -> None:
    table = waiting(tmp_path)
    chart = AmplificationChart(table).wait(60)
    newest = chart.snapshot
    table.write(pa.table({"k": [1], "v": [b"x"]}))
    assert chart.refresh().wait(60).snapshot == newest + 1
    chart.index = 2
    table.write(pa.table({"k": [2], "v": [b"x"]}))
    assert chart.refresh().wait(60).snapshot == 3


class SlowTable:
    """A table whose history is not read before it is let go."""

    def __init__(self) -> None:
        self.go, self.inspect = threading.Event(), self

    def amplification(self, per: str = "table", **_: Any) -> pa.Table:
        assert self.go.wait(60)
        return rows(5)


def test_a_long_history_shows_a_skeleton_of_the_same_height() -> None:
    table = SlowTable()
    chart = AmplificationChart(table)
    assert "reading the history" in chart.frame["subtitle"]
    waiting_height = re.search(r'height="(\d+)"', chart.frame["svg"])
    table.go.set()
    chart.wait(60)
    assert "5 commits" in chart.frame["subtitle"]
    match = re.search(r'height="(\d+)"', chart.frame["svg"])
    assert waiting_height is not None
    assert match is not None
    assert waiting_height.group(1) == match.group(1)


def test_an_error_leaves_the_last_good_picture() -> None:
    table = SlowTable()
    table.go.set()
    chart = AmplificationChart(table).wait(60)
    good = chart.frame["svg"]
    table.amplification = lambda *a, **k: 1 / 0  # type: ignore[method-assign]  # it fails
    chart.refresh().wait(60)
    assert "ZeroDivisionError" in chart.frame["error"]["text"]
    assert chart.frame["svg"] == good


def test_every_panel_prints_the_same_figures(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    """Chart, compaction panel, health and what-if of one bucket: the range of the engine's one estimator."""
    for seed in seeds:
        tree = next(
            t for n in range(100) if (t := random_tree(tmp_path / f"{seed}-{n}", 100 * seed + n)).waits
        )
        table = tree.table.with_options({"write-only": False})
        bucket = tree.worst
        planned = table.compact(full=True, dry_run=True, bucket=bucket).picks[0].forecast.output
        (row,) = table.inspect.amplification(partition="", bucket=bucket).to_pylist()
        shown = fmt.factor(row["space_amplification"], row["space_min"], row["space_max"])
        written = fmt.bytes_range(planned.bytes, planned.bytes_min, planned.bytes_max)
        assert (planned.bytes_min, planned.bytes_max) == (
            round(row["live_bytes"] / row["space_max"]),
            round(row["live_bytes"] / row["space_min"]),
        ), tree.what
        chart = AmplificationChart(table, opened=f"/{bucket}").wait(60)
        assert chart.model.sentence(len(chart.model) - 1).endswith(f"space {shown}"), tree.what
        assert chart.series["values"][2][chart.index] == shown, tree.what
        controls = CompactionControls(table, bucket=bucket)
        controls.full = True
        assert written in controls.text(), tree.what
        whole = table.inspect.amplification().to_pylist()[0]
        wide = fmt.factor(whole["space_amplification"], whole["space_min"], whole["space_max"])
        assert f"{wide} " in f"{TableHealth(table).wait(60).text()} ".replace("\n", " "), tree.what
