"""CompactionControls: what the engine would compact next and why; step, run until quiet, auto, pause.

The table plans (`compact(dry_run=True)`) and compacts; the panel shows its words. Changed settings are a
preview: plans and steps are made under `table.with_options(…)`, and only `store` alters the table; a
simulation takes them at once. After each compaction all linked views read again. Traits: `index` (the bucket
in focus), `full`, `asked` (changed options), `auto` and `every_ms`, `opened` and `plan` (linked to levels),
`snapshot` (of a linked timeline; in the past the buttons are off). `done` holds what was carried out.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, Protocol, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.controls import settings
from widgets.controls.figure import controls_figure, past_figure
from widgets.controls.model import (
    BucketPick,
    ControlsModel,
    Picks,
    RunSummary,
    focus_on,
    picks_of,
    picks_of_health,
    runs_of,
    text_form,
)
from widgets.history.moments import CommitStory, moments_of
from widgets.kit import format as fmt
from widgets.kit import static
from widgets.kit.jobs import JobRunner, ViewJob, Work, WorkingView
from widgets.kit.svg import Figure
from widgets.kit.view import Source, module, option_map, require_source, title_of

MAX_ROUNDS = 100
MAX_DONE = 100  # compactions in `done`
PANEL = 324  # width of one column
LEAST_MS = 50
MOST_PAST = 60_000  # rows of text of past compactions in a page
QUIET = "Quiet: no rule fires in any bucket."
CONFLICT = "Another writer was faster: Dry run reads the table again, then Step."
RETRY = "The table is as it was: Dry run plans again, then retry."
NO_BUCKETS = (None, -1, -2)  # all of them; of a table without; not assigned yet


class Compactable(Source, Protocol):
    """A table, or a simulator, that can plan and carry out compactions."""

    def compact(self, **request: object) -> object:
        """With `dry_run=True` an object with `picks`; else does the work and returns a report with `text`."""
        ...


class CompactionControls(WorkingView):
    """The next compaction with the engine's own reasons; buttons to carry it out, one by one or until quiet.

    `source` is a table or a `Simulator` of `tablestore.insight.simulator`. `partition` ("day=mon") and
    `bucket` limit it to a partition or a bucket. `title` stands above the picture. Other traits (`full`,
    `asked`, `every_ms`, …) go by keyword.

    >>> widgets.CompactionControls(orders).run_until_quiet().wait().model.waiting
    0
    """

    _esm = module("controls")
    unreadable = ("The plan could not be made.", "Check the table, then Dry run.")
    verbs = ("step", "run_until_quiet", "flush", "pause", "store", "reset", "go_to_now")
    is_panel = True
    index = traitlets.Int(0).tag(sync=True)
    full = traitlets.Bool(False).tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    auto = traitlets.Bool(False).tag(sync=True)
    every_ms = traitlets.Int(500).tag(sync=True)
    progress = traitlets.Unicode("").tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)
    plan = traitlets.Dict().tag(sync=False)

    def __init__(
        self,
        source: Compactable,
        partition: str | None = None,
        bucket: int | None = None,
        *,
        title: str = "",
        **kwargs: object,
    ) -> None:
        self._jobs = JobRunner("compaction")  # first: `close` needs it, also after a refusal
        require_source(source, type(self).__name__)
        self._source = source
        self._table: Any = source  # a table or a simulator: what only one of them has is looked for
        self._partition, self._bucket = partition, bucket
        self._model = ControlsModel(title or title_of(source))
        self._runs: dict[int, tuple[RunSummary, ...]] = {}  # by position of a pick of this plan
        self._refusal, self._settling = "", False
        self._moments = moments_of(source)
        self.done: tuple[object, ...] = ()
        kwargs.setdefault("width", PANEL)
        super().__init__(**kwargs)
        self.refresh()
        self.observe(self._on_focus, "index")
        self.observe(self._on_opened, "opened")
        self.observe(self._on_asked, "asked")
        self.observe(self._on_auto, "auto")
        self.observe(lambda _change: self.refresh(), "full")
        self.observe(lambda _change: self._show(), "snapshot")

    @property
    def model(self) -> ControlsModel:
        """The panel as a value."""
        return self._model

    @property
    def simulated(self) -> bool:
        """Whether the source is a simulator: it flushes by hand and takes other options at once."""
        return hasattr(self._table, "flush") and hasattr(self._table, "set_options")

    @property
    def code(self) -> str:
        """The call that gives this plan."""
        name = "simulator" if self.simulated else "table"
        under = f".with_options({self.asked!r})" if self.asked else ""
        asked = {"dry_run": True} | ({"full": True} if self.full else {}) | self._scope()
        return f"{name}{under}.compact({', '.join(f'{k}={v!r}' for k, v in asked.items())})"

    # planning

    def _load(self) -> None:
        previous = self._model.pick
        self._model = replace(self._model, settings=self._settings(), refused="")
        try:
            picks = self._picks()
            focus = 0 if picks else -1
            if previous and picks and not self._quiet(picks, previous):
                focus = focus_on(picks, previous.partition, previous.bucket)
            _ = picks[focus : focus + 1]  # plans it, or says why not
        except ts.Unsupported as refused:
            self._model = replace(self._model, refused=str(refused), picks=Picks(), focus=-1)
            self._show()
            return
        self._runs = {}
        self._model = replace(self._model, picks=picks, focus=focus)
        self._focus(focus)

    def _picks(self) -> Picks:
        """The picks of the scope: of a whole table its health says which buckets are due, and each is planned
        when it is looked at; otherwise a dry run plans all."""
        planner, scope = self._planner(), self._scope()
        measure = getattr(getattr(planner, "inspect", None), "health", None)
        if measure is not None and not (self.full or scope):
            health = measure()
            if health.merges and health.complete and health.buckets.num_rows and not health.waiting:
                return picks_of_health(health.buckets, planner)
        return picks_of(planner.compact(dry_run=True, full=self.full, **scope))

    def _planner(self) -> Any:
        """The table under the settings asked for."""
        if not callable(getattr(self._table, "compact", None)):
            kind = type(self._table).__name__
            raise ts.Unsupported(f"compaction of a {kind}", "give a table, or a Simulator for a simulation")
        return self._table.with_options(dict(self.asked)) if self.asked else self._table

    def _settings(self) -> ts.CompactionSettings | None:
        """The settings in force; None where there are no levels."""
        if getattr(self._table, "primary_key", None) == ():
            return None
        return ts.compaction_settings({**option_map(self._table), **self.asked})

    @staticmethod
    def _quiet(picks: Picks, pick: BucketPick) -> bool:
        """Whether the bucket in focus has nothing left to do while another one has."""
        at = focus_on(picks, pick.partition, pick.bucket)
        return at < 0 or at >= picks.waiting

    def _scope(self, pick: BucketPick | None = None) -> dict[str, object]:
        """The keyword arguments that name the whole scope, or one pick's bucket."""
        partition = pick.partition if pick else self._partition
        bucket = pick.bucket if pick else self._bucket
        scope: dict[str, object] = {"partition": partition} if partition else {}
        return scope | ({} if bucket in NO_BUCKETS else {"bucket": bucket})

    def _focus(self, focus: int) -> None:
        pick = self._model.picks[focus] if 0 <= focus < len(self._model.picks) else None
        self._model = replace(self._model, focus=focus, runs=self._runs_of(focus, pick))
        self.index = max(focus, 0)
        self._show()

    def _runs_of(self, at: int, pick: BucketPick | None) -> tuple[RunSummary, ...]:
        """The sorted runs of a bucket, read when it is looked at."""
        if pick is None:
            return ()
        if at not in self._runs:
            place: dict[str, Any] = {"bucket": pick.bucket} if pick.bucket >= 0 else {}
            files = self._table.inspect.levels(partition=pick.partition, **place)
            self._runs[at] = runs_of(files, pick)
        return self._runs[at]

    def _turn_to(self, focus: int) -> None:
        """Look at another bucket of the plan."""
        what, step = "The bucket could not be read.", "Check the table, then Dry run."
        self.guarded(lambda: self._focus(focus), what=what, next_step=step)

    def _on_focus(self, change: Mapping[str, Any]) -> None:
        wanted = min(max(int(change["new"]), 0), len(self._model.picks) - 1)
        if wanted != self._model.focus and wanted >= 0:
            self._turn_to(wanted)

    def _on_opened(self, change: Mapping[str, Any]) -> None:
        partition, _, number = str(change["new"]).rpartition("/")
        at = self._model.picks.find(partition, int(number)) if number.lstrip("-").isdecimal() else None
        if at is not None and at != self._model.focus:
            self._turn_to(at)

    def _show(self) -> None:
        pick = self._model.pick
        if pick is not None:
            self.opened = pick.id
        shown = pick is not None and pick.fires and not self._disabled()
        self.plan = (
            {"inputs": sorted(pick.names), "output_level": pick.output_level, "bucket": pick.id}
            if shown and pick
            else {}
        )
        self.redraw()

    def _disabled(self) -> str:
        """Why nothing may be compacted now; empty if it may."""
        if self._model.refused:
            return "cannot be compacted from here"
        return "viewing the past: read-only" if self._in_the_past() else ""

    def _in_the_past(self) -> bool:
        newest = self.newest_known()
        return self.snapshot is not None and newest is not None and self.snapshot < newest

    def stories(self) -> tuple[CommitStory, ...]:
        """In the past: what the commit after this moment then did, and what this one had done, and why."""
        if not self._in_the_past() or self.snapshot is None:
            return ()
        then = self._story(self.snapshot + 1)
        own = self._story(self.snapshot)
        return () if then is None else (then,) if own is None else (then, own)

    def _story(self, snapshot: int) -> CommitStory | None:
        try:
            return self._moments.story(snapshot)
        except ts.TablestoreError as error:  # what cannot be read any more is said in its place
            return CommitStory(snapshot, "", f"#{snapshot}: {error}")

    # settings

    def _on_asked(self, change: Mapping[str, Any]) -> None:
        """Plan under other settings; a simulation takes them, a table keeps its own."""
        if self._settling:
            return
        self._refusal = ""
        try:
            wanted = self._taken_up(change["new"])
        except ts.TablestoreError as refused:
            wanted, self._refusal = {}, str(refused)
        self._settling = True
        try:
            self.asked = wanted
        finally:
            self._settling = False
        self.refresh()

    def _taken_up(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Those of the settings asked for that stay a preview. Raises what the table raises for bad ones."""
        wanted = settings.changed(asked, option_map(self._table))
        if self.simulated and wanted:
            self._table.set_options(wanted)
            return {}
        if wanted:
            self._table.with_options(wanted).compact(dry_run=True, **self._scope())
        return wanted

    def store(self) -> Self:
        """Keep the settings asked for as table options: `table.alter(ts.set_options(…))`."""
        if self.asked and not self.simulated:
            self._table = self._source = self._table.alter(ts.set_options(dict(self.asked)))
            self._model = self._model.did(
                (f"stored: {', '.join(f'{k} = {v}' for k, v in self.asked.items())}",)
            )
            self.asked = {}
            self.refresh_linked()
        return self

    def reset(self) -> Self:
        """Back to the table's own settings."""
        self.asked = {}
        return self

    # doing

    def go_to_now(self) -> Self:
        """Leave the past: all linked views show the newest snapshot again."""
        self.snapshot = None
        return self

    def step(self) -> Self:
        """Carry out the pick in focus, in the background; an idle plan is made anew first."""
        if not self.busy and not (self._model.pick and self._model.pick.fires):
            self.refresh()
        pick = self._model.pick
        if pick is not None and pick.fires:
            self._start(
                lambda job: self._at_work(job, pick), f"Compacting {pick.place}: {len(pick.inputs)} files …"
            )
        return self

    def run_until_quiet(self) -> Self:
        """Compact the whole scope until no rule fires, or until paused, in the background."""
        if not self.busy and not self._model.waiting:
            self.refresh()
        if self._model.waiting:
            self._start(self._rounds, f"Compacting {fmt.plural(self._model.waiting, 'bucket')} …")
        return self

    def flush(self) -> Self:
        """One flush of a simulation, in the background."""
        if self.simulated:
            self._start(lambda _job: self._flush(), "Flushing …")
        return self

    def pause(self) -> Self:
        """Stop at once: a round that is not committed is given up, and nothing of it is kept."""
        self._jobs.stop()
        self.auto = False
        if self.busy:
            self.progress = "stopping …"
        return self

    def cancel(self) -> Self:
        """Stop at once, as `pause` does."""
        return self.pause()

    def _on_auto(self, change: Mapping[str, Any]) -> None:
        if not change["new"]:
            self._jobs.stop()
        elif not self._start(self._forever, f"Auto: a step every {self.every_ms} ms"):
            self.auto = False

    def _forever(self, job: ViewJob) -> None:
        """What is due, step by step: a compaction if a rule fires, else a flush (a table is read again)."""
        while True:
            if self._model.waiting:
                self._compact(job, self._model.picks[0])
            elif self.simulated:
                self._flush()
            else:
                self.refresh()
            job.sleep(max(self.every_ms, LEAST_MS) / 1000)

    def _rounds(self, job: ViewJob) -> None:
        """One commit a partition and round, the largest first, so that Pause loses little."""
        for _ in range(1 if self.full else MAX_ROUNDS):
            waiting = self._model.picks.partitions()
            for partition in waiting:
                job.check()
                self._compact(job, None, {"partition": partition} if partition else {})
            if not waiting or not self._model.waiting:
                return

    def _flush(self) -> None:
        steps = self._table.flush()
        self._model = self._model.did(tuple(step.text for step in steps[-1:]))
        self.refresh_linked()

    def _compact(
        self, job: ViewJob, pick: BucketPick | None, scope: Mapping[str, object] | None = None
    ) -> None:
        chosen = self._scope(pick) | dict(scope or {})
        compact = self._planner().compact
        takes_progress = "progress" in signature(compact).parameters
        shown = {"progress": partial(self._show_progress, job)} if takes_progress else {}
        report = compact(full=self.full, **chosen, **shown)
        lines = str(getattr(report, "text", report)).splitlines()
        self.done = (*self.done, report)[-MAX_DONE:]
        self._model = self._model.did(tuple(lines if len(lines) <= 2 else lines[-1:]))
        self.refresh_linked()

    def _at_work(self, job: ViewJob, pick: BucketPick) -> None:
        """Carry out a pick; linked levels show that it is being written."""
        if not self.simulated and self.plan:
            self.plan = {**self.plan, "running": {"share": 0.0, "written": 0, "expected": pick.written}}
        self._compact(job, pick)

    def _show_progress(self, job: ViewJob, _step: str, done: float, total: float, note: str) -> None:
        """Progress of a round. What is not committed yet can be given up."""
        if done < total:
            job.check()
        share = fmt.percent(done, total) if total else ""
        self.progress = f"{share} {note}".strip() if done < total else ""

    def _start(self, work: Work, words: str) -> bool:
        def before() -> None:
            self._model = replace(self._model, busy=words, error="", next_step="")
            self.redraw()

        def after() -> None:
            failure = self._jobs.failure
            self._model = replace(self._model, busy="")
            if failure is not None:
                hint = CONFLICT if isinstance(failure, ts.CommitConflict) else RETRY
                reason = f"{type(failure).__name__}: {failure}"
                self._model = replace(self._model, error=reason, next_step=hint)
            self.progress = ""
            self.auto = False
            self._show()

        return not self._disabled() and self._jobs.start(work, before=before, after=after)

    # showing

    def figure(self, *, width: float) -> Figure:
        """The panel without buttons and inputs."""
        return self._drawn(width, inputs=False)

    def _drawn(self, width: float, *, inputs: bool) -> Figure:
        if stories := self.stories():
            return past_figure(stories, self.opened, width=width)
        waiting = self._model.waiting
        note = "" if waiting or not self._model.picks else QUIET
        return controls_figure(replace(self._model, note=note), width=width, inputs=inputs)

    def picture(self, *, width: float, footer: bool = True) -> Figure:
        """The static figure: settings are drawn, with a header and by default a footer."""
        note = self.note() if footer else ""
        return static.framed(self._drawn(width, inputs=True), words=self.words(width=width), note=note)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and the state the buttons and inputs follow."""
        model, pick, current = self._model, self._model.pick, self._model.settings
        past = [[story.head, list(story.rows(self.opened))] for story in self.stories()]
        return {
            "title": f"After {fmt.snapshot_id(self.snapshot)}" if past else "Next compaction",
            "at": self.snapshot,
            "past": past,
            "subtitle": current.strategy if current and width >= 500 else "",
            "place": pick.place if pick else "",
            "waits": f"{model.waiting:,} of {fmt.plural(len(model.picks), 'bucket')} due",
            "strategy": current.strategy if current else "",
            "inputs": settings.inputs_of(current) if current else [],
            "refusal": self._refusal,
            "warning": settings.LEVELED_WARNING if current and current.leveled and not self.simulated else "",
            "remark": self._remark(),
            "store": settings.store_code("table", self.asked) if self.asked else "",
            "simulated": self.simulated,
            "busy": model.busy,
            "disabled": self._disabled(),
            "fires": bool(pick and pick.fires),
            "waiting": model.waiting,
            "picks": len(model.picks),
            "says": model.error or model.busy or (model.done[-1] if model.done else ""),
        }

    def _remark(self) -> str:
        """What compaction means on this table."""
        current = self._model.settings
        if current is None:
            return "An append table: no levels, small files are combined."
        if current.leveled and self.simulated:
            return settings.NOT_PAIMONS
        return "Write-only: writers leave compaction to jobs." if current.write_only else ""

    def text(self) -> str:
        """The plan and its reasons in a terminal; in the past what came next."""
        if stories := self.stories():
            rows = [row for story in stories for row in (story.head, *story.rows(self.opened))]
            return "\n".join([f"After {fmt.snapshot_id(self.snapshot)}  {rows[0]}", *rows[1:]])
        return text_form(self._model)

    def data(self) -> Picks:
        """The picks, those with work first."""
        return self._model.picks

    def chart_rows(self) -> pa.Table:
        """The bytes that each bucket's compaction takes."""
        return self._model.picks.to_arrow()

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The panel as it stands, and what each commit did; its buttons need a kernel."""
        widths, newest = tuple(dict.fromkeys((*widths, PANEL))), self.newest_known()
        traits = "index", "full", "snapshot", "asked", "auto", "every_ms", "progress", "opened"
        spec = self.export_spec("controls", widths, self.export_frames(widths), *traits, newest=newest)
        return spec | {"past": self._moments.newest_stories(MOST_PAST) if newest is not None else {}}
