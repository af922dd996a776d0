"""Writers for users: `Writer` commits when its block ends, `EngineWriter` gives commit messages as bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.format import commit_message
from tablestore.format.snapshot import Snapshot
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.meta.open_writers import SignOfLife
from tablestore.meta.store import Store
from tablestore.write.arrow_input import as_batches
from tablestore.write.commit import synced
from tablestore.write.commit.committer import Committed
from tablestore.write.commit.conflict_check import CompactionBasis
from tablestore.write.log_tee import staged
from tablestore.write.table_write import TableWrite, kinds_column

_pools_lock = threading.Lock()
_pools: dict[int, MemoryPool] = {}


def shared_pool(limit_bytes: int) -> MemoryPool:
    """The pool of this process for writers of that `write-buffer-size`."""
    with _pools_lock:
        return _pools.setdefault(limit_bytes, MemoryPool(limit_bytes))


def write_all(target: TableWrite, data: Any, row_kind_column: str | None) -> None:
    """Write anything Arrow-like; a row-kind column is taken out of each batch."""
    for batch in as_batches(data, target.schema):
        if row_kind_column is None:
            target.write(batch)
        else:
            values, kinds = kinds_column(batch, row_kind_column)
            target.write(values, kinds)


class Writer:
    """Many batches, one commit: `with table.writer() as w: w.write(batch)`. Nothing is committed if the
    block raises.

    Belongs to one thread. `committed` holds the outcome after the block.
    """

    def __init__(self, target: TableWrite, store: Store, commit: Callable[[TableWrite], Committed]) -> None:
        self._target, self._commit = target, commit
        self._sign = SignOfLife(store)
        self.committed: Committed | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that the rows are numbered after."""
        return self._target.snapshot

    def write(self, data: Any, *, row_kind_column: str | None = None) -> None:
        """Add the rows of `data`, anything Arrow-like, with their kinds if `row_kind_column` names a column
        of them; see `Table.write`. Raises InvalidRequest after the commit.

        >>> with orders.writer() as w:
        ...     w.write([{"order_id": 4}])
        ...     w.write([{"order_id": 1, "kind": "-D"}], row_kind_column="kind")
        >>> orders.scan(["order_id"]).to_arrow()["order_id"].to_pylist()
        [2, 3, 4]
        """
        if self.committed is not None:
            raise InvalidRequest("this writer has committed; open another")
        self._sign.renew()
        write_all(self._target, data, row_kind_column)

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None:
                self._target.abort()
                return
            try:
                self.committed = self._commit(self._target)
            finally:
                self._target.close()
        finally:
            self._sign.end()


class EngineWriter:
    """For engines: write, then `prepare()` → commit messages as bytes, to be committed elsewhere by
    `Table.commit`."""

    def __init__(self, target: TableWrite, store: Store) -> None:
        self._target, self._store = target, store
        self._basis = CompactionBasis(store, target.compacted_from)
        self._sign, self._handed_over = SignOfLife(store), False

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._target.rows

    def write(self, batch: pa.RecordBatch | pa.Table, kinds: pa.Array | None = None) -> None:
        """Add the rows of `batch`; `kinds` are int8 row kinds (0 +I, 1 −U, 2 +U, 3 −D), absent: all +I.

        >>> w = orders.open_writer()
        >>> w.write(pa.table({"order_id": [4, 1]}), kinds=pa.array([0, 3], pa.int8()))
        >>> w.rows
        2
        >>> w.close()
        """
        self._sign.renew()
        self._target.write(batch, kinds)

    def prepare(self) -> list[bytes]:
        """Commit messages, one a bucket, after a flush. The writer is empty then and may go on.

        Where commits must outlast a loss of power, the files are on this machine's disk before they are
        named.

        >>> w = orders.open_writer()
        >>> w.write(pa.table({"order_id": [4]}))
        >>> len(w.prepare())
        1
        """
        self._store.require_same()
        messages = self._basis.stamped(self._target.prepare())
        part = None if self._target.tee is None else staged(self._target.tee)
        messages += [] if part is None else [part]
        synced.sync_messages(self._store, messages)
        self._handed_over = self._handed_over or bool(messages)
        return [commit_message.encode(m) for m in messages]

    def close(self) -> None:
        """Delete the files of rows that were not prepared.

        >>> w = orders.open_writer()
        >>> w.write(pa.table({"order_id": [4]}))
        >>> w.close()
        """
        try:
            self._target.abort()
        finally:
            self._sign.end(handed_over=self._handed_over)
