"""Compaction of append tables: which files are combined, with the reason, and combining them (FORMAT.md 9.6,
12.8).

Bucketed tables keep the order of their rows, so only neighbours are combined: `pick` finds
`compaction.min.file-num` of them that begin with a small one, `full` takes everything from the first small
file on. Tables without buckets have no order: `pack` combines small files in portions of about twice the
target size. A file is small below `compaction.small-file-ratio` of the target; a file with too many deleted
rows counts as small too.

The new files begin at the first file's sequence number and count rows, as Paimon does. With row tracking each
row keeps its id and sequence number as columns of the new file, which then has no first row id. One batch of
one file is in memory, and the open file. Used by the append writer and by `Table.compact`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core import quantities
from tablestore.core.options.table_options import TableOptions
from tablestore.format.deletion_vector import DeletionVector, surviving
from tablestore.format.manifests.manifest import COMPACT_SOURCE, DataFileMeta
from tablestore.format.parquet.schema import ROW_TRACKING, SEQUENCE
from tablestore.lsm.compaction.compact_result import CompactResult, ReadListener, reporting
from tablestore.lsm.compaction.decision import CompactUnit, Decision, Reason
from tablestore.lsm.levels.bucket import AppendRows, BucketFiles, RollingWriter, write_all

MIN_FULL_FILES = 3  # a full compaction of fewer files of a bucket is not worth it


@dataclass(frozen=True, slots=True)
class AppendCompaction:
    """The options that decide (sizes in bytes), and the deletion vectors: `deleted` rows by data file, and
    the index file of each data file's vector."""

    target: int
    small: int
    min_files: int
    open_cost: int
    delete_ratio: float = 0.2
    max_files: int = 100_000
    deleted: Mapping[str, int] = field(default_factory=dict)
    vectors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        options: TableOptions,
        *,
        deleted: Mapping[str, int] | None = None,
        vectors: Mapping[str, str] | None = None,
    ) -> AppendCompaction:
        """The options of a table."""
        target = options.target_bytes(keyed=False)
        return cls(
            target,
            int(target * options.small_file_ratio),
            max(options.compaction_min_files, 2),
            options.split_open_bytes,
            options.compaction_delete_ratio,
            max(options.compaction_max_files, 2),
            deleted or {},
            vectors or {},
        )

    def is_small(self, file: DataFileMeta) -> bool:
        """Whether a file is worth rewriting."""
        gone = self.deleted.get(file.file_name, 0)
        return file.file_size < self.small or gone > file.row_count * self.delete_ratio


def in_order(files: Iterable[DataFileMeta]) -> list[DataFileMeta]:
    """Files of a bucket in the order of their rows."""
    return sorted(files, key=lambda f: (f.min_sequence, f.max_sequence))


def pick(files: Iterable[DataFileMeta], options: AppendCompaction) -> Decision:
    """The first `min_files` neighbours of a bucket that begin with a small file and hold less than twice the
    target size."""
    window: list[DataFileMeta] = []
    ordered = in_order(files)
    for file in ordered:
        window.append(file)
        while window and (_size(window) >= 2 * options.target or not options.is_small(window[0])):
            window.pop(0)
        if len(window) >= options.min_files:
            text = f"{len(window)} neighbours of {quantities.size(_size(window))} from a small file on"
            return _combine(window, "small files", text)
    small = sum(map(options.is_small, ordered))
    return _nothing(f"{_files(small)} small of {len(ordered)}, fewer than {options.min_files} in a row")


def full(files: Iterable[DataFileMeta], options: AppendCompaction) -> Decision:
    """Everything from the first small file on, if more than half of these files are small."""
    ordered = in_order(files)
    first = next((i for i, f in enumerate(ordered) if options.is_small(f) or _marked(f, options)), None)
    if first is None:
        return _nothing("no small files")
    unit = ordered[first:]
    if any(_marked(f, options) for f in unit):
        return _combine(unit, "full", "asked for, and rows are deleted")
    small = sum(map(options.is_small, unit))
    if len(unit) < MIN_FULL_FILES or small <= len(unit) - small:
        return _nothing(
            f"{_files(small)} small of {len(unit)}; a full compaction takes {MIN_FULL_FILES} at least"
        )
    return _combine(unit, "full", f"asked for, {small} of {len(unit)} files are small")


def pack(files: Iterable[DataFileMeta], options: AppendCompaction, *, all_small: bool) -> list[Decision]:
    """Portions of the files of a partition without buckets; with `all_small` also the remaining files if
    there are two or more. Only the oldest `max_files` are considered.

    Files whose deletion vectors are in one index file stay together, so that it is rewritten once.
    """
    worth = (f for f in in_order(files) if options.is_small(f) or (all_small and _marked(f, options)))
    chosen = list(islice(worth, options.max_files))
    groups: dict[str, list[DataFileMeta]] = {}
    for file in chosen:
        if file.file_name in options.vectors:
            groups.setdefault(options.vectors[file.file_name], []).append(file)
    marked = sorted(groups.values(), key=_size)
    units, left = _portions(marked, options)
    if left:
        units.append(left)
    rest = sorted((f for f in chosen if not _marked(f, options)), key=lambda f: f.file_size)
    more, left = _portions([[f] for f in rest], options)
    units += more
    if len(left) >= (2 if all_small else options.min_files):
        units.append(left)
    decisions = [
        _combine(u, "small files", f"{_files(len(u))} of {quantities.size(_size(u))}") for u in units
    ]
    few = f"{_files(len(rest))} small, fewer than {2 if all_small else options.min_files}"
    return decisions or [_nothing(few)]


def _portions(
    groups: Sequence[list[DataFileMeta]], options: AppendCompaction
) -> tuple[list[list[DataFileMeta]], list[DataFileMeta]]:
    """Groups joined until they hold twice the target size, and the remaining files."""
    done: list[list[DataFileMeta]] = []
    portion: list[DataFileMeta] = []
    for group in groups:
        portion = portion + group
        weight = _size(portion) + options.open_cost * len(portion)
        if len(portion) > 1 and weight >= 2 * options.target:
            done.append(portion)
            portion = []
    return done, portion


def _marked(file: DataFileMeta, options: AppendCompaction) -> bool:
    return file.file_name in options.vectors


def _size(files: Iterable[DataFileMeta]) -> int:
    return sum(f.file_size for f in files)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _combine(files: Sequence[DataFileMeta], rule: str, text: str) -> Decision:
    return Decision(CompactUnit(0, tuple(files)), Reason(rule, text))


def _nothing(text: str) -> Decision:
    return Decision(None, Reason("none", text))


def combine(
    files: BucketFiles,
    name: Callable[[], str],
    before: Sequence[DataFileMeta],
    *,
    vectors: Mapping[str, DeletionVector] = MappingProxyType({}),
    on_read: ReadListener | None = None,
) -> CompactResult:
    """The result of replacing `before` by new files with their rows in order. No files remain if it fails.
    `on_read` is called with bytes as they are read."""
    tracked = files.bucket.options.row_tracking
    writer = RollingWriter(
        files,
        name,
        level=0,
        source=COMPACT_SOURCE,
        append=AppendRows(before[0].min_sequence, ROW_TRACKING if tracked else ()),
    )
    written = write_all(writer, _rows(files, before, vectors, tracked, on_read))
    if not tracked:
        return CompactResult(tuple(before), written)
    columns = (*files.bucket.schema.names, *ROW_TRACKING)
    low, high = min(f.min_sequence for f in before), max(f.max_sequence for f in before)
    after = (replace(f, write_cols=columns, min_sequence=low, max_sequence=high) for f in written)
    return CompactResult(tuple(before), tuple(after))


def _rows(
    files: BucketFiles,
    before: Sequence[DataFileMeta],
    vectors: Mapping[str, DeletionVector],
    tracked: bool,
    on_read: ReadListener | None,
) -> Iterator[pa.RecordBatch]:
    for file in before:
        batches = with_row_ids(files, file) if tracked else files.read(file, system=False)
        yield from surviving(reporting(batches, file, on_read), vectors.get(file.file_name))


def with_row_ids(files: BucketFiles, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
    """Every row of a file, deleted or not, with its `_ROW_ID` and `_SEQUENCE_NUMBER`.

    In a file that was never rewritten row ids count from its first row id.
    """
    stored = set(ROW_TRACKING) & set(file.write_cols or ())
    if not stored and file.first_row_id is None:
        stored = set(ROW_TRACKING)
    at, names = file.first_row_id or 0, files.bucket.schema.names
    for batch in files.read(file, system=False, extra=tuple(c for c in ROW_TRACKING if c in stored)):
        ids = np.arange(at, at + batch.num_rows)
        at += batch.num_rows
        computed = {
            ROW_TRACKING[0]: pa.array(ids, pa.int64()),
            SEQUENCE: pa.repeat(pa.scalar(file.max_sequence, pa.int64()), batch.num_rows),
        }
        values = [batch.column(n) for n in names]
        system = [_known(batch, c, computed[c]) for c in ROW_TRACKING]
        yield pa.RecordBatch.from_arrays([*values, *system], names=[*names, *ROW_TRACKING])


def _known(batch: pa.RecordBatch, column: str, otherwise: pa.Array) -> pa.Array:
    """A stored system column with its NULLs filled from `otherwise`, which also replaces an absent column."""
    if column not in batch.schema.names:
        return otherwise
    stored = batch.column(column)
    return stored if not stored.null_count else pc.coalesce(stored, otherwise)
