"""Function: one function that a query may use, and how DuckDB is asked for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tablestore.core.errors import InvalidRequest, Unsupported

Sql = str | Callable[[list[str]], str]
FunctionRows = Sequence[tuple[str, str] | tuple[str, str, Sql]]


@dataclass(frozen=True)
class Function:
    """One function. `kind` is scalar, aggregate or window; `steady` that it gives the same each time.

    In `sql`, {0} {1} … are the arguments and {*} all of them; without `sql` the name goes as it is.
    """

    syntax: str
    text: str
    sql: Sql = ""
    kind: str = "scalar"
    steady: bool = True

    @property
    def name(self) -> str:
        return self.syntax.partition("(")[0]

    @cached_property
    def arity(self) -> tuple[int, int]:
        """Fewest and most arguments, as the syntax shows them."""
        inner, optional, fewest, most = self.syntax.partition("(")[2].removesuffix(")"), 0, 0, 0
        for argument in filter(
            None, inner.replace("[", ",[,").replace("]", ",],").replace(" ", "").split(",")
        ):
            optional += (argument == "[") - (argument == "]")
            if argument not in "[]…":
                fewest, most = fewest + (not optional), most + 1
        return fewest, 1 << 30 if "…" in inner else most

    def render(self, arguments: list[str]) -> str:
        """The call as DuckDB reads it; arguments are SQL texts. Raises InvalidRequest for too many or few."""
        fewest, most = self.arity
        if not fewest <= len(arguments) <= most:
            raise InvalidRequest(f"{self.syntax} is called with {len(arguments)} arguments")
        if callable(self.sql):
            return self.sql(arguments)
        if not self.sql:
            return f"{self.name.lower()}({', '.join(arguments)})"
        return self.sql.replace("{*}", "{all}").format(*arguments, all=", ".join(arguments))


def text_of(literal: str, what: str) -> str:
    """The text of a literal argument."""
    if len(literal) < 2 or not literal.startswith("'") or not literal.endswith("'"):
        raise Unsupported(f"{what} that is no literal")
    return literal[1:-1].replace("''", "'")


LONGEST = 16 << 20
"""Bytes of the longest text that a function makes of short ones: DuckDB does not count these in its limit of
memory, and cannot be stopped while it makes one."""


SHORT = 64 << 10
"""Bytes of a text up to which DuckDB makes it: it makes 2,048 at once, and cannot be stopped meanwhile."""
AT_ONCE = 256 << 20
"""Characters of the texts that a function of ours gives DuckDB at once, for up to 2,048 rows."""


def require_length(bytes_: int, function: str) -> None:
    """Raise InvalidRequest for a text that is longer than a function makes one."""
    if bytes_ > LONGEST:
        raise InvalidRequest(too_long(function))


def too_long(function: str) -> str:
    """What is wrong with such a call."""
    return f"{function} makes texts of at most {LONGEST:,} bytes"
