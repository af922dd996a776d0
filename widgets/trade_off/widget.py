"""TradeOff: what each setting of compaction costs, as a map of write, read and space amplification.

Traits: `workload` (its kind, one of `workloads`), `index` (the chosen setting), `now` (what is drawn over the
map, words, and the tree of the chosen one), `progress` while the settings are simulated, in a thread: Cancel
acts at once. Nothing is simulated twice in a process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.chart.axes import Asked
from widgets.kit import static, svg
from widgets.kit.jobs import JobRunner, Stopped, ViewJob, WorkingView
from widgets.kit.svg import Figure
from widgets.kit.view import module
from widgets.trade_off import figure as draw
from widgets.trade_off.model import TradeOffModel, text_form, trade_off_model
from widgets.trade_off.trails import (
    MULTIPLIERS,
    RATIOS,
    TRIGGERS,
    Experiment,
    TrialSetting,
    outcomes,
    plain,
    remember,
    workloads,
)

FLUSHES, SAMPLES = 120, 200
PATIENCE = 30.0
"""Seconds that a static picture waits for the simulations, once."""
BESIDE = 860
"""A width at which a page shows the plots beside each other, in addition to those it asks for."""
NEXT = "Check the workload and the options, then Simulate again."


class TradeOff(WorkingView):
    """Write, read and space amplification of many settings of compaction, on one workload at a time.

    `workload` is what `ts.simulator` takes: a `Workload`, its name ("uniform"), or a mapping of its fields;
    the trait `workload` is its kind, and switches to zipf, uniform and time-series of the same sizes. Each
    trigger of `triggers` is tried with each size ratio of `ratios` under universal compaction, and with each
    multiplier between levels of `multipliers` under leveled. `options` hold for all; by default a file holds
    3 flushes and level 1 holds 8. Every setting takes the same `flushes` from one `seed`, of which `samples`
    rows are drawn. `title` stands above the picture. The settings are simulated in the background: `wait`.
    `recorded` are outcomes of the settings, as `recipe` gives them. Other traits go by keyword.

    >>> view = widgets.TradeOff("uniform", flushes=20, triggers=[3, 5], ratios=[1], multipliers=[10]).wait()
    >>> view.choose("leveled", trigger=3, ratio=10).setting.text
    'leveled, trigger 3, level ×10'
    >>> view.data().num_rows
    4
    """

    chart = Asked(x="write_amplification", y="space_amplification", kind="points")
    _esm = module("trade_off")
    verbs = ("cancel",)
    workload = traitlets.Unicode().tag(sync=True)
    workloads: traitlets.List[str] = traitlets.List().tag(sync=True)
    index = traitlets.Int(0).tag(sync=True)
    now = traitlets.Dict().tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        workload: Any = "zipf",
        *,
        flushes: int = FLUSHES,
        seed: int = 7,
        samples: int = SAMPLES,
        triggers: Sequence[int] = TRIGGERS,
        ratios: Sequence[int] = RATIOS,
        multipliers: Sequence[int] = MULTIPLIERS,
        options: Mapping[str, Any] | None = None,
        title: str = "",
        recorded: Sequence[Mapping[str, Any]] = (),
        **kwargs: Any,
    ) -> None:
        self._jobs = JobRunner("trade-off")
        chosen = ts.simulator(workload, seed=seed).workload
        first = Experiment(
            chosen,
            flushes,
            seed,
            min(samples, chosen.rows),
            tuple(triggers),
            tuple(ratios),
            tuple(multipliers),
            {key: str(value) for key, value in (options or {}).items()},
        )
        options_of_first = first.options_of(first.settings[0])
        ts.simulator(chosen, options_of_first)  # refuses options that are none, now, not in the background
        self.experiments = {
            kind: replace(first, workload=simulated) for kind, simulated in workloads(chosen).items()
        }
        if recorded:
            remember(first, recorded)
        self._title = title
        self._models: dict[str, TradeOffModel] = {}
        self._started = False
        super().__init__(workload=chosen.kind, workloads=list(self.experiments), **kwargs)
        self.observe(lambda _change: self._show(), "index")
        self.observe(lambda _change: self._switch(), "workload")
        self.refresh()

    @property
    def experiment(self) -> Experiment:
        """The chosen workload, and the settings that are tried on it."""
        return self.experiments[self.workload]

    @property
    def model(self) -> TradeOffModel | None:
        """What is shown; None until the settings are simulated."""
        return self._models.get(self.workload)

    @property
    def setting(self) -> TrialSetting:
        """The chosen setting."""
        return self.experiment.settings[self.index]

    @property
    def code(self) -> str:
        """The line that simulates the chosen setting."""
        options = self.experiment.options_of(self.setting)
        return (
            f"ts.simulator({self.experiment.workload!r}, {options!r}, seed={self.experiment.seed}, "
            f"samples={self.experiment.samples}).advance({self.experiment.flushes})"
        )

    @traitlets.validate("workload")
    def _one_of_them(self, proposal: Mapping[str, Any]) -> str:
        kind = str(proposal["value"])
        if kind not in self.experiments:
            raise ts.InvalidRequest(f"workload {kind!r} is none of {', '.join(self.experiments)}")
        return kind

    @traitlets.validate("index")
    def _within(self, proposal: Mapping[str, Any]) -> int:
        return min(max(int(proposal["value"]), 0), len(self.experiment.settings) - 1)

    def choose(self, strategy: str, *, trigger: int, ratio: int) -> Self:
        """Go to a setting. Raises InvalidRequest for one that is not on the map."""
        asked = TrialSetting(strategy, trigger, ratio)
        if asked not in self.experiment.settings:
            raise ts.InvalidRequest(f"{asked.text} is not on the map")
        self.index = self.experiment.settings.index(asked)
        return self

    def recipe(self) -> dict[str, Any]:
        """This map as plain values: `TradeOff(**recipe)` shows it again, in another process too, and
        simulates only workloads that are chosen there. Waits until all settings are simulated."""
        asked, model = self.experiment, self.wait().model
        names = ("flushes", "seed", "samples", "triggers", "ratios", "multipliers", "options")
        settings = {name: getattr(asked, name) for name in names}
        recorded = [plain(trial) for trial in model.outcomes] if model is not None else []
        chosen = {"workload": asdict(asked.workload), "title": self._title, "index": self.index}
        return settings | chosen | {"recorded": recorded}

    def simulator(self) -> Any:
        """The simulation of the chosen setting: `widgets.Workbench(view.simulator())` opens it whole."""
        return self.experiment.simulator(self.setting)

    def refresh(self) -> Self:
        """Simulate the settings, in the background; those that were simulated before are at hand."""
        self.progress = {"busy": True, "share": 0.0, "text": "simulating …"}
        if not self._jobs.restart(self._work) and self.model is None:
            self.redraw()
        return self

    def _switch(self) -> None:
        """Show the map of the chosen workload, which is simulated if it was not yet."""
        self._jobs.stop()
        self.redraw()
        if self.model is None:
            self.refresh()
        else:
            self.progress = {}

    def _work(self, job: ViewJob) -> None:
        failure: dict[str, str] | None = None
        kind = self.workload
        try:
            asked = self.experiments[kind]
            tried = outcomes(asked, progress=lambda done, whole: self._count(job, done, whole))
            job.check()
            model = trade_off_model(asked, tried, title=self._title)
            if not self._started and self.index == 0:
                self.index = model.reference
            self._started, self._models[kind] = True, model
            self.redraw()
        except Stopped:
            pass
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            failure = {"what": "The settings could not be simulated.", "text": text, "next": NEXT}
            failure |= {"verb": "refresh", "button": "Simulate again"}
        finally:
            if not job.stopped:
                self.progress = {}
                if failure is not None:
                    self.frame = {**self.words(width=self.width), **self.frame, "error": failure}
            elif not self._jobs.replaced(job) and self.model is None:
                self.progress = {"text": "cancelled", "again": True}

    def _count(self, job: ViewJob, done: int, whole: int) -> None:
        job.check()
        words = f"setting {done + 1} of {whole}"
        self.progress = {"busy": True, "share": round(done / whole, 3), "text": words}

    def redraw(self) -> None:
        """The map, and what is chosen on it."""
        self.frame = self._drawn(self.width)
        self._show()

    def _show(self) -> None:
        point = _point(self.model, self.index, self.width)
        self.now = {**point, "code": self.code} if point else {}

    def _drawn(self, width: float) -> dict[str, Any]:
        return {**self.words(width=width), **static.frame(_figure(self.model, width))}

    def figure(self, *, width: float) -> Figure:
        """The whole picture; the simulations are waited for a little."""
        self._jobs.wait_at_most(PATIENCE)
        if self.model is None:
            return draw.skeleton(width)
        return draw.trade_off_figure(self.model, self.index, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, what is simulated and how."""
        return self._words(self.workload)

    def _words(self, kind: str) -> dict[str, Any]:
        asked = self.experiments[kind]
        parts = [self._title, asked.workload.text, f"{asked.flushes:,} flushes each"]
        if asked.samples < asked.workload.rows:
            parts.append(f"{asked.samples:,} drawn rows stand for those of a flush")
        return {"title": "Trade-off", "subtitle": " · ".join(part for part in parts if part)}

    def text(self) -> str:
        """The map in a terminal."""
        self._jobs.wait_at_most(PATIENCE)
        if self.model is None:
            return f"{self._title}  trade-off: {self.progress.get('text', 'not simulated')}".strip()
        return text_form(self.model, self.index)

    def data(self) -> pa.Table:
        """A row a setting; waits until all are simulated."""
        self.wait()
        return self.model.to_arrow() if self.model is not None else pa.table({})

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The maps of the workloads that were simulated, and what every setting shows on them."""
        self.wait()
        widths = tuple(sorted({*widths, BESIDE}, reverse=True))
        shown = self.workload
        state = {"index": self.index, "hovered": "", "selected": (), "now": {}, "progress": {}}
        there = [kind for kind in self.experiments if kind in self._models or kind == shown]
        return {
            "kind": "trade_off",
            "reply": "trade_off",
            "widths": list(widths),
            "maps": {kind: self._exported(kind, widths) for kind in there},
            "state": state
            | {"workload": shown, "workloads": list(self.experiments), "width": widths[0], "frame": {}},
        }

    def _exported(self, kind: str, widths: tuple[int, ...]) -> dict[str, Any]:
        """One workload's map at these widths."""
        model, words = self._models.get(kind), self._words(kind)
        count = len(model) if model is not None else 0
        return {
            "frames": {str(width): {**words, **static.frame(_figure(model, width))} for width in widths},
            "points": {str(width): [_point(model, at, width) for at in range(count)] for width in widths},
        }


def _figure(model: TradeOffModel | None, width: float) -> Figure:
    """The map alone, or its frame until it is simulated."""
    return draw.skeleton(width) if model is None else draw.map_figure(model, width=width)


def _point(model: TradeOffModel | None, index: int, width: float) -> dict[str, Any]:
    """What changes with the chosen setting."""
    if model is None:
        return {}
    return {
        "index": index,
        "says": model.sentence(index),
        "against": model.against(index),
        "standing": model.standing(index),
        "over": draw.chosen_body(model, index, width=width),
        "opened": model.tree_words(index),
        "levels": svg.live(draw.tree_figure(model, index, width=width)),
    }
