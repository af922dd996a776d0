"""One simulated bucket: files that are metadata and a sketch of their keys, under the engine's own loop.

Picks, rewrite plans, the dropping of deletes and the accounts are those of the engine; only the result of a
merge is computed from drawn keys or from their density (`contents`). The cost of a flush is that of what it
changes, not of the whole bucket. Not thread-safe. Used by `Simulator`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from tablestore.format import binary_row
from tablestore.format.manifests.manifest import APPEND_SOURCE, COMPACT_SOURCE, EMPTY_STATS, DataFileMeta
from tablestore.format.types.arrow_types import BIGINT
from tablestore.insight.inspect.amplification.ledger import Account
from tablestore.insight.simulator.contents import Content, Contents, Part
from tablestore.insight.simulator.sim_levels import Rankings, SimRun, applied
from tablestore.insight.simulator.workload import FlushedRows
from tablestore.lsm.compaction.decision import CompactUnit, Decision
from tablestore.lsm.compaction.loop import CompactionLoop
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.compaction.rewrite_plan import drops_deletes, plan_unit
from tablestore.lsm.levels.bucket import file_rows
from tablestore.lsm.levels.sorted_run import Levels, Section, byte_order, key_sections, newest_first


@dataclass(slots=True)
class RuleSum:
    """Sums of the compactions of one rule."""

    compactions: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_moved: int = 0

    def add(self, read: int, written: int, moved: int) -> None:
        """One more compaction."""
        self.compactions += 1
        self.bytes_read += read
        self.bytes_written += written
        self.bytes_moved += moved

    def join(self, other: RuleSum) -> None:
        """Add what the rule did in another bucket."""
        self.compactions += other.compactions
        self.bytes_read += other.bytes_read
        self.bytes_written += other.bytes_written
        self.bytes_moved += other.bytes_moved


KEY = (BIGINT.not_null(),)
_min_key = attrgetter("min_key")
_FEW = 16  # files of a unit that are looked at together


class SimFile:
    """The attributes of a `DataFileMeta` that compaction reads, with numbers for keys. Immutable by
    convention."""

    __slots__ = (
        "creation_time_ms",
        "delete_count",
        "file_name",
        "file_size",
        "file_source",
        "keys",
        "level",
        "max_key",
        "max_sequence",
        "min_key",
        "min_sequence",
        "row_count",
    )

    def __init__(self, file_name: str, file_size: int, part: Part, level: int) -> None:
        self.file_name, self.file_size, self.level = file_name, file_size, level
        self.keys, self.row_count, self.delete_count, self.min_key, self.max_key = part
        self.min_sequence = self.max_sequence = self.creation_time_ms = 0
        self.file_source: int | None = APPEND_SOURCE

    @property
    def content(self) -> Content:
        """Its keys, rows and deletes."""
        return self.keys, self.row_count, self.delete_count

    def upgraded(self, level: int) -> SimFile:
        """The same file at another level."""
        part = (*self.content, self.min_key, self.max_key)
        other = SimFile(self.file_name, self.file_size, part, level)
        other.min_sequence, other.max_sequence = self.min_sequence, self.max_sequence
        other.creation_time_ms, other.file_source = self.creation_time_ms, self.file_source
        return other

    def meta(self, weight: float = 1.0) -> DataFileMeta:
        """As files of a table with one BIGINT key are described; `weight` rows stand behind each key."""
        low, high = int(self.min_key * weight), int((self.max_key + 1) * weight) - 1
        return DataFileMeta(
            file_name=self.file_name,
            file_size=self.file_size,
            row_count=self.row_count,
            min_key=binary_row.encode([low], KEY),
            max_key=binary_row.encode([high], KEY),
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence=self.min_sequence,
            max_sequence=self.max_sequence,
            schema_id=0,
            level=self.level,
            creation_time_ms=self.creation_time_ms,
            delete_count=self.delete_count,
            file_source=self.file_source,
        )


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Bytes of files by their rows, and where output is cut."""

    row_bytes: float
    file_bytes: float = 0.0
    target_bytes: int = 128 << 20

    def of(self, rows: int) -> int:
        """Bytes of one file of so many rows."""
        return round(self.file_bytes + self.row_bytes * rows)

    @property
    def most_rows(self) -> int:
        """Rows of a file at which the next one begins."""
        return file_rows(self.row_bytes, target_bytes=self.target_bytes, file_bytes=self.file_bytes)


class SimBucket:
    """A bucket's levels, its account, and what flushes and compactions do to them. Callers set `now_ms`."""

    def __init__(self, options: CompactionOptions, sizes: FileSizes, contents: Contents) -> None:
        self.options, self.account, self.now_ms = options, Account(), 0
        self._sizes, self.contents = sizes, contents
        self._most_rows = sizes.most_rows
        self._sequence, self._number = 0, 0
        self._rankings = Rankings()
        empty = Levels((), tuple(SimRun((), level) for level in range(1, options.num_levels)), byte_order)
        self.loop = CompactionLoop(
            empty,
            options,
            carry_out=self._carry_out,
            now_ms=lambda: self.now_ms,
            first=self._rankings.first,
        )
        self.rules: dict[str, RuleSum] = defaultdict(RuleSum)
        self.most_runs = 0  # that a flush left
        self.last: tuple[int, int, int] = (0, 0, 0)  # bytes read, written and moved by the last compaction
        self.changed: tuple[Sequence[Any], Sequence[Any]] = (
            (),
            (),
        )  # files it, or a flush, took away and made

    @property
    def levels(self) -> Levels:
        """The files as they are."""
        return self.loop.levels

    def begin(self, files: Sequence[SimFile]) -> None:
        """Hold files at their levels from the beginning; their bytes count as written once."""
        for f in files:
            self.account.put(f.level, f.file_size, f.row_count, f.delete_count)
            self.account.ingested += f.file_size
        levels = Levels.of(files, self.options.num_levels)  # type: ignore[arg-type]  # files of a simulation
        upper = tuple(SimRun(run.files, run.level) for run in levels.upper)
        self.loop.levels = Levels(levels.level0, upper, byte_order)
        self._sequence = max((f.max_sequence + 1 for f in files), default=0)
        self.changed, self.most_runs = ((), files), self.levels.run_count

    def flush(self, rows: FlushedRows) -> int:
        """Rows become files of level 0; the bytes written."""
        files = self._files((rows.sample, rows.rows, rows.deletes), (rows.low, rows.high), level=0)
        total = 0
        for file in files:
            file.min_sequence, file.max_sequence = self._sequence, self._sequence + rows.rows - 1
            self.account.put(0, file.file_size, file.row_count, file.delete_count)
            total += file.file_size
        self._sequence += rows.rows
        self.account.ingested += total
        self.changed = (), files
        old, new = self.loop.levels, _newest_first(files)
        self.loop.levels = levels = Levels((*new, *old.level0), old.upper, old.key)
        runs = levels.run_count
        if runs > self.most_runs:
            self.most_runs = runs
        return total

    def set_options(self, options: CompactionOptions) -> None:
        """Other options from now on; files stay where they are, and so do the levels that hold some."""
        self.options = self.loop.options = options
        self._sizes = replace(self._sizes, target_bytes=options.target_bytes)
        self._most_rows = self._sizes.most_rows
        levels = self.loop.levels
        count = max(options.num_levels - 1, levels.oldest_nonempty_level, 1)
        empty = (SimRun((), level) for level in range(len(levels.upper) + 1, count + 1))
        self.loop.levels = Levels(levels.level0, (*levels.upper[:count], *empty), levels.key)

    def try_out(self, decision: Decision) -> _Rewritten | None:
        """The files that carrying out a decision would remove and make; the bucket stays as it is."""
        if decision.unit is None:
            return None
        number = self._number
        try:
            return self._merge(decision.unit, self.levels)
        finally:
            self._number = number

    def _files(self, content: Content, ends: tuple[int, int], *, level: int) -> list[SimFile]:
        """Rows in key order, from one key to another, as files of about the target size."""
        files = []
        for part in self.contents.cut(content, self._most_rows, ends):
            self._number += 1
            file = SimFile(f"f{self._number}", self._sizes.of(part[1]), part, level)
            file.creation_time_ms = self.now_ms
            files.append(file)
        return files

    def _carry_out(self, decision: Decision, levels: Levels) -> Levels | None:
        """Merge the keys of what the plan rewrites, move what it moves, and enter both."""
        unit, account = decision.unit, self.account
        assert unit is not None
        rewritten = self._merge(unit, levels)
        if rewritten is None:
            return None
        before, after = rewritten.before, rewritten.after
        read = written = -rewritten.moved
        gone: dict[int, list[Any]] = {}
        come: dict[int, list[Any]] = {}
        for f in before:
            read += f.file_size
            account.take(f.level, f.file_size, f.row_count, f.delete_count)
            gone.setdefault(f.level, []).append(f)
        for f in after:
            written += f.file_size
            account.put(f.level, f.file_size, f.row_count, f.delete_count)
            come.setdefault(f.level, []).append(f)
        account.compaction(unit.output_level, read=read, written=written, moved=rewritten.moved)
        self.last, self.changed = (read, written, rewritten.moved), (before, after)
        self.rules[decision.rule].add(*self.last)
        levels_after = applied(levels, gone, come)
        if self.options.leveled:
            self._rankings.follow(levels, levels_after, gone, come)
        return levels_after

    def drops(self, unit: CompactUnit, levels: Levels) -> bool:
        """Whether deletes vanish in a compaction."""
        return drops_deletes(unit, levels, marked=False, newest_wins=self.options.newest_wins)

    def _merge(self, unit: CompactUnit, levels: Levels) -> _Rewritten | None:
        """What becomes of a unit's files by the engine's plan; None if all stay as they are."""
        if _moves(unit):
            (file,) = unit.files
            return _Rewritten([file], [file.upgraded(unit.output_level)], file.file_size)
        drop = any(f.delete_count for f in unit.files) and self.drops(unit, levels)
        files: list[Any] = list(unit.files)
        level = unit.output_level
        if _all_meet(unit):
            content = self.contents.merged([f.content for f in files], drop)
            return _Rewritten(files, self._written(files, content, level))
        touched = self._touched(unit, levels)
        files = sorted(touched.files, key=_min_key)
        if not unit.file_by_file and _in_a_row(files, self.options.small_file_bytes):
            content = self.contents.joined([f.content for f in files], drop)
            return _Rewritten(files, self._written(files, content, level))
        return self._planned(touched, levels, drop)

    def _planned(self, unit: CompactUnit, levels: Levels, drop: bool) -> _Rewritten | None:
        """What the steps of the engine's plan come to."""
        rewritten, level = _Rewritten([], []), unit.output_level
        for step in plan_unit(unit, levels, byte_order, small_bytes=self.options.small_file_bytes):
            if step.upgrade is not None:
                rewritten.before.append(step.upgrade)
                rewritten.after.append(step.upgrade.upgraded(level))
                rewritten.moved += step.upgrade.file_size
                continue
            files = step.files
            rewritten.before += files
            rewritten.after += self._written(files, self._merged_sections(step.sections, drop), level)
        return rewritten if rewritten.before else None

    def _touched(self, unit: CompactUnit, levels: Levels) -> CompactUnit:
        """A unit of whole runs without the files of the output level that it cannot touch.

        Beside the files that overlap, only small ones next to them are: large ones stay as they are and part
        what is rewritten, and no two small ones lie side by side in a run that a compaction left.
        """
        run = levels.upper[unit.output_level - 1]
        files = run.files
        if unit.parts or unit.file_by_file or len(unit.files) == len(files) or not files:
            return unit
        others: Sequence[Any] = unit.files[: len(unit.files) - len(files)]
        low, high = min([f.min_key for f in others]), max([f.max_key for f in others])
        start, stop = run.span(low, high, byte_order)
        small = self.options.small_file_bytes
        while start and files[start - 1].file_size < small:
            start -= 1
        while stop < len(files) and files[stop].file_size < small:
            stop += 1
        return CompactUnit(unit.output_level, (*others, *files[start:stop]))

    def _written(self, inputs: Sequence[Any], content: Content, level: int) -> list[SimFile]:
        """The files that hold what came of `inputs`, in key order; none if nothing did."""
        if not len(content[0]) or not content[1]:
            return []
        ends = min([f.min_key for f in inputs]), max([f.max_key for f in inputs])
        files = self._files(content, ends, level=level)
        low, high = min([f.min_sequence for f in inputs]), max([f.max_sequence for f in inputs])
        for file in files:
            file.min_sequence, file.max_sequence, file.file_source = low, high, COMPACT_SOURCE
        return files

    def _merged_sections(self, sections: Sequence[Section], drop: bool) -> Content:
        """What sections that follow each other in key order are merged to."""
        if all(len(section) == 1 for section in sections):
            files: list[Any] = [f for (run,) in sections for f in run.files]
            return self.contents.joined([f.content for f in files], drop)
        parts = (self._merged_section(section, drop) for section in sections)
        return self.contents.joined([content for content in parts if content[1]], False)

    def _merged_section(self, section: Section, drop: bool) -> Content:
        """What the runs of a section are merged to."""
        files: Sequence[Any] = [f for run in section for f in run.files]
        if len(section) == 1:
            return self.contents.joined([f.content for f in files], drop)
        files = sorted(files, key=lambda f: (f.level, *newest_first(f)))
        return self.contents.merged([f.content for f in files], drop)

    def bytes_of(self, rows: int) -> int:
        """Bytes of a file of so many rows, 0 of none."""
        return self._sizes.of(rows) if rows else 0

    def compacted(self) -> Any:
        """The keys that are left, each once and without deletes."""
        sections = key_sections(self.levels.files, byte_order)
        parts = [self._merged_section(section, True) for section in sections]
        return self.contents.joined([part for part in parts if part[1]], False)[0]

    def compacted_bytes(self) -> int:
        """Bytes of a fully compacted copy of the bucket."""
        files = self.levels.files
        alone = _alone(files)
        rows = sum([f.row_count for f, is_alone in zip(files, alone, strict=True) if is_alone])
        sections = key_sections(
            [f for f, is_alone in zip(files, alone, strict=True) if not is_alone], byte_order
        )
        rows += sum(self._merged_section(section, True)[1] for section in sections)
        return self.bytes_of(rows)


@dataclass(slots=True)
class _Rewritten:
    """Files that a compaction removes and makes, a moved one being in both; bytes moved."""

    before: list[Any]
    after: list[Any]
    moved: int = 0


def _newest_first(files: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(sorted(files, key=newest_first)) if len(files) > 1 else tuple(files)


def _moves(unit: CompactUnit) -> bool:
    """Whether all of it is one file that the plan would only move."""
    (file, *others) = unit.files
    return not others and not file.delete_count and file.level != unit.output_level


def _in_a_row(files: Sequence[Any], small: float) -> bool:
    """Whether two or more files in key order are small and do not overlap, so that one step rewrites all."""
    if len(files) < 2 or max([f.file_size for f in files]) >= small:
        return False
    return all(a.max_key < b.min_key for a, b in pairwise(files))


def _alone(files: Sequence[Any]) -> list[bool]:
    """Of which files all rows stay in a compacted copy: no other has keys of theirs, and they hold no
    deletes."""
    low, high, deletes = (
        np.fromiter((getattr(f, name) for f in files), np.float64, len(files))
        for name in ("min_key", "max_key", "delete_count")
    )
    order = np.argsort(low, kind="stable")
    before = np.maximum.accumulate(np.concatenate(([-np.inf], high[order])))[:-1]
    after = np.concatenate((low[order][1:], [np.inf]))
    alone = np.empty(len(files), dtype=bool)
    alone[order] = (low[order] > before) & (high[order] < after)
    return (alone & (deletes == 0)).tolist()


def _all_meet(unit: CompactUnit) -> bool:
    """Whether all files share a key, so that they are one section, which is rewritten whole."""
    files = unit.files
    if not 1 < len(files) <= _FEW or unit.file_by_file:
        return False
    return max([f.min_key for f in files]) <= min([f.max_key for f in files])
