"""Session: where statements run: a scope, and the jobs that its statements started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from tablestore.core.arguments import checked_but
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.io.confined import Roots
from tablestore.sql.dialect.tokenizer import Parameters, StatementText, pieces
from tablestore.sql.problems import conceal, in_sql, placed
from tablestore.sql.result import Result
from tablestore.sql.scope import Scope
from tablestore.sql.streaming.jobs import Jobs
from tablestore.table.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@checked_but("parameters")
class Session(Scope):
    """Statements over catalogs; `ts.sql_session` makes one. `lake` is the catalog to begin with, named
    `lake`; others come by CREATE CATALOG. `read` makes a statement of each piece of a script; with `roots`
    statements name nothing outside of them. Not safe to share between threads.

    >>> session = ts.sql_session(lake)
    >>> session.sql("SELECT customer, amount FROM shop.orders WHERE order_id = ?", [1]).to_arrow().to_pylist()
    [{'customer': 'ann', 'amount': Decimal('12.50')}]
    """

    def __init__(
        self,
        lake: Lake | None,
        *,
        read: Callable[[StatementText], Any],
        spark: SparkSession | None = None,
        roots: Roots | None = None,
    ) -> None:
        super().__init__(lake, spark=spark, roots=roots)
        self._read = read
        self.jobs = Jobs()

    def sql(self, text: str, parameters: Parameters = None) -> Result:
        """Run a statement, or a script of several separated by semicolons; gives the result of the last.

        `?` and `:name` in the text take their values from `parameters`, a list or a mapping. Raises
        SqlProblem for text that is no statement, Unsupported by name for what is out, and what the verbs
        raise; each says where in the text. A script in which a statement cannot be read does nothing. Else it
        stops at the first error, which says which statements were carried out. No error shows a secret of
        the text or a value of the environment.
        """
        results = list(self.script(text, parameters))
        if not results:
            raise InvalidRequest("there is no statement in the text")
        return results[-1]

    def script(self, text: str, parameters: Parameters = None) -> Iterator[Result]:
        """The same, statement by statement: each is carried out when its result is asked for. All are read
        before the first is carried out, so none is where one cannot be read."""
        parts = pieces(text, parameters)
        statements = []
        for number, piece in enumerate(parts, 1):
            before = f"statement {number} of {len(parts)}; none was carried out"
            with self._explained(text, piece, before if number > 1 else ""):
                statements.append(self._read(piece))
        for number, (piece, statement) in enumerate(zip(parts, statements, strict=True), 1):
            began = SYSTEM.now_ms()
            before = f"statement {number} of {len(parts)}; those before it were carried out"
            with self._explained(text, piece, before if number > 1 else ""):
                result = statement.run(self)
            result.statement, result.seconds = piece.sql, (SYSTEM.now_ms() - began) / 1000
            result.explain = partial(_explain, text, piece)
            yield result

    @contextmanager
    def _explained(self, text: str, piece: StatementText, before: str) -> Iterator[None]:
        """An error of a piece of a script says where it is and what was done `before`; it shows no
        secret."""
        try:
            yield
        except Exception as e:
            _explain(text, piece, e, before)
            raise

    def __repr__(self) -> str:
        return f"Session(catalog {self.catalog}, database {self.database})"


def _explain(text: str, piece: StatementText, error: Exception, before: str = "") -> None:
    """Say where in the text an error of a piece of it is, and what was done before; hide secrets."""
    if isinstance(error, TablestoreError):
        if error.args and isinstance(error.args[0], str):
            error.args = (in_sql(error.args[0], piece.sql), *error.args[1:])
        placed(error, text, getattr(error, "at", piece.start))
        if before and error.args and isinstance(error.args[0], str):
            error.args = (f"{error.args[0]}\n  ({before})", *error.args[1:])
    conceal(error, text, piece.bound)
