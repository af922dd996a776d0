"""The health of tables without a kernel, in a real browser: colours, the cursor, the list of the worst."""

from __future__ import annotations

from pathlib import Path

import tablestore as ts
import widgets
from tests.browsing import Page, needs_browser
from tests.widgets.test_health import made

pytestmark = needs_browser


def test_a_table_and_its_lake_answer_without_a_kernel(page: Page, tmp_path: Path) -> None:
    table = made(tmp_path / "lake")
    view = widgets.TableHealth(table).wait(120)
    timeline = widgets.SnapshotTimeline(table)
    view.link(timeline)
    lake = widgets.LakeHealth(ts.connect(tmp_path / "lake")).wait(120)
    path = tmp_path / "health.html"
    path.write_text(widgets.page("Health", [timeline, view, lake]), encoding="utf-8")
    page.open(path)
    root = page.page.locator(".lw-health")
    assert view.verdict in (root.locator(".lw-pic svg").first.text_content() or "")
    for colour in ("bytes", "files", "over trigger", "runs"):
        root.get_by_role("button", name=colour, exact=True).click()
        root.locator(f'button[aria-pressed="true"]:text-is("{colour}")').wait_for()
    assert root.locator(".lw-health-acts").is_hidden(), "nothing is compacted without a kernel"
    box = root.locator(".heat").bounding_box()
    assert box is not None
    before = root.locator(".cursor").get_attribute("d")
    page.page.mouse.move(box["x"] + 4, box["y"] + 4)
    root.locator(".lw-card:visible").wait_for()
    page.page.mouse.click(box["x"] + 4, box["y"] + 4)
    page.page.wait_for_function(
        "(before) => document.querySelector('.lw-health .cursor').getAttribute('d') !== before", arg=before
    )
    assert page.page.locator('.lw-timeline [role="slider"]').get_attribute("aria-valuetext", timeout=120_000)
    rows = page.page.locator(".lw-lake .table")
    assert rows.count() == 1
    rows.first.click()
    page.check()


def test_alarms_are_marked_by_keys_and_clicks(page: Page, tmp_path: Path) -> None:
    made(tmp_path / "lake")
    view = widgets.LakeAlarms(ts.connect(tmp_path / "lake"), freshness="0 ms").wait(120)
    path = tmp_path / "alarms.html"
    path.write_text(widgets.page("Alarms", [view]), encoding="utf-8")
    page.open(path)
    rows = page.page.locator(".lw-alarms .alarm")
    assert rows.count() == len(view.model.lines)
    assert view.verdict in (page.page.locator(".lw-alarms .lw-pic svg").first.text_content() or "")
    page.page.locator('.lw-alarms [role="listbox"]').focus()
    page.page.keyboard.press("ArrowDown")
    said = rows.first.get_attribute("aria-label") or ""
    page.page.locator(".lw-alarms [aria-live]", has_text=said[:40]).wait_for(state="attached")
    rows.first.click()
    page.check()
