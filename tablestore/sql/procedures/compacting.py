"""compact, compact_database, compact_manifest, rescale."""

from __future__ import annotations

import re
from typing import Any

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.lsm.compaction.compaction_report import Compaction
from tablestore.sql.confinement import require_inside
from tablestore.sql.procedures.procedure import (
    TABLE,
    Argument,
    Procedure,
    Values,
    options_of,
    partitions_of,
    success,
    table_of,
)
from tablestore.sql.result import Result
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
)
