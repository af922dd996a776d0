"""Typed table options, parsed once from a table's string map.

A key that is absent always means what it means in Paimon 2.0.0 (FORMAT.md 24). Keys of ours start
with `tablestore.`; Paimon ignores them. Names of the Flink Table Store that Paimon no longer knows become
current ones when a table is created or altered (`current_names`). Options that are ignored, refused or
unknown: `rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tablestore.core.errors import InvalidOption
from tablestore.core.options.log_store import LogChangelogMode, LogConsistency, LogOptions, LogSystem
from tablestore.core.options.names import ALIAS_FAMILIES, ALIASES, LEVELED, WRITE_MODES
from tablestore.core.options.reading import LookupCacheMode, LookupOptions, ReadingOptions
from tablestore.core.options.storage import StorageOptions
from tablestore.core.options.values import (
    ENDLESS,
    INFINITE,
    ChangelogProducer,
    CompactionStrategy,
    Durability,
    LookupCompact,
    MergeEngine,
    SortOrder,
    duration_ms,
    memory_size,
    names,
)
from tablestore.core.options.writing import MergingOptions, WritingOptions

__all__ = [
    "ENDLESS",
    "INFINITE",
    "LEVELED_LEVELS",
    "ChangelogProducer",
    "CompactionStrategy",
    "Durability",
    "LogChangelogMode",
    "LogConsistency",
    "LogSystem",
    "LookupCacheMode",
    "LookupCompact",
    "MergeEngine",
    "SortOrder",
    "TableOptions",
    "as_text",
    "current_names",
    "duration_ms",
    "keys_of",
    "memory_size",
    "parsed",
    "require_levels",
    "with_levels",
]
LEVELED_LEVELS = 7  # as in RocksDB: with base 1 GiB and factor 5 levels 1 to 5 take 781 GiB


@dataclass(frozen=True)
class TableOptions(ReadingOptions, WritingOptions, MergingOptions, StorageOptions, LookupOptions, LogOptions):
    """Options the engine reads. Each field: key, parser, default of Paimon 2.0.0, meaning."""

    @property
    def num_levels(self) -> int:
        """Levels of a fresh tree: `num-levels`, else the trigger plus one (leveled: seven)."""
        if self.levels is not None:
            return self.levels
        return LEVELED_LEVELS if self.strategy is CompactionStrategy.LEVELED else self.compaction_trigger + 1

    @property
    def run_stop_trigger(self) -> int:
        """Sorted runs (leveled: files of level 0) beyond which a writer compacts before it goes on."""
        return self.stop_trigger if self.stop_trigger is not None else self.compaction_trigger + 3

    @property
    def changelog_min_retained(self) -> int:
        """Changelogs always kept."""
        own = self.changelog_min_retained_own
        return self.snapshot_min_retained if own is None else own

    @property
    def changelog_max_retained(self) -> int:
        """Maximum changelogs kept."""
        own = self.changelog_max_retained_own
        return self.snapshot_max_retained if own is None else own

    @property
    def changelog_time_retained_ms(self) -> int:
        """Age in ms at which a changelog may expire."""
        own = self.changelog_time_retained_own_ms
        return self.snapshot_time_retained_ms if own is None else own

    @property
    def changelog_decoupled(self) -> bool:
        """Whether changelogs outlive their snapshots."""
        return (
            self.changelog_max_retained > self.snapshot_max_retained
            or self.changelog_time_retained_ms > self.snapshot_time_retained_ms
            or self.changelog_min_retained > self.snapshot_min_retained
        )

    @property
    def sequence_fields(self) -> tuple[str, ...]:
        """Columns of `sequence.field`."""
        return tuple(n.strip() for n in (self.sequence_field or "").split(",") if n.strip())

    @property
    def skips_unmergeable(self) -> bool:
        """Whether keys that cannot be merged are left out of reads."""
        return self.on_merge_error == "skip"

    @property
    def scan_tolerant(self) -> bool:
        """Whether scans pass over data files that are damaged or missing."""
        return self.scan_ignore_corrupt or self.scan_ignore_lost

    @property
    def needs_lookup(self) -> bool:
        """Whether compaction of level 0 looks keys up in older levels (primary-key tables)."""
        producer, engine = self.changelog_producer, self.merge_engine
        wanted = producer is ChangelogProducer.LOOKUP or engine is MergeEngine.FIRST_ROW
        return wanted or self.deletion_vectors or self.force_lookup

    @property
    def merges_by_level(self) -> bool:
        """Whether a merge of rows needs their levels: where a row is the merge of all older levels, merging
        those again would count them twice."""
        return self.needs_lookup and self.merge_engine in (
            MergeEngine.PARTIAL_UPDATE,
            MergeEngine.AGGREGATION,
        )

    @property
    def looks_up_for_rows(self) -> bool:
        """Whether those lookups serve rows, not a changelog alone: they mark older rows as deleted, or merge
        them into newer ones, which readers rely on."""
        others = self.deletion_vectors or self.force_lookup
        return self.needs_lookup and (others or self.merge_engine is not MergeEngine.DEDUPLICATE)

    @property
    def lookup_max_interval(self) -> int:
        """Compaction triggers after which a table with gentle lookups compacts level 0."""
        given = 2 * self.compaction_trigger if self.lookup_interval is None else self.lookup_interval
        return max(self.compaction_trigger, given)

    def target_bytes(self, *, keyed: bool) -> int:
        """Size at which a data file rolls: 128 MB with a primary key, 256 MB without."""
        return self.target_file_bytes or ((128 << 20) if keyed else (256 << 20))

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> TableOptions:
        """Read the keys this engine knows; raises InvalidOption that names key, value and what is allowed."""
        values: dict[str, Any] = {}
        for f in fields(cls):
            for key in (f.metadata["key"], *f.metadata["aliases"]):
                if key in options:
                    values[f.name] = parsed(key, options[key], f.metadata["parse"])
                    break
        return cls(**values)


def parsed(key: str, text: str, parse: Callable[[str], Any]) -> Any:
    """The value of an option's text; raises InvalidOption that names key, value and what is allowed."""
    try:
        return parse(text)
    except ValueError as e:
        raise InvalidOption(f"option {key!r} is {text!r}; it must be {e}") from None


def as_text(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Options in Python values (int, bool, str) as the strings that are stored."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidOption(f"options {options!r} must be a mapping, {{'bucket': 2}}")
    return {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in (options or {}).items()}


def current_names(
    options: Mapping[str, str], *, keyed: bool, stored: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The options with names of the Flink Table Store replaced by current ones, which win where both are set.

    `stored` are those that the table has already. Raises InvalidOption for a write mode that a table with a
    primary key (`keyed`) cannot have. Old names without a current meaning stay as they are.
    """
    mode = options.get("write-mode", "auto")
    if mode not in WRITE_MODES:
        raise InvalidOption(f"option 'write-mode' is {mode!r}; it must be one of {', '.join(WRITE_MODES)}")
    if keyed and mode == "append-only":
        raise InvalidOption(
            "option 'write-mode' is append-only, but the table has a primary key: leave one of them out"
        )
    strategy = {**(stored or {}), **options}.get("tablestore.compaction.strategy", "")
    leveled = strategy.strip().lower() == CompactionStrategy.LEVELED.value
    renamed = {k: v for k, v in options.items() if k not in ALIASES}
    for old, (new, values) in ALIASES.items():
        if old in options:
            name = LEVELED.get(old, new) if leveled else new
            renamed.setdefault(name, values.get(options[old], options[old].removesuffix("%").strip()))
    for old, new in ALIAS_FAMILIES.items():
        for key in [k for k in renamed if k.startswith(old)]:
            renamed.setdefault(new + key.removeprefix(old), renamed[key])
            del renamed[key]
    if (
        stored is None
        and mode == "append-only"
        and renamed.get("bucket") == "1"
        and not renamed.get("bucket-key")
    ):
        renamed["bucket"] = "-1"  # what the Flink Table Store meant: all rows in one place, in their order
    return renamed


def with_levels(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a leveled table with its number of levels explicit, as other engines assume another."""
    if TableOptions.parse(options).strategy is not CompactionStrategy.LEVELED or "num-levels" in options:
        return dict(options)
    return {**options, "num-levels": str(LEVELED_LEVELS)}


def keys_of(options: dict[str, str], key: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """Key columns from the argument, or from option `primary-key` or `partition`, which is removed."""
    said = names(options.pop(key, ""))
    if said and given and said != given:
        raise InvalidOption(
            f"option {key!r} is {', '.join(said)}, but the columns given are {', '.join(given)}"
        )
    return given or said


def require_levels(options: TableOptions) -> None:
    """Raise InvalidOption naming the option whose value is too small for any compaction."""
    minimums = {"num-sorted-run.compaction-trigger": (options.compaction_trigger, 1)}
    minimums["num-levels"] = (options.num_levels, 2)
    if options.strategy is CompactionStrategy.LEVELED:
        name = "tablestore.compaction.leveled."
        minimums[name + "level0-file-num-trigger"] = (options.leveled_level0_trigger, 1)
        minimums[name + "max-bytes-for-level-base"] = (options.leveled_base_bytes, 1)
        minimums[name + "max-bytes-for-level-multiplier"] = (options.leveled_multiplier, 1)
    for key, (value, smallest) in minimums.items():
        if value < smallest:
            raise InvalidOption(f"option {key!r} is {value}; it must be at least {smallest}")
