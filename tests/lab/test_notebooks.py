"""Every notebook in the real JupyterLab, once, at a small scale, its tasks answered by the engine.

Each is opened as a learner opens it, with other parameters, and run from top to bottom: every cell runs, its
claims are asserted in its own cells, its widgets stand in the page and carry a static picture, the page
complains of nothing and asks no other host for anything.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from papermill.inspection import inspect_notebook
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from notebooks.demo import mariadb
from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = needs_browser

SMALL = {
    **{"scale": 0.01, "scale_factor": "0.01", "solve": True, "race_seconds": 2, "batches": 24, "pairs": 3},
    **{"cluster": "own", "burst": 20_000},
}
SPARK = {  # those that need it, and what they say at the end when all is right
    "01_tpch_cdc_ingest": "equal, invariants hold",
    "14_sql": "files before",
    "15_lookup_join_dashboard": "sums: equal",
    "16_cdc_cockpit": "nothing lost at the seam",
}
MARIADB = {"16_cdc_cockpit"}
SECONDS, SPARK_SECONDS = 600, 1200  # for what hangs; they take some 10 and 70 on an idle machine
NOTEBOOKS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.spark] if path.stem in SPARK else [])
    for path in sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))
]
WIDGET = "application/vnd.jupyter.widget-view+json"


def parameterized(path: Path, folder: Path) -> Path:
    """A copy of a notebook with those of the small parameters that it has."""
    known = inspect_notebook(str(path))
    given = {name: value for name, value in SMALL.items() if name in known}
    assert "solve" in known, "the engine can answer the tasks of every notebook"
    made = parameterize_notebook(load_notebook_node(str(path)), given)
    for cell in made.cells:
        cell.metadata.pop("papermill", None)
    copy = folder / path.name
    nbformat.write(made, copy)
    return copy


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_the_notebook_runs(lab: Lab, path: Path, tmp_path: Path) -> None:
    if path.stem in SPARK and shutil.which("java") is None:
        pytest.skip("needs Java")
    if path.stem in MARIADB and mariadb.missing():
        pytest.skip(f"needs MariaDB: {mariadb.missing()}")
    notebook = lab.open_file(parameterized(path, tmp_path), run=False)
    notebook.run_all(seconds=SPARK_SECONDS if path.stem in SPARK else SECONDS)
    notebook.check()
    outputs = notebook.outputs()
    views = [output["data"] for output in outputs if WIDGET in output.get("data", {})]
    assert all(has_picture(view) for view in views), "each widget has a static picture"
    assert notebook.page.locator(".jp-OutputArea-output .lw svg").count() >= min(len(views), 1)
    assert errors_shown(notebook.page) == []
    if path.stem in SPARK:
        assert SPARK[path.stem] in notebook.printed()


def has_picture(view: dict[str, Any]) -> bool:
    """Whether an output can be seen where there is no kernel."""
    html = view.get("text/html", "")
    return "data:image/svg+xml;base64," in (html if isinstance(html, str) else "".join(html))


def errors_shown(page: Any) -> list[str]:
    """What the views in the page say went wrong."""
    return page.evaluate(
        "[...document.querySelectorAll('.lw-error:not([hidden])')].map(node => node.textContent)"
    )
