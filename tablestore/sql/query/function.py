"""A function that a query may use, how DuckDB is asked for it, and those of ours that DuckDB calls with whole
columns: what its own SQL cannot say exactly.

`DuckSql` is a query's text with the functions that it calls; `add_functions` makes them known to the
connection that runs it, and to no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.format.types.data_type import DataType, to_arrow
from tablestore.sql.text import quoted

Sql = str | Callable[[list[str]], str]
FunctionRows = Sequence[tuple[str, str] | tuple[str, str, Sql]]
_ROOTS = {"INT": "INTEGER", "CHAR": "VARCHAR", "BINARY": "BLOB", "VARBINARY": "BLOB"}
_ROOTS |= {"TIMESTAMP_LTZ": "TIMESTAMP WITH TIME ZONE"}


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


class UserFunction(Protocol):
    """One function: `run` gets Arrow arrays of the parameters' types and gives one of `returns`."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> tuple[DataType, ...]: ...

    @property
    def returns(self) -> DataType: ...

    def run(self, *columns: pa.Array) -> pa.Array: ...


class DuckSql(str):
    """A query as DuckDB reads it, and the functions that it calls."""

    functions: tuple[UserFunction, ...] = ()


@dataclass(frozen=True, slots=True)
class Calls:
    """The functions that a query calls so far."""

    found: dict[str, UserFunction]

    def __call__(self, function: UserFunction, *arguments: str) -> str:
        """The call as DuckDB reads it; arguments are SQL texts."""
        self.found[function.name] = function
        pairs = zip(arguments, function.parameters, strict=True)
        typed = [f"CAST({a} AS {duck_type(t)})" for a, t in pairs]
        return f'"{function.name}"({", ".join(typed)})'


def add_functions(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Make the functions of a query known to a connection; those that it has stay."""
    for function in sql.functions if isinstance(sql, DuckSql) else ():
        parameters = [duck_type(t) for t in function.parameters]
        create(connection, function.name, _on_arrow(function), parameters, duck_type(function.returns))


def create(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    function: Callable[..., pa.Array],
    parameters: Sequence[str],
    returns: str,
) -> None:
    """Make a function over Arrow arrays known to a connection, by DuckDB's names of types; one of this name
    that it has stays."""
    kinds: list[Any] = [duckdb.type(t) for t in parameters]
    options: dict[str, Any] = {"type": PythonUDFType.ARROW, "null_handling": FunctionNullHandling.SPECIAL}
    try:
        connection.create_function(name, function, kinds, duckdb.type(returns), **options)
    except duckdb.Error as e:
        if "already" not in str(e):
            raise


def _on_arrow(function: UserFunction) -> Callable[..., pa.Array]:
    wanted = [to_arrow(t) for t in function.parameters]

    def run(*columns: pa.Array) -> pa.Array:
        whole = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
        typed = [c if c.type == t else c.cast(t, safe=False) for c, t in zip(whole, wanted, strict=True)]
        return function.run(*typed)

    return (lambda a: run(a)) if len(wanted) == 1 else lambda a, b: run(a, b)  # DuckDB counts the parameters


def duck_type(t: DataType) -> str:
    """The type as DuckDB writes it. Raises Unsupported for one that it has not."""
    if t.root == "DECIMAL":
        return f"DECIMAL({t.precision}, {t.scale})"
    if t.root == "TIMESTAMP":
        return "TIMESTAMP_NS" if t.precision > 6 else "TIMESTAMP"
    if t.root == "ARRAY":
        return f"{duck_type(t.element)}[]"
    if t.root in ("MAP", "MULTISET"):
        value = duck_type(t.children[1].type) if t.root == "MAP" else "INTEGER"
        return f"MAP({duck_type(t.children[0].type)}, {value})"
    if t.root == "ROW":
        fields = [f"{quoted(f.name)} {duck_type(f.type)}" for f in t.children]
        return f"STRUCT({', '.join(fields)})"
    if t.root in ("VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY", "NULL"):
        raise Unsupported(f"{t.root} in an expression")
    return _ROOTS.get(t.root, t.root)
