"""Picks by the compaction strategy of a table, universal (Paimon's) or leveled; the loop in which a writer
picks for a bucket: when, and how often (FORMAT.md 12.9).

A writer relieves the bucket before a flush while it has more runs than the stop trigger (the write stall),
and settles it when it prepares a commit: it picks until no rule fires. `carry_out` executes a decision: the
writer rewrites files, the simulator metadata. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import CompactionStrategy, TableOptions
from tablestore.format.manifests.data_file import DataFileMeta
from tablestore.lsm.compaction import leveled, universal
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.options import STRATEGY, CompactionOptions, First, PickContext
from tablestore.lsm.compaction.universal import full
from tablestore.lsm.levels.sorted_run import Levels

if TYPE_CHECKING:
    from tablestore.format.schema import TableSchema

CarryOut = Callable[[Decision, Levels], Levels | None]


def pick(levels: Levels, options: CompactionOptions, at: PickContext) -> Decision:
    """The next compaction of a bucket by the table's strategy, with its reason; its unit may be None."""
    return (leveled if options.leveled else universal).pick(levels, options, at)


def require_strategy(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOption for leveled compaction of a table without levels, or with targets below 1."""
    if options.strategy is not CompactionStrategy.LEVELED:
        return
    if not schema.primary_keys:
        raise InvalidOption(f"option {STRATEGY!r} = leveled needs a primary key: other tables have no levels")
    if min(options.leveled_level0_trigger, options.leveled_base_bytes, options.leveled_multiplier) < 1:
        raise InvalidOption("options 'tablestore.compaction.leveled.…' must be at least 1")


class CompactionLoop:
    """Picks from `levels` until there is no more work. `carry_out` gives the levels after a decision, None if
    nothing changed; `now_ms` is the local wall clock; `first` chooses the file of a level that moves
    first."""

    __slots__ = ("_carry_out", "_first", "_now_ms", "last_full_ms", "levels", "options", "stalled")

    def __init__(
        self,
        levels: Levels,
        options: CompactionOptions,
        *,
        carry_out: CarryOut,
        now_ms: Callable[[], int],
        first: First | None = None,
    ) -> None:
        self.levels, self.options = levels, options
        self._carry_out, self._now_ms, self._first = carry_out, now_ms, first
        self.last_full_ms = PickContext.at(0, levels).last_full_ms
        self.stalled = False  # whether a writer waits for what is carried out

    def relieve(self) -> Iterator[Decision]:
        """The decisions that are carried out before a flush, one by one: the write stall."""
        while self.options.stalls(self.levels):
            self.stalled = True
            try:
                decision = self.once()
            finally:
                self.stalled = False
            if decision is None:
                return
            yield decision

    def settle(self) -> Iterator[Decision]:
        """The decisions that are carried out before a commit, one by one."""
        while (decision := self.once()) is not None:
            yield decision

    def decide(self) -> Decision:
        """The next pick, not carried out."""
        return pick(self.levels, self.options, PickContext(self._now_ms(), self.last_full_ms, self._first))

    def once(self) -> Decision | None:
        """The next pick, carried out; None when there is no work."""
        if self.options.quiet(self.levels):
            return None
        decision = self.decide()
        return decision if self._done(decision) else None

    def fully(self, must_rewrite: Callable[[DataFileMeta], bool] = lambda _: False) -> Decision | None:
        """The decision that compacted everything to the oldest level; None when nothing needed it."""
        decision = full(self.levels, must_rewrite=must_rewrite)
        return decision if self._done(decision) else None

    def _done(self, decision: Decision) -> bool:
        if decision.unit is None:
            return False
        oldest = self.levels.oldest_level
        after = self._carry_out(decision, self.levels)
        if decision.unit.output_level == oldest:
            self.last_full_ms = self._now_ms()
        if after is None:
            return False
        self.levels = after
        return True
