"""A tiering service in a real JupyterLab: the picture follows, a table is chosen, the service is killed and
started again."""

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]

SETUP = """
import widgets
from tests.widgets import tierings
jobs = [tierings.ScriptedTiering(10.0)]
def kill():
    jobs[-1].running, jobs[-1].state = False, "failed"
def start():
    jobs.append(tierings.ScriptedTiering(48.0))
    return jobs[-1]
service = widgets.TieringView(
    jobs[0], kill=kill, start=start, table="shop.orders", follow=0.2,
    clock=lambda: tierings.BEGAN + jobs[-1].at,
)
service
"""


def test_a_service_is_killed_and_started_again(lab: Lab) -> None:
    notebook = lab.open([SETUP])
    view = lab.page.locator(".lw-tiering")
    view.locator("svg text", has_text="Buckets of shop.orders").wait_for()
    view.locator("svg text", has_text="shop.events").first.click()
    view.locator("svg text", has_text="Buckets of shop.events").wait_for()
    notebook.expect("service.table", "shop.events")
    view.get_by_role("button", name="pause").click()
    view.get_by_role("button", name="resume").wait_for()
    notebook.kernel("jobs[0].advance(3)")
    view.get_by_role("button", name="kill").click()
    lab.page.locator(".lw-tiering[data-state=killed]").wait_for()
    view.get_by_role("button", name="start").click()
    lab.page.locator(".lw-tiering[data-state=running]").wait_for()
    view.locator("svg text", has_text="0:13").wait_for()
    notebook.kernel("service.stop() and None")
    lab.page.locator(".lw-tiering[data-state=stopped]").wait_for()
    notebook.check()
