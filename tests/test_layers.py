"""Imports point downward, and the world enters the engine through two doors only.

Read from the syntax tree of every file, so a package that is not written yet breaks nothing. The picture
of the layers is in tablestore/README.md; this file is its test.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tablestore.core.extras import EXTRA_OF

ROOT = Path(__file__).resolve().parents[1]
ENV = ROOT / "tablestore" / "core" / "env.py"
OURS = ("tablestore", "widgets", "datasets", "notebooks", "tests", "pyspark_tablestore")

# A layer may import itself and every layer named here.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "io": {"core"},
    "format": {"core", "io"},
    "meta": {"core", "io", "format"},
    "fluss": {"core", "io", "format"},
    "log": {"core", "io", "format", "fluss"},
    "catalog": {"core", "io", "format", "meta"},
    "lsm": {"core", "io", "format", "meta"},
}
MAY_IMPORT["write"] = MAY_IMPORT["read"] = MAY_IMPORT["lsm"] | {"lsm", "log", "fluss"}
MAY_IMPORT["insight"] = MAY_IMPORT["write"] | {"write", "read", "catalog", "doors"}  # to charts, above
MAY_IMPORT["read"] = MAY_IMPORT["read"] | {"doors"}  # to what is below it, and needed by few tables
MAY_IMPORT["table"] = MAY_IMPORT["insight"] | {"doors"}
MAY_IMPORT["verbs"] = MAY_IMPORT["table"] | {"table", "insight"}
MAY_IMPORT["flow"] = MAY_IMPORT["verbs"] | {"verbs"}
MAY_IMPORT["maintenance"] = MAY_IMPORT["flow"] | {"flow"}
MAY_IMPORT["cdc"] = MAY_IMPORT["flow"] | {"flow"}
MAY_IMPORT["tiering"] = MAY_IMPORT["cdc"] | {"cdc"}
MAY_IMPORT["spark"] = MAY_IMPORT["tiering"] | {"tiering"}
MAY_IMPORT["sql"] = MAY_IMPORT["spark"]  # Spark by doors
MAY_IMPORT["cli"] = MAY_IMPORT["sql"] | {
    "sql",
    "spark",
    "maintenance",
    "tablestore",
}  # commands use the public names, too
MAY_IMPORT["doors"] = {"core"}  # what it imports in functions, and for types, is above
DOORS = ROOT / "tablestore" / "doors.py"
LATE = {"importlib", "importlib.import_module", "importlib.util", "pkgutil", "runpy"}
LATE_ELSEWHERE = {
    "cli/commands.py": "the command that a command line asks for",
    "core/extras.py": "packages of others that an extra brings",
    "fluss/messages/__init__.py": "its own generated code, which an extra brings",
    "spark/daemon/sitecustomize.py": "what workers of Spark load before they are forked",
}
READ_ONLY_OF_WRITE = {"arrow_input", "buckets", "conform", "progress", "routing"}
# Methods of files, snapshots, schemas and manifests that change what is on the disk.
CHANGED = {
    "io",
    "store",
    "snapshots",
    "schemas",
    "manifests",
    "changelogs",
    "consumers",
    "refs",
    "statistics",
}
CHANGES = {
    *("write", "write_new", "replace", "delete", "delete_tree", "delete_empty", "move", "make_dir", "sync"),
    *("open_output", "commit", "create", "record", "keep", "become", "discard", "publish"),
    *("hint", "hint_latest", "hint_earliest", "manifest", "encoded", "finished"),
}
# In `core` a module may import these of its own package; what is not named here, any.
IN_CORE = {
    "errors": set(),
    "env": {"errors"},
    "arguments": {"errors"},
    "extras": {"errors"},
    "quantities": set(),
}

ONLY_ENV = {"time", "uuid", "random", "secrets"}
OF_SYSTEM = {
    "log/kafka/": "waits for brokers and threads of a client, whose clock no test moves",
    "insight/cards/results.py": "asks for the time zone, not for the time",
    "flow/": "a job runs now, beside Spark's: its batches come by the clock of this machine",
    "cdc/": "waits for servers of others, and says when a batch was planned and carried out",
    "sql/": "statements run now; names of what DuckDB, Spark and sinks of files are given",
    "tiering/": "a service begins here, and files of Iceberg are named",
}
"""Places beside `Env` that take the clock and the chance of this machine, and why."""
BY_TEXT = {
    "tablestore/format/orc/data.py": "Arrow's error of a time that it cannot hold has no type of its own",
    "tablestore/io/object_store.py": "the client's error of a missing bucket is that of a missing object",
    "tablestore/sql/": "errors of DuckDB and Arrow have no fields; an option of SET stands in texts only",
}
"""Where the text of an error decides, and why there is nothing else to ask."""
ONLY_IO = {"os", "pathlib", "shutil", "tempfile", "glob", "fcntl"}
ENGINE = {"format", "meta", "fluss", "log", "lsm", "write", "read", "insight"}  # below `table`, above `io`
EXTRAS = {
    "pyspark": {"spark"},
    "py4j": {"spark"},
    "pandas": {"spark"},
    "sqlglot": {"sql"},
    "duckdb": {"sql"},
    "rich": {"cli"},
    "prompt_toolkit": {"cli"},
    "pygments": {"cli"},
    "psutil": {"cli"},
    "jupyter_client": {"cli"},
    "google": {"fluss"},  # generated code, imported when a cluster is first asked
}
"""Layers that import a package which not everybody has; other layers ask `core.extras` for it."""
UNUSED_BY_CONNECT = {*EXTRA_OF, "py4j", "fastavro", "pyarrow.compute", "pyarrow.parquet", "pyroaring"}
"""Packages that are slow to load, or not everybody's; the first table or statement loads what it needs."""
NEVER = {"plotly", "IPython", "anywidget", "ipywidgets"}
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
    return [(layer_of(path), found) for path in sources("tablestore") for found in imports(path)]


def show(found: list[Import], *, why: str) -> str:
    return "\n".join([why, *map(str, found)])


def test_every_module_of_the_engine_has_a_layer():
    unknown = {layer_of(path) for path in sources("tablestore")} - set(MAY_IMPORT) - {""}
    assert not unknown, f"add to the picture and to MAY_IMPORT: {sorted(unknown)}"


def test_imports_of_the_engine_point_downward():
    wrong = []
    for layer, found in engine_imports():
        parts = found.module.split(".")
        late = found.path == DOORS and (found.inside or found.only_types)
        if layer and parts[0] == "tablestore" and not late:
            wanted = parts[1] if len(parts) > 1 else "tablestore"
            attribute_of_the_package = wanted.startswith("__")
            if wanted not in MAY_IMPORT[layer] | {layer} and not attribute_of_the_package:
                wrong.append(found)
    assert not wrong, show(wrong, why="upward or sideways:")


def test_only_the_doors_import_late():
    """By the statement in a function, or by a text that names a module."""
    late = {
        path.relative_to(ROOT / "tablestore").as_posix()
        for path in sources("tablestore")
        for found in imports(path)
        if found.module in LATE or (found.inside and found.module.split(".")[0] in OURS)
    }
    assert late == {"doors.py", *LATE_ELSEWHERE}
    texts = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources("tablestore")
        if path.relative_to(ROOT / "tablestore").as_posix() not in LATE_ELSEWHERE
        for node in nodes_of(path, "__import__|sys.modules")
        if isinstance(node, ast.Name) and node.id == "__import__"
    ]
    assert not texts, texts


def test_doors_import_nothing_of_ours_but_errors_before_they_are_opened():
    first = {
        found.module
        for found in imports(DOORS)
        if not (found.inside or found.only_types) and found.module.split(".")[0] in OURS
    }
    assert first == {"tablestore.core.errors.MissingPackage"}


def behind_doors() -> dict[str, set[str]]:
    """The layers from which each door imports in its function."""
    return {
        door.name: {
            node.module.split(".")[1]
            for node in ast.walk(door)
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tablestore.")
        }
        for door in ast.parse(DOORS.read_text()).body
        if isinstance(door, ast.FunctionDef)
    }


def test_below_a_table_doors_lead_downward():
    layers = behind_doors()
    wrong, used = [], 0
    for path in sources("tablestore"):
        if layer_of(path) not in ENGINE:
            continue
        for node in nodes_of(path, r"\bdoors\."):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "doors":
                used += 1
                if not layers[node.attr] <= MAY_IMPORT[layer_of(path)] | {layer_of(path)}:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} doors.{node.attr}")
    assert used
    assert not wrong, wrong


def test_a_lake_is_opened_with_few_modules(tmp_path: Path):
    """Modules are counted, since seconds depend on the machine; most of an import is its classes."""
    code = "import sys, tablestore as ts; ts.connect(sys.argv[1]); ts.INT; print(*sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    ours = [name for name in loaded if name.startswith("tablestore.")]
    layers = {name.split(".")[1] for name in ours}
    assert layers == {"catalog", "core", "doors", "format", "io", "meta", "table"}, ours
    assert len(ours) <= 65, ours
    assert not UNUSED_BY_CONNECT & set(loaded)


def test_every_door_has_types():
    """Each names what it gives; `Any` only where a name is asked for by its text."""
    functions = [node for node in ast.parse(DOORS.read_text()).body if isinstance(node, ast.FunctionDef)]
    untyped = [node.name for node in functions if node.returns is None or ast.unparse(node.returns) == "Any"]
    assert untyped == ["public"]
    assert len(functions) > 20


def test_what_looks_at_a_table_never_writes_to_it():
    """Of `write` it uses how rows are routed and made to fit, and how work is reported; of files and metadata
    it only reads."""
    wrong = [
        found
        for layer, found in engine_imports()
        if layer == "insight" and found.module.startswith("tablestore.write.")
        if found.module.removeprefix("tablestore.write.").split(".")[0] not in READ_ONLY_OF_WRITE
    ]
    assert not wrong, show(wrong, why="insight looks, and leaves everything as it is:")
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}"
        for path in sources("tablestore/insight")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES
        if ast.unparse(node.func.value).rpartition(".")[2].lstrip("_") in CHANGED
    ]
    assert not calls, "changes what it looks at:\n" + "\n".join(calls)


@pytest.mark.parametrize("module", IN_CORE)
def test_the_ground_floor_is_ordered(module: str):
    path = ROOT / "tablestore" / "core" / f"{module}.py"
    ours = [one for one in imports(path) if one.module.startswith("tablestore.")]
    wrong = [one for one in ours if one.module.split(".")[2] not in IN_CORE[module]]
    assert not wrong, show(wrong, why="not beside it:")


def test_the_engine_knows_nobody_above_it():
    wrong = [
        found
        for _, found in engine_imports()
        if found.module.split(".")[0] in set(OURS) - {"tablestore"}
        if not (found.path == DOORS and found.module.startswith("widgets."))  # views that magics show
    ]
    assert not wrong, show(wrong, why="tablestore stands alone:")


def test_datasets_never_import_the_engine_or_the_widgets():
    above = {"tablestore", "widgets", "notebooks", "tests", "pyspark", "pyspark_tablestore"}
    wrong = [
        found
        for path in sources("datasets")
        for found in imports(path)
        if found.module.split(".")[0] in above
    ]
    assert not wrong, show(wrong, why="datasets is plain data:")


def test_widgets_use_the_public_face_of_the_engine_only():
    wrong = []
    for path in sources("widgets"):
        for found in imports(path):
            first, _, rest = found.module.partition(".")
            inner = rest.split(".")[0] if first == "tablestore" else ""
            deep = bool(inner) and ((ROOT / "tablestore" / inner).is_dir() or inner[0] == "_")
            if deep or first in {"datasets", "notebooks", "tests", "pyspark"}:
                wrong.append(found)
    assert not wrong, show(wrong, why="widgets use `import tablestore` and names of it:")


def inner_attributes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every attribute that is no public one: `x.store`, `x._…` of others than `self`, `cls`
    and a few of our own views, also by `getattr` and its like."""
    own = {"self", "cls", "view", "other"}  # views of the same class, see `View.unlink`
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()":
                owner = "super"
            if (private and owner not in own | {"super"}) or (node.attr == "store" and owner != "self"):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "getattr",
            "hasattr",
            "attrgetter",
        ):
            if ast.unparse(node.args[0]) in own:
                continue
            for name in (each.value for each in node.args if isinstance(each, ast.Constant)):
                if isinstance(name, str) and (name == "store" or name.startswith("_")):
                    yield node.lineno, ast.unparse(node)


def test_widgets_reach_for_nothing_inside_a_source():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {text}"
        for path in sources("widgets")
        for line, text in inner_attributes(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not wrong, "widgets use public names of what they show:\n" + "\n".join(wrong)


def test_what_reaches_inside_a_source_is_found():
    lines = [
        "table.store.options",
        "getattr(table, 'store', None)",
        "self._table._store",
        "self._store",
        "a.b",
    ]
    found = {text for _, text in inner_attributes(ast.parse("\n".join(lines)))}
    assert found == {"table.store", "getattr(table, 'store', None)", "self._table._store"}


@pytest.mark.parametrize("package", ["tablestore", "widgets", "datasets", "notebooks"])
def test_no_import_of_ours_hides_in_a_function(package: str):
    found = [one for path in sources(package) if path != DOORS for one in imports(path)]
    wrong = [one for one in found if one.inside and one.module.split(".")[0] in OURS]
    assert not wrong, show(wrong, why="imports of ours stand at the top of the file:")


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other, each sorted."""
    reached = {module: {module} for module in edges}
    grown = True
    while grown:
        grown = False
        for module, near in edges.items():
            more = set().union(*(reached[m] for m in near)) - reached[module]
            reached[module] |= more
            grown |= bool(more)
    groups = {tuple(sorted(m for m in edges if m in reached[a] and a in reached[m])) for a in edges}
    return sorted([*group] for group in groups if len(group) > 1)


def edges_within(package: str) -> dict[str, set[str]]:
    """Of each module of a package the others that it imports; an import for types alone is one, too."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sources(package)
    }
    named = {module: {one.module for one in imports(path)} for module, path in modules.items()}
    return {
        module: {name if name in modules else name.rpartition(".")[0] for name in names}
        & set(modules) - {module}
        for module, names in named.items()
    }


def test_circles_are_seen():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert circles(edges) == [["a", "b", "c"], ["d", "e"]]
    assert "tablestore.sql.scope" in edges_within("tablestore/sql")["tablestore.sql.session"]


def test_modules_of_sql_are_in_no_circle():
    """A query is handed a scope, not the session that runs it: types count like other imports."""
    assert circles(edges_within("tablestore/sql")) == []


def test_nothing_but_the_tests_imports_the_tests_or_the_verbs():
    found = [
        one
        for package in ("tablestore", "widgets", "datasets")
        for p in sources(package)
        for one in imports(p)
    ]
    wrong = [one for one in found if one.module.split(".")[0] in ("tests", "notebooks")]
    assert not wrong, show(wrong, why="tests and notebooks are imported by nothing:")


def test_chance_and_clock_enter_through_env():
    wrong = [
        found
        for layer, found in engine_imports()
        if layer not in OF_PEOPLE and found.path != ENV and found.module.split(".")[0] in ONLY_ENV
    ]
    assert not wrong, show(wrong, why="time, uuid and random come from Env:")
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for path in sources("tablestore")
        if layer_of(path) not in OF_PEOPLE and path != ENV
        for node in nodes_of(path, r"\.(now|utcnow|today)\b")
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today")
        if ast.unparse(node.value)
        in ("datetime", "date", "datetime.datetime", "dt.datetime", "datetime.date")
    ]
    assert not calls, "the clock is Env's:\n" + "\n".join(calls)


def test_a_caller_chooses_the_environment():
    """`SYSTEM` stands where a parameter has a default; who has an `Env` asks that."""
    asking = {
        path.relative_to(ROOT / "tablestore").as_posix()
        for path in sources("tablestore")
        if path != ENV and "SYSTEM" in (text := path.read_text(encoding="utf-8"))
        if asks_system(ast.parse(text))
    }
    wrong = {path for path in asking if not path.startswith(tuple(OF_SYSTEM))}
    assert not wrong, f"takes SYSTEM, where a test cannot pass its own: {sorted(wrong)}"
    assert all(any(path.startswith(place) for path in asking) for place in OF_SYSTEM)


def asks_system(tree: ast.Module) -> bool:
    """Whether code uses `SYSTEM` but as a default, of a parameter or of a field."""
    defaults = {
        id(value)
        for node in ast.walk(tree)
        for value in (
            [*node.defaults, *node.kw_defaults]
            if isinstance(node, ast.arguments)
            else [node.value]
            if isinstance(node, ast.AnnAssign)
            else []
        )
    }
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "SYSTEM")
    return any(id(node) not in defaults for node in names)


def test_uses_of_the_system_are_seen():
    defaults = "def f(a, env: Env = SYSTEM, *, b=SYSTEM): env.now_ms()\nclass C:\n    env: Env = SYSTEM\n"
    assert not asks_system(ast.parse(defaults))
    for use in (
        "SYSTEM.now_ms()",
        "env = SYSTEM",
        "def f(env=None): (env or SYSTEM).uuid()",
        "moment(SYSTEM, 5)",
    ):
        assert asks_system(ast.parse(defaults + use)), use


def test_nothing_is_decided_by_the_text_of_an_error():
    """Errors have types and fields; words are for people, and change."""
    asking = {
        path.relative_to(ROOT).as_posix()
        for package in ("tablestore", "widgets", "datasets", "notebooks")
        for path in sources(package)
        if re.search(r"\bexcept\b.*\bas\b", text := path.read_text(encoding="utf-8"))
        and decides_by_text(ast.parse(text))
    }
    wrong = {path for path in asking if not path.startswith(tuple(BY_TEXT))}
    assert not wrong, f"give the error a type or a field: {sorted(wrong)}"


def decides_by_text(tree: ast.Module) -> bool:
    """Whether code compares the text of an error that it catches, or a `problem` of it."""

    def is_text(node: ast.expr) -> bool:
        return isinstance(node, ast.Call | ast.Attribute | ast.Subscript) and ast.unparse(node) in texts

    nodes = list(ast.walk(tree))
    caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler)} - {None}
    forms = ("str({})", "repr({})", "{}.problem", "{}.args[0]")
    texts = {form.format(name) for name in caught for form in forms}
    compared = (node for node in nodes if isinstance(node, ast.Compare))
    asked = (node.func for node in nodes if isinstance(node, ast.Call))
    return any(is_text(side) for node in compared for side in (node.left, *node.comparators)) or any(
        isinstance(func, ast.Attribute) and func.attr in ("startswith", "endswith") and is_text(func.value)
        for func in asked
    )


def test_decisions_by_text_are_seen():
    code = "try: f()\nexcept E as e:\n    if {}: raise\n"
    for test in ("'a' in str(e)", "e.problem != 'a'", "str(e).startswith('a')", "'a' == e.args[0]"):
        assert decides_by_text(ast.parse(code.format(test))), test
    for test in ("e.code == 5", "isinstance(e, F)", "'a' in str(other)", "str(e)"):
        assert not decides_by_text(ast.parse(code.format(test))), test


def test_files_are_reached_through_file_io_only():
    wrong = [
        found
        for layer, found in engine_imports()
        if layer in ENGINE and not found.only_types and found.module.split(".")[0] in ONLY_IO
    ]
    assert not wrong, show(wrong, why="below the table, files are FileIO's business:")
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources("tablestore")
        if layer_of(path) in ENGINE
        for node in nodes_of(path, r"\bopen\(")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]
    assert not calls, "open() below the table:\n" + "\n".join(calls)


def test_packages_of_extras_are_imported_where_they_belong():
    wrong = [
        found
        for layer, found in engine_imports()
        for package in [found.module.split(".")[0]]
        if not found.only_types
        and (package in NEVER or (package in {*EXTRAS, *EXTRA_OF} and layer not in EXTRAS.get(package, ())))
    ]
    assert not wrong, show(wrong, why="ask core.extras for it:")


def test_the_reader_of_imports_sees_what_python_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "tablestore" / "lsm" / "x.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import os.path\nfrom tablestore import read\nfrom ..table import scan\nfrom . import y\n"
        "def f():\n    import uuid\n"
        "if TYPE_CHECKING:\n    import pandas\n"
    )
    seen = {(found.module, found.inside, found.only_types) for found in imports(path)}
    assert seen == {
        ("os.path", False, False),
        ("tablestore.read", False, False),
        ("tablestore.table.scan", False, False),
        ("tablestore.lsm.y", False, False),
        ("uuid", True, False),
        ("pandas", False, True),
    }
    assert layer_of(path) == "lsm"
