"""The input of compaction rules besides the levels: a table's options, and the time; and its settings as
people see them (`ts.compaction_settings`), with defaults filled in. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tablestore.core.options.rules import require_known
from tablestore.core.options.table_options import (
    ChangelogProducer,
    CompactionStrategy,
    LookupCompact,
    MergeEngine,
    TableOptions,
    as_text,
)
from tablestore.lsm.levels.sorted_run import Levels

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """A table's options as the rules use them; sizes in bytes."""

    trigger: int = 5
    stop_trigger: int = 8
    num_levels: int = 6
    max_size_amplification: int = 200
    size_ratio: int = 1
    offpeak_start: int = -1
    offpeak_end: int = -1
    offpeak_ratio: int = 0
    interval_ms: int | None = None
    total_threshold: int | None = None
    incremental_threshold: int | None = None
    force_up_level0: bool = False
    level0_interval: int = 0  # level 0 is compacted from this number of files on
    target_bytes: int = 128 << 20
    small_file_ratio: float = 0.7
    strategy: CompactionStrategy = CompactionStrategy.UNIVERSAL
    level0_trigger: int = 4  # leveled: files of level 0 that start a compaction
    level_base_bytes: int = 1 << 30
    level_multiplier: int = 5
    newest_wins: bool = True  # the last row to arrive replaces all earlier ones of its key
    oldest_level_full_only: bool = False  # leveled: only full compactions write the oldest level

    @classmethod
    def of(cls, options: TableOptions) -> CompactionOptions:
        """The part of a primary-key table's options that concerns compaction."""
        return cls(
            trigger=options.compaction_trigger,
            stop_trigger=options.run_stop_trigger,
            num_levels=options.num_levels,
            max_size_amplification=options.max_size_amplification,
            size_ratio=options.size_ratio,
            offpeak_start=options.offpeak_start,
            offpeak_end=options.offpeak_end,
            offpeak_ratio=options.offpeak_ratio,
            interval_ms=options.optimization_interval_ms,
            total_threshold=options.compaction_total_bytes,
            incremental_threshold=options.compaction_incremental_bytes,
            force_up_level0=options.force_up_level0 or options.needs_lookup,
            level0_interval=_interval(options),
            target_bytes=options.target_bytes(keyed=True),
            small_file_ratio=options.small_file_ratio,
            strategy=options.strategy,
            level0_trigger=options.leveled_level0_trigger,
            level_base_bytes=options.leveled_base_bytes,
            level_multiplier=options.leveled_multiplier,
            newest_wins=options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields,
            oldest_level_full_only=_counts_on_full(options),
        )

    @property
    def small_file_bytes(self) -> float:
        """Size below which a file is rewritten with its neighbours instead of moved."""
        return self.small_file_ratio * self.target_bytes

    @property
    def always_tried(self) -> bool:
        """Whether a universal rule may fire with few runs."""
        return self.force_up_level0 or self.early_full

    def quiet(self, levels: Levels) -> bool:
        """Whether no rule of universal compaction can fire, whatever the sizes and the time: there are few
        runs, and every rule that is on counts them."""
        few = not self.leveled and levels.run_count < self.trigger
        return few and not self.always_tried

    @property
    def leveled(self) -> bool:
        """Whether levels have target sizes; otherwise runs are compared with each other."""
        return self.strategy is CompactionStrategy.LEVELED

    @property
    def early_full(self) -> bool:
        """Whether an option starts full compactions by time or bytes."""
        limits = (self.interval_ms, self.total_threshold, self.incremental_threshold)
        return any(limit is not None for limit in limits)

    def backlog(self, levels: Levels) -> int:
        """What the stop trigger counts: sorted runs, or files of level 0 where levels have target sizes."""
        return len(levels.level0) if self.leveled else levels.run_count

    def stalls(self, levels: Levels) -> bool:
        """Whether the backlog exceeds the stop trigger, so that a writer compacts before it goes on."""
        return self.backlog(levels) > self.stop_trigger

    def target(self, level: int) -> int:
        """Target bytes of a level from 1 on; what exceeds them moves to the next level (leveled)."""
        return self.level_base_bytes * self.level_multiplier ** (level - 1)

    def percent(self, hour: int) -> float:
        """100 plus the size ratio in force at that hour of the day."""
        start, end = self.offpeak_start, self.offpeak_end
        if start == -1 or end == -1 or start == end:
            quiet = False
        elif start < end:
            quiet = start <= hour < end
        else:
            quiet = hour >= start or hour < end
        return 100.0 + self.size_ratio + (self.offpeak_ratio if quiet else 0)


def _counts_on_full(options: TableOptions) -> bool:
    """Whether changelogs or an option take the oldest level for the result of the last full compaction."""
    asked = options.full_delta_commits is not None or options.optimization_interval_ms is not None
    return asked or options.changelog_producer is ChangelogProducer.FULL_COMPACTION


def _interval(options: TableOptions) -> int:
    """Files of level 0 from which on it is compacted: a flush makes one, as a trigger does in the
    original."""
    gentle = options.needs_lookup and options.lookup_compact is LookupCompact.GENTLE
    return options.lookup_max_interval if gentle else 0


First = Callable[[Levels, int], Any]
"""Chooses the file of a level from 1 on that moves first, a `leveled.Candidate`."""


@dataclass(frozen=True, slots=True)
class PickContext:
    """The state that a pick uses besides the levels. Times: local wall clock in ms, as `_CREATION_TIME`."""

    now_ms: int = 0
    last_full_ms: int | None = None
    first: First | None = None  # chooses the file of a level that moves first; None: the least overlapping

    @classmethod
    def at(cls, now_ms: int, levels: Levels) -> PickContext:
        """The context after a restart: the last full compaction made the oldest level's newest file."""
        top = levels.upper[-1].files if levels.upper else ()
        return cls(
            now_ms, max((f.creation_time_ms for f in top if f.creation_time_ms is not None), default=None)
        )

    @property
    def hour(self) -> int:
        """Hour of the day, 0..23."""
        return self.now_ms // _HOUR_MS % 24


STRATEGY = "tablestore.compaction.strategy"
_TURNED = {
    CompactionStrategy.UNIVERSAL: ("compaction_trigger", "size_ratio", "max_size_amplification"),
    CompactionStrategy.LEVELED: ("leveled_level0_trigger", "leveled_base_bytes", "leveled_multiplier"),
}


@dataclass(frozen=True, slots=True)
class CompactionSetting:
    """One option: its key, the value in force as it is stored, whether it was given, and what it means."""

    key: str
    text: str
    given: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The strategy and its settings. Compaction begins at `trigger` runs, writers wait at more than
    `stop_trigger`; with leveled both count files of level 0."""

    strategy: str
    settings: tuple[CompactionSetting, ...]
    trigger: int
    stop_trigger: int
    num_levels: int
    write_only: bool

    @property
    def leveled(self) -> bool:
        """Whether levels have target sizes; otherwise runs are compared with each other."""
        return self.strategy == CompactionStrategy.LEVELED.value


def compaction_settings(options: Mapping[str, Any]) -> CompactionSettings:
    """The compaction settings of table `options`. Raises InvalidOption.

    >>> ts.compaction_settings({"num-sorted-run.compaction-trigger": 4}).stop_trigger
    7
    """
    given = as_text(options)
    require_known(given)
    parsed = TableOptions.parse(given)
    of = {f.name: f for f in fields(TableOptions)}
    settings = tuple(
        _setting(of[name].metadata, getattr(parsed, name), given) for name in _TURNED[parsed.strategy]
    )
    leveled = parsed.strategy is CompactionStrategy.LEVELED
    return CompactionSettings(
        parsed.strategy.value,
        settings,
        parsed.leveled_level0_trigger if leveled else parsed.compaction_trigger,
        parsed.run_stop_trigger,
        parsed.num_levels,
        parsed.write_only,
    )


def _setting(metadata: Mapping[str, Any], value: int, given: Mapping[str, str]) -> CompactionSetting:
    key = metadata["key"]
    text = given.get(key) or (_size(value) if key.endswith("level-base") else str(value))
    return CompactionSetting(key, text, key in given, metadata["meaning"])


def _size(count: int) -> str:
    """Bytes as an option's text: `1 gb`."""
    for shift, unit in ((30, "gb"), (20, "mb"), (10, "kb")):
        if count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return str(count)
