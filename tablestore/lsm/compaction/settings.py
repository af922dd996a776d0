"""CompactionSettings: the strategy, the options that control it, the trigger and the stop trigger.

Made of stored options, with defaults filled in. Pure. `ts.compaction_settings`; shown and edited by widgets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tablestore.core.options.rules import require_known
from tablestore.core.options.table_options import CompactionStrategy, TableOptions, as_text

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
