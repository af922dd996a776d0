"""What a tiering service knows at one moment, as its own reports say it: tables by state, rounds, heartbeats.

Invariants: values are frozen and follow from the report alone; the clock is an argument. Tables stand in the
order of their paths, whatever their state; where there are too many, those that failed, that are being tiered
and that are furthest behind come first. Heartbeats that say the same one after another are one line. Pure.
Called by the figures and by the widget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tablestore import BucketMarks, Heartbeat, RoundReport, SplitReport, TableState, TieringReport
from widgets.kit import format as fmt

STATES = ("New", "Scheduled", "Pending", "Tiering", "Tiered", "Failed")
"""The columns of the picture: Initialized is New after a restart of the coordinator."""
LIVE = ("running", "paused", "stopping")
KILLED = "killed"
"""The state of a service that was ended without its knowing."""
LATE = 2.0
"""A table is late where its lake is behind for so many times its freshness."""
SILENCE = 20.0
"""After so many seconds a service that still speaks would have sent a heartbeat, also while it is busy."""
_BAR = 24
_SIGNS = {"Failed": "✕", "Tiered": "✓", "Tiering": "▶"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """Heartbeats that said the same, `first` to `last`."""

    first: Heartbeat
    last: Heartbeat
    count: int = 1

    @property
    def failed(self) -> bool:
        """Whether there was no answer, or one with errors."""
        return self.last.coordinator_epoch is None or bool(self.last.errors)


@dataclass(frozen=True, slots=True)
class SplitLane:
    """A bucket of the chosen table: how far it is, and the split of the chosen round, if it has one."""

    partition: str | None
    bucket: int
    marks: BucketMarks | None = None
    split: SplitReport | None = None

    @property
    def name(self) -> str:
        """`dt=2026-01-01/0`, `bucket 0` without partitions."""
        return f"bucket {self.bucket}" if self.partition is None else f"{self.partition}/{self.bucket}"

    @property
    def end(self) -> int:
        """Where the log is known to end."""
        stops = [self.split.stop] if self.split is not None else []
        return max([*stops, *([self.marks.end] if self.marks is not None else [])], default=0)

    @property
    def tiered(self) -> int:
        """Up to where the lake has the rows."""
        return (self.marks.tiered or self.marks.start) if self.marks is not None else 0

    @property
    def begin(self) -> int:
        """The first offset that is drawn to scale: nothing before it is of interest."""
        places = [self.split.start] if self.split is not None else []
        marks, split = self.marks, self.split
        if marks is not None and marks.tiered is not None:
            places.append(marks.tiered)
            places += [marks.readable] if marks.readable is not None else []
        elif marks is not None and (split is None or split.snapshot_id is None):
            places.append(marks.start)
        return min(places, default=0)

    @property
    def lag_rows(self) -> int:
        """Rows that the lake does not have."""
        return self.marks.lag_rows if self.marks is not None else 0


@dataclass(frozen=True, slots=True)
class TieringModel:
    """One moment of a service: its report, the table that is chosen and one of its rounds."""

    title: str
    report: TieringReport
    now: float
    table: TableState | None = None
    round: RoundReport | None = None
    lanes: tuple[SplitLane, ...] = ()
    exchanges: tuple[Exchange, ...] = ()

    @property
    def tables(self) -> tuple[TableState, ...]:
        """All tables, by path."""
        return self.report.tables

    @property
    def rounds(self) -> tuple[RoundReport, ...]:
        """All rounds that are known, from old to new."""
        return self.report.rounds

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return self.report.state in LIVE

    @property
    def counts(self) -> Counter[str]:
        """How many tables are in each state of the picture."""
        return Counter(column_of(table) for table in self.tables)

    @property
    def lag_rows(self) -> int:
        """Rows of all tables that the lake does not have."""
        return sum(table.lag_rows or 0 for table in self.tables)

    @property
    def oldest(self) -> TableState | None:
        """The table that is behind whose lake was complete the longest time ago."""
        behind = [table for table in self.tables if table.lag_rows and table.tiered_at is not None]
        return min(behind, key=lambda table: table.tiered_at or 0.0, default=None)

    @property
    def outcomes(self) -> Counter[str]:
        """How many rounds ended in each way; those under way have the empty one."""
        return Counter(tiering_round.outcome for tiering_round in self.rounds)

    @property
    def tiered_rows(self) -> int:
        """Rows of the rounds that were committed."""
        return sum(tiering_round.rows for tiering_round in self.rounds if tiering_round.is_committed)

    @property
    def speed(self) -> float | None:
        """Rows a second of the rounds that were committed, while they ran."""
        done = [
            tiering_round
            for tiering_round in self.rounds
            if tiering_round.is_committed and tiering_round.ended is not None
        ]
        seconds = sum((tiering_round.ended or 0.0) - tiering_round.started for tiering_round in done)
        return sum(tiering_round.rows for tiering_round in done) / seconds if seconds > 0 else None

    @property
    def heartbeat(self) -> Heartbeat | None:
        """The newest one."""
        return self.report.heartbeats[-1] if self.report.heartbeats else None

    @property
    def began(self) -> float:
        """When the oldest thing that is known began."""
        times = [report.started for report in self.rounds[:1]] + [
            report.time for report in self.report.heartbeats[:1]
        ]
        return min(times, default=self.now)

    @property
    def until(self) -> float:
        """The end of the axis of time: now while it runs, else when the last thing happened."""
        if self.live or self.report.state == KILLED:
            return self.now
        times = [report.ended or report.started for report in self.rounds]
        return max([*times, *(report.time for report in self.report.heartbeats[-1:])], default=self.now)

    def age(self, table: TableState) -> float | None:
        """Seconds since the lake was known to have all rows of a table; None where it never had."""
        return None if table.tiered_at is None else max(self.until - table.tiered_at, 0.0)

    def late(self, table: TableState) -> bool:
        """Whether the lake of a table is behind for twice its freshness."""
        age, freshness = self.age(table), table.freshness
        return bool(table.lag_rows) and age is not None and freshness is not None and age > LATE * freshness

    @property
    def silences(self) -> tuple[tuple[float, float], ...]:
        """Spans without a heartbeat: up to the first one of another service, and those that are too long."""
        beats, silences = self.report.heartbeats, list[tuple[float, float]]()
        for before, beat in pairwise(beats):
            begins = beat.time if beat.since is None else beat.since
            if beat.registers or begins - before.time > SILENCE:
                silences.append((before.time, begins))
        if beats and (self.report.state == KILLED or self.until - beats[-1].time > SILENCE):
            silences.append((beats[-1].time, self.until))
        return tuple(silences)


def tiering_model(
    report: TieringReport, *, title: str, now: float, table: str = "", number: int | None = None
) -> TieringModel:
    """The model of a report. `table` is the path of the chosen one, `number` its round: without them, or
    where there are none of these, the ones that `choice` takes."""
    named = next((state for state in report.tables if state.table == table), None)
    chosen = named or _choice(report)
    path = chosen.table if chosen is not None else table
    round_ = round_of(report.rounds, path, number)
    return TieringModel(
        title=title,
        report=report,
        now=now,
        table=chosen,
        round=round_,
        lanes=_lanes(chosen, round_),
        exchanges=_exchanges(report.heartbeats),
    )


def _choice(report: TieringReport) -> TableState | None:
    """The table of the newest round that has rows, else the first one."""
    tables = {state.table: state for state in report.tables}
    for state in reversed(report.rounds):
        if state.splits and state.table in tables:
            return tables[state.table]
    return report.tables[0] if report.tables else None


def round_of(rounds: Sequence[RoundReport], table: str, number: int | None = None) -> RoundReport | None:
    """The round of this number, else the newest round of the table that has splits, else its newest."""
    own = [tiering_round for tiering_round in reversed(rounds) if tiering_round.table == table]
    if number is not None and (
        named := next((tiering_round for tiering_round in own if tiering_round.number == number), None)
    ):
        return named
    return next((tiering_round for tiering_round in own if tiering_round.splits), own[0] if own else None)


def _lanes(table: TableState | None, of: RoundReport | None) -> tuple[SplitLane, ...]:
    """Buckets by partition and number, those of the round and those that the table has."""
    splits = {(item.partition, item.bucket): item for item in (of.splits if of is not None else ())}
    marks = {(item.partition, item.bucket): item for item in (table.marks if table is not None else ())}
    places = sorted({*splits, *marks}, key=lambda place: (place[0] or "", place[1]))
    return tuple(SplitLane(*place, marks.get(place), splits.get(place)) for place in places)


def _exchanges(heartbeats: Sequence[Heartbeat]) -> tuple[Exchange, ...]:
    exchanges = list[Exchange]()
    for beat in heartbeats:
        last = exchanges[-1] if exchanges else None
        if last is not None and (last.last.sent, last.last.received) == (beat.sent, beat.received):
            exchanges[-1] = Exchange(last.first, beat, last.count + beat.count)
        else:
            exchanges.append(Exchange(beat, beat, beat.count))
    return tuple(exchanges)


def column_of(table: TableState) -> str:
    """The column of the picture in which a table stands."""
    return "New" if table.state == "Initialized" else table.state


def shown_tables(model: TieringModel, most: int) -> list[TableState]:
    """At most so many, in their order: the chosen one, then those that failed, that are being tiered, that
    are furthest behind."""
    if len(model.tables) <= most:
        return list(model.tables)

    def urgent(table: TableState) -> tuple[bool, bool, bool, int]:
        return (
            table is not model.table,
            table.state != "Failed",
            table.state != "Tiering",
            -(table.lag_rows or 0),
        )

    kept = {id(table) for table in sorted(model.tables, key=urgent)[:most]}
    return [table for table in model.tables if id(table) in kept]


def shown_lanes(lanes: Sequence[SplitLane], most: int) -> list[SplitLane]:
    """At most so many, in their order: those with a split, then those that are furthest behind."""
    if len(lanes) <= most:
        return list(lanes)
    kept = {id(lane) for lane in sorted(lanes, key=lambda lane: (lane.split is None, -lane.lag_rows))[:most]}
    return [lane for lane in lanes if id(lane) in kept]


def age_text(model: TieringModel, table: TableState) -> str:
    """`3.2 s ago, asks 5.0 s`: when the lake was complete, and the freshness that the table asks for."""
    age = model.age(table)
    since = "never complete" if age is None else f"{fmt.seconds_text(age)} ago"
    return since if table.freshness is None else f"{since}, asks {fmt.seconds_text(table.freshness)}"


def outcome_text(report: RoundReport) -> str:
    """`reading`, `committed as snapshot #12`, `failed: disk full`."""
    if not report.outcome:
        return report.phase
    snapshot = f" as snapshot {fmt.snapshot_id(report.snapshot_id)}" if report.snapshot_id is not None else ""
    words = {
        "empty": "nothing new",
        "registered": "what the lake has was registered",
        "committed": f"committed{snapshot}",
        "incomplete": f"committed{snapshot}, rows are lost",
        "dropped": "dropped, nothing committed",
    }.get(report.outcome, report.outcome)
    return f"{words}: {report.reason}" if report.reason else words


def round_title(report: RoundReport) -> str:
    """`round 12, epoch 3`."""
    return f"round {report.number}, epoch {report.tiering_epoch}"


def splits_text(report: RoundReport) -> str:
    """`3 of 8 splits read, 45,000 rows`."""
    if not report.splits:
        return "no splits"
    done = sum(split.ended is not None for split in report.splits)
    count = fmt.plural(len(report.splits), "split")
    splits = count if done == len(report.splits) else f"{done:,} of {count}"
    return f"{splits} read, {fmt.plural(report.rows, 'row')}"


def share_read(split: SplitReport) -> float:
    """How much of the offsets of a split is read, 0 to 1."""
    if split.ended is not None and not split.reason:
        return 1.0
    whole = split.stop - split.start
    done = (split.offset if split.offset is not None else split.start) - split.start
    return min(max(done / whole, 0.0), 1.0) if whole > 0 else 0.0


def state_text(model: TieringModel) -> str:
    """`running · 12 tables · heartbeat 1.2 s ago`."""
    parts = [model.report.state, fmt.plural(len(model.tables), "table")]
    if model.live and model.heartbeat is not None:
        parts.append(f"heartbeat {fmt.duration(max(model.now - model.heartbeat.time, 0.0))} ago")
    return " · ".join(part for part in parts if part)


def lag_text(table: TableState) -> str:
    """`1,234 rows behind`, `complete`, `–` where nobody knows."""
    if table.lag_rows is None:
        return fmt.ABSENT
    return f"{fmt.plural(table.lag_rows, 'row')} behind" if table.lag_rows else "complete"


def text_form(model: TieringModel, *, most: int = 12) -> str:
    """The state in a terminal: a line a table, the chosen round's splits and marks, the last heartbeats."""
    counts = model.counts
    states = "  ".join(f"{name} {counts[name]:,}" for name in STATES if counts[name])
    lines = [f"{fmt.value(model.title)}  {state_text(model)}", states or "no tables"]
    tables = shown_tables(model, most)
    names = [fmt.value(table.table) or "" for table in tables]
    wide = min(max(map(len, names), default=0), 40)
    for table, name in zip(tables, names, strict=True):
        sign = _SIGNS.get(table.state, "·")
        epoch = fmt.ABSENT if table.tiering_epoch is None else str(table.tiering_epoch)
        line = f"{sign} {name[:40]:<{wide}} {table.state:<11} epoch {epoch:<5} {lag_text(table)}"
        line += f", {age_text(model, table)}"
        why = "; ".join(fmt.value(said) or "" for said in (table.reason, table.warning) if said)
        lines.append(f"{line}: {why}" if why else line)
    if len(model.tables) > len(tables):
        lines.append(f"… {fmt.plural(len(model.tables) - len(tables), 'more table')}")
    lines += _text_of_round(model, most)
    for one_of in model.exchanges[-4:]:
        times = f" ×{one_of.count}" if one_of.count > 1 else ""
        lines.append(
            f"{fmt.clock(one_of.last.time)}{times} → {fmt.value(one_of.last.sent)}"
            f" ← {fmt.value(one_of.last.received)}"
        )
    return "\n".join([*lines, *([f"error: {fmt.value(model.report.reason)}"] if model.report.reason else [])])


def _text_of_round(model: TieringModel, most: int) -> list[str]:
    """The chosen round and a line a bucket."""
    lines, tiering_round = list[str](), model.round
    if model.table is not None:
        words = (
            f"{round_title(tiering_round)}: {outcome_text(tiering_round)}, {splits_text(tiering_round)}"
            if tiering_round
            else "no round yet"
        )
        lines.append(f"{fmt.value(model.table.table)}  {fmt.value(words)}")
        lines += [where] if (where := model.table.where(model.now)) else []
    lanes = shown_lanes(model.lanes, most)
    for lane in lanes:
        full = round(_BAR * share_read(lane.split)) if lane.split is not None else 0
        bar = "█" * full + "░" * (_BAR - full) if lane.split is not None else "·" * _BAR
        marks = lane.marks
        said = f"end {marks.end:,}  tiered {fmt.count(marks.tiered)}" if marks is not None else ""
        said += f"  readable {fmt.count(marks.readable)}" if marks is not None else ""
        lines.append(f"  {fmt.value(lane.name)} {bar} {said}")
    if len(model.lanes) > len(lanes):
        lines.append(f"  … {fmt.plural(len(model.lanes) - len(lanes), 'more bucket')}")
    return lines
