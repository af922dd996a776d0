"""Explorer and pruning on tables that Java Paimon and pypaimon wrote, on branches and on tags."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
import widgets
from tests.read import golden
from tests.widgets.tables import months
from widgets.explorer.model import FileRow

JAVA = [str(golden.JAVA / "warehouse" / "j.db" / name) for name in golden.java_tables()]
PYTHON = [str(golden.PYTHON / "warehouse" / "g.db" / name) for name in golden.python_tables()[:-2]]


@pytest.mark.parametrize("path", [*JAVA, *PYTHON], ids=lambda path: Path(path).name)
@pytest.mark.sample(14)
def test_every_golden_table_opens_and_explains_itself(path: str) -> None:
    table = ts.open(path)
    explorer = widgets.FileExplorer(table)
    assert explorer.frame.get("error") is None
    for node in explorer.model.nodes:
        explorer.path = node.path
        assert explorer.frame.get("error") is None, node.path
    explorer.path = ""
    assert explorer.model.listing.total == table.inspect.files().num_rows
    for row in explorer.model.listing.rows[:2]:
        if isinstance(row, FileRow):
            explorer.selected = (row.name,)
            assert explorer.frame.get("error") is None
            assert explorer.model.detail is not None
    column = table.schema.names[0]
    view = widgets.PruningExplainer(table, where=f'"{column}" IS NOT NULL')
    assert view.frame.get("error") is None
    assert view.frame["problem"] == {}
    assert view.data().num_rows == explorer.data().num_rows
    assert view.to_svg().startswith("<svg")


def test_branches_and_tags_are_states_like_others(tmp_path: Path) -> None:
    table = months(tmp_path)
    table.tags.create("first", snapshot=2)
    table.branches.create("try", tag="first")
    branch = table.branch("try")
    branch.write({"month": [9], "id": [1], "quantity": [1], "note": ["x"]})
    explorer = widgets.FileExplorer(branch)
    assert explorer.model.listing.total == 3
    assert widgets.PruningExplainer(branch, where="month = 9").model.read.files == 1
    table.expire_snapshots(keep=1)
    kept = widgets.FileExplorer(table, snapshot=2)
    assert kept.frame.get("error") is None
    assert kept.model.listing.total == 2
    gone = widgets.FileExplorer(table, snapshot=3)
    assert "no snapshot 3" in gone.frame["error"]["text"]
