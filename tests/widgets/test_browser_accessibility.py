"""An audit by axe-core of every view and of a workbench with all further views, in both themes."""

from __future__ import annotations

from pathlib import Path

import pytest

import widgets
from tests.browsing import Page, needs_browser
from widgets.kit.view import View

pytestmark = needs_browser
GRAVE = ("serious", "critical")
WORDS_SHOWN = "label-content-name-mismatch"


@pytest.fixture(scope="module")
def audited(hostile_views: dict[str, View], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of all views."""
    page = tmp_path_factory.mktemp("audited") / "all.html"
    page.write_text(widgets.page("Every view", list(hostile_views.values())), encoding="utf-8")
    return page


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.sample(1)
def test_axe_finds_nothing_serious(audited: Path, page: Page, theme: str) -> None:
    from axe_playwright_python import base

    page.page.emulate_media(color_scheme=theme)
    page.open(audited)
    page.page.add_script_tag(content=Path(base.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    measured = page.page.evaluate(
        "(rules) => axe.run(document, { resultTypes: ['violations'], rules })",
        {WORDS_SHOWN: {"enabled": True}},
    )
    grave = [
        (violation["id"], node["html"][:200])
        for violation in measured["violations"]
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
        # the name of a part of a picture says more than the numbers that it shows, in its own order
        if not (violation["id"] == WORDS_SHOWN and node["html"].startswith("<g "))
    ]
    assert grave == []
    assert len(measured["passes"]) > 20, "the audit looked at the page"


TEXT_COLOURS = """() => {
  const probe = document.body.appendChild(document.createElement("i"));
  const system = (name) => { probe.style.color = name; return getComputedStyle(probe).color; };
  const known = ["Canvas", "CanvasText"].map(system);
  const texts = [...document.querySelectorAll(".lw svg text")].map((text) => getComputedStyle(text).fill);
  return [texts.length, [...new Set(texts)].filter((fill) => !known.includes(fill))];
}"""


def test_text_of_pictures_has_the_colours_that_the_system_forces(audited: Path, page: Page) -> None:
    page.page.emulate_media(forced_colors="active", color_scheme="dark")
    page.open(audited)
    count, strange = page.page.evaluate(TEXT_COLOURS)
    assert count > 500
    assert strange == []
