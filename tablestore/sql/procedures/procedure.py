"""Procedure: what CALL can call: its name, its arguments, what it does with them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.text import Name
from tablestore.table.identifier import Identifier
from tablestore.table.table import Table

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: `kind` is text, integer, boolean or time (a text such as 2026-01-31 12:00:00); `aliases`
    are other names that the original has for it."""

    name: str
    kind: type = str
    required: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure: `run` gets the session and the values of its arguments, absent ones as None."""

    name: str
    arguments: tuple[Argument, ...]
    run: Callable[[Session, Values], Result]
    text: str

    @property
    def syntax(self) -> str:
        """`CALL sys.name(table => …, [tag => …])`."""
        shown = [f"{a.name} => …" if a.required else f"[{a.name} => …]" for a in self.arguments]
        return f"CALL sys.{self.name}({', '.join(shown)})"

    def bound(self, positional: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Values by argument. An empty text is an argument left out. Raises InvalidRequest, NotFound."""
        names = [a.name for a in self.arguments]
        named = {_own_name(self.arguments, name): value for name, value in named.items()}
        if len(positional) > len(names):
            raise InvalidRequest(
                f"{self.name} takes {len(names)} arguments, not {len(positional)}: {self.syntax}"
            )
        values = dict(zip(names, positional, strict=False))
        for name, value in named.items():
            if name not in names:
                raise NotFound.among(f"argument of {self.name}", name, names)
            if name in values:
                raise InvalidRequest(f"argument {name!r} of {self.name} is given twice")
            values[name] = value
        checked = {a.name: _checked(a, values.get(a.name), self) for a in self.arguments}
        for argument in self.arguments:
            if argument.required and checked[argument.name] is None:
                raise InvalidRequest(f"argument {argument.name!r} is missing: {self.syntax}")
        return checked


def _own_name(arguments: tuple[Argument, ...], name: str) -> str:
    return next((a.name for a in arguments if name in a.aliases), name)


def _checked(argument: Argument, value: Any, procedure: Procedure) -> Any:
    if value is None or value == "":
        return None
    if argument.kind is bool and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if argument.kind is int and isinstance(value, str) and value.isdecimal():
        return int(value)
    if argument.kind is str and isinstance(value, dt.datetime | int) and not isinstance(value, bool):
        return str(value)
    if type(value) is not argument.kind:
        wanted = {str: "a text", int: "a whole number", bool: "TRUE or FALSE"}[argument.kind]
        raise InvalidRequest(f"argument {argument.name!r} of {procedure.name} is {wanted}, not {value!r}")
    return value


TABLE = Argument("table", required=True)


def table_of(session: Session, values: Values, options: Mapping[str, Any] | None = None) -> Table:
    """The table that the argument `table` names: `t`, `db.t` or `db.t$branch_b`."""
    text = values["table"]
    parts = text.split(".") if "`" not in text else None
    if parts is None:
        identifier = Identifier.parse(text)
        parts = [identifier.database, str(identifier).partition(".")[2]]
    return session.writable(Name(tuple(parts), at=-1), dict(options or {}))


def options_of(text: str | None) -> dict[str, str]:
    """`key=value,key=value` as options. Raises InvalidRequest."""
    options = {}
    for term in (text or "").split(",") if text else ():
        key, sign, value = term.partition("=")
        if not sign or not key.strip():
            raise InvalidRequest(f"{term!r} is no option: write 'key=value,key=value'")
        options[key.strip()] = value.strip()
    return options


def partitions_of(text: str | None) -> list[dict[str, str]]:
    """`k=v,k2=v;k=v`: partitions, each by its columns. Raises InvalidRequest."""
    return [options_of(part) for part in text.split(";") if part.strip()] if text else []


def time_of(text: str) -> dt.datetime:
    """`2026-01-31 12:00:00`, in UTC. Raises InvalidRequest."""
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"{text!r} is no time: write '2026-01-31 12:00:00'") from None
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time


def success(message: str, result: str = "Success", **more: Any) -> Result:
    """One row `result`, as the original gives it."""
    return Result.of_texts({"result": [result]}, message=message, **more)
