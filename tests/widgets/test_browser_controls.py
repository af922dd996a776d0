"""The compaction panel without a kernel, in a real browser: all can be read, nothing pressed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browsing import Page, needs_browser
from tests.widgets import frames
from tests.widgets.test_controls_sources import LEVELED, simulator
from widgets import CompactionControls

pytestmark = needs_browser

XSS = "<img src=x onerror=\"document.title='owned'\">"
OUTSIDE = """
[...document.querySelectorAll('.lw-controls')].flatMap(panel => {
  const box = panel.getBoundingClientRect();
  return [...panel.querySelectorAll('svg text, button, input, label, b')].filter(node => {
    const b = node.getBoundingClientRect();
    return b.width && (b.left < box.left - 1 || b.right > box.right + 1 || b.bottom > box.bottom + 1);
  }).map(node => node.textContent || node.className);
})"""


def test_the_page_shows_the_settings_and_the_call_and_presses_nothing(page: Page, tmp_path: Path) -> None:
    page.open(CompactionControls(simulator()).to_html(tmp_path / "panel.html"))
    values = page.page.locator(".lw-inputs input").evaluate_all("nodes => nodes.map(node => node.value)")
    assert values == ["5", "1", "200"]
    controls = page.page.locator(".lw-controls button:not(.lw-quiet), .lw-controls input")
    assert controls.evaluate_all("nodes => nodes.every(node => node.disabled)")
    page.page.get_by_role("button", name="the Python that gives this picture").click()
    assert page.text(".lw-code") == "simulator.compact(dry_run=True)"
    assert page.text(".lw-says").startswith("Next compaction, bucket 0: size")


@pytest.mark.parametrize("width", [348, 700])
@pytest.mark.parametrize("kind", ["universal", "leveled", "many"])
@pytest.mark.sample(2)
def test_nothing_leaves_the_panel(page: Page, tmp_path: Path, width: int, kind: str) -> None:
    if kind == "many":
        places = tuple((f"l_year=199{n}/l_month=12", b) for n in range(4) for b in range(3))
        controls = CompactionControls(frames.FakeTable(buckets=places, appends=9))
    else:
        controls = CompactionControls(simulator(LEVELED if kind == "leveled" else None, flushes=12))
    page.page.set_viewport_size({"width": width, "height": 900})
    page.open(controls.to_html(tmp_path / "panel.html"))
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.page.evaluate(OUTSIDE) == []


def test_hostile_names_are_text(page: Page, tmp_path: Path) -> None:
    table = frames.FakeTable(buckets=((f"p={XSS}", 0),), appends=9, name=XSS)
    controls = CompactionControls(table)
    page.open(controls.to_html(tmp_path / "panel.html"))
    assert XSS in page.text(".lw-where b")
    assert page.page.locator("img").count() == 0
