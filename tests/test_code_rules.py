"""What code does with what it has: who changes files, asks the clock, opens files, decides by error texts.

The world enters the engine through two doors only, `Env` and `FileIO`; what may be imported where is the
matter of `test_layers.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.source_code import ENGINE, ENV, OF_PEOPLE, ROOT, layer_of, nodes_of, sources

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


def test_what_looks_at_a_table_never_writes_to_it():
    """Of files and metadata it only reads."""
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}"
        for path in sources("tablestore/insight")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES
        if ast.unparse(node.func.value).rpartition(".")[2].lstrip("_") in CHANGED
    ]
    assert not calls, "changes what it looks at:\n" + "\n".join(calls)


def test_chance_and_clock_enter_through_env():
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


def test_files_are_opened_through_file_io_only():
    calls = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources("tablestore")
        if layer_of(path) in ENGINE
        for node in nodes_of(path, r"\bopen\(")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]
    assert not calls, "open() below the table:\n" + "\n".join(calls)


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
    reached = {text for _, text in inner_attributes(ast.parse("\n".join(lines)))}
    assert reached == {"table.store", "getattr(table, 'store', None)", "self._table._store"}
