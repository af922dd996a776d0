"""Functions of ours that DuckDB calls with whole columns: what its own SQL cannot say exactly.

`DuckSql` is a query's text with the functions that it calls; `add_functions` makes them known to the
connection that runs it, and to no other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from tablestore.core.errors import Unsupported
from tablestore.format.types.data_type import DataType, to_arrow

_ROOTS = {"INT": "INTEGER", "CHAR": "VARCHAR", "BINARY": "BLOB", "VARBINARY": "BLOB"}
_ROOTS |= {"TIMESTAMP_LTZ": "TIMESTAMP WITH TIME ZONE"}


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
        fields = [f'"{f.name.replace(chr(34), chr(34) * 2)}" {duck_type(f.type)}' for f in t.children]
        return f"STRUCT({', '.join(fields)})"
    if t.root in ("VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY", "NULL"):
        raise Unsupported(f"{t.root} in an expression")
    return _ROOTS.get(t.root, t.root)
