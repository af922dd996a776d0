"""StepLanes without a kernel, in a real browser: keys, buttons and clicks walk through the steps."""

from __future__ import annotations

from pathlib import Path

from tests.browsing import Page, needs_browser
from tests.widgets.test_steps import XSS, killed, story
from widgets import StepLanes
from widgets.steps.model import StepsModel, StoryStep

pytestmark = needs_browser


def test_keys_buttons_and_clicks_move_through_the_steps(page: Page, tmp_path: Path) -> None:
    page.open(StepLanes(story()).to_html(tmp_path / "steps.html"))
    slider = page.page.get_by_role("slider", name="step")
    assert slider.get_attribute("aria-valuetext") == "5 of 5 · A · is refused"
    tall = slider.bounding_box()["height"]
    slider.focus()
    page.page.keyboard.press("Home")
    assert slider.get_attribute("aria-valuenow") == "1"
    page.page.keyboard.press("ArrowRight")
    page.page.get_by_role("button", name="one step on").click()
    assert slider.get_attribute("aria-valuetext") == "3 of 5 · B · publishes #4"
    assert page.text(".lw-says") == "3 of 5 · B · publishes #4"
    page.page.locator('.step[data-step="1"]').click()
    assert slider.get_attribute("aria-valuetext") == "2 of 5 · A · writes 3 manifests"
    assert "no snapshot names them" in slider.text_content()
    assert slider.bounding_box()["height"] == tall
    page.page.keyboard.press("End")
    assert slider.get_attribute("aria-valuenow") == "5"


def test_a_killed_story_says_what_is_found(page: Page, tmp_path: Path) -> None:
    page.open(StepLanes(killed(), index=0).to_html(tmp_path / "killed.html"))
    slider = page.page.get_by_role("slider", name="step")
    slider.focus()
    page.page.keyboard.press("Shift+ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "4 of 4 · nobody was killed"


def test_text_of_steps_stays_text_in_the_page(page: Page, tmp_path: Path) -> None:
    model = StepsModel(XSS, XSS, (XSS,), (StoryStep(0, "read", XSS, XSS, mark=XSS),))
    page.open(StepLanes(model).to_html(tmp_path / "text.html"))
    assert page.page.locator("img").count() == 0
    assert XSS in page.page.locator(".lw-steps").text_content()
