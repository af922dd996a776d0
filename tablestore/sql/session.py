"""Session: where statements run. It has catalogs, the current catalog and database, settings, temporary
tables and running jobs, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from tablestore.core.arguments import checked_but
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError
from tablestore.io.roots import Roots
from tablestore.sql.concealment import conceal
from tablestore.sql.confinement import require_inside
from tablestore.sql.dialect.tokenizer import Parameters, Piece, pieces
from tablestore.sql.names import Name, of_name
from tablestore.sql.problems import placed
from tablestore.sql.remedies import in_sql
from tablestore.sql.result import Result
from tablestore.sql.settings import Settings
from tablestore.sql.streaming.jobs import Jobs
from tablestore.sql.temporary import TemporaryTable, View
from tablestore.table.identifier import DEFAULT_DATABASE
from tablestore.table.lake import Lake
from tablestore.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN_CATALOG = "lake"
FullName = tuple[str, str, str]  # catalog (empty where there is none yet), database, table


@checked_but("parameters")
class Session:
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
        read: Callable[[Piece], Any],
        spark: SparkSession | None = None,
        roots: Roots | None = None,
    ) -> None:
        self._read, self.roots = read, roots
        self.spark = spark  # who computes when the engine is Spark
        self.catalogs: dict[str, Lake] = {} if lake is None else {_OWN_CATALOG: lake}
        self.catalog: str | None = None if lake is None else _OWN_CATALOG
        self.database = DEFAULT_DATABASE
        self.settings = Settings()
        if spark is not None:
            self.settings.set("execution.engine", "spark")
        self.on_progress: Callable[[float], None] | None = None  # gets percent of a query, -1 if unknown
        self.temporary: dict[FullName, TemporaryTable] = {}
        self.views: dict[FullName, View] = {}  # the temporary ones
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
    def _explained(self, text: str, piece: Piece, before: str) -> Iterator[None]:
        """An error of a piece of a script says where it is and what was done `before`; it shows no
        secret."""
        try:
            yield
        except Exception as e:
            _explain(text, piece, e, before)
            raise

    def lake(self, catalog: str | None = None) -> Lake:
        """A catalog by name, None: the current one. Raises NotFound, InvalidRequest where there is none."""
        name = catalog or self.catalog
        if name is None:
            raise InvalidRequest(
                "there is no catalog yet: CREATE CATALOG name WITH ('warehouse' = '…'), USE CATALOG name"
            )
        if name not in self.catalogs:
            raise NotFound.among("catalog", name, self.catalogs)
        return self.catalogs[name]

    def full_name(self, name: Name) -> FullName:
        """Catalog, database and name of what a statement names; nothing is asked of the catalog. Raises
        InvalidRequest for a name of too many parts."""
        parts = name.parts
        if len(parts) > 3:
            raise InvalidRequest(f"{name} has too many parts: catalog.database.table")
        defaults = (self.catalog or "", self.database)
        catalog, database, table = (*defaults[: 3 - len(parts)], *parts)
        return catalog, database, table

    def temporary_table(self, name: Name) -> TemporaryTable | None:
        """The temporary table of a name; it hides a table of a catalog."""
        return self.temporary.get(self.full_name(name))

    def view(self, name: Name) -> View | None:
        """The view of a name, of the session or else of a catalog; None if it is none."""
        key = self.full_name(name)
        if key in self.views or key in self.temporary:
            return self.views.get(key)
        lake = self.catalogs.get(key[0])
        found = lake.view(self.resolved(name)[1]) if lake is not None and lake.keeps_views else None
        return None if found is None else View.of_catalog(found)

    def resolved(self, name: Name) -> tuple[Lake, str]:
        """The lake of a table, and its name there: `db.table`, odd names in back-quotes. Does not ask whether
        it exists. Raises NotFound for an unknown catalog, InvalidRequest for a name of too many parts."""
        catalog, database, table = self.full_name(name)
        return self.lake(catalog), f"{quoted(database)}.{quoted(table)}"

    def table(self, name: Name, options: dict[str, Any] | None = None) -> Table:
        """The table of a name, also `t$snapshots`, `t$branch_b`. Raises NotFound naming the nearest."""
        with of_name(name):
            require_inside(self.roots, options or {})
            lake, full = self.resolved(name)
            found = lake.table(full)
        return found.with_options(options) if options else found

    def writable(self, name: Name, options: dict[str, Any] | None = None) -> Table:
        """The same, of a table that can be written; raises InvalidRequest for a system table."""
        found = self.table(name, options)
        if not isinstance(found, Table):
            raise InvalidRequest(f"{name} is a system table: it is read-only")
        return found

    def within(self, catalog: str) -> Session:
        """This session with another current catalog. Raises NotFound."""
        self.lake(catalog)
        found = copy(self)
        found.catalog = catalog
        return found

    def __repr__(self) -> str:
        return f"Session(catalog {self.catalog}, database {self.database})"


def _explain(text: str, piece: Piece, error: Exception, before: str = "") -> None:
    """Say where in the text an error of a piece of it is, and what was done before; hide secrets."""
    if isinstance(error, TablestoreError):
        if error.args and isinstance(error.args[0], str):
            error.args = (in_sql(error.args[0], piece.sql), *error.args[1:])
        placed(error, text, getattr(error, "at", piece.start))
        if before and error.args and isinstance(error.args[0], str):
            error.args = (f"{error.args[0]}\n  ({before})", *error.args[1:])
    conceal(error, text, piece.bound)


def quoted(part: str) -> str:
    """A part of a name as `Lake` reads it."""
    if "`" in part or not part:
        raise InvalidRequest(f"{part!r} is no name of a table or database")
    return f"`{part}`"
