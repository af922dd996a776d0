"""How a statement names a catalog, a database, a table; names, texts and options as SQL writes them: what
SHOW CREATE gives, so that it runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp

from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.sql.problems import start_of


def name_text(name: str) -> str:
    """A name in back-quotes."""
    return "`" + name.replace("`", "``") + "`"


def full_name_text(parts: Iterable[str]) -> str:
    """Names with dots between them."""
    return ".".join(name_text(part) for part in parts)


def literal_text(text: str) -> str:
    """A text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A name in double quotes, as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def unicode_text(text: str, escape: str) -> str:
    """The text of `U&'\\00e4'`: behind the escape stand four hexadecimal digits, or + and six. Raises
    InvalidRequest for others."""
    plain, at = "", 0
    while (start := text.find(escape, at)) >= 0:
        digits = (
            text[start + 2 : start + 8] if text[start + 1 : start + 2] == "+" else text[start + 1 : start + 5]
        )
        plain += text[at:start]
        if text[start + 1 : start + 2] == escape:
            plain, at = plain + escape, start + 2
            continue
        if len(digits) not in (4, 6) or not set(digits) <= set("0123456789abcdefABCDEF"):
            raise InvalidRequest(
                f"{text[start : start + 6]!r} is no character: write {escape}00e4 or {escape}+01f600"
            )
        plain, at = plain + chr(int(digits, 16)), start + (5 if len(digits) == 4 else 8)
    return plain + text[at:]


def names_text(names: Iterable[str]) -> str:
    """`(a, b)`."""
    return f"({', '.join(name_text(name) for name in names)})"


def options_text(options: Mapping[str, str]) -> str:
    """`('key' = 'value', …)`, one a line, sorted."""
    pairs = [f"  {literal_text(k)} = {literal_text(v)}" for k, v in sorted(options.items())]
    return "(\n" + ",\n".join(pairs) + "\n)"


@dataclass(frozen=True, slots=True)
class Name:
    """`t`, `db.t` or `catalog.db.t`, with the place in the script where it stands, -1 without one."""

    parts: tuple[str, ...]
    at: int = 0

    def __str__(self) -> str:
        return ".".join(self.parts)


def name_of(table: exp.Table) -> Name:
    """The name that a tree's table has."""
    parts = tuple(part.name for part in table.parts)
    return Name(parts, start_of(table))


@contextmanager
def of_name(name: Name) -> Iterator[None]:
    """What is raised within is because of this name: `at` of the error says where it stands."""
    try:
        yield
    except TablestoreError as e:
        if not hasattr(e, "at") and name.at >= 0:
            e.at = name.at  # type: ignore[attr-defined]  # for who knows the text
        raise
