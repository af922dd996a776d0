"""Notebook 18 beside a real Fluss; in JupyterLab, with this engine's own coordinator, tests/lab runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbclient import NotebookClient
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook

from notebooks.demo import fluss
from tests.suite import counterparts

pytestmark = pytest.mark.large

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "18_tiering.ipynb"
WIDGET = "application/vnd.jupyter.widget-view+json"
SECONDS = 600  # of a cell that hangs


def test_notebook_18_runs_beside_a_real_fluss(tmp_path: Path) -> None:
    """Each of its cells asserts what it claims: an error in one ends the run."""
    counterparts.need("Fluss")
    given = {"cluster": "fluss", "burst": 20_000, "solve": True, "warehouse": str(tmp_path / "lake")}
    created = parameterize_notebook(load_notebook_node(str(NOTEBOOK)), given)
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    done = NotebookClient(created, kernel_name="python3", timeout=SECONDS, resources=place).execute()
    outputs = [output for cell in done.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in outputs)
    assert f"Fluss {fluss.VERSION} at 127.0.0.1:" in printed
    assert sum(WIDGET in output.get("data", {}) for output in outputs) >= 1
