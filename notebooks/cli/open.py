"""`open`: the cockpit of any Paimon table, from the shell: live in JupyterLab, as a page, or as text.

A warehouse's tables are listed to choose from. Names and paths never become code: what goes into the notebook
is a Python literal, and options, which may be secret, reach it by the environment. Nothing is written to the
table. What cannot be opened is one line and exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tablestore as ts
import widgets
from notebooks.cli.live import show_live

OPTIONS = "WORKBENCH_OPEN_OPTIONS"
"""The environment variable in which the options go to the kernel."""


class NotOpened(Exception):
    """One line: what is wrong, and what to do."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="workbench open", description=__doc__.partition("\n")[0])
    parser.add_argument("path", help="a table's directory, or a warehouse whose tables are listed")
    parser.add_argument("--to", metavar="FILE.html", type=Path, help="write a page that needs no kernel")
    parser.add_argument("--text", action="store_true", help="print it")
    parser.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how to reach a store: s3.endpoint=…",
    )
    parser.add_argument(
        "--roots",
        action="append",
        default=[],
        metavar="DIRECTORY",
        help="a place outside the table's directory that its data files may lie in",
    )
    asked = parser.parse_args(arguments)
    try:
        options = dict(pair(text) for text in asked.option)
        path = location_of(asked.path)
        table = table_at(path, options, asked.roots)
        if table is None:
            return listed(path, options, wanted=asked.text or asked.to is not None)
        return shown(table, asked, options)
    except (NotOpened, ts.TablestoreError, OSError) as error:
        print(f"workbench open: {_one_line(error)}", file=sys.stderr)
        return 1


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE of the command line."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise NotOpened(f"--option takes KEY=VALUE, not {text!r}")
    return key, value


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def location_of(path: str) -> str:
    """The whole path of a directory that is there and can be read; the address of a store as it is."""
    if "://" in path:
        return path
    whole = Path(path).expanduser().absolute()
    if not whole.exists():
        raise NotOpened(f"there is nothing at {whole}")
    if not whole.is_dir():
        raise NotOpened(f"{whole} is a file; a table is a directory with `schema` and `snapshot` in it")
    if not may_read(whole):
        raise NotOpened(f"no permission to read {whole}")
    return os.fspath(whole)


def may_read(folder: Path) -> bool:
    """Whether this user may list and enter `folder`."""
    return os.access(folder, os.R_OK | os.X_OK)


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


def listed(path: str, options: Mapping[str, str], *, wanted: bool) -> int:
    """Print the tables; an error if a page or text was wanted, for then one must be chosen."""
    there = tables_of(path, options)
    many = "one table" if len(there) == 1 else f"{len(there)} tables"
    print(f"{path} holds {many}; {'choose' if wanted else 'open'} one:")
    for each in there:
        print(f"  ./workbench open {shlex.quote(_plain(each))}")
    return 2 if wanted else 0


def _plain(location: str) -> str:
    return location.removeprefix("file://")


def shown(table: ts.Table, asked: argparse.Namespace, options: Mapping[str, str]) -> int:
    """Text, a page, both, or JupyterLab."""
    if not asked.text and asked.to is None:
        os.environ[OPTIONS] = json.dumps(options)
        cells = cells_for(table, with_options=bool(options), roots=asked.roots)
        return show_live(cells, name="workbench.ipynb", browser=not asked.no_browser)
    bench = widgets.Workbench(table)
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
