"""Each notebook is kept as it should be: parameters first, no outputs, a script beside it.

That each runs from top to bottom is tested in JupyterLab itself, by tests/lab/test_notebooks.py.
"""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))


def python(source: str) -> str:
    """A cell without its magics; nothing of one that is another language."""
    if source.startswith("%%"):
        return ""
    return "\n".join(line for line in source.splitlines() if not line.startswith("%"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_notebook_has_parameters_and_no_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert "parameters" in code[0].metadata.get("tags", [])
    assert not any(c.outputs or c.execution_count for c in code)
    assert path.with_suffix(".py").exists()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_notebook_checks_its_environment_and_leaves_answers_to_the_learner(path: Path) -> None:
    code = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert "course.check()" in code[1], "the second code cell says what is missing"
    for source in code:
        for node in ast.walk(ast.parse(python(source))):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "answer":
                assert ast.unparse(node.value) == "None", f"an answer is given away: {source}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_cells_that_pose_a_task_are_folded_as_they_hold_its_answer(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and "course.task(" in cell.source:
            assert cell.metadata.get("jupyter", {}).get("source_hidden"), cell.source
