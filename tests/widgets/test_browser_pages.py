"""Pages of notebooks and the index of a playground in a real browser: light or dark as the system is."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from notebooks.cli.pages import PageParts, notebook_page
from notebooks.cli.playground import index_of
from notebooks.course import cards
from tests.browsing import Page, needs_browser
from widgets.kit import assets
from widgets.kit.theme import TOKENS, Theme

pytestmark = needs_browser
GRAVE = ("serious", "critical")
CODE = """import pyarrow as pa

@total
def rows(n: int = 3) -> str:  # a comment
    return f"{n}" if n in (1, 2) else "x"
"""
COLOURS = "() => [document.body, ...document.querySelectorAll('.course-card, .lw')].map((node) => " + (
    "getComputedStyle(node).backgroundColor)"
)
VIEW = '<section class="lw" aria-label="view"><p class="lw-sub">said</p></section>'


def notebook() -> nbformat.NotebookNode:
    """Prose, code with output, a card, and a view."""
    new = nbformat.v4
    printed = new.new_output("stream", text="3 of 5 " * 40)
    card = new.new_output(
        "display_data", {"text/html": cards.verdict("right", "✓", "Yes", ["so"], "1 of 2").html}
    )
    view = new.new_output("display_data", {"text/html": VIEW})
    text = new.new_markdown_cell(
        "# A lesson\n\nOf `runs`, and [more](02_t.ipynb).\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    )
    return new.new_notebook(cells=[text, new.new_code_cell(CODE, outputs=[printed, card, view])])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", ["index", "notebook"])
@pytest.mark.sample(2)
def test_pages_follow_the_system_and_are_read_well(
    page: Page, tmp_path: Path, theme: Theme, width: int, name: str
) -> None:
    from axe_playwright_python import base

    parts = PageParts(style=assets.sheet())
    text = index_of([]) if name == "index" else notebook_page(notebook(), title="A lesson", parts=parts)
    page.page.emulate_media(color_scheme=theme)
    page.page.set_viewport_size({"width": width, "height": 900})
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page.page.goto((tmp_path / "page.html").as_uri())
    ground, panel = (f"rgb{tuple(bytes.fromhex(TOKENS[theme][token][1:]))}" for token in ("bg", "panel"))
    colours = page.page.evaluate(COLOURS)
    assert colours == ([ground, panel, ground] if name == "notebook" else [ground])
    assert page.page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.page.evaluate(Path(base.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    audit = page.page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    grave = [
        (violation["id"], node["html"][:120])
        for violation in audit["violations"]
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
    ]
    assert grave == []
    assert len(audit["passes"]) > 5, "the audit looked at the page"
