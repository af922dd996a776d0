"""The lake table of a table of the cluster, and PaimonLakeWriter: rows of a split → files of one bucket.

A bucket of the cluster is the bucket of the lake where both hash alike (Fluss does with `datalake.format` =
paimon). Log tables without bucket keys become tables without buckets. Log tables may have three columns more,
as Fluss gives them. Options of the cluster's table that begin with `paimon.` are the lake table's.

The table's own writer does it, with the bucket given instead of hashed: what it decides about levels, files
and compactions is decided as ever. A sample of each split is hashed, since a table of the cluster that was
made for another lake puts rows into other buckets. Small batches are put together before they are written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import NotFound, SchemaMismatch, Unsupported
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.format import hashing, rowkind, schema_change
from tablestore.format.types.arrow_types import BIGINT, INT, TIMESTAMP_LTZ, arrow_schema
from tablestore.format.types.data_type import DataField, DataType
from tablestore.log.fluss_log import BUCKET, OFFSET, TIMESTAMP, places_in_log
from tablestore.table.lake import Lake
from tablestore.table.table import Table
from tablestore.table.writer import EngineWriter
from tablestore.table.writes import table_write
from tablestore.tiering.cluster import COMMIT_USER, ClusterTable, RowBatch
from tablestore.tiering.splits import TieringSplit
from tablestore.write.routing import routing
from tablestore.write.table_write import WriteSettings

log = logging.getLogger(__name__)
_OWN_PREFIX = "paimon."


def lake_table(lake: Lake, table: ClusterTable, *, log_columns: bool, options: Mapping[str, Any]) -> Table:
    """The lake table, made if it is not there, and with the columns that the cluster's table has got since.
    Raises SchemaMismatch where the one that is there does not fit."""
    try:
        in_lake = lake.table(table.path)
    except NotFound:
        in_lake = _created(lake, table, log_columns, options)
    return _fitted(in_lake, table)


def has_log_columns(table: Table) -> bool:
    """Whether the lake table has the columns that say where a row was in the log."""
    return OFFSET in table.schema.names


def _created(lake: Lake, table: ClusterTable, log_columns: bool, options: Mapping[str, Any]) -> Table:
    fields = list(table.fields)
    if log_columns and not table.primary_keys:
        added = ((BUCKET, INT), (OFFSET, BIGINT), (TIMESTAMP, TIMESTAMP_LTZ(3)))
        fields += [DataField(0, name, kind) for name, kind in added]
    created = lake.create_table(
        table.path,
        schema=fields,
        primary_key=table.primary_keys or None,
        partition_by=table.partition_keys or None,
        options={**_bucket_options(table), **_own_options(table), **options},
        comment=table.comment,
        if_not_exists=True,
    )
    log.info("made the lake table of %s at %s", table.path, created.location)
    return created


def _bucket_options(table: ClusterTable) -> dict[str, Any]:
    if not (table.primary_keys or table.bucket_keys):
        return {"bucket": -1}
    keys = ",".join(table.bucket_keys)
    return {"bucket": table.bucket_count} | ({"bucket-key": keys} if keys else {})


def _own_options(table: ClusterTable) -> dict[str, str]:
    return {
        key.removeprefix(_OWN_PREFIX): value
        for key, value in table.options.items()
        if key.startswith(_OWN_PREFIX)
    }


def _fitted(in_lake: Table, table: ClusterTable) -> Table:
    """The lake table with all columns of the cluster's; raises SchemaMismatch if it is another table. One
    that has all of them may have more, which others added: rows of the cluster have NULL there."""
    schema = in_lake.store.schema
    named = {f.name: f for f in schema.fields}
    problems = [
        f"its column {f.name!r} is {named[f.name].type}, the cluster's is {f.type}"
        for f in table.fields
        if f.name in named and not _same_type(named[f.name], f)
    ]
    ours = {f.name for f in table.fields} | {BUCKET, OFFSET, TIMESTAMP}
    missing = [f for f in table.fields if f.name not in named]
    problems += [
        f"the cluster's table has no column {name!r}"
        for name, field in named.items()
        if name not in ours and (missing or not field.type.nullable)
    ]
    for what, has, wants in (
        ("primary key", schema.primary_keys, table.primary_keys),
        ("partition columns", schema.partition_keys, table.partition_keys),
    ):
        if set(has) != set(wants):
            problems.append(f"its {what} are {list(has)}, the cluster's {list(wants)}")
    wanted = int(_bucket_options(table)["bucket"])
    if in_lake.store.options.bucket != wanted:
        problems.append(f"it has bucket = {in_lake.store.options.bucket}, the cluster's table {wanted}")
    problems += [f"column {f.name!r} is missing and NOT NULL" for f in missing if not f.type.nullable]
    if problems:
        text = f"lake table {table.path} is not that of the cluster: {'; '.join(problems)}"
        raise SchemaMismatch(f"{text}; rename or drop it, and the next round makes it anew")
    if not missing:
        return in_lake
    log.info("%s: new columns %s", table.path, ", ".join(f.name for f in missing))
    return in_lake.alter(*(schema_change.add(f.name, f.type, comment=f.description) for f in missing))


def _same_type(here: DataField, there: DataField) -> bool:
    return _shape(here.type.as_nullable()) == _shape(there.type.as_nullable())


def _shape(kind: DataType) -> DataType:
    """The type without what changes no value: ids of the fields of a ROW, which Fluss's plugin counts on from
    those of the table, and the precision of a TIME, which that makes 0 and whose milliseconds it keeps."""
    children = tuple(replace(f, id=0, description=None, type=_shape(f.type)) for f in kind.children)
    return replace(kind, precision=0 if kind.root == "TIME" else kind.precision, children=children)


_WRITTEN_ROWS = 131_072  # batches are put together up to so many rows
_SAMPLE = 16


@dataclass(frozen=True, slots=True)
class PaimonWriteResult:
    """Commit messages of one writer, as bytes."""

    messages: tuple[bytes, ...]
    rows: int


class PaimonLakeWriter:
    """Writes one split. `replaces`: as if the table were empty. Belongs to one thread."""

    def __init__(self, table: Table, source: ClusterTable, split: TieringSplit, *, replaces: bool) -> None:
        store = table.store
        fixed = store.options.bucket > 0
        self._bucket, self._split = split.bucket if fixed else routing.UNAWARE_BUCKET, split
        compact = not store.options.write_only and not replaces and fixed
        settings = WriteSettings(compact, ignore_live=replaces, bucket=self._bucket)
        self._target = table_write(store, settings, user=COMMIT_USER)
        self._writer = EngineWriter(self._target, store)
        self._schema, self._options = store.schema, store.options
        self._columns = arrow_schema(source.fields)
        self._log_columns = has_log_columns(table)
        inputs = store.options.changelog_producer is ChangelogProducer.INPUT
        newest_is_state = store.options.merge_engine is MergeEngine.DEDUPLICATE
        self._skips_before = bool(source.primary_keys) and not inputs and newest_is_state
        self._waiting: list[tuple[pa.RecordBatch, pa.Array | None]] = []
        self._rows = self._count = 0
        self._checked = not fixed

    def write(self, batch: RowBatch) -> None:
        """Add rows, in the order of their offsets."""
        rows = self._as_columns(batch)
        if not rows.num_rows:
            return
        if not self._checked:
            self._require_bucket(rows)
        self._waiting.append((rows, batch.kinds))
        self._count += rows.num_rows
        if self._count >= _WRITTEN_ROWS:
            self._flush()

    def _as_columns(self, batch: RowBatch) -> pa.RecordBatch:
        """The rows in the types of the table, with the columns of the log."""
        arrays = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.rows.columns, self._columns, strict=True)
        ]
        names = list(self._columns.names)
        if self._log_columns:
            first, count = batch.first_offset, batch.rows.num_rows
            places = places_in_log(self._split.bucket, first, batch.timestamp_ms, count)
            names += places
            arrays += places.values()
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _require_bucket(self, rows: pa.RecordBatch) -> None:
        """Raise Unsupported if the lake's hash says another bucket than the cluster."""
        fields = self._schema.columns(self._schema.bucket_keys)
        keys = [rows.slice(0, _SAMPLE).column(f.name) for f in fields]
        function = self._options.bucket_function
        by_lake = hashing.bucket_of(keys, [f.type for f in fields], self._options.bucket, function)
        if (by_lake != self._bucket).any():
            text = f"{self._split.table_path}: bucket {self._bucket} has rows of bucket {int(by_lake.max())}"
            why = "the cluster hashes for another lake: make the table with datalake.format = paimon"
            raise Unsupported(text, why)
        self._checked = True

    def _flush(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting, self._count = self._waiting, [], 0
        rows = pa.Table.from_batches([rows for rows, _ in waiting]).combine_chunks().to_batches()
        kinds = None
        if any(kinds is not None for _, kinds in waiting):
            parts = [
                pa.array(np.zeros(rows.num_rows, dtype=np.int8)) if kinds is None else kinds
                for rows, kinds in waiting
            ]
            kinds = pa.concat_arrays(parts)
        at = 0
        for batch in rows:
            own = None if kinds is None else kinds.slice(at, batch.num_rows)
            at += batch.num_rows
            if own is not None and self._skips_before:
                keep = pa.array(own.to_numpy(zero_copy_only=False) != rowkind.UPDATE_BEFORE)
                batch, own = batch.filter(keep), own.filter(keep)
            self._writer.write(batch, own)
            self._rows += batch.num_rows

    def complete(self) -> PaimonWriteResult:
        """Write what waits; the messages."""
        self._flush()
        try:
            return PaimonWriteResult(tuple(self._writer.prepare()), self._rows)
        finally:
            self._writer.close()

    def abort(self) -> None:
        """Delete what was written."""
        self._waiting = []
        self._writer.close()
