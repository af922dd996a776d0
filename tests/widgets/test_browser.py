"""Pages without a kernel in a real browser: click, scrub, keys, hover; no request, no console error."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import widgets
from tests.browsing import Page, needs_browser
from tests.widgets import frames

if TYPE_CHECKING:
    from playwright import sync_api as playwright

pytestmark = needs_browser


@pytest.fixture(scope="module")
def cockpit_file() -> Iterator[Path]:
    """The page of a small table with a compaction in its history."""
    table = frames.FakeTable(appends=7)
    table.compact()
    for _ in range(6):
        table.append()
    with tempfile.TemporaryDirectory() as folder:
        yield widgets.Workbench(table).to_html(Path(folder) / "cockpit.html", title="shop.orders")


def test_keys_step_through_snapshots_and_the_levels_follow(page: Page, cockpit_file: Path) -> None:
    page.open(cockpit_file)
    slider = page.page.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext").startswith("14, APPEND")
    slider.focus()
    page.page.keyboard.press("ArrowLeft")
    assert page.text(".lw-levels h3") == "Levels at #13"
    page.page.keyboard.press("Shift+ArrowLeft")
    assert page.text(".lw-levels h3") == "Levels at #3"
    page.page.keyboard.press("Home")
    assert page.text(".lw-levels h3") == "Levels at #1"
    assert page.text(".lw-timeline .cursor text").startswith("#1 APPEND")
    page.page.keyboard.press("End")
    assert slider.get_attribute("aria-valuenow") == "13"


def test_scrubbing_moves_the_cursor_and_the_levels(page: Page, cockpit_file: Path) -> None:
    page.open(cockpit_file)
    box = page.page.locator(".lw-timeline .lw-pic > svg").bounding_box()
    y = box["y"] + 100
    page.page.mouse.move(box["x"] + 120, y)
    page.page.mouse.down()
    seen = set()
    for at in range(8):
        page.page.mouse.move(box["x"] + 120 + at * 66, y)
        seen.add(page.text(".lw-levels h3"))
    page.page.mouse.up()
    assert len(seen) == 8
    assert "viewing the past" in page.text(".lw-timeline .lw-chip")
    page.page.get_by_role("button", name="go to the latest snapshot").click()
    assert page.text(".lw-levels h3") == "Levels at #14"


def test_the_picture_does_not_jump_while_stepping(page: Page, cockpit_file: Path) -> None:
    page.open(cockpit_file)
    page.page.get_by_role("slider").focus()
    heights, rows = set(), set()
    for _ in range(13):
        page.page.keyboard.press("ArrowLeft")
        heights.add(page.page.evaluate("document.documentElement.scrollHeight"))
        rows.add(page.page.locator(".lw-levels svg text", has_text="L5").first.get_attribute("y"))
    assert len(rows) == 1
    assert len(heights) == 1


def test_a_hatch_does_not_go_with_the_picture_above_that_is_hidden(page: Page, tmp_path: Path) -> None:
    """As JupyterLab hides cells out of sight: the first of equal ids counts in a document, even if hidden."""
    views = [widgets.LsmLevels(frames.FakeTable(appends=2)) for _ in range(2)]
    file = tmp_path / "two.html"
    file.write_text(widgets.page("two", views), encoding="utf-8")
    page.open(file)
    ids = page.page.locator("pattern").evaluate_all("all => all.map((p) => p.id)")
    assert len(set(ids)) == len(ids) == 4
    hatched = page.page.locator('[data-view="1"] [fill^="url(#lw-minus"]').last.element_handle()
    first = page.page.locator('[data-view="0"]')
    first.evaluate("node => { node.style.display = 'none'; }")
    hidden = hatched.screenshot()
    first.evaluate("node => node.remove()")
    assert hidden == hatched.screenshot()
    hatched.evaluate("node => node.setAttribute('fill', 'none')")
    assert hidden != hatched.screenshot()


def test_a_click_selects_a_file_and_arrows_walk_on(page: Page, cockpit_file: Path) -> None:
    page.open(cockpit_file)
    page.page.locator('.file[data-name^="base--0-1"]').click()
    assert page.text(".lw-strip code") == "base--0-1"
    facts = page.page.locator(".lw-facts [data-fact]").evaluate_all(
        "all => Object.fromEntries(all.map((row) => [row.dataset.fact, row.lastChild.textContent]))"
    )
    assert {n: facts[n] for n in ("size", "keys", "deletes", "masked")} == {
        "size": "96.0 MiB",
        "keys": "375,000 … 749,999",
        "deletes": "0",
        "masked": "–",
    }
    assert page.page.locator(".lw-levels .lw-pic .ring").count() == 1
    page.page.keyboard.press("ArrowRight")
    assert page.text(".lw-strip code") == "base--0-2"
    page.page.keyboard.press("ArrowUp")
    assert page.text(".lw-strip code").startswith("data-")
    page.page.keyboard.press("Escape")
    assert page.page.locator(".lw-strip code").count() == 0


def test_an_address_opens_one_moment_and_one_file(page: Page, cockpit_file: Path) -> None:
    page.open(cockpit_file)
    assert "#" not in page.page.url
    page.page.get_by_role("slider").focus()
    page.page.keyboard.press("ArrowLeft")
    page.page.locator('.file[data-name^="base--0-1"]').click()
    page.page.wait_for_url("**#snapshot=13*file=base--0-1*")
    address = page.page.url
    page.page.keyboard.press("Escape")
    assert page.page.url.endswith("#snapshot=13")
    page.page.goto("about:blank")
    page.page.goto(address)
    page.page.locator("body[data-ready=true]").wait_for()
    assert page.text(".lw-levels h3") == "Levels at #13"
    assert page.text(".lw-strip code") == "base--0-1"
    page.page.evaluate("location.hash = 'snapshot=3'")
    page.page.locator(".lw-levels h3", has_text="Levels at #3").wait_for()
    page.page.evaluate("location.hash = 'snapshot=<b>&file=%22%3E<img src=x>&bucket=nowhere'")
    assert page.text(".lw-levels h3") == "Levels at #3"
    assert page.page.locator(".lw-levels img").count() == 0
    page.requests[:] = page.requests[:1]  # the page was opened twice, by its address
    page.page.evaluate("location.hash = ''")


@pytest.mark.parametrize(("wide", "same_row"), [(1600, True), (760, False)])
@pytest.mark.sample(1)
def test_two_moments_of_a_table_stand_side_by_side(
    page: Page, tmp_path: Path, wide: int, same_row: bool
) -> None:
    table = frames.FakeTable(appends=7)
    table.compact()
    before, after = widgets.Workbench(table), widgets.Workbench(table)
    before.timeline.snapshot = 3
    page.page.set_viewport_size({"width": wide, "height": 1000})
    page.open(widgets.Beside(before, after).to_html(tmp_path / "both.html"))
    titles = page.page.locator(".lw-levels h3").all_text_contents()
    assert [title.split("#")[-1] for title in titles] == ["3", "8"], titles
    left, right = (each.bounding_box() for each in page.page.locator(".lw-bench").all())
    assert (left["y"] == right["y"]) is same_row
    assert page.page.evaluate("document.documentElement.scrollWidth") <= wide
    page.page.get_by_role("slider").first.focus()
    page.page.keyboard.press("Home")
    titles = page.page.locator(".lw-levels h3").all_text_contents()
    assert [title.split("#")[-1] for title in titles] == ["1", "8"], titles
    words, foot = (
        page.page.locator(f".lw-controls .lw-{name}").first.bounding_box() for name in ("past", "foot")
    )
    assert foot["y"] + foot["height"] <= words["y"]


def test_hovering_a_file_shows_its_card(page: Page, cockpit_file: Path) -> None:
    page.open(cockpit_file)
    card = page.page.locator(".lw-levels .lw-card")
    assert card.is_hidden()
    page.page.locator('.file[data-name^="base--0-1"]').hover()
    assert card.is_visible()
    assert "L5, 96.0 MiB" in card.text_content()
    page.page.mouse.move(5, 5)
    assert card.is_hidden()


def test_bytes_mode_and_jump_field_work(page: Page, cockpit_file: Path) -> None:
    page.open(cockpit_file)
    page.page.get_by_role("button", name="bytes", exact=True).click()
    assert page.page.get_by_role("button", name="bytes", exact=True).get_attribute("aria-pressed") == "true"
    field = page.page.get_by_label("jump to snapshot id, tag or time")
    field.fill("#5")
    field.press("Enter")
    assert page.text(".lw-levels h3") == "Levels at #5"


def test_play_runs_to_the_end_and_stops(page: Page, cockpit_file: Path) -> None:
    page.open(cockpit_file)
    field = page.page.get_by_label("jump to snapshot id, tag or time")
    field.fill("12")
    field.press("Enter")
    page.page.keyboard.press("Space")
    page.page.locator('[role=slider][aria-valuenow="13"]').wait_for()
    page.page.get_by_role("button", name="play", exact=True).wait_for()


def test_buttons_that_need_a_kernel_are_off(page: Page, cockpit_file: Path) -> None:
    page.open(cockpit_file)
    buttons = page.page.locator(".lw-controls .lw-foot button:not(.lw-quiet)")
    assert all(buttons.nth(at).is_disabled() for at in range(buttons.count()))
    assert page.text(".lw-controls .lw-foot .lw-hint") == "needs a kernel"


@pytest.mark.large
def test_ten_thousand_commits_turn_pages_in_the_lens(page: Page, tmp_path: Path) -> None:
    timeline = widgets.SnapshotTimeline(frames.commits(10_000))
    page.open(timeline.to_html(tmp_path / "big.html"))
    slider = page.page.get_by_role("slider")
    slider.focus()
    page.page.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext").startswith("1, ")
    box = page.page.locator(".lw-timeline .lw-pic > svg").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 50)
    chosen = int(slider.get_attribute("aria-valuenow"))
    assert 4_000 < chosen < 6_000
    assert page.text(".cursor text").startswith(f"#{chosen + 1} ")
    lines = page.page.locator(".lw-timeline .cursor path")
    assert lines.count() == 4, "a line with its handle through the density, another one through the lens"
    across = lines.first.bounding_box()
    assert abs(across["x"] + across["width"] / 2 - box["x"] - box["width"] / 2) < 6


def test_another_bucket_opens_from_the_overview(page: Page, tmp_path: Path) -> None:
    places = tuple((f"y={1992 + n // 12}/m={n % 12 + 1}", b) for n in range(24) for b in range(2))
    levels = widgets.LsmLevels(frames.FakeTable(buckets=places, appends=5))
    page.open(levels.to_html(tmp_path / "many.html"))
    page.page.locator('.cell[data-bucket="y=1993/m=4/1"]').click()
    assert page.text(".lw-opened").startswith("y=1993/m=4 · bucket 1")
    assert page.page.locator(".lw-over .ring").count() == 1
    page.page.get_by_role("button", name="files", exact=True).click()
    assert "files" in page.text(".lw-over svg")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [700, 960, 1080])
@pytest.mark.sample(2)
def test_no_width_scrolls_sideways_and_no_label_leaves_its_picture(
    browser: "playwright.Browser", cockpit_file: Path, width: int, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = Page(context.new_page()).open(cockpit_file)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.page.evaluate(
        """[...document.querySelectorAll('.lw-pic > svg')].flatMap(svg => {
          const box = svg.getBoundingClientRect();
          return [...svg.querySelectorAll('text')].filter(t => {
            const b = t.getBoundingClientRect();
            return b.left < box.left - 1 || b.right > box.right + 1 || b.bottom > box.bottom + 2;
          }).map(t => t.textContent);
        })"""
    )
    assert outside == []
    ground = page.page.evaluate("getComputedStyle(document.querySelector('.lw-levels')).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(17, 17, 17)")
    page.check()
    context.close()
