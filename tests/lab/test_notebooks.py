"""Every notebook in the real JupyterLab, once, at a small scale, played by clicks to full marks.

Each is opened as a learner opens it, with other parameters, and run from top to bottom: every cell runs, the
checks behind the cells assert what they claim, the widgets stand in the page and carry a static picture, the
page complains of nothing and asks no other host for anything. Then a newcomer answers every task by clicks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from papermill.inspection import inspect_notebook
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from tests.browsing import needs_browser
from tests.lab.jupyter import Lab, Notebook
from tests.lab.learner import WAIT, play
from tests.notebooks.checked import with_checks
from tests.suite import counterparts

pytestmark = [*needs_browser, pytest.mark.large]

SMALL = {
    **{"scale": 0.01, "scale_factor": "0.01", "race_seconds": 2, "batches": 24, "pairs": 3},
    **{"cluster": "own", "burst": 20_000},
}
SPARK = {  # those that need it, and what they say at the end when all is right
    "01_tpch_cdc_ingest": "equal, invariants hold",
    "14_sql": "files before",
    "15_lookup_join_dashboard": "sums: equal",
    "16_cdc_cockpit": "nothing lost at the seam",
}
MARIADB = {"16_cdc_cockpit"}
GAME = "19_keep_the_shop_fast"
"""It has no tasks: it is played in test_game.py."""
SECONDS, SPARK_SECONDS = 600, 1200  # for what hangs; they take some 10 and 70 on an idle machine
NOTEBOOKS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.spark] if path.stem in SPARK else [])
    for path in sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))
]
WIDGET = "application/vnd.jupyter.widget-view+json"
CONTROLS = "interactive("
"""How controls of ipywidgets begin, which have no picture."""


def parameterized(path: Path, folder: Path) -> Path:
    """A copy of a notebook with its checks, and with those of the small parameters that it has."""
    parameters = inspect_notebook(str(path))
    given = {name: value for name, value in SMALL.items() if name in parameters}
    assert "solve" in parameters, "the engine can answer the tasks of every notebook"
    given["solve"] = path.stem == GAME
    created = with_checks(parameterize_notebook(load_notebook_node(str(path)), given), path.stem)
    for cell in created.cells:
        cell.metadata.pop("papermill", None)
    copy = folder / path.name
    nbformat.write(created, copy)
    return copy


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_the_notebook_runs_and_a_newcomer_gets_full_marks_by_clicks_alone(
    lab: Lab, path: Path, tmp_path: Path
) -> None:
    if path.stem in SPARK:
        counterparts.need("Java")
    if path.stem in MARIADB:
        counterparts.need("MariaDB")
    notebook = lab.open_file(parameterized(path, tmp_path), run=False)
    notebook.run_all(seconds=SPARK_SECONDS if path.stem in SPARK else SECONDS)
    notebook.check()
    outputs = notebook.outputs()
    views = [output["data"] for output in outputs if WIDGET in output.get("data", {})]
    views = [view for view in views if not "".join(view["text/plain"]).startswith(CONTROLS)]
    assert all(has_picture(view) for view in views), "each widget has a static picture"
    assert notebook.page.locator(".jp-OutputArea-output .lw svg").count() >= min(len(views), 1)
    assert errors_shown(notebook.page) == []
    if path.stem in SPARK:
        assert SPARK[path.stem] in notebook.printed()
    if path.stem != GAME:
        play_to_full_marks(notebook)
        notebook.check()


def play_to_full_marks(notebook: Notebook) -> None:
    """Answer every task; nothing is answered before, and all is shown afterwards."""
    page = notebook.page
    assert "not answered" not in page.locator(".jp-Notebook").first.inner_text(), "Run All shows a clean page"
    assert page.locator(".lw-veil").count() == page.locator('.lw-veil[data-open="false"]').count() > 0
    tasks, first = play(notebook)
    score = page.locator(".lw-score .lw-sub").first
    assert f"{tasks} of {tasks} tasks solved, {first} at the first try" in score.text_content()
    for veil in page.locator('.lw-veil[data-open="false"]').all():  # what was veiled is shown
        veil.wait_for(state="detached", timeout=WAIT)
    assert page.locator('.lw-veil[data-open="false"]').count() == 0


def has_picture(view: dict[str, Any]) -> bool:
    """Whether an output can be seen where there is no kernel."""
    html = view.get("text/html", "")
    return "data:image/svg+xml;base64," in (html if isinstance(html, str) else "".join(html))


def errors_shown(page: Any) -> list[str]:
    """What the views in the page say went wrong."""
    return page.evaluate(
        "[...document.querySelectorAll('.lw-error:not([hidden])')].map(node => node.textContent)"
    )
