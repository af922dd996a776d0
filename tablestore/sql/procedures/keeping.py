"""Procedures that keep tables in shape: they compact, expire and drop, remove orphans; say what is wrong with
a table, what mends it and what other options would do.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.format import schema_change
from tablestore.lsm.compaction.compaction_report import Compaction
from tablestore.sql.procedures.procedure import (
    TABLE,
    Argument,
    Procedure,
    Values,
    options_of,
    partitions_of,
    success,
    table_of,
    time_of,
)
from tablestore.sql.result import Result
from tablestore.sql.scope import require_inside
from tablestore.sql.session import Session
from tablestore.table.table import Table


def _compact(session: Session, values: Values) -> Result:
    for name in ("order_strategy", "order_by", "partition_idle_time"):
        if values[name] not in (None, "none"):
            raise Unsupported(f"compact({name} => …)", "the engine compacts by key, whole partitions")
    if values["partitions"] and values["where"]:
        raise InvalidRequest("partitions and where do not go together")
    table = table_of(session, values, options_of(values["options"]))
    full = _full(values["compact_strategy"])
    chosen: list[dict[str, Any]] = [{"partition": p} for p in partitions_of(values["partitions"])]
    if values["where"]:
        chosen = [{"where": values["where"]}]
    snapshots: list[int] = []
    for choice in chosen or [{}]:
        opened = table.refresh().with_options(options_of(values["options"]))
        snapshots += _made(opened.compact(full=full, **choice))
    return success(f"{table.name} is compacted{_shown(snapshots)}", snapshots=tuple(snapshots))


def _made(done: Compaction) -> tuple[int, ...]:
    return () if done.committed is None else done.committed.snapshots


def _full(strategy: str | None) -> bool:
    """A batch job compacts all, unless it is asked for less."""
    if strategy not in (None, "full", "minor"):
        raise InvalidRequest(f"compact_strategy is 'full' or 'minor', not {strategy!r}")
    return strategy != "minor"


def _shown(snapshots: list[int]) -> str:
    return f": snapshot {', '.join(map(str, snapshots))}" if snapshots else ": nothing to do"


def _compact_database(session: Session, values: Values) -> Result:
    if values["partition_idle_time"]:
        raise Unsupported("compact_database(partition_idle_time => …)")
    lake, full, done = session.lake(), _full(values["compact_strategy"]), 0
    options = options_of(values["table_options"])
    require_inside(session.roots, options)
    for name in lake.tables():
        database, _, table = name.partition(".")
        if not _matches(values["including_databases"], database, default=True):
            continue
        if not _matches(values["including_tables"], table, default=True):
            continue
        if _matches(values["excluding_tables"], table, default=False):
            continue
        opened: Table = lake.table(f"`{database}`.`{table}`").with_options(options)
        done += bool(_made(opened.compact(full=full)))
    return success(f"{done} tables were compacted")


def _matches(pattern: str | None, name: str, *, default: bool) -> bool:
    """Whether a regular expression that a caller gives is that of the whole name."""
    if pattern is None:
        return default
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error as e:
        raise InvalidRequest(f"{pattern!r} is no pattern of names: {e}") from None


def _compact_manifest(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    snapshots = list(table.compact_manifests().snapshots)
    return success(f"the manifests of {table.name}{_shown(snapshots)}", "success", snapshots=tuple(snapshots))


def _rescale(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    parts = partitions_of(values["partition"])
    if len(parts) > 1:
        raise InvalidRequest("rescale takes one partition")
    buckets = values["bucket_num"] or int(table.options["bucket"])
    committed = table.rescale(buckets, partition=parts[0] if parts else None)
    return success(f"{table.name} has {buckets} buckets", snapshots=committed.snapshots)


def _expire_snapshots(session: Session, values: Values) -> Result:
    options: dict[str, Any] = options_of(values["options"])
    for name, key in (
        ("retain_max", "snapshot.num-retained.max"),
        ("retain_min", "snapshot.num-retained.min"),
    ):
        if values[name] is not None:
            options[key] = values[name]
    if values["max_deletes"] is not None:
        options["snapshot.expire.limit"] = values["max_deletes"]
    if values["older_than"]:
        age = SYSTEM.now_ms() - int(time_of(values["older_than"]).timestamp() * 1000)
        options["snapshot.time-retained"] = f"{max(age, 0)} ms"
    table = table_of(session, values, options)
    least, most = table.store.options.snapshot_min_retained, values["retain_max"]
    if most is not None and most < least:
        raise InvalidRequest(
            f"retain_max {most} is less than the {least} that are kept: give retain_min, too"
        )
    done = table.expire_snapshots()
    count = len(done.snapshots)
    return success(f"{count} snapshots of {table.name} expired", str(count))


def _expire_partitions(session: Session, values: Values) -> Result:
    table = table_of(session, values, options_of(values["options"]))
    how = ("expiration_time", "timestamp_formatter", "timestamp_pattern", "expire_strategy")
    done = table.expire_partitions(**{n: values[n] for n in how}, max_expires=values["max_expires"])
    names = list(done.partitions) or ["No expired partitions."]
    message = f"{len(done.partitions)} partitions expired"
    return Result.of_texts({"expired_partitions": names}, snapshots=done.snapshots, message=message)


def _drop_partition(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    parts = partitions_of(values["partitions"])
    if not parts:
        raise InvalidRequest("drop_partition needs partitions: 'dt=2026-01-01;dt=2026-01-02'")
    snapshots = [s for part in parts for s in table.truncate(partition=part).snapshots]
    return success(f"{len(parts)} partitions of {table.name} are empty", snapshots=tuple(snapshots))


def _remove_orphans(session: Session, values: Values) -> Result:
    if values["mode"] not in (None, "local"):
        raise Unsupported(f"remove_orphan_files(mode => {values['mode']!r})", "it runs in this process")
    age = "1 d"
    if values["older_than"]:
        passed = SYSTEM.now_ms() - int(time_of(values["older_than"]).timestamp() * 1000)
        age = f"{max(passed, 0)} ms"
    dry_run = bool(values["dry_run"])
    if values["table"].endswith("*"):
        raise Unsupported("remove_orphan_files of a whole database", "call it for each table")
    done = table_of(session, values).remove_orphans(older_than=age, dry_run=dry_run)
    rows = pa.table({"result": [str(len(done.files)), str(done.bytes)]})
    did = "would be" if dry_run else "were"
    return Result(rows, message=f"{len(done.files)} files, {done.bytes} bytes, {did} removed")


def _purge(session: Session, values: Values) -> Result:
    """What refers to older rows first, then the rows, then the snapshots that hold them."""
    table = table_of(session, values)
    for name in table.branches.names():
        table.branches.delete(name)
    for name in table.tags.names():
        table.tags.delete(name)
    for name in table.consumers.names():
        table.consumers.delete(name)
    snapshots = table.truncate().snapshots
    newest: dict[str, Any] = {"snapshot.num-retained.max": 1, "snapshot.num-retained.min": 1}
    done = table.refresh().with_options(newest).expire_snapshots()
    return success(f"{table.name} is empty, {len(done.snapshots)} snapshots are gone", snapshots=snapshots)


def _alter_default(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    table.alter(schema_change.default(values["column"], values["default_value"]))
    return success(f"column {values['column']} of {table.name} is {values['default_value']} by default")


def _repair(session: Session, values: Values) -> Result:
    name = values["identifier"]
    if name is None or "." not in name:
        raise Unsupported("repair of a catalog or database", "name a table: repair('db.t')")
    session.lake().repair_table(name)
    return success(f"the catalog knows {name}")


def _check(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    checked = table.check()
    message = f"{table.name}: {len(checked)} violations"
    return Result.of_texts({"violation": map(str, checked)}, message=message)


def _doctor(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    findings = table.inspect.doctor()
    return Result(findings.to_arrow(), message=f"{table.name}: {len(findings.to_arrow())} findings")


def _mend(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    dry_run = values["dry_run"] is not False
    return success(f"{table.name}{' (preview)' if dry_run else ''}", str(table.mend(dry_run=dry_run)))


def _what_if(session: Session, values: Values) -> Result:
    table = table_of(session, values)
    answer = table.what_if(options_of(values["options"]))
    return success(f"{table.name} under {values['options']}", str(answer))


PROCEDURES = (
    Procedure(
        "compact",
        (
            TABLE,
            *map(Argument, ("partitions", "order_strategy", "order_by", "options", "where")),
            *map(Argument, ("partition_idle_time", "compact_strategy")),
        ),
        _compact,
        "Merge the sorted runs of a table, of `partitions` ('dt=1;dt=2') or of what `where` selects; all of "
        "them with `compact_strategy` 'full' (the default), those that are due with 'minor'.",
    ),
    Procedure(
        "compact_database",
        (
            *map(Argument, ("including_databases", "mode", "including_tables", "excluding_tables")),
            *map(Argument, ("table_options", "partition_idle_time", "compact_strategy")),
        ),
        _compact_database,
        "Compact all tables whose names match the regular expressions.",
    ),
    Procedure("compact_manifest", (TABLE,), _compact_manifest, "Rewrite the manifests of a table as few."),
    Procedure(
        "rescale",
        (TABLE, Argument("bucket_num", int), Argument("partition")),
        _rescale,
        "Rewrite a table, or one partition, into so many buckets.",
    ),
    Procedure(
        "expire_snapshots",
        (
            TABLE,
            Argument("retain_max", int),
            Argument("retain_min", int),
            Argument("older_than"),
            Argument("max_deletes", int),
            Argument("options"),
        ),
        _expire_snapshots,
        "Remove old snapshots: all but the newest `retain_max`, those older than a time but for the newest "
        "`retain_min`; without either, as the table's options say.",
    ),
    Procedure(
        "expire_partitions",
        (
            TABLE,
            *map(
                Argument, ("expiration_time", "timestamp_formatter", "timestamp_pattern", "expire_strategy")
            ),
            Argument("max_expires", int),
            Argument("options"),
        ),
        _expire_partitions,
        "Remove the partitions whose time is over.",
    ),
    Procedure(
        "drop_partition",
        (TABLE, Argument("partitions", required=True)),
        _drop_partition,
        "Empty partitions: 'dt=2026-01-01;dt=2026-01-02'.",
    ),
    Procedure(
        "remove_orphan_files",
        (TABLE, Argument("older_than"), Argument("dry_run", bool), Argument("mode")),
        _remove_orphans,
        "Remove files of a table's directory that nothing names and that are older than a time (a day ago).",
    ),
    Procedure(
        "purge_files",
        (TABLE,),
        _purge,
        "Empty a table and remove its files: branches, tags, consumers and older snapshots go, too.",
    ),
    Procedure(
        "alter_column_default_value",
        (TABLE, Argument("column", required=True), Argument("default_value", required=True)),
        _alter_default,
        "Let a column have a value where an INSERT leaves it out.",
    ),
    Procedure(
        "repair", (Argument("identifier"),), _repair, "Let a catalog know a table whose files are there."
    ),
    Procedure("check", (TABLE,), _check, "Read a whole table anew: the invariants that do not hold."),
    Procedure("doctor", (TABLE,), _doctor, "What of a table is slow or at risk, and what to do."),
    Procedure(
        "mend",
        (TABLE, Argument("dry_run", bool)),
        _mend,
        "Do what the doctor prescribes; a preview unless dry_run is FALSE.",
    ),
    Procedure(
        "what_if",
        (TABLE, Argument("options", required=True)),
        _what_if,
        "How compaction would have gone under other options.",
    ),
)
