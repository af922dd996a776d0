"""CALL sys.procedure(…), SHOW PROCEDURES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, doing, of_family
from tablestore.sql.procedures import keeping, refs
from tablestore.sql.procedures.procedure import Procedure
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.text import Name

PROCEDURES: Mapping[str, Procedure] = MappingProxyType(
    {procedure.name: procedure for procedure in (*keeping.PROCEDURES, *refs.PROCEDURES)}
)
"""Every procedure by name."""


@dataclass(frozen=True, slots=True)
class Call:
    """CALL [catalog.]sys.name(argument, … | name => argument, …)."""

    name: Name
    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    @staticmethod
    def parse(p: Parser) -> Call:
        name = p.name("a procedure, such as sys.compact,")
        positional: list[Any] = []
        named: dict[str, Any] = {}

        def one() -> None:
            at = p.at
            key = p.argument_name()
            if key is None:
                if named:
                    p.fail("an argument by place stands behind one by name", at)
                positional.append(p.literal())
            elif key in named:
                p.fail(f"argument {key!r} is given twice", at)
            else:
                named[key] = p.literal()

        p.listed(one, empty=True)
        return Call(name, tuple(positional), named)

    def run(self, session: Session) -> Result:
        *catalog, procedure = self.name.parts
        if catalog[-1:] != ["sys"] or len(catalog) > 2:
            raise InvalidRequest(f"procedures are in sys: CALL sys.{procedure}(…)")
        if procedure not in PROCEDURES:
            raise NotFound.among("procedure", procedure, PROCEDURES)
        called = PROCEDURES[procedure]
        values = called.bound(self.positional, self.named)
        if len(catalog) == 1 or catalog[0] == session.catalog:
            return called.run(session, values)
        return called.run(session.within(catalog[0]), values)


def _show_procedures(session: Session) -> Result:
    """SHOW PROCEDURES."""
    procedures = [PROCEDURES[name] for name in sorted(PROCEDURES)]
    columns = {
        "procedure name": [f"sys.{procedure.name}" for procedure in procedures],
        "syntax": [procedure.syntax for procedure in procedures],
        "comment": [procedure.text for procedure in procedures],
    }
    return Result.of_texts(columns)


FORMS = of_family(
    "maintenance",
    Form(
        "CALL [catalog.]sys.procedure([name =>] value, …)",
        "Run a procedure on a table; SHOW PROCEDURES lists them.",
        Call.parse,
        example="CALL sys.create_tag(`table` => 'shop.orders', tag => 'monday')",
    ),
    Form(
        "SHOW PROCEDURES",
        "What CALL can call, with its arguments.",
        lambda _: doing(_show_procedures),
        example="SHOW PROCEDURES",
    ),
)
