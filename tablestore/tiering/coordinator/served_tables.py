"""The tables with a log of a lake as tables of a cluster: what they are, how far their logs go, their rows.

To a client each is a table without partitions, since partitions share the log of a bucket. Its id is made of
the table's uuid: a table that is dropped and made again has another one. Of its options only those of tiering
are shown. Tables whose columns have a type that the protocol lacks are left out. What the lake has is looked
at anew after a second. Safe to share between threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.env import Env
from tablestore.core.errors import NotFound, TablestoreError, Unsupported, brief
from tablestore.core.options.log_store import LogSystem
from tablestore.core.options.names import UUID
from tablestore.fluss import log_records
from tablestore.fluss.tables import FlussColumn, TableDescriptor
from tablestore.format.schema import TableSchema
from tablestore.log import offsets
from tablestore.log.log import LogBatch
from tablestore.read.table_log import TableLog
from tablestore.table.lake import Lake
from tablestore.table.table import Table
from tablestore.table.table_log import table_log

log = logging.getLogger(__name__)
_AGE_SECONDS = 1.0


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
    def tiered(self) -> bool:
        """Whether rounds of tiering are its way into files."""
        return self.table.store.options.tiering_enabled

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
        found, size, at = [], 0, start
        for batch in self.log.log.read({bucket: start}, {bucket: stop}, wanted):
            for piece in self._pieces(batch, at, schema):
                found.append(piece)
                size += len(piece)
                if size >= most_bytes:
                    return b"".join(found)
            at = batch.end
        if at < stop:  # offsets without rows
            found.append(log_records.empty(at, stop, 0, schema_id=self.schema_id))
        return b"".join(found)

    def _pieces(self, batch: LogBatch, at: int, schema: pa.Schema) -> Iterator[bytes]:
        """Rows of the log as batches, cut where offsets have gaps, which are batches without rows, or the
        timestamp changes."""
        cuts = np.flatnonzero((np.diff(batch.offsets) != 1) | (np.diff(batch.timestamps) != 0)) + 1
        kinds = batch.kinds.to_numpy(zero_copy_only=False)
        appends = not self.keyed and not kinds.any()  # without a key rows may go, too
        rows = pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(batch.rows.columns, schema, strict=True)],
            schema=schema,
        )
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
    """The tables with a log of a lake."""

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
        """Names of the databases of the lake."""
        return self._lake.databases()

    def by_path(self, path: str) -> ServedTable:
        """A table as it is now; raises NotFound."""
        found = self.all().get(path)
        if found is not None and self._is_current(found):
            return found
        with self._lock:
            self._looked = None
        found = self.all().get(path)
        if found is None:
            raise NotFound(f"no table {path} with a log")
        return found

    def by_id(self, table_id: int) -> ServedTable:
        """A table; raises NotFound for one that is gone."""
        self.all()
        found = self._by_id.get(table_id)
        if found is None or not self._is_current(found):
            with self._lock:
                self._looked = None
            self.all()
            found = self._by_id.get(table_id)
        if found is None:
            raise NotFound(f"no table {table_id} with a log")
        return found

    def _is_current(self, found: ServedTable) -> bool:
        try:
            found.table.store.require_same()
        except TablestoreError:
            return False
        return found.table.store.schemas.ids()[-1] == found.schema_id

    def _look(self) -> None:
        found: dict[str, ServedTable] = {}
        for path in self._lake.tables():
            known = self._by_path.get(path)
            if known is not None and self._is_current(known):
                found[path] = known
                continue
            try:
                made = served(self._lake.table(path), path)
            except (TablestoreError, OSError) as e:
                if path not in self._left_out:
                    log.warning("%s is not served: %s", path, brief(e))
                self._left_out.add(path)
                continue
            if made is not None:
                found[path] = made
        self._by_path, self._by_id = found, {one.table_id: one for one in found.values()}


def served(table: Table, path: str) -> ServedTable | None:
    """A table as clients see it, None if it has no log of its own. Raises Unsupported for types that the
    protocol lacks."""
    store = table.store
    opened = None if store.options.log_system is LogSystem.FLUSS else table_log(store)
    if opened is None:
        return None
    schema, options = store.schema.shown, store.options
    uuid = schema.options.get(UUID)
    if uuid is None:
        raise Unsupported(f"tiering of {path}", "it has no uuid: another engine made it")
    columns = tuple(FlussColumn(f.name, f.type, f.description) for f in schema.fields)
    for column in columns:
        assert column.arrow is not None, "a type without a form raises"
    properties = {
        "table.datalake.enabled": str(options.tiering_enabled).lower(),
        "table.datalake.freshness": f"{options.tiering_freshness_ms}ms",
        "table.datalake.format": "paimon",
        "table.log.arrow.compression.type": "NONE",
    }
    descriptor = TableDescriptor(
        columns,
        tuple(schema.primary_keys),
        bucket_keys=_bucket_keys(schema),
        buckets=options.bucket,
        properties=properties,
        custom_properties={UUID: uuid},
        comment=schema.comment,
    )
    created = store.schemas.get(0).time_millis
    return ServedTable(path, id_of(uuid), store.schema.id, descriptor, created, table, opened)


def _bucket_keys(schema: TableSchema) -> tuple[str, ...]:
    """Empty for an append table whose rows go to any bucket."""
    named = schema.primary_keys or schema.options.get("bucket-key")
    return tuple(schema.bucket_keys) if named else ()


def id_of(uuid: str) -> int:
    """The id of a table with that uuid: 63 bits of it."""
    return int(uuid.replace("-", "")[:16], 16) >> 1
