"""A lesson of the playground: the executed notebook, in which its tasks are answered without a kernel.

Invariants: where a view of the recipe was shown stands a place for it, numbered as in the recipe; everything
else is the page of the notebook. Called by `docs --playground`.
"""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from notebooks.cli.pages import VIEW, PageParts, notebook_page
from widgets.kit import assets
from widgets.playground import folder

_RUN = "injected-parameters"
_ASK = "from notebooks.course.recorded import LessonRecipe\nLessonRecipe()"
_STYLE = ".lw-place { max-width: 1040px; margin: 8px 0 20px; } #lw-play { color: #57606a; font-size: 13px; }"


def asking(notebook: NotebookNode) -> NotebookNode:
    """Add the cell that asks the kernel for the lesson's recipe; `recipe_of` takes it away."""
    cell = new_code_cell(_ASK, metadata={"tags": [_RUN]})
    notebook.cells.append(cell)
    return cell


def recipe_of(notebook: NotebookNode, cell: NotebookNode) -> dict[str, Any] | None:
    """The recipe, with the ids of its views; None of a notebook that has no tasks, or did not get there."""
    notebook.cells.remove(cell)
    bundles = [output.get("data", {}).get("application/json", {}) for output in cell.get("outputs", ())]
    return next((dict(bundle) for bundle in bundles if bundle.get("ids")), None)


def lesson_page(notebook: NotebookNode, *, title: str, recipe: dict[str, Any]) -> str:
    """The page: the notebook with places for the views that play, without the parameters of the run and
    without code that the notebook folds, which would give answers away."""
    notebook.cells = [cell for cell in notebook.cells if _RUN not in cell.metadata.get("tags", ())]
    for cell in notebook.cells:
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["transient"] = {"remove_source": True}
        for output in cell.get("outputs", ()):
            shown = output.get("data", {}).get(VIEW, {}).get("model_id")
            if shown in recipe["ids"]:
                at = recipe["ids"].index(shown)
                output["data"] = {"text/html": f'<div class="lw-place" data-view="{at}"></div>'}
    scripts = folder.lesson_scripts(recipe["recipe"])
    parts = PageParts(assets.sheet() + _STYLE, folder.STATUS, scripts, folder.POLICY)
    return notebook_page(notebook, title=title, parts=parts)
