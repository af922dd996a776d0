"""The code of the views, sent once a kernel: it survives what people do with a page."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

TABLE = "from tests.widgets import frames\nimport widgets\ntable = frames.FakeTable(appends=6)"
VIEWS = """
timeline, levels = widgets.SnapshotTimeline(table), widgets.LsmLevels(table)
timeline.link(levels)
levels"""


def test_views_work_after_a_reload_a_restart_and_twice_on_a_page(lab: Lab) -> None:
    notebook = lab.open([TABLE, VIEWS, "levels", "timeline"])
    titles = lab.page.locator(".lw-levels h3")
    assert titles.all_text_contents() == ["Levels at #6"] * 2

    notebook.reload()
    titles.nth(1).wait_for()
    lab.page.get_by_role("slider").focus()
    lab.page.keyboard.press("ArrowLeft")
    notebook.expect("(timeline.snapshot, levels.snapshot)", [5, 5])
    lab.page.locator(".lw-levels h3", has_text="#5").nth(1).wait_for()

    notebook.restart_and_run_all()
    lab.page.locator(".lw-levels h3", has_text="#6").nth(1).wait_for()
    assert notebook.kernel("levels.assets is timeline.assets")
    notebook.kernel("[levels.close(), setattr(timeline, 'snapshot', 2)]")
    assert notebook.kernel("(timeline.snapshot, timeline.linked)") == [2, []]
    notebook.check()
