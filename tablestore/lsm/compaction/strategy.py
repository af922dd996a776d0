"""The strategy of a table, asked: universal (Paimon's) or leveled. What does not go with leveled is refused.

Pure. Called by writers, compaction jobs, dry runs and the simulator; `require_strategy` when a table is
created, altered or opened for writing.
"""

from __future__ import annotations

from tablestore.errors import InvalidOption
from tablestore.format.schema import TableSchema
from tablestore.lsm.compaction import leveled, universal
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.decision import Decision
from tablestore.lsm.sorted_run import Levels
from tablestore.options import ChangelogProducer, CompactionStrategy, MergeEngine, TableOptions

_KEY = "tablestore.compaction.strategy"
_MERGED_IN_ORDER = (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)


def pick(levels: Levels, options: CompactionOptions, at: PickContext) -> Decision:
    """What the table's strategy compacts next in a bucket, with its reason; the unit is None if nothing."""
    return (leveled if options.leveled else universal).pick(levels, options, at)


def require_strategy(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOption naming the option that does not go with leveled compaction.

    Most count on a bucket that is brought to its top level as a whole, which leveled never does by itself.
    And it merges older rows while newer ones wait above, so rows that are merged into each other must come
    in their order.
    """
    if options.strategy is not CompactionStrategy.LEVELED:
        return
    if not schema.primary_keys:
        raise InvalidOption(f"option {_KEY!r} = leveled needs a primary key: other tables have no levels")
    if options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        raise InvalidOption(
            f"changelog-producer = full-compaction does not go with {_KEY!r} = leveled: use lookup"
        )
    if options.sequence_fields and options.merge_engine in _MERGED_IN_ORDER:
        raise InvalidOption(
            f"'sequence.field' with merge-engine = {options.merge_engine.value} does not go with {_KEY!r} = "
            "leveled, which merges older rows before newer ones that belong between them: use universal"
        )
    full = {
        "full-compaction.delta-commits": options.full_delta_commits,
        "compaction.optimization-interval": options.optimization_interval_ms,
        "compaction.total-size-threshold": options.compaction_total_bytes,
        "compaction.incremental-size-threshold": options.compaction_incremental_bytes,
    }
    for key, value in full.items():
        if value is not None:
            raise InvalidOption(
                f"option {key!r} starts full compactions and does not go with {_KEY!r} = leveled"
            )
    if min(options.leveled_level0_trigger, options.leveled_base_bytes, options.leveled_multiplier) < 1:
        raise InvalidOption("options 'tablestore.compaction.leveled.…' must be at least 1")
