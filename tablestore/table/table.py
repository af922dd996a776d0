"""Table: one table, with its verbs. Verbs first; every write returns `Committed`, every read starts as a lazy
`Scan`.

A Table is the schema as it was when opened; `refresh()` gives the newest. Safe to share: immutable. What it
is stands in `table_facts`, its verbs in `table_reads`, `table_writes` and `table_keeping`; here is what gives
another table or stands on the whole one. The examples run over the lake of `tests/table/test_examples.py`:
`orders` has the columns order_id (primary key), customer, amount, status and the snapshots 1 and 2, tagged
"v1" and "v2"; `events` has no key and is partitioned by day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tablestore import doors
from tablestore.core import rich
from tablestore.core.arguments import checked_but
from tablestore.core.errors import UnsupportedAttribute
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema_change import Change as SchemaChange
from tablestore.read.scan import time_travel
from tablestore.table import definition, reads
from tablestore.table.handle import Handle
from tablestore.table.scan import Scan
from tablestore.table.table_keeping import TableKeeping
from tablestore.table.table_reads import TableReads
from tablestore.table.table_writes import TableWrites

if TYPE_CHECKING:
    from tablestore.doors import Diagnosis, Finding, Mended, SystemTable

_ELSEWHERE = {"rename": "a table does not know its catalog: lake.rename_table(name, new_name)"}


@checked_but("columns", "name", "options", "where")
class Table(TableReads, TableWrites, TableKeeping):
    """One table of a lake, as `lake.table(name)` and `ts.open(path)` give it."""

    def refresh(self) -> Table:
        """The table under its newest schema, which somebody else may have altered. Raises NotFound if it is
        gone.

        >>> _ = ts.open(orders.location).alter(ts.add("note", ts.STRING))
        >>> len(orders.schema), len(orders.refresh().schema)
        (4, 5)
        """
        return Table._of(definition.refreshed(self._handle))

    def with_options(self, options: Mapping[str, Any]) -> Table:
        """The same table with other `options` for this use only: nothing is stored.

        Raises InvalidOption for options that say how the stored files are laid out and for unknown names,
        Unsupported for options whose effect is not there.

        >>> orders.with_options({"scan.tag-name": "v1"}).scan().count()
        3
        """
        return Table._of(definition.with_options(self._handle, options))

    def alter(self, *changes: SchemaChange) -> Table:
        """The table after `changes` (`ts.add`, `ts.drop`, `ts.rename`, …), stored as one new schema.

        Rows that exist are seen through it at once; no data file is touched. Raises what each change refuses,
        CommitConflict if somebody else alters the table at the same time.

        >>> orders.alter(ts.add("note", ts.STRING), ts.drop("status")).schema.names
        ['order_id', 'customer', 'amount', 'note']
        """
        return Table._of(definition.altered(self._handle, changes))

    def at(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Any = None,
        watermark: int | None = None,
    ) -> Table:
        """The table as it was, with the columns it had: read-only.

        Exactly one of: `snapshot` an id; `tag` a name; `timestamp` the newest snapshot of that moment or
        before (epoch milliseconds, a datetime, or ISO text in local time); `watermark` the oldest that has
        reached it. Raises NotFound naming what there is.

        >>> orders.at(tag="v1").get({"order_id": 2})["amount"], orders.get({"order_id": 2})["amount"]
        (20.0, 25.0)
        """
        store = self.store
        state = time_travel.resolve(
            store, snapshot=snapshot, tag=tag, timestamp=timestamp, watermark=watermark
        )
        moment = None if timestamp is None else time_travel.millis_of(timestamp)
        at = time_travel.at(store, state)
        return Table._of(Handle(at, self._handle.name, state, moment, self._handle.used_with))

    def branch(self, name: str) -> Table:
        """The branch of that `name`, to read and to write. Raises NotFound naming the nearest.

        >>> orders.branches.create("dev", tag="v1")
        >>> orders.branch("dev").scan().count()
        3
        """
        return Table._of(definition.branch(self._handle, name))

    def to_spark(
        self,
        spark: Any,
        *,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        pushdown: bool = True,
    ) -> Any:
        """The table as a Spark DataFrame, at the snapshot that is the newest now.

        `spark` is a session (`ts.spark.session()`); `columns` and `where` choose as in `scan`. Each query
        skips files by its own conditions, without `pushdown` by `where` alone; Spark reads all files itself
        where it gives the same rows, and its plan says what is left out. Raises Unsupported for changes and
        differences, MissingPackage without PySpark.

        >>> orders.to_spark(ts.spark.session(), where="amount > 10").count()  # doctest: +SKIP
        1
        """
        reads.require_plannable(self._handle, spark)
        return doors.to_spark(self, spark, columns=columns, where=where, pushdown=pushdown)

    def mend(
        self, what: Finding | Diagnosis | None = None, *, dry_run: bool = True, decided: bool = False
    ) -> Mended:
        """Carry out what the doctor prescribes; a preview unless `dry_run=False`.

        `what` is a finding of `inspect.doctor()`, or all of them, or (None) what it finds now. Then damaged
        or missing snapshots, manifests, schemas, tags and data files come first: every data file is read
        once, the table goes back to its newest sound state, and broken files are put aside in
        `tablestore/damaged`; the result says what is lost. Older snapshots that can be read stay, as tags
        where ids would have a gap; indexes are made again; a damaged log is repaired. A table that cannot be
        opened is mended by `tablestore.mend(path)`.

        `decided` also those that give something up (a tag, a consumer's place, an option's meaning): each
        says what in `asks`. Raises InvalidRequest for a single finding that asks or that no call mends.

        >>> orders.mend().dry_run
        True
        """
        self._handle.require_present()
        return doors.mend(self, what, dry_run=dry_run, decided=decided)

    def system(self, name: str) -> SystemTable:
        """The system table of that `name`, such as `snapshots`, to be read like a table; `inspect` has the
        small ones as Arrow.

        The scan options count: `t.with_options({"incremental-between": "1,2"}).system("audit_log")`. Raises
        NotFound naming the nearest.

        >>> orders.system("audit_log").scan(["rowkind", "order_id"]).head(1).to_arrow().to_pylist()
        [{'rowkind': '+I', 'order_id': 1}]
        """
        return doors.system_table(self.store, self.name, name, self._handle.at)

    def __getattr__(self, name: str) -> Any:
        if name in _ELSEWHERE:
            raise UnsupportedAttribute(f"Table.{name}", _ELSEWHERE[name])
        if not name.startswith("_"):
            if hasattr(Scan, name):
                raise AttributeError(f"Table has no attribute {name!r}: table.scan().{name}")
            if doors.is_of_inspect(name):
                raise AttributeError(f"Table has no attribute {name!r}: table.inspect.{name}")
        raise AttributeError(f"Table has no attribute {name!r}")

    def __repr__(self) -> str:
        key = f", primary key ({', '.join(self.primary_key)})" if self.primary_key else ""
        key = key if self.store.schema.row_count_field is None else ", change-log without a primary key"
        parts = f", partitioned by ({', '.join(self.partition_by)})" if self.partition_by else ""
        at = self._handle.at.id if self._handle.at else self.store.snapshots.latest_id()
        return f"Table({self.name} at snapshot {at}: {len(self.schema)} columns{key}{parts})"

    def _repr_html_(self) -> str | None:
        return rich.card("table", self.store, self.name, self._handle.at)
