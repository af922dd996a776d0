"""`table.log`: the log of a table as a user sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablestore.core.arguments import checked
from tablestore.core.errors import NotFound
from tablestore.core.options.log_store import LogSystem
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.snapshot import Snapshot
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join
from tablestore.log import offsets
from tablestore.log.embedded.files import LogHeader, file_name
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Appended, LogBounds
from tablestore.read.changes.stream_start import offsets_of
from tablestore.read.scan.time_travel import local_ms
from tablestore.table.log_of import table_log
from tablestore.table.logged import LogCommitter


@checked
class LogView:
    """The log of a table: what it holds, how much of it is in files, and `finish`."""

    def __init__(self, committer: LogCommitter, finish: Callable[[], tuple[int, ...]]) -> None:
        self._committer, self._finish = committer, finish

    @property
    def system(self) -> str:
        """What holds it: embedded, kafka or fluss."""
        return self._committer.settings.system.value

    @property
    def consistency(self) -> str:
        """When readers see rows: transactional (with their commit) or eventual (at once)."""
        return "eventual" if self._committer.settings.eventual else "transactional"

    @property
    def start(self) -> dict[int, int]:
        """Per bucket the offset of the oldest row that is still there."""
        return dict(self._committer.log.bounds().start)

    @property
    def end(self) -> dict[int, int]:
        """Per bucket the offset behind the newest row."""
        return dict(self._committer.log.bounds().end)

    @property
    def in_files(self) -> dict[int, int]:
        """Per bucket the offset behind the last row that the newest snapshot has in files."""
        at = self._committer.position()
        return {bucket: at.get(bucket, 0) for bucket in self._buckets()}

    @property
    def newest_snapshot(self) -> int | None:
        """Id of the snapshot that says how much is in files; None without any. No snapshot is read."""
        return self._committer.store.snapshots.latest_id()

    @property
    def visible(self) -> dict[int, int]:
        """Per bucket the offset up to which readers see rows now: with the transactions of an embedded log
        that of the newest snapshot, else the end."""
        store = self._committer.store
        log = table_log(store, self._committer.log)
        end = {} if log is None else log.end(store, store.snapshots.latest())
        return {bucket: end.get(bucket, 0) for bucket in self._buckets()}

    def _buckets(self) -> Iterable[int]:
        """The numbers of its buckets; those of a Fluss table with partitions are known to the cluster."""
        settings = self._committer.settings
        if settings.system is LogSystem.FLUSS:
            return sorted(self._committer.log.bounds().end)
        return range(settings.buckets)

    def segments(self) -> pa.Table:
        """The files of the log, oldest first: one row per bucket with rows in it, from offset `start` up to
        `end`.

        A file of one transaction has `first` = `last`, its number; a segment has those of a range of them.
        Where offsets have gaps, `record_count` is less than `end - start`: older rows of a key are gone. Of
        a topic there is one row per partition, with its offsets alone.

        >>> columns, options = {"n": ts.INT}, {"log.system": "embedded", "bucket": 1}
        >>> visits = lake.create_table("shop.v", schema=columns, primary_key=["n"], options=options)
        >>> _ = visits.write({"n": [1, 2, 3]})
        >>> visits.log.segments().select(["first", "last", "start", "end", "record_count"]).to_pylist()
        [{'first': 1, 'last': 1, 'start': 0, 'end': 3, 'record_count': 3}]
        """
        log = self._committer.log
        if isinstance(log, EmbeddedLog):
            return segments(log.headers())
        return partitions(log.bounds())

    def transactions(self, start: Mapping[int, int] | None = None) -> pa.Table:
        """What was appended together at or behind the offsets `start` (None: all that is there), in the
        order of the log: when, from where to where in each bucket, and the mark, who committed it.

        Rows that were seen before their commit (eventual) have no mark. Of a topic the messages are read.

        >>> columns, options = {"n": ts.INT}, {"log.system": "embedded", "bucket": 1}
        >>> visits = lake.create_table("shop.v", schema=columns, primary_key=["n"], options=options)
        >>> committed = [visits.write({"n": [n]}, user="till", identifier=n) for n in (1, 2)]
        >>> visits.log.transactions({0: 1}).select(["start", "commit_user"]).to_pylist()
        [{'start': [(0, 1)], 'commit_user': 'till'}]
        """
        begin = self.start if start is None else offsets_of(start)
        return transactions(self._committer.log.transactions(begin))

    def snapshots(self, *, newest: int | None = None) -> pa.Table:
        """Snapshots, oldest first, with the offsets up to which each has the rows of the log in files; of so
        many of the `newest`, None: of all.

        A snapshot of another engine names none: those of the one before hold. Null where that has expired.

        >>> columns, options = {"n": ts.INT}, {"log.system": "embedded", "bucket": 1}
        >>> visits = lake.create_table("shop.v", schema=columns, primary_key=["n"], options=options)
        >>> committed = visits.write({"n": [1, 2]}), visits.write({"n": [3]})
        >>> visits.log.snapshots()["offsets"].to_pylist()
        [[(0, 2)], [(0, 3)]]
        """
        store = self._committer.store.snapshots
        return snapshots(store.all(newest=newest), store.get)

    @property
    def size(self) -> int | None:
        """Bytes of an embedded log on the disk; None for one in a cluster."""
        log = self._committer.log
        if not isinstance(log, EmbeddedLog):
            return None
        return _bytes_below(self._committer.store.io, self._committer.settings.directory)

    @property
    def topic(self) -> str | None:
        """The topic in Kafka, None for other logs."""
        log = self._committer.log
        return log.topic if isinstance(log, KafkaLog) else None

    def finish(self) -> tuple[int, ...]:
        """Write what the log has and the files have not, as after a writer was killed; the ids of the
        snapshots made. Every writer begins with that.

        >>> columns, options = {"n": ts.INT}, {"log.system": "embedded"}
        >>> visits = lake.create_table("shop.v", schema=columns, primary_key=["n"], options=options)
        >>> visits.log.finish()
        ()
        """
        return self._finish()

    def repair(self) -> dict[int, int]:
        """Go on without what is damaged or gone. Per bucket how many offsets went whose rows are nowhere:
        none ({}) where the table's files had them already.

        Of an embedded log torn or damaged files are removed that lie before sound ones, which a loss of power
        leaves where `tablestore.log.fsync` is off. The log begins behind the damage then, and streams that
        are farther back go on with files. Where its end is missing, or it is another log, it begins anew
        behind what the files have. Of a topic the table passes rows that retention took before files had
        them. A topic that ends before the offsets of the files, since it was made again, is lengthened by
        offsets without rows: what others wrote to it before that stays unseen.

        >>> columns, options = {"n": ts.INT}, {"log.system": "embedded"}
        >>> visits = lake.create_table("shop.v", schema=columns, primary_key=["n"], options=options)
        >>> visits.log.repair()
        {}
        """
        return self._committer.repair()

    def __repr__(self) -> str:
        bounds, at = self._committer.log.bounds(), self.in_files
        parts = [f"bucket {b}: {bounds.start[b]}..{bounds.end[b]} ({at[b]} in files)" for b in sorted(at)]
        shown = ", ".join(parts[:8]) + (f", … {len(parts) - 8} more" if len(parts) > 8 else "")
        size = "" if self.size is None else f", {self.size:,} bytes"
        topic = "" if self.topic is None else f" {self.topic}"
        return f"Log({self.system}{topic}, {self.consistency}{size}; {shown})"


def _bytes_below(io: FileIO, directory: str) -> int:
    size = 0
    for entry in io.list(directory):
        path = join(directory, entry.name)
        size += _bytes_below(io, path) if entry.is_dir else entry.size
    return size


_OFFSETS = pa.map_(pa.int32(), pa.int64())
SEGMENTS = result_schema(
    "file_name string, first int64, last int64, bucket int32, start int64, end int64, "
    "record_count int64, bytes int64, transactions int64, first_time ms, last_time ms"
)
TRANSACTIONS = result_schema(
    "time ms, start offsets, end offsets, commit_user string, commit_identifier int64", offsets=_OFFSETS
)
SNAPSHOTS = result_schema(
    "snapshot_id int64, commit_kind string, commit_user string, commit_identifier int64, "
    "commit_time ms, offsets offsets",
    offsets=_OFFSETS,
)


def segments(headers: Iterable[LogHeader]) -> pa.Table:
    """One row per file of an embedded log and bucket with rows in it."""
    return table_of(SEGMENTS, (row for header in headers for row in _segment_rows(header)))


def partitions(bounds: LogBounds) -> pa.Table:
    """The same of a topic, one row per partition: what it holds between its offsets is not known."""
    rows = ((None, None, None, b, bounds.start[b], bounds.end[b], *[None] * 5) for b in sorted(bounds.end))
    return table_of(SEGMENTS, rows)


def transactions(appended: Iterable[Appended]) -> pa.Table:
    """One row per transaction."""
    return table_of(TRANSACTIONS, map(_transaction_row, appended))


def snapshots(listed: Sequence[Snapshot], get: Callable[[int], Snapshot]) -> pa.Table:
    """One row per snapshot with the offsets that hold there; `listed` oldest first, without a gap."""
    return table_of(SNAPSHOTS, _snapshot_rows(listed, get))


def _segment_rows(header: LogHeader) -> Iterator[tuple[Any, ...]]:
    name = file_name(header.first, header.last)
    times = local_ms(header.transactions[0].timestamp_ms), local_ms(header.timestamp_ms)
    for bucket, end in sorted(header.end.items()):
        start = header.start.get(bucket, 0)
        if start == end:
            continue
        chunks = [chunk for chunk in header.chunks if chunk.bucket == bucket]
        rows, size = sum(chunk.rows for chunk in chunks), sum(chunk.length for chunk in chunks)
        count = sum(bucket in t.ranges for t in header.transactions)
        yield (name, header.first, header.last, bucket, start, end, rows, size, count, *times)


def _transaction_row(appended: Appended) -> tuple[Any, ...]:
    mark = appended.mark
    who = (None, None) if mark is None else (mark.user, mark.identifier)
    return local_ms(appended.timestamp_ms), _pairs(appended.start), _pairs(appended.end), *who


def _snapshot_rows(listed: Sequence[Snapshot], get: Callable[[int], Snapshot]) -> Iterator[tuple[Any, ...]]:
    log_offsets: dict[int, int] | None = None
    for at, snapshot in enumerate(listed):
        named = offsets.of_snapshot(snapshot)
        if named is None and at == 0:
            log_offsets = _known(snapshot, get)
        log_offsets = log_offsets if named is None else named
        place = None if log_offsets is None else _pairs(log_offsets)
        s = snapshot
        yield s.id, s.commit_kind, s.commit_user, s.commit_identifier, local_ms(s.time_millis), place


def _known(snapshot: Snapshot, get: Callable[[int], Snapshot]) -> dict[int, int] | None:
    try:
        return offsets.known(snapshot, get)
    except NotFound:
        return None


def _pairs(offsets_by_bucket: offsets.Offsets) -> list[tuple[int, int]]:
    return sorted(offsets_by_bucket.items())
