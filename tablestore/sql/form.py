"""Form: one kind of statement, with all that is known of it: words, syntax, how it is read, what it does.

The forms of all families (`forms.py`) are the grammar: the parser goes by them, errors and completion name
their words, the reference page of statements is made from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from sqlglot import exp

from tablestore.sql.dialect.parser import Parser
from tablestore.sql.result import Result
from tablestore.sql.session import Session

_WORDS = re.compile(r"[A-Z]+(?: [A-Z]+)*\b")


class Statement(Protocol):
    """A statement that has been read: a frozen value that knows how to carry itself out."""

    def run(self, session: Session) -> Result:
        """Carry it out. Raises what the verbs below raise; nothing is half-done then."""


@dataclass(frozen=True, slots=True)
class FunctionStatement:
    """A statement that a function of the session carries out; clients that may only read may ask for one that
    `reads`."""

    run: Callable[[Session], Result]
    reads: bool = False


def doing(function: Callable[..., Result], *read: Any) -> FunctionStatement:
    """The statement that calls a function with what was read, and the session."""
    return FunctionStatement(partial(function, *read))


def reading(function: Callable[..., Result], *read: Any) -> FunctionStatement:
    """The same, of a statement that changes nothing."""
    return FunctionStatement(partial(function, *read), reads=True)


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of statement.

    `words` are the words it begins with, by default those of its syntax. `parse` reads it from the tokens
    behind them, straight into its value; without `parse` sqlglot reads it, and `build` makes the value of the
    tree of type `node` (it also gets the text of the script). `syntax` and `text` describe it, `example` runs
    as it stands.
    """

    syntax: str
    text: str
    parse: Callable[[Parser], Statement] | None = None
    words: str = ""
    family: str = ""
    node: type[exp.Expr] | None = None
    build: Callable[[Any, str], Statement] | None = None
    example: str = ""

    def __post_init__(self) -> None:
        begins = _WORDS.match(self.syntax)
        if not self.words and begins is not None:
            object.__setattr__(self, "words", begins[0])


def of_family(family: str, *forms: Form) -> tuple[Form, ...]:
    """These forms, as those of one family."""
    return tuple(replace(form, family=family) for form in forms)
