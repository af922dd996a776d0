"""Picks by the compaction strategy of a table: universal (Paimon's) or leveled.

Pure. Called by writers, compaction jobs, dry runs and the simulator; `require_strategy` when a table is
created, altered or opened for writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import CompactionStrategy, TableOptions
from tablestore.lsm.compaction import leveled, universal
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.levels.sorted_run import Levels

if TYPE_CHECKING:
    from tablestore.format.schema import TableSchema

_KEY = "tablestore.compaction.strategy"


def pick(levels: Levels, options: CompactionOptions, at: PickContext) -> Decision:
    """The next compaction of a bucket by the table's strategy, with its reason; its unit may be None."""
    return (leveled if options.leveled else universal).pick(levels, options, at)


def quiet(levels: Levels, options: CompactionOptions) -> bool:
    """True if a pick would surely have no unit, found without picking; False if it may have one."""
    return not options.leveled and universal.quiet(levels, options)


def require_strategy(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOption for leveled compaction of a table without levels, or with targets below 1."""
    if options.strategy is not CompactionStrategy.LEVELED:
        return
    if not schema.primary_keys:
        raise InvalidOption(f"option {_KEY!r} = leveled needs a primary key: other tables have no levels")
    if min(options.leveled_level0_trigger, options.leveled_base_bytes, options.leveled_multiplier) < 1:
        raise InvalidOption("options 'tablestore.compaction.leveled.…' must be at least 1")
