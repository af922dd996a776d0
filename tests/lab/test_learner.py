"""The path of a learner: notebooks of the course played by clicks only, to full marks, in a real JupyterLab.

Two of them in every run; with `--rounds 6` or more all that are played by clicking.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from notebooks.demo import mariadb
from tests.browsing import needs_browser
from tests.lab.jupyter import Lab
from tests.lab.learner import play

pytestmark = needs_browser
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PLAYED = tuple(f"{number:02}" for number in range(19))
ALWAYS, ALL_ROUNDS = ("02", "03"), 6
SPARK, MARIADB = ("01", "14", "15", "16"), ("16",)


@pytest.mark.parametrize("number", PLAYED)
def test_a_newcomer_gets_full_marks_by_clicks_alone(
    lab: Lab, number: str, request: pytest.FixtureRequest
) -> None:
    if number not in ALWAYS and request.config.option.rounds < ALL_ROUNDS:
        pytest.skip("played with --rounds 6")
    if number in SPARK and shutil.which("java") is None:
        pytest.skip("needs Java")
    if number in MARIADB and mariadb.missing():
        pytest.skip(f"needs MariaDB: {mariadb.missing()}")
    notebook = lab.open_file(next(NOTEBOOKS.glob(f"{number}_*.ipynb")))
    page = notebook.page
    assert "not answered" not in page.locator(".jp-Notebook").first.inner_text(), "Run All shows a clean page"
    assert page.locator(".lw-veil").count() == page.locator('.lw-veil[data-open="false"]').count() > 0
    tasks = play(notebook)
    score = page.locator(".lw-score .lw-sub").first
    assert f"{tasks} of {tasks} tasks solved, {tasks} at the first try" in score.text_content()
    assert page.locator('.lw-veil[data-open="false"]').count() == 0, "what was veiled is shown"
    notebook.check()
