"""Notebooks with their checks: behind each cell that names a check stands a cell that calls it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import nbformat
from nbformat import NotebookNode

from notebooks.course.checks import TAG

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))


@cache
def read(path: Path) -> NotebookNode:
    """A notebook as it is kept; nobody changes what is given."""
    return nbformat.read(path, as_version=4)


def python(source: str) -> str:
    """A cell without its magics; nothing of one that is another language."""
    if source.startswith("%%"):
        return ""
    return "\n".join(line for line in source.splitlines() if not line.startswith("%"))


def checks_of(stem: str) -> ModuleType:
    """The checks of a notebook, by the number that its name begins with."""
    return import_module(f"notebooks.course.checks.lesson_{stem[:2]}")


def check_names(cell: NotebookNode) -> list[str]:
    """The checks that follow a cell."""
    return [tag.removeprefix(TAG) for tag in cell.metadata.get("tags", ()) if tag.startswith(TAG)]


def with_checks(notebook: NotebookNode, stem: str) -> NotebookNode:
    """The notebook, its checks called right behind the cells that name them."""
    module = f"lesson_{stem[:2]}"
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if names := check_names(cell):
            lines = [f"from notebooks.course.checks import call, {module}"]
            lines += [f"call({module}.{name}, globals())" for name in names]
            cells.append(nbformat.v4.new_code_cell("\n".join(lines)))
    notebook.cells = cells
    return notebook
