"""Errors of statements: what is wrong, in which statement, at which line and column, with a mark under it.

Used by everything here that reads a text. An error of a verb (NotFound, CommitConflict, …) keeps its type and
gets its place added (`placed`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

from sqlglot import exp

from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.core.options.secrets import HIDDEN, replaced
from tablestore.sql.concealment import secret_parts

E = TypeVar("E", bound=TablestoreError)
_SET = re.compile(r"t\.alter\(ts\.set_options\((\{[^{}]*\})\)\)")
_TRUNCATE = "t.truncate(partition=…)"
_DATABASE = "create_database(name) makes it"
_TARGET = re.compile(
    r"\s*(?:UPDATE|DELETE\s+FROM|MERGE\s+INTO|INSERT\s+(?:INTO|OVERWRITE))\s+"
    r"((?:`[^`]+`|\"[^\"]+\"|[\w$]+)(?:\.(?:`[^`]+`|\"[^\"]+\"|[\w$]+))*)",
    re.IGNORECASE,
)

_WIDTH = 100  # characters of a line that are shown


class SqlProblem(InvalidRequest):
    """A statement that cannot be read; `line` and `column` count from 1, `problem` is what is wrong."""

    def __init__(self, problem: str, text: str = "", at: int = 0) -> None:
        self.problem = problem
        self.line, self.column = position(text, at)
        super().__init__(pointed(problem, text, at) if text else problem)


def position(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1, of the character `at` of the text."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def pointed(problem: str, text: str, at: int) -> str:
    """The problem with its line and column, below it the line of the text and a mark."""
    at = min(at, len(text))
    line, column = position(text, at)
    shown_at, text = _without_secrets(text, at)
    begin = text.rfind("\n", 0, shown_at) + 1
    end = text.find("\n", shown_at)
    whole, mark = text[begin : end if end >= 0 else len(text)], shown_at - begin
    cut = max(0, mark + 1 - _WIDTH // 2)
    shown = whole[cut : cut + _WIDTH]
    below = "".join(c if c.isspace() else " " for c in shown[: mark - cut])
    if cut:
        shown, below = f"…{shown}", f" {below}"
    if cut + _WIDTH < len(whole):
        shown += "…"
    return f"line {line}, column {column}: {problem}\n  {shown}\n  {below}^"


def _without_secrets(text: str, at: int) -> tuple[int, str]:
    """The text with `***` in place of its secrets, and where in that the character `at` of the text is; where
    it is in a secret, the `***`."""
    spans = secret_parts(text)
    before = [(start, min(end, at)) for start, end in spans if start < at]
    inside = any(start < at < end for start, end in spans)
    return len(replaced(text[:at], before)) - (len(HIDDEN) if inside else 0), replaced(text, spans)


def placed(error: E, text: str, at: int) -> E:
    """The error of a verb with where in the text it arose, unless that is known already."""
    if getattr(error, "line", None) is not None:
        return error
    error.line, error.column = position(text, at)  # type: ignore[attr-defined]  # for who catches it
    if error.args and isinstance(error.args[0], str):
        error.args = (pointed(error.args[0], text, at), *error.args[1:])
    return error


@contextmanager
def placing(text: str, at: int) -> Iterator[None]:
    """Errors of verbs within say where in the text they arose."""
    try:
        yield
    except TablestoreError as e:
        placed(e, text, at)
        raise


def start_of(tree: exp.Expression | None, default: int = 0) -> int:
    """Where in the script a part of a tree begins: the place of its first name, literal or function."""
    places = [node.meta["start"] for node in tree.walk() if "start" in node.meta] if tree is not None else []
    return min(places, default=default)


def near(name: str, existing: list[str]) -> str:
    """`; did you mean …?` for a name among those there are, else nothing."""
    close = get_close_matches(name.upper(), [e.upper() for e in existing], n=2, cutoff=0.6)
    names = {e.upper(): e for e in existing}
    return f"; did you mean {' or '.join(names[c] for c in close)}?" if close else ""


def in_sql(message: str, statement: str) -> str:
    """The message of an error of a statement, with its remedies as statements over its table."""
    message = message.replace(_DATABASE, "CREATE DATABASE name makes it")
    target = _TARGET.match(statement)
    if target is None:
        return message
    message = message.replace(_TRUNCATE, f"TRUNCATE TABLE {target[1]} PARTITION (…)")
    return _SET.sub(lambda match: _alter(target[1], match[1]), message)


def _alter(table: str, options: str) -> str:
    values = {key: str(value).lower() for key, value in ast.literal_eval(options).items()}
    return f"ALTER TABLE {table} SET ({', '.join(f'{k!r} = {v!r}' for k, v in values.items())})"
