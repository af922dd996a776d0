"""Findings: what `inspect.doctor()` says of a table, in its own words, with the call that mends each.

The doctor reads manifests only. `preview` asks the table what a finding's calls would do, and `mend` carries
out what was previewed, in the background: nothing else is ever carried out. Traits: `snapshot` (of a linked
timeline; the doctor looks at that one, and in the past nothing is mended). `done` holds what was carried out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import pyarrow as pa

from widgets.chart.axes import Asked
from widgets.findings.figure import findings_figure
from widgets.findings.model import FindingsModel, findings_model
from widgets.kit.jobs import JobRunner, WorkingView
from widgets.kit.svg import Figure
from widgets.kit.view import module, require_source, title_of


class Examined(Protocol):
    """A table whose `inspect` has a doctor, and readers where these are asked for."""

    @property
    def inspect(self) -> Any:
        """Its metadata: `doctor(snapshot)`, `readers(snapshot)`."""
        ...

    def mend(self, what: Any, *, dry_run: bool = True, decided: bool = False) -> Any:
        """Carry out what mends a finding or a diagnosis; with `dry_run` say what that would do."""
        ...

    def refresh(self) -> Self:
        """The table as it is now."""
        ...


@dataclass(frozen=True, slots=True)
class MendingPlan:
    """What is asked, at work, done or failed: `what` is a finding or a diagnosis."""

    what: Any
    heading: str
    code: str = ""
    effect: str = ""
    asks: str = ""
    state: str = "asked"
    note: str = ""

    @property
    def frame(self) -> dict[str, str]:
        """As it crosses to the browser."""
        return {name: getattr(self, name) for name in ("heading", "code", "effect", "asks", "state", "note")}


class Findings(WorkingView):
    """What `table.inspect.doctor()` finds, or with `readers` who would read the table wrongly. *Mend*
    previews the call that mends a finding, then carries it out.

    `table` is any table, `snapshot` an id (None: the newest). Other traits (`width`, …) go by keyword.

    >>> widgets.Findings(orders).data()["kind"].to_pylist()
    []
    """

    chart = Asked(x="severity")
    _esm = module("findings")
    unreadable = ("The doctor could not look.", "Check the table: table.check()")
    verbs = ("mend", "leave")

    def __init__(
        self, table: Examined, *, readers: bool = False, snapshot: int | None = None, **kwargs: object
    ) -> None:
        self._jobs = JobRunner("findings")
        require_source(table, type(self).__name__)
        self._verb = "readers" if readers else "doctor"
        self._table, self._title = table, title_of(table)
        self._model = FindingsModel(self._title, snapshot, "not looked yet", (), 0, ())
        self._diagnosis: Any = None
        self._plan: MendingPlan | None = None
        self.done: tuple[object, ...] = ()
        super().__init__(snapshot=snapshot, **kwargs)
        self.refresh()
        self.observe(lambda _change: self.refresh(), "snapshot")

    @property
    def code(self) -> str:
        """The call that gives the findings."""
        at = "" if self.snapshot is None else f"snapshot={self.snapshot}"
        return f"table.inspect.{self._verb}({at})"

    @property
    def model(self) -> FindingsModel:
        """The findings as values."""
        return self._model

    @property
    def plan(self) -> MendingPlan | None:
        """What is asked about mending, or was done; None if nothing."""
        return self._plan

    def _load(self) -> None:
        self._diagnosis = getattr(self._table.inspect, self._verb)(self.snapshot)
        self._model = findings_model(self._diagnosis, table=self._title)
        if self._plan is not None and self._plan.state == "asked":
            self._plan = None  # its findings may have changed
        self.redraw()

    # mending

    def _on_verb(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        at = content.get("at")
        if content.get("verb") == "preview" and isinstance(at, int):
            self.preview(None if at < 0 else at)
        else:
            super()._on_verb(widget, content, buffers)

    def preview(self, at: int | None = None) -> Self:
        """Ask what would mend the finding at a place, or (None) all that ask for no decision."""
        if self.busy or self._off() or not (at is None or at < len(self._model.rows)):
            return self
        what = self._diagnosis if at is None else self._diagnosis.findings[at]
        if at is None:
            asked = MendingPlan(
                what, "Mend all findings that ask for no decision", "table.mend(dry_run=False)"
            )
        else:
            asked = MendingPlan(what, f"{what.kind} · {what.where}", what.remedy, asks=what.asks)
        return self._start(
            replace(asked, state="busy", note="asking what it would do …"),
            lambda: replace(asked, effect=_effect_of(self._table.mend(what))),
        )

    def mend(self) -> Self:
        """Carry out what was previewed, in the background."""
        plan = self._plan
        if plan is None or plan.state != "asked" or self._off():
            return self

        def carry_out() -> MendingPlan:
            did = self._table.mend(plan.what, dry_run=False, decided=bool(plan.asks))
            self.done = (*self.done, did)
            self._table = self._table.refresh()
            return replace(plan, effect=_effect_of(did), asks="", state="done", note="done")

        return self._start(replace(plan, state="busy", note="working …"), carry_out)

    def leave(self) -> Self:
        """Forget what was previewed."""
        if not self.busy:
            self._plan = None
            self.redraw()
        return self

    def _start(self, asking: MendingPlan, job: Callable[[], MendingPlan]) -> Self:
        ended: list[MendingPlan] = []

        def before() -> None:
            self._plan = asking
            self.redraw()

        def after() -> None:
            failure = self._jobs.failure
            error = "" if failure is None else f"{type(failure).__name__}: {failure}"
            self._plan = ended[0] if ended else replace(asking, state="failed", effect=error, note="not done")
            if self._plan.state == "done":
                self.refresh_linked()
            self.redraw()

        self._jobs.start(lambda _job: ended.append(job()), before=before, after=after)
        return self

    def _off(self) -> str:
        """Why nothing may be mended now; empty if it may."""
        if not callable(getattr(self._table, "mend", None)):
            return "only tables of this engine are mended from here"
        if self.snapshot is None:
            return ""
        ids = [getattr(getattr(peer, "model", None), "ids", None) for peer in self.linked]
        newest = max((int(some[-1]) for some in ids if some is not None and len(some)), default=None)
        return "" if newest == self.snapshot else "viewing the past: read-only"

    # showing

    def figure(self, *, width: float) -> Figure:
        """The findings."""
        return findings_figure(self._model, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and summary; what is asked about mending."""
        at = "" if self._model.snapshot is None else f" at #{self._model.snapshot}"
        return {
            "title": f"{'Readers' if self._model.readers else 'Doctor'}{at}",
            "subtitle": self._model.summary,
            "mendable": sum(row.mends for row in self._model.rows),
            "plan": self._plan.frame if self._plan else None,
            "busy": bool(self._plan and self._plan.state == "busy"),
            "off": self._off(),
        }

    def text(self) -> str:
        """What the doctor said, whole."""
        return self._diagnosis.text if self._diagnosis is not None else self._model.summary

    def data(self) -> pa.Table:
        """One row a finding."""
        return pa.table({}) if self._diagnosis is None else self._diagnosis.to_arrow()

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The findings as they stand; mending needs a kernel."""
        return self.export_spec("findings", widths, self.export_frames(widths)) | {"reply": "plain"}


def _effect_of(mended: Any) -> str:
    """What the calls did, without what the strip shows already."""
    if len(mended.done) != 1 or mended.remaining:
        return str(mended.text)
    now = [] if mended.after is None else [f"the doctor now: {mended.after.summary}"]
    return "\n".join([*mended.done[0][1], *now])
