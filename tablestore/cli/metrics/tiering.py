"""Metrics of a tiering service and of a coordinator: rounds, how far the lake is behind, how long logs keep
rows."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from tablestore.cli.metrics.family import HealthAnswer, Labels, MetricFamily, one, quiet, states
from tablestore.flow.source import SECONDS, LogRetention
from tablestore.tiering.coordinator.coordinator import Coordinator
from tablestore.tiering.report import STATES, RoundReport, TieringReport

_QUIET_SECONDS = 300.0
_STATES = ("running", "paused", "stopping", "stopped", "failed")


class TieringMetrics:
    """A service as a source of metrics, by what `report` gives. Rounds are counted once, also those that are
    no longer reported. Safe to share between threads."""

    def __init__(self, report: Callable[[], TieringReport], *, now: Callable[[], float] = time.time) -> None:
        self._report, self._now = report, now
        self._counted = set[int]()  # numbers of rounds, of those that are still reported
        self._rounds, self._rows, self._bytes = Counter[Labels](), Counter[Labels](), Counter[Labels]()
        self._under_way: dict[int, tuple[RoundReport, float]] = {}  # and since when each is as it is
        self._lock = threading.Lock()  # protects these

    def families(self) -> Iterator[MetricFamily]:
        """Rounds and rows, and of each table how old its lake is and what is left of its log."""
        report, name = self._report(), "tablestore_tiering_"
        with self._lock:
            self._count(report)
            rounds, rows, size = self._rounds.copy(), self._rows.copy(), self._bytes.copy()
        yield states(f"{name}state", "State of the service.", report.state, _STATES)
        labels = ("table", "outcome")
        yield MetricFamily(f"{name}rounds_total", "counter", "Rounds that ended.", labels, rounds)
        yield MetricFamily(f"{name}rows_total", "counter", "Rows committed.", ("table",), rows)
        yield MetricFamily(f"{name}bytes_total", "counter", "Bytes committed.", ("table",), size)
        at: dict[Labels, float] = {
            (t.table, state): float(t.state == state) for t in report.tables for state in STATES
        }
        yield MetricFamily(f"{name}table_state", "gauge", "State of a table.", ("table", "state"), at)
        gauges: dict[str, tuple[str, dict[Labels, float]]] = {
            "lag_rows": ("Rows of the log that the lake lacks.", {}),
            "age_seconds": ("Since the lake was last known to have all rows.", {}),
            "freshness_seconds": ("The age that a table allows.", {}),
            "retention_seconds": ("For how long the log keeps rows.", {}),
            "warning": ("Rows may go from the log before the lake has them.", {}),
        }
        for t in report.tables:
            age = None if t.tiered_at is None else max(self._now() - t.tiered_at, 0.0)
            values = (t.lag_rows, age, t.freshness, t.kept, bool(t.warning))
            for (_, samples), value in zip(gauges.values(), values, strict=True):
                if value is not None:
                    samples[(t.table,)] = float(value)
        for field, (text, samples) in gauges.items():
            yield MetricFamily(f"{name}{field}", "gauge", text, ("table",), samples)

    def health(self) -> HealthAnswer:
        """Ill where the service or a table has failed, where the coordinator is away, where nothing comes of
        a round since somebody asked first, or where a log may lose rows that the lake lacks: half of the time
        that it keeps them is over."""
        report, now = self._report(), self._now()
        failed = "the service has failed: " if report.state == "failed" else ""
        ill = [failed + report.reason] if failed or report.reason else []
        if report.heartbeats and report.heartbeats[-1].reason:
            ill.append(f"the coordinator does not answer: {report.heartbeats[-1].reason}")
        for r, seconds in self._under_way_for(report, now):
            ill += [f"{r.table}: {text}" for text in quiet(f"round {r.number}", seconds, _QUIET_SECONDS)]
        for t in report.tables:
            if t.reason:
                ill.append(f"{t.table}: {t.reason}")
            elif t.warning:
                ill.append(f"{t.table}: {t.warning}")
            elif t.kept and t.lag_rows and t.tiered_at:
                kept = LogRetention("its log", SECONDS, now - t.tiered_at, t.kept)
                ill += [f"{t.table}: {text}" for text in kept.ill(f"{t.lag_rows:,} rows")]
        return HealthAnswer(not ill, "\n".join(ill) or report.state)

    def _under_way_for(self, report: TieringReport, now: float) -> list[tuple[RoundReport, float]]:
        """The rounds under way, and for how many seconds each was seen as it is."""
        with self._lock:
            seen = {r.number: (r, now) for r in report.rounds if r.ended is None}
            for number, (r, since) in self._under_way.items():
                if number in seen and seen[number][0] == r:
                    seen[number] = r, since
            self._under_way = seen
        return [(r, now - since) for r, since in seen.values()]

    def _count(self, report: TieringReport) -> None:
        for r in report.rounds:
            if r.ended is None or r.number in self._counted:
                continue
            self._counted.add(r.number)
            self._rounds[r.table, r.outcome] += 1
            if r.is_committed:
                self._rows[r.table,] += r.rows
                self._bytes[r.table,] += r.bytes
        self._counted &= {r.number for r in report.rounds}


class CoordinatorMetrics:
    """A coordinator as a source of metrics."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def families(self) -> Iterator[MetricFamily]:
        """Its epoch, and each table's state, rounds and failures."""
        tables, name = self._coordinator.tables(), "tablestore_coordinator_"
        yield one(f"{name}epoch", "The epoch of the coordinator.", self._coordinator.epoch)
        count = Counter((str(t.state),) for t in tables)
        samples: dict[Labels, float] = {(state,): float(count[state,]) for state in STATES}
        yield MetricFamily(f"{name}tables", "gauge", "Tables by state.", ("state",), samples)
        for field in ("rounds", "failures"):
            by_table: dict[Labels, float] = {(t.table.table_path,): float(getattr(t, field)) for t in tables}
            text = f"{field.capitalize()} of a table."
            yield MetricFamily(f"{name}{field}_total", "counter", text, ("table",), by_table)

    def health(self) -> HealthAnswer:
        """Ill where no round of a table has ended since it failed, or where the warehouse is another one."""
        if not self._coordinator.has_token:
            return HealthAnswer(False, f"{self._coordinator.token_file} is gone: services cannot sign in")
        ill = [t.table.table_path for t in self._coordinator.tables() if str(t.state) == "Failed"]
        return HealthAnswer(not ill, f"failed: {', '.join(ill)}" if ill else "coordinating")
