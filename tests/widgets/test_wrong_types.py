"""What a view cannot be made of: one error that says what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
import widgets

OF_TABLES = [
    *("AmplificationChart", "ChangelogView", "CompactionControls", "FileExplorer", "Findings", "LsmLevels"),
    *("MergeView", "PruningExplainer", "SnapshotTimeline", "Workbench"),
]


@pytest.mark.parametrize("view", OF_TABLES)
@pytest.mark.parametrize("wrong", [None, 3, [1], {"a": 1}, b"x"], ids=repr)
def test_what_is_no_table_is_refused(view: str, wrong: Any) -> None:
    with pytest.raises(ts.InvalidRequest, match=f"{view} takes a table, not"):
        getattr(widgets, view)(wrong)
    with pytest.raises(ts.InvalidRequest, match="WhatIf takes a table, not"):
        widgets.WhatIf(wrong, {"bucket": 1})


@pytest.mark.parametrize("view", OF_TABLES)
def test_a_path_is_to_be_opened(view: str) -> None:
    for path in ("/lake/d.db/t", Path("/lake/d.db/t")):
        with pytest.raises(ts.InvalidRequest, match=r"open it first: ts\.open\('/lake/d\.db/t'\)"):
            getattr(widgets, view)(path)


def test_an_ingest_has_a_title_and_steps_a_model(tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.BIGINT})
    with pytest.raises(ts.InvalidRequest, match="IngestProgress takes a title, not Table"):
        widgets.IngestProgress(table)
    with pytest.raises(ts.InvalidRequest, match="StepLanes takes a StepsModel, not Table"):
        widgets.StepLanes(table)
