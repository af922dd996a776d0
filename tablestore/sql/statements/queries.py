"""SELECT, VALUES and WITH: queries."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tablestore.sql.form import Form, of_family
from tablestore.sql.query.engine import rows_of
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.streaming.follow import LiveRows


@dataclass(frozen=True, slots=True)
class Select:
    """A query; `text` is the script that it is of."""

    tree: exp.Expression
    text: str

    def run(self, session: Session) -> Result:
        if session.settings["execution.runtime-mode"] == "streaming":
            return Result(stream=LiveRows(session, self.tree, self.text))
        return Result(rows_of(session, self.tree, self.text))


FORMS = of_family(
    "queries",
    Form(
        "SELECT … FROM … [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT n]",
        "Rows of tables. In streaming mode changes as they come, with the kind of change as column `op`: "
        "the rows that are there first, unless `scan.*` or `consumer-id` say otherwise. What was before a "
        "change is looked up where commits do not hold it, of partial-update, aggregation and first-row too, "
        "which Flink refuses. `JOIN t FOR SYSTEM_TIME AS OF s.proc_time` looks rows up in `t` as it is then.",
        node=exp.Query,
        build=Select,
        example="SELECT * FROM shop.orders",
    ),
    Form(
        "WITH name AS (query), … SELECT …",
        "A query with named parts.",
        example="WITH big AS (SELECT * FROM shop.orders WHERE amount > 6) SELECT count(*) FROM big",
    ),
    Form(
        "VALUES (value, …), …",
        "Rows that are written out.",
        node=exp.Values,
        build=Select,
        example="VALUES (1, 'a'), (2, 'b')",
    ),
)
