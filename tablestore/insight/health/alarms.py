"""The alarms of a table over its history: the doctor's findings at moments, and figures beyond a limit.

A moment is a snapshot that is left, judged by the options of today: its health, and the doctor's rules about
the state of files. Rules about what is now (logs, tags, consumers, kept snapshots) are asked once, and
nothing says when such a finding began. Commits that were refused leave nothing on disk.

Cost: the manifests of so many snapshots, and the deltas of all for amplification. A log is asked for its
offsets at each moment; one that does not answer gives no figure.

Times are milliseconds after 1970. The names of figures end in their unit: `_bytes`, `_seconds`, `_rows`,
`_amplification`; others are counts, `share` is a part of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError
from tablestore.core.options.values import duration_ms
from tablestore.core.quantities import duration, many
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.snapshot import APPEND, OVERWRITE, Snapshot
from tablestore.insight.doctor import RULES, Rule, examine
from tablestore.insight.doctor.facts import Facts, Limits
from tablestore.insight.doctor.finding import SEVERITIES, Evidence, Finding, MendingCall, Severity, look
from tablestore.insight.health.measure import health_of
from tablestore.log.log import Log
from tablestore.meta.store import Store
from tablestore.read.table_log import log_of, offsets_at

MOMENTS = result_schema(
    "snapshot_id int64, at ms_utc, files int64, bytes int64, rows int64, buckets int64, due_buckets int64, "
    "most_runs int64, opened_runs double, write_amplification double, space_amplification double, "
    "age_seconds double, log_rows int64"
)
ALARMS = result_schema(
    "table string, kind string, severity string, where string, what string, began ms_utc, ended ms_utc, "
    "measure string, limit double, worst double, remedy string, mends bool"
)


@dataclass(frozen=True, slots=True)
class Alarm:
    """A finding, and for how long it holds.

    `finding` is the newest one while it holds, else the one at its worst. `measure` names the figure it is
    about, `points` are (time, value) of that, also before and after it, and `limit` is the value from which
    on it holds; None where more than one number decides. `ended` is None while it holds. `began` is None
    where nothing says when; with `earlier` it held at the first moment that is known.
    """

    table: str
    finding: Finding
    measure: str
    points: tuple[tuple[int, float | None], ...] = ()
    limit: float | None = None
    began: int | None = None
    ended: int | None = None
    earlier: bool = False

    @property
    def holds(self) -> bool:
        """Whether it holds now."""
        return self.ended is None

    @property
    def worst(self) -> float | None:
        """The largest value while it held."""
        first, end = self.began or 0, self.ended
        held = [v for t, v in self.points if v is not None and t >= first and (end is None or t < end)]
        return max(held, default=None)

    @property
    def order(self) -> tuple[bool, int, int, str, str]:
        """What holds first, then by severity, then the newest."""
        rank = SEVERITIES.index(self.finding.severity)
        return not self.holds, rank, -(self.began or 0), self.table, self.finding.kind

    def __repr__(self) -> str:
        return f"Alarm({self.finding.text})"


@dataclass(frozen=True, slots=True)
class AlarmHistory:
    """The figures of a table at moments of its history, and the alarms of that time.

    `moments` has a row (`MOMENTS`) for each snapshot that was looked at, oldest first, and one for now, `at`;
    `snapshots` is how many there are. `alarms`: those that hold, the worst first, then those that are over.
    """

    table: str
    at: int
    snapshots: int
    moments: pa.Table
    alarms: tuple[Alarm, ...] = ()

    @property
    def holding(self) -> tuple[Alarm, ...]:
        """The alarms that hold now."""
        return tuple(a for a in self.alarms if a.holds)

    @property
    def summary(self) -> str:
        """`1 alarm, 2 over; 13 of 13 snapshots looked at`."""
        over = len(self.alarms) - len(self.holding)
        counts = f"{many(len(self.holding), 'alarm')}{f', {over:,} over' if over else ''}"
        looked = max(self.moments.num_rows - 1, 0)
        return f"{counts}; {looked:,} of {many(self.snapshots, 'snapshot')} looked at"

    def to_arrow(self) -> pa.Table:
        """A row for each alarm (`ALARMS`)."""
        return alarm_rows(self.alarms)

    def __repr__(self) -> str:
        return "\n".join([f"{self.table}: {self.summary}", *(a.finding.text for a in self.holding)])


def alarm_rows(alarms: Sequence[Alarm]) -> pa.Table:
    """A row for each alarm (`ALARMS`)."""
    return table_of(
        ALARMS,
        (
            (
                *(a.table, a.finding.kind, a.finding.severity, a.finding.where, a.finding.what),
                *(a.began, a.ended, a.measure, a.limit, a.worst, a.finding.remedy, a.finding.mends),
            )
            for a in alarms
        ),
    )


HISTORIC = tuple(
    rule
    for rule in RULES
    if rule[0]
    in (
        *("sorted runs", "small files", "key overlap", "bucket size", "bucket skew", "partition skew"),
        *("tombstones", "deletion vectors", "statistics", "dead letters", "manifests", "commit races"),
    )
)
"""The rules that say of an old snapshot what they would have said then."""
Figures = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class AlarmLimits:
    """Values from which on a figure is an alarm, beside the doctor's own limits; None: none. Of space
    amplification it is the option that starts a compaction."""

    freshness_ms: int | None = None
    log_rows: int | None = None
    write_amplification: float | None = None

    @classmethod
    def of(cls, freshness: object, log_rows: object, write_amplification: object) -> AlarmLimits:
        """The limits as they are given, a freshness as "10 min". Raises InvalidRequest."""
        for name, value in (("log_rows", log_rows), ("write_amplification", write_amplification)):
            if value is not None and not (_number(value) and value >= 0):  # type: ignore[operator]  # a number
                raise InvalidRequest(f"{name} {value!r} must be a number, from 0 on")
        try:
            millis = None if freshness is None else duration_ms(str(freshness))
        except ValueError:
            raise InvalidRequest(f"freshness {freshness!r} must be a duration such as '10 min'") from None
        return cls(millis, log_rows, write_amplification)  # type: ignore[arg-type]  # numbers


@dataclass(slots=True)
class _Moment:
    """A snapshot that was looked at, or now: figures by name, findings by what tells alarms apart."""

    snapshot: Snapshot
    at: int
    figures: Figures
    findings: dict[tuple[str, str], Finding]


def alarm_history(
    store: Store,
    snapshots: Sequence[Snapshot],
    amplification: Callable[[], pa.Table],
    limits: AlarmLimits,
    *,
    moments: int,
) -> AlarmHistory:
    """The alarms over these snapshots, oldest first, `moments` of which are looked at; `amplification` gives
    the view by snapshot. Raises SnapshotExpired where the newest expires meanwhile."""
    name, now = store.paths.root, store.env.now_ms()
    if not snapshots:
        return AlarmHistory(name, now, 0, MOMENTS.empty_table())
    looked = list(_looked(store, snapshots, moments))
    last = looked[-1]
    looked.append(_Moment(last.snapshot, now, dict(last.figures), dict(last.findings)))
    last.findings = {k: f for k, f in last.findings.items() if not k[1]}
    _add_ages(looked, snapshots)
    _add_log(looked, store)
    _add_amplification(looked, amplification())
    for moment in looked:
        moment.findings |= {(f.kind, ""): f for f in _beyond(moment.figures, limits, store)}
    keys = dict.fromkeys(key for moment in looked for key in moment.findings)
    alarms = [alarm for key in keys for alarm in _alarms(name, key, looked)]
    ordered = tuple(sorted(alarms, key=lambda alarm: alarm.order))
    return AlarmHistory(name, now, len(snapshots), _table(looked), ordered)


def _looked(store: Store, snapshots: Sequence[Snapshot], moments: int) -> Iterator[_Moment]:
    """The moments, evenly over the history, with its oldest and its newest snapshot."""
    places = np.unique(np.linspace(0, len(snapshots) - 1, min(moments, len(snapshots))).round().astype(int))
    for place in places.tolist():
        newest = place == len(snapshots) - 1
        try:
            yield _moment(Facts(store, snapshots[place], Limits()), RULES if newest else HISTORIC)
        except NotFound:  # expired meanwhile
            if newest:
                raise


def _moment(facts: Facts, rules: Iterable[tuple[str, Rule]]) -> _Moment:
    """A snapshot's health and findings. What a rule says only of now is told apart by where it is, too."""
    historic, findings = dict(HISTORIC), dict[tuple[str, str], Finding]()
    for rule, outcome in examine(facts, rules).items():
        for finding in outcome.findings:
            if finding.severity != "note":
                findings.setdefault((finding.kind, "" if rule in historic else f"@{finding.where}"), finding)
    health = health_of(facts)
    figures: Figures = {
        **{name: getattr(health, name) for name in ("files", "bytes", "rows", "most_runs")},
        "buckets": health.buckets.num_rows,
        "due_buckets": health.due,
        "opened_runs": health.opened,
    }
    return _Moment(facts.snapshot, facts.snapshot.time_millis, figures, findings)


def _add_ages(looked: Sequence[_Moment], snapshots: Sequence[Snapshot]) -> None:
    """How old the newest rows had become before others came, at most since the moment before."""
    at = 0
    before: int | None = None  # when rows came last
    for moment in looked[:-1]:
        longest: float | None = None
        while at < len(snapshots) and snapshots[at].id <= moment.snapshot.id:
            snapshot, at = snapshots[at], at + 1
            if before is not None:
                longest = max(longest or 0.0, (snapshot.time_millis - before) / 1000)
            if snapshot.commit_kind in (APPEND, OVERWRITE):
                before = snapshot.time_millis
        moment.figures["age_seconds"] = longest
    now = looked[-1]
    now.figures["age_seconds"] = None if before is None else max(now.at - before, 0) / 1000


def _add_log(looked: Sequence[_Moment], store: Store) -> None:
    """Rows of the log that no file had, as far back as the log has them."""
    log: Log | None = None
    try:
        log = log_of(store)
        if log is None:
            return
        start, end = log.bounds().start, log.bounds().end
        for moment in looked:
            in_files = offsets_at(store, moment.snapshot)
            then = end if moment is looked[-1] else log.at(moment.at)
            if all(in_files.get(bucket, 0) >= first for bucket, first in start.items()):
                waiting = (max(offset - in_files.get(bucket, 0), 0) for bucket, offset in then.items())
                moment.figures["log_rows"] = sum(waiting)
    except (TablestoreError, OSError):  # the doctor's rules of logs say what is wrong
        return
    finally:
        if log is not None:
            log.close()


def _add_amplification(looked: Sequence[_Moment], view: pa.Table) -> None:
    names = ("write_amplification", "space_amplification", "space_min")
    columns = (view[name].to_pylist() for name in ("snapshot_id", *names))
    of_snapshot = {row[0]: dict(zip(names, row[1:], strict=True)) for row in zip(*columns, strict=True)}
    for moment in looked:
        moment.figures |= of_snapshot.get(moment.snapshot.id, {})


def _beyond(figures: Figures, limits: AlarmLimits, store: Store) -> Iterator[Finding]:
    """What the doctor has no rule for: figures beyond their limits."""
    age, rows = figures.get("age_seconds"), figures.get("log_rows")
    write, least = figures.get("write_amplification"), figures.get("space_min")
    if limits.freshness_ms is not None and age is not None and 1000 * age > limits.freshness_ms:
        what = f"no new rows for {duration(int(1000 * age))}, {duration(limits.freshness_ms)} are allowed"
        yield _limited("freshness", "risk", what, age, limits.freshness_ms / 1000, "table.inspect.commits()")
    if limits.log_rows is not None and rows is not None and rows > limits.log_rows:
        what = f"{many(int(rows), 'row')} of the log in no file, {limits.log_rows:,} are allowed"
        yield _limited("log lag", "risk", what, rows, limits.log_rows, "table.log.segments()")
    if limits.write_amplification is not None and write is not None and write > limits.write_amplification:
        what = f"each byte was written {write:.2f} times, {limits.write_amplification:g} are allowed"
        trigger = store.options.compaction_trigger + 3
        call = f"table.what_if({{'num-sorted-run.compaction-trigger': {trigger}}})"
        yield _limited("write amplification", "slow", what, write, limits.write_amplification, call)
    allowed = 1 + store.options.max_size_amplification / 100
    if store.schema.primary_keys and least is not None and least > allowed:
        what = f"at least {least:.2f} times the bytes of a compacted copy, {allowed:g} start a compaction"
        space = _limited("space amplification", "waste", what, least, allowed, "")
        yield replace(space, calls=(MendingCall("compact", keywords={"full": True}),), mends=True)


def _limited(kind: str, severity: Severity, what: str, value: float, limit: float, call: str) -> Finding:
    evidence: Evidence = {"value": value, "limit": limit}
    return Finding(kind, severity, "table", what, (look(call),), evidence, mends=False)


_MEASURES = {
    "sorted runs": "most_runs",
    "freshness": "age_seconds",
    "log lag": "log_rows",
    "write amplification": "write_amplification",
    "space amplification": "space_amplification",
    "dead letters": "rows",
}
"""The figures that findings are about; of others it is the first number of their evidence."""


def _alarms(table: str, key: tuple[str, str], looked: Sequence[_Moment]) -> Iterator[Alarm]:
    """The alarms of one finding: one for each time during which it held."""
    some = [moment.findings.get(key) for moment in looked]
    kind, only_now = key[0], bool(key[1])
    newest = next(f for f in reversed(some) if f is not None)
    measure = _MEASURES.get(kind) or next((n for n, v in newest.evidence.items() if _number(v)), "")
    figure = _MEASURES.get(kind)
    values = [
        moment.figures.get(figure) if figure else _value(finding, measure)
        for moment, finding in zip(looked, some, strict=True)
    ]
    points = tuple(zip((m.at for m in looked), values, strict=True))
    limit = next((newest.evidence[n] for n in ("limit", "trigger") if n in newest.evidence), None)
    for holds, group in groupby(range(len(looked)), key=lambda at: some[at] is not None):
        rows = list(group)
        if not holds:
            continue
        last = rows[-1] + 1
        worst = max(rows, key=lambda at: values[at] or 0.0)
        finding = some[worst] if last < len(looked) else some[-1]
        assert finding is not None, "it holds there"
        yield Alarm(
            *(table, finding, measure, () if only_now else points),
            limit=float(limit) if _number(limit) else None,  # type: ignore[arg-type]  # a number
            began=None if only_now else looked[rows[0]].at,
            ended=looked[last].at if last < len(looked) else None,
            earlier=not only_now and rows[0] == 0 and looked[0].snapshot.id > 1,
        )


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(finding: Finding | None, measure: str) -> float | None:
    value = None if finding is None else finding.evidence.get(measure)
    return float(value) if _number(value) else None  # type: ignore[arg-type]  # a number


def _table(looked: Sequence[_Moment]) -> pa.Table:
    """A row for each moment."""
    rows: list[Mapping[str, object]] = [
        {"snapshot_id": m.snapshot.id, "at": m.at, **m.figures} for m in looked
    ]
    return pa.Table.from_pylist(rows, MOMENTS)
