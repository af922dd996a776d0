"""The timeline of a page without a kernel: names, what a tag keeps, hover; hostile names stay text."""

from pathlib import Path

import tablestore as ts
import widgets
from tests.browsing import Page, needs_browser

pytestmark = needs_browser
XSS = "<img src=x onerror=alert(1)>"


def test_a_page_travels_to_a_snapshot_that_only_a_tag_keeps(page: Page, tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path / "lake")).create_table(
        "shop.orders", schema={"k": ts.BIGINT}, primary_key=["k"], options={"bucket": 1, "write-only": True}
    )
    for at in range(6):
        table.write({"k": list(range(at, at + 9))})
    table.tags.create("early", snapshot=1)
    table.branches.create("trial", tag="early")
    table.expire_snapshots(keep=3)
    timeline = widgets.SnapshotTimeline(table, title=XSS, tags={XSS: 5})
    levels = widgets.LsmLevels(table)
    file = tmp_path / "page.html"
    file.write_text(widgets.page(XSS, [timeline.link(levels), levels]), encoding="utf-8")
    page.open(file)
    field = page.page.get_by_label("jump to snapshot id, tag or time")
    field.fill("early")
    field.press("Enter")
    assert "expired, kept by tag early" in page.text(".lw-timeline .cursor text")
    assert page.text(".lw-levels h3") == "Levels at #1"
    assert page.page.locator(".lw-levels .file").count() == 1
    page.page.keyboard.press("ArrowRight")
    assert page.text(".lw-levels h3") == "Levels at #4"
    page.page.evaluate("""() => {
      const place = document.querySelector(".lw-timeline").parentNode;
      place.hidden = true;
      lwSet(lwModels[0], { index: 0 });
      place.hidden = false;
    }""")
    assert page.text(".lw-levels h3") == "Levels at #1"
    pill, words = (
        page.page.locator(f".lw-timeline .cursor {part}").bounding_box() for part in ("rect", "text")
    )
    assert pill
    assert words
    assert pill["x"] < words["x"], "words that were set out of sight have their room"
    assert words["x"] + words["width"] < pill["x"] + pill["width"]
    field.fill("4")
    field.press("Enter")
    assert page.page.locator(".lw-timeline img").count() == 0
    assert page.page.locator(".lw-timeline svg text", has_text="<img src=x").count() == 1
    page.page.locator(".lw-levels .file").last.click()
    page.page.keyboard.press("Enter")
    assert "row groups of" in page.text(".lw-levels .lw-says")
