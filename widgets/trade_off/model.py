"""The trade-off map as values: a spot for each setting, trails of them, and what one costs beside another.

Invariants: write is bytes written over bytes that came in, read the mean of sorted runs and space the mean of
bytes stored over bytes live after each commit: the columns of `inspect.amplification`, as AmplificationChart
draws them. Pure: from outcomes of simulations. Called by figure and widget.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from widgets.kit import format as fmt
from widgets.levels.model import LsmModel, lsm_model
from widgets.trade_off.trails import LEVELED, STRATEGIES, UNIVERSAL, Experiment, TrialOutcome, TrialSetting
from widgets.what_if.figure import signed

PAIMON = TrialSetting(UNIVERSAL, 5, 1)
"""Paimon's defaults, with which others are compared."""
AXES = {
    "write": ("Write", "bytes written / bytes that came in"),
    "read": ("Read", "sorted runs, mean after each commit"),
    "space": ("Space", "bytes stored / bytes live, mean after each commit"),
}


@dataclass(frozen=True, slots=True, eq=False)
class TradeOffModel:
    """All settings in the order of their trails. Immutable by agreement."""

    title: str
    experiment: Experiment
    outcomes: tuple[TrialOutcome, ...]
    unbeaten: frozenset[int]
    reference: int

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def trails(self) -> tuple[tuple[int, ...], ...]:
        """The positions of each trail: one strategy and ratio, the triggers in order."""
        many = len(self.experiment.triggers)
        return tuple(tuple(range(at, at + many)) for at in range(0, len(self), many))

    def find(self, setting: TrialSetting) -> int | None:
        """The position of a setting."""
        return next((at for at, trial in enumerate(self.outcomes) if trial.setting == setting), None)

    def cost(self, index: int) -> str:
        """`write 3.86, read 4.4 runs, space ≈ 1.38`."""
        trial = self.outcomes[index]
        about = "" if trial.space_exact else "≈ "
        return f"write {trial.write:.2f}, read {trial.read:.1f} runs, space {about}{trial.space:.2f}"

    def sentence(self, index: int) -> str:
        """The setting and its three numbers."""
        return f"{self.outcomes[index].setting.text}: {self.cost(index)}"

    def against(self, index: int) -> str:
        """What the setting costs beside the reference."""
        trial, other = self.outcomes[index], self.outcomes[self.reference]
        name = "Paimon's defaults" if other.setting == PAIMON else other.setting.text
        if trial is other:
            return f"These are {name}." if other.setting == PAIMON else f"Others are compared with {name}."
        changes = zip(("write", "read", "space"), trial.costs, other.costs, strict=True)
        parts = [f"{word} {signed(a / b - 1)}" for word, a, b in changes]
        return f"Beside {name} ({other.setting.text}): {', '.join(parts)}."

    def standing(self, index: int) -> str:
        """Whether another setting of the map is better in one of the three and worse in none."""
        if index in self.unbeaten:
            return "No other setting here is better in one of the three and worse in none."
        trial = self.outcomes[index]
        better = next(other for other in self.outcomes if other.beats(trial))
        return f"Better in at least one of the three, worse in none: {better.setting.text}."

    def peek(self, index: int) -> tuple[str, list[list[str]]]:
        """What the card of a spot says."""
        trial = self.outcomes[index]
        about = "" if trial.space_exact else "≈ "
        rows = [
            ["write", f"{trial.write:.2f}"],
            ["read", f"{trial.read:.1f} runs, at most {trial.most_runs}"],
            ["space", f"{about}{trial.space:.2f}, at most {about}{trial.most_space:.2f}"],
            ["compactions", f"{trial.compactions:,}"],
        ]
        return trial.setting.text, rows

    def tree(self, index: int) -> LsmModel:
        """The tree of a setting at its fullest, with a row for each level that holds something."""
        trial = self.outcomes[index]
        return lsm_model(trial.levels, num_levels=trial.num_levels, snapshot=trial.snapshot)

    def tree_words(self, index: int) -> str:
        """`The tree of universal, trigger 5, size-ratio 1 % at its fullest, #225: 6 runs, 41.2 MiB`."""
        trial, size = self.outcomes[index], sum(self.outcomes[index].levels["bytes"].to_pylist())
        held = f"{fmt.plural(trial.most_runs, 'run')}, {fmt.bytes_text(size)}"
        return f"The tree of {trial.setting.text} at its fullest, #{trial.snapshot}: {held}"

    def to_arrow(self) -> pa.Table:
        """A row a setting."""
        rows: list[dict[str, Any]] = [
            {
                "strategy": trial.setting.strategy,
                "trigger": trial.setting.trigger,
                "ratio": trial.setting.ratio,
                "write_amplification": trial.write,
                "mean_runs": trial.read,
                "space_amplification": trial.space,
                "space_exact": trial.space_exact,
                "most_runs": trial.most_runs,
                "most_space_amplification": trial.most_space,
                "compactions": trial.compactions,
                "unbeaten": at in self.unbeaten,
            }
            for at, trial in enumerate(self.outcomes)
        ]
        return pa.Table.from_pylist(rows)

    @property
    def axes(self) -> dict[str, Any]:
        """The choices of the controls: triggers, and the ratios of each strategy with their words."""
        ratios = {
            UNIVERSAL: [TrialSetting(UNIVERSAL, 5, ratio).ratio_text for ratio in self.experiment.ratios],
            LEVELED: [TrialSetting(LEVELED, 5, ratio).ratio_text for ratio in self.experiment.multipliers],
        }
        triggers = [str(trigger) for trigger in self.experiment.triggers]
        return {"strategies": list(STRATEGIES), "triggers": triggers, "ratios": ratios}


def trade_off_model(
    experiment: Experiment, trials: tuple[TrialOutcome, ...], *, title: str = ""
) -> TradeOffModel:
    """The model of all outcomes of an experiment."""
    unbeaten = frozenset(
        at
        for at, trial in enumerate(trials)
        if not any(other.beats(trial) for other in trials if other is not trial)
    )
    reference = next((at for at, trial in enumerate(trials) if trial.setting == PAIMON), 0)
    return TradeOffModel(title, experiment, trials, unbeaten, reference)


def text_form(model: TradeOffModel, index: int) -> str:
    """The map in a terminal: a line a setting, the chosen one marked, then what it costs and its tree."""
    lines = [
        f"{model.title}  trade-off of {len(model)} settings, {model.experiment.flushes:,} flushes".strip(),
        "    write   runs  space  setting",
    ]
    for at, trial in enumerate(model.outcomes):
        mark = ">" if at == index else " "
        kept = "●" if at in model.unbeaten else "○"
        lines.append(
            f"{mark} {kept} {trial.write:5.2f}  {trial.read:5.1f}  {trial.space:5.2f}  {trial.setting.text}"
        )
    lines.append("● no other setting is better in one of the three and worse in none")
    return "\n".join([*lines, model.sentence(index), model.against(index)])
