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
from typing import Any

import pyarrow as pa

from tablestore.core.errors import Corrupt, InvalidRequest, Unavailable
from tablestore.fluss.apis import FETCH_LOG
from tablestore.fluss.cluster import MOVED, Cluster
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.log_records import BatchHead, BatchMark, bytes_needed, check, decode, heads
from tablestore.fluss.messages import pb
from tablestore.fluss.remote_files import segment_files
from tablestore.fluss.scan_state import (
    BucketGroup,
    BucketProgress,
    LogBatches,
    LogOffsetExpired,
    LogRewritten,
    LogStalled,
    ScanBatch,
    SegmentFiles,
    rewritten,
)
from tablestore.fluss.schemas import ScanColumns, fitted
from tablestore.fluss.tables import FlussTable, TableBucket
from tablestore.io.fileio import FileIO

Seconds = float
_A_CLIENT = -1
_GROUPS = 2  # of a leader's buckets, each with a request under way
_LEAST_BYTES, _MOST_BYTES = 1 << 20, 16 << 20  # of an answer, and read of a segment at once
_PAUSE: Seconds = 0.1  # before a bucket in trouble is asked for again

log = logging.getLogger(__name__)


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
        self._progress: dict[TableBucket, BucketProgress] = {}
        self._groups: list[BucketGroup] = []
        self._segments: dict[TableBucket, SegmentFiles] = {}
        self._idle: dict[TableBucket, float] = {}  # in no group, and when to ask again
        self._fetched: list[LogBatches] = []
        self._reading: ThreadPoolExecutor | None = None
        for bucket, offset in start.items():
            self._add(bucket, offset, None if stop is None else stop.get(bucket, offset))
            self._progress[bucket].last = (last or {}).get(bucket)

    def __enter__(self) -> LogScan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def offsets(self) -> dict[TableBucket, int]:
        """The next offset of each bucket, behind the batches that were returned."""
        waiting = {batches.bucket: batches.range[0] for batches in reversed(self._fetched)}
        return {bucket: waiting.get(bucket, progress.offset) for bucket, progress in self._progress.items()}

    @property
    def done(self) -> bool:
        """Whether all of a bounded scan was returned."""
        return (
            self._bounded and not self._fetched and all(progress.done for progress in self._progress.values())
        )

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
        self._fetched = [batches for batches in self._fetched if batches.bucket != bucket]
        for group in self._groups:
            group.buckets = [kept for kept in group.buckets if kept != bucket]

    def close(self) -> None:
        """Let go of what is under way; connections stay with the cluster."""
        self._groups, self._segments, self._fetched = [], {}, []
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
        if not self._fetched:
            self._step(seconds)
        while self._fetched:
            batches = self._fetched[0]
            while batches.heads:
                head = batches.heads[0]
                batch = self._decoded(batches, head)
                batches.heads.pop(0)
                batches.range = (batch.end, batches.range[1])
                if not batches.heads:
                    self._fetched.pop(0)
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
            if self._fetched or self.done or self._env.monotonic() >= over:
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
        self._progress[bucket] = BucketProgress(bucket, offset, stop, now)
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
                groups.append(BucketGroup(connection, []))
                self._groups.append(groups[-1])
            for bucket in buckets:
                min(groups, key=lambda group: len(group.buckets)).buckets.append(bucket)
                del self._idle[bucket]

    def _send(self, group: BucketGroup, over: float) -> None:
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

    def _take(self, group: BucketGroup, over: float) -> None:
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
        for fetched in (answered for table in answer.tables for answered in table.buckets):
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
        progress = self._progress[bucket]
        if fetched.error_code:
            self._refused(progress, fetched)
            return False
        if fetched.HasField("remote_log") and fetched.remote_log.segments:
            self._open_segments(progress, fetched.remote_log)
            return False
        records, before = fetched.records, progress.offset
        if records:
            self._keep(
                progress, pa.py_buffer(records), self._where(bucket), self._columns.positions is not None
            )
        behind = progress.offset < (fetched.high_watermark if progress.stop is None else progress.stop)
        if progress.offset > before or not behind:
            progress.moved_at, progress.trouble, progress.cause = self._env.monotonic(), "", None
        elif progress.offset < fetched.high_watermark:
            progress.trouble = f"the server sends nothing, and its high watermark is {fetched.high_watermark}"
        else:
            progress.trouble = f"its high watermark is {fetched.high_watermark}"
        return not progress.done

    def _refused(self, progress: BucketProgress, fetched: pb.FetchedBucket) -> None:
        where = self._where(progress.bucket)
        error = FlussError(fetched.error_code, fetched.error_message, where=where)
        if error.code == ErrorCode.LOG_OFFSET_OUT_OF_RANGE and progress.compares:  # retention took the batch
            progress.last, progress.compares, self._idle[progress.bucket] = None, False, self._env.monotonic()
            return
        if error.code == ErrorCode.LOG_OFFSET_OUT_OF_RANGE:
            start = fetched.log_start_offset if fetched.HasField("log_start_offset") else None
            at = progress.offset
            text = f"{where}: rows from offset {at} on are gone or were never there: {error.message}"
            raise LogOffsetExpired(progress.bucket, at, start, text)
        if not error.retriable:
            raise error
        if error.code in MOVED:
            self._cluster.forget([progress.bucket])
        self._trouble([progress.bucket], f"{error.name}: {error.message}", error)

    def _asked_alone(self, group: BucketGroup, error: FlussError) -> None:
        """A leader refused a whole request: each bucket is asked for alone, so that the error names one."""
        if len(group.buckets) == 1:
            where = f"{self._where(group.buckets[0])} at offset {self._progress[group.buckets[0]].offset}"
            raise FlussError(error.code, error.message, where=where) from error
        self._groups.remove(group)
        self._groups += [BucketGroup(group.connection, [bucket]) for bucket in group.buckets]

    def _disband(self, group: BucketGroup, error: Exception) -> None:
        """A leader did not answer: its buckets are asked for where their leaders are then."""
        self._groups.remove(group)
        self._cluster.forget(group.buckets)
        self._trouble(group.buckets, str(error), error)

    def _trouble(self, buckets: Sequence[TableBucket], what: str, cause: Exception | None) -> None:
        again = self._env.monotonic() + _PAUSE
        for bucket in buckets:
            self._idle[bucket] = again
            progress = self._progress[bucket]
            progress.trouble, progress.cause, progress.compares = what, cause, progress.last is not None
        self._watch()

    def _watch(self) -> None:
        """Raise LogStalled for a bucket that has given nothing for too long."""
        now = self._env.monotonic()
        for progress in self._progress.values():
            if progress.trouble and not progress.done and now - progress.moved_at > self._stall_seconds:
                stop = "" if progress.stop is None else f" of {progress.stop}"
                raise LogStalled(
                    progress.bucket,
                    progress.offset,
                    f"{self._where(progress.bucket)} gave nothing from offset {progress.offset}{stop} on for "
                    f"{now - progress.moved_at:.0f} s: {progress.trouble}",
                ) from progress.cause

    # ---- segment files

    def _open_segments(self, progress: BucketProgress, remote: pb.RemoteLog) -> None:
        files, at, io = segment_files(remote, self._table, progress.bucket, io=self._io)
        log.debug(
            "%s: %d segment files from offset %d on",
            self._where(progress.bucket),
            len(files),
            progress.offset,
        )
        if self._reading is None:
            self._reading = ThreadPoolExecutor(1, thread_name_prefix="fluss segments")
        chunk = self._read_chunk(io, files[0][0], at, _MOST_BYTES)
        self._segments[progress.bucket] = SegmentFiles(io, files, at, _MOST_BYTES, chunk)

    def _read_chunk(self, io: FileIO, path: str, at: int, size: int) -> Future[pa.Buffer]:
        assert self._reading is not None, "segments were opened"

        def read() -> pa.Buffer:
            with io.open_input(path) as file:
                return pa.py_buffer(file.read_at(size, at))

        return self._reading.submit(read)

    def _take_chunk(self, bucket: TableBucket) -> None:
        """Take a part of a segment file, and have the next part read."""
        segments, progress = self._segments[bucket], self._progress[bucket]
        path, end = segments.files[0]
        try:
            data = segments.chunk.result()
        except (FileNotFoundError, Unavailable) as e:
            del self._segments[bucket]  # it may just have been removed: the server knows
            self._trouble([bucket], f"{path}: {e}", e)
            return
        before = progress.offset
        used = self._keep(progress, data, path, projected=False)
        if progress.offset > before:
            progress.moved_at, progress.trouble, progress.cause = self._env.monotonic(), "", None
        if progress.done:
            del self._segments[bucket]
            return
        segments.at += used
        if progress.offset >= end or not data.size:
            if progress.offset < end:
                raise Corrupt(path, f"it ends at offset {progress.offset}, and should at {end}")
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

    def _keep(self, progress: BucketProgress, data: pa.Buffer, where: str, projected: bool) -> int:
        """Keep the batches that are wanted, move the bucket on; how many bytes whole batches take."""
        wanted: list[BatchHead] = []
        start, used = progress.offset, 0
        for head in heads(data, where):
            used = head.at + head.size
            if progress.compares and head.end >= progress.offset:
                self._compare(progress, head, projected)
            if head.end <= progress.offset:
                continue
            if progress.stop is not None and head.base >= progress.stop:
                progress.offset = progress.stop
                break
            wanted.append(head)
            progress.last = head.mark
            progress.offset = head.end if progress.stop is None else min(head.end, progress.stop)
        if wanted:
            self._fetched.append(
                LogBatches(progress.bucket, data, wanted, where, projected, (start, progress.offset))
            )
        return used

    def _compare(self, progress: BucketProgress, head: BatchHead, projected: bool) -> None:
        """Raise LogRewritten unless this is the batch that was read before; a projected one may lack its
        CRC."""
        progress.compares, last = False, progress.last if self._table.keeps_batches else None
        if last is not None and not (last == head.mark or (projected and last[:2] == head.mark[:2])):
            raise LogRewritten(
                progress.bucket, progress.offset, rewritten(self._where(progress.bucket), progress.offset)
            )

    def _decoded(self, batches: LogBatches, head: BatchHead) -> ScanBatch:
        if not batches.projected:
            check(batches.data, head, batches.where)
        batch = decode(
            batches.data, head, self._columns.stored(head.schema_id, batches.projected), batches.where
        )
        batch = batch.between(batches.range[0], batches.range[1])
        rows = fitted(batch.rows, self._columns.schema)
        return ScanBatch(
            batches.bucket, batch.base, batch.end, batch.timestamp_ms, batch.kinds, rows, head.mark
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
