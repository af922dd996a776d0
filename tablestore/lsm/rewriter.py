"""Carrying out a compaction unit: files merged, moved or copied, section by section (format facts 12.3).

What overlaps is merged; small files that stand alone are rewritten with their neighbours; large ones only
change their level ("upgrade": no I/O). Rows that take keys away are dropped only when nothing lies below the
output level (I7). One window of the runs of a section is in memory. Outputs are deleted if anything fails.
Called by writers and by compaction tasks; belongs to one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from tablestore.format.manifest import COMPACT_SOURCE, DataFileMeta
from tablestore.lsm import interval, merge_reader
from tablestore.lsm.bucket_files import BucketFiles, FileNames, RollingWriter, write_all
from tablestore.lsm.compaction import CompactionOptions
from tablestore.lsm.decision import CompactUnit
from tablestore.lsm.interval import Section
from tablestore.lsm.merge_function import MergeFunction, merge_function, without_retracts
from tablestore.lsm.sorted_run import Levels, SortedRun, old_to_new

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactResult:
    """Files taken out of the levels and files put in. A moved file is in both, with its two levels."""

    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """Files that were made, not only moved."""
        moved = {f.file_name for f in self.before}
        return tuple(f for f in self.after if f.file_name not in moved)

    def then(self, later: CompactResult) -> tuple[CompactResult, tuple[DataFileMeta, ...]]:
        """Both as one result, and the files in between that no snapshot will ever name."""
        before = {f.file_name: f for f in self.before}
        after = {f.file_name: f for f in self.after}
        kept = {f.file_name for f in later.after}
        between = []
        for file in later.before:
            if file.file_name not in after:
                before[file.file_name] = file
                continue
            del after[file.file_name]
            if file.file_name not in before and file.file_name not in kept:
                between.append(file)
        after.update((f.file_name, f) for f in later.after)
        return CompactResult(tuple(before.values()), tuple(after.values())), tuple(between)


@dataclass(frozen=True, slots=True)
class Step:
    """Part of a unit: merge `sections` into new files, or, with `upgrade`, only give that file its new
    level."""

    sections: tuple[Section, ...] = ()
    upgrade: DataFileMeta | None = None


def steps(
    sections: Sequence[Section], *, output_level: int, max_level: int, small_bytes: float
) -> Iterator[Step]:
    """What to do with the sections of a unit, in key order. Pure."""

    def moved_or_rewritten(file: DataFileMeta) -> Iterator[Step]:
        if output_level == max_level and file.delete_count != 0:  # unknown counts may hide deletes
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


class Rewriter:
    """Runs units of one bucket. Its files have a uuid of their own."""

    def __init__(self, files: BucketFiles) -> None:
        self._files = files
        self._names = FileNames(files)
        self._key = interval.key_order([f.type for f in files.schema.key_fields])
        self._function: MergeFunction = merge_function(files.schema, files.options)
        self._small_bytes = CompactionOptions.of(files.options).small_file_bytes

    def run(self, unit: CompactUnit, levels: Levels) -> CompactResult:
        """Compact `unit`, picked from `levels`."""
        assert unit.output_level > 0, "compaction never writes level 0"
        drop = unit.output_level >= levels.highest_level  # I7: nothing below, so deletes may vanish
        plan = steps(
            interval.partition(unit.files, self._key),
            output_level=unit.output_level,
            max_level=levels.max_level,
            small_bytes=self._small_bytes,
        )
        before: list[DataFileMeta] = []
        after: list[DataFileMeta] = []
        written: list[str] = []
        try:
            for step in plan:
                if step.upgrade is not None:
                    before.append(step.upgrade)
                    after.append(step.upgrade.upgraded(unit.output_level))
                    continue
                made = self._rewrite(step.sections, unit.output_level, drop)
                written += [f.file_name for f in made]
                before += [f for section in step.sections for run in section for f in run.files]
                after += made
        except BaseException:
            self._files.delete(written)
            raise
        return CompactResult(tuple(before), tuple(after))

    def _rewrite(self, sections: Sequence[Section], level: int, drop: bool) -> tuple[DataFileMeta, ...]:
        writer = RollingWriter(self._files, self._names.data, level=level, source=COMPACT_SOURCE)
        batches = (batch for section in sections for batch in self._rows(section, drop))
        return write_all(writer, batches)

    def _rows(self, section: Section, drop: bool) -> Iterator[pa.RecordBatch]:
        """Rows of a section in key order. A lone run is copied without merging."""
        if len(section) == 1:
            for file in section[0].files:
                for batch in self._files.read(file):
                    rows = without_retracts(batch) if drop and file.delete_count != 0 else batch
                    if rows.num_rows:
                        yield rows
            return
        rows = merge_reader.batch_rows(len(section))
        readers = [partial(_run_batches, self._files, run, rows) for run in old_to_new(section)]
        yield from merge_reader.merge(
            readers, self._files.schema.key_fields, self._function, keep_retracts=not drop
        )


def _run_batches(files: BucketFiles, run: SortedRun, batch_rows: int) -> Iterator[pa.RecordBatch]:
    for file in run.files:
        yield from files.read(file, batch_rows=batch_rows)
