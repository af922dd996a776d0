"""Reading the log of many buckets at once: bounded from offsets to offsets, or following what comes.

A leader is asked for several groups of its buckets at a time; a group's next request is on its way before
the rows of its last answer are decoded. What the leader no longer has comes from segment files, read ahead by
a thread. A bucket moves on by offset, never by rows counted. One that cannot be read although it should (no
rows below the high watermark, no leader, an unknown bucket) ends the scan by name after a while; one whose
rows are gone ends it at once. So does one whose log is another after trouble with its leader: the batch
behind which the scan goes on is compared then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Corrupt, InvalidRequest, Unavailable
from tablestore.fluss.apis import FETCH_LOG
from tablestore.fluss.cluster import MOVED, Cluster
from tablestore.fluss.connection import Connection, Pending
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.log_records import BatchHead, BatchMark, bytes_needed, check, decode, heads
from tablestore.fluss.messages import pb
from tablestore.fluss.remote_files import segment_files
from tablestore.fluss.scan_columns import ScanColumns
from tablestore.fluss.scan_errors import LogOffsetExpired, LogRewritten, LogStalled, rewritten
from tablestore.fluss.schemas import fitted
from tablestore.fluss.tables import FlussTable, TableBucket
from tablestore.io.fileio import FileIO

Seconds = float
_A_CLIENT = -1
_GROUPS = 2  # of a leader's buckets, each with a request under way
_LEAST_BYTES, _MOST_BYTES = 1 << 20, 16 << 20  # of an answer, and read of a segment at once
_PAUSE: Seconds = 0.1  # before a bucket in trouble is asked for again

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScanBatch:
    """Rows of one bucket: row i has the offset `base` + i, and `end` is the next one to read, which may be
    greater.

    `kinds` are int8 row kinds, None where all were appended (+I). `mark`: of the whole batch in the log.
    """

    bucket: TableBucket
    base: int
    end: int
    timestamp_ms: int
    kinds: np.ndarray | None
    rows: pa.RecordBatch
    mark: BatchMark


@dataclass(slots=True)
class _Progress:
    """How far a bucket has come, and why not farther. `last` is the batch before its offset; `compares`: the
    next answer has it again, to be compared."""

    bucket: TableBucket
    offset: int
    stop: int | None
    moved_at: float
    trouble: str = ""
    cause: Exception | None = None
    last: BatchMark | None = None
    compares: bool = False

    @property
    def done(self) -> bool:
        return self.stop is not None and self.offset >= self.stop


@dataclass(slots=True)
class _Group:
    """Buckets of one leader that are asked for together; asked for again in another order, so that none
    waits for ever behind a full answer."""

    connection: Connection
    buckets: list[TableBucket]
    pending: Pending | None = None


@dataclass(slots=True)
class _Segments:
    """Segment files of a bucket that are still to be read; `at` is the place in the first."""

    io: FileIO
    files: list[tuple[str, int]]  # path, and the offset behind its last row
    at: int
    chunk_bytes: int
    chunk: Future[pa.Buffer]


@dataclass(slots=True)
class _Found:
    """Whole batches of a bucket that are not decoded yet."""

    bucket: TableBucket
    data: pa.Buffer
    heads: list[BatchHead]
    where: str
    projected: bool
    range: tuple[int, int] = field(default=(0, 0))


class LogScan:
    """A scan of the logs of some buckets of a table. Belongs to one thread; `close` it, or use `with`.

    `start`: the first offset of each bucket. `stop`: the offsets behind the last, so that the scan has an
    end; a bucket of `start` without one has nothing to read. Without `stop` the scan follows the logs, and
    `add` and `drop` change what it follows.
    `columns`: those wanted, in this order; only they are sent.
    `max_bytes`: of the answers under way at once, as the server sends them. `stall_seconds`: how long a
    bucket may give nothing although it should. `io`: reads segment files; by default that of their place.
    `last`: the batches before `start`, where they are known.
    """

    def __init__(
        self,
        cluster: Cluster,
        table: FlussTable,
        start: Mapping[TableBucket, int],
        stop: Mapping[TableBucket, int] | None = None,
        *,
        columns: Sequence[str] | None = None,
        max_bytes: int = 64 << 20,
        stall_seconds: Seconds = 60.0,
        io: FileIO | None = None,
        last: Mapping[TableBucket, BatchMark] | None = None,
    ) -> None:
        self._cluster, self._table, self._env = cluster, table, cluster.env
        self._bounded, self._stall_seconds, self._io = stop is not None, stall_seconds, io
        self._max_bytes = max_bytes
        self._columns = ScanColumns(cluster, table, columns)
        self._progress: dict[TableBucket, _Progress] = {}
        self._groups: list[_Group] = []
        self._segments: dict[TableBucket, _Segments] = {}
        self._idle: dict[TableBucket, float] = {}  # in no group, and when to ask again
        self._found: list[_Found] = []
        self._reading: ThreadPoolExecutor | None = None
        for bucket, offset in start.items():
            self._add(bucket, offset, None if stop is None else stop.get(bucket, offset))
            self._progress[bucket].last = (last or {}).get(bucket)

    def __enter__(self) -> LogScan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def offsets(self) -> dict[TableBucket, int]:
        """The next offset of each bucket, behind the batches that were returned."""
        waiting = {found.bucket: found.range[0] for found in reversed(self._found)}
        return {bucket: waiting.get(bucket, one.offset) for bucket, one in self._progress.items()}

    @property
    def done(self) -> bool:
        """Whether all of a bounded scan was returned."""
        return self._bounded and not self._found and all(one.done for one in self._progress.values())

    def add(self, bucket: TableBucket, offset: int) -> None:
        """Follow another bucket from this offset on."""
        if self._bounded:
            raise InvalidRequest("a scan with an end takes no more buckets")
        self._add(bucket, offset, None)

    def drop(self, bucket: TableBucket) -> None:
        """Follow a bucket no longer; its rows that are on their way are not returned."""
        self._progress.pop(bucket, None)
        self._idle.pop(bucket, None)
        self._segments.pop(bucket, None)
        self._found = [found for found in self._found if found.bucket != bucket]
        for group in self._groups:
            group.buckets = [one for one in group.buckets if one != bucket]

    def close(self) -> None:
        """Let go of what is under way; connections stay with the cluster."""
        self._groups, self._segments, self._found = [], {}, []
        if self._reading is not None:
            self._reading.shutdown(wait=True, cancel_futures=True)
            self._reading = None

    def __iter__(self) -> Iterator[ScanBatch]:
        """The batches of a bounded scan, of each bucket in order of offset. A batch may have no rows: its
        bucket has moved on all the same. Raises LogStalled, LogOffsetExpired, LogRewritten, FlussError,
        Corrupt."""
        if not self._bounded:
            raise InvalidRequest("a scan that follows a log has no end: use `poll`")
        while not self.done:
            yield from self._poll(1.0)

    def poll(self, seconds: Seconds) -> list[ScanBatch]:
        """What has come, or comes within that time: the batches of one answer, or none. Raises as
        `__iter__`."""
        return list(self._poll(seconds))

    # ---- one step

    def _poll(self, seconds: Seconds) -> Iterator[ScanBatch]:
        if not self._found:
            self._step(seconds)
        while self._found:
            found = self._found[0]
            while found.heads:
                head = found.heads[0]
                batch = self._decoded(found, head)
                found.heads.pop(0)
                found.range = (batch.end, found.range[1])
                if not found.heads:
                    self._found.pop(0)
                yield batch

    def _step(self, seconds: Seconds) -> None:
        """Send what can be sent, wait for one answer or chunk, and take what has come."""
        over = self._env.monotonic() + seconds
        while True:
            self._regroup()
            for group in self._groups:
                if group.pending is None:
                    self._send(group, over)
            self._wait(over)
            for group in [g for g in self._groups if g.pending is not None and g.pending.done]:
                self._take(group, over)
            for bucket in [b for b, s in self._segments.items() if s.chunk.done()]:
                self._take_chunk(bucket)
            self._watch()
            if self._found or self.done or self._env.monotonic() >= over:
                return

    def _wait(self, over: float) -> None:
        """Wait until something has come, a bucket is to be asked for again, or the time is over."""
        futures: list[Future[Any]] = [s.chunk for s in self._segments.values()]
        futures += [g.pending.future for g in self._groups if g.pending is not None]
        seconds = min([over, *self._idle.values()]) - self._env.monotonic()
        if futures:
            wait(futures, max(seconds, 0), return_when=FIRST_COMPLETED)
        elif seconds > 0 and not self.done:
            self._env.sleep(seconds)

    def _add(self, bucket: TableBucket, offset: int, stop: int | None) -> None:
        now = self._env.monotonic()
        self._progress[bucket] = _Progress(bucket, offset, stop, now)
        if not self._progress[bucket].done:
            self._idle[bucket] = now

    # ---- requests

    def _regroup(self) -> None:
        """Put buckets that belong to no group into groups of their leaders."""
        now = self._env.monotonic()
        due = [bucket for bucket, at in self._idle.items() if at <= now]
        if not due:
            return
        try:
            led, leaderless = self._cluster.led(self._table, due)
        except (FlussError, Unavailable) as e:
            if isinstance(e, FlussError) and not e.retriable:
                raise
            self._trouble(due, str(e), e)
            return
        self._trouble(leaderless, "it has no leader now", None)
        for connection, buckets in led.items():
            groups = [group for group in self._groups if group.connection is connection]
            while len(groups) < min(_GROUPS, len(buckets)):
                groups.append(_Group(connection, []))
                self._groups.append(groups[-1])
            for bucket in buckets:
                min(groups, key=lambda group: len(group.buckets)).buckets.append(bucket)
                del self._idle[bucket]

    def _send(self, group: _Group, over: float) -> None:
        """Ask for all buckets of a group at once."""
        if not group.buckets:
            return
        share = self._max_bytes // max(len(self._groups) + len(self._segments), 1) // 2
        most = min(max(share, _LEAST_BYTES), _MOST_BYTES)
        group.buckets.append(group.buckets.pop(0))
        wanted = self._columns.positions
        buckets = [
            pb.FetchBucket(
                partition_id=bucket.partition_id,
                bucket_id=bucket.bucket,
                fetch_offset=self._progress[bucket].offset - self._progress[bucket].compares,
                max_fetch_bytes=most,
            )
            for bucket in group.buckets
        ]
        asked = pb.FetchTable(
            table_id=self._table.table_id,
            projection_enabled=wanted is not None,
            projected_fields=wanted,
            buckets=buckets,
        )
        waits = max(min(over - self._env.monotonic(), 1.0), 0.0)
        request = pb.FetchLogRequest(
            follower_server_id=_A_CLIENT,
            max_bytes=most,
            tables=[asked],
            max_wait_ms=int(1000 * waits),
            min_bytes=1,
        )
        try:
            group.pending = group.connection.send(FETCH_LOG, request)
        except Unavailable as e:
            self._disband(group, e)

    def _take(self, group: _Group, over: float) -> None:
        """Take an answer: what was found is kept, the next request sent."""
        assert group.pending is not None, "it has an answer"
        pending, group.pending = group.pending, None
        try:
            answer: pb.FetchLogResponse = pending.result()
        except (FlussError, Unavailable) as e:
            if isinstance(e, FlussError) and not e.retriable:
                self._asked_alone(group, e)
            else:
                self._disband(group, e)
            return
        silent = set(group.buckets)
        for fetched in (one for table in answer.tables for one in table.buckets):
            partition_id = fetched.partition_id if fetched.HasField("partition_id") else None
            bucket = TableBucket(self._table.table_id, partition_id, fetched.bucket_id)
            if bucket not in silent:
                continue  # dropped meanwhile, or a second time
            silent.remove(bucket)
            if not self._take_bucket(bucket, fetched):
                group.buckets.remove(bucket)
        for bucket in silent:
            self._progress[bucket].trouble = "the answer of its leader says nothing of it"
        if group.buckets:
            self._send(group, over)
        else:
            self._groups.remove(group)

    def _take_bucket(self, bucket: TableBucket, fetched: pb.FetchedBucket) -> bool:
        """Take what came of a bucket; whether its group goes on asking for it."""
        one = self._progress[bucket]
        if fetched.error_code:
            self._refused(one, fetched)
            return False
        if fetched.HasField("remote_log") and fetched.remote_log.segments:
            self._open_segments(one, fetched.remote_log)
            return False
        records, before = fetched.records, one.offset
        if records:
            self._keep(one, pa.py_buffer(records), self._where(bucket), self._columns.positions is not None)
        behind = one.offset < (fetched.high_watermark if one.stop is None else one.stop)
        if one.offset > before or not behind:
            one.moved_at, one.trouble, one.cause = self._env.monotonic(), "", None
        elif one.offset < fetched.high_watermark:
            one.trouble = f"the server sends nothing, and its high watermark is {fetched.high_watermark}"
        else:
            one.trouble = f"its high watermark is {fetched.high_watermark}"
        return not one.done

    def _refused(self, one: _Progress, fetched: pb.FetchedBucket) -> None:
        where = self._where(one.bucket)
        error = FlussError(fetched.error_code, fetched.error_message, where=where)
        if error.code == ErrorCode.LOG_OFFSET_OUT_OF_RANGE and one.compares:  # retention took the batch
            one.last, one.compares, self._idle[one.bucket] = None, False, self._env.monotonic()
            return
        if error.code == ErrorCode.LOG_OFFSET_OUT_OF_RANGE:
            start = fetched.log_start_offset if fetched.HasField("log_start_offset") else None
            raise LogOffsetExpired(
                one.bucket,
                one.offset,
                start,
                f"{where}: rows from offset {one.offset} on are gone or were never there: {error.message}",
            )
        if not error.retriable:
            raise error
        if error.code in MOVED:
            self._cluster.forget([one.bucket])
        self._trouble([one.bucket], f"{error.name}: {error.message}", error)

    def _asked_alone(self, group: _Group, error: FlussError) -> None:
        """A leader refused a whole request: each bucket is asked for alone, so that the error names one."""
        if len(group.buckets) == 1:
            where = f"{self._where(group.buckets[0])} at offset {self._progress[group.buckets[0]].offset}"
            raise FlussError(error.code, error.message, where=where) from error
        self._groups.remove(group)
        self._groups += [_Group(group.connection, [bucket]) for bucket in group.buckets]

    def _disband(self, group: _Group, error: Exception) -> None:
        """A leader did not answer: its buckets are asked for where their leaders are then."""
        self._groups.remove(group)
        self._cluster.forget(group.buckets)
        self._trouble(group.buckets, str(error), error)

    def _trouble(self, buckets: Sequence[TableBucket], what: str, cause: Exception | None) -> None:
        again = self._env.monotonic() + _PAUSE
        for bucket in buckets:
            self._idle[bucket] = again
            one = self._progress[bucket]
            one.trouble, one.cause, one.compares = what, cause, one.last is not None
        self._watch()

    def _watch(self) -> None:
        """Raise LogStalled for a bucket that has given nothing for too long."""
        now = self._env.monotonic()
        for one in self._progress.values():
            if one.trouble and not one.done and now - one.moved_at > self._stall_seconds:
                stop = "" if one.stop is None else f" of {one.stop}"
                raise LogStalled(
                    one.bucket,
                    one.offset,
                    f"{self._where(one.bucket)} gave nothing from offset {one.offset}{stop} on for "
                    f"{now - one.moved_at:.0f} s: {one.trouble}",
                ) from one.cause

    # ---- segment files

    def _open_segments(self, one: _Progress, remote: pb.RemoteLog) -> None:
        files, at, io = segment_files(remote, self._table, one.bucket, io=self._io)
        log.debug("%s: %d segment files from offset %d on", self._where(one.bucket), len(files), one.offset)
        if self._reading is None:
            self._reading = ThreadPoolExecutor(1, thread_name_prefix="fluss segments")
        chunk = self._read_chunk(io, files[0][0], at, _MOST_BYTES)
        self._segments[one.bucket] = _Segments(io, files, at, _MOST_BYTES, chunk)

    def _read_chunk(self, io: FileIO, path: str, at: int, size: int) -> Future[pa.Buffer]:
        assert self._reading is not None, "segments were opened"

        def read() -> pa.Buffer:
            with io.open_input(path) as file:
                return pa.py_buffer(file.read_at(size, at))

        return self._reading.submit(read)

    def _take_chunk(self, bucket: TableBucket) -> None:
        """Take a part of a segment file, and have the next part read."""
        segments, one = self._segments[bucket], self._progress[bucket]
        path, end = segments.files[0]
        try:
            data = segments.chunk.result()
        except (FileNotFoundError, Unavailable) as e:
            del self._segments[bucket]  # it may just have been removed: the server knows
            self._trouble([bucket], f"{path}: {e}", e)
            return
        before = one.offset
        used = self._keep(one, data, path, projected=False)
        if one.offset > before:
            one.moved_at, one.trouble, one.cause = self._env.monotonic(), "", None
        if one.done:
            del self._segments[bucket]
            return
        segments.at += used
        if one.offset >= end or not data.size:
            if one.offset < end:
                raise Corrupt(path, f"it ends at offset {one.offset}, and should at {end}")
            segments.files.pop(0)
            segments.at = 0
        elif not used:
            segments.chunk_bytes = max(bytes_needed(data), 2 * segments.chunk_bytes)
            if data.size < segments.chunk_bytes // 2 and data.size < bytes_needed(data):
                raise Corrupt(path, f"its last batch is cut, and offset {end} is not reached")
        if segments.files:
            path = segments.files[0][0]
            segments.chunk = self._read_chunk(segments.io, path, segments.at, segments.chunk_bytes)
        else:
            del self._segments[bucket]
            self._idle[bucket] = self._env.monotonic()

    # ---- batches

    def _keep(self, one: _Progress, data: pa.Buffer, where: str, projected: bool) -> int:
        """Keep the batches that are wanted, move the bucket on; how many bytes whole batches take."""
        wanted: list[BatchHead] = []
        start, used = one.offset, 0
        for head in heads(data, where):
            used = head.at + head.size
            if one.compares and head.end >= one.offset:
                self._compare(one, head, projected)
            if head.end <= one.offset:
                continue
            if one.stop is not None and head.base >= one.stop:
                one.offset = one.stop
                break
            wanted.append(head)
            one.last = head.mark
            one.offset = head.end if one.stop is None else min(head.end, one.stop)
        if wanted:
            self._found.append(_Found(one.bucket, data, wanted, where, projected, (start, one.offset)))
        return used

    def _compare(self, one: _Progress, head: BatchHead, projected: bool) -> None:
        """Raise LogRewritten unless this is the batch that was read before; a projected one may lack its
        CRC."""
        one.compares, known = False, one.last if self._table.keeps_batches else None
        if known is not None and not (known == head.mark or (projected and known[:2] == head.mark[:2])):
            raise LogRewritten(one.bucket, one.offset, rewritten(self._where(one.bucket), one.offset))

    def _decoded(self, found: _Found, head: BatchHead) -> ScanBatch:
        if not found.projected:
            check(found.data, head, found.where)
        batch = decode(found.data, head, self._columns.stored(head.schema_id, found.projected), found.where)
        batch = batch.between(found.range[0], found.range[1])
        rows = fitted(batch.rows, self._columns.schema)
        return ScanBatch(
            found.bucket, batch.base, batch.end, batch.timestamp_ms, batch.kinds, rows, head.mark
        )

    def _where(self, bucket: TableBucket) -> str:
        return f"{self._table.path}: {bucket}"


def batches_before(
    cluster: Cluster, table: FlussTable, offsets: Mapping[TableBucket, int], *, stall_seconds: Seconds = 60.0
) -> dict[TableBucket, BatchMark]:
    """The batch that holds the row before each offset, or takes its place. Raises as `LogScan.__iter__`."""
    start = {bucket: offset - 1 for bucket, offset in offsets.items()}
    with LogScan(cluster, table, start, offsets, max_bytes=_LEAST_BYTES, stall_seconds=stall_seconds) as scan:
        return {batch.bucket: batch.mark for batch in scan}
