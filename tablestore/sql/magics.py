"""`%load_ext tablestore`: SQL in the cells of a notebook, by `%sql` and `%%sql`, with completion.

IPython is not imported: the shell that loads the extension is given, and only its public methods are used.

A bar shows the progress of a cell from its second second on; it is empty when the query is done.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from sqlglot import exp

from tablestore import doors
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.sql.completion import KnownNames, complete
from tablestore.sql.dialect.parser import read_name, reader
from tablestore.sql.dialect.tokenizer import parameter_names, pieces
from tablestore.sql.forms import sql_session
from tablestore.sql.result import Result
from tablestore.sql.scope import exists
from tablestore.sql.session import Session
from tablestore.sql.text import Name, name_of, name_text
from tablestore.table.lake import Lake, connect
from tablestore.table.table import Table

_QUIET_SECONDS, _PAUSE_SECONDS = 1.0, 0.25

_TITLE = 80  # characters of a statement above its live table
_FIRST_ROWS_SECONDS = 1.0  # that a cell waits for the first rows of a stream
_CELL, _LINE = "%%sql", "%sql "
_ENGINE = "execution.engine"
_COCKPIT, _LAKE = re.compile(r"^\s*%cockpit\s+(\S*)$"), re.compile(r"^\s*%lake\s+(\w*)$")
_OF_LAKE = re.compile(r"\b(\w+)\.table\(\s*['\"]([^'\"]*)$")
_LINKS = 3  # most tables that a result names


class CellProgress:
    """The bar of one cell; nothing is shown where no notebook is at the other end."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell if getattr(shell, "kernel", None) is not None else None
        self._began = self._drawn = SYSTEM.monotonic()
        self._display, self._shown = "", False

    def show(self, percent: float) -> None:
        """Draw it, if it is time for it; `percent` is -1 where it is not known."""
        now = SYSTEM.monotonic()
        if self._shell is None or now - self._began < _QUIET_SECONDS or now - self._drawn < _PAUSE_SECONDS:
            return
        self._drawn, self._shown, passed = now, True, f"{now - self._began:.0f} s"
        has_end = 0 <= percent <= 100
        value, share = (f' value="{percent:.0f}"', f"{percent:.0f} % · ") if has_end else ("", "")
        bar = f'<progress max="100"{value} style="vertical-align:middle"></progress> {share}{passed}'
        self._publish({"text/plain": f"{share}{passed}", "text/html": bar})

    def clear(self) -> None:
        """Wipe it away; the next query begins."""
        if self._shown:
            self._publish({"text/plain": "", "text/html": ""})
        self._shown = False
        self._began = SYSTEM.monotonic()

    def _publish(self, data: dict[str, str]) -> None:
        again, self._display = bool(self._display), self._display or SYSTEM.uuid()
        assert self._shell is not None, "shown or cleared after it was shown"
        self._shell.display_pub.publish(data, transient={"display_id": self._display}, update=again)


def load(shell: Any) -> None:
    """Give an IPython shell the magics and their completion; again, nothing changes.

    `%sql SELECT …` is one line, `%%sql` a cell. Both take `--lake PATH` (or the name of a variable that holds
    a lake or a session) and `--engine spark` (or `embedded`) for themselves and those after them, and
    `name <<` to keep the result instead of showing it. With `--plot` the result is a chart (see `Scan.plot`),
    by `--x COLUMN`, `--y COLUMN,…`, `--kind KIND` and `--how HOW` as asked; without these, by the types of
    its columns. A SELECT in streaming mode shows a table that moves, with a Stop button. `:name` in a
    statement is the value of that variable.

    `%lake PATH` opens a lake as the variable `lake` (`%lake PATH as name`: as another one), shows it and
    chooses it for `%sql`; `%lake name` chooses the lake or session of a variable, `%lake` alone shows the
    session. `%cockpit [db.]table` opens a table in the workbench, `%cockpit name` the table or
    lake of a variable.
    """
    if "sql" in shell.magics_manager.magics["cell"]:
        return
    cells = Cells(shell)

    def sql(line: str, cell: str | None = None) -> Any:
        return cells.sql(line, cell)

    def lake(line: str) -> Session | Lake:
        return cells.lake(line)

    def cockpit(line: str) -> Any:
        return cells.cockpit(line)

    def complete_sql(context: Any) -> dict[str, Any]:
        return cells.completions(context)

    sql.__doc__ = lake.__doc__ = cockpit.__doc__ = load.__doc__
    for magic in (sql, lake, cockpit):  # t$files is a name, {…} is text
        vars(magic)["_ipython_magic_no_var_expand"] = True
    vars(complete_sql).update(  # what IPython's decorator `context_matcher` sets
        matcher_api_version=2, matcher_identifier="tablestore.sql", matcher_priority=100
    )
    shell.register_magic_function(sql, "line_cell", "sql")
    shell.register_magic_function(lake, "line", "lake")
    shell.register_magic_function(cockpit, "line", "cockpit")
    shell.Completer.custom_matchers.append(complete_sql)


class Cells:
    """The SQL of one notebook: its session, and where results go."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._streams: dict[str, Any] = {}  # what follows a stream, by its statement
        self._use(sql_session())

    def _use(self, session: Session) -> None:
        self._session, self._names = session, KnownNames(session)

    def sql(self, line: str, cell: str | None = None) -> Any:
        """Run a line or a cell. Results are shown, the last is given; with `name <<` it is kept instead."""
        with _ShortErrors():
            options, name, rest = _header(line)
            place, engine = options.pop("--lake", ""), options.pop("--engine", "")
            plots, chosen = "--plot" in options, bool(place or engine)
            if cell is not None and rest:
                form = "%%sql [--lake PATH] [--engine ENGINE] [--plot] [name <<]"
                raise InvalidRequest(f"{form} is followed by a new line, not by {rest!r}")
            if options and not plots:
                raise InvalidRequest(f"{' '.join(options)} say what --plot shows: add --plot")
            if place:
                self._open(place)
            if engine:
                self._session.settings.set(_ENGINE, engine)
            text = rest if cell is None else cell
            last: Result | None = None
            for problem in self._session.jobs.failures():
                print(problem, file=sys.stderr)
            for result in self._results(text):
                if last is not None:
                    self._show(last)
                last = result
            self._names.forget()
            if last is None and not chosen:
                raise InvalidRequest("there is no statement in the text")
            if last is not None and plots:
                return self._chart(last, options, name)
            if last is not None and last.streaming and not name:
                return self._live(last)
            if name and last is not None:
                self._shell.user_ns[name] = last
                print(f"{name}: {last.summary()}")
                return None
            return last
        return None

    def _chart(self, result: Result, options: Mapping[str, str], name: str) -> Any:
        """The chart of a result, kept as the variable `name` if there is one."""
        asked: dict[str, Any] = {key.lstrip("-"): text for key, text in options.items() if key != "--plot"}
        if "y" in asked:
            asked["y"] = [column.strip() for column in asked["y"].split(",")]
        figure = result.plot(**asked)
        if not name:
            return figure
        self._shell.user_ns[name] = figure
        print(f"{name}: a chart of {result.statement}")
        return None

    def _results(self, text: str) -> Iterator[Result]:
        """What the statements of a text give, a progress bar below the cell until the first rows of each are
        there."""
        bar = CellProgress(self._shell)
        self._session.on_progress = bar.show
        try:
            for result in self._session.script(text, self._parameters(text)):
                if not result.streaming:
                    result.summary()  # reads what is shown of it
                bar.clear()
                result.link = self._link(result.statement)
                yield result
        finally:
            bar.clear()
            self._session.on_progress = None

    def lake(self, line: str) -> Session | Lake:
        """Choose the lake, and give it; a path opens it as a variable. Without any, or for a session, the
        session as it is now."""
        with _ShortErrors():
            place, rest = _word(line.strip())
            lake = self._shell.user_ns.get(place)
            if not place or (isinstance(lake, Lake | Session) and not rest):
                if place:
                    self._open(place)
                return lake if isinstance(lake, Lake) else self._session
            self._open(place, named=_variable(rest))
            return self._shell.user_ns[_variable(rest)]

    def cockpit(self, line: str) -> Any:
        """The workbench of a table, live: of a variable that holds it, or by its name as in a statement; of
        a variable with a lake, its tables by health."""
        with _ShortErrors():
            text = line.strip()
            if not text:
                raise InvalidRequest(
                    "%cockpit is followed by the name of a table, or by a variable that holds one"
                )
            named = self._shell.user_ns.get(text)
            if isinstance(named, Lake):
                return doors.cockpit_of_lake(named)
            table = named if isinstance(named, Table) else self._session.writable(read_name(text))
            return doors.cockpit_of_table(table)

    def _link(self, statement: str) -> str:
        """How to open the tables that a query reads; empty for other statements, and for many tables."""
        with suppress(TablestoreError):
            tables = [n for n in tables_of(statement) if "$" not in n.parts[-1] and self._is_stored(n)]
            return " · ".join(f"%cockpit {shown(n)}" for n in tables) if len(tables) <= _LINKS else ""
        return ""

    def _is_stored(self, name: Name) -> bool:
        hidden = self._session.temporary_table(name) or self._session.view(name)
        return hidden is None and exists(self._session, name)

    def completions(self, context: Any) -> dict[str, Any]:
        """What IPython asks for while somebody types in a cell."""
        before = context.line_with_cursor[: context.cursor_position]
        if not context.full_text.startswith(_CELL) and (named := self._named(before)) is not None:
            return named
        lines = context.full_text.split("\n")
        at = sum(len(line) + 1 for line in lines[: context.cursor_line]) + context.cursor_position
        if context.full_text.startswith(_CELL):
            start = len(lines[0]) + 1
        else:
            begins = context.line_with_cursor.find(_LINE)
            start = at - context.cursor_position + begins + len(_LINE) if begins >= 0 else at + 1
        if at < start:
            return {"completions": []}
        text = context.full_text[start:]
        if not context.full_text.startswith(_CELL):
            text = text.partition("\n")[0]
        completion = complete(text, at - start, self._names)
        items = [SimpleNamespace(text=c.text, type=c.kind) for c in completion.candidates]
        return _completion(items, text[completion.start : at - start])

    def _named(self, before: str) -> dict[str, Any] | None:
        """Names of tables and lakes where the text before the cursor asks for one, else None."""
        if match := _COCKPIT.search(before):
            tables = complete(f"DESCRIBE {match[1]}", len("DESCRIBE ") + len(match[1]), self._names)
            typed = f"DESCRIBE {match[1]}"[tables.start :]
            stored = [c.text for c in tables.candidates if c.kind in ("catalog", "database", "table")]
            held = self._variables(Table | Lake, match[1]) if typed == match[1] else []
            return _completed([*held, *stored], typed)
        if match := _LAKE.search(before):
            return _completed(self._variables(Lake | Session, match[1]), match[1], suppress=False)
        match = _OF_LAKE.search(before)
        lake = self._shell.user_ns.get(match[1]) if match else None
        if match is None or not isinstance(lake, Lake):
            return None
        with suppress(TablestoreError, OSError):
            return _completed([name for name in lake.tables() if name.startswith(match[2])], match[2])
        return None

    def _variables(self, kind: Any, typed: str) -> list[str]:
        """Variables of the notebook that hold values of a kind, by name."""
        there = self._shell.user_ns.items()
        return sorted(
            n for n, value in there if n.startswith(typed) and n[0] != "_" and isinstance(value, kind)
        )

    def _open(self, place: str, *, named: str = "") -> None:
        """A path, or a variable that holds a lake or a session; the lake becomes the variable `named`. Raises
        InvalidRequest where that holds something else."""
        variables = self._shell.user_ns
        if named and not isinstance(variables.get(named), Lake | None):
            kind = type(variables[named]).__name__
            raise InvalidRequest(
                f"the variable {named} holds a {kind}: %lake {place} as NAME opens the lake as another one"
            )
        named_lake = variables.get(place)
        if isinstance(named_lake, Session):
            self._use(named_lake)
            return
        lake = named_lake if isinstance(named_lake, Lake) else connect(place)
        self._use(sql_session(lake))
        if named:
            variables[named] = lake

    def _parameters(self, text: str) -> dict[str, Any] | None:
        """Values of the notebook's variables that the text asks for by `:name`."""
        variables = self._shell.user_ns
        names = parameter_names(text)
        parameters = {name: _plain(variables[name]) for name in names if name in variables}
        return parameters if names else None

    def _live(self, result: Result) -> Any:
        """A table of a stream that moves, where its package is installed. The same statement again stops the
        one before it, whose cell shows the new one."""
        before = self._streams.pop(result.statement, None)
        if before is not None:
            before.stop()
        view = doors.live_table(result, title=" ".join(result.statement.split())[:_TITLE])
        if view is None:
            return result
        self._streams[result.statement] = view
        return view.wait_for_rows(_FIRST_ROWS_SECONDS)

    def _show(self, result: Result) -> None:
        shown: Any = self._live(result) if result.streaming else result
        data, metadata = self._shell.display_formatter.format(shown)
        self._shell.display_pub.publish(data, metadata)


def tables_of(statement: str) -> list[Name]:
    """The tables that a query reads, each once; none of another statement."""
    tree: Any = reader(()).read(pieces(statement)[0])
    if not isinstance(tree, exp.Query):
        return []
    names = [name_of(table) for table in tree.find_all(exp.Table)]
    return list({name.parts: name for name in names}.values())


def shown(name: Name) -> str:
    """A name as a statement has it."""
    return ".".join(part if part.isidentifier() else name_text(part) for part in name.parts)


class _ShortErrors:
    """An error of ours is shown as what it says: where in the text it is matters, not where in our code."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, TablestoreError):
            lines = f"{type(error).__name__}: {error}".splitlines()
            error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]  # IPython asks for it


_OPTIONS = {
    "--lake": "a path, or the name of a variable",
    "--engine": "embedded or spark",
    "--x": "the name of a column",
    "--y": "names of columns, with commas between them",
    "--kind": "bars, lines, histogram or points",
    "--how": "sum, mean, min, max or count",
}
"""Options of `%sql` with a value, and what that is."""


def _completed(names: Iterable[str], typed: str, *, suppress: bool = True) -> dict[str, Any]:
    """Names as completions of what is typed."""
    items = [SimpleNamespace(text=name, type="instance") for name in dict.fromkeys(names)]
    return _completion(items, typed, suppress=suppress)


def _completion(completions: list[SimpleNamespace], typed: str, *, suppress: bool = True) -> dict[str, Any]:
    """What IPython takes; with `suppress` those of others are left out."""
    return {"completions": completions, "matched_fragment": typed, "suppress": suppress, "ordered": True}


def _header(line: str) -> tuple[dict[str, str], str, str]:
    """The options with their values, the name of the result, and the rest of a line."""
    options, name, rest = dict[str, str](), "", line.strip()
    while True:
        word, after = _word(rest)
        second, behind = _word(after)
        if word == "--plot":
            options[word], rest = "", after
        elif word in _OPTIONS:
            if not second:
                raise InvalidRequest(f"{word} is followed by {_OPTIONS[word]}")
            options[word], rest = second, behind
        elif second == "<<" and word.isidentifier():
            name, rest = word, behind
        else:
            return options, name, rest


def _variable(rest: str) -> str:
    """The name behind `as`; `lake` without any. Raises InvalidRequest for another text."""
    word, _, name = rest.strip().partition(" ")
    if not rest.strip():
        return "lake"
    if word.lower() == "as" and name.strip().isidentifier():
        return name.strip()
    raise InvalidRequest(
        f"%lake PATH [as NAME]: {rest.strip()!r} is not expected; a path with spaces stands in quotes"
    )


def _word(text: str) -> tuple[str, str]:
    """The first word, which may stand in quotes, and what is behind it."""
    if text[:1] in ("'", '"') and text.find(text[0], 1) > 0:
        end = text.index(text[0], 1)
        return text[1:end], text[end + 1 :].lstrip()
    word, _, rest = text.partition(" ")
    return word, rest.lstrip()


def _plain(value: Any) -> Any:
    """A number of numpy as Python's."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
