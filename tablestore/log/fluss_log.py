"""The log of a table whose rows come from a Fluss cluster by tiering: for readers, who see what no round has
brought yet.

Its buckets are those of the Fluss table, of each partition their own (`offsets.number`). Offsets have gaps,
and mean nothing to another table of the same name, which is refused. Nothing is appended here, and retention
is the cluster's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.env import Env
from tablestore.core.errors import CommitConflict, NotFound, SchemaMismatch, Unsupported
from tablestore.core.options.environment import require_trusted
from tablestore.core.quantities import many
from tablestore.fluss import tables
from tablestore.fluss.admin import EARLIEST, LATEST, Admin
from tablestore.fluss.cluster import MOVED, Cluster
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.scan_state import LogOffsetExpired, ScanBatch
from tablestore.fluss.tables import FlussTable, TableBucket, TablePath
from tablestore.format import rowkind
from tablestore.format.types.arrow_types import DataField, to_arrow
from tablestore.log.log import Appended, Appender, LogBatch, LogBounds, LogExpired, Milliseconds, Seconds
from tablestore.log.offsets import PARTITION_STEP, Offsets, number
from tablestore.log.settings import LogSettings

BUCKET, OFFSET, TIMESTAMP = "__bucket", "__offset", "__timestamp"
"""Columns that a lake table of a log table may have: where in the log a row was."""
_SHORTEST_SLEEP, _LONGEST_SLEEP = 0.002, 0.1  # seconds between two looks for new rows
_MOVED = MOVED | {ErrorCode.PARTITION_NOT_EXISTS, ErrorCode.TABLE_NOT_EXIST}
"""What is answered where a table or a partition is gone, among other causes."""
_TRIES = 5  # of a look during which partitions are dropped


class FlussLog:
    """The log of one table. Safe to share between threads; the cluster is reached when it is first asked.

    `table_id`: the id of the Fluss table whose rows the files have, None if they have none yet.
    """

    def __init__(self, settings: LogSettings, *, table_id: Callable[[], int | None], env: Env) -> None:
        self._settings, self._table_id, self._env = settings, table_id, env
        self._path = TablePath.parse(str(settings.source))

    @cached_property
    def _admin(self) -> Admin:
        cluster = Cluster(str(self._settings.servers), env=self._env)
        if cluster.user is not None:
            require_trusted(f"the password of {cluster.user!r}", cluster.addresses)
        return Admin(cluster)

    @cached_property
    def _table(self) -> FlussTable:
        return self._table_now()

    def _table_now(self) -> FlussTable:
        try:
            table = self._admin.table(self._path)
        except FlussError as e:
            if e.code in (ErrorCode.TABLE_NOT_EXIST, ErrorCode.DATABASE_NOT_EXIST):
                text = f"{self._admin.cluster} has no table {self._path} any more: read the lake alone"
                raise NotFound(text) from None
            raise
        own_id = self._table_id()
        if own_id is not None and own_id != table.table_id:
            text = (
                f"table {self._path} of {self._admin.cluster} was dropped and made again (id {own_id}, now "
            )
            raise CommitConflict(
                f"{text}{table.table_id}): read the lake alone until the next round of tiering"
            )
        return table

    @property
    def kept_ms(self) -> Milliseconds | None:
        """How long the cluster keeps rows, tiered or not; None: for ever."""
        return tables.kept_ms(self._table.properties)

    def bounds(self) -> LogBounds:
        """Where the log starts and ends now, of the partitions that there are."""
        start, end = self._offsets(EARLIEST, LATEST)
        return LogBounds(start, end)

    def _offsets(self, *moments: str | Milliseconds) -> list[dict[int, int]]:
        """The offsets of all buckets at each of these; asked for again where a partition is dropped
        meanwhile."""
        for left in reversed(range(_TRIES)):
            try:
                buckets = self._admin.buckets(self._table)
                return [_numbered(self._admin.offsets(self._table, buckets, at)) for at in moments]
            except FlussError as e:
                if e.code in _MOVED:
                    self._require_same_table()
                if e.code != ErrorCode.PARTITION_NOT_EXISTS or not left:
                    raise
        raise AssertionError("the last try raises or returns")

    def read(self, start: Offsets, stop: Offsets, columns: Sequence[str] | None = None) -> Iterator[LogBatch]:
        """The rows between the offsets, of each bucket in order. Raises LogExpired where a partition is
        dropped meanwhile."""
        wanted = {self._bucket(n): (start.get(n, 0), end) for n, end in stop.items() if end > start.get(n, 0)}
        if not wanted:
            return
        fields = [f for f in self._settings.schema.fields if columns is None or f.name in columns]
        stored = [f.name for f in fields if f.name not in (BUCKET, OFFSET, TIMESTAMP)]
        there = {column.name for column in self._table.columns}
        if missing := [name for name in stored if name not in there]:
            text = f"table {self._path} of Fluss has no column {missing[0]!r}, which the lake's table has"
            raise SchemaMismatch(f"{text}: let a round of tiering bring the lake up to date")
        begin = {bucket: first for bucket, (first, _) in wanted.items()}
        end = {bucket: behind for bucket, (_, behind) in wanted.items()}
        try:
            with LogScan(self._admin.cluster, self._table, begin, stop=end, columns=stored) as scan:
                for batch in scan:
                    yield _as_log_batch(batch, fields)
        except LogOffsetExpired as e:
            raise LogExpired(self._expired(e)) from None
        except FlussError as e:
            if e.code != ErrorCode.PARTITION_NOT_EXISTS:
                raise
            text = f"a partition of table {self._path} was dropped while its log was read"
            raise LogExpired(f"{text}; read again to go on without it") from None

    def _expired(self, error: LogOffsetExpired) -> str:
        """Which rows are gone; those that the lake has are not asked for."""
        start = error.start
        if start is None:
            start = self._admin.offsets(self._table, [error.bucket], EARLIEST)[error.bucket]
        if start <= error.offset:
            return str(error)
        gone = (
            f"offsets [{error.offset}, {start}) of {error.bucket}, up to {many(start - error.offset, 'row')},"
        )
        return (
            f"{gone} are gone from the log of {self._path} before a round of tiering brought them; "
            'lake.tier(…, lost_rows="skip") goes on without them'
        )

    def _require_same_table(self) -> None:
        """Raise NotFound for a table that is gone, CommitConflict for another one by now."""
        before, now = self._table.table_id, self._table_now().table_id
        if now != before:
            text = (
                f"table {self._path} of {self._admin.cluster} was dropped and made again (id {before}, now "
            )
            raise CommitConflict(f"{text}{now}): start again with latest-full")

    def at(self, timestamp_ms: Milliseconds) -> dict[int, int]:
        """The offset of the first row of each bucket that is not older than a moment; the end, if none."""
        past = timestamp_ms < self._env.now_ms()
        try:
            (first_offsets,) = self._offsets(timestamp_ms if past else LATEST)
        except FlussError as e:
            if e.code != ErrorCode.INVALID_TIMESTAMP:  # else the cluster's clock is behind
                raise
            (first_offsets,) = self._offsets(LATEST)
        return first_offsets

    def wait(self, offsets: Offsets, seconds: Seconds) -> Offsets | None:
        """Wait until a bucket has rows behind `offsets`; then the end of each bucket. None after that time
        without any rows."""
        over, sleep = self._env.monotonic() + seconds, _SHORTEST_SLEEP
        while True:
            (end,) = self._offsets(LATEST)
            if any(offset > offsets.get(n, 0) for n, offset in end.items()):
                return {**end, **{n: max(end.get(n, 0), offset) for n, offset in offsets.items()}}
            left = over - self._env.monotonic()
            if left <= 0:
                return None
            self._env.sleep(min(sleep, left))
            sleep = min(2 * sleep, _LONGEST_SLEEP)

    def _bucket(self, n: int) -> TableBucket:
        partition_id, bucket = divmod(n, PARTITION_STEP)
        return TableBucket(self._table.table_id, partition_id if self._table.partition_keys else None, bucket)

    def close(self) -> None:
        """Let go of the connections."""
        if "_admin" in self.__dict__:
            self._admin.cluster.close()
            self.__dict__.pop("_admin", None)
            self.__dict__.pop("_table", None)

    # what tiering alone does

    def appender(self) -> Appender:
        """Raises Unsupported."""
        self._refuse("a write")

    def transactions(self, start: Offsets) -> Iterator[Appended]:
        """Raises Unsupported."""
        self._refuse("looking at transactions")

    def expire(self, keep: Offsets, *, everywhere: Offsets | None = None) -> int:
        """Nothing: the cluster decides what it keeps."""
        return 0

    def drop(self) -> None:
        """Nothing: the table in the cluster stays."""

    def _refuse(self, what: str) -> NoReturn:
        raise Unsupported(
            f"{what} of a table that is filled from Fluss",
            f"its rows come from table {self._path} by tiering: change them there",
        )


def _numbered(offsets: Mapping[TableBucket, int]) -> dict[int, int]:
    by_number = {number(bucket.partition_id, bucket.bucket): offset for bucket, offset in offsets.items()}
    return dict(sorted(by_number.items()))


def places_in_log(bucket: int, first: int, timestamp_ms: Milliseconds, count: int) -> dict[str, pa.Array]:
    """The columns that say where so many rows are in the log, the first at offset `first`: int32, int64 and
    an instant in milliseconds, UTC. Rows of a snapshot of keys are at no place, −1 all of them."""
    return {
        BUCKET: pa.array(np.full(count, bucket, dtype=np.int32)),
        OFFSET: pa.array(np.arange(first, first + count) if first >= 0 else np.full(count, -1)),
        TIMESTAMP: pa.array(np.full(count, timestamp_ms, dtype=np.int64)).cast(pa.timestamp("ms", "UTC")),
    }


def _as_log_batch(batch: ScanBatch, fields: Sequence[DataField]) -> LogBatch:
    count = batch.rows.num_rows
    offsets = np.arange(batch.base, batch.base + count)
    timestamps = np.full(count, batch.timestamp_ms)
    places = places_in_log(batch.bucket.bucket, batch.base, batch.timestamp_ms, count)
    columns = [
        _fitted(places[field.name] if field.name in places else batch.rows.column(field.name), field)
        for field in fields
    ]
    kinds = np.full(count, rowkind.INSERT, dtype=np.int8) if batch.kinds is None else batch.kinds
    rows = pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])
    at = number(batch.bucket.partition_id, batch.bucket.bucket)
    return LogBatch(at, offsets, timestamps, pa.array(kinds), rows, batch.end)


def _fitted(values: pa.Array, field: DataField) -> pa.Array:
    """Values in the type that the column has in the lake."""
    asked = to_arrow(field.type)
    return values if values.type == asked else pc.cast(values, asked)
