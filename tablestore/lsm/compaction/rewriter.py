"""Rewriter: executes a compaction unit by merging, joining, moving or copying files, step by step of its
`rewrite_plan`.

A file that only changes its level ("upgrade") costs no I/O, or only reading where a changelog is written or
older rows are marked as deleted. Retracts are dropped only when no level older than the output holds their
keys (I7), or those rows are marked as deleted. Small files with keys apart from each other are joined without
decoding them (`format/parquet/joining.py`), unless their row groups are small. One window of the runs of a
section is in memory. Outputs are deleted if anything fails. Called by writers and by compactions of whole
buckets; belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.options.table_options import ChangelogProducer, MergeEngine, TableOptions
from tablestore.format import stats
from tablestore.format.data_format import FileSpec
from tablestore.format.deletion_vector import surviving
from tablestore.format.file_index.writing import index_specs
from tablestore.format.manifests.manifest import APPEND_SOURCE, COMPACT_SOURCE, DataFileMeta, SimpleStats
from tablestore.format.parquet.joining import join
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.compaction.compact_result import CompactResult, ReadListener, reporting
from tablestore.lsm.compaction.decision import CompactUnit
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.compaction.rewrite_plan import Step, drops_deletes, plan_unit
from tablestore.lsm.levels.bucket import BucketFiles, FileNames, RollingWriter, write_all
from tablestore.lsm.levels.sorted_run import Levels, Section, SortedRun, old_to_new
from tablestore.lsm.lookup.lookup import Hits, LevelLookup
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge import merge_reader
from tablestore.lsm.merge.changelog import (
    LEVEL,
    ChangelogSpec,
    MergedWindow,
    NewestLevels,
    RowWindow,
    first_rows,
    fully_merged,
    in_level0_only,
    looked_up,
    with_level,
)
from tablestore.lsm.merge.groups import MergeFunction, take, without_retracts
from tablestore.lsm.merge.merge_function import merge_function
from tablestore.lsm.merge.record_expiry import RecordExpire, expired_files


class Mode(Enum):
    """How a table's compaction treats rows: it only merges them, or also finds the older rows of their
    keys."""

    MERGE = "merge"
    LOOKUP = "lookup"
    FIRST_ROW = "first row"
    FULL = "full compaction"

    @classmethod
    def of(cls, options: TableOptions) -> Mode:
        """The mode of a bucket: older rows that only a changelog needs are not looked for where changes are
        not tracked."""
        if options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
            return cls.FULL if options.change_tracking else cls.MERGE
        if not (options.needs_lookup if options.change_tracking else options.looks_up_for_rows):
            return cls.MERGE
        return cls.FIRST_ROW if options.merge_engine is MergeEngine.FIRST_ROW else cls.LOOKUP

    def writes_changelog(self, options: TableOptions) -> bool:
        """Whether it writes a changelog."""
        looked_up = options.changelog_producer is ChangelogProducer.LOOKUP and options.change_tracking
        return self is Mode.FULL or looked_up

    def needs_old_rows(self, files: Sequence[DataFileMeta], work: _Work) -> bool:
        """Whether compacting these files needs the rows in older levels."""
        if self is Mode.FULL:
            return work.level == work.oldest_level
        return self is not Mode.MERGE and any(f.level == 0 for f in files)


class Upgrade(Enum):
    """How a file gets to its new level: moved, moved and read, or rewritten."""

    MOVE = "move"
    READ = "move, but read it"
    REWRITE = "rewrite"


@dataclass(frozen=True)
class _Work:
    """What the steps of a unit share: levels, whether retracts are dropped, the lookup."""

    level: int
    oldest_level: int
    drop: bool
    lookup: LevelLookup | None


class Rewriter:
    """Executes compaction units of one bucket; its files share a uuid.

    `deletions` are the bucket's deletion vectors, for tables that have them. Without `produce` no changelog
    is written, whatever the producer. `on_read` is called with bytes as they are read.
    """

    def __init__(
        self,
        files: BucketFiles,
        *,
        deletions: BucketDeletions | None = None,
        produce: bool = True,
        on_read: ReadListener | None = None,
    ) -> None:
        self._files, self._deletions, self._on_read = files, deletions, on_read
        self._names = FileNames(files)
        self._joining = Joining(files, self._names.data, on_read=on_read)
        self._bucket = bucket = files.bucket
        schema, options = bucket.schema, bucket.options
        self._function: MergeFunction = merge_function(schema, options)
        self._options = CompactionOptions.of(options)
        self._expire = RecordExpire.of(schema, options)
        self._mode = Mode.of(options)
        self._changelog = ChangelogSpec.of(
            schema, options, produced=produce and self._mode.writes_changelog(options)
        )

    def run(self, unit: CompactUnit, levels: Levels) -> CompactResult:
        """The result of compacting `unit`, which was picked from `levels`."""
        assert unit.output_level > 0, "compaction never writes level 0"
        marked = self._deletions is not None
        drop = drops_deletes(unit, levels, marked=marked, newest_wins=self._options.newest_wins)
        work = _Work(unit.output_level, levels.oldest_level, drop, self._lookup(unit.output_level, levels))
        before: list[DataFileMeta] = []
        after: list[DataFileMeta] = []
        changelog: list[DataFileMeta] = []
        written: list[str] = []
        try:
            for step in self._steps(unit, levels):
                result = (
                    self._upgrade(step.upgrade, work) if step.upgrade else self._rewrite(step.sections, work)
                )
                written += [f.file_name for f in result.written]
                before += result.before
                after += result.after
                changelog += result.changelog
        except BaseException:
            self._files.delete(written)
            raise
        return CompactResult(tuple(before), tuple(after), tuple(changelog))

    def _steps(self, unit: CompactUnit, levels: Levels) -> tuple[Step, ...]:
        expired, small_bytes = expired_files(self._bucket, unit.files), self._options.small_file_bytes
        return plan_unit(unit, levels, self._bucket.key_order, small_bytes=small_bytes, expired=expired)

    def _lookup(self, output_level: int, levels: Levels) -> LevelLookup | None:
        """The lookup in levels older than the output; None if the table needs none."""
        if self._mode not in (Mode.LOOKUP, Mode.FIRST_ROW):
            return None
        rows = self._mode is Mode.LOOKUP and self._needs_values
        return LevelLookup(self._files, levels, older_than=output_level, deletions=self._deletions, rows=rows)

    @property
    def _needs_values(self) -> bool:
        """Whether the values of older rows matter, not only their positions."""
        return self._deletions is None or self._changelog.produced or not self._plain

    @property
    def _plain(self) -> bool:
        """Whether the newest row of a key is the result, whatever the older ones hold."""
        options = self._bucket.options
        return options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields

    def _rewrite(self, sections: Sequence[Section], work: _Work) -> CompactResult:
        before = tuple(f for section in sections for run in section for f in run.files)
        if self._mode.needs_old_rows(before, work):
            after, changelog = self._merge_with_changes(sections, work, rewrite=True)
        elif self._joinable(sections, work) and (joined := self._joining.run(before, work.level)) is not None:
            return joined
        else:
            after, changelog = self._merge(sections, work), ()
        if self._deletions is not None:
            self._deletions.drop(f.file_name for f in before)
        return CompactResult(before, after, changelog)

    def _joinable(self, sections: Sequence[Section], work: _Work) -> bool:
        """Whether the files of these sections become others with the same rows: no keys are merged, none are
        left out."""
        if self._expire is not None or any(len(section) > 1 for section in sections):
            return False
        files = [f for section in sections for f in section[0].files]
        if work.drop and any(f.delete_count != 0 for f in files):
            return False
        marks = self._deletions
        return marks is None or all(marks.vector(f.file_name) is None for f in files)

    def _upgrade(self, file: DataFileMeta, work: _Work) -> CompactResult:
        """Move a file to the output level, reading it if its rows change something there."""
        how = self._how_to_upgrade(file, work)
        if how is Upgrade.REWRITE:
            return self._rewrite(((SortedRun.single(file),),), work)
        changelog: tuple[DataFileMeta, ...] = ()
        if how is Upgrade.READ:
            _, changelog = self._merge_with_changes(((SortedRun.single(file),),), work, rewrite=False)
        return CompactResult((file,), (file.upgraded(work.level),), changelog)

    def _how_to_upgrade(self, file: DataFileMeta, work: _Work) -> Upgrade:
        """Whether a file can move to its new level, must be read for that, or rewritten (FORMAT.md 13.5)."""
        if not self._mode.needs_old_rows((file,), work):
            return Upgrade.MOVE
        if self._mode is Mode.FULL:
            return Upgrade.READ if self._changelog.produced else Upgrade.MOVE
        if self._deletions is not None and file.delete_count != 0:
            return Upgrade.REWRITE  # the oldest level may hold no deletes
        if self._other_format(file, work.level):
            return Upgrade.REWRITE
        if work.level != work.oldest_level and not self._plain:
            return Upgrade.REWRITE  # older rows may be merged into those of the file
        looks_up = work.lookup is not None and not work.lookup.empty and self._deletions is not None
        return Upgrade.READ if self._changelog.produced or looks_up else Upgrade.MOVE

    def _other_format(self, file: DataFileMeta, level: int) -> bool:
        """Whether files of `level` have another format than those of the file's level."""
        options = self._bucket.options
        here, there = FileSpec.of(options, level=file.level), FileSpec.of(options, level=level)
        return here.format != there.format

    def _merge(self, sections: Sequence[Section], work: _Work) -> tuple[DataFileMeta, ...]:
        writer = RollingWriter(self._files, self._names.data, level=work.level, source=COMPACT_SOURCE)
        batches = (batch for section in sections for batch in self._rows(section, work.drop))
        return write_all(writer, batches)

    def _rows(self, section: Section, drop: bool) -> Iterator[pa.RecordBatch]:
        """Rows of a section in key order. A single run is copied without merging."""
        if len(section) == 1:
            for file in section[0].files:
                for batch in self._read(file):
                    rows = without_retracts(batch) if drop and file.delete_count != 0 else batch
                    if rows.num_rows:
                        yield rows
            return
        with_levels = self._bucket.options.merges_by_level
        function = NewestLevels(self._function) if with_levels else self._function
        readers, prefetch = self._readers(section, levels=with_levels)
        keys = self._bucket.schema.key_fields
        for batch in merge_reader.merge(readers, keys, function, keep_retracts=not drop, prefetch=prefetch):
            yield batch.drop_columns([LEVEL]) if LEVEL in batch.schema.names else batch

    def _merge_with_changes(
        self, sections: Sequence[Section], work: _Work, *, rewrite: bool
    ) -> tuple[tuple[DataFileMeta, ...], tuple[DataFileMeta, ...]]:
        """(data files, empty without `rewrite`; changelog files) of sections that produce a changelog."""
        data = RollingWriter(self._files, self._names.data, level=work.level, source=COMPACT_SOURCE)
        changelog = RollingWriter(
            self._files, self._names.changelog, level=work.level, source=APPEND_SOURCE, changelog=True
        )
        try:
            for section in sections:
                for window in self._merged_windows(section, work):
                    rows = without_retracts(window.rows) if work.drop else window.rows
                    if rewrite and rows.num_rows:
                        data.write(rows)
                    if window.changes is not None and window.changes.num_rows:
                        changelog.write(window.changes)
            return data.close(), changelog.close()
        except BaseException:
            try:
                data.abort()
            finally:
                changelog.abort()
            raise

    def _merged_windows(self, section: Section, work: _Work) -> Iterator[MergedWindow]:
        keys, function = self._bucket.schema.key_fields, self._function
        readers, prefetch = self._readers(section, levels=True)
        for parts in merge_reader.windows(readers, keys, prefetch=prefetch):
            window = RowWindow.of(parts, function)
            if self._mode is Mode.FULL:
                yield fully_merged(window, function, self._changelog, oldest_level=work.oldest_level)
                continue
            asked, hits = self._find(window, work)
            if self._mode is Mode.FIRST_ROW:
                existing = asked[hits.asked] if hits is not None else asked[:0]
                yield first_rows(window, function, existing, self._changelog)
                continue
            if hits is not None:
                window = window.with_hits(hits, asked, function)
            yield looked_up(window, function, self._changelog)

    def _find(self, window: RowWindow, work: _Work) -> tuple[np.ndarray, Hits | None]:
        """(groups that were looked up, rows found); marks the rows found as deleted."""
        asked = in_level0_only(window)
        if work.lookup is None or work.lookup.empty or not len(asked):
            return asked, None
        keys = take(window.rows, window.first_rows[asked])
        hits = work.lookup.find(key_columns.of_batch(keys, self._bucket.schema.key_fields))
        if self._deletions is not None:
            for file, positions in hits.by_file():
                self._deletions.mark(file, positions)
        return asked, hits

    def _readers(self, section: Section, *, levels: bool) -> tuple[list[merge_reader.Reader], list[int]]:
        """(a reader of each run, old to new; the rows that each prefetches)."""
        runs = old_to_new(section)
        prefetch = merge_reader.shares([run.rows for run in runs])
        decoded = merge_reader.decoded(prefetch)
        readers: list[merge_reader.Reader] = [
            partial(self._run, run, rows, levels) for run, rows in zip(runs, decoded, strict=True)
        ]
        return readers, prefetch

    def _run(self, run: SortedRun, batch_rows: int, levels: bool) -> Iterator[pa.RecordBatch]:
        for file in run.files:
            for batch in self._read(file, batch_rows=batch_rows):
                yield with_level(batch, file.level) if levels else batch

    def _read(self, file: DataFileMeta, **options: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are neither deleted nor expired."""
        gone = None if self._deletions is None else self._deletions.vector(file.file_name)
        rows = surviving(reporting(self._files.read(file, **options), file, self._on_read), gone)
        if self._expire is None:
            return rows
        kept = partial(self._expire.kept, now_seconds=self._bucket.env.now_ms() // 1000)
        return (batch for batch in map(kept, rows) if batch.num_rows)


LEAST_BYTES = 1 << 20  # of a file, on average: scans of row groups this size are as fast as of larger ones


class Joining:
    """Joins files of one bucket; `name` gives names of new ones without their suffix, `on_read` is called
    with the bytes of each that is copied."""

    def __init__(
        self, files: BucketFiles, name: Callable[[], str], *, on_read: ReadListener | None = None
    ) -> None:
        self._files, self._name, self._on_read = files, name, on_read
        self._schema, self._options = files.bucket.schema, files.bucket.options

    def run(self, before: Sequence[DataFileMeta], level: int) -> CompactResult | None:
        """Files of about the target size at `level` with the rows of `before`, which are in key order; one
        that fits to no neighbour moves. None: they cannot be joined, and nothing was written."""
        spec = FileSpec.of(self._options, level=level)
        if not self._alike(before, spec):
            return None
        after: list[DataFileMeta] = []
        written: list[DataFileMeta] = []
        try:
            for group in self._groups(before):
                if len(group) == 1:
                    after.append(group[0].upgraded(level))
                    continue
                joined = self._joined(group, spec, level)
                if joined is None:
                    self._files.delete(written)
                    return None
                written.append(joined)
                after.append(joined)
        except BaseException:
            self._files.delete(written)
            raise
        stay = {f.file_name for f in before if f.level == level} & {f.file_name for f in after}
        return CompactResult(
            tuple(f for f in before if f.file_name not in stay),
            tuple(f for f in after if f.file_name not in stay),
        )

    def _alike(self, files: Sequence[DataFileMeta], spec: FileSpec) -> bool:
        """Whether the files are of the form of new ones, and not too small."""
        if len(files) < 2 or sum(f.file_size for f in files) < LEAST_BYTES * len(files):
            return False
        if spec.format != "parquet" or (spec.indexed and index_specs(self._schema)):
            return False
        return all(
            f.schema_id == self._schema.id
            and f.file_name.endswith(spec.suffix)
            and FileSpec.of(self._options, level=f.level) == spec
            and not f.extra_files
            and f.embedded_index is None
            and f.value_stats_cols == files[0].value_stats_cols
            and f.first_row_id is None
            for f in files
        )

    def _groups(self, files: Sequence[DataFileMeta]) -> Iterator[list[DataFileMeta]]:
        """Neighbours of which each group makes a file."""
        target = self._options.target_bytes(keyed=True)
        group: list[DataFileMeta] = []
        size = 0
        for file in files:
            if group and size + file.file_size > target:
                yield group
                group, size = [], 0
            group.append(file)
            size += file.file_size
        yield group

    def _joined(self, group: Sequence[DataFileMeta], spec: FileSpec, level: int) -> DataFileMeta | None:
        """The file made of a group, with nothing left behind on an error."""
        files, bucket = self._files, self._files.bucket
        name = self._name() + spec.suffix
        external = files.place(name)
        try:
            size = join(bucket.io, [files.path(f) for f in group], files.path(name))
        except BaseException:
            files.delete([name])
            raise
        if size is None:
            return None
        for file in group:
            if self._on_read is not None:
                self._on_read(file.file_size)
        columns = group[0].value_stats_cols
        values = self._schema.fields if columns is None else self._schema.columns(columns)
        return replace(
            group[0],
            file_name=name,
            file_size=size,
            row_count=sum(f.row_count for f in group),
            max_key=group[-1].max_key,
            key_stats=_stats([f.key_stats for f in group], self._schema.key_fields, group),
            value_stats=_stats([f.value_stats for f in group], values, group),
            min_sequence=min(f.min_sequence for f in group),
            max_sequence=max(f.max_sequence for f in group),
            level=level,
            creation_time_ms=bucket.env.local_now_ms(),
            delete_count=_sum([f.delete_count for f in group]),
            file_source=COMPACT_SOURCE,
            external_path=external,
        )


def _stats(
    parts: Sequence[SimpleStats], fields: Sequence[DataField], group: Sequence[DataFileMeta]
) -> SimpleStats:
    return stats.merged(parts, [f.type for f in fields], [f.row_count for f in group])


def _sum(counts: Sequence[int | None]) -> int | None:
    present = [n for n in counts if n is not None]
    return sum(present) if len(present) == len(counts) else None
