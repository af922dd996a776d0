"""A lesson of the playground: the executed notebook, in which its tasks are answered without a kernel.

Invariants: where a view of the recipe was shown stands a place for it, numbered as in the recipe; what only
a kernel can do is left out; everything else is the page of the notebook. Called by `docs --playground`.
"""

from __future__ import annotations

import base64
import re
from html import escape
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from notebooks.cli.pages import VIEW, PageParts, notebook_page
from notebooks.cli.playground import PAGES
from widgets.kit import assets, static
from widgets.playground import folder

_RUN = "injected-parameters"
_KERNEL = ("parameters", _RUN)
_BEGIN = "course.begin("
_PICTURE = re.compile(r"(?<=data:image/svg\+xml;base64,)[A-Za-z0-9+/=]+")
_ASK = "from notebooks.course.recorded import LessonRecipe\nLessonRecipe()"
_STYLE = """
.lw-place { max-width: 1040px; margin: 8px 0 20px; } #lw-play { color: var(--page-ink2); font-size: 13px; }
@media (max-width: 700px) { .output_area img { max-width: none !important; } }
"""


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


def lesson_page(notebook: NotebookNode, *, name: str, title: str, recipe: dict[str, Any]) -> str:
    """The page of the notebook `name`: with places for the views that play, without what needs a kernel (the
    parameters of the run, the look at the machine) and without code that the notebook folds, which would
    give answers away."""
    notebook.cells = [cell for cell in notebook.cells if not _needs_kernel(cell)]
    for cell in notebook.cells:
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["transient"] = {"remove_source": True}
        for output in cell.get("outputs", ()):
            shown = output.get("data", {}).get(VIEW, {}).get("model_id")
            if shown in recipe["ids"]:
                at = recipe["ids"].index(shown)
                output["data"] = {"text/html": f'<div class="lw-place" data-view="{at}"></div>'}
    scripts = folder.lesson_scripts(recipe["recipe"])
    parts = PageParts(
        style=assets.sheet() + _STYLE,
        index="Playground",
        lead=_beside(name) + folder.STATUS,
        scripts=scripts,
        policy=folder.POLICY,
    )
    return _PICTURE.sub(_recorded, notebook_page(notebook, title=title, parts=parts))


def _needs_kernel(cell: NotebookNode) -> bool:
    """Whether a cell means nothing where no kernel runs."""
    tags = cell.metadata.get("tags", ())
    return any(tag in tags for tag in _KERNEL) or (cell.cell_type == "code" and _BEGIN in cell.source)


def _beside(name: str) -> str:
    """Links to the pages that play what the lesson is about."""
    links = [
        f'<a href="{page.name}.html">{escape(page.title)}</a>'
        for page in PAGES
        if page.lesson and name.startswith(page.lesson)
    ]
    return f'<p class="quiet">To play with: {" · ".join(links)}</p>' if links else ""


def _recorded(packed: re.Match[str]) -> str:
    """A static picture that does not speak of cells."""
    svg = base64.b64decode(packed[0]).decode().replace(static.HINT, "a recorded picture")
    return base64.b64encode(svg.encode()).decode()
