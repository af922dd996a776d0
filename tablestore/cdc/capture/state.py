"""What a change capture has done, from the reports of its batches: tables with their chunks, totals, events.

Invariants: values are frozen and follow from the reports and the batch under way alone; the clock is an
argument; chunks of a table stand in the order they were read, which is that of the key and of the log. Where
old reports are gone, what they said is gone: totals count what is there. Pure. Called by views of a capture:
on a terminal, in a notebook.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tablestore.cdc.capture.report import BatchProgress, BatchReport, ChunkReport, EventReport, Freshness
from tablestore.cdc.capture.source import CAPTURED, DROPPED, EMPTIED, PAUSED, RENAMED, SKIPPED
from tablestore.core.arguments import checked
from tablestore.core.quantities import ABSENT, elapsed, many, one_line, seconds_text, short_count, size

SPEED_SECONDS = 10.0
"""The time over which rows a second are counted while a capture runs."""
SHARES = (0.5, 0.95, 0.99)
_BAR = 24


@dataclass(frozen=True, slots=True)
class CaptureChunk:
    """A range of keys, the batch that read it, and the position of the log at which that batch ended: its
    rows were read at that position or later, and are followed from there. Those of the batch under way are
    not `committed`, and have no position yet."""

    report: ChunkReport
    batch: int
    position: str
    committed: bool = True


@dataclass(frozen=True, slots=True)
class CaptureTable:
    """A table of the source: `chunks` of its present snapshot, which is the `passes`-th."""

    source: str
    table: str = ""
    chunks: tuple[CaptureChunk, ...] = ()
    passes: int = 0
    expected: int | None = None
    """About how many rows there are to read."""
    snapshotting: bool = False
    ended: str = ""
    """dropped, renamed or paused, once it is."""
    changes: int | None = None
    """None where other tables of the source go into the same table."""
    bad_rows: int = 0

    @property
    def rows(self) -> int:
        """Rows of the snapshot that are read."""
        return sum(chunk.report.rows for chunk in self.chunks)

    @property
    def remaining(self) -> int | None:
        """About how many rows are not read yet; None where nothing is known."""
        if not self.snapshotting:
            return 0
        return None if self.expected is None else max(self.expected - self.rows, 0)

    @property
    def text(self) -> str:
        """`15,000 rows`, `12,000 of ≈ 15,000 rows`, `dropped`."""
        if self.ended:
            return self.ended
        if not self.chunks:
            return "waiting" if self.snapshotting else "followed"
        if self.snapshotting and self.remaining is not None:
            return f"{self.rows:,} of ≈ {self.rows + self.remaining:,} rows"
        return many(self.rows, "row")


@dataclass(frozen=True, slots=True)
class CaptureChange:
    """An event other than the beginning of a capture, in the batch whose rows come after it."""

    report: EventReport
    batch: int
    time: float

    @property
    def cause(self) -> str:
        """The statement; where there is none, what was done."""
        return self.report.statement or self.report.done


@dataclass(frozen=True, slots=True, eq=False)
class CaptureModel:
    """One moment of a capture. Immutable by agreement: nobody writes into the arrays."""

    title: str
    state: str
    """running, paused, waiting, stopping, stopped, ended or failed; empty for reports without a job"""
    reports: tuple[BatchReport, ...]
    lanes: tuple[CaptureTable, ...]
    changes: tuple[CaptureChange, ...]
    freshness: Freshness
    now: float
    paused: tuple[tuple[float, float | None], ...] = ()
    error: str = ""
    totals: dict[str, int] = field(default_factory=dict)
    under_way: BatchProgress | None = None

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return self.state in ("running", "paused", "waiting", "stopping")

    @property
    def last(self) -> BatchReport | None:
        """The newest batch."""
        return self.reports[-1] if self.reports else None

    @property
    def began(self) -> float:
        """When the oldest batch that is known was planned."""
        return self.reports[0].planned if self.reports else self.now

    @property
    def until(self) -> float:
        """The end of the axis of time."""
        last = self.last
        return max(self.now if self.live or last is None else last.ended, last.ended if last else 0.0)

    @property
    def expected(self) -> int | None:
        """About how many rows all snapshots have; None where one is not known."""
        rows = [lane.rows + lane.remaining for lane in self.lanes if lane.remaining is not None]
        return sum(rows) if len(rows) == len(self.lanes) else None

    @property
    def snapshotting(self) -> int:
        """How many tables are not read to their end."""
        return sum(lane.snapshotting for lane in self.lanes)

    @property
    def speed(self) -> float | None:
        """Rows and changes a second: of the last seconds while it runs, none where nothing comes; then of the
        whole."""
        if not self.reports:
            return None
        end = self.reports[-1].ended
        waits = not self.snapshotting and not self.reports[-1].bytes_behind
        if self.live and waits and self.now > end + SPEED_SECONDS:
            return 0.0
        recent = [r for r in self.reports if not self.live or r.ended > end - SPEED_SECONDS]
        span = recent[-1].ended - recent[0].planned
        return sum(report.rows for report in recent) / span if span > 0 else None

    @property
    def left_s(self) -> float | None:
        """Seconds until the snapshots are read, at the present speed of reading them."""
        remaining = [lane.remaining for lane in self.lanes if lane.snapshotting]
        if not remaining or None in remaining or not self.reports:
            return None
        end = self.reports[-1].ended
        recent = [r for r in self.reports if r.ended > end - SPEED_SECONDS]
        span = recent[-1].ended - recent[0].planned
        read = sum(report.snapshot_rows for report in recent)
        return sum(rows or 0 for rows in remaining) * span / read if read else None

    def quantile(self, share: float) -> float | None:
        """The freshness that this share of the transactions has, or better."""
        return self.freshness.quantile(share) if len(self.freshness.counts) else None

    def shown(self, most: int) -> list[CaptureTable]:
        """At most so many tables: first those that are being read, then the others, in their order."""
        if len(self.lanes) <= most:
            return list(self.lanes)
        first = [lane for lane in self.lanes if lane.snapshotting]
        rest = [lane for lane in self.lanes if not lane.snapshotting]
        kept = {id(lane) for lane in [*first, *rest][:most]}
        return [lane for lane in self.lanes if id(lane) in kept]

    @property
    def freshness_text(self) -> str:
        """`p50 1.1 s · p95 1.8 s · p99 2.4 s`."""
        return " · ".join(f"p{share * 100:.0f} {seconds_text(self.quantile(share))}" for share in SHARES)

    @property
    def state_text(self) -> str:
        """`running · 38 batches · last 1.2 s ago`, or `… · 3 of 8 pieces of the next written`."""
        parts = [self.state, "1 batch" if len(self.reports) == 1 else f"{len(self.reports):,} batches"]
        if self.under_way is not None and self.live:
            pieces = self.under_way.pieces
            written = sum(piece.rows is not None for piece in pieces)
            parts.append(f"{written:,} of {len(pieces):,} pieces of the next written")
        elif self.last is not None and self.live:
            parts.append(f"last {elapsed(max(self.now - self.last.ended, 0.0))} ago")
        return " · ".join(part for part in parts if part)

    @property
    def log_text(self) -> str:
        """How much of the log is behind the last batch: `2.38 MiB`, an en dash before there is one."""
        return ABSENT if self.last is None else size(self.last.bytes_behind)

    def text(self, *, most: int = 12) -> str:
        """The state in a terminal: figures, a bar for each of `most` tables, the newest schema changes."""
        totals = self.totals
        of = f" of ≈ {self.expected:,}" if self.snapshotting and self.expected is not None else ""
        speed = f"  {short_count(self.speed)} rows/s" if self.speed is not None else ""
        lines = [
            f"{one_line(self.title)}  {self.state_text}",
            f"rows read {totals['snapshot_rows']:,}{of}  changes {totals['changes']:,}{speed}"
            f"  bad rows {totals['bad_rows']:,}",
            f"freshness {self.freshness_text}  log behind {self.log_text}",
        ]
        shown = self.shown(most)
        lines += _bars(shown)
        if len(self.lanes) > len(shown):
            lines.append(f"… {many(len(self.lanes) - len(shown), 'more table')}")
        for change in self.changes[-most:]:
            event = change.report
            source, cause = one_line(event.source), one_line(change.cause)
            lines.append(f"{clock(change.time)} {event.kind} {source}: {cause} → {one_line(event.done)}")
        return "\n".join([*lines, *([f"error: {one_line(self.error)}"] if self.error else [])])


def _bars(lanes: Sequence[CaptureTable]) -> list[str]:
    """A line for each table: its name, how much of its snapshot is read, its changes."""
    names = [one_line(lane.source) for lane in lanes]
    wide = min(max(map(len, names), default=0), 40)
    lines = []
    for lane, name in zip(lanes, names, strict=True):
        whole = lane.rows + (lane.remaining or 0)
        full = round(_BAR * lane.rows / whole) if whole and lane.remaining is not None else 0
        bar = "█" * full + "░" * (_BAR - full) if lane.chunks else "·" * _BAR
        extra = f"  {many(lane.changes, 'change')}" if lane.changes else ""
        lines.append(f"{name[:40]:<{wide}} {bar} {lane.text}{extra}")
    return lines


@checked
def capture_model(
    reports: Sequence[BatchReport],
    *,
    title: str,
    now: float,
    state: str = "",
    paused: Sequence[tuple[float, float | None]] = (),
    error: str = "",
    under_way: BatchProgress | None = None,
) -> CaptureModel:
    """The state of a capture by its `reports`, the oldest first; of two of one number the later one counts.

    `title` names it, `now` is the time in seconds, `state` and `error` are the job's words, `paused` says
    from when to when it stood still. What the batch `under_way` has read counts as read, unless its report is
    there.

    >>> ts.capture_model([], title="shop", now=0.0).totals["changes"]
    0
    """
    unique = {report.number: report for report in reports}
    ordered = tuple(unique[number] for number in sorted(unique))
    totals = dict.fromkeys(("snapshot_rows", "changes", "bad_rows", "commits", "log_bytes"), 0)
    for report in ordered:
        totals["log_bytes"] += report.log_bytes
        for table in report.tables:
            totals["snapshot_rows"] += table.snapshot_rows
            totals["changes"] += table.changes
            totals["bad_rows"] += table.bad_rows
            totals["commits"] += table.snapshot is not None
    if under_way is not None and under_way.number in unique:
        under_way = None
    for piece in () if under_way is None else under_way.pieces:
        totals["changes" if piece.chunk is None else "snapshot_rows"] += piece.rows or 0
    return CaptureModel(
        title=title,
        state=state,
        reports=ordered,
        lanes=_lanes(ordered, _chunks_of(under_way, now)),
        changes=_schema_changes(ordered),
        freshness=Freshness.of(ordered),
        now=now,
        paused=tuple(paused),
        error=error,
        totals=totals,
        under_way=under_way,
    )


def _schema_changes(reports: Sequence[BatchReport]) -> tuple[CaptureChange, ...]:
    changes = []
    for report in reports:
        for event in report.events:
            if event.statement or event.kind != CAPTURED:
                time = float(event.seconds) if event.seconds else report.planned
                changes.append(CaptureChange(event, report.number, time))
    return tuple(changes)


def _chunks_of(under_way: BatchProgress | None, now: float) -> list[CaptureChunk]:
    """The chunks of a batch under way that tasks have written."""
    chunks = []
    for piece in () if under_way is None else under_way.pieces:
        if under_way is not None and piece.chunk is not None and piece.rows is not None:
            facts = piece.chunk
            ends = max(now, under_way.started)
            chunk = ChunkReport(
                str(facts.table), facts.low, facts.high, facts.last, piece.rows, under_way.started, ends
            )
            chunks.append(CaptureChunk(chunk, under_way.number, "", committed=False))
    return chunks


def _lanes(reports: Sequence[BatchReport], under_way: Sequence[CaptureChunk]) -> tuple[CaptureTable, ...]:
    """Tables in the order in which they came, each with the chunks since its rows were last read anew."""
    lanes: dict[str, CaptureTable] = {}
    for report in reports:
        for event in report.events:
            if event.kind != SKIPPED:
                lane = lanes.get(event.source, CaptureTable(event.source))
                lanes[event.source] = _after_event(lane, event)
        for chunk in report.chunks:
            lane = lanes.get(chunk.source, CaptureTable(chunk.source))
            lanes[chunk.source] = _with_chunk(lane, CaptureChunk(chunk, report.number, report.position))
    for more in under_way:
        lane = lanes.get(more.report.source, CaptureTable(more.report.source))
        lanes[more.report.source] = _with_chunk(lane, more)
    behind = set(reports[-1].snapshotting) if reports else set()
    for source in sorted(behind - lanes.keys()):
        lanes[source] = CaptureTable(source)
    return _with_tables({s: replace(lane, snapshotting=s in behind) for s, lane in lanes.items()}, reports)


def _after_event(lane: CaptureTable, event: EventReport) -> CaptureTable:
    lane = replace(lane, table=event.table or lane.table)
    if event.kind in (DROPPED, RENAMED, PAUSED):
        return replace(lane, ended=event.kind)
    if event.kind in (CAPTURED, EMPTIED):
        return replace(
            lane, ended="", expected=event.rows, chunks=() if event.kind == EMPTIED else lane.chunks
        )
    return lane if event.rows is None else replace(lane, expected=event.rows)


def _with_chunk(lane: CaptureTable, chunk: CaptureChunk) -> CaptureTable:
    """The lane with a chunk more; the first range of a table begins its snapshot anew."""
    if chunk.report.low is None or not lane.chunks:
        return replace(lane, chunks=(chunk,), passes=lane.passes + 1)
    return replace(lane, chunks=(*lane.chunks, chunk))


def _with_tables(lanes: dict[str, CaptureTable], reports: Sequence[BatchReport]) -> tuple[CaptureTable, ...]:
    """The lanes with the changes of their tables; a table whose source no report names is a lane itself."""
    changes: dict[str, int] = {}
    bad: dict[str, int] = {}
    for report in reports:
        for table_report in report.tables:
            changes[table_report.table] = changes.get(table_report.table, 0) + table_report.changes
            bad[table_report.table] = bad.get(table_report.table, 0) + table_report.bad_rows
    of_table: dict[str, list[str]] = {}
    for lane in lanes.values():
        of_table.setdefault(lane.table or lane.source, []).append(lane.source)
    for table, sources in of_table.items():
        for at, source in enumerate(sources):
            alone = len(sources) == 1
            lanes[source] = replace(
                lanes[source],
                changes=changes.get(table, 0) if alone else None,
                bad_rows=bad.get(table, 0) if at == 0 else 0,
            )
    for table in changes:
        if table not in of_table:
            lanes[table] = CaptureTable(table, table, changes=changes[table], bad_rows=bad[table])
    return tuple(lanes.values())


def clock(time: float) -> str:
    """`12:47:08` in UTC."""
    moment = np.datetime64(int(time), "s")
    return str(moment)[11:19]
