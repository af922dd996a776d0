"""Players of the game, as values: fourteen who always do the same, and one who rehearses the stage first.

A player's plan is a trigger, a strategy, a number of buckets, how full memory is at a flush, a clock of full
compactions, and a trigger for a rush. Called by the tests of the game, also those in JupyterLab.
"""

from __future__ import annotations

from dataclasses import dataclass

from widgets.game.rules import (
    DOUBLE,
    FLUSH,
    FULL,
    LOWER,
    MOST_TRIGGER,
    RAISE,
    STEP,
    STRATEGY,
    GameShop,
    played_by,
)
from widgets.game.stages import Stage

LOADED = 8
"""The tick from which a player who wants more buckets doubles them: two flushes are written then."""


@dataclass(frozen=True)
class PlayersPlan:
    """What a player does all the time. `rush` is the trigger while more orders come than usual, or will soon;
    `full` the ticks from one full compaction to the next, 0 for none."""

    trigger: int = 5
    strategy: str = "universal"
    buckets: int = 1
    filled: float = 1.0
    full: int = 0
    rush: int = 0

    def __call__(self, shop: GameShop) -> str | None:
        """The next move of this tick."""
        stage, tick = shop.stage, shop.tick_number
        bursts = shop.waiting + stage.rows_at(tick + 1) > stage.buffer
        if shop.waiting and (bursts or shop.waiting >= self.filled * stage.buffer):
            return FLUSH
        crowded = any(stage.rows_at(tick + ahead) > stage.rows for ahead in range(3))
        wanted = self.rush if self.rush and crowded else self.trigger
        if shop.trigger != wanted:
            return LOWER if shop.trigger > wanted else RAISE
        if shop.strategy != self.strategy:
            return STRATEGY
        if len(shop.busy) < self.buckets and tick >= LOADED and not shop.refusal(DOUBLE):
            return DOUBLE
        due = self.full and tick and tick % self.full == 0
        if due and (tick, FULL) not in shop.moves and not shop.refusal(FULL):
            return FULL
        return STEP if not shop.refusal(STEP) else None


class Sleeper(PlayersPlan):
    """A player who does nothing at all."""

    def __call__(self, shop: GameShop) -> str | None:
        """No move."""
        return None


PLAYERS: dict[str, PlayersPlan] = {
    "asleep": Sleeper(),
    "defaults": PlayersPlan(),
    "defaults, early flushes": PlayersPlan(filled=0.5),
    "trigger 2": PlayersPlan(2),
    "trigger 3": PlayersPlan(3),
    "trigger 4": PlayersPlan(4),
    "trigger 8": PlayersPlan(8),
    "leveled": PlayersPlan(strategy="leveled"),
    "leveled, trigger 2": PlayersPlan(2, "leveled"),
    "doubles early": PlayersPlan(4, buckets=2),
    "doubles twice": PlayersPlan(4, buckets=4),
    "raises before the rush": PlayersPlan(4, rush=MOST_TRIGGER),
    "doubles and raises": PlayersPlan(3, buckets=2, rush=MOST_TRIGGER),
    "full by the clock": PlayersPlan(12, full=12),
}
"""Fourteen who do not look at the stage."""
MENU = ("trigger 4", "leveled, trigger 2", "doubles twice", "raises before the rush", "full by the clock")
"""What the one who looks ahead rehearses."""


def looks_ahead(stage: Stage, *, seed: int) -> PlayersPlan:
    """The plan that keeps its budgets best in a rehearsal of the whole stage, with orders of another seed."""

    def worst(plan: PlayersPlan) -> float:
        return max(played_by(plan, stage, seed=seed + 1_000).shares().values())

    return min((PLAYERS[name] for name in MENU), key=worst)
