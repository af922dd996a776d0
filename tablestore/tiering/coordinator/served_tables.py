"""The tables of a lake that are tiered, as tables of a cluster: what they are, how far logs go, their rows,
and the rows that clients of Fluss write.

Tables with a log that are not to be tiered are not shown, and neither are databases without any. To a client
each is a table without partitions, since partitions share the log of a bucket. Its id is made of
the table's uuid: a table that is dropped and made again has another one. Of its options only those of tiering
are shown. Tables whose columns have a type that the protocol lacks are left out. What the lake has is looked
at anew after a second.

A writer gets an id of this coordinator, and numbers its batches from 0, a bucket at a time. What is sent
again after a lost answer has a number that is there, and is answered by error 32, which clients take for
success; behind a gap comes error 31. A writer of an earlier coordinator hears 33 and begins anew under a new
id: a batch whose answer was lost with that coordinator is then there twice. The table says the bucket of a
row, by the hash that clients use, too. Safe to share between threads.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.env import Env
from tablestore.core.errors import (
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidRequest,
    NotFound,
    RowsNotVisible,
    TablestoreError,
    Unavailable,
    Unsupported,
    brief,
)
from tablestore.core.options.log_store import LogSystem
from tablestore.core.options.names import UUID
from tablestore.fluss import log_records
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.kv_records import KvChanges, decode_changes, key_columns
from tablestore.fluss.tables import TTL, FlussColumn, TableDescriptor, TablePath
from tablestore.fluss.types import engine_column
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataType
from tablestore.log import offsets
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import LogBatch
from tablestore.read.table_log import TableLog
from tablestore.table.lake import Lake
from tablestore.table.log_of import table_log
from tablestore.table.table import Table

log = logging.getLogger(__name__)
_AGE_SECONDS = 1.0
_PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class ServedTable:
    """A table as clients see it."""

    path: str
    table_id: int
    schema_id: int
    descriptor: TableDescriptor
    created_ms: int
    table: Table
    log: TableLog

    @property
    def keyed(self) -> bool:
        """Whether rows have kinds; else all are appended."""
        return bool(self.descriptor.primary_key)

    @property
    def buckets(self) -> int:
        return self.descriptor.buckets or 1

    @property
    def types(self) -> list[DataType]:
        """The types of the columns."""
        return [column.type for column in self.descriptor.columns]

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns in the Arrow types of log batches."""
        return pa.schema([column.arrow for column in self.descriptor.columns])

    @property
    def freshness_ms(self) -> int:
        return self.table.store.options.tiering_freshness_ms

    def start(self) -> Mapping[int, int]:
        """Per bucket the offset of the oldest row that is there."""
        return self.log.log.bounds().start

    def end(self) -> Mapping[int, int]:
        """Per bucket the offset up to which rows are seen."""
        store = self.table.store
        return self.log.end(store, store.snapshots.latest())

    def in_files(self) -> tuple[int, Mapping[int, int]] | None:
        """The newest snapshot and the offsets up to which it has the log's rows; None without any."""
        store = self.table.store
        latest = store.snapshots.latest()
        return None if latest is None else (latest.id, offsets.known(latest, store.snapshots.get))

    def has_files(self) -> bool:
        """Whether rows of the log are in files of the lake itself, which then is where it is tiered to."""
        files_state = self.in_files()
        return files_state is not None and any(files_state[1].values())

    def require_in_log(self, ends: Mapping[int, int]) -> None:
        """Raise FlussError unless the log has the rows below these offsets."""
        stop = self.end()
        beyond = {b: at for b, at in ends.items() if not 0 <= at <= stop.get(b, 0)}
        if beyond:
            text = f"a snapshot cannot have the rows below {beyond}: the log ends at {dict(stop)}"
            raise FlussError(ErrorCode.LOG_OFFSET_OUT_OF_RANGE, text)

    def require_snapshot(self, snapshot_id: int, ends: Mapping[int, int]) -> None:
        """Raise FlussError unless a snapshot can have the rows below these offsets: one of this lake by what
        its own files say, one of another lake by what the log has."""
        self.require_in_log(ends)
        files_state = self.in_files() if self.has_files() else None
        text = f"snapshot {snapshot_id} cannot have the rows below {dict(ends)}"
        if files_state is None:
            is_possible = snapshot_id >= 0
        else:
            newest, there = files_state
            is_possible = 0 < snapshot_id <= newest and all(at <= there.get(b, 0) for b, at in ends.items())
            text += f": the files of the lake are at snapshot {newest} and have those below {dict(there)}"
        if not is_possible:
            raise FlussError(ErrorCode.LOG_OFFSET_OUT_OF_RANGE, text)

    def age_ms(self, now_ms: int) -> int | None:
        """How long ago the newest snapshot was made; None without one."""
        latest = self.table.store.snapshots.latest()
        return None if latest is None else max(0, now_ms - latest.time_millis)

    def batches(
        self, bucket: int, start: int, stop: int, *, most_bytes: int, columns: Sequence[int] | None = None
    ) -> bytes:
        """Log batches of a bucket from an offset on: at least one, as long as there is any offset below
        `stop`, then as many as have `most_bytes` in all. `columns`: numbers of those that are wanted."""
        names = [c.name for c in self.descriptor.columns]
        wanted = names if columns is None else [names[i] for i in columns]
        schema = pa.schema([self.descriptor.columns[names.index(name)].arrow for name in wanted])
        pieces, size, at = [], 0, start
        for batch in self.log.log.read({bucket: start}, {bucket: stop}, wanted):
            for piece in self._pieces(batch, at, schema):
                pieces.append(piece)
                size += len(piece)
                if size >= most_bytes:
                    return b"".join(pieces)
            at = batch.end
        if at < stop:  # offsets without rows
            pieces.append(log_records.empty(at, stop, 0, schema_id=self.schema_id))
        return b"".join(pieces)

    def _pieces(self, batch: LogBatch, at: int, schema: pa.Schema) -> Iterator[bytes]:
        """Rows of the log as batches, cut where offsets have gaps, which are batches without rows, where the
        timestamp changes, and where they are enough for one."""
        cuts = np.flatnonzero((np.diff(batch.offsets) != 1) | (np.diff(batch.timestamps) != 0)) + 1
        kinds = batch.kinds.to_numpy(zero_copy_only=False)
        appends = not self.keyed and not kinds.any()  # without a key rows may go, too
        rows = pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(batch.rows.columns, schema, strict=True)],
            schema=schema,
        )
        share = max(1, len(batch.offsets) * _PIECE_BYTES // max(rows.nbytes, 1))  # rows of a piece
        cuts = np.union1d(cuts, np.arange(share, len(batch.offsets), share))
        for first, behind in zip((0, *cuts), (*cuts, len(batch.offsets)), strict=True):
            if first == behind:
                continue
            base, millis = int(batch.offsets[first]), int(batch.timestamps[first])
            if base > at:
                yield log_records.empty(at, base, millis, schema_id=self.schema_id)
            at = base + int(behind - first)
            yield log_records.encode(
                rows.slice(first, behind - first),
                schema_id=self.schema_id,
                kinds=None if appends else kinds[first:behind],
                compression="NONE",
                base=base,
                timestamp_ms=millis,
            )
        if batch.end > at:
            yield log_records.empty(at, batch.end, 0, schema_id=self.schema_id)


class ServedTables:
    """The tables of a lake that are tiered."""

    def __init__(self, lake: Lake, env: Env) -> None:
        self._lake, self._env = lake, env
        self._lock = threading.Lock()
        self._by_path: dict[str, ServedTable] = {}
        self._by_id: dict[int, ServedTable] = {}
        self._left_out: set[str] = set()
        self._looked: float | None = None

    def all(self) -> dict[str, ServedTable]:
        """The tables by path, as they were a second ago or later."""
        with self._lock:
            now = self._env.monotonic()
            if self._looked is None or now - self._looked >= _AGE_SECONDS:
                self._look()
                self._looked = self._env.monotonic()
            return self._by_path

    def databases(self) -> list[str]:
        """Names of the databases that have such tables."""
        return sorted({TablePath.parse(path).database for path in self.all()})

    def ids_in_lake(self) -> set[int]:
        """The ids of all tables that the lake has now, tiered or not. Raises TablestoreError or OSError where
        one cannot be read."""
        uuids = (self._lake.table(path).store.schema.options.get(UUID) for path in self._lake.tables())
        return {id_of(uuid) for uuid in uuids if uuid is not None}

    def by_path(self, path: str) -> ServedTable:
        """A table as it is now; raises NotFound for one that is not tiered, too."""
        table = self.all().get(path)
        if table is not None and self._is_current(table):
            return table
        with self._lock:
            self._looked = None
        table = self.all().get(path)
        if table is None:
            raise NotFound(f"no table {path} that is tiered")
        return table

    def by_id(self, table_id: int) -> ServedTable:
        """A table; raises NotFound for one that is gone."""
        self.all()
        table = self._by_id.get(table_id)
        if table is None or not self._is_current(table):
            with self._lock:
                self._looked = None
            self.all()
            table = self._by_id.get(table_id)
        if table is None:
            raise NotFound(f"no table {table_id} that is tiered")
        return table

    def _is_current(self, served: ServedTable) -> bool:
        try:
            served.table.store.require_same()
        except TablestoreError:
            return False
        return served.table.store.schemas.ids()[-1] == served.schema_id

    def _look(self) -> None:
        tables: dict[str, ServedTable] = {}
        for path in self._lake.tables():
            earlier = self._by_path.get(path)
            if earlier is not None and self._is_current(earlier):
                tables[path] = earlier
                continue
            try:
                table = served(self._lake.table(path), path)
            except (TablestoreError, OSError) as e:
                if path not in self._left_out:
                    log.warning("%s is not served: %s", path, brief(e))
                self._left_out.add(path)
                continue
            if table is not None:
                tables[path] = table
        self._by_path, self._by_id = tables, {each.table_id: each for each in tables.values()}


def served(table: Table, path: str) -> ServedTable | None:
    """A table as clients see it, None if it is not tiered or has no log of its own. Raises Unsupported for
    types that the protocol lacks."""
    store = table.store
    shown = store.options.tiering_enabled and store.options.log_system is not LogSystem.FLUSS
    opened = table_log(store) if shown else None
    if opened is None:
        return None
    schema, options = store.schema.shown, store.options
    uuid = schema.options.get(UUID)
    if uuid is None:
        raise Unsupported(f"tiering of {path}", "it has no uuid: another engine made it")
    columns = tuple(FlussColumn(f.name, f.type, f.description) for f in schema.fields)
    properties = {
        "table.datalake.enabled": "true",
        "table.datalake.freshness": f"{options.tiering_freshness_ms}ms",
        "table.datalake.format": "paimon",
        "table.log.arrow.compression.type": "NONE",
    }
    if isinstance(opened.log, KafkaLog):  # an embedded log keeps what is not in files
        kept_ms = opened.log.retention_ms()
        properties[TTL] = "-1" if kept_ms is None else f"{kept_ms}ms"
    descriptor = TableDescriptor(
        columns,
        tuple(schema.primary_keys),
        bucket_keys=_bucket_keys(schema),
        buckets=options.bucket,
        properties=properties,
        custom_properties={UUID: uuid},
        comment=schema.comment,
    )
    descriptor.to_json()  # raises for a type that Fluss lacks
    created = store.schemas.get(0).time_millis
    return ServedTable(path, id_of(uuid), store.schema.id, descriptor, created, table, opened)


def _bucket_keys(schema: TableSchema) -> tuple[str, ...]:
    """Empty for an append table whose rows go to any bucket."""
    named = schema.primary_keys or schema.options.get("bucket-key")
    return tuple(schema.bucket_keys) if named else ()


def id_of(uuid: str) -> int:
    """The id of a table with that uuid: 63 bits of it."""
    return int(uuid.replace("-", "")[:16], 16) >> 1


_EPOCH_BITS, _MOST_WRITERS = 32, 10_000
_Places = dict[tuple[int, int], int]


class ServedWrites:
    """The writers of one coordinator, whose ids begin with its `epoch`."""

    def __init__(self, epoch: int) -> None:
        self._ids = itertools.count(epoch << _EPOCH_BITS)
        self._lock = threading.Lock()  # of the writers and the locks of tables
        self._writers: OrderedDict[int, _Places] = OrderedDict()
        self._writing: dict[int, threading.Lock] = {}

    def new_writer(self) -> int:
        """The id of a new writer; the writer that was silent for longest is forgotten for it."""
        with self._lock:
            writer_id = next(self._ids)
            self._writers[writer_id] = {}
            if len(self._writers) > _MOST_WRITERS:
                self._writers.popitem(last=False)
        return writer_id

    def append(self, table: ServedTable, bucket: int, records: bytes) -> int:
        """Append the rows of log batches; where the log of the bucket ended before. Raises FlussError."""
        if table.keyed:
            text = f"{table.path} has a primary key: upsert or delete"
            raise FlussError(ErrorCode.INVALID_TABLE, text)
        where, buffer = f"{table.path}: bucket {bucket}", pa.py_buffer(records)
        end = table.end().get(bucket, 0)
        with _refusals(where):
            heads = list(log_records.heads(buffer, where))
            if sum(head.size for head in heads) != len(records):
                raise Corrupt(where, "a batch that is cut")
            for place, head in enumerate(heads):
                log_records.check(buffer, head, where)
                _require_schema(table, head.schema_id)
                rows = log_records.decode(buffer, head, table.arrow_schema, where).rows
                try:
                    with self._turn(table, bucket, head.writer_id, head.sequence):
                        table.table.write(_engine_rows(table, rows))
                except FlussError as e:  # that it is there says nothing of those behind it
                    if e.code != ErrorCode.DUPLICATE_SEQUENCE or place == len(heads) - 1:
                        raise
        return end

    def change(self, table: ServedTable, bucket: int, records: bytes) -> None:
        """Upsert and delete, in the order of a batch of changes. Raises FlussError."""
        if not table.keyed:
            raise FlussError(ErrorCode.NON_PRIMARY_KEY_TABLE, f"{table.path} has no primary key: append")
        where = f"{table.path}: bucket {bucket}"
        with _refusals(where):
            changes = decode_changes(records, where)
            _require_schema(table, changes.schema_id)
            deletes, keys, rows = changes.deletes, _engine_keys(table, changes, where), None
            if not deletes.all():
                rows = _engine_rows(table, changes.decoded_rows(table.arrow_schema, table.types, where))
            with self._turn(table, bucket, changes.writer_id, changes.sequence):
                self._apply(table, deletes, keys, rows)

    def _apply(
        self, table: ServedTable, deletes: np.ndarray, keys: pa.Table | None, rows: pa.Table | None
    ) -> None:
        """Changes as stretches of one kind: a delete needs the keys alone."""
        bounds = [0, *(np.flatnonzero(np.diff(deletes)) + 1).tolist(), len(deletes)]
        seen = np.concatenate([[0], np.cumsum(~deletes)])
        for first, behind in itertools.pairwise(bounds):
            try:
                if not deletes[first]:
                    assert rows is not None, "there are rows where not all are deletes"
                    table.table.write(rows.slice(seen[first], behind - first))
                else:
                    assert keys is not None, "there are keys where any is a delete"
                    table.table.delete(keys.slice(first - seen[first], behind - first))
            except (CommitConflict, Unavailable) as e:
                if not first:
                    raise
                text = f"{table.path}: the first {first} changes of a batch are written: {e}"
                raise FlussError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from e

    @contextmanager
    def _turn(self, table: ServedTable, bucket: int, writer_id: int, sequence: int) -> Iterator[None]:
        """A context in which a batch is written, alone of its table, if it is the next of its writer."""
        with self._lock:
            writing = self._writing.setdefault(table.table_id, threading.Lock())
        with writing:
            if writer_id == log_records.NO_WRITER:
                yield
                return
            place = table.table_id, bucket
            with self._lock:
                places = self._writers.get(writer_id)
                if places is None:
                    text = f"writer {writer_id} is not known here: a coordinator gives the ids of its writers"
                    raise FlussError(ErrorCode.UNKNOWN_WRITER_ID, text)
                self._writers.move_to_end(writer_id)
                last = places.get(place, -1)
            text = f"batch {sequence} of writer {writer_id}, which has written those up to {last}"
            if sequence <= last:
                raise FlussError(ErrorCode.DUPLICATE_SEQUENCE, text)
            if sequence != last + 1:
                raise FlussError(ErrorCode.OUT_OF_ORDER_SEQUENCE, text)
            yield
            places[place] = sequence


def _engine_rows(table: ServedTable, rows: pa.RecordBatch) -> pa.Table:
    """Rows in the Arrow types that tables of the engine have."""
    columns = [engine_column(column, t) for column, t in zip(rows.columns, table.types, strict=True)]
    return pa.table(columns, names=rows.schema.names)


def _engine_keys(table: ServedTable, changes: KvChanges, where: str) -> pa.Table | None:
    """The keys of the deletes, None without any."""
    if not changes.deletes.any():
        return None
    named = dict(zip(table.arrow_schema.names, table.types, strict=True))
    names = table.descriptor.primary_key
    keys = changes.keys.filter(pa.array(changes.deletes))
    return pa.table(key_columns(keys, [named[name] for name in names], where), names=list(names))


def _require_schema(table: ServedTable, schema_id: int) -> None:
    if schema_id != table.schema_id:
        text = f"rows of schema {schema_id}: {table.path} has schema {table.schema_id} now"
        raise FlussError(ErrorCode.SCHEMA_NOT_EXIST, text)


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    """A context whose errors are those of the protocol. Only where nothing was written do they ask the
    client to send the same again."""
    try:
        yield
    except Corrupt as e:
        raise FlussError(ErrorCode.CORRUPT_RECORD, str(e)) from None
    except (CommitUnknown, RowsNotVisible) as e:
        raise FlussError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{where}: rows may be there or not: {e}") from e
    except (CommitConflict, Unavailable) as e:
        raise FlussError(ErrorCode.STORAGE, f"{where}: {e}") from e
    except InvalidRequest as e:
        raise FlussError(ErrorCode.INVALID_TABLE, f"{where}: {e}") from None
