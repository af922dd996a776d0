"""SELECT, VALUES and WITH: queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from tablestore.sql.form import Form
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


def _select(words: str, syntax: str, text: str, example: str, *, node: Any = None) -> Form:
    return Form(words, syntax, text, "queries", node=node, build=Select if node else None, example=example)


FORMS = (
    _select(
        "SELECT",
        "SELECT … FROM … [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT n]",
        "Rows of tables. In streaming mode changes as they come, with the kind of change as column `op`: "
        "the rows that are there first, unless `scan.*` or `consumer-id` say otherwise. What was before a "
        "change is looked up where commits do not hold it, of partial-update, aggregation and first-row too, "
        "which Flink refuses. `JOIN t FOR SYSTEM_TIME AS OF s.proc_time` looks rows up in `t` as it is then.",
        "SELECT * FROM shop.orders",
        node=exp.Query,
    ),
    _select(
        "WITH",
        "WITH name AS (query), … SELECT …",
        "A query with named parts.",
        "WITH big AS (SELECT * FROM shop.orders WHERE amount > 6) SELECT count(*) FROM big",
    ),
    _select(
        "VALUES",
        "VALUES (value, …), …",
        "Rows that are written out.",
        "VALUES (1, 'a'), (2, 'b')",
        node=exp.Values,
    ),
)
