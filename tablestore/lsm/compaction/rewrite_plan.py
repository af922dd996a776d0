"""Which files of a compaction unit are rewritten, and which only change their level (FORMAT.md 12.3, 12.4).

Files that overlap are merged; small ones that do not are rewritten with their neighbours; large ones move.
Pure: no I/O. Used by the rewriter, which carries the steps out, by dry runs and by the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tablestore.format.manifests.data_file import DataFileMeta
from tablestore.lsm.compaction.decision import CompactUnit
from tablestore.lsm.levels.sorted_run import Levels, Section, SortedRun, key_sections


@dataclass(frozen=True, slots=True)
class Step:
    """Part of a unit: merge `sections` into new files, or, with `upgrade`, only change the level of that
    file."""

    sections: tuple[Section, ...] = ()
    upgrade: DataFileMeta | None = None

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The input files."""
        if self.upgrade is not None:
            return (self.upgrade,)
        return tuple(f for section in self.sections for run in section for f in run.files)


def plan_unit(
    unit: CompactUnit,
    levels: Levels,
    key: Callable[[bytes], Any],
    *,
    small_bytes: float,
    expired: Container[str] = (),
) -> tuple[Step, ...]:
    """The steps of `unit`, which was picked from `levels`; `key` makes serialized keys comparable."""
    if unit.file_by_file:
        return tuple(Step(((SortedRun.single(f),),)) for f in unit.files)
    return tuple(
        steps(
            key_sections(unit.files, key),
            output_level=unit.output_level,
            oldest_level=levels.oldest_level,
            small_bytes=small_bytes,
            expired=expired,
        )
    )


def drops_deletes(unit: CompactUnit, levels: Levels, *, marked: bool, newest_wins: bool) -> bool:
    """Whether the output leaves retracts out (I7, FORMAT.md 12.5): no level older than the output has their
    keys, or the table has such rows `marked` in deletion vectors. For whole runs any file in an older level
    counts, as in Java.

    Parts of runs may leave rows in newer levels that still need the deletes: rows of their keys that these
    beat or are merged into. With `newest_wins` only rows with smaller sequence numbers do.
    """
    last = unit.output_level >= levels.oldest_nonempty_level
    if marked or not unit.parts:
        return marked or last
    low = min(levels.key(f.min_key) for f in unit.files)
    high = max(levels.key(f.max_key) for f in unit.files)
    older = levels.upper[unit.output_level :]
    if not last and any(run.overlapping(low, high, levels.key) for run in older):
        return False
    newest = max(f.max_sequence for f in unit.files)
    return not any(file.min_sequence <= newest or not newest_wins for file in newer_overlapping(unit, levels))


def newer_overlapping(unit: CompactUnit, levels: Levels) -> Iterator[DataFileMeta]:
    """Files of levels newer than the unit's that overlap its keys and are not part of it."""
    newest = min(f.level for f in unit.files)
    if newest == 0:
        return
    low = min(levels.key(f.min_key) for f in unit.files)
    high = max(levels.key(f.max_key) for f in unit.files)
    for file in levels.level0:
        if levels.key(file.min_key) <= high and levels.key(file.max_key) >= low:
            yield file
    for run in levels.upper[: newest - 1]:
        yield from run.overlapping(low, high, levels.key)


def steps(
    sections: Sequence[Section],
    *,
    output_level: int,
    oldest_level: int,
    small_bytes: float,
    expired: Container[str] = (),
) -> Iterator[Step]:
    """The steps for the sections of a unit, in key order; files named in `expired` are rewritten, not
    moved."""

    def moved_or_rewritten(file: DataFileMeta) -> Iterator[Step]:
        may_hold_deletes = file.delete_count != 0  # an unknown count may hide retracts
        if (output_level == oldest_level and may_hold_deletes) or file.file_name in expired:
            yield Step(((SortedRun.single(file),),))
        elif file.level != output_level:
            yield Step(upgrade=file)

    def rewritten(pending: list[Section]) -> Iterator[Step]:
        if len(pending) == 1 and len(pending[0]) == 1:
            for file in pending[0][0].files:
                yield from moved_or_rewritten(file)
        elif pending:
            yield Step(tuple(pending))

    pending: list[Section] = []
    for section in sections:
        if len(section) > 1:
            pending.append(section)
            continue
        for file in section[0].files:
            if file.file_size < small_bytes:
                pending.append((SortedRun.single(file),))
                continue
            yield from rewritten(pending)
            pending = []
            yield from moved_or_rewritten(file)
    yield from rewritten(pending)
