"""BucketRowStream: rows of one bucket → files, in the order of arrival, without sort or merge.

Rows are buffered until the pool is full or there are enough for the next part of a file; the open file then
encodes them at once, so that the pool bounds the memory of a process however many buckets it writes. A file
ends at the target size, or at `finish`. Used by writers of append tables and of postponed buckets. Belongs to
one thread; with `workers` parts are encoded in the background, one at a time, while the next rows come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.lsm.levels.bucket_files import RollingWriter
from tablestore.lsm.writing.flushing import Flushing
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.lsm.writing.workers import Workers
from tablestore.lsm.writing.write_buffer import settled

_BUFFERED_BYTES = 32 << 20  # more are encoded although the pool has room


class BucketRowStream:
    """Writes batches through rolling writers that `open_writer` makes, one for each `finish`."""

    def __init__(
        self, open_writer: Callable[[], RollingWriter], *, pool: MemoryPool, workers: Workers | None = None
    ) -> None:
        self._open, self._pool = open_writer, pool
        self._flushing: Flushing[None] = Flushing(self, lambda _: None, pool=pool, workers=workers)
        self._writer: RollingWriter | None = None
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._settled = 0

    @property
    def bytes(self) -> int:
        """Bytes of the buffered rows."""
        return self._bytes

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows. May flush this or another stream of the pool."""
        self._flushing.require_whole()
        if batch.num_rows:
            self._batches.append(batch)
            self._bytes += batch.nbytes
            if self._bytes > _BUFFERED_BYTES:
                self.flush()
            else:
                self._pool.report(self, self._bytes)

    def settle(self) -> None:
        """Copy slices of larger batches, so that these can be freed."""
        self._batches[self._settled :] = settled(self._batches[self._settled :])
        self._settled = len(self._batches)

    def flush(self) -> None:
        """Give the buffered rows to the open file. If that fails the rows are lost, and only `abort` may be
        called."""
        self._hand_over(background=True)

    def _hand_over(self, *, background: bool) -> None:
        self._flushing.require_whole()
        self.wait()
        batches, size = self._batches, self._bytes
        self._batches, self._bytes, self._settled = [], 0, 0
        self._flushing.run(partial(self._encode, batches), size, background=background)

    def _encode(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Runs on any thread, one at a time."""
        if not batches:
            return
        if self._writer is None:
            self._writer = self._open()
        for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
            self._writer.write(batch)
        self._writer.flush()

    def wait(self) -> None:
        """Return when the running flush has ended; raises its error."""
        self._flushing.wait()

    def finish(self) -> tuple[DataFileMeta, ...]:
        """Write everything and close; returns the files in order. The stream can go on with new ones."""
        self._hand_over(background=False)
        writer, self._writer = self._writer, None
        if writer is None:
            return ()
        try:
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    def abort(self) -> None:
        """Drop what is buffered and delete the files that are not finished."""
        self._flushing.abort()
        self._batches, self._bytes, self._settled = [], 0, 0
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()
