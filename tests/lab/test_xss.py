"""Hostile names in a real JupyterLab: the whole cockpit of such a table, and every view of its own."""

from pathlib import Path

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab
from tests.widgets import hostile
from tests.widgets.hostile import EVENTS, IMG, OURS, SAFE

pytestmark = [*needs_browser, pytest.mark.large]

CELLS = [
    "import tablestore as ts\nimport widgets\nfrom tests.widgets import hostile\ntable = ts.open({path!r})",
    "bench = widgets.Workbench(table)\nbench",
    "from ipywidgets import VBox\nmade = hostile.views_of(table)\nVBox(list(made.values()))",
    "repr(bench)",
]


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(hostile.table_at(tmp_path_factory.mktemp("hostile")).location)


def test_names_that_are_markup_are_text_in_every_view(lab: Lab, location: Path) -> None:
    notebook = lab.open([cell.format(path=str(location)) for cell in CELLS])
    page = lab.page
    bench = page.locator(".lw-bench")
    assert bench.locator("h2").text_content() == f"{IMG}.{IMG}"
    for button in bench.locator(".lw-tabs button").all():
        button.click()
        tool = button.get_attribute("data-tool")
        page.locator(f".lw-bench[data-tool={tool}]").wait_for()
    notebook.expect("bench.trouble", "")
    assert len(notebook.kernel("list(bench.parts)")) == 12
    assert set(page.evaluate(SAFE)) <= OURS
    assert page.evaluate(EVENTS) == []
    assert page.evaluate("window.owned === undefined && document.title !== 'owned'")
    assert page.locator(".jp-OutputArea-output img").count() == 0
    notebook.check()
