"""Words of the glossary in the text of a lesson: underlined in rendered markdown, with a card on hover."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab
from widgets.kit import glossary

pytestmark = [*needs_browser, pytest.mark.large]

TEXT = (
    "# Every level\n\nA *sorted run* is newer than `run` below it. The trigger counts **runs**, not a trunk."
)
LESSON = "class course:\n    begin = print\ncourse.begin('a lesson')"


def notebook(path: Path, code: str) -> Path:
    cells = [nbformat.v4.new_markdown_cell(TEXT), nbformat.v4.new_code_cell(code)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    created = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    path.write_text(nbformat.writes(created))
    return path


def test_terms_of_a_lesson_are_explained_and_other_notebooks_are_left_alone(lab: Lab, tmp_path: Path) -> None:
    lesson = lab.open_file(notebook(tmp_path / "lesson.ipynb", LESSON), run=False)
    page, shown = lesson.page, lesson.page.locator(".jp-MarkdownOutput").first
    terms = shown.locator(".tsw-term")
    terms.first.wait_for(timeout=120_000)
    assert terms.all_text_contents() == ["sorted run", "trigger"], (
        "each once, not in code, heads or other words"
    )
    assert "is newer than run below it. The trigger counts runs" in shown.text_content()
    terms.first.hover()
    card = page.locator(".tsw-term-card")
    card.wait_for(timeout=120_000)
    assert card.text_content() == f"run {glossary.meaning('run')}"
    page.mouse.move(1, 1)
    card.wait_for(state="detached", timeout=120_000)
    shown.dblclick()
    page.keyboard.press("Shift+Enter")
    terms.nth(1).wait_for(timeout=120_000)
    assert terms.all_text_contents() == ["sorted run", "trigger"], "rendered anew"
    lesson.close()
    lab._opened.remove(lesson)
    other = lab.open_file(notebook(tmp_path / "other.ipynb", "1 + 1"))
    other.page.locator(".jp-MarkdownOutput").first.wait_for(timeout=120_000)
    other.page.wait_for_timeout(300)
    assert other.page.locator(".tsw-term").count() == 0
    other.check()
