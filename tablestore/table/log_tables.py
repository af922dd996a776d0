"""What a log holds, as Arrow tables: segments, transactions, the snapshots that name its offsets. Pure.

Times are local wall clock, as in `table.inspect`. Called by `table.log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.snapshot import Snapshot
from tablestore.log import offsets
from tablestore.log.embedded.files import LogHeader, file_name
from tablestore.log.log import Appended, LogBounds
from tablestore.read.scan.time_travel import local_ms

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


def transactions(found: Iterable[Appended]) -> pa.Table:
    """One row per transaction."""
    return table_of(TRANSACTIONS, map(_transaction_row, found))


def snapshots(found: Sequence[Snapshot], get: Callable[[int], Snapshot]) -> pa.Table:
    """One row per snapshot with the offsets that hold there; `found` oldest first, without a gap."""
    return table_of(SNAPSHOTS, _snapshot_rows(found, get))


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


def _snapshot_rows(found: Sequence[Snapshot], get: Callable[[int], Snapshot]) -> Iterator[tuple[Any, ...]]:
    log_offsets: dict[int, int] | None = None
    for at, snapshot in enumerate(found):
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
