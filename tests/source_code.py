"""The code of the project as tests read it: files of a package, what each imports, nodes of its syntax.

Read from the syntax tree, so a package that is not written yet breaks nothing.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOORS = ROOT / "tablestore" / "doors.py"
ENV = ROOT / "tablestore" / "core" / "env.py"
OURS = ("tablestore", "widgets", "datasets", "notebooks", "tests", "pyspark_tablestore")
ENGINE = {"format", "meta", "fluss", "log", "lsm", "write", "read", "insight"}  # below `table`, above `io`
OF_PEOPLE = {"spark", "cli"}
"""Layers with a clock of their own: Spark's, and that of who looks at a terminal."""


@dataclass(frozen=True, slots=True)
class Import:
    """`module` imported in `path`; `inside` tells a function's body from the top of the file."""

    path: Path
    line: int
    module: str
    inside: bool
    only_types: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.module}"


@functools.cache  # most tests of this file ask for those of all files
def imports(path: Path) -> tuple[Import, ...]:
    """Every import of the file; `from a import b` counts as `a.b`, so a layer is seen however it is named."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    functions, holds_statements = ast.FunctionDef | ast.AsyncFunctionDef, ast.stmt | ast.excepthandler
    pending: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while pending:
        node, inside, only_types = pending.pop()
        for module in named_modules(node, path):
            yield Import(path, node.lineno, module, inside, only_types)
        inside = inside or isinstance(node, functions)
        only_types = only_types or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, holds_statements | ast.match_case):
                pending.append((child, inside, only_types))


def named_modules(node: ast.AST, path: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
            base = ".".join([*package, *([base] if base else [])])
        return [f"{base}.{name.name}" for name in node.names]
    return []


def nodes_of(path: Path, pattern: str) -> Iterator[ast.AST]:
    """All nodes of the file; none where its text lacks what is looked for."""
    text = path.read_text(encoding="utf-8")
    return ast.walk(ast.parse(text)) if re.search(pattern, text) else iter(())


def sources(package: str) -> list[Path]:
    folder = ROOT / package
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def layer_of(path: Path) -> str:
    """'lsm' for tablestore/lsm/writing/writer.py, '' for the package itself."""
    first = path.relative_to(ROOT / "tablestore").parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def engine_imports() -> list[tuple[str, Import]]:
    return [(layer_of(path), imported) for path in sources("tablestore") for imported in imports(path)]


def show(listed: list[Import], *, why: str) -> str:
    return "\n".join([why, *map(str, listed)])
