"""TableHealth: a table's buckets at a glance: the verdict, buckets over snapshots, the worst of them.

The verdict and what is due come from `inspect.health()`, the grid from `inspect.stays()`. Traits: `snapshot`
and `opened` (linked with timeline and levels), `colour_by`, `chosen` (ids of buckets). `compact` runs
`table.compact` for the buckets chosen, in the background, a commit a partition; `cancel` gives up what is not
committed. `done` holds the reports. Not thread-safe; callers serialise.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import traitlets

import tablestore as ts
from widgets.chart.axes import Asked
from widgets.health.figure import ColourBy, health_figure, plot_width
from widgets.health.grid import Edits
from widgets.health.model import HealthModel, estimate, health_model, text_of
from widgets.history.moments import moments_of
from widgets.kit import format as fmt
from widgets.kit import static
from widgets.kit.jobs import STATIC_PATIENCE, JobRunner, ViewJob, WorkingView
from widgets.kit.source import is_bucket
from widgets.kit.svg import Figure
from widgets.kit.view import module, option_map, require_source, title_of

COLOURS: tuple[ColourBy, ...] = ("runs", "bytes", "files", "due")
MAX_CHOSEN, MEASURED = 5_000, 50
MOST_STATES = 32


class TableHealth(WorkingView):
    """How a table does: a verdict in one sentence, its buckets over its snapshots, the worst of them.

    `table` is any table of `tablestore`. `colour_by` is "runs", "bytes", "files" or "due". Other traits
    (`snapshot`, `opened`, `chosen`, …) go by keyword.

    >>> health = widgets.TableHealth(orders)
    >>> health.verdict
    'healthy: 1 bucket, 2 runs, nothing due'
    """

    chart = Asked(x="bucket", y="runs", kind="bars", how="max")
    _esm = module("health")
    unreadable = ("The table could not be read.", "Check the table: table.check()")
    verbs = ("compact", "cancel", "choose_due")
    opened = traitlets.Unicode("").tag(sync=True)
    colour_by = traitlets.Enum(COLOURS, "runs").tag(sync=True)
    chosen: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)
    progress = traitlets.Unicode("").tag(sync=True)

    def __init__(self, table: ts.Table, **kwargs: object) -> None:
        self._jobs, self._measuring = JobRunner("compaction"), JobRunner("amplification")
        require_source(table, type(self).__name__)
        if not callable(getattr(getattr(table, "inspect", None), "health", None)):
            raise ts.InvalidRequest(f"TableHealth takes a table, not a {type(table).__name__}")
        self._table: Any = table
        self._moments = moments_of(table)
        self._model = HealthModel(title_of(table))
        self._edits: Edits | None = None
        self._commits, self._options = pa.table({}), dict[str, Any]()
        self._states: dict[int | None, Any] = {}
        self._measured: list[tuple[int, int]] | None = None
        self._outcome, self._failure = "", ""
        self.done: tuple[object, ...] = ()
        super().__init__(**kwargs)
        self.refresh()
        self.observe(self._on_snapshot, "snapshot")
        for name in ("colour_by", "opened", "chosen"):
            self.observe(lambda _change: self.redraw(), name)

    @traitlets.validate("chosen")
    def _buckets(self, proposal: Mapping[str, Any]) -> list[str]:
        ids = list(dict.fromkeys(proposal["value"]))[:MAX_CHOSEN]
        for bucket in ids:
            if not is_bucket(bucket):
                raise traitlets.TraitError(f"{bucket[:80]!r} is no bucket; give its id, such as 'day=mon/0'")
        return ids

    @property
    def model(self) -> HealthModel:
        """What is shown as a value."""
        return self._model

    @property
    def verdict(self) -> str:
        """The sentence at the top."""
        return self._model.verdict

    @property
    def code(self) -> str:
        """The Python that gives the verdict and its buckets."""
        at = "" if self.snapshot is None else str(self.snapshot)
        return f"table.inspect.health({at}).buckets"

    # reading

    def _load(self) -> None:
        fresh = self._table if getattr(self._table, "past", False) else self._table.refresh()
        commits, options = self._moments.source.inspect.commits(), dict(option_map(fresh))
        if (options, fresh.schema) != (dict(option_map(self._table)), self._table.schema):
            self._table = fresh
        if same := commits.num_rows > 0 and commits.equals(self._commits) and options == self._options:
            measured = self._model.amplification
        else:  # of the same commits under the same options nothing is measured again
            self._states.clear()
            measured, self._edits = None, Edits.of(self._moments.stays())
        self._measured = None
        self._commits, self._options = commits, options
        if same and "error" not in self.frame:
            self.redraw()
        else:
            self._show(amplification=measured)
        if not self.opened and self._model.worst:
            self.opened = self._model.worst[0].id
        if not same or (measured is None and not self._measuring.busy):
            self._measuring.restart(self._amplification)

    def _show(self, *, amplification: dict[str, Any] | None) -> None:
        """Make the model of the snapshot that is looked at."""
        assert self._edits is not None, "_load has read the edits"
        health = self._state(self.snapshot)
        options = option_map(self._table)
        trigger = 0 if not health.merges else ts.compaction_settings(options).trigger
        model = health_model(
            health,
            self._commits,
            self._edits,
            table=self._model.table,
            trigger=trigger,
            width=plot_width(self.width),
        )
        self._model = replace(model, amplification=amplification)
        self.redraw()

    def _state(self, snapshot: int | None) -> Any:
        """The health at a snapshot; the last ones are kept."""
        health = self._states.pop(snapshot, None) or self._table.inspect.health(snapshot)
        self._states[snapshot] = health
        while len(self._states) > MOST_STATES:
            self._states.pop(next(iter(self._states)))
        return health

    def _amplification(self, job: ViewJob) -> None:
        rows = self._moments.source.inspect.amplification().to_pylist()
        if rows and not self._measuring.replaced(job):
            self._model = replace(self._model, amplification=rows[0])
            self.redraw()

    def _on_snapshot(self, change: Mapping[str, Any]) -> None:
        snapshot = change["new"]
        if snapshot is not None and pc.index(self._commits["snapshot_id"], snapshot).as_py() < 0:
            self.refresh()  # a commit that came since the table was read
            return

        def show() -> None:
            self._show(amplification=self._model.amplification)

        self.guarded(show, what="That snapshot could not be read.", next_step="Choose another one.")

    # choosing and compacting

    def _on_verb(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        if content.get("verb") == "open":
            self._open(content.get("row"), content.get("column"))
        else:
            super()._on_verb(widget, content, buffers)

    def _open(self, row: object, column: object) -> None:
        """A cell of the grid: its snapshot, and the worst of its buckets."""
        grid = self._model.grid
        if not isinstance(row, int) or not isinstance(column, int) or grid is None:
            return
        if not (0 <= column < grid.columns and 0 <= row * self._model.group < len(grid.places)):
            return
        self.opened = self._model.worst_of_row(row, column)
        self.snapshot = int(grid.ends[column])

    def choose_due(self) -> Self:
        """Choose every bucket in which a compaction is due."""
        due = self._state(self.snapshot).buckets
        due = due.filter(due["due"].is_valid())
        pairs = zip(due["partition"].to_pylist(), due["bucket"].to_pylist(), strict=True)
        self.chosen = [f"{partition or ''}/{bucket}" for partition, bucket in pairs][:MAX_CHOSEN]
        return self

    def compact(self) -> Self:
        """Compact the buckets chosen, in the background: one commit a partition."""
        if self._off() or not self.chosen:
            return self
        work: dict[str, list[int]] = defaultdict(list)
        for bucket in self.chosen:
            partition, _, number = bucket.rpartition("/")
            work[partition].append(int(number))
        self._failure, self._outcome = "", ""
        self._jobs.start(lambda job: self._rounds(job, work), before=self._begin, after=self._end)
        return self

    def _begin(self) -> None:
        self.progress = f"compacting {fmt.plural(len(self.chosen), 'bucket')} …"
        self.redraw()

    def _rounds(self, job: ViewJob, work: Mapping[str, list[int]]) -> None:
        for at, (partition, buckets) in enumerate(work.items(), start=1):
            job.check()
            place: dict[str, Any] = {"partition": partition} if partition else {}
            which = f"{at} of {fmt.plural(len(work), 'partition')}" if len(work) > 1 else ""
            shown = partial(self._show_progress, job, which)
            report = self._table.compact(bucket=buckets, progress=shown, **place)
            self.done = (*self.done, report)
            self._outcome = str(report.text).splitlines()[-1]

    def _show_progress(
        self, job: ViewJob, which: str, _step: str, done: float, total: float, _note: str
    ) -> None:
        """What is not committed yet can be given up."""
        if done < total:
            job.check()
            self.progress = " · ".join(part for part in (fmt.percent(done, total), which) if part)

    def _end(self) -> None:
        failure = self._jobs.failure
        self._failure = "" if failure is None else f"{type(failure).__name__}: {failure}"
        self.progress = ""
        if self.done and not self._failure:
            self.chosen = []
        self.refresh_linked()

    def cancel(self) -> Self:
        """Stop at once: what is not committed is given up."""
        self._jobs.stop()
        if self.busy:
            self.progress = "stopping …"
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the work in the background is over, and raise what it raised."""
        self._measuring.wait(timeout)
        return super().wait(timeout)

    def close(self) -> None:
        """Stop at once, and leave the page."""
        self._measuring.stop()
        super().close()

    def _off(self) -> str:
        """Why nothing may be compacted now; empty if it may."""
        return "at work" if self.busy else self._refused()

    def _refused(self) -> str:
        """Why this table is not compacted from here; empty if it may be."""
        if self._model.past or getattr(self._table, "past", False):
            return "viewing the past: read-only"
        return next((a.why for a in self._table.abilities() if a.verb == "compact" and not a.works), "")

    def _estimate(self) -> str:
        """`3 buckets chosen: ≈ 104 MiB, ≈ 2 s`: the files that the engine would pick, at the speed of the
        last compactions."""
        if not self.chosen:
            return ""
        if self._measured is None:
            rows = self._table.inspect.compactions().select(["bytes_read", "millis"]).to_pylist()
            self._measured = [(r["bytes_read"], r["millis"]) for r in rows[-MEASURED:] if r["millis"]]
        busy, size, seconds = estimate(self._state(None).buckets, self.chosen, self._measured)
        words = f"{fmt.plural(len(self.chosen), 'bucket')} chosen"
        if not busy:
            return f"{words}: nothing is due there"
        some = "" if busy == len(self.chosen) else f", {busy:,} with work"
        took = "" if seconds is None else f", ≈ {fmt.duration(max(seconds, 0.1))}"
        return f"{words}{some}: ≈ {fmt.bytes_text(size)}{took}"

    # showing

    def figure(self, *, width: float) -> Figure:
        """The picture without cursor and buttons."""
        return self._drawn(width, cursor=False)

    def _drawn(self, width: float, *, cursor: bool) -> Figure:
        return health_figure(
            self._model,
            width=width,
            colour_by=self.colour_by,
            opened=self.opened,
            chosen=tuple(self.chosen),
            cursor=cursor,
        )

    def picture(self, *, width: float, footer: bool = True) -> Figure:
        """The static figure with its header, the snapshot marked, and by default a footer."""
        self._measuring.wait_at_most(STATIC_PATIENCE)
        note = self.note() if footer else ""
        return static.framed(self._drawn(width, cursor=True), words=self.words(width=width), note=note)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, and the state that the buttons follow."""
        at = "" if self._model.snapshot is None else f"at {fmt.snapshot_id(self._model.snapshot)}"
        return {
            "title": "Health",
            "subtitle": f"{self._model.table} {at}".strip(),
            "says": self._failure or self._outcome,
            "failed": bool(self._failure),
            "estimate": self._estimate(),
            "due": sum(bool(bad.due) for bad in self._model.worst) + self._model.more,
            "busy": bool(self.progress),
            "off": "" if self.progress else self._refused(),
        }

    def text(self) -> str:
        """The view in a terminal."""
        return text_of(self._model)

    def data(self) -> pa.Table:
        """One row a bucket, the worst first."""
        return self._state(self.snapshot).buckets

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The newest state in every colour; compacting needs a kernel."""
        self._measuring.wait_at_most(STATIC_PATIENCE)
        frames: dict[str, Any] = {}
        for width in widths:
            words = self.words(width=width)
            frames[str(width)] = {
                name: words
                | static.frame(
                    health_figure(
                        self._model, width=width, colour_by=name, opened=self.opened, chosen=(), cursor=False
                    )
                )
                for name in COLOURS
            }
        spec = {"kind": "health", "reply": "health", "widths": sorted(widths, reverse=True), "frames": frames}
        state = {"width": widths[0], "frame": {}, "colour_by": self.colour_by, "opened": self.opened}
        return spec | {"state": state | {"snapshot": self._model.snapshot, "chosen": [], "progress": ""}}
