"""The settings of the panel: labels of the strategy's options, what was changed, and how it would be stored.

Invariants: values in force come from `ts.compaction_settings`; a change is a map of option keys that differs
from what the table has. Pure. Called by figure and widget.
"""

from collections.abc import Mapping
from typing import Any

import tablestore as ts

STRATEGY = "tablestore.compaction.strategy"
NOT_PAIMONS = "* Leveled is not Paimon's."
LEVELED_WARNING = (
    "* Leveled is not Paimon's: another engine that compacts this table goes on by universal rules."
)
_LABELS = {
    "num-sorted-run.compaction-trigger": "runs ≥",
    "compaction.size-ratio": "ratio %",
    "compaction.max-size-amplification-percent": "max amp %",
    "tablestore.compaction.leveled.level0-file-num-trigger": "L0 ≥",
    "tablestore.compaction.leveled.max-bytes-for-level-base": "L1 target",
    "tablestore.compaction.leveled.max-bytes-for-level-multiplier": "×",
}


def short_label(key: str) -> str:
    """The name of an option where there is little room."""
    return _LABELS.get(key, key.rpartition(".")[2])


def changed(asked: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, str]:
    """What of `asked` differs from the values in force under `options`."""
    strategy = str(asked.get(STRATEGY, ts.compaction_settings(options).strategy))
    base = {**{str(k): str(v) for k, v in options.items()}, STRATEGY: strategy}
    defaults = {setting.key: setting.text for setting in ts.compaction_settings(base).settings}
    defaults |= {STRATEGY: ts.compaction_settings(options).strategy}
    wanted = {str(key): str(value).strip() for key, value in asked.items()}
    return {key: value for key, value in wanted.items() if defaults.get(key) != value}


def inputs_of(settings: ts.CompactionSettings) -> list[dict[str, str]]:
    """The inputs of the page: key, label, value, and what it means."""
    return [
        {"key": s.key, "label": short_label(s.key), "value": s.text, "title": f"{s.key}: {s.meaning}"}
        for s in settings.settings
    ]


def store_code(name: str, asked: Mapping[str, str]) -> str:
    """The call that stores a change as table options."""
    return f"{name}.alter(ts.set_options({dict(asked)!r}))"
