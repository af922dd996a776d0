"""Rows that clients of Fluss write: batches of the protocol, each once in the log of its table.

A writer gets an id of this coordinator, and numbers its batches from 0, a bucket at a time. What is sent
again after a lost answer has a number that is there, and is answered by error 32, which clients take for
success; behind a gap comes error 31. A writer of an earlier coordinator hears 33 and begins anew under a new
id: a batch whose answer was lost with that coordinator is then there twice. The table says the bucket of a
row, by the hash that clients use, too. Safe to share between threads.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from tablestore.core.errors import (
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidRequest,
    RowsNotVisible,
    Unavailable,
)
from tablestore.fluss import log_records
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.kv_records import KvChanges, decode_changes, key_columns
from tablestore.fluss.types import engine_column
from tablestore.tiering.coordinator.served_tables import ServedTable

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
