"""Names of tables in a source, and patterns that choose among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from tablestore.core.errors import InvalidRequest

REFUSE, APPEND = "refuse", "append"
"""What becomes of tables without a primary key."""
T = TypeVar("T")
ByTable = tuple[tuple[str, T], ...]  # a pattern of database.table, and what holds for the tables it matches
SHADOWS = ("_*_gho", "_*_ghc", "_*_del", "__*_new", "_*_new", "_*_old")
"""Tables that gh-ost and pt-online-schema-change make beside one whose columns they change."""


@dataclass(frozen=True, slots=True, order=True)
class SourceName:
    """A table in the source. Names may hold any character: they never become a path or a statement as they
    are."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class Patterns:
    """The tables whose `database.table` matches one of `include` and none of `exclude`. In a pattern `*` is
    any text and `?` any character, `[ab]` one of these; letters count as they are written."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, include: str | Iterable[str], exclude: str | Iterable[str] = (), *, database: str
    ) -> Patterns:
        """Patterns as a user writes them: one, several with commas, or a list. One without a dot is of
        `database`. Raises InvalidRequest for an empty one, and one without a dot where there is no
        `database`."""
        return cls(_patterns(include, database), _patterns(exclude, database))

    def match(self, name: SourceName) -> bool:
        """Whether the table is chosen."""
        text = str(name)
        wanted = any(fnmatchcase(text, pattern) for pattern in self.include)
        return wanted and not any(fnmatchcase(text, pattern) for pattern in self.exclude)

    def choose(self, name: SourceName) -> bool:
        """As `match`, but for tables that an online schema change makes for a while: only where they are
        named in full."""
        if not self.match(name):
            return False
        shadow = any(fnmatchcase(name.table, pattern) for pattern in SHADOWS)
        return not shadow or literal(str(name)) in self.include


def first_match(rules: ByTable[T], name: SourceName) -> T | None:
    """What holds for a table: of the first pattern that it matches."""
    text = str(name)
    return next((value for pattern, value in rules if fnmatchcase(text, pattern)), None)


def words(written: str | Iterable[str], what: str) -> list[str]:
    """Names as a user writes them: several with commas, or a list. Raises InvalidRequest for what is no
    text."""
    if isinstance(written, str):
        written = written.split(",")
    elif isinstance(written, bytes) or not isinstance(written, Iterable):
        raise InvalidRequest(f"{what} are texts: one with commas, or a list, not {written!r}")
    texts = list(written)
    for text in texts:
        if not isinstance(text, str):
            raise InvalidRequest(f"{what} are texts, not {text!r}")
    return [text.strip() for text in texts]


def _patterns(written: str | Iterable[str], database: str) -> tuple[str, ...]:
    return tuple(_pattern(text, database) for text in words(written, "patterns of tables"))


def _pattern(text: str, database: str) -> str:
    if not text:
        raise InvalidRequest("a pattern of tables is empty; write names as shop.orders or shop.*")
    if "." in text:
        return text
    if not database:
        raise InvalidRequest(f"pattern {text!r} names no database; write it as shop.{text}")
    return f"{literal(database)}.{text}"


def is_literal(pattern: str) -> bool:
    """Whether a pattern is the name of one table or database."""
    return not any(c in "*?[" for c in pattern)


def literal(text: str) -> str:
    """The pattern that only this text matches."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)
