"""`docs`: runs notebooks, each in a kernel of its own, and writes pages; `docs_options` has the help."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from papermill.inspection import inspect_notebook
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from notebooks.cli import lesson_page, playground, reference
from notebooks.cli.docs_options import parser
from notebooks.cli.lab import lab_environment
from notebooks.cli.pages import Outcome, index_page, notebook_page, references
from notebooks.cli.places import NOTEBOOKS
from widgets.playground.pyodide import NoPyodide

SPARK = re.compile(r"^\s*(?:import pyspark|from pyspark|.*\bts\.spark\b)", re.MULTILINE)
CELL_SECONDS = 600


def main(arguments: list[str]) -> int:
    """Write the pages; 0 if every notebook ran, 1 if one failed, 2 if there is nothing to do."""
    options = parser().parse_args(arguments)
    screen = Console(stderr=True, highlight=False)
    if options.api:
        print(write_reference(options.to / "api"))
        return 0
    target: Path = options.playground or options.to
    if options.playground:
        try:
            playground.write_playing(target)
        except NoPyodide as missing:
            screen.print(f"docs: {missing}")
            return 2
    names = options.notebooks or (playground.LESSONS if options.playground else [])
    chosen = select(sorted(NOTEBOOKS.glob("[0-9]*.ipynb")), list(names))
    if not chosen:
        screen.print(f"docs: no notebook begins with {', '.join(options.notebooks) or 'a number'}")
        return 2
    os.environ.update(lab_environment(os.environ.get("PYTHONPATH", "")))  # the kernels' as well
    target.mkdir(parents=True, exist_ok=True)
    parameters = {"solve": True, "scale": options.scale, "scale_factor": options.scale_factor}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    plays = bool(options.playground)
    outcomes = [write(path, target, parameters, screen, plays=plays) for path in chosen]
    index = target / "index.html"
    first = playground.index_of(outcomes) if options.playground else index_page(outcomes)
    index.write_text(first, encoding="utf-8")
    failed = [outcome for outcome in outcomes if outcome.problem and not outcome.skipped]
    print(index)
    if failed:
        screen.print(f"{len(failed)} of {len(outcomes)} notebooks failed")
    return 1 if failed else 0


def write_reference(folder: Path) -> Path:
    """Write the API reference; the path of its index."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in reference.html(reference.pages()).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "index.html"


def select(paths: Iterable[Path], names: list[str]) -> list[Path]:
    """The notebooks whose names begin with one of `names`; all of them without any."""
    return [path for path in paths if not names or path.name.startswith(tuple(names))]


def write(
    path: Path, folder: Path, parameters: dict[str, Any], screen: Console, *, plays: bool = False
) -> Outcome:
    """Run one notebook and write its page, in a playground with tasks that are answered there."""
    columns = (TextColumn("{task.description:<38}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bars:
        bar = bars.add_task(path.stem, total=None)
        declared = inspect_notebook(str(path))
        wanted = {name: value for name, value in parameters.items() if name in declared}
        notebook = parameterize_notebook(load_notebook_node(str(path)), wanted)
        asked = lesson_page.asking(notebook) if plays else None
        outcome = run(notebook, path.stem, lambda done, total: bars.update(bar, completed=done, total=total))
    recipe = lesson_page.recipe_of(notebook, asked) if asked is not None else None
    if recipe is None:
        page = notebook_page(notebook, title=outcome.title)
    else:
        page = lesson_page.lesson_page(notebook, name=outcome.name, title=outcome.title, recipe=recipe)
    if outside := references(page):
        problem = f"its page refers outside: {', '.join(outside[:3])}"
        outcome = Outcome(outcome.name, outcome.title, outcome.seconds, outcome.cells, problem)
    (folder / f"{path.stem}.html").write_text(page, encoding="utf-8")
    shown = f"{outcome.seconds:.1f} s" if not outcome.problem else f"[red]{escape(outcome.problem)}[/]"
    screen.print(f"{path.stem:<38} {shown}")
    return outcome


def run(notebook: NotebookNode, name: str, progress: Callable[[int, int], None]) -> Outcome:
    """Run the cells of `notebook` in place; `progress(done, total)` is called after each."""
    title = title_of(notebook) or name
    code = code_cells(notebook)
    if needs_java(code):
        return Outcome(name, title, 0.0, len(code), "not run: it needs Java", skipped=True)
    done: list[NotebookNode] = []

    def executed(*, cell: NotebookNode, **_: object) -> None:
        done.extend(own for own in code if own is cell)
        progress(len(done), len(code))

    client = NotebookClient(
        notebook,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        timeout=CELL_SECONDS,
        store_widget_state=False,
        resources={"metadata": {"path": str(NOTEBOOKS)}},
        on_cell_executed=executed,
    )
    began = time.monotonic()
    problem = ""
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError, RuntimeError) as error:
        problem = failure(notebook, error, len(done))
    return Outcome(name, title, time.monotonic() - began, len(code), problem)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells that its author wrote: without the one that holds other parameters."""
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [cell for cell in code if "injected-parameters" not in cell.metadata.get("tags", ())]


def needs_java(code: list[NotebookNode]) -> bool:
    """Whether the notebook starts Spark where there is no Java."""
    return any(SPARK.search(cell.source) for cell in code) and shutil.which("java") is None


def title_of(notebook: NotebookNode) -> str:
    """Its first heading."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("# "):
            return cell.source.splitlines()[0][2:].strip()
    return ""


def failure(notebook: NotebookNode, error: Exception, ran: int) -> str:
    """`cell 12 of 30, "table.write(rows)": AssertionError: …`."""
    code = code_cells(notebook)
    at = next((n for n, cell in enumerate(code) if has_error(cell)), min(ran, len(code) - 1))
    lines = [line for line in code[at].source.splitlines() if line.strip()] or [""]
    if isinstance(error, CellExecutionError):
        shown = f"{error.ename}: {error.evalue}"
    else:
        shown = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return f'cell {at + 1} of {len(code)}, "{lines[0].strip()}": {shown.splitlines()[0]}'


def has_error(cell: NotebookNode) -> bool:
    """Whether a cell raised."""
    return any(output.output_type == "error" for output in cell.get("outputs", ()))
