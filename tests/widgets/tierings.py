"""Reports as a tiering service gives them: rounds of four tables while writers write, one that always fails,
a kill and what heals it; seeded. `report(at)` is what is known so many seconds after the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tablestore.tiering.report import (
    BucketMarks,
    Heartbeat,
    ReportedTable,
    RoundReport,
    SplitReport,
    TableError,
    TableState,
    TieringReport,
)

BEGAN = 1_795_366_800.0  # 2026-11-22 17:00:00 UTC
KILLED, STARTED = 30.0, 42.0
"""When the service is killed, in the middle of a round, and when another one begins."""
DISK_FULL = "OSError: [Errno 28] no space left on device: /lake/shop.db/parts/bucket-0/data-91c4.parquet"


@dataclass
class _Bucket:
    partition: str | None
    bucket: int
    end: int
    tiered: int | None = None


@dataclass
class _Table:
    name: str
    number: int
    speed: int
    """Rows a second of each bucket."""
    freshness: float
    buckets: list[_Bucket]
    fails: str = ""
    keyed: bool = False
    state: str = "New"
    since: float = BEGAN
    epoch: int = 0
    tiered_at: float | None = None
    due: float = 0.0
    reason: str = ""
    round: RoundReport | None = None
    seconds: float = field(default=1.0)


def _tables() -> list[_Table]:
    def buckets(count: int, rows: int, partition: str | None = None) -> list[_Bucket]:
        return [_Bucket(partition, at, rows + 137 * at) for at in range(count)]

    days = [*buckets(2, 22_000, "dt=2026-11-21"), *buckets(2, 4_000, "dt=2026-11-22")]
    return [
        _Table("shop.customers", 1, 40, 10.0, buckets(2, 15_000), keyed=True),
        _Table("shop.events", 2, 420, 5.0, days),
        _Table("shop.orders", 3, 900, 5.0, buckets(4, 60_000)),
        _Table("shop.parts", 4, 15, 10.0, buckets(1, 2_000), fails=DISK_FULL),
    ]


class _TickingService:
    """A clock that ticks ten times a second: writers write, tables are handed out, rounds read and commit."""

    def __init__(self, tables: list[_Table], seed: int) -> None:
        self.tables, self.random = tables, np.random.default_rng(seed)
        self.rounds = list[RoundReport]()
        self.beats = list[Heartbeat]()
        self.snapshots: dict[str, int] = {}
        self.said: list[tuple[str, ReportedTable]] = []
        self.ended_as = "running"

    def tick(self, step: int) -> None:
        at = step / 10
        now = BEGAN + at
        for table in self.tables:
            for bucket in table.buckets:
                bucket.end += int(self.random.poisson(table.speed / 10))
        if KILLED <= at < STARTED:
            if at == KILLED:
                self._killed(now)
            return
        if at == STARTED:
            self.beats.append(Heartbeat(now, 0.004, coordinator_epoch=4))
        for table in self.tables:
            if table.round is not None:
                self._read(table, now)
        if step % 10 == 0:
            self._heartbeat(now)

    def _heartbeat(self, now: float) -> None:
        holds = [table for table in self.tables if table.round is not None]
        errors = ()
        if abs(now - BEGAN - STARTED - 1) < 0.05:
            lost = ReportedTable("shop.orders", self.tables[2].epoch)
            errors = (TableError(lost.table, 50, "another service holds the table"),)
        for table in self.tables:
            if table.state in ("New", "Scheduled", "Failed") and now >= table.due:
                table.state, table.since = "Pending", now
        waiting = [
            table
            for table in self.tables
            if table.state == "Pending" or (table.state == "Failed" and now >= table.due)
        ]
        assigned = None
        if waiting and len(holds) < 2:
            table = min(waiting, key=lambda table: table.since)
            table.epoch += 1
            table.state, table.since = "Tiering", now
            assigned = ReportedTable(table.name, table.epoch)
            self._plan(table, now)
        ends = {
            name: tuple(reported for kind, reported in self.said if kind == name)
            for name in ("finished", "failed")
        }
        self.said.clear()
        held = tuple(ReportedTable(table.name, table.epoch) for table in holds)
        self.beats.append(
            Heartbeat(
                now,
                0.003,
                tiering=held,
                requests_table=len(holds) < 2,
                coordinator_epoch=4,
                assigned=assigned,
                errors=errors,
                **ends,
            )
        )

    def _plan(self, table: _Table, now: float) -> None:
        splits = []
        for bucket in table.buckets:
            first = bucket.tiered is None
            start = bucket.end - 400 if first and table.keyed else bucket.tiered or 0
            if start < bucket.end:
                snapshot = 7 if first and table.keyed else None
                splits.append(SplitReport(bucket.partition, bucket.bucket, start, bucket.end, snapshot))
        number = len(self.rounds) + 1
        killed = table.reason.startswith("killed")
        notes = ("the lake is at snapshot 9, the cluster knew 8: it was told",) if killed else ()
        report = RoundReport(
            number,
            table.name,
            table.number,
            table.epoch,
            4,
            now,
            "reading",
            splits=tuple(splits),
            notes=notes,
        )
        table.round, table.reason = report, "" if not table.fails else table.reason
        self.rounds.append(report)

    def _read(self, table: _Table, now: float) -> None:
        """Two splits at a time; the round is committed when all are read."""
        created = table.round
        assert created is not None, "it has one"
        splits, busy = list(created.splits), 0
        for at, split in enumerate(splits):
            if split.ended is not None or busy == 2:
                continue
            busy += 1
            start = split.offset if split.offset is not None else split.start
            keys = 7_400 if split.snapshot_id is not None and split.rows == 0 else 0
            offset = min(start + 4_000, split.stop) if not keys else start
            rows = split.rows + keys + offset - start
            ended = now if offset == split.stop else None
            splits[at] = replace(
                split,
                offset=offset,
                rows=rows,
                bytes=rows * 38,
                started=split.started or now - 0.1,
                ended=ended,
            )
        created = replace(created, splits=tuple(splits))
        if table.fails:
            created = replace(created, ended=now, outcome="failed", phase="ended", reason=table.fails)
            table.state, table.reason, table.due = "Failed", table.fails, now + 3
        elif all(split.ended is not None for split in splits):
            created = self._committed(table, created, now)
            table.state, table.tiered_at, table.due = "Tiered", created.started, now + table.freshness
        self.rounds[created.number - 1] = created
        table.round = None if created.ended is not None else created
        if created.ended is not None:
            table.since = now
            kind = "finished" if created.outcome in ("committed", "empty") else "failed"
            self.said.append((kind, ReportedTable(table.name, table.epoch)))
            if table.state == "Tiered":
                table.state = "Scheduled" if table.number == 2 else "Tiered"
        elif table.state != "Tiering":
            table.state = "Tiering"
        for split in self.tables:
            if split.state == "Tiered" and now >= split.due:
                split.state, split.since = "Pending", now

    def _committed(self, table: _Table, round_report: RoundReport, now: float) -> RoundReport:
        if not round_report.splits:
            return replace(round_report, ended=now, phase="ended", outcome="empty")
        for split in round_report.splits:
            bucket = next(
                bucket
                for bucket in table.buckets
                if (bucket.partition, bucket.bucket) == (split.partition, split.bucket)
            )
            bucket.tiered = split.stop
        self.snapshots[table.name] = self.snapshots.get(table.name, 0) + 1
        seconds = {"fetch": 0.21, "decode": 0.08, "write": 0.4, "commit": 0.03}
        return replace(
            round_report,
            ended=now,
            phase="ended",
            outcome="committed",
            snapshot_id=self.snapshots[table.name],
            seconds=seconds,
        )

    def _killed(self, now: float) -> None:
        for table in self.tables:
            if table.round is not None:
                ended = replace(
                    table.round, ended=now, phase="ended", outcome="failed", reason="the service was killed"
                )
                self.rounds[ended.number - 1] = ended
                table.round, table.state, table.since = None, "Pending", now
                table.reason = "killed in a round: the coordinator hands the table out again"

    def report(self, state: str) -> TieringReport:
        """What is known now."""
        collected = []
        for table in self.tables:
            marks = tuple(
                BucketMarks(
                    bucket.partition,
                    bucket.bucket,
                    bucket.end,
                    bucket.tiered,
                    None if bucket.tiered is None else max(bucket.tiered - (900 if table.keyed else 0), 0),
                )
                for bucket in table.buckets
            )
            collected.append(
                TableState(
                    table.name,
                    table.number,
                    table.state,
                    table.since,
                    table.epoch or None,
                    table.freshness,
                    table.tiered_at,
                    sum(mark.lag_rows for mark in marks),
                    table.reason,
                    marks,
                )
            )
        return TieringReport(tuple(collected), tuple(self.rounds), tuple(self.beats), state)


def report(at: float = 55.0, *, seed: int = 7, state: str = "running", copies: int = 1) -> TieringReport:
    """What is known `at` seconds after the start; `copies`: how often there are the four tables."""
    tables = []
    for copy in range(copies):
        for table in _tables():
            name = table.name if copies == 1 else f"{table.name}_{copy:02}"
            tables.append(replace(table, name=name, number=table.number + 4 * copy))
    service = _TickingService(tables, seed)
    for step in range(int(at * 10) + 1):
        service.tick(step)
    return service.report(state)


class ScriptedTiering:
    """A service that tells what is known `at` some seconds; `advance` is time."""

    name = "fluss://127.0.0.1:9123 → lake"

    def __init__(self, at: float = 10.0) -> None:
        self.at = at
        self.running, self.state, self.error = True, "running", None
        self.asked: list[str] = []

    def tables(self) -> tuple[TableState, ...]:
        """The tables."""
        return report(self.at).tables

    def rounds(self) -> tuple[RoundReport, ...]:
        """The rounds."""
        return report(self.at).rounds

    def heartbeats(self) -> tuple[Heartbeat, ...]:
        """The heartbeats."""
        return report(self.at).heartbeats

    def advance(self, seconds: float) -> None:
        """So many seconds later."""
        self.at += seconds

    def pause(self) -> None:
        """No round begins."""
        self.asked.append("pause")
        self.state = "paused"

    def resume(self) -> None:
        """Rounds begin again."""
        self.asked.append("resume")
        self.state = "running"

    def stop(self) -> None:
        """The end."""
        self.asked.append("stop")
        self.running, self.state = False, "stopped"
