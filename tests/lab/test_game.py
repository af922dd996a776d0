"""The game and the trade-off map in a real JupyterLab: by keys and buttons, with the kernel's clock."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab
from tests.widgets.test_game import winner
from widgets.game.rules import MOVES, played_by
from widgets.game.stages import STAGES

pytestmark = [*needs_browser, pytest.mark.large]

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "19_keep_the_shop_fast.ipynb"
GAME = "import widgets\ngame = widgets.ShopGame(1, seed=7)\ngame"
MAP = """
import widgets
view = widgets.TradeOff("uniform", flushes=20, triggers=[3, 5], ratios=[1, 200], multipliers=[2, 10])
view.wait(120)"""


def test_moves_go_by_keys_and_the_clock_by_space(lab: Lab) -> None:
    notebook = lab.open([GAME])
    page, shown = notebook.page, notebook.page.locator(".lw-game")
    shown.get_by_role("application").focus()
    for tick in range(1, 5):
        page.keyboard.press("t")
        notebook.expect("game.tick", tick)
    page.keyboard.press("f")
    notebook.expect("game.moves", [[4, "flush"]])
    shown.locator(".lw-log li", has_text="flushed 4,000 orders: 1 run").wait_for()
    page.keyboard.press("s")
    page.keyboard.press("-")
    notebook.expect("(game.moves, game.shop.trigger)", [[[4, "flush"], [4, "lower"]], 4])
    step = shown.get_by_role("button", name="Step (s)")
    assert step.get_attribute("aria-disabled") == "true"
    assert "runs 1 < trigger 4" in step.get_attribute("title")
    assert "trigger 4" in shown.locator(".lw-says").text_content()
    page.keyboard.press("x")
    notebook.expect("game.pace", 2)
    page.keyboard.press(" ")
    notebook.expect("game.tick > 6", True, seconds=120)
    page.keyboard.press(" ")
    notebook.expect("(game.playing, game._jobs.busy)", [False, False], seconds=120)
    shown.get_by_role("button", name="2", exact=True).click()
    notebook.expect("(game.stage, game.tick, game.shop.stage.name)", [2, 0, "Returns"])
    notebook.check()


def test_the_slider_of_the_course_drives_the_game_and_follows_it(lab: Lab) -> None:
    cells = [cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells]
    (controls,) = (source for source in cells if "from ipywidgets import" in source)
    notebook = lab.open([GAME, controls])
    page = notebook.page
    says = page.locator(".jp-OutputArea-output", has_text=re.compile(r"stage \d, ")).last
    says.get_by_text(f"stage 1, {STAGES[0].name}:").wait_for()
    page.locator(".widget-slider .noUi-handle").press("ArrowRight")
    notebook.expect("(game.stage, game.shop.stage.number)", [2, 2])
    says.get_by_text(f"stage 2, {STAGES[1].name}:").wait_for()
    page.locator(".lw-game").get_by_role("button", name="4", exact=True).click()
    notebook.expect("(stage.value, game.stage)", [4, 4])
    says.get_by_text(f"stage 4, {STAGES[3].name}:").wait_for()
    notebook.check()


def test_a_stage_is_won_by_keys_alone(lab: Lab) -> None:
    notebook = lab.open(["import widgets\ngame = widgets.ShopGame(4, seed=7)\ngame"])
    page, shown = notebook.page, notebook.page.locator(".lw-game")
    shown.get_by_role("application").focus()
    played = played_by(winner(STAGES[3]), STAGES[3], seed=7)
    keys = dict(zip(MOVES, "fsc-+lb", strict=True))
    for tick in range(90):
        for key in (*(keys[move] for at, move in played.moves if at == tick), "t"):
            page.keyboard.press(key)
    notebook.expect("game.tick", 90, seconds=240)
    verdict = notebook.kernel("game.model.verdict")
    assert verdict.startswith(
        f"Won: every budget was kept. {played.score} points, ahead of universal and leveled."
    )
    shown.locator(".lw-says", has_text=verdict).wait_for(timeout=120_000)
    assert shown.get_by_role("button", name="let one tick pass").is_disabled()
    notebook.check()


def test_sliders_keys_and_clicks_move_through_the_map(lab: Lab) -> None:
    notebook = lab.open([MAP])
    shown = notebook.page.locator(".lw-trade_off")
    assert notebook.kernel("view.setting.text") == "universal, trigger 5, size-ratio 1 %"
    shown.get_by_role("slider", name="ratio").press("ArrowRight")
    notebook.expect("view.setting.text", "universal, trigger 5, size-ratio 200 %")
    shown.get_by_role("application").press("s")
    notebook.expect("view.setting.text", "leveled, trigger 5, level ×10")
    shown.locator(".lw-opened", has_text="The tree of leveled, trigger 5, level ×10").wait_for()
    notebook.check()
