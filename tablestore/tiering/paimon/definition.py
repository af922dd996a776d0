"""The lake table of a table of the cluster: its columns, keys, partitions, buckets and options.

A bucket of the cluster is the bucket of the lake where both hash alike (Fluss does with `datalake.format` =
paimon). Log tables without bucket keys become tables without buckets. Log tables may have three columns more,
as Fluss gives them. Options of the cluster's table that begin with `paimon.` are the lake table's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tablestore.core.errors import NotFound, SchemaMismatch
from tablestore.format import schema_change
from tablestore.format.types.arrow_types import BIGINT, INT, TIMESTAMP_LTZ
from tablestore.format.types.data_type import DataField, DataType
from tablestore.log.fluss_log import BUCKET, OFFSET, TIMESTAMP
from tablestore.table.lake import Lake
from tablestore.table.table import Table
from tablestore.tiering.cluster import ClusterTable

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
