"""Recorded picks and partitions: a layout, options and another implementation's result, one JSON object a
line.

A pick has `num_levels`, `trigger`, `max_size_amp`, `size_ratio`, maybe `off_peak_ratio` (in force at that
hour), `interval_ms` with `since_last_full_ms`, `total_size_threshold`, `incremental_size_threshold`,
`force_up_level_0`; `runs` as [level, [size, min key, max key], …], level 0 newest first and then level by
level, with files numbered in that order; and `pick`: null, or `output_level` and `files`, maybe `discarded`.
A partition into sections has `files` as [min key, max key], numbered, and `sections`, each a list of runs
of numbers, whose order has no meaning; with `ties` only the count of runs is compared. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.format.manifests.data_file import EMPTY_STATS, DataFileMeta
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.compaction.universal import pick
from tablestore.lsm.levels.sorted_run import Levels, SortedRun, key_sections

_NEEDED = ("num_levels", "trigger", "max_size_amp", "size_ratio", "runs", "pick")
_THRESHOLDS = ("interval_ms", "since_last_full_ms", "total_size_threshold", "incremental_size_threshold")
_OPTIONAL = (*_THRESHOLDS, "off_peak_ratio", "force_up_level_0", "id")
_SECTIONS = ("files", "sections", "ties", "id")
_MAX_LONG = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of replaying recorded cases: how many, how many differ, the first differences as text, and
    the lines that are not cases, with the reason."""

    cases: int
    wrong: int
    shown: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


def check_picks(lines: Iterable[str], show: int = 5) -> Checked:
    """The result of replaying recorded picks and partitions, one JSON object a line; empty lines are
    skipped."""
    cases = wrong = 0
    shown: list[str] = []
    damaged: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            mismatch = difference(_case(line), f"line {number}")
        except InvalidRequest as e:
            damaged.append(f"line {number}: {e}")
            continue
        cases += 1
        if mismatch is not None:
            wrong += 1
            shown += [mismatch] if len(shown) < show else []
    return Checked(cases, wrong, tuple(shown), tuple(damaged))


def difference(case: Mapping[str, Any], where: str = "") -> str | None:
    """How our result differs from the recorded one, with the layout and the reason; None when both agree.
    Raises InvalidRequest if this is not a case."""
    name = f"case {case['id']}" if "id" in case else where
    return _sections_differ(case, name) if "sections" in case else _pick_differs(case, name)


def recorded_case(case: Mapping[str, Any]) -> tuple[Levels, CompactionOptions, PickContext]:
    """The arguments of `pick` for one recorded pick. Files are named by their number."""
    _require_names(case, _NEEDED, _OPTIONAL)
    counts = _whole(case, "num_levels", 2), _whole(case, "trigger", 1)
    optional = {name: _whole(case, name, 0) for name in _THRESHOLDS if case.get(name) is not None}
    options = CompactionOptions(
        trigger=counts[1],
        num_levels=counts[0],
        max_size_amplification=_whole(case, "max_size_amp", None),
        size_ratio=_whole(case, "size_ratio", None),
        offpeak_start=0,
        offpeak_end=24,
        offpeak_ratio=_whole(case, "off_peak_ratio", None) if case.get("off_peak_ratio") is not None else 0,
        interval_ms=optional.get("interval_ms"),
        total_threshold=optional.get("total_size_threshold"),
        incremental_threshold=optional.get("incremental_size_threshold"),
        force_up_level0=_flag(case, "force_up_level_0"),
    )
    since = optional.get("since_last_full_ms")
    return _levels(case, counts[0]), options, PickContext(0, None if since is None else -since)


def _case(line: str) -> Mapping[str, Any]:
    try:
        case = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise InvalidRequest(f"not JSON: {e}") from None
    if not isinstance(case, dict):
        raise InvalidRequest(f"a case is a JSON object, not {line.strip()[:40]}")
    return case


def _require_names(case: Mapping[str, Any], needed: Sequence[str], optional: Sequence[str]) -> None:
    """Raise InvalidRequest for a missing or misspelt field; other unknown fields are ignored."""
    for name in case:
        near = get_close_matches(name.replace("-", "_"), {*needed, *optional} - case.keys(), 1, 0.75)
        if near and name not in needed and name not in optional:
            raise InvalidRequest(f"no field {name!r}: did you mean {near[0]!r}?")
    for name in needed:
        if name not in case:
            raise InvalidRequest(f"a case without {name!r}")


def _whole(case: Mapping[str, Any], name: str, minimum: int | None) -> int:
    return _number(case[name], name, minimum)


def _flag(case: Mapping[str, Any], name: str) -> bool:
    value = case.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(f"{name} {value!r} is neither true nor false")
    return value is True


def _number(value: Any, name: str, minimum: int | None) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"{name} {value!r} is not a whole number")
    if not -_MAX_LONG - 1 <= value <= _MAX_LONG or (minimum is not None and value < minimum):
        raise InvalidRequest(
            f"{name} {value} is not within {'-2^63' if minimum is None else minimum}..2^63-1"
        )
    return value


def _levels(case: Mapping[str, Any], num_levels: int) -> Levels:
    level0: list[DataFileMeta] = []
    upper = [SortedRun((), level) for level in range(1, num_levels)]
    last = number = 0
    for run in _list(case["runs"], "runs"):
        level, *spans = _list(run, "a run")
        _number(level, "level", 0)
        if not spans:
            raise InvalidRequest(f"a run of level {level} without files")
        if level >= num_levels or level < last or (level == last and level and upper[level - 1].files):
            raise InvalidRequest(f"a run of level {level} after level {last}, of {num_levels} levels")
        files = [_file(number + i, span, level) for i, span in enumerate(spans)]
        number, last = number + len(files), level
        if level:
            upper[level - 1] = SortedRun(tuple(files), level)
        elif len(files) > 1:
            raise InvalidRequest("a run of level 0 of more than one file")
        else:
            level0 += files
    return Levels(tuple(level0), tuple(upper))


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or (name != "runs" and not value):
        raise InvalidRequest(f"{name} must be a list, not {json.dumps(value)[:40]}")
    return value


def _file(number: int, span: Any, level: int) -> DataFileMeta:
    if not isinstance(span, list) or len(span) != 3:
        raise InvalidRequest(f"a file is [size, min key, max key], not {json.dumps(span)[:40]}")
    size = _number(span[0], "size", 0)
    low, high = (_number(key, "key", None) for key in span[1:])
    return DataFileMeta(
        file_name=str(number),
        file_size=size,
        row_count=1,
        min_key=_key(low),
        max_key=_key(high),
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence=-number,
        max_sequence=-number,
        schema_id=0,
        level=level,
    )


def _key(value: int) -> bytes:
    """A number as bytes that sort like numbers."""
    return (value + _MAX_LONG + 1).to_bytes(8, "big")


def _pick_differs(case: Mapping[str, Any], name: str) -> str | None:
    levels, options, at = recorded_case(case)
    decision = pick(levels, options, at)
    unit = decision.unit
    ours = None if unit is None else (unit.output_level, sorted(int(f.file_name) for f in unit.files))
    theirs = _recorded_unit(case["pick"])
    if ours == theirs:
        return None
    given = {n: v for n, v in case.items() if n in (*_NEEDED, *_OPTIONAL) and n not in ("runs", "pick", "id")}
    lines = [f"{name}: expected {theirs}, picked {ours}"]
    lines.append("  " + ", ".join(f"{n} {json.dumps(v)}" for n, v in given.items()))
    for run in levels.runs:
        for f in run.files:
            marks = [w for w, u in (("expected", theirs), ("picked", ours)) if u and int(f.file_name) in u[1]]
            lines.append(f"  L{f.level}  #{f.file_name}  {f.file_size:,} B  {' '.join(marks)}".rstrip())
    return "\n".join([*lines, decision.explain()])


def _recorded_unit(unit: Any) -> tuple[int, list[int]] | None:
    if unit is None:
        return None
    if not isinstance(unit, dict) or not isinstance(unit.get("files"), list):
        raise InvalidRequest("pick is neither null nor an object with output_level and files")
    if unit.get("discarded"):
        return None
    level = _number(unit.get("output_level"), "output_level", 0)
    return level, sorted(_number(n, "file", 0) for n in unit["files"])


def _sections_differ(case: Mapping[str, Any], name: str) -> str | None:
    _require_names(case, ("files", "sections"), _SECTIONS)
    files = [_file(i, [1, *_list(s, "a file")], 0) for i, s in enumerate(case["files"])]
    ours = [[[int(f.file_name) for f in r.files] for r in s] for s in key_sections(files, bytes)]
    theirs = [
        [[_number(n, "file", 0) for n in _list(run, "a run")] for run in _list(section, "a section")]
        for section in case["sections"]
    ]
    if _comparable(ours, case) == _comparable(theirs, case):
        return None
    lines = [f"{name}: expected sections {theirs}, made {ours}"]
    lines += [f"  #{i}  {span}" for i, span in enumerate(case["files"])]
    return "\n".join(lines)


def _comparable(sections: list[list[list[int]]], case: Mapping[str, Any]) -> list[Any]:
    """Sections in a comparable form: without the order of runs, and with ties without the files' runs."""
    if case.get("ties"):
        return [(len(section), sorted(n for run in section for n in run)) for section in sections]
    return [sorted(section) for section in sections]
