"""The rows of a write on their way to the table's log, beside the writers of its files.

What comes is what the bucket writers get, as it came: kinds are those of the input, the merge engine is
applied by whoever reads. An upsert log has no −U: one whose next row is the +U of the same key says nothing
more and goes, any other removes its row and becomes a −D. Where rows are seen at once (eventual), each batch
is flushed. Belongs to one thread.

Writers of engines send theirs to the commit as log parts of messages: what they have staged, which the commit
appends, or where rows are that are seen already.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Unsupported
from tablestore.core.options.log_store import LogFormat, LogSystem
from tablestore.format import rowkind
from tablestore.format.commit_message import CommitMessage
from tablestore.log import transaction_id
from tablestore.log.log import Appended, Appender
from tablestore.log.offsets import Offsets, advanced
from tablestore.log.settings import LogSettings
from tablestore.log.transaction_id import TransactionId, newest

_STAGED, _VISIBLE = b"S", b"V"


class LogTee:
    """Appends rows for one commit. `at`: the offsets up to which the files hold rows that these were numbered
    after."""

    def __init__(self, appenders: Callable[[], Appender], settings: LogSettings, at: Offsets) -> None:
        self._appenders, self.appender = appenders, appenders()
        self.at, self._settings = at, settings
        self._names = list(settings.schema.names)
        plain = settings.system is LogSystem.KAFKA and settings.value_format is LogFormat.JSON
        self._inserts_only = plain and not settings.upsert
        self._flushed: list[Appended] = []

    @property
    def eventual(self) -> bool:
        """Whether rows are seen at once."""
        return self._settings.eventual

    def add(self, bucket: int, kinds: pa.Array, rows: pa.RecordBatch) -> None:
        """Take rows of a bucket; `rows` may have columns that the log does not."""
        rows = rows.select(self._names)
        if self._inserts_only and rowkind.retracts(kinds.to_numpy(zero_copy_only=False)).any():
            raise Unsupported(
                "removing or changing rows of a table whose log is 'log.format' = json",
                "such messages have no row kinds: make the table with 'log.format' = 'debezium-json'",
            )
        if self._settings.upsert:
            rows, kinds = without_updates_before(rows, kinds, self._settings.schema.primary_keys)
        if rows.num_rows:
            self.appender.write(bucket, kinds, rows)

    def end_batch(self) -> None:
        """Make what came visible, where that does not wait for the commit."""
        done = self.appender.flush() if self.eventual else None
        if done is not None:
            self._flushed.append(done)

    def stage(self) -> bytes | None:
        """What came since the last call as a message for another process, None if nothing; it stays when
        this writer ends."""
        part = self.appender.stage()
        self.appender = self._appenders()
        return part

    def flushed(self) -> Appended | None:
        """All that was flushed, as one; None if there was nothing."""
        return joined(self._flushed)

    def take_flushed(self) -> list[Appended]:
        """What was flushed since the last call."""
        done, self._flushed = self._flushed, []
        return done

    @property
    def gaps(self) -> bool:
        """Whether rows of others may lie between flushed batches."""
        return has_gaps(self._flushed)

    def abort(self) -> None:
        """Forget what is not visible yet."""
        self.appender.abort()


def joined(parts: Sequence[Appended]) -> Appended | None:
    """Appended parts, in their order, as one."""
    if not parts:
        return None
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    for part in parts:
        for bucket, offset in part.start.items():
            start[bucket] = min(offset, start.get(bucket, offset))
        for bucket, offset in part.end.items():
            end[bucket] = max(offset, end.get(bucket, offset))
    last: TransactionId | None = None
    for part in parts:
        last = newest(last, part.last)
    mixed, rows = any(part.mixed for part in parts), sum(part.rows for part in parts)
    return Appended(start, end, parts[-1].timestamp_ms, last=last, row_count=rows, mixed=mixed)


def has_gaps(parts: Sequence[Appended]) -> bool:
    """Whether something else may lie between parts of one bucket."""
    end: dict[int, int] = {}
    for part in parts:
        if any(end.get(bucket, offset) != offset for bucket, offset in part.start.items()):
            return True
        end = advanced(end, part.end)
    return False


def without_updates_before(
    rows: pa.RecordBatch, kinds: pa.Array, keys: Sequence[str]
) -> tuple[pa.RecordBatch, pa.Array]:
    """Rows of a bucket without −U: one followed by an addition of its key is left out, any other is −D."""
    values = kinds.to_numpy(zero_copy_only=False)
    befores = np.flatnonzero(values == rowkind.UPDATE_BEFORE)
    if not len(befores):
        return rows, kinds
    followed = befores[befores + 1 < rows.num_rows]
    adds = np.isin(values[followed + 1], (rowkind.INSERT, rowkind.UPDATE_AFTER))
    followed = followed[adds]
    for key in keys:
        if len(followed):
            column = rows.column(key)
            same = pc.equal(column.take(pa.array(followed)), column.take(pa.array(followed + 1)))
            followed = followed[same.to_numpy(zero_copy_only=False).astype(bool)]
    new_kinds = values.copy()
    new_kinds[befores] = rowkind.DELETE
    keep = np.ones(rows.num_rows, dtype=bool)
    keep[followed] = False
    return rows.filter(pa.array(keep)), pa.array(new_kinds[keep], pa.int8())


def staged(tee: LogTee) -> CommitMessage | None:
    """What an engine's writer has for the log, as a message; None if it has nothing."""
    if tee.eventual:
        tee.end_batch()
        done = tee.take_flushed()
        if not done:
            return None
        ranges = [
            [
                {str(b): [a.start[b], a.end[b]] for b in a.end},
                a.timestamp_ms,
                None if a.last is None else a.last.text,
                a.mixed,
            ]
            for a in done
        ]
        return CommitMessage(b"", 0, 0, log=_VISIBLE + json.dumps(ranges).encode())
    part = tee.stage()
    return None if part is None else CommitMessage(b"", 0, 0, log=_STAGED + part)


def staged_of(parts: Iterable[bytes]) -> list[bytes]:
    """What was staged, of the log parts of messages."""
    return [part[1:] for part in parts if part[:1] == _STAGED]


def visible_of(parts: Iterable[bytes]) -> list[Appended]:
    """What was made visible at once, of the log parts of messages, in the order of the log."""
    appended = []
    for part in parts:
        for ranges, timestamp, text, mixed in json.loads(part[1:]) if part[:1] == _VISIBLE else ():
            start = {int(bucket): first for bucket, (first, _) in ranges.items()}
            end = {int(bucket): behind for bucket, (_, behind) in ranges.items()}
            last = transaction_id.parse(text, "a message") if text else None
            appended.append(Appended(start, end, timestamp, last=last, mixed=mixed))
    return sorted(appended, key=lambda a: sorted(a.start.items()))
