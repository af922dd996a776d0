"""The tables of a lake that a capture writes: made, brought to the shape of the source, emptied and renamed
as its events say.

Everything here may be done again after a kill: a table is compared with what it shall be. Only what removes
rows looks at the commit identifier first, so that rows which came after an event stay.
"""

from __future__ import annotations

import contextlib
import logging
import operator
from collections.abc import Iterator, Mapping
from functools import reduce

import numpy as np
import pyarrow as pa

from tablestore.catalog.opening import require_mounted
from tablestore.cdc.capture import schema_change
from tablestore.cdc.capture.conversion import create_dead_letters, dead_letters_beside, is_dead_letters
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.report import CaptureJournal, EventReport
from tablestore.cdc.capture.rules import EVOLVE, FAIL, IGNORE, CaptureRules
from tablestore.cdc.capture.source import (
    ALTERED,
    CAPTURED,
    DROPPED,
    EMPTIED,
    PAUSED,
    RENAMED,
    SKIPPED,
    TableEvent,
    TableShape,
)
from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound, SchemaMismatch
from tablestore.flow.writing import write_kinds
from tablestore.format.predicates.predicate import Predicate, col
from tablestore.format.rowkind import DELETE, INSERT
from tablestore.io.routed import file_io_for
from tablestore.table.identifier import Identifier
from tablestore.table.lake import Lake
from tablestore.table.table import Table

log = logging.getLogger(__name__)


def plain_name(name: str, source: SourceName) -> str:
    """The name of a table of the lake; raises InvalidRequest for one that is none: a table of the source may
    be called anything."""
    try:
        identifier = Identifier.parse(name)
        if identifier.system is not None or identifier.branch != "main":
            raise InvalidRequest(f"{name!r} names a system table or a branch")
    except InvalidRequest as e:
        raise InvalidRequest(
            f"{source} cannot become a table of the lake: {e}; exclude it, or capture it alone with into="
        ) from None
    if is_dead_letters(name):
        raise InvalidRequest(
            f"{source} cannot become {name}, where rows that do not fit are kept: use prefix="
        )
    return name


def name_refusal(rules: CaptureRules, source: SourceName) -> str:
    """Why a table has no target, for want of a name that the lake takes; empty if it has one."""
    try:
        plain_name(rules.target(source), source)
    except InvalidRequest as e:
        return str(e)
    return ""


class Targets:
    """The tables that rows go to. Not thread-safe."""

    def __init__(self, lake: Lake, rules: CaptureRules, journal: CaptureJournal, *, user: str) -> None:
        self._lake, self._rules, self._user = lake, rules, user
        self._policy = rules.schema_change
        self._tables: dict[str, Table] = {}
        self._journal, self._known = journal, journal.targets()

    def name(self, source: SourceName) -> str:
        """The table for a table of the source."""
        return plain_name(self._rules.target(source), source)

    def __contains__(self, target: str) -> bool:
        return target in self._lake

    def require_store(self) -> None:
        """Raise Unavailable where tables had rows, and the lake is away: it is not mounted, say."""
        if self._known:
            require_mounted(self._lake.warehouse, file_io_for(self._lake.warehouse))

    def opened(self, target: str) -> Table:
        """A table under its newest schema. Raises NotFound for one that somebody dropped, also if another was
        made under its name: what it had is not read again. Raises Unavailable where the lake is away."""
        table = self._tables.get(target)
        try:
            if table is None:
                table = self._lake.table(target)
                self._require_known(target, table)
            elif table.store.schemas.ids()[-1] != table.store.schema.id:
                table = table.refresh()
            else:
                table.store.require_same()
        except (NotFound, IndexError):
            self._tables.pop(target, None)
            self.require_store()
            raise NotFound(
                f"table {target} is gone, and rows for it were captured before: begin anew with another "
                "name= and a fresh checkpoint"
            ) from None
        self._tables[target] = table
        return table

    def _require_known(self, target: str, table: Table) -> None:
        digest = self._known.get(target)
        if digest not in (None, table.store.identity.digest) and not is_dead_letters(target):
            raise NotFound(f"{target} is another table")

    def note_committed(self, target: str) -> None:
        """Keep that this table, and no other of its name, has rows of the capture."""
        digest = self._tables[target].store.identity.digest
        if self._known.get(target) != digest:
            self._known[target] = digest
            self._journal.note_targets(self._known)

    def letters(self, target: str) -> str:
        """The table for rows that do not fit into `target`, made if need be."""
        name = dead_letters_beside(target)
        if name not in self._tables and name not in self._lake:
            create_dead_letters(self._lake, name)
        return name

    def is_committed(self, target: str, identifier: int) -> bool:
        """Whether the rows of a batch are in the table."""
        position = self.opened(target).position(self._user)
        return position is not None and position[0] >= identifier

    def carry_out(self, event: TableEvent, identifier: int) -> EventReport:
        """Do what an event of the batch of this identifier asks for, and say what was done."""
        if event.kind in (SKIPPED, DROPPED, PAUSED):
            target = self.name(event.table) if event.kind != SKIPPED else ""
            done = event.reason or ("its rows stay" if event.kind == DROPPED else "it is not captured")
        else:
            with _in_event(event):
                target, done = self._carry_out(event, identifier)
        return self.reported(event, target, done)

    @staticmethod
    def reported(event: TableEvent, target: str, done: str) -> EventReport:
        """The report of an event, and what was done for it."""
        log.info("%s %s at %s: %s: %s", event.kind, event.table, event.position, target, done)
        return EventReport(
            event.kind,
            str(event.table),
            target,
            event.statement,
            event.position,
            event.seconds,
            done,
            event.rows,
        )

    def _carry_out(self, event: TableEvent, identifier: int) -> tuple[str, str]:
        target = self.name(event.table)
        if event.kind == CAPTURED:
            return target, _joined(self._captured(event, target, identifier), event.reason)
        if event.kind == RENAMED:
            return self._renamed(event, target)
        if event.kind == EMPTIED:
            emptied = self._emptied(event, target, identifier)
            return target, _joined(emptied, self._altered(event, target) if event.shape else "")
        assert event.kind == ALTERED, f"an event of kind {event.kind!r}"
        if event.read_again and event.shape is not None and target not in self._lake:
            self._create(event.table, event.shape, target)  # as errors advise: all its rows come
            return target, "created anew; its rows are read again"
        return target, _joined(self._altered(event, target), "its rows are read again" * event.read_again)

    def _captured(self, event: TableEvent, target: str, identifier: int) -> str:
        assert event.shape is not None, "a table that is captured has a shape"
        if target not in self._lake:
            self._create(event.table, event.shape, target)
            return "created"
        made_anew = bool(event.statement) and not self._rules.merge_shards
        if made_anew:
            self._known.pop(target, None)
        done = self._altered(event, target)
        if not made_anew and not self.opened(target).primary_key:
            self._require_no_rows(event, target)
        if made_anew and self.opened(target).store.snapshots.latest() is not None:
            done = _joined(self._emptied(event, target, identifier), done)
        return _joined("it was there", done)

    def _require_no_rows(self, event: TableEvent, target: str) -> None:
        """Raise InvalidRequest where rows without a key would come to those of somebody else."""
        if self.opened(target).store.snapshots.latest() is not None and not self._rules.merge_shards:
            raise InvalidRequest(
                f"{target} has rows, and those of a table without a primary key would be added to them: drop "
                f"it, or capture {event.table} into another"
            )

    def _create(self, source: SourceName, shape: TableShape, target: str) -> None:
        self._known.pop(target, None)
        wanted = self._rules.target_shape(source, shape)
        options = dict(self._rules.options)
        if not wanted.primary_key and options.get("bucket", "-1") != "-1" and "bucket-key" not in options:
            del options["bucket"]  # rows without a key have no bucket
        if not self._rules.merge_shards and not shape.partial:
            options[schema_change.COLUMNS] = schema_change.recorded(shape.names)
        self._tables[target] = self._lake.create_table(
            target,
            schema=[(c.name, c.type) for c in wanted.columns],
            primary_key=list(wanted.primary_key) or None,
            partition_by=list(wanted.partition_by),
            options=options,
            comments={c.name: c.comment for c in wanted.columns if c.comment},
            comment=wanted.comment or None,
            if_not_exists=True,
        )

    def _altered(self, event: TableEvent, target: str) -> str:
        if event.shape is None:
            return ""
        table, merged = self.opened(target), self._rules.merge_shards
        if merged and event.renamed_columns and self._policy == EVOLVE:
            raise _one_of_several(target)
        wanted = self._rules.target_shape(event.table, event.shape)
        try:
            needed = schema_change.adjustment(
                table.store.schema,
                wanted,
                event.shape.names,
                renamed=event.renamed_columns,
                merged=merged or event.shape.partial,
            )
        except SchemaMismatch as e:
            if self._policy == IGNORE and table.primary_key:
                return f"ignored: {e}"
            raise
        if not needed.changes and not needed.notes:
            return "" if event.kind != ALTERED else "its columns fit"
        if self._policy == IGNORE:
            return f"ignored: {needed.words}" if needed.changes else ""
        if self._policy == FAIL and needed.changes:
            raise SchemaMismatch(
                f"{target} would change: {needed.words}; schema_change='fail' asks to stop here: start again "
                "with 'evolve' to follow, or with 'ignore' to leave its columns as they are"
            )
        self._tables[target] = table.alter(*needed.all)
        return needed.words

    def _renamed(self, event: TableEvent, target: str) -> tuple[str, str]:
        assert event.new_name is not None, "a table that is renamed has a new name"
        new = self.name(event.new_name)
        done = f"it stays {target}"
        if new != target:
            self._rename(target, new)
            done = f"{target} is {new}"
        elif self._policy != IGNORE:
            done = _joined(done, self._move(event.table, event.new_name, target))
        return new, _joined(done, self._altered(_as(event, event.new_name), new))

    def _move(self, old: SourceName, new: SourceName, target: str) -> str:
        """Give the rows of a shard that is renamed its new name, where it is in their key."""
        table = self.opened(target)
        shard, named = self._rules.shard(old, table.primary_key), self._rules.shard(new, table.primary_key)
        if not shard or shard == named:
            return ""
        rows = table.scan(where=_equal(shard)).to_reader()
        with table.writer(user=f"{self._user}-rename") as writer:
            for batch in rows:
                for columns, kind in ((shard, DELETE), (named, INSERT)):
                    kinds = pa.array(np.full(batch.num_rows, kind, np.int8))
                    write_kinds(writer, _with_values(batch, columns), kinds)
        return "its rows have its new name"

    def _rename(self, target: str, new: str) -> None:
        if self._rules.merge_shards:
            raise _one_of_several(target)
        if self._policy == FAIL:
            raise SchemaMismatch(
                f"{target} would become {new}; schema_change='fail' asks to stop here: start again with "
                "'evolve'"
            )
        there, done = target in self._lake, new in self._lake
        if there and done:
            raise AlreadyExists(f"{target} would become {new}, which is there already: rename or drop it")
        if there:
            database = Identifier.parse(new).database
            if database not in self._lake.databases():
                self._lake.create_database(database, if_not_exists=True)
            self._lake.rename_table(target, new)
        elif not done:
            raise NotFound(f"neither {target} nor {new} is there")
        for name in (target, new):
            self._tables.pop(name, None)
        if target in self._known:
            self._known[new] = self._known.pop(target)
            self._journal.note_targets(self._known)

    def _emptied(self, event: TableEvent, target: str, identifier: int) -> str:
        if self.is_committed(target, identifier):
            return "emptied before"
        table = self.opened(target)
        if not self._rules.merge_shards:
            table.truncate()
            return "emptied"
        if shard := self._rules.shard(event.table, table.primary_key):
            table.delete(_equal(shard))
            return f"its rows are gone, those of {_shown(shard)}"
        if self._policy == IGNORE and table.primary_key:
            return "its rows stay, since other tables have rows there"
        raise _one_of_several(target)


def _as(event: TableEvent, name: SourceName) -> TableEvent:
    return TableEvent(
        event.kind, name, event.position, shape=event.shape, renamed_columns=event.renamed_columns
    )


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _equal(values: Mapping[str, str]) -> Predicate:
    return reduce(operator.and_, (col(name) == value for name, value in values.items()))


def _shown(values: Mapping[str, str]) -> str:
    return " and ".join(f"{name} = {value!r}" for name, value in values.items())


def _with_values(batch: pa.RecordBatch, values: Mapping[str, str]) -> pa.RecordBatch:
    for name, value in values.items():
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, batch.schema.field(at), pa.repeat(value, batch.num_rows))
    return batch


def _one_of_several(target: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"{target} has rows of other tables, too, and a statement about one of them cannot be followed: "
        "start again with schema_change='ignore', capture the tables apart from each other, or have their "
        "names in the key, with metadata and primary_keys='database_name, table_name, *', from the start"
    )


@contextlib.contextmanager
def _in_event(event: TableEvent) -> Iterator[None]:
    """Errors say of which table they are, and which statement caused them."""
    try:
        yield
    except (InvalidRequest, AlreadyExists) as e:
        after = f" after {event.statement[:200]!r}" if event.statement else ""
        raise SchemaMismatch(f"{event.table} at {event.position}{after}: {e}") from e
