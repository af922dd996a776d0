"""Amplification and what-if in a page without a kernel: click, keys, hover, scrub; text from data is text."""

from __future__ import annotations

from pathlib import Path

import pytest

import widgets
from tablestore.insight.simulator import Workload
from tests.browsing import Page, needs_browser
from tests.widgets import frames
from tests.widgets.test_amplification import rows

pytestmark = needs_browser
TRIGGER = "num-sorted-run.compaction-trigger"
XSS = "<img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A timeline and charts of the same twelve snapshots."""
    timeline = widgets.SnapshotTimeline(frames.commits(12))
    chart = widgets.AmplificationChart(rows(12, why=XSS), title=XSS).wait(60)
    timeline.link(chart)
    path = tmp_path_factory.mktemp("pages") / "charts.html"
    path.write_text(widgets.page("charts", [timeline, chart]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A what-if of 24 flushes."""
    view = widgets.WhatIf(Workload("uniform", rows=500, keys=5_000), {TRIGGER: 8}, flushes=24, title=XSS)
    return view.wait(60).to_html(tmp_path_factory.mktemp("pages") / "what_if.html")


def test_keys_clicks_and_the_timeline_move_one_cursor(page: Page, both: Path) -> None:
    page.open(both)
    slider = page.page.locator(".lw-amplification [role=slider]")
    slider.focus()
    page.page.keyboard.press("ArrowLeft")
    assert slider.get_attribute("aria-valuenow") == "10"
    assert page.text(".lw-timeline .cursor text").startswith("#11 ")
    page.page.keyboard.press("Home")
    values = page.page.locator(".lw-amplification .cursor text").all_text_contents()
    assert values == ["1.00", "1", "1.00"]
    box = page.page.locator(".lw-amplification .lw-pic > svg").bounding_box()
    page.page.mouse.click(box["x"] + 120, box["y"] + 60)
    assert slider.get_attribute("aria-valuenow") != "0"
    page.page.locator(".lw-timeline [role=slider]").focus()
    page.page.keyboard.press("End")
    assert slider.get_attribute("aria-valuenow") == "11"
    assert XSS in page.text(".lw-note")
    assert page.page.locator("img").count() == 0


def test_hover_shows_the_numbers_without_moving_the_selection(page: Page, both: Path) -> None:
    page.open(both)
    box = page.page.locator(".lw-amplification .lw-pic > svg").bounding_box()
    page.page.mouse.move(box["x"] + 70, box["y"] + 60)
    card = page.page.locator(".lw-amplification .lw-card")
    card.wait_for()
    assert "write" in card.text_content()
    assert page.page.locator(".lw-amplification .peek").count() == 1
    assert page.page.locator(".lw-amplification [role=slider]").get_attribute("aria-valuenow") == "11"
    page.page.mouse.move(2, 2)
    assert card.is_hidden()


@pytest.mark.large
def test_a_what_if_is_scrubbed_played_and_read(page: Page, compared: Path) -> None:
    page.open(compared)
    slider = page.page.locator(".lw-what_if [role=slider]")
    slider.focus()
    tall = page.page.evaluate("document.documentElement.scrollHeight")
    said = set()
    for _ in range(6):
        page.page.keyboard.press("ArrowLeft")
        said.add(slider.get_attribute("aria-valuetext"))
        assert page.page.evaluate("document.documentElement.scrollHeight") == tall
    assert len(said) == 6
    box = page.page.locator(".lw-what_if .lw-pic > svg").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 24)
    assert 8 <= int(slider.get_attribute("aria-valuenow")) <= 15
    page.page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 24)
    card = page.page.locator(".lw-what_if .lw-card")
    card.wait_for()
    assert "runs, write" in card.text_content()
    page.page.mouse.move(2, 2)
    assert card.is_hidden()
    page.page.keyboard.press("End")
    page.page.keyboard.press("ArrowLeft")
    page.page.keyboard.press("Space")
    page.page.locator('.lw-what_if [role=slider][aria-valuenow="23"]').wait_for()
    assert page.page.locator(".lw-fields button.lw-primary").is_disabled()
    assert "B compacts" in page.text(".lw-verdict b")
    assert page.page.locator("img").count() == 0
    assert page.page.title() != "owned"


@pytest.mark.parametrize("width", [700, 1080])
@pytest.mark.sample(1)
def test_no_label_leaves_its_picture(page: Page, compared: Path, both: Path, width: int) -> None:
    page.page.set_viewport_size({"width": width, "height": 900})
    for path in (compared, both):
        page.page.goto(path.as_uri())
        page.page.locator("body[data-ready=true]").wait_for()
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.page.evaluate(
            """() => [...document.querySelectorAll(".lw svg text")].filter((t) => {
                const a = t.getBoundingClientRect(), b = t.closest("svg").getBoundingClientRect();
                return a.width && (a.left < b.left - 1 || a.right > b.right + 1);
            }).map((t) => t.textContent)"""
        )
        assert outside == []
    page.requests[:] = [f"file:{len(page.requests)}"]
