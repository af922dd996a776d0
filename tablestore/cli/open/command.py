"""A table in JupyterLab, as a page or as text, or the tables of a warehouse to choose from.

Names and paths never become code: what goes into the notebook is a Python literal, and options, which may be
secret, reach it by the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tablestore as ts
from tablestore import doors
from tablestore.cli.open.server import show_live
from tablestore.cli.places import NotOpened, location_of, one_line

OPTIONS = "TABLESTORE_OPEN_OPTIONS"
"""The environment variable in which the options go to the kernel."""


def main(asked: argparse.Namespace) -> int:
    """Show the table or list the tables; 0, 1 for what cannot be opened, 2 where a table must be chosen."""
    try:
        options = dict(asked.option)
        path = location_of(asked.path)
        table = table_at(path, options, asked.roots)
        if table is None:
            return listed(path, options, asked.door.program, wanted=asked.text or asked.to is not None)
        return shown(table, asked, options)
    except (NotOpened, ts.TablestoreError, OSError) as error:
        print(f"{asked.door.program} open: {one_line(error)}", file=sys.stderr)
        return 1


def table_at(path: str, options: Mapping[str, str], roots: Sequence[str] = ()) -> ts.Table | None:
    """The table at `path`; None if it is a warehouse or a database."""
    try:
        return ts.open(path, options=options, roots=roots)
    except ts.NotFound:
        if tables_of(path, options):
            return None
        raise


def tables_of(path: str, options: Mapping[str, Any]) -> list[str]:
    """The paths of the tables of a warehouse, or of one of its databases."""
    warehouse, _, last = path.rstrip("/").rpartition("/")
    database = last.removesuffix(".db") if last.endswith(".db") else None
    try:
        lake = ts.connect(warehouse if database else path, **dict(options))
        names = [name for name in lake.tables() if database in (None, name.partition(".")[0])]
        return [lake.table(name).location for name in names]
    except ts.TablestoreError:
        return []


def listed(path: str, options: Mapping[str, str], program: str, *, wanted: bool) -> int:
    """Print the tables; an error if a page or text was wanted, for then one must be chosen."""
    there = tables_of(path, options)
    many = "one table" if len(there) == 1 else f"{len(there)} tables"
    print(f"{path} holds {many}; {'choose' if wanted else 'open'} one:")
    for each in there:
        print(f"  {program} open {shlex.quote(_plain(each))}")
    return 2 if wanted else 0


def _plain(location: str) -> str:
    return location.removeprefix("file://")


def shown(table: ts.Table, asked: argparse.Namespace, options: Mapping[str, str]) -> int:
    """Text, a page, both, or JupyterLab."""
    if not asked.text and asked.to is None:
        os.environ[OPTIONS] = json.dumps(options)
        cells = cells_for(table, with_options=bool(options), roots=asked.roots)
        return show_live(cells, name="workbench.ipynb", browser=not asked.no_browser)
    bench = doors.cockpit_of_table(table)
    if asked.text:
        print(bench.text())
    if asked.to is not None:
        print(bench.to_html(asked.to), file=sys.stderr if asked.text else sys.stdout)
    return 0


def cells_for(table: ts.Table, *, with_options: bool, roots: Sequence[str] = ()) -> list[str]:
    """The cells of the notebook: paths are literals, options are read from the environment."""
    path = repr(_plain(table.location)) + (f", roots={list(roots)!r}" if roots else "")
    if not with_options:
        return [
            f"import tablestore as ts\nimport widgets\n\ntable = ts.open({path})",
            "widgets.Workbench(table)",
        ]
    opening = f'table = ts.open({path}, options=json.loads(os.environ["{OPTIONS}"]))'
    return [
        f"import json\nimport os\n\nimport tablestore as ts\nimport widgets\n\n{opening}",
        "widgets.Workbench(table)",
    ]
