"""IcebergTieringFactory: tables of an Iceberg catalog as the lake of rounds, and what they are made of.

Iceberg has no integers below 32 bits and no times but those in microseconds: smaller ones become that.
Its tables are not made of buckets, so a row's bucket is a column only where `__bucket` is asked for. The rows
of a split become Parquet files in the directory of the table, which no snapshot names before the commit. A
split is of one partition, so every file is, too. Commits are not tried again on top of others
(`commit.retry.num-retries` = 0): a round counts on what was there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.core.env import SYSTEM
from tablestore.core.errors import CommitConflict, CommitUnknown, SchemaMismatch, Unsupported
from tablestore.core.extras import required
from tablestore.format.types.arrow_types import arrow_schema
from tablestore.log.fluss_log import BUCKET, OFFSET, TIMESTAMP, places_in_log
from tablestore.meta import positions
from tablestore.tiering.cluster import COMMIT_USER, ClusterTable, LakeCommit, LakeState, RowBatch
from tablestore.tiering.lake_offsets import properties_of, state_of
from tablestore.tiering.splits import Offsets, TieringSplit

log = logging.getLogger(__name__)
_GROUP_ROWS = 131_072  # rows that wait for their row group
_FILE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class IcebergWriteResult:
    """Locations of the files of one writer."""

    files: tuple[str, ...]
    rows: int


class IcebergLakeWriter:
    """Writes one split. Memory: the rows of a row group, and Parquet's own. Belongs to one thread."""

    def __init__(self, table: Any, split: TieringSplit, columns: pa.Schema) -> None:
        self._io, self._places = table.io, table.location_provider()
        self._split, self._columns = split, columns
        self._files: list[str] = []
        self._waiting: list[pa.RecordBatch] = []
        self._count = self._rows = 0
        self._out: Any = None
        self._parquet: pq.ParquetWriter | None = None

    def write(self, batch: RowBatch) -> None:
        """Add rows, in the order of their offsets."""
        self._waiting.append(self._as_columns(batch))
        self._count += batch.rows.num_rows
        self._rows += batch.rows.num_rows
        if self._count >= _GROUP_ROWS:
            self._flush()

    def _as_columns(self, batch: RowBatch) -> pa.RecordBatch:
        first, count = batch.first_offset, batch.rows.num_rows
        there = set(batch.rows.schema.names)
        log_columns = {}
        if not there.issuperset(self._columns.names):
            log_columns = places_in_log(self._split.bucket, first, batch.timestamp_ms, count)
        arrays = []
        for field in self._columns:
            values = batch.rows.column(field.name) if field.name in there else log_columns[field.name]
            arrays.append(values if values.type == field.type else values.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _flush(self) -> None:
        if not self._count:
            return
        rows, self._waiting, self._count = pa.Table.from_batches(self._waiting), [], 0
        if self._parquet is None:
            place = self._places.new_data_location(data_file_name=f"{SYSTEM.uuid()}.parquet")
            self._files.append(place)
            self._out = self._io.new_output(place).create()
            self._parquet = pq.ParquetWriter(self._out, self._columns, compression="zstd")
        self._parquet.write_table(rows, row_group_size=_GROUP_ROWS)
        if self._out.tell() >= _FILE_BYTES:
            self._end_file()

    def _end_file(self) -> None:
        if self._parquet is not None:
            self._parquet.close()
            self._out.close()
        self._parquet = self._out = None

    def complete(self) -> IcebergWriteResult:
        """Write what waits; where the files are."""
        self._flush()
        self._end_file()
        return IcebergWriteResult(tuple(self._files), self._rows)

    def abort(self) -> None:
        """Delete what was written."""
        self._waiting, self._count = [], 0
        self._end_file()
        deleted(self._io, self._files)


def deleted(io: Any, files: Any) -> None:
    """Delete files of no snapshot; one that cannot be deleted is logged and stays as an orphan."""
    for file in files:
        try:
            io.delete(file)
        except FileNotFoundError:
            pass
        except OSError as e:
            log.warning("left %s behind, which no snapshot names: %s", file, e)


_USER = "commit-user"
_SEQUENCE = "tablestore.fluss-sequence-number"  # of the snapshot of the last round, or one before


@dataclass(frozen=True, slots=True)
class IcebergCommittable:
    """Locations of the files of all writers of a round."""

    files: tuple[str, ...]


class IcebergLakeCommitter:
    """Commits rounds to one Iceberg table of a catalog: one snapshot each, whose summary holds the offsets.

    A commit is refused by Iceberg unless the newest snapshot is the one from which the round was planned. The
    offsets are also a property of the table, for the case that all snapshots of rounds have expired.
    """

    def __init__(self, catalog: Any, source: ClusterTable) -> None:
        self._catalog, self._source = catalog, source
        self._identifier = tuple(source.path.split(".", 1))

    def _loaded(self) -> Any:
        return self._catalog.load_table(self._identifier)

    def state(self) -> LakeState:
        """What the newest snapshot of a round says, or the table's properties where none is left."""
        return self._state_of(self._loaded())

    def _state_of(self, table: Any) -> LakeState:
        newest = table.current_snapshot()
        basis = newest.snapshot_id if newest is not None else None
        for snapshot in _ancestors(table):
            said = snapshot.summary.additional_properties if snapshot.summary else {}
            if positions.OFFSETS in said:
                return self._said(snapshot.snapshot_id, said, basis)
        since = table.properties.get(_SEQUENCE)
        if newest is None or since is None or (newest.sequence_number or 0) < int(since):  # rolled back
            return LakeState(basis=basis)
        return self._said(newest.snapshot_id, table.properties, basis)

    def _said(self, snapshot_id: int, properties: Mapping[str, str], basis: int | None) -> LakeState:
        keys, where = self._source.partition_keys, f"{self._source.path} snapshot {snapshot_id}"
        return state_of(properties, keys, snapshot_id=snapshot_id, basis=basis, path=where)

    def to_committable(self, results: Sequence[IcebergWriteResult]) -> IcebergCommittable:
        """The files of all writers."""
        return IcebergCommittable(tuple(file for result in results for file in result.files))

    def commit(self, committable: IcebergCommittable, commit: LakeCommit) -> int:
        """Commit a round; the id of its snapshot. Raises CommitConflict if the table has another newest
        snapshot: then the files are gone."""
        errors = required("pyiceberg.exceptions", by=_BY)
        table = self._loaded()
        newest = table.current_snapshot()
        retries = table.properties.get("commit.retry.num-retries")
        if (newest.snapshot_id if newest is not None else None) != commit.basis.basis or retries != "0":
            self.abort(committable)
            raise CommitConflict(f"{self._source.path} has a newer snapshot since this round began")
        said = properties_of(commit, self._source.partition_keys)
        try:
            with table.transaction() as changes:
                if commit.replaces:
                    self._replace(changes, commit.basis)
                for name in commit.drops:
                    changes.delete(self._partition(name))
                changes.add_files(
                    list(committable.files), {**said, _USER: COMMIT_USER}, check_duplicate_files=False
                )
                changes.set_properties({**said, _SEQUENCE: str(table.last_sequence_number + 1)})
        except (errors.CommitFailedException, errors.ValidationException) as e:
            self.abort(committable)
            raise CommitConflict(f"{self._source.path} was changed since this round began: {e}") from None
        except errors.CommitStateUnknownException as e:
            raise CommitUnknown(f"whether {self._source.path} has the rows is not known: {e}") from e
        snapshot = table.current_snapshot()
        return int(snapshot.snapshot_id)

    def _replace(self, changes: Any, basis: LakeState) -> None:
        """Delete the rows of a former table; older snapshots have them until they expire."""
        expressions = required("pyiceberg.expressions", by=_BY)
        if basis.basis is not None:
            changes.delete(expressions.AlwaysTrue())

    def _partition(self, name: str) -> Any:
        """The rows of a partition, by its name in the cluster."""
        expressions = required("pyiceberg.expressions", by=_BY)
        condition: Any = expressions.AlwaysTrue()
        for key, value in zip(self._source.partition_keys, name.split("$"), strict=True):
            condition = expressions.And(condition, expressions.EqualTo(key, value))
        return condition

    def abort(self, committable: IcebergCommittable) -> None:
        """Delete the files of a round that is not committed."""
        deleted(self._loaded().io, committable.files)

    def readable(self, tiered: Offsets) -> Offsets | None:
        """None: readers see all rows."""
        return None


def _ancestors(table: Any) -> Iterator[Any]:
    """The newest snapshot and those before it, as far as they are left."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
    newest = table.current_snapshot()
    at = None if newest is None else by_id.get(newest.snapshot_id)
    while at is not None:
        yield at
        at = by_id.get(at.parent_snapshot_id)


class IcebergTieringFactory:
    """Writes log tables to tables of the same names of a catalog; `properties` are those with which pyiceberg
    loads it (`type`, `uri`, `warehouse`, …). Keyed tables are refused by name. `log_columns`: tables that are
    made get `__bucket`, `__offset`, `__timestamp`. Picklable.

    >>> lake = IcebergTieringFactory({"type": "sql", "uri": "sqlite:///lake.db", "warehouse": "file:///lake"})
    """

    def __init__(self, properties: Mapping[str, str], *, log_columns: bool = False) -> None:
        self._properties, self._log_columns = dict(properties), log_columns

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_catalog"}

    @cached_property
    def _catalog(self) -> Any:
        return required("pyiceberg.catalog", by="tiering into Iceberg").load_catalog(
            "lake", **self._properties
        )

    def prepare(self, table: ClusterTable) -> None:
        """Make the Iceberg table if it is not there, or bring its columns up to date."""
        prepared(self._catalog, table, columns_of(table, log_columns=self._log_columns))

    def create_writer(
        self, table: ClusterTable, split: TieringSplit, *, replaces: bool = False
    ) -> IcebergLakeWriter:
        """The writer of one split."""
        columns = columns_of(table, log_columns=self._log_columns)
        return IcebergLakeWriter(self._opened(table), split, columns)

    def _opened(self, table: ClusterTable) -> Any:
        return self._catalog.load_table(tuple(table.path.split(".", 1)))

    def create_committer(self, table: ClusterTable) -> IcebergLakeCommitter:
        """The committer of one table."""
        return IcebergLakeCommitter(self._catalog, table)


NO_RETRIES = {"commit.retry.num-retries": "0"}
_BY = "tiering into Iceberg"
_LOG_COLUMNS = (
    pa.field(BUCKET, pa.int32()),
    pa.field(OFFSET, pa.int64()),
    pa.field(TIMESTAMP, pa.timestamp("us", "UTC")),
)


def columns_of(table: ClusterTable, *, log_columns: bool) -> pa.Schema:
    """The columns as Iceberg has them; raises Unsupported for keyed tables and for types that it lacks."""
    if table.primary_keys:
        raise Unsupported(
            f"keyed table {table.path} in Iceberg",
            "rows are appended only: tier it into tables of this engine",
        )
    fields = [field.with_type(_type(field)) for field in arrow_schema(table.fields)]
    return pa.schema([*fields, *(_LOG_COLUMNS if log_columns else ())])


def _type(field: pa.Field) -> pa.DataType:
    t = field.type
    if pa.types.is_int8(t) or pa.types.is_int16(t):
        return pa.int32()
    if pa.types.is_time(t):
        return pa.time64("us")
    if pa.types.is_timestamp(t):
        if t.unit == "ns":
            raise Unsupported(f"column {field.name!r}: {t} in Iceberg", "its timestamps are in microseconds")
        return pa.timestamp("us", t.tz and "UTC")
    if pa.types.is_nested(t):
        raise Unsupported(f"column {field.name!r}: {t} in Iceberg", "logs of Fluss have no such columns")
    return t


def prepared(catalog: Any, table: ClusterTable, columns: pa.Schema) -> Any:
    """The Iceberg table, made if it is not there, with columns that the cluster's table has got since. Raises
    SchemaMismatch where the one that is there does not fit."""
    errors = required("pyiceberg.exceptions", by=_BY)
    identifier = tuple(table.path.split(".", 1))
    catalog.create_namespace_if_not_exists(identifier[0])
    try:
        lake_table = catalog.load_table(identifier)
    except errors.NoSuchTableError:
        lake_table = _created(catalog, identifier, table, columns)
    there = {f.name for f in lake_table.schema().fields}
    missing = [f for f in columns if f.name not in there]
    problems = [f"column {f.name!r} is missing and NOT NULL" for f in missing if not f.nullable]
    problems += _problems(lake_table, table, columns)
    if problems:
        text = f"Iceberg table {table.path} is not that of the cluster: {'; '.join(problems)}"
        raise SchemaMismatch(f"{text}; rename or drop it, and the next round makes it anew")
    if missing:
        with lake_table.update_schema() as update:
            update.union_by_name(pa.schema(missing))
    if lake_table.properties.get("commit.retry.num-retries") != "0":
        with lake_table.transaction() as changed:
            changed.set_properties(NO_RETRIES)
    return lake_table


def _created(catalog: Any, identifier: tuple[str, ...], table: ClusterTable, columns: pa.Schema) -> Any:
    errors = required("pyiceberg.exceptions", by=_BY)
    properties = {**NO_RETRIES, "format-version": "2"}
    try:
        with catalog.create_table_transaction(
            identifier, schema=columns, properties=properties
        ) as transaction:
            if table.partition_keys:
                with transaction.update_spec() as spec:
                    for key in table.partition_keys:
                        spec.add_identity(key)
    except errors.TableAlreadyExistsError:
        log.info("%s: another service made the Iceberg table first", table.path)
    return catalog.load_table(identifier)


def _problems(lake_table: Any, table: ClusterTable, columns: pa.Schema) -> list[str]:
    types = {field.name: field.type for field in lake_table.schema().as_arrow()}
    wanted = {field.name: field.type for field in columns}
    problems = [
        f"its column {name!r} is {types[name]}, the cluster's is {t}"
        for name, t in wanted.items()
        if name in types and not _alike(types[name], t)
    ]
    problems += [f"the cluster's table has no column {name!r}" for name in types if name not in wanted]
    spec, schema = lake_table.spec(), lake_table.schema()
    by = [schema.find_column_name(f.source_id) for f in spec.fields]
    if by != list(table.partition_keys) or any(str(f.transform) != "identity" for f in spec.fields):
        problems.append(f"it is partitioned by {spec}, the cluster's table by {list(table.partition_keys)}")
    return problems


def _alike(here: pa.DataType, there: pa.DataType) -> bool:
    large = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return large.get(here, here) == large.get(there, there)
