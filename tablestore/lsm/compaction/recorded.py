"""Recorded picks, one JSON object a line: levels, options and another implementation's answer.

A line has `num_levels`, `trigger`, `max_size_amp`, `size_ratio`, `off_peak_ratio` (in force at that hour),
maybe `interval_ms` with `since_last_full_ms`, `total_size_threshold`, `incremental_size_threshold`,
`force_up_level_0`, `runs` as [level, [size, min key, max key], …] with files numbered in that order, and
`pick`: null, or `output_level` and `files`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tablestore.format.manifests.manifest import EMPTY_STATS, DataFileMeta
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.compaction.universal import pick
from tablestore.lsm.sorted_run import Levels, SortedRun


def recorded_case(case: Mapping[str, Any]) -> tuple[Levels, CompactionOptions, PickContext]:
    """The arguments of `pick` for one line of a file of recorded picks. Files are named by their number."""
    by_level: dict[int, list[DataFileMeta]] = {}
    number = 0
    for level, *files in case["runs"]:
        for size, low, high in files:
            file = DataFileMeta(
                file_name=str(number),
                file_size=size,
                row_count=1,
                min_key=low.to_bytes(8, "big", signed=True),
                max_key=high.to_bytes(8, "big", signed=True),
                key_stats=EMPTY_STATS,
                value_stats=EMPTY_STATS,
                min_sequence=-number,
                max_sequence=-number,
                schema_id=0,
                level=level,
            )
            by_level.setdefault(level, []).append(file)
            number += 1
    upper = tuple(SortedRun(tuple(by_level.get(i, ())), i) for i in range(1, case["num_levels"]))
    options = CompactionOptions(
        trigger=case["trigger"],
        num_levels=case["num_levels"],
        max_size_amplification=case["max_size_amp"],
        size_ratio=case["size_ratio"],
        offpeak_start=0,
        offpeak_end=24,
        offpeak_ratio=case.get("off_peak_ratio", 0),
        interval_ms=case.get("interval_ms"),
        total_threshold=case.get("total_size_threshold"),
        incremental_threshold=case.get("incremental_size_threshold"),
        force_up_level0=case.get("force_up_level_0", False),
    )
    now = 1 << 50
    since = case.get("since_last_full_ms")
    return (
        Levels(tuple(by_level.get(0, ())), upper),
        options,
        PickContext(now, None if since is None else now - since),
    )


def difference(case: Mapping[str, Any]) -> str | None:
    """What `pick` answers otherwise than recorded, with its reason; None when both agree."""
    decision = pick(*recorded_case(case))
    unit, wanted = decision.unit, case["pick"]
    if wanted is not None and wanted.get("discarded"):
        wanted = None
    ours = None if unit is None else (unit.output_level, sorted(int(f.file_name) for f in unit.files))
    theirs = None if wanted is None else (wanted["output_level"], sorted(wanted["files"]))
    if ours == theirs:
        return None
    return f"case {case.get('id')}: expected {theirs}, picked {ours}\n{decision.explain()}"


def check_picks(lines: Iterable[str], show: int = 5) -> tuple[int, int, list[str]]:
    """(cases, cases that differ, the first `show` differences) of recorded picks, one JSON object a line."""
    cases, wrong, shown = 0, 0, []
    for line in lines:
        if not line.strip():
            continue
        cases += 1
        found = difference(json.loads(line))
        if found is not None:
            wrong += 1
            if len(shown) < show:
                shown.append(found)
    return cases, wrong, shown
