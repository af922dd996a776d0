"""The rows of a table: scans, rows of given keys, where keys are, splits, lookup joins, Spark's frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablestore.core.arguments import require_session
from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.core.options.log_store import LogSystem
from tablestore.format import binary_row
from tablestore.format.predicates.predicate import Predicate, all_of, col
from tablestore.format.predicates.predicate_text import condition
from tablestore.format.schema import TableSchema
from tablestore.meta.store import Store
from tablestore.read.scan import fallback, scan_mode
from tablestore.read.scan.file_read import strictly
from tablestore.read.scan.plan import plan
from tablestore.read.scan.scan_mode import ScanTarget, SnapshotState
from tablestore.table import lookup
from tablestore.table.handle import Handle
from tablestore.table.lazy_read import column_names
from tablestore.table.log_of import table_log
from tablestore.table.scan import Scan
from tablestore.table.union_read import union_of
from tablestore.write.arrow_input import as_batches
from tablestore.write.routing import routing


def scan(
    table: Handle,
    columns: Sequence[str] | None,
    where: Predicate | str | None,
    *,
    log: bool | None = None,
) -> Scan:
    """A scan of what the scan options name: the newest snapshot, a chosen one, changes or a difference; with
    the rows of the log behind a snapshot if `log` (None: `tablestore.scan.log`) says so."""
    target = scan_mode.batch(table.store, table.at)
    by_option = log is None and table.store.options.scan_log and isinstance(target, SnapshotState)
    if log or by_option:
        return _with_log(table, target, columns, where)
    store, names = target.under(table.store), column_names(columns)
    chosen = table.at is not None
    other = table.other_branch() if chosen else fallback.of_options(table.store, target)
    return Scan(store, target, columns=names, where=condition(where, store.schema), other=other)


def _with_log(
    table: Handle, target: ScanTarget, columns: Sequence[str] | None, where: Predicate | str | None
) -> Scan:
    """The union read of what `target` would read."""
    moment = table.moment_ms
    if table.at is None and scan_mode.mode_of(table.store) == "from-timestamp":
        moment = scan_mode.moment_ms(table.store)
    return _union(table, target, moment, columns, where)


def _union(
    table: Handle,
    target: ScanTarget,
    moment_ms: int | None,
    columns: Sequence[str] | None,
    where: Predicate | str | None,
    bucket: int | None = None,
) -> Scan:
    union = union_of(table.store, table_log(table.store, table.log), target, moment_ms)
    state = replace(union, bucket=bucket)
    under = state.under(table.store)
    where = condition(where, under.schema)
    return Scan(under, state, columns=column_names(columns), where=where)


def get(
    table: Handle, key: Mapping[str, Any], columns: Sequence[str] | None, *, log: bool = False
) -> dict[str, Any] | None:
    """The row of one primary key, None if there is none; with `log` as the rows of the log make it."""
    keys = primary_key_of(table)
    if not isinstance(key, Mapping) or set(key) != set(keys):
        example = ", ".join(f"{k!r}: …" for k in keys)
        raise InvalidRequest(f"a key of {table.name} holds {', '.join(keys)}: get({{{example}}})")
    if columns in ([], ()):  # whether it is there
        return None if get(table, key, keys, log=log) is None else {}
    wanted = all_of(*(col(k) == v for k, v in key.items()))
    state = replace(table.state(wanted), columns=column_names(columns), other=table.other_branch())
    if state.other is not None and not log:
        return next(iter(state.to_arrow().to_pylist()), None)
    named = lookup.one_key(state, wanted)
    if log:
        return _get_with_log(table, state, named, wanted)
    batches = iter(()) if named is None else table.lookups.rows(state, named, state.names)
    rows = pa.Table.from_batches(batches, state.schema).to_pylist()
    return rows[0] if rows else None


def _get_with_log(
    table: Handle, state: Scan, key: pa.Table | None, where: Predicate
) -> dict[str, Any] | None:
    """The row of a key (None: of one that no row can have) in a union read, whose log is read in the key's
    bucket alone."""
    target = SnapshotState(state.snapshot, travelled=table.at is not None)
    schema, options, bucket = table.store.schema, table.store.options, None
    placed = set(schema.partition_keys) <= set(schema.primary_keys)
    if key is not None and placed and options.log_system in (LogSystem.EMBEDDED, LogSystem.KAFKA):
        [(_, bucket, _)] = routing.route(key.combine_chunks().to_batches()[0], schema, options)
    names = list(dict.fromkeys((*state.names, *schema.primary_keys)))
    union = _union(table, target, table.moment_ms, names, where, bucket)  # raises without a log
    if key is None:
        return None
    wanted = _encoded(key, schema)[0]  # a condition takes 0.0 for −0.0, which is another key
    rows = union.to_arrow()
    for row, encoded in enumerate(_encoded(rows, schema)):
        if encoded == wanted:
            return rows.slice(row, 1).select(list(state.names)).to_pylist()[0]
    return None


def _encoded(rows: pa.Table, schema: TableSchema) -> list[bytes]:
    """The primary key of each row as bytes."""
    fields, whole = schema.columns(schema.primary_keys), rows.combine_chunks().to_batches()
    types = [f.type for f in fields]
    return [key for b in whole for key in binary_row.encode_many([b.column(f.name) for f in fields], types)]


def rows_of_keys(table: Handle, state: Scan, keys: Any) -> Iterator[pa.RecordBatch]:
    """The rows of `state` that have these keys (anything Arrow-like that holds the key columns)."""
    wanted = lookup.key_table(state.store, as_batches(keys))
    return table.lookups.rows(state, wanted, state.names)


def primary_key_of(table: Handle) -> tuple[str, ...]:
    """The columns of the primary key. Raises InvalidRequest where there are none."""
    keys = table.store.schema.shown.primary_keys
    if not keys:
        raise InvalidRequest(f"{table.name} has no primary key; scan it with a filter")
    return keys


def require_plannable(table: Handle, spark: Any) -> None:
    """Raise InvalidRequest unless `spark` is a session, Unsupported for a read that Spark cannot plan for
    itself."""
    require_session(spark)
    if not scan(table, None, None).whole:
        raise Unsupported("changes and differences in Spark", "use Table.scan, Table.changes or a stream")


def located_keys(store: Store) -> Iterator[tuple[bytes, int, pa.RecordBatch]]:
    """(partition, bucket, rows of key and partition columns) for each key of the newest snapshot."""
    store, schema = strictly(store), store.schema
    names = tuple(dict.fromkeys((*schema.primary_keys, *schema.partition_keys)))
    planned = plan(store, store.snapshots.latest(), columns=names)
    ttl = store.options.key_index_ttl_ms
    oldest = None if ttl is None else store.env.local_now_ms() - ttl
    for split in planned.splits:
        if oldest is not None and all((f.creation_time_ms or 0) < oldest for f in split.files):
            continue
        for batch in split.read(store, names):
            yield split.partition, split.bucket, batch
