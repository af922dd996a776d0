"""MaintenanceView: what a service did and what waits, of one here, of one elsewhere, of a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
import widgets
from tests.maintenance.test_service import filled, rows
from widgets.maintenance.figure import maintenance_figure
from widgets.maintenance.model import SHOWN, MaintenanceModel

DONE = ts.WorkDone(0.0, 0.5, "d.t", "compact", "bucket-0", "size ratio", 900, 500, 900, 450, 8, 1)
FAILED = ts.WorkDone(1.0, 0.1, "d.u", "compact", "bucket-1", "size ratio", error="data-1: missing")
WAITING = ts.WorkWaiting("d.t", "compact", "bucket-1", "file number", "its hours, 22:00-06:00")
REPORT = ts.MaintenanceReport(
    "maintain",
    "running",
    9.0,
    (ts.TableHealth("d.t"), ts.TableHealth("d.u")),
    2_000,
    900,
    (DONE, FAILED),
    (WAITING,),
    (("d.v", "schema-0: damaged"),),
)


def test_a_report_says_what_was_bought_predicted_and_measured():
    view = widgets.MaintenanceView(REPORT, follow=0)
    text = view.text()
    assert "1 compaction: runs 8 → 1" in text
    assert "wrote 450 B (predicted 500 B)" in text
    assert "failed, nothing was committed: data-1: missing" in text
    assert "waits for its hours, 22:00-06:00" in text
    assert "d.v: schema-0: damaged" in text
    assert view.data().equals(REPORT.to_arrow())
    for width in (400, 760, 1280):
        svg = view.to_svg(width=width)
        for words in ("d.t bucket-0", "450 B", "data-1: missing", "d.v: schema-0: damaged", "of 1.95 KiB"):
            assert words in svg, (width, words)


def test_bars_are_as_long_as_their_bytes():
    figure = maintenance_figure(MaintenanceModel(REPORT), width=1200)
    assert 'width="96" height="14"' in figure.body  # 500 B predicted, the most
    assert 'width="86.4" height="10"' in figure.body  # 450 B written


def test_many_pieces_are_counted_and_not_drawn():
    many = ts.MaintenanceReport("maintain", "ended", 0.0, done=(DONE,) * 40, waiting=(WAITING,) * (SHOWN + 3))
    figure = maintenance_figure(MaintenanceModel(many), width=900)
    assert figure.body.count('class="work"') == SHOWN
    assert "3 more pieces of work wait" in figure.body


def test_a_service_is_followed_paused_and_ended(tmp_path: Path):
    table = filled(tmp_path)
    service = ts.connect(tmp_path).maintain(poll="20 ms")
    view = widgets.MaintenanceView(service, follow=0.1)
    try:
        until = time.monotonic() + 120
        while "2 compactions" not in view.text() and time.monotonic() < until:
            time.sleep(0.05)
        assert "2 compactions: runs 16 → 2" in view.text()
        assert view.pause().state == "paused"
        assert view.resume().state == "running"
        table.write(rows(0))
        view.stop()
        assert service.wait(120)
        while view.watching and time.monotonic() < until:
            time.sleep(0.05)
        assert (view.state, view.watching) == ("stopped", False)
    finally:
        service.stop(120)
        view.close()
    elsewhere = widgets.MaintenanceView(tmp_path)
    assert elsewhere.data().equals(service.report().to_arrow())
    assert elsewhere.words(width=900)["can"] == []  # nobody to ask


def test_other_options_are_tried_on_the_recorded_history(tmp_path: Path):
    filled(tmp_path)
    service = ts.connect(tmp_path).maintain(follow=False)
    assert service.wait(120)
    view = widgets.MaintenanceView(service, follow=0)
    name = view.model.worst[0].table
    policy = ts.MaintenancePolicy(runs=2)
    assert view.advise(name, policy).wait(120).advice == str(service.advice(name, policy))
    assert view.words(width=900)["advice"] == view.advice
    assert view.advice.splitlines()[0] in view.text()
    view._on_verb(view, {"verb": "advise"}, [])
    assert view.wait(120).advice == str(service.advice(name))
    assert "NotFound" in view.advise("d.missing").wait(120).advice
    view.close()
    assert widgets.MaintenanceView(REPORT, follow=0).advise("d.t").advice == ""  # nobody to ask


def test_a_warehouse_without_a_report_says_so(tmp_path: Path):
    view = widgets.MaintenanceView(tmp_path)
    assert "no maintenance service has written" in str(view.frame["error"])


@pytest.mark.parametrize("wrong", [None, 7, [1], {"a": 1}], ids=repr)
def test_what_is_no_service_is_refused(wrong: Any):
    with pytest.raises(ts.InvalidRequest, match="MaintenanceView takes a service"):
        widgets.MaintenanceView(wrong)
