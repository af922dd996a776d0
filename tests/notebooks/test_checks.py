"""The checks of the lessons: each stands behind one cell, asks for names that are there, and can fail.

The lessons are run with their checks in JupyterLab, by tests/lab/test_notebooks.py.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from notebooks import course
from notebooks.course.checks import TAG, call, lesson_03
from tests.notebooks.checked import NOTEBOOKS, check_names, checks_of, python, read, with_checks


def functions(stem: str) -> dict[str, inspect.Signature]:
    """The checks of a notebook with what they ask for; what gives something is no check."""
    module = checks_of(stem)
    own = [each for each in vars(module).values() if inspect.isfunction(each)]
    asked = {each.__name__: inspect.signature(each) for each in own if each.__module__ == module.__name__}
    return {name: each for name, each in asked.items() if each.return_annotation == "None"}


def bound_by(cell: NotebookNode) -> set[str]:
    """The names that a cell gives a value to."""
    nodes = list(ast.walk(ast.parse(python(cell.source))))
    names = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del)
    }
    return names | {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_each_check_stands_behind_one_cell_and_asks_for_names_that_are_there(path: Path) -> None:
    checks, bound, placed = functions(path.stem), set(), []
    for cell in read(path).cells:
        bound |= bound_by(cell) if cell.cell_type == "code" else set()
        for name in check_names(cell):
            placed.append(name)
            absent = set(checks[name].parameters) - bound
            assert not absent, f"{name} asks for what no cell has made: {absent}"
    assert sorted(placed) == sorted(checks), "each check is called, and only once"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_each_check_asserts_something(path: Path) -> None:
    source = ast.parse(inspect.getsource(checks_of(path.stem)))
    empty = [
        function.name
        for function in source.body
        if isinstance(function, ast.FunctionDef)
        and function.name in functions(path.stem)
        and not any(isinstance(node, ast.Assert) for node in ast.walk(function))
    ]
    assert empty == []


def test_checks_are_called_right_behind_the_cells_that_name_them() -> None:
    cells = [
        nbformat.v4.new_code_cell("levels = []\nkeys = 10", metadata={"tags": [f"{TAG}four_runs"]}),
        nbformat.v4.new_code_cell("levels = None", metadata={"tags": ["parameters"]}),
    ]
    created = with_checks(nbformat.v4.new_notebook(cells=cells), "03_merging")
    assert [cell.source for cell in created.cells] == [
        "levels = []\nkeys = 10",
        "from notebooks.course.checks import call, lesson_03\ncall(lesson_03.four_runs, globals())",
        "levels = None",
    ]
    with pytest.raises(AssertionError):
        exec("\n".join(cell.source for cell in created.cells), {})


def test_a_claim_that_is_not_so_fails() -> None:
    table = course.orders_table(course.lake())
    table.write(course.orders(10))
    values = {"after": table.scan().to_arrow(), "unused": None}
    values |= {"before": values["after"], "table": table}
    checks = checks_of("02_rows_files_runs")
    call(checks.the_same_rows, values)
    with pytest.raises(AssertionError, match="changes no row"):
        call(checks.the_same_rows, values | {"after": values["after"].slice(1)})
    with pytest.raises(KeyError, match="table"):
        call(lesson_03.sound, {})


COUNTED = [path for path in NOTEBOOKS if path.stem[:2] <= "05"]
WORDS = "two|three|four|five|six|seven|eight|nine|ten|sixty|twice|quarter|half"
NUMBER = re.compile(rf"(?<![\w#`.])\d[\d,.]*\b|\b(?:{WORDS})\b", re.IGNORECASE)
NAMES = re.compile(
    r"\blevel \d|\bnotebook \d+|^#+ \d+ · .*|`[^`]*`|\[[^]]*\]\([^)]*\)", re.IGNORECASE | re.MULTILINE
)
"""What has a number but says nothing by it: a level, a lesson, code."""


def prose(path: Path) -> list[str]:
    """What a lesson says: its text up to what is left to try, and the words of its tasks and veils."""
    said = []
    for cell in read(path).cells:
        if cell.cell_type == "markdown":
            said.append(re.split("## Two questions|## Where to go", cell.source)[0])
            continue
        for node in ast.walk(ast.parse(python(cell.source))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("course.task", ".then")):
                named = [key.value for key in node.keywords if key.arg in ("hint", "why", "wrong")]
                said += strings([*node.args[ast.unparse(node.func) == "course.task" :], *named])
    return [" ".join(text.split()) for text in said]


def strings(nodes: list[ast.expr]) -> list[str]:
    """The literal texts in expressions; the keys of a mapping are none."""
    parts = [value for node in nodes if isinstance(node, ast.Dict) for value in node.values]
    parts += [node for node in nodes if not isinstance(node, ast.Dict)]
    actual = [each for part in parts for each in ast.walk(part) if isinstance(each, ast.Constant)]
    return [each.value for each in actual if isinstance(each.value, str)]


@pytest.mark.parametrize("path", COUNTED, ids=lambda p: p.stem)
def test_every_number_that_a_lesson_says_is_in_a_claim_of_a_check(path: Path) -> None:
    checks = [vars(checks_of(path.stem))[name] for name in functions(path.stem)]
    claimed = [claim for check in checks for claim in vars(check).get("claims", ())]
    said = prose(path)
    assert not [claim for claim in claimed if not any(claim in text for text in said)], "the lesson says it"
    for text in said:
        for claim in claimed:
            text = text.replace(claim, "")
        free = NUMBER.findall(NAMES.sub("", text))
        assert not free, f"no check claims {', '.join(free)} of {text!r}: assert it in a check, with `claims`"
