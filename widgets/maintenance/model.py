"""A maintenance service as it is shown: its report as lines, and the text form. Pure."""

from dataclasses import dataclass

from tablestore import MaintenanceReport, TableHealth, WorkDone
from widgets.kit.svg import plain

SHOWN = 12
LIVE = ("running", "paused", "waiting")


@dataclass(frozen=True, slots=True)
class MaintenanceModel:
    """The report of a service, and its title."""

    report: MaintenanceReport
    title: str = "maintenance"

    @property
    def newest(self) -> tuple[WorkDone, ...]:
        """The work that is shown, the newest first."""
        return self.report.done[: -SHOWN - 1 : -1]

    @property
    def worst(self) -> tuple[TableHealth, ...]:
        """The tables that are shown: those with most due buckets first."""
        by_need = sorted(self.report.tables, key=lambda t: (-t.due_buckets, -t.opened_runs, t.table))
        return tuple(by_need[:SHOWN])

    @property
    def bought(self) -> str:
        """`12 compactions: runs 96 → 14`, empty before the first."""
        work = [w for w in self.report.done if w.kind == "compact" and not w.error and w.runs_before]
        if not work:
            return ""
        before, after = sum(w.runs_before for w in work), sum(w.runs_after for w in work)
        noun = "compaction" if len(work) == 1 else "compactions"
        return f"{len(work):,} {noun}: runs {before:,} → {after:,}"

    @property
    def written(self) -> tuple[int, int]:
        """Bytes that compactions wrote, and those that their dry runs predicted."""
        work = [w for w in self.report.done if w.kind == "compact" and not w.error]
        return sum(w.written for w in work), sum(w.predicted_written for w in work)


def text_form(model: MaintenanceModel) -> str:
    """The report in a terminal."""
    lines = [f"{model.title}: {model.report.summary}", model.bought]
    lines += [f"  {work.text}" for work in reversed(model.newest)]
    lines += [f"  {work.text}" for work in model.report.waiting[:SHOWN]]
    lines += [f"  {table}: {error}" for table, error in model.report.troubles]
    return "\n".join(plain(line) for line in lines if line)
