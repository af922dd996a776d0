"""AppendWriter: rows of one bucket of a table without primary key → files in the order of arrival → message
(FORMAT.md 9.6).

Sequence numbers count rows, from the bucket's last one on or from the caller's. The writer of a bucketed
table combines small neighbouring files when it prepares (`append_compaction`), unless rows of the bucket are
marked as deleted: then, and for tables without buckets, only `Table.compact` does that. Nothing is visible
until the message is committed. Belongs to one thread.
"""

from __future__ import annotations

import logging
from functools import partial

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.format import rowkind
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import APPEND_SOURCE, DataFileMeta
from tablestore.lsm.compaction import append_compaction
from tablestore.lsm.compaction.append_compaction import AppendCompaction
from tablestore.lsm.compaction.append_rewriter import combine
from tablestore.lsm.compaction.compact_result import CompactResult, rewrite_and_record
from tablestore.lsm.compaction.recording import APPEND, planned
from tablestore.lsm.levels.bucket import Bucket
from tablestore.lsm.levels.bucket_files import AppendRows, BucketFiles, FileNames, RollingWriter
from tablestore.lsm.writing.memory import MemoryPool
from tablestore.lsm.writing.row_stream import BucketRowStream
from tablestore.lsm.writing.workers import Workers

log = logging.getLogger(__name__)


class AppendWriter:
    """Writes one bucket. `compact`: combine its small files."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        pool: MemoryPool,
        next_sequence: int,
        compact: bool,
        workers: Workers | None = None,
    ) -> None:
        self._bucket, self._files, self._next = bucket, BucketFiles(bucket), next_sequence
        self._names = FileNames(self._files)
        self._live = append_compaction.in_order(bucket.files) if compact else None
        self._stream = BucketRowStream(self._open, pool=pool, workers=workers)
        self._rows = 0
        self._new: list[DataFileMeta] = []
        self._compacted = CompactResult()

    def _open(self) -> RollingWriter:
        return RollingWriter(
            self._files,
            self._names.data,
            level=0,
            source=APPEND_SOURCE,
            append=AppendRows(self._next),
        )

    def append(
        self, values: pa.RecordBatch, kinds: pa.Array | None = None, sequences: pa.Array | None = None
    ) -> None:
        """Add rows of the table's columns, inserts only; `sequences` set where counting begins."""
        require_inserts(kinds)
        if sequences is not None and not self._rows and len(sequences):
            self._next = sequences[0].as_py()
        self._rows += values.num_rows
        self._stream.append(values)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the buffered rows."""
        return self._stream.bytes

    def prepare(self) -> CommitMessage:
        """The commit message: finishes files and combines small ones; the writer can go on afterwards."""
        new = self._stream.finish()
        self._next, self._rows = self._next + self._rows, 0
        self._new += new
        if self._live is not None:
            self._live += new
            self._combine()
        message = self._bucket.message(
            new_files=tuple(self._new),
            compact_before=self._compacted.before,
            compact_after=self._compacted.after,
            compactions=self._compacted.records,
        )
        self._new, self._compacted = [], CompactResult()
        self._files.hand_over()
        return message

    def _combine(self) -> None:
        """Combine neighbours while there are enough of them; their results are not combined again."""
        assert self._live is not None
        options, waiting = AppendCompaction.of(self._bucket.options), list(self._live)
        while (decision := append_compaction.pick(waiting, options)).unit is not None:
            unit = decision.unit.files
            record = planned(decision, strategy=APPEND, bucket=self._bucket.number)
            result = rewrite_and_record(
                self._bucket, record, partial(combine, self._files, self._names.data, unit)
            )
            self._compacted, _ = self._compacted.then(result)
            last = waiting.index(unit[-1])
            waiting = waiting[last + 1 :]
            self._live = append_compaction.in_order(
                [*(f for f in self._live if f not in unit), *result.after]
            )

    def abort(self) -> None:
        """Drop what is buffered and delete every file made since the last `prepare`."""
        self._stream.abort()
        self._new, self._compacted = [], CompactResult()
        self._files.drop()


def require_inserts(kinds: pa.Array | None) -> None:
    """Raise InvalidRequest for anything but +I and +U rows."""
    if kinds is None or not len(kinds):
        return
    retracts = rowkind.retracts(kinds.to_numpy(zero_copy_only=False))
    if retracts.any():
        kind = rowkind.TEXTS[int(kinds[int(np.argmax(retracts))].as_py())]
        raise InvalidRequest(
            f"append tables take inserts only, not {kind}; 'ignore-delete' would drop such rows"
        )
