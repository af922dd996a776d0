"""What the sidebar of JupyterLab asks a kernel: lakes, databases, tables and what is in them, as JSON.

A place is a list of steps, (kind, name): `[["path", "/w"], ["database", "shop"], ["table", "orders"]]`. A
first step is a variable of the kernel (a Lake or a Table, whatever its catalog) or a path. `answer` gives at
most `MOST` entries of a place, each with the code that gives it; `show` shows its cockpit. What goes wrong is
part of the answer. Nothing is written, no name is left in the kernel. Called by the script of
widgets/labextension.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import tablestore as ts
from widgets.levels.widget import LsmLevels
from widgets.workbench.widget import Workbench

MOST = 100
"""Entries of a place in one answer."""
Steps = Sequence[Sequence[str]]
FOLDERS = {"snapshots": "Snapshots", "tags": "Tags", "branches": "Branches"}
ERRORS = (ts.TablestoreError, OSError)
_shown: dict[str, Any] = {}


class LakesAnswer:
    """A value that crosses to the page as JSON."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"application/json": self.value}


@dataclass(frozen=True, slots=True)
class LakePlace:
    """What a place holds: the value, and the Python that gives it."""

    value: Any
    code: str


def answer(question: str) -> LakesAnswer:
    """The answer to a question in JSON: `{"roots": [path, …]}`, or `{"place": steps, "skip": 0}`.

    >>> answer('{"place": [["path", "/nowhere"]], "skip": 0}').value
    {'error': 'there is nothing at /nowhere'}
    """
    asked = json.loads(question)
    try:
        entries = roots(asked["roots"]) if "roots" in asked else entries_of(asked["place"])
        skip = int(asked.get("skip", 0))
        shown = list(islice(entries, skip, skip + MOST + 1))
    except ERRORS as error:
        return LakesAnswer({"error": str(error)})
    return LakesAnswer({"entries": shown[:MOST], "more": len(shown) > MOST})


def show(question: str) -> None:
    """Show the cockpit of a place: `{"place": steps, "token": name}`; `close` forgets it."""
    from IPython.display import display

    asked = json.loads(question)
    try:
        view = cockpit(asked["place"])
    except ERRORS as error:
        print(error, file=sys.stderr)
        return
    close(asked["token"])  # of a page that was loaded again
    _shown[asked["token"]] = view
    display(view)


def close(token: str) -> None:
    """Close what was shown under this name, if it is still there."""
    view = _shown.pop(token, None)
    if view is not None:
        view.close()


def cockpit(steps: Steps) -> Any:
    """The Workbench of a table or branch, at the snapshot that the last step names; the levels of one that
    only a tag keeps."""
    table, snapshot, in_history = _moment(steps)
    if not in_history:
        return LsmLevels(table.value, snapshot=snapshot)
    bench = Workbench(table.value)
    if snapshot is not None:
        bench.timeline.snapshot = snapshot
    return bench


def _moment(steps: Steps) -> tuple[LakePlace, int | None, bool]:
    """The table of a place, its snapshot (None: the newest), and whether its history has that snapshot."""
    kind, name = steps[-1]
    if kind == "snapshot":
        return resolved(steps[:-2]), int(name), True
    if kind == "tag":
        table = resolved(steps[:-2])
        for row in table.value.inspect.references().to_pylist():
            if row["kind"] == "tag" and row["name"] == name:
                return table, row["snapshot_id"], row["in_history"]
        raise ts.NotFound(f"there is no tag {name!r} any more")
    return resolved(steps), None, True


def resolved(steps: Steps) -> LakePlace:
    """The lake or table of a place. Raises NotFound, InvalidRequest."""
    (kind, name), *rest = steps
    place = _variable(name) if kind == "variable" else _at(name)
    for at, (kind, name) in enumerate(rest, start=1):
        if kind == "table":
            full = f"{steps[at - 1][1]}.{name}"
            place = LakePlace(place.value.table(full), f"{place.code}.table({full!r})")
        elif kind == "branch":
            place = LakePlace(place.value.branch(name), f"{place.code}.branch({name!r})")
    return place


def _variable(name: str) -> LakePlace:
    value = _variables().get(name)
    if not isinstance(value, ts.Lake | ts.Table):
        raise ts.NotFound(f"the kernel has no lake or table {name} any more")
    return LakePlace(value, name)


def _variables() -> dict[str, Any]:
    """The user's names in the kernel; none outside IPython."""
    from IPython import get_ipython

    shell = get_ipython()
    return {} if shell is None else dict(shell.user_ns)


def _at(path: str) -> LakePlace:
    """The table or the lake at a path or address."""
    where = path if "://" in path else os.fspath(Path(path).expanduser())
    if "://" not in where and not os.path.isdir(where):
        raise ts.NotFound(f"there is nothing at {where}")
    try:
        return LakePlace(ts.open(where), f"ts.open({where!r})")
    except ts.NotFound:
        return LakePlace(ts.connect(where), f"ts.connect({where!r})")


def roots(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Lakes and tables that are variables of the kernel, lakes in its folder, the paths that were added."""
    for name, value in sorted(_variables().items()):
        if isinstance(value, ts.Lake | ts.Table) and not name.startswith("_"):
            table = isinstance(value, ts.Table)
            where = (
                f"table in {value.location}" if isinstance(value, ts.Table) else f"lake in {value.warehouse}"
            )
            yield _entry("variable", name, where, _code(LakePlace(value, name)), cockpit=table)
    for path in dict.fromkeys([*_nearby(), *paths]):
        where, table = ("added" if path in paths else "in the kernel's folder"), _is_table(path)
        yield _entry("path", path, where, _code_at(path, table=table), cockpit=table)


def _nearby() -> Iterator[str]:
    """Folders here that hold databases (`….db`): this one and those in it, of which `MOST` are looked at."""
    here = Path.cwd()
    try:
        inside = [Path(each) for each in islice(os.scandir(here), MOST) if each.is_dir()]
    except OSError:
        return
    for folder in (here, *sorted(inside)):
        try:
            if any(each.name.endswith(".db") and each.is_dir() for each in islice(os.scandir(folder), MOST)):
                yield os.fspath(folder)
        except OSError:
            continue


def entries_of(steps: Steps) -> Iterator[dict[str, Any]]:
    """What is in a place: databases, tables, the three lists of a table, what one of these lists holds."""
    kind, name = steps[-1]
    if kind in FOLDERS:
        table = resolved(steps[:-1])
        yield from LISTED[kind](table)
        return
    place = resolved(steps)
    if isinstance(place.value, ts.Table):
        yield from _lists(place, own_branches=kind != "branch")
    elif kind == "database":
        for table in place.value.tables(name):
            full = f"{name}.{table}"
            yield _entry(
                "table", table, "", _opening(LakePlace(None, f"{place.code}.table({full!r})")), cockpit=True
            )
    else:
        for database in place.value.databases():
            code = _lines(place, f"lake = {place.code}", f"lake.tables({database!r})")
            yield _entry("database", database, "", code)


def _lists(table: LakePlace, *, own_branches: bool) -> Iterator[dict[str, Any]]:
    """Snapshots, tags and branches of a table, each with what there is of it; a branch has no branches."""
    latest = table.value.inspect.latest_snapshot_id()
    counts = {
        "snapshots": "none" if latest is None else f"newest #{latest}",
        "tags": str(len(table.value.tags)),
        "branches": str(len(table.value.branches)),
    }
    for kind, title in FOLDERS.items():
        if kind == "branches" and not own_branches:
            continue
        asked = "inspect.snapshots()" if kind == "snapshots" else f"{kind}.list()"
        opens = counts[kind] not in ("0", "none")
        code = _lines(table, f"table = {table.code}", f"table.{asked}.to_pandas()")
        yield _entry(kind, title, counts[kind], code, opens=opens)


def _snapshots(table: LakePlace) -> Iterator[dict[str, Any]]:
    """Newest first; so many files are read as are asked for."""
    seen, count = 0, MOST + 1
    while True:
        rows = table.value.inspect.snapshots(newest=count).to_pylist()[::-1]
        for row in rows[seen:]:
            changed = row["delta_record_count"]
            rows_said = f" · {changed:+,} rows".replace("-", "−") if changed is not None else ""
            at, identifier = f"{row['commit_time']:%d %b %H:%M:%S}", row["snapshot_id"]
            code = _opening(table, identifier)
            entry = _entry("snapshot", str(identifier), at + rows_said, code, opens=False, cockpit=True)
            yield entry | {"commit": row["commit_kind"]}
        if len(rows) < count:
            return
        seen, count = len(rows), count * 2


def _tags(table: LakePlace) -> Iterator[dict[str, Any]]:
    for row in table.value.inspect.references().to_pylist():
        if row["kind"] == "tag":
            snapshot, kept = row["snapshot_id"], "" if row["in_history"] else " · kept by the tag"
            code = _opening(table, snapshot, alone=not row["in_history"])
            yield _entry("tag", row["name"], f"#{snapshot}{kept}", code, opens=False, cockpit=True)


def _branches(table: LakePlace) -> Iterator[dict[str, Any]]:
    for name in table.value.branches.names():
        branch = LakePlace(None, f"{table.code}.branch({name!r})")
        yield _entry("branch", name, "", _opening(branch), cockpit=True)


LISTED = {"snapshots": _snapshots, "tags": _tags, "branches": _branches}


def _entry(
    kind: str, name: str, detail: str, code: str, *, opens: bool = True, cockpit: bool = False
) -> dict[str, Any]:
    return {"kind": kind, "name": name, "detail": detail, "code": code, "opens": opens, "cockpit": cockpit}


def _code(place: LakePlace) -> str:
    """The cell that shows a lake's tables, or a table's cockpit."""
    if isinstance(place.value, ts.Lake):
        return _lines(place, f"{place.code}.tables()")
    return _opening(place)


def _is_table(path: str) -> bool:
    """Whether a directory looks like a table's: it holds schemas. A store is not asked."""
    return "://" not in path and (Path(path).expanduser() / "schema").is_dir()


def _code_at(path: str, *, table: bool) -> str:
    """The cell for a path that nobody has opened yet."""
    where = path if "://" in path else os.fspath(Path(path).expanduser())
    if table:
        return _opening(LakePlace(None, f"ts.open({where!r})"))
    return _lines(LakePlace(None, "ts."), f"lake = ts.connect({where!r})", "lake.tables()")


def _opening(table: LakePlace, snapshot: int | None = None, *, alone: bool = False) -> str:
    """The cell that shows a table's cockpit, at a snapshot if one is given; only its levels if `alone`."""
    if alone:
        lines = [f"widgets.LsmLevels({table.code}, snapshot={snapshot})"]
    elif snapshot is None:
        lines = [f"widgets.Workbench({table.code})"]
    else:
        lines = [f"bench = widgets.Workbench({table.code})", f"bench.timeline.snapshot = {snapshot}", "bench"]
    return _lines(table, *lines, widgets=True)


def _lines(place: LakePlace, *lines: str, widgets: bool = False) -> str:
    imports = ["import tablestore as ts"] * place.code.startswith("ts.") + ["import widgets"] * widgets
    return "\n".join([*imports, *([""] if imports else []), *lines])
