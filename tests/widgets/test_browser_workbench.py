"""The workbench in a page without a kernel: parts follow each other, further views open, narrow and wide."""

from pathlib import Path

import pytest

import tablestore as ts
import widgets
from tests.browsing import Page, needs_browser

pytestmark = needs_browser
SCHEMA = {"k": ts.BIGINT, "v": ts.STRING}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    options = {"bucket": 2, "write-only": True}
    table = ts.connect(folder).create_table("shop.orders", schema=SCHEMA, primary_key=["k"], options=options)
    for n in range(5):
        table.write({"k": list(range(n * 40, n * 40 + 100)), "v": ["x"] * 100})
    bench = widgets.Workbench(table)
    for tool in ("files", "findings"):
        bench.show(tool)
    return bench.to_html(folder / "bench.html")


def test_every_part_follows_the_timeline_and_the_bucket(page: Page, file: Path) -> None:
    page.open(file)
    page.page.locator(".lw-timeline").get_by_role("slider").focus()
    page.page.keyboard.press("ArrowLeft")
    assert page.text(".lw-levels h3") == "Levels at #4"
    assert (
        page.page.locator(".lw-amplification").get_by_role("slider").first.get_attribute("aria-valuenow")
        == "3"
    )
    page.page.keyboard.press("End")
    page.page.get_by_label("bucket", exact=True).select_option("/1")
    assert page.text(".lw-opened").startswith("bucket 1")


def test_one_further_view_is_open_at_a_time_and_missing_ones_say_so(page: Page, file: Path) -> None:
    page.open(file)
    doctor = page.page.locator("button[data-tool=findings]")
    assert doctor.get_attribute("aria-expanded") == "true"
    page.page.locator("button[data-tool=files]").click()
    assert page.page.locator(".lw-drawer > .lw-part:visible").count() == 1
    assert page.page.locator(".lw-explorer").is_visible()
    merge = page.page.locator("button[data-tool=merge]")
    assert merge.is_disabled()
    assert merge.get_attribute("title").startswith("not in this file")


def test_the_line_of_code_shows_on_demand(page: Page, file: Path) -> None:
    page.open(file)
    page.page.locator(".lw-levels .lw-quiet").click()
    assert "levels(" in page.text(".lw-levels .lw-code")


@pytest.mark.parametrize("width", [700, 960, 1080])
@pytest.mark.sample(1)
def test_nothing_scrolls_sideways(page: Page, file: Path, width: int) -> None:
    page.page.set_viewport_size({"width": width, "height": 900})
    page.open(file)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    levels, panel = (page.page.locator(f".lw-part-{name}").bounding_box() for name in ("levels", "controls"))
    assert (panel["y"] == levels["y"]) == (width > 970)


def test_a_further_view_opens_where_the_eye_is(page: Page, file: Path) -> None:
    page.page.set_viewport_size({"width": 1080, "height": 700})
    page.open(file)
    page.page.locator("button[data-tool=files]").click()
    box = page.page.locator(".lw-explorer").bounding_box()
    assert 0 <= box["y"] < 300, (
        "its head stands in the upper half of the screen, or as far up as the page goes"
    )
    assert page.page.locator("button[data-tool=files]").bounding_box()["y"] >= 0
