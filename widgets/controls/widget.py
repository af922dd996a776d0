"""CompactionControls: what the engine would compact next and why; step, run until quiet, pause.

The table plans (`compact(dry_run=True)`) and compacts; the panel only shows its words. Work runs in a
daemon thread, one at a time, so the notebook stays free and Pause works; after each compaction all linked
views read again. Traits: `index` (the bucket in focus), `full`, `plan` (linked to levels), `snapshot` (of a
linked timeline; in the past the buttons are off).
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, Self

import traitlets

from widgets import _format as fmt
from widgets import _static
from widgets._svg import Figure
from widgets._view import Source, View, module, option_map, title_of
from widgets.controls.figure import controls_figure
from widgets.controls.model import (
    ControlsModel,
    Pick,
    Triggers,
    focus_on,
    picks_of,
    runs_of,
    text_form,
    triggers_of,
)

MAX_ROUNDS = 100
QUIET = "Quiet: no rule fires in any bucket."


class Compactable(Source, Protocol):
    """A table, or a simulator, that can plan and carry out compactions."""

    def compact(self, **request: object) -> object:
        """With `dry_run=True` an object with `picks`; else does the work and returns a report with `text`."""
        ...


class CompactionControls(View):
    """The next compaction of a table, or of one of its partitions or buckets."""

    _esm = module("controls/view.js", "renderControls")
    is_panel = True
    index = traitlets.Int(0).tag(sync=True)
    full = traitlets.Bool(False).tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=False)
    plan = traitlets.Dict().tag(sync=False)

    def __init__(
        self,
        table: Compactable,
        *,
        partition: str | None = None,
        bucket: int | None = None,
        triggers: Triggers | None = None,
        num_levels: int | None = None,
        title: str = "",
        **kwargs: object,
    ) -> None:
        options = option_map(table)
        self._table, self._partition, self._bucket = table, partition, bucket
        triggers = triggers or triggers_of(options)
        levels = num_levels or int(options.get("num-levels", triggers.runs + 1))
        self._model = ControlsModel(title or title_of(table), (), -1, triggers, levels)
        self._files: Any = None
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._worker: threading.Thread | None = None
        self._failure: Exception | None = None
        kwargs.setdefault("width", 324)
        super().__init__(**kwargs)
        self.refresh()
        self.observe(self._on_focus, "index")
        self.observe(self._on_opened, "opened")
        self.observe(lambda _change: self.refresh(), "full")
        self.observe(lambda _change: self._show(), "snapshot")
        self.on_msg(self._on_message)

    @property
    def model(self) -> ControlsModel:
        """The panel as a value."""
        return self._model

    @property
    def busy(self) -> bool:
        """Whether a compaction is running."""
        return self._worker is not None and self._worker.is_alive()

    def refresh(self) -> Self:
        """Plan again; writes nothing."""
        self.guarded(
            self._load, what="The plan could not be made.", next_step="Check the table, then Dry run."
        )
        return self

    def _load(self) -> None:
        held = self._model.pick
        picks = picks_of(self._table.compact(dry_run=True, full=self.full, **self._scope()))
        self._files = self._table.inspect.levels()
        focus = focus_on(picks, held.partition, held.bucket) if held and not self._quiet(picks, held) else 0
        self._model = replace(self._model, picks=picks, focus=focus if picks else -1)
        self._focus(self._model.focus)

    @staticmethod
    def _quiet(picks: tuple[Pick, ...], held: Pick) -> bool:
        """Whether the bucket in focus has nothing left to do while another one has."""
        at = focus_on(picks, held.partition, held.bucket)
        return at < 0 or not picks[at].fires

    def _scope(self, pick: Pick | None = None) -> dict[str, object]:
        """The keyword arguments that name the whole scope, or one pick's bucket."""
        partition = pick.partition if pick else self._partition
        bucket = pick.bucket if pick else self._bucket
        scope: dict[str, object] = {"partition": partition} if partition else {}
        return scope | ({"bucket": bucket} if bucket is not None else {})

    def _focus(self, focus: int) -> None:
        pick = self._model.picks[focus] if 0 <= focus < len(self._model.picks) else None
        runs = runs_of(self._files, pick) if self._files is not None else ()
        self._model = replace(self._model, focus=focus, runs=runs)
        self.index = max(focus, 0)
        self._show()

    def _on_focus(self, change: Mapping[str, Any]) -> None:
        wanted = min(max(int(change["new"]), 0), len(self._model.picks) - 1)
        if wanted != self._model.focus and wanted >= 0:
            self._focus(wanted)

    def _on_opened(self, change: Mapping[str, Any]) -> None:
        ids = [pick.id for pick in self._model.picks]
        if change["new"] in ids and ids.index(change["new"]) != self._model.focus:
            self._focus(ids.index(change["new"]))

    def _show(self) -> None:
        pick = self._model.pick
        if pick is not None:
            self.opened = pick.id
        shown = pick.plan if pick is not None and not self._disabled() else None
        inputs = sorted(shown.inputs) if shown else []
        plan = (
            {"inputs": inputs, "output_level": shown.output_level, "bucket": pick.id}
            if shown and pick
            else {}
        )
        self.plan = plan if inputs else {}
        self.redraw()

    def _disabled(self) -> str:
        """Why nothing may be compacted now; empty if it may."""
        latest = [
            int(ids[-1]) for ids in (self._ids(peer) for peer in self._peers) if ids is not None and len(ids)
        ]
        past = self.snapshot is not None and latest and self.snapshot < max(latest)
        return "viewing the past: read-only" if past else ""

    @staticmethod
    def _ids(peer: View) -> Any:
        return getattr(getattr(peer, "model", None), "ids", None)

    def _on_message(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        actions: dict[str, Callable[[], object]] = {
            "step": self.step,
            "run": self.run_until_quiet,
            "pause": self.pause,
            "plan": self.refresh,
        }
        if (action := actions.get(str(content.get("verb")))) is not None:
            action()

    def step(self) -> Self:
        """Carry out the pick in focus, in the background."""
        pick = self._model.pick
        if pick is not None and pick.fires:
            self._start(lambda: self._compact(pick), f"Compacting {pick.place}: {len(pick.inputs)} files …")
        return self

    def run_until_quiet(self) -> Self:
        """Compact the whole scope until no rule fires, or until paused, in the background."""
        if self._model.waiting:
            self._start(self._rounds, f"Compacting {fmt.plural(self._model.waiting, 'bucket')} …")
        return self

    def pause(self) -> Self:
        """Stop after the compaction that is running."""
        self._pause.set()
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the work in the background is over, and raise what it raised."""
        if self._worker is not None:
            self._worker.join(timeout)
            if self._worker.is_alive():
                raise TimeoutError(f"the compaction still runs after {timeout} s")
        if (failure := self._failure) is not None:
            self._failure = None
            raise failure
        return self

    def _rounds(self) -> None:
        for _ in range(1 if self.full else MAX_ROUNDS):
            if self._pause.is_set() or not self._model.waiting:
                break
            self._compact(None)

    def _compact(self, pick: Pick | None) -> None:
        report = self._table.compact(full=self.full, **self._scope(pick))
        lines = str(getattr(report, "text", report)).splitlines()
        said = lines if len(lines) <= 2 else lines[-1:]
        self._model = replace(self._model, done=(*self._model.done, *said)[-20:])
        self.refresh_linked()

    def _start(self, work: Callable[[], None], words: str) -> None:
        with self._lock:
            if self.busy or self._disabled():
                return
            self._pause.clear()
            self._failure = None
            self._model = replace(self._model, busy=words, error="", next_step="")
            self._worker = threading.Thread(target=self._work, args=(work,), name="compaction", daemon=True)
        self.redraw()
        self._worker.start()

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._failure = error
            hint = "The table is as it was before: plan again with Dry run, then retry."
            text = f"{type(error).__name__}: {error}"
            self._model = replace(self._model, error=text, next_step=hint)
        finally:
            self._model = replace(self._model, busy="")
            self._show()

    def figure(self, *, width: float) -> Figure:
        """The panel without buttons."""
        waiting = self._model.waiting
        note = "" if waiting or not self._model.picks else QUIET
        return controls_figure(replace(self._model, note=note), width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and the state the buttons follow."""
        pick = self._model.pick
        done = self._model.done[-1] if self._model.done else ""
        return {
            "title": "Next compaction",
            "subtitle": "" if width < 500 else "universal",
            "busy": self._model.busy,
            "disabled": self._disabled(),
            "fires": bool(pick and pick.fires),
            "waiting": self._model.waiting,
            "picks": len(self._model.picks),
            "says": self._model.error or self._model.busy or done,
        }

    def text(self) -> str:
        """The plan and its reasons in a terminal."""
        return text_form(self._model)

    def data(self) -> tuple[Pick, ...]:
        """The picks, those with work first."""
        return self._model.picks

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The panel as it stands; its buttons need a kernel."""
        frames = {str(width): _static.frame(self.figure(width=width)) for width in widths}
        state = {
            "index": self.index,
            "full": self.full,
            "snapshot": self.snapshot,
            "width": widths[0],
            "frame": {},
        }
        spec = {"kind": "controls", "reply": "plain", "widths": sorted(widths, reverse=True)}
        return spec | {
            "frames": frames,
            "words": {str(width): self.words(width=width) for width in widths},
            "state": state,
        }
