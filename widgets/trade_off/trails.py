"""What many settings of compaction cost on one workload: each is simulated once, by the engine's own picks.

A setting is a strategy, a trigger and a ratio: the trigger of sorted runs and the size ratio of universal
compaction, the trigger of level-0 files and the multiplier between levels of leveled. All see the same
flushes from one seed. What was simulated is kept for the whole process, the newest KEPT outcomes (some 50 kB
each). Used by the model; no picture here.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts

UNIVERSAL, LEVELED = "universal", "leveled"
STRATEGIES = (UNIVERSAL, LEVELED)
TRIGGERS = (2, 3, 4, 5, 8, 12)
RATIOS = (1, 50, 200)
MULTIPLIERS = (2, 4, 10)
BASE_FLUSHES, FILE_FLUSHES = 8, 3
"""Flushes that level 1 may hold and that a file has, unless options say otherwise."""
MOST_SETTINGS, MOST_FLUSHES = 120, 2_000
KEPT = 240

BASE = "tablestore.compaction.leveled.max-bytes-for-level-base"
_STRATEGY = "tablestore.compaction.strategy"
_KEYS = {
    UNIVERSAL: ("num-sorted-run.compaction-trigger", "compaction.size-ratio"),
    LEVELED: (
        "tablestore.compaction.leveled.level0-file-num-trigger",
        "tablestore.compaction.leveled.max-bytes-for-level-multiplier",
    ),
}


@dataclass(frozen=True, slots=True)
class TrialSetting:
    """One choice of strategy, trigger and ratio."""

    strategy: str
    trigger: int
    ratio: int

    @property
    def options(self) -> dict[str, str]:
        """The table options that it means."""
        trigger, ratio = _KEYS[self.strategy]
        strategy = {_STRATEGY: LEVELED} if self.strategy == LEVELED else {}
        return strategy | {trigger: str(self.trigger), ratio: str(self.ratio)}

    @property
    def ratio_text(self) -> str:
        """`size-ratio 50 %`, `level ×10`."""
        return f"level ×{self.ratio}" if self.strategy == LEVELED else f"size-ratio {self.ratio} %"

    @property
    def text(self) -> str:
        """`universal, trigger 5, size-ratio 1 %`."""
        return f"{self.strategy}, trigger {self.trigger}, {self.ratio_text}"


@dataclass(frozen=True, slots=True, eq=False)
class TrialOutcome:
    """What a setting came to: bytes written for each byte that came in, the mean of sorted runs and of bytes
    stored for each that is live after each commit, the worst of both, and the tree at its fullest."""

    setting: TrialSetting
    write: float
    read: float
    space: float
    space_exact: bool
    most_runs: int
    most_space: float
    compactions: int
    snapshot: int
    num_levels: int
    levels: pa.Table

    @property
    def costs(self) -> tuple[float, float, float]:
        """Write, read, space."""
        return self.write, self.read, self.space

    def beats(self, other: "TrialOutcome") -> bool:
        """Whether it is better in one of the three and worse in none."""
        pairs = list(zip(self.costs, other.costs, strict=True))
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One `Workload`, and the settings that are tried on it; `options` hold for all of them."""

    workload: Any
    flushes: int
    seed: int
    samples: int
    triggers: tuple[int, ...] = TRIGGERS
    ratios: tuple[int, ...] = RATIOS
    multipliers: tuple[int, ...] = MULTIPLIERS
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise InvalidRequest for what would take too long or is no axis."""
        for name in ("triggers", "ratios", "multipliers"):
            axis = getattr(self, name)
            if not axis or list(axis) != sorted(set(axis)):
                raise ts.InvalidRequest(f"{name} {axis} must be numbers that ascend, at least one")
        count = len(self.settings)
        if count > MOST_SETTINGS or not 1 <= self.flushes <= MOST_FLUSHES:
            raise ts.InvalidRequest(
                f"{count} settings of {self.flushes:,} flushes; give at most {MOST_SETTINGS} settings, 1 to "
                f"{MOST_FLUSHES:,} flushes"
            )
        if self.samples < 1:
            raise ts.InvalidRequest(f"samples {self.samples} must be at least 1: rows drawn a flush")

    @property
    def settings(self) -> tuple[TrialSetting, ...]:
        """Trail after trail: the triggers of a ratio stand together."""
        axes = ((UNIVERSAL, self.ratios), (LEVELED, self.multipliers))
        return tuple(
            TrialSetting(strategy, trigger, ratio)
            for strategy, ratios in axes
            for ratio, trigger in product(ratios, self.triggers)
        )

    def options_of(self, setting: TrialSetting) -> dict[str, str]:
        """The options that a setting is simulated under."""
        flush = self.workload.row_bytes * self.workload.rows
        sizes = {
            "target-file-size": f"{max(round(FILE_FLUSHES * flush), 1)} b",
            BASE: f"{max(round(BASE_FLUSHES * flush), 1)} b",
        }
        return sizes | dict(self.options) | setting.options

    def simulator(self, setting: TrialSetting) -> Any:
        """The simulation of a setting, carried out."""
        options = self.options_of(setting)
        simulator = ts.simulator(self.workload, options, seed=self.seed, samples=self.samples)
        return simulator.advance(self.flushes)


def workloads(given: Any) -> dict[str, Any]:
    """A `Workload` and what else the map can show of it, by kind: keys drawn often and rarely, drawn evenly,
    or in the order of time, where half of the rows change a recent one. Sizes and deletes stay."""
    even = {"updates": 0.0, "lag": None}
    recent = {"keys": None, "updates": min(0.5, 1 - given.deletes), "lag": 4.0 * given.rows}
    kinds = {"zipf": even, "uniform": even, "time-series": recent}
    others = {kind: replace(given, kind=kind, **fields) for kind, fields in kinds.items()}
    return {**({} if given.kind in others else {given.kind: given}), **others, given.kind: given}


_outcomes: OrderedDict[tuple[Any, ...], TrialOutcome] = OrderedDict()
_outcomes_lock = Lock()


def outcome(experiment: Experiment, setting: TrialSetting) -> TrialOutcome:
    """What a setting comes to; simulated once."""
    key = _key(experiment, setting)
    with _outcomes_lock:
        if key in _outcomes:
            _outcomes.move_to_end(key)
            return _outcomes[key]
    return _keep(key, _outcome(experiment, setting))


def _key(experiment: Experiment, setting: TrialSetting) -> tuple[Any, ...]:
    options = tuple(sorted(experiment.options_of(setting).items()))
    return experiment.workload, experiment.flushes, experiment.seed, experiment.samples, options


def _keep(key: tuple[Any, ...], trial: TrialOutcome) -> TrialOutcome:
    with _outcomes_lock:
        _outcomes[key] = trial
        while len(_outcomes) > KEPT:
            _outcomes.popitem(last=False)
    return trial


_TEXT = ("partition", "file_name", "min_key", "max_key", "file_source")
_SHARES = ("min_key_pos", "max_key_pos")


def plain(trial: TrialOutcome) -> dict[str, Any]:
    """An outcome as plain values: what `remember` takes."""
    values = {each.name: getattr(trial, each.name) for each in fields(trial) if each.name != "setting"}
    columns = [name for name in trial.levels.column_names if name != "creation_time"]
    return values | {"levels": trial.levels.select(columns).to_pydict()}


def remember(experiment: Experiment, trials: Sequence[Mapping[str, Any]]) -> None:
    """Take the outcomes of all settings, which were simulated elsewhere, as this process' own."""
    for setting, values in zip(experiment.settings, trials, strict=True):
        types = {name: pa.string() for name in _TEXT} | {name: pa.float64() for name in _SHARES}
        columns = values["levels"].items()
        levels = pa.table({name: pa.array(column, types.get(name, pa.int64())) for name, column in columns})
        _keep(_key(experiment, setting), TrialOutcome(setting=setting, **{**values, "levels": levels}))


def _outcome(experiment: Experiment, setting: TrialSetting) -> TrialOutcome:
    simulator = experiment.simulator(setting)
    inspect = simulator.inspect
    course = inspect.amplification("snapshot")
    runs = course["runs"].to_numpy()
    fullest = len(runs) - 1 - int(runs[::-1].argmax())  # the last of the fullest
    snapshot = course["snapshot_id"][fullest].as_py()
    space, exact = course["space_amplification"], course["space_exact"]
    return TrialOutcome(
        setting=setting,
        write=course["write_amplification"][-1].as_py(),
        read=float(runs.mean()),
        space=pc.mean(space).as_py(),
        space_exact=bool(pc.all(exact).as_py()),
        most_runs=int(runs.max()),
        most_space=pc.max(space).as_py(),
        compactions=inspect.compactions().num_rows,
        snapshot=snapshot,
        num_levels=simulator.rules.num_levels,
        levels=inspect.levels(snapshot),
    )


def outcomes(
    experiment: Experiment, *, progress: Callable[[int, int], None] | None = None
) -> tuple[TrialOutcome, ...]:
    """Every setting's outcome; `progress(done, all)` is called before each, and what it raises ends it."""
    trials, settings = [], experiment.settings
    for done, setting in enumerate(settings):
        if progress is not None:
            progress(done, len(settings))
        trials.append(outcome(experiment, setting))
    return tuple(trials)
