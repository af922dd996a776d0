"""What a view cannot be made of: one error that says what it takes."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import traitlets
from ipywidgets.widgets import widget as ipywidgets_registry

import tablestore as ts
import widgets
from widgets.kit.assets import of_kernel
from widgets.kit.view import View

OF_TABLES = [
    *("AmplificationChart", "ChangelogView", "CompactionControls", "FileExplorer", "Findings", "LsmLevels"),
    *("MergeView", "PruningExplainer", "SnapshotTimeline", "TableHealth", "Workbench"),
]


@pytest.mark.parametrize("wrong", [None, 3, [1], {"a": 1}, b"x"], ids=repr)
def test_what_is_no_table_is_refused(wrong: Any) -> None:
    for view in OF_TABLES:
        with pytest.raises(ts.InvalidRequest, match=f"{view} takes a table, not"):
            getattr(widgets, view)(wrong)
    with pytest.raises(ts.InvalidRequest, match="WhatIf takes a table, not"):
        widgets.WhatIf(wrong, {"bucket": 1})


@pytest.mark.parametrize("view", OF_TABLES)
def test_a_path_is_to_be_opened(view: str) -> None:
    for path in ("/lake/d.db/t", Path("/lake/d.db/t")):
        with pytest.raises(ts.InvalidRequest, match=r"open it first: ts\.open\('/lake/d\.db/t'\)"):
            getattr(widgets, view)(path)


def test_a_scan_and_a_lake_are_no_table(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    scan = lake.create_table("d.t", schema={"k": ts.BIGINT}).scan()
    for view in OF_TABLES:
        for wrong, remedy in ((scan, "pass its table"), (lake, r"lake\.table\(")):
            with pytest.raises(ts.InvalidRequest, match=f"{view} takes a table, not .*{remedy}"):
                getattr(widgets, view)(wrong)


def test_an_ingest_has_a_title_and_steps_a_model(tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.BIGINT})
    with pytest.raises(ts.InvalidRequest, match="IngestProgress takes a title, not Table"):
        widgets.IngestProgress(table)
    with pytest.raises(ts.InvalidRequest, match="StepLanes takes a StepsModel, not Table"):
        widgets.StepLanes(table)
    for wrong in (None, table, [1], {"a": 1}):
        with pytest.raises(ts.InvalidRequest, match=r"CaptureProgress takes a job of lake\.ingest"):
            widgets.CaptureProgress(wrong)
        with pytest.raises(ts.InvalidRequest, match=r"TieringView takes a service of lake\.tier"):
            widgets.TieringView(wrong)


def test_a_task_has_a_question_and_a_veil_a_task() -> None:
    for wrong in (None, "how many?", 7, [1]):
        with pytest.raises(ts.InvalidRequest, match="Task takes a Question"):
            widgets.Task(wrong, lambda _value: None)
        with pytest.raises(ts.InvalidRequest, match="Veil waits for a Task"):
            widgets.Veil(wrong)
        with pytest.raises(ts.InvalidRequest, match="TaskList takes a Score"):
            widgets.TaskList(wrong)


@pytest.mark.parametrize("wrong", [None, "lake", 7, [1], {"a": 1}], ids=repr)
def test_a_lake_is_given_and_no_table(wrong: Any, tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.BIGINT})
    for given in (wrong, table):
        with pytest.raises(ts.InvalidRequest, match="LakeHealth takes a lake"):
            widgets.LakeHealth(given)
    with pytest.raises(ts.InvalidRequest, match="LakeAlarms takes a lake"):
        widgets.LakeAlarms(wrong)
    with pytest.raises(traitlets.TraitError, match="'no bucket' is no bucket"):
        widgets.TableHealth(table, chosen=["no bucket"])


def test_a_log_is_that_of_a_table_and_its_reader_a_place_in_it() -> None:
    for wrong in (None, "/lake/d.db/t", 7, [1]):
        with pytest.raises(ts.InvalidRequest, match="LogAndLake takes a table"):
            widgets.LogAndLake(wrong)


REFUSED = {
    **{f"{view}(None)": (view, (None,), {}) for view in OF_TABLES},
    "SnapshotTimeline(table, follow='often')": ("SnapshotTimeline", ("table",), {"follow": "often"}),
    "LsmLevels(table, width='wide')": ("LsmLevels", ("table",), {"width": "wide"}),
    "Workbench(table, 'p=1', 'zero', 1)": ("Workbench", ("table", "p=1", "zero", 1), {}),
    "IngestProgress(table)": ("IngestProgress", ("table",), {}),
    "WhatIf(table)": ("WhatIf", ("table",), {}),
    "LogAndLake(table)": ("LogAndLake", ("table",), {}),
    "TradeOff(table)": ("TradeOff", ("table",), {}),
    "TradeOff('uniform', triggers=[5, 3])": ("TradeOff", ("uniform",), {"triggers": [5, 3]}),
    "TradeOff('uniform', flushes=0)": ("TradeOff", ("uniform",), {"flushes": 0}),
    "ShopGame(6)": ("ShopGame", (6,), {}),
    "ShopGame(1, moves=[(0, 'sleep')])": ("ShopGame", (1,), {"moves": [(0, "sleep")]}),
    "TradeOff('often')": ("TradeOff", ("often",), {}),
}


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", REFUSED)
@pytest.mark.sample(3)
def test_a_refused_view_leaves_nothing_behind(call: str, tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.BIGINT})
    view, arguments, options = REFUSED[call]
    arguments = tuple(table if each == "table" else each for each in arguments)
    assert of_kernel()
    before = set(ipywidgets_registry._instances)
    with pytest.raises((ts.InvalidRequest, ValueError, TypeError, traitlets.TraitError)):
        getattr(widgets, view)(*arguments, **options)
    gc.collect()
    assert not set(ipywidgets_registry._instances) - before


def test_a_workbench_that_cannot_be_finished_closes_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.BIGINT})

    def fail(_self: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(widgets.Workbench, "_join", fail)
    before = set(ipywidgets_registry._instances)
    with pytest.raises(RuntimeError):
        widgets.Workbench(table)
    left = [each for name, each in ipywidgets_registry._instances.items() if name not in before]
    assert not [each for each in left if isinstance(each, View | widgets.Workbench)]
