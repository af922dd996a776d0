"""The workbench in a page without a kernel, at five widths: how tall it is, and that nothing is clipped."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
import widgets
from tablestore.insight.simulator import Workload
from tests import browsing
from tests.browsing import Page, needs_browser
from widgets.kit.view import View
from widgets.workbench.tools import TOOLS

pytestmark = needs_browser
WIDTHS = (700, 900, 1280, 1440, 1900)
MEASURED = """
() => {
  const boxed = (name) => document.querySelector(name)?.getBoundingClientRect() || { height: 0 };
  const tall = (name) => Math.round(boxed(name).height);
  const seen = (node) => node.getClientRects().length > 0;
  const beyond = [], cut = [];
  const room = document.querySelector(".lw-bench").getBoundingClientRect();
  for (const node of document.querySelectorAll(".lw-bench *")) {
    const box = node.getBoundingClientRect();
    if (!seen(node) || node.closest(".lw-says, .lw-card, defs, clipPath")) continue;
    if (box.left < room.left - 1 || box.right > room.right + 1) beyond.push(node.outerHTML.slice(0, 120));
    const words = node.matches("button, h2, h3, b, label, code, .lw-note");
    const hides = words && getComputedStyle(node).overflowX !== "visible";
    if (hides && node.scrollWidth > node.clientWidth + 1) cut.push(node.textContent);
  }
  const texts = [...document.querySelectorAll(".lw-bench svg text")].filter(seen);
  for (const text of texts) {
    const box = text.getBoundingClientRect(), frame = text.ownerSVGElement.getBoundingClientRect();
    if (box.left < frame.left - 1 || box.right > frame.right + 1) cut.push(text.textContent);
  }
  const rolls = (node) => /auto|scroll/.test(getComputedStyle(node).overflowY);
  const scrolls = [...document.querySelectorAll(".lw-bench *")]
    .filter((n) => seen(n) && rolls(n) && n.scrollHeight > n.clientHeight + 1).map((n) => n.className);
  return {
    bench: tall(".lw-bench"), main: tall(".lw-bench-main"), beyond, cut, scrolls, texts: texts.length,
    page: document.documentElement.scrollWidth,
    covered: ["levels", "controls", "amplification"]
      .map((name) => seen(document.querySelector(`.lw-part-${name}`))),
  };
}
"""
SMALLEST = """
() => Math.min(...[...document.querySelectorAll(".lw-bench svg text")]
  .filter((n) => n.getClientRects().length)
  .map((n) => parseFloat(getComputedStyle(n).fontSize) * n.ownerSVGElement.getBoundingClientRect().width
    / n.ownerSVGElement.viewBox.baseVal.width))
"""
OVERLAPS = """
() => {
  const found = [];
  const seen = (n) => n.getClientRects().length && n.textContent.trim();
  for (const svg of document.querySelectorAll(".lw-amplification svg, .lw-levels svg")) {
    const texts = [...svg.querySelectorAll("text")].filter(seen);
    const boxes = texts.map((n) => n.getBoundingClientRect());
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, b] = [boxes[i], boxes[j]];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && tall > 5) found.push([texts[i].textContent, texts[j].textContent]);
    }
  }
  return found;
}
"""
CARD = ".lw-card:not([hidden])"
WANTED = """
() => {
  const able = "button:not(:disabled), input:not(:disabled), select, [tabindex='0']";
  const shown = (node) => node.getClientRects().length && node.tabIndex >= 0;
  const all = [...document.querySelectorAll(able)].filter(shown);
  all.forEach((node, at) => { node.dataset.stop = at; });
  return all.length;
}
"""
FOCUSED = """
() => {
  const node = document.activeElement;
  if (!node || node === document.body) return null;
  const style = getComputedStyle(node);
  return [Number(node.dataset.stop), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of one bucket with a compaction due."""
    folder = tmp_path_factory.mktemp("small")
    table = ts.connect(folder).create_table(
        "shop.orders", schema={"k": ts.BIGINT}, primary_key=["k"], options={"bucket": 1, "write-only": True}
    )
    for n in range(6):
        table.write({"k": list(range(n * 40, n * 40 + 100))})
    bench = widgets.Workbench(table.with_options({"write-only": "false"})).wait(240)
    return bench.to_html(folder / "small.html")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of twelve buckets."""
    folder = tmp_path_factory.mktemp("many")
    options = {"bucket": 12, "write-only": True}
    table = ts.connect(folder).create_table(
        "shop.items", schema={"k": ts.BIGINT}, primary_key=["k"], options=options
    )
    for _ in range(6):
        table.write({"k": list(range(400))})
    bench = widgets.Workbench(table.with_options({"write-only": "false"})).wait(240)
    return bench.to_html(folder / "many.html")


def measured(page: Page, width: int) -> dict[str, object]:
    """What stands where at a width; whatever the page shows, nothing may be beyond its edges."""
    page.page.set_viewport_size({"width": width, "height": 1000})
    page.page.wait_for_function(
        "() => [...document.querySelectorAll('.lw-pic > svg')].filter((s) => s.getClientRects().length)"
        ".every((s) => s.getBoundingClientRect().width >= s.parentNode.clientWidth - 2)"
    )
    actual: dict[str, object] = page.page.evaluate(MEASURED)
    assert actual["page"] == width, "nothing scrolls sideways"
    for kind in ("beyond", "cut", "scrolls"):
        assert actual[kind] == [], (width, kind)
    assert int(str(actual["texts"])) > 40, "the pictures are there"
    return actual


def test_a_workbench_fits_its_screen(page: Page, small: Path) -> None:
    page.open(small)
    for width in WIDTHS:
        actual = measured(page, width)
        assert actual["covered"] == [True, True, True]
        if width >= 1280:
            assert actual["bench"] <= 980
            assert actual["main"] <= 700
            levels, panel = (
                page.page.locator(f".lw-part-{name}").bounding_box() for name in ("levels", "controls")
            )
            assert levels is not None
            assert panel is not None
            assert levels["y"] == panel["y"], "they stand beside each other"
    page.page.locator(".lw-timeline").get_by_role("slider").focus()
    page.page.keyboard.press("Home")
    page.page.locator('.lw-controls[data-past^="#2"]').wait_for()
    assert measured(page, 1280)["bench"] <= 980


@pytest.mark.large
def test_many_buckets_are_a_table_first_then_a_bucket(page: Page, many: Path) -> None:
    page.open(many)
    for width in WIDTHS:
        actual = measured(page, width)
        assert actual["covered"] == [False, False, False]
        assert page.page.locator(".lw-part-health").is_visible()
        if width >= 1280:
            assert actual["bench"] <= 980
    page.page.locator(".lw-timeline").get_by_role("slider").focus()
    page.page.keyboard.press("Home")
    says = page.page.locator(".lw-health .lw-sub")
    assert says.inner_text() == "verdict, numbers and list are of #6 · the grid is marked at #1"
    page.page.keyboard.press("End")
    assert says.inner_text() == "shop.items at #6"
    table, bucket = (page.page.locator(f'.lw-scope [data-scope="{name}"]') for name in ("table", "bucket"))
    assert table.get_attribute("aria-selected") == "true"
    page.page.locator(".lw-health .bad").nth(2).click(position={"x": 60, "y": 12})
    assert bucket.get_attribute("aria-selected") == "true"
    assert page.page.locator(".lw-levels .lw-strip").is_visible()
    for width in WIDTHS:
        actual = measured(page, width)
        if width >= 1280:
            assert actual["bench"] <= 980
            assert actual["main"] <= 700
    bucket.focus()
    page.page.keyboard.press("ArrowLeft")
    assert page.page.locator(".lw-part-health").is_visible()
    assert page.page.locator(".lw-bench-main").is_hidden()


def test_a_card_never_covers_what_is_selected(page: Page, small: Path) -> None:
    page.open(small)
    files = page.page.locator(".lw-levels .file")
    files.nth(2).click()
    page.page.locator(".lw-levels .ring").wait_for()
    shown = 0
    for at in range(files.count()):
        box = files.nth(at).bounding_box()
        assert box is not None
        for share in (0.1, 0.5, 0.9):
            page.page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
            card, ring = (page.page.locator(f".lw-levels {name}").bounding_box() for name in (CARD, ".ring"))
            assert ring is not None
            if card is None:
                continue
            shown += 1
            beside = card["x"] >= ring["x"] + ring["width"] or card["x"] + card["width"] <= ring["x"]
            apart = card["y"] >= ring["y"] + ring["height"] or card["y"] + card["height"] <= ring["y"]
            assert beside or apart, (at, share)
    assert shown >= files.count()


def test_everything_is_reached_by_keys_and_seen(page: Page, many: Path) -> None:
    """In the order of the page, in forced colours, to the end: there is no trap."""
    page.page.emulate_media(forced_colors="active")
    page.open(many)
    for scope in ("table", "bucket"):
        tab = page.page.locator(f'[data-scope="{scope}"]')
        tab.click()
        pressed, other = page.page.evaluate(
            "() => ['true', 'false'].map((on) => getComputedStyle("
            "document.querySelector(`.lw-scope [aria-selected=${on}]`)).backgroundColor)"
        )
        assert pressed != other, "what is chosen is seen without colours of ours"
        page.page.evaluate("() => { document.body.tabIndex = -1; document.body.focus(); }")
        wanted = page.page.evaluate(WANTED)
        assert wanted > 12
        reached = []
        for _ in range(wanted + 1):
            page.page.keyboard.press("Tab")
            measured = page.page.evaluate(FOCUSED)
            if measured is None:
                break
            assert measured[1], f"focus is seen on {measured[0]}"
            reached.append(measured[0])
        assert len(reached) == wanted, (scope, reached)
        assert len(set(reached)) == wanted, "each once"


@pytest.mark.parametrize("zoom", [1, 2])
def test_a_telephone_and_a_large_zoom_clip_nothing(page: Page, small: Path, zoom: int) -> None:
    """400 CSS pixels, or 760 at 200 %: texts keep their size, and nothing is cut, covered or beyond the
    screen."""
    page.page.set_viewport_size({"width": 400 if zoom == 1 else 760 // zoom, "height": 900})
    page.open(small)
    measured = page.page.evaluate(MEASURED)
    assert (measured["beyond"], measured["cut"]) == ([], [])
    assert measured["page"] <= (400 if zoom == 1 else 380)
    assert page.page.evaluate(SMALLEST) >= 9.5, "pictures are drawn for this width, not shrunk to it"
    assert page.page.evaluate(OVERLAPS) == []


def test_without_scripts_a_page_is_its_picture(small: Path) -> None:
    context = browsing.browser().new_context(java_script_enabled=False)
    try:
        bare = context.new_page()
        bare.goto(small.as_uri())
        (box,) = [image.bounding_box() for image in bare.locator("noscript img").all()]
        assert box["width"] > 600
        assert box["height"] > 300
        assert bare.locator("noscript img").evaluate("node => node.naturalWidth") == 1040
        assert "need JavaScript" in bare.locator("noscript p").inner_text()
    finally:
        context.close()


COVERED = OVERLAPS.replace(".lw-amplification svg, .lw-levels svg", ".lw-pic > svg")
BEYOND = """
() => [...document.querySelectorAll(".lw-pic > svg text, .lw button, .lw select")]
  .filter((n) => n.getClientRects().length && !n.closest(".lw-glance"))
  .filter((n) => n.getBoundingClientRect().right > n.closest(".lw").getBoundingClientRect().right + 1)
  .map((n) => n.textContent)
"""


@pytest.mark.large
def test_further_views_fit_a_telephone(page: Page, many: Path, tmp_path: Path) -> None:
    """Each of them at 400 and 760 pixels: no label lies on another, and nothing is beyond the frame."""
    table = ts.open(many.parent / "shop.db" / "items")
    views: list[View] = [tool.build(table, "/0") for tool in TOOLS if not tool.refused(table)]
    views += [
        widgets.TradeOff(Workload("uniform", rows=500, keys=5_000)),
        widgets.LakeHealth(ts.connect(many.parent)),
        widgets.ShopGame(1),
    ]
    for view in views:
        if callable(wait := getattr(view, "wait", None)):
            wait()
    file = tmp_path / "views.html"
    file.write_text(widgets.page("views", views), encoding="utf-8")
    page.open(file)
    assert page.page.locator(".lw").count() >= len(views)
    for width in (400, 760):
        page.page.set_viewport_size({"width": width, "height": 900})
        page.page.wait_for_timeout(500)
        assert page.page.evaluate(COVERED) == [], width
        assert page.page.evaluate(BEYOND) == [], width
        assert page.page.evaluate("document.documentElement.scrollWidth") == width
