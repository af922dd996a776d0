"""IngestProgress as a page without a kernel: cards by hover and keys, nothing clipped, buttons off."""

from __future__ import annotations

from pathlib import Path

import pytest

import widgets
from tests.browsing import Page, needs_browser
from widgets.ingest.model import ChunkRange

pytestmark = needs_browser


def ingest(chunks: int) -> widgets.IngestProgress:
    """Half of the chunks committed, some read, one read again, with a log."""
    progress = widgets.IngestProgress("tpch.lineitem", total=chunks * 400)
    progress.describe([ChunkRange(400, n * 400, n * 400 + 399) for n in range(chunks)], key="l_orderkey")
    for number in range(chunks * 2 // 3):
        progress.update(chunk=(number, "committed" if number < chunks // 2 else "read"))
    progress.update(chunk=(1, "reading", 0.3))
    for number in range(4):
        progress.mark(f"chunk {number}", low=number * 9_000, high=number * 9_000 + 20_000, note="14 changes")
    progress.mark("batch 9", low=50_000)
    progress.update(rows=chunks * 260, committed=chunks * 200, commit=7, log_head=90_000, log_done=9_000)
    progress.update(log_name="binlog.000007")
    progress.redraw()
    return progress


def test_chunks_show_their_cards(page: Page, tmp_path: Path) -> None:
    page.open(ingest(60).to_html(tmp_path / "ingest.html"))
    picture = page.page.locator(".lw-ingest .lw-pic")
    picture.focus()
    page.page.keyboard.press("Home")
    assert page.text(".lw-card").startswith("chunk 0committed")
    page.page.keyboard.press("ArrowRight")
    assert "reading" in page.text(".lw-card")
    assert "400 … 799" in page.text(".lw-card")
    page.page.keyboard.press("End")
    assert picture.get_attribute("aria-valuetext") == "chunk 59, waiting"
    assert page.page.locator(".lw-ingest svg .cursor").count() == 1
    page.page.keyboard.press("Escape")
    assert page.page.locator(".lw-card").is_hidden()
    box = picture.bounding_box()
    page.page.mouse.move(box["x"] + 20, box["y"] + 176)
    assert page.page.locator(".lw-card").is_visible()
    buttons = page.page.locator(".lw-ingest .lw-tools button")
    assert [buttons.nth(at).is_disabled() for at in range(2)] == [True, True]


@pytest.mark.parametrize("width", [700, 960, 1080])
def test_no_label_leaves_the_picture_or_lies_on_another(page: Page, tmp_path: Path, width: int) -> None:
    page.page.set_viewport_size({"width": width, "height": 900})
    page.open(ingest(150).to_html(tmp_path / "ingest.html"))
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.page.evaluate(TROUBLE) == []


TROUBLE = """(() => {
  const svg = document.querySelector('.lw-pic > svg'), out = svg.getBoundingClientRect(), found = [];
  const texts = [...svg.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
  for (const [words, b] of texts)
    if (b.left < out.left - 1 || b.right > out.right + 1 || b.bottom > out.bottom + 2) found.push(words);
  for (let i = 0; i < texts.length; i++) for (let j = 0; j < i; j++) {
    const [a, p] = texts[i], [b, q] = texts[j];
    const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const tall = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (wide > 1 && tall > 4) found.push(a + ' | ' + b);
  }
  return found;
})()"""
