"""The alarms of a lake as lines, and the figures of its tables over time: the engine's own, none of ours.

Pure but for `read`, which asks one table. Times are seconds after 1970. Bounds: `MAX_TABLES` are read,
`SHOWN` lines are drawn. Called by `widget`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from widgets.kit import format as fmt
from widgets.kit.svg import plain

MAX_TABLES, SHOWN = 2_000, 30
SEVERITIES = ("risk", "slow", "waste", "note")
SIGNS = {"risk": ("✕", "err"), "slow": ("▲", "warn"), "waste": ("▲", "warn"), "note": ("○", "ink2")}
FIGURES = (
    ("most_runs", "sorted runs, fullest bucket"),
    ("opened_runs", "runs that a read opens"),
    ("files", "files"),
    ("due_buckets", "buckets to compact"),
    ("write_amplification", "write amplification"),
    ("space_amplification", "space amplification"),
    ("age_seconds", "age of the newest rows"),
    ("log_rows", "rows in the log only"),
)
"""The figures of a table that are drawn, and what they are called."""
SCHEMA = pa.schema(
    {
        "table": pa.string(),
        "severity": pa.string(),
        "kind": pa.string(),
        "where": pa.string(),
        "what": pa.string(),
        "began": pa.timestamp("ms", "UTC"),
        "ended": pa.timestamp("ms", "UTC"),
        "measure": pa.string(),
        "limit": pa.float64(),
        "worst": pa.float64(),
        "remedy": pa.string(),
    }
)
LEVELS = "▁▂▃▄▅▆▇█"
Points = tuple[tuple[float, float | None], ...]


@dataclass(frozen=True, slots=True)
class AlarmLine:
    """One alarm: what it is, its figure over time, when it began and ended, what mends it; `before` are the
    times at which the same one held earlier, the newest first."""

    table: str
    severity: str
    kind: str
    where: str
    what: str
    remedy: str = ""
    mends: bool = False
    measure: str = ""
    points: Points = ()
    limit: float | None = None
    worst: float | None = None
    began: float | None = None
    ended: float | None = None
    earlier: bool = False
    before: tuple[tuple[float, float], ...] = ()

    @property
    def id(self) -> str:
        """Names the alarm in traits."""
        return f"{self.table} {self.kind} {self.where} {self.began}"

    @property
    def order(self) -> tuple[object, ...]:
        """What holds first, then by severity, then the newest."""
        return self.ended is not None, SEVERITIES.index(self.severity), -(self.began or 0), self.id

    @property
    def sign(self) -> tuple[str, str]:
        """A glyph and its colour."""
        return ("✓", "ok") if self.ended is not None else SIGNS[self.severity]

    @property
    def numbers(self) -> str:
        """`worst 10 runs, limit 5`; empty where no figure is known."""
        if self.worst is None:
            return ""
        limit = "" if self.limit is None else f", limit {value_text(self.measure, self.limit)}"
        return f"{measure_text(self.measure)} {value_text(self.measure, self.worst)}{limit}"


@dataclass(frozen=True, slots=True)
class AlarmsModel:
    """What is known of a lake at the time `at`: `alarms` in their order, of `tables` names, and `lines`, in
    which those of one kind and table are one; `figures` of each table by its name. `reading` while more
    tables are read; `note` says what could not be read beside."""

    lake: str
    tables: int = 0
    alarms: tuple[AlarmLine, ...] = ()
    lines: tuple[AlarmLine, ...] = ()
    figures: dict[str, dict[str, Points]] = field(default_factory=dict)
    at: float = 0.0
    read: int = 0
    reading: bool = False
    note: str = ""

    @property
    def holding(self) -> tuple[AlarmLine, ...]:
        """The alarms that hold now."""
        return tuple(line for line in self.lines if line.ended is None)

    @property
    def verdict(self) -> str:
        """`2 alarms in 5 tables: 1 risk, 1 slow; 3 have ended`."""
        if not self.tables:
            return "no tables yet"
        counts = ((s, sum(line.severity == s for line in self.holding)) for s in SEVERITIES)
        parts = ", ".join(f"{count:,} {severity}" for severity, count in counts if count)
        over = sum(line.ended is not None for line in self.alarms)
        number = fmt.plural(len(self.holding), "alarm") if self.holding else "no alarm"
        after = f": {parts}" if parts else ""
        more = f"; {over:,} {'has' if over == 1 else 'have'} ended" if over else ""
        return f"{number} in {fmt.plural(self.tables, 'table')}{after}{more}"

    @property
    def progress(self) -> str:
        """`reading 3 of 40 tables …`, then what was not read."""
        if self.reading:
            return f"reading {self.read + 1:,} of {fmt.plural(self.tables, 'table')} …"
        left = self.tables - self.read
        return " · ".join(
            w for w in (f"{fmt.plural(left, 'table')} not read" if left else "", self.note) if w
        )

    @property
    def span(self) -> tuple[float, float]:
        """The first time that a figure is known, and now."""
        times = [p[0] for f in self.figures.values() for points in f.values() for p in points[:1]]
        times += [p[0] for line in self.lines for p in line.points[:1]]
        return min(times, default=self.at - 1), self.at

    def line(self, alarm: str) -> AlarmLine | None:
        """The line of that id, else the first."""
        return next((some for some in self.lines if some.id == alarm), self.lines[0] if self.lines else None)

    def shown_table(self, alarm: str) -> str:
        """The table whose figures are drawn: that of the alarm, else the first with figures."""
        line = self.line(alarm)
        if line is not None and line.table in self.figures:
            return line.table
        return next(iter(self.figures), "")


def measure_text(measure: str) -> str:
    """`most_runs` in words."""
    return dict(FIGURES).get(measure, measure.replace("_", " "))


def value_text(measure: str, value: float | None) -> str:
    """A value in its unit, as the end of the name of its figure says."""
    if value is None:
        return fmt.ABSENT
    if measure.endswith("bytes"):
        return fmt.bytes_text(int(value))
    if measure.endswith("seconds"):
        return fmt.duration(value)
    if measure == "share":
        return fmt.percent(value, 1.0)
    return fmt.count(int(value)) if float(value).is_integer() and "ampl" not in measure else f"{value:.2f}"


def lines_of(alarms: Iterable[Any], *, table: str = "") -> list[AlarmLine]:
    """The alarms of the engine as lines; `table` is the name that is shown, empty: the alarm's own."""
    return [
        AlarmLine(
            *(table or a.table, a.finding.severity, a.finding.kind, a.finding.where, a.finding.what),
            *(a.finding.remedy, a.finding.mends, a.measure),
            points=tuple((t / 1000, v) for t, v in a.points),
            limit=a.limit,
            worst=a.worst,
            began=None if a.began is None else a.began / 1000,
            ended=None if a.ended is None else a.ended / 1000,
            earlier=a.earlier,
        )
        for a in alarms
    ]


def read(table: Any, name: str, limits: dict[str, Any]) -> tuple[list[AlarmLine], dict[str, Points]]:
    """The alarms and figures of a table."""
    history = table.inspect.alarms(**limits)
    moments = history.moments
    times = [at.timestamp() for at in moments["at"].to_pylist()]
    figures = {
        figure: tuple(zip(times, moments[figure].to_pylist(), strict=True))
        for figure, _ in FIGURES
        if moments[figure].null_count < moments.num_rows
    }
    return lines_of(history.alarms, table=name), figures


def lined(alarms: Sequence[AlarmLine]) -> tuple[AlarmLine, ...]:
    """The alarms in their order, those about one figure of one table as one line, the newest of them."""
    lines = dict[tuple[object, ...], AlarmLine]()
    for each in sorted(alarms, key=lambda line: line.order):
        key = (each.table, each.kind, each.measure) if each.began and each.measure else (each.id,)
        first = lines.setdefault(key, each)
        if first is not each and each.began is not None and each.ended is not None:
            lines[key] = replace(first, before=(*first.before, (each.began, each.ended)))
    return tuple(lines.values())


def unread(name: str, error: Exception) -> AlarmLine:
    """A table that could not be read, in the words of the error."""
    words = f"{type(error).__name__}: {error}"
    return AlarmLine(name, "risk", "cannot be read", "table", words, "table.check()")


def table_of(model: AlarmsModel) -> pa.Table:
    """A row an alarm, in their order."""
    columns = [[getattr(line, name) for line in model.alarms] for name in SCHEMA.names]
    for name in ("began", "ended"):
        at = SCHEMA.names.index(name)
        columns[at] = [None if value is None else int(1000 * value) for value in columns[at]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def spark(points: Sequence[tuple[float, float | None]]) -> str:
    """Values as blocks of text, from 0 to the largest."""
    most = max((v for _, v in points if v is not None), default=0) or 1
    return "".join(
        " " if v is None else LEVELS[min(int(len(LEVELS) * v / most), len(LEVELS) - 1)] for _, v in points
    )


def when(line: AlarmLine, stamp: Any) -> str:
    """`since 12:47:08`, `12:47:08 to 12:50:00`, in the words of `stamp`."""
    if line.began is None:
        return "holds now" if line.ended is None else "ended"
    before = "or before" if line.earlier else ""
    began = f"{stamp(line.began)} {before}".strip()
    held = f"since {began}" if line.ended is None else f"{began} to {stamp(line.ended)}"
    return held + (f", {fmt.plural(len(line.before), 'time')} before" if line.before else "")


def text_of(model: AlarmsModel, stamp: Any) -> str:
    """The alarms in a terminal."""
    lines = [f"{plain(model.lake)}: {model.verdict}"]
    for line in model.lines[:SHOWN]:
        where = "" if line.where == "table" else f" · {line.where}"
        lines.append(plain(f"{line.sign[0]} {line.table} · {line.severity} · {line.kind}{where}")[:300])
        lines.append(plain(f"    {line.what}")[:300])
        names = [when(line, stamp), line.numbers, spark(line.points[-60:])]
        lines.append(plain("    " + "; ".join(words for words in names if words))[:300])
        verb = "mend" if line.mends else "look"
        lines += [plain(f"    {verb}: {line.remedy}")[:300]] if line.ended is None and line.remedy else []
    more = len(model.lines) - SHOWN
    lines += [f"  … and {fmt.plural(more, 'more alarm')}"] if more > 0 else []
    lines += [plain(model.progress)] if model.progress else []
    return "\n".join(lines)
