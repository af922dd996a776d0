"""The game in a page without a kernel: the recording is played, its result is in sight."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browsing import Page, needs_browser
from tests.widgets.test_game import KEEPER, game_of, winner
from widgets import ShopGame
from widgets.game.stages import STAGES
from widgets.kit import page as pages

pytestmark = needs_browser


@pytest.mark.large
def test_result_and_scores_are_seen_without_scrolling(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "WIDE_WIDTHS", pages.WIDE_WIDTHS[:1])  # 150 pictures for each width
    stage = STAGES[3]
    game = ShopGame(4, moves=game_of(winner(stage), stage.number).moves, ticks=stage.ticks)
    page.page.set_viewport_size({"width": 1280, "height": 800})
    page.open(game.to_html(tmp_path / "game.html"))
    assert len(game.shop.busy) == 4
    for words in (re.compile("^✓ Won: every budget was kept"), re.compile("^you [0-9]+$"), "leveled"):
        box = page.page.locator(".lw-game svg text", has_text=words).first.bounding_box()
        assert box["y"] + box["height"] < 800, words


def test_a_page_plays_the_recording_and_steps_by_moves(page: Page, tmp_path) -> None:
    game = ShopGame(1, moves=game_of(KEEPER, 1).moves, ticks=20)
    page.open(game.to_html(tmp_path / "game.html"))
    clock, log = page.page.locator(".lw-clock"), page.page.locator(".lw-log li").first
    assert clock.text_content() == "tick 20 / 90"
    host, slider = page.page.get_by_role("application"), page.page.get_by_role("slider")
    host.press("ArrowLeft")
    assert clock.text_content() == "tick 20 / 90"
    host.press("ArrowLeft")
    assert clock.text_content() == "tick 19 / 90"
    slider.press("Home")
    assert clock.text_content() == "tick 0 / 90"
    flush = page.page.get_by_role("button", name="Flush (f)")
    for ticks, words in ((0, "0youtrigger 4"), (4, "4youflushed 4,000 orders: 1 run")):
        page.page.get_by_role("button", name="Next move").click()
        assert clock.text_content() == f"tick {ticks} / 90"
        assert log.text_content() == words
    assert flush.get_attribute("data-made") == ""
    assert flush.get_attribute("aria-disabled") == "true"
    assert flush.get_attribute("title") == "Flush: moves need a kernel"
    host.press("p")
    assert slider.get_attribute("aria-valuetext") == "tick 0, lower"
    assert flush.get_attribute("data-made") is None
    page.page.get_by_role("button", name="play or pause").click()
    page.page.locator('.lw-game[data-n="3"]').wait_for(timeout=120_000)
    page.check()
