"""ALTER TABLE, DROP TABLE, ANALYZE TABLE: a table as a whole; its columns are in `alter_columns`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tablestore.core.errors import AlreadyExists, InvalidRequest, NotFound
from tablestore.sql.dialect.parser import Parser
from tablestore.sql.form import Form, FunctionStatement, doing, of_family
from tablestore.sql.result import Result
from tablestore.sql.scope import exists, stored_table
from tablestore.sql.session import Session
from tablestore.sql.statements.alter_columns import AlterTable, alterations, of_options
from tablestore.sql.statements.partitions import partition_files, require_partition, typed_partition
from tablestore.sql.text import Name, of_name


@dataclass(frozen=True, slots=True)
class RenameTable:
    """ALTER TABLE … RENAME TO …: a name without a database stays in that of the table."""

    name: Name
    to: Name
    if_exists: bool = False

    def run(self, session: Session) -> Result:
        key, to = session.full_name(self.name), session.full_name(self.to)
        if len(self.to.parts) == 1:
            to = (*key[:2], to[2])
        if key[0] != to[0]:
            raise InvalidRequest("a table stays in its catalog")
        if key in session.temporary or key in session.views:
            if to in session.temporary or to in session.views:
                raise AlreadyExists(f"{self.to} exists")
            if key in session.temporary:
                session.temporary[to] = session.temporary.pop(key)
            else:
                session.views[to] = session.views.pop(key)
            return Result(message=f"{self.name} is now {self.to}")
        if session.view(self.name) is not None:
            lake, old = session.resolved(self.name)
            lake.rename_view(old, session.resolved(Name(to))[1])
            return Result(message=f"view {self.name} is now {'.'.join(to[1:])}")
        if self.if_exists and not exists(session, self.name):
            return Result(message=f"there is no table {self.name}")
        with of_name(self.name):
            lake, old = session.resolved(self.name)
            _, new = session.resolved(Name(to))
            lake.rename_table(old, new)
        return Result(message=f"table {self.name} is now {'.'.join(to[1:])}")


@dataclass(frozen=True, slots=True)
class AlterPartitions:
    """ALTER TABLE … ADD or DROP PARTITION (…), …"""

    name: Name
    partitions: tuple[Mapping[str, Any], ...]
    drop: bool
    lenient: bool  # IF EXISTS, IF NOT EXISTS

    def run(self, session: Session) -> Result:
        table = stored_table(session, self.name)
        if not table.partition_by:
            raise InvalidRequest(f"table {self.name} is not partitioned")
        for partition in self.partitions:
            require_partition(table, partition, whole=not self.drop)
            has_files = bool(partition_files(table, partition))
            named = "/".join(f"{k}={v}" for k, v in partition.items())
            if has_files and not self.drop and not self.lenient:
                raise AlreadyExists(f"partition {named} of {self.name} exists")
            if not has_files and self.drop and not self.lenient:
                raise NotFound(f"no partition {named} of {self.name} holds files")
        if not self.drop:
            return Result(message="a partition is there as soon as a row is in it: nothing to do")
        snapshots: list[int] = []
        for partition in self.partitions:
            if partition_files(table, partition):
                snapshots += table.truncate(partition=typed_partition(table, partition)).snapshots
        return Result(
            snapshots=tuple(snapshots), message=f"{len(snapshots)} partitions of {self.name} are dropped"
        )


def _compact(name: Name, partition: Mapping[str, Any] | None, session: Session) -> Result:
    """ALTER TABLE … [PARTITION (…)] COMPACT: everything of each bucket is merged."""
    table = stored_table(session, name)
    partition = None if partition is None else typed_partition(table, partition)
    done = table.compact(full=True, partition=partition).committed
    snapshots = () if done is None else done.snapshots
    what = f"snapshot {snapshots[-1]}" if snapshots else "nothing was left to merge"
    return Result(snapshots=snapshots, message=f"table {name} is compacted: {what}")


def parse_alter(p: Parser) -> Any:
    """What stands behind ALTER TABLE."""
    if_exists = p.accept("IF EXISTS")
    name = p.name()
    if p.accept("RENAME TO"):
        return RenameTable(name, p.name(), if_exists)
    if p.comes("COMPACT") or p.comes("PARTITION"):
        partition = p.partition() if p.accept("PARTITION") else None
        of_partition = None if partition is None else of_options(p, partition)
        if of_partition is not None:
            return AlterTable(name, (of_partition,), p.piece.text, if_exists)
        p.expect("COMPACT")
        return doing(_compact, name, partition)
    partitions = _partitions(p, name)
    if partitions is not None:
        return partitions
    changes = alterations(p)
    return AlterTable(name, tuple(changes), p.piece.text, if_exists)


def _partitions(p: Parser, name: Name) -> AlterPartitions | None:
    drop = p.comes("DROP PARTITION") or p.comes("DROP IF EXISTS PARTITION")
    if not (drop or p.comes("ADD PARTITION") or p.comes("ADD IF NOT EXISTS PARTITION")):
        return None
    p.expect("DROP" if drop else "ADD")
    lenient = p.accept("IF EXISTS") or p.accept("IF NOT EXISTS")
    partitions = []
    while p.accept("PARTITION"):
        partitions.append(p.partition())
        p.accept(",")
    return AlterPartitions(name, tuple(partitions), drop, lenient)


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE, of a catalog with all its files; a temporary one of this name goes first."""

    name: Name
    if_exists: bool = False
    temporary: bool = False

    @staticmethod
    def parse(p: Parser) -> DropTable:
        if_exists = p.accept("IF EXISTS")
        name = p.name()
        p.accept("PURGE")
        return DropTable(name, if_exists)

    def run(self, session: Session) -> Result:
        key = session.full_name(self.name)
        if self.temporary:
            if session.temporary.pop(key, None) is None and not self.if_exists:
                raise NotFound.among("temporary table", key[2], {name for *_, name in session.temporary})
            return Result(message=f"temporary table {self.name} is dropped")
        if key in session.temporary:
            raise InvalidRequest(f"{self.name} is a temporary table: write DROP TEMPORARY TABLE")
        if session.view(self.name) is not None:
            raise InvalidRequest(f"{self.name} is a view: write DROP VIEW")
        with of_name(self.name):
            lake, full = session.resolved(self.name)
            lake.drop_table(full, if_exists=self.if_exists)
        return Result(message=f"table {self.name} is dropped")


def _analyze(name: Name, columns: tuple[str, ...] | None, session: Session) -> Result:
    """ANALYZE TABLE t COMPUTE STATISTICS; `columns` None: all, empty: rows only."""
    done = stored_table(session, name).analyze(None if columns is None else list(columns))
    return Result(snapshots=done.snapshots, message=f"statistics of {name} are kept with its snapshot")


def _parse_analyze(p: Parser) -> FunctionStatement:
    name = p.name()
    if p.comes("PARTITION"):
        p.refuse("ANALYZE TABLE … PARTITION", "statistics are of the whole table")
    p.expect("COMPUTE STATISTICS")
    columns: tuple[str, ...] | None = ()
    if p.accept("FOR ALL COLUMNS"):
        columns = None
    elif p.accept("FOR COLUMNS"):
        in_brackets = p.accept("(")
        names = [p.part("a column")]
        while p.accept(","):
            names.append(p.part("a column"))
        if in_brackets:
            p.expect(")")
        columns = tuple(names)
    return doing(_analyze, name, columns)


FORMS = of_family(
    "tables",
    Form(
        "ALTER TABLE [IF EXISTS] table {SET ('key' = 'value', …) | RESET ('key', …) | RENAME TO table | "
        "RENAME column TO name | ADD {column type … [FIRST | AFTER column] | (…)} | "
        "MODIFY {column type … [FIRST | AFTER column] | (…)} | DROP {column | (column, …) | WATERMARK} | "
        "{ADD | MODIFY} WATERMARK FOR column AS expression | "
        "ALTER COLUMN column {TYPE type | COMMENT 'text' | {SET | DROP} NOT NULL | SET DEFAULT value | …} | "
        "{ADD | DROP} [IF [NOT] EXISTS] PARTITION (column = value, …) | "
        "[PARTITION (column = value, …)] COMPACT | "
        "PARTITION (column = value, …) {SET ('change-tracking' = 'false') | RESET ('change-tracking')}}",
        "Change a table; rows that exist are seen through the new columns at once.",
        parse_alter,
        example="ALTER TABLE shop.orders ADD (note STRING COMMENT 'free text' AFTER customer, paid BOOLEAN)",
    ),
    Form(
        "DROP TABLE [IF EXISTS] table",
        "Remove a table and all its files.",
        DropTable.parse,
        example="DROP TABLE IF EXISTS shop.events",
    ),
    Form(
        "DROP TEMPORARY TABLE [IF EXISTS] table",
        "Forget a temporary table.",
        lambda p: replace(DropTable.parse(p), temporary=True),
        example="DROP TEMPORARY TABLE IF EXISTS words",
    ),
    Form(
        "ANALYZE TABLE table COMPUTE STATISTICS [FOR {ALL COLUMNS | COLUMNS column, …}]",
        "Add statistics of all rows up and keep them with the snapshot.",
        _parse_analyze,
        example="ANALYZE TABLE shop.orders COMPUTE STATISTICS FOR COLUMNS customer, amount",
    ),
)
