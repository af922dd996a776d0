"""Each notebook is kept as it should be: parameters first, no outputs, a script beside it.

That each runs from top to bottom, and that what it claims is so, is tested in JupyterLab itself, by
tests/lab/test_notebooks.py.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.notebooks.checked import NOTEBOOKS, python, read


def gives_away(source: str) -> bool:
    """Whether a cell poses a task, or has words of its own behind a veil."""
    if "course.task(" in source:
        return True
    calls = [node for node in ast.walk(ast.parse(python(source))) if isinstance(node, ast.Call)]
    veils = [call for call in calls if ast.unparse(call.func).endswith(".then")]
    inside = [node.value for veil in veils for node in ast.walk(veil) if isinstance(node, ast.Constant)]
    return any(isinstance(value, str) and " " in value for value in inside)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_learner_meets_prose_pictures_and_tasks_but_no_checks(path: Path) -> None:
    """What a lesson claims is asserted by the checks of the course, beside the notebook."""
    for cell in read(path).cells:
        if cell.cell_type == "code":
            nodes = ast.walk(ast.parse(python(cell.source)))
            assert not any(isinstance(node, ast.Assert) for node in nodes), f"asserts: {cell.source}"
            assert not cell.source.lower().startswith("# check"), f"a check: {cell.source}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_notebook_has_parameters_and_no_outputs(path: Path) -> None:
    notebook = read(path)
    code = [c for c in notebook.cells if c.cell_type == "code"]
    assert "parameters" in code[0].metadata.get("tags", [])
    assert not any(c.outputs or c.execution_count for c in code)
    assert path.with_suffix(".py").exists()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_the_notebook_checks_its_environment_and_leaves_answers_to_the_learner(path: Path) -> None:
    code = [c.source for c in read(path).cells if c.cell_type == "code"]
    assert "course.check()" in code[1], "the second code cell says what is missing"
    for source in code:
        for node in ast.walk(ast.parse(python(source))):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "answer":
                assert ast.unparse(node.value) == "None", f"an answer is given away: {source}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_each_option_of_a_task_has_its_reason(path: Path) -> None:
    """A picture, a ruler and an order say themselves what is off with what was clicked."""
    code = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    nodes = [node for source in code for node in ast.walk(ast.parse(python(source)))]
    tasks = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "course.task"]
    for task in tasks:
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in task.keywords}
        shown = {"picture", "ruler", "wrong"} & set(given) or given["answer"].startswith("course.Order(")
        assert shown, f"task {ast.unparse(task.args[0])} says nothing of a wrong option: give `wrong`"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_cells_that_hold_an_answer_are_folded(path: Path) -> None:
    """Those that pose a task; below the first one also what is written behind a veil."""
    posed = False
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    for cell in code:
        posed = posed or "course.task(" in cell.source
        if posed and gives_away(cell.source):
            assert cell.metadata.get("jupyter", {}).get("source_hidden"), f"not folded: {cell.source}"
            first = cell.source.splitlines()[0]  # JupyterLab shows it
            assert first.endswith("(") or ".then(" not in first, f"the first line is shown: {first}"
