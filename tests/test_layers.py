"""Imports point downward, and packages of others are imported where they belong.

The picture of the layers is in tablestore/README.md; this file is its test. What code does with what it has
imported is the matter of `test_code_rules.py`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tablestore.core.extras import EXTRA_OF
from tests import source_code
from tests.source_code import (
    DOORS,
    ENGINE,
    ENV,
    OF_PEOPLE,
    OURS,
    ROOT,
    engine_imports,
    imports,
    layer_of,
    nodes_of,
    show,
    sources,
)

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
LATE = {"importlib", "importlib.import_module", "importlib.util", "pkgutil", "runpy"}
LATE_ELSEWHERE = {
    "cli/commands.py": "the command that a command line asks for",
    "core/extras.py": "packages of others that an extra brings",
    "fluss/messages/__init__.py": "its own generated code, which an extra brings",
    "spark/daemon/sitecustomize.py": "what workers of Spark load before they are forked",
}
READ_ONLY_OF_WRITE = {"arrow_input", "buckets", "conform", "progress", "routing"}
# In `core` a module may import these of its own package; what is not named here, any.
IN_CORE = {
    "errors": set(),
    "env": {"errors"},
    "arguments": {"errors"},
    "extras": {"errors"},
    "quantities": set(),
}
ONLY_ENV = {"time", "uuid", "random", "secrets"}
ONLY_IO = {"os", "pathlib", "shutil", "tempfile", "glob", "fcntl"}
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


def test_every_module_of_the_engine_has_a_layer():
    unknown = {layer_of(path) for path in sources("tablestore")} - set(MAY_IMPORT) - {""}
    assert not unknown, f"add to the picture and to MAY_IMPORT: {sorted(unknown)}"


def test_imports_of_the_engine_point_downward():
    wrong = []
    for layer, imported in engine_imports():
        parts = imported.module.split(".")
        late = imported.path == DOORS and (imported.inside or imported.only_types)
        if layer and parts[0] == "tablestore" and not late:
            wanted = parts[1] if len(parts) > 1 else "tablestore"
            attribute_of_the_package = wanted.startswith("__")
            if wanted not in MAY_IMPORT[layer] | {layer} and not attribute_of_the_package:
                wrong.append(imported)
    assert not wrong, show(wrong, why="upward or sideways:")


def test_only_the_doors_import_late():
    """By the statement in a function, or by a text that names a module."""
    late = {
        path.relative_to(ROOT / "tablestore").as_posix()
        for path in sources("tablestore")
        for imported in imports(path)
        if imported.module in LATE or (imported.inside and imported.module.split(".")[0] in OURS)
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
        imported.module
        for imported in imports(DOORS)
        if not (imported.inside or imported.only_types) and imported.module.split(".")[0] in OURS
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


def test_every_door_has_types():
    """Each names what it gives; `Any` only where a name is asked for by its text."""
    functions = [node for node in ast.parse(DOORS.read_text()).body if isinstance(node, ast.FunctionDef)]
    untyped = [node.name for node in functions if node.returns is None or ast.unparse(node.returns) == "Any"]
    assert untyped == ["public"]
    assert len(functions) > 20


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


def test_what_looks_at_a_table_imports_nothing_that_writes():
    """Of `write` it uses how rows are routed and made to fit, and how work is reported."""
    wrong = [
        imported
        for layer, imported in engine_imports()
        if layer == "insight" and imported.module.startswith("tablestore.write.")
        if imported.module.removeprefix("tablestore.write.").split(".")[0] not in READ_ONLY_OF_WRITE
    ]
    assert not wrong, show(wrong, why="insight looks, and leaves everything as it is:")


@pytest.mark.parametrize("module", IN_CORE)
def test_the_ground_floor_is_ordered(module: str):
    path = ROOT / "tablestore" / "core" / f"{module}.py"
    ours = [imported for imported in imports(path) if imported.module.startswith("tablestore.")]
    wrong = [imported for imported in ours if imported.module.split(".")[2] not in IN_CORE[module]]
    assert not wrong, show(wrong, why="not beside it:")


def test_the_engine_knows_nobody_above_it():
    wrong = [
        imported
        for _, imported in engine_imports()
        if imported.module.split(".")[0] in set(OURS) - {"tablestore"}
        if not (imported.path == DOORS and imported.module.startswith("widgets."))  # views that magics show
    ]
    assert not wrong, show(wrong, why="tablestore stands alone:")


def test_datasets_never_import_the_engine_or_the_widgets():
    above = {"tablestore", "widgets", "notebooks", "tests", "pyspark", "pyspark_tablestore"}
    wrong = [
        imported
        for path in sources("datasets")
        for imported in imports(path)
        if imported.module.split(".")[0] in above
    ]
    assert not wrong, show(wrong, why="datasets is plain data:")


def test_widgets_use_the_public_face_of_the_engine_only():
    wrong = []
    for path in sources("widgets"):
        for imported in imports(path):
            first, _, rest = imported.module.partition(".")
            inner = rest.split(".")[0] if first == "tablestore" else ""
            deep = bool(inner) and ((ROOT / "tablestore" / inner).is_dir() or inner[0] == "_")
            if deep or first in {"datasets", "notebooks", "tests", "pyspark"}:
                wrong.append(imported)
    assert not wrong, show(wrong, why="widgets use `import tablestore` and names of it:")


@pytest.mark.parametrize("package", ["tablestore", "widgets", "datasets", "notebooks"])
def test_no_import_of_ours_hides_in_a_function(package: str):
    everywhere = [imported for path in sources(package) if path != DOORS for imported in imports(path)]
    wrong = [imported for imported in everywhere if imported.inside and imported.module.split(".")[0] in OURS]
    assert not wrong, show(wrong, why="imports of ours stand at the top of the file:")


def test_nothing_but_the_tests_imports_the_tests_or_the_verbs():
    everywhere = [
        imported
        for package in ("tablestore", "widgets", "datasets")
        for p in sources(package)
        for imported in imports(p)
    ]
    wrong = [imported for imported in everywhere if imported.module.split(".")[0] in ("tests", "notebooks")]
    assert not wrong, show(wrong, why="tests and notebooks are imported by nothing:")


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
    named = {module: {imported.module for imported in imports(path)} for module, path in modules.items()}
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


def test_chance_clock_and_files_are_imported_by_env_and_file_io():
    of_engine = [(layer, i, i.module.split(".")[0]) for layer, i in engine_imports()]
    wrong = [
        i for layer, i, first in of_engine if layer not in OF_PEOPLE and i.path != ENV and first in ONLY_ENV
    ]
    assert not wrong, show(wrong, why="time, uuid and random come from Env:")
    wrong = [i for layer, i, first in of_engine if layer in ENGINE and not i.only_types and first in ONLY_IO]
    assert not wrong, show(wrong, why="below the table, files are FileIO's business:")


def test_packages_of_extras_are_imported_where_they_belong():
    wrong = [
        imported
        for layer, imported in engine_imports()
        for package in [imported.module.split(".")[0]]
        if not imported.only_types
        and (package in NEVER or (package in {*EXTRAS, *EXTRA_OF} and layer not in EXTRAS.get(package, ())))
    ]
    assert not wrong, show(wrong, why="ask core.extras for it:")


def test_the_reader_of_imports_sees_what_python_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source_code, "ROOT", tmp_path)
    path = tmp_path / "tablestore" / "lsm" / "x.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import os.path\nfrom tablestore import read\nfrom ..table import scan\nfrom . import y\n"
        "def f():\n    import uuid\n"
        "if TYPE_CHECKING:\n    import pandas\n"
    )
    seen = {(imported.module, imported.inside, imported.only_types) for imported in imports(path)}
    assert seen == {
        ("os.path", False, False),
        ("tablestore.read", False, False),
        ("tablestore.table.scan", False, False),
        ("tablestore.lsm.y", False, False),
        ("uuid", True, False),
        ("pandas", False, True),
    }
    assert layer_of(path) == "lsm"
