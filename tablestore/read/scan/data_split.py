"""A split: files of one bucket that one reader takes at once, and how their rows are read (FORMAT.md 10.5).

Raw files are read as they are, the others merged section by section. Memory: one batch of a raw file, or one
window of the runs of one section, and a byte a row of files with deletion vectors. The whole filter is
applied to every row that comes out; only its key part may skip row groups of files that are merged. Where
partition columns alone are asked for of whole splits, manifests say all: no data file is opened, and damage
in such files goes unnoticed.
Engines that read files natively are told which rows are none of the table (`lost_rows`): where the newest row
of a key wins whole, the keys alone say it.
`split_generator` makes splits; scans read them, also inside Spark's workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from tablestore.core.options.table_options import MergeEngine
from tablestore.format import deletion_vector, evolution, rowkind
from tablestore.format.data_format import FileRequest
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.parquet.schema import KIND
from tablestore.format.predicates import evaluate, literal, predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.lsm.levels.sorted_run import SortedRun, key_sections, old_to_new
from tablestore.lsm.merge import counted, merge_reader
from tablestore.lsm.merge.changelog import NewestLevels, with_level
from tablestore.lsm.merge.groups import plain, without_retracts
from tablestore.lsm.merge.merge_function import in_table, merge_function
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import BATCH_ROWS, read_file, tolerated
from tablestore.read.scan.pruning import ONE_FORM, TRUE, Filters
from tablestore.read.scan.split_files import SplitFiles
from tablestore.read.scan.time_travel import expiring
from tablestore.read.supported import require_readable

_PLACE = "_tablestore_place"
ROWKIND = "rowkind"


@dataclass(frozen=True, slots=True)
class DataSplit:
    """What one reader takes: `raw` files are read as they are, others are merged section by section.
    Picklable.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    snapshot_id: int
    files: Sequence[DataFileMeta]
    raw: bool
    deletion_files: tuple[DeletionFile | None, ...] = ()  # one for each file, or none at all

    @property
    def plain(self) -> bool:
        """Whether the split's rows are exactly those of its files, so that any reader of their format gives
        them."""
        return self.raw and not any(self.deletion_files)

    @property
    def whole(self) -> bool:
        """Whether each row of its files is one row of the table, by what a plan has seen of them: False for a
        split that was pickled."""
        return self.plain and isinstance(self.files, SplitFiles) and self.files.whole

    def deletion_file(self, number: int) -> DeletionFile | None:
        """The deletion vector of file `number`."""
        return self.deletion_files[number] if self.deletion_files else None

    @property
    def rows(self) -> int:
        """How many physical rows there are, superseded ones and retractions included."""
        files = self.files
        return files.rows if isinstance(files, SplitFiles) else sum(f.row_count for f in files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        files = self.files
        return files.size if isinstance(files, SplitFiles) else sum(f.file_size for f in files)

    def read(
        self,
        store: Store,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        *,
        with_kinds: bool = False,
        keep_retracts: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of the split as value columns (None: all), in the order asked for.

        `store` has the schema of the plan, `where` is the plan's. `with_kinds` puts "+I" or "+U" into a first
        column, with `keep_retracts` also "-D" or "-U" of keys whose newest row takes them away. Rows that are
        counted come as often as they are there, unless `columns` names the counts. Batches may be of any
        size, none is empty. Raises NotFound when the snapshot expired meanwhile.
        """
        names = tuple(columns if columns is not None else store.schema.shown.names)
        count = store.schema.row_count_field
        if count is not None and count not in names:
            counts = (*names, count)
            kinds_asked = {"with_kinds": with_kinds, "keep_retracts": keep_retracts}
            yield from counted.shown(DataSplit.read(self, store, counts, where, **kinds_asked), count)
            return
        bound = None if where is None else predicate.bind(where, store.schema)
        filters = Filters.of(bound, store.schema)
        require_readable(store.schema, store.options, (*names, *filters.rows.columns))
        kinds = with_kinds and bool(store.schema.primary_keys)
        wanted = dict.fromkeys((*names, *(n for n in store.schema.names if n in filters.rows.columns)))
        read = _raw if self.raw else _merged
        rows = read(store, self, tuple(wanted), filters, kinds, keep_retracts=keep_retracts)
        with expiring(store, self.snapshot_id), in_table(store.paths.root):
            for batch in rows:
                kept = batch if filters.rows == TRUE else batch.filter(evaluate.mask(filters.rows, batch))
                if kept.num_rows:
                    yield _shaped(store, kept, names, with_kinds=with_kinds)

    def columns_to_count(self, store: Store, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns to read to count rows, with the errors that reading `columns` raises: a key column,
        those that a merge may refuse, and those in which older files may hold values that today's types
        cannot."""
        schema = store.schema
        wanted = dict.fromkeys(schema.trimmed_primary_keys[:1] or schema.names[:1])
        if not self.raw:
            wanted |= dict.fromkeys(merge_function(schema, store.options, reading=True).refusing(columns))
        for written in {f.schema_id for f in self.files} - {schema.id}:
            wanted |= dict.fromkeys(evolution.refusing(store.schema_of(written), schema, columns))
        return tuple(wanted)

    def read_to_count(
        self, store: Store, columns: Sequence[str], where: Predicate | None
    ) -> Iterator[pa.RecordBatch]:
        """As many rows as `read` gives, in the few columns that are needed to count them."""
        return self.read(store, self.columns_to_count(store, columns), where)

    def row_group_filters(
        self, store: Store, where: Predicate | None
    ) -> Iterator[tuple[int, Predicate, bool]]:
        """For each file, by its place here: the part of the filter that may skip row groups of it, and
        whether its rows are merged with others'. `read` uses the same."""
        filters = Filters.of(where, store.schema)
        if self.raw:
            yield from ((number, filters.rows, False) for number in range(len(self.files)))
            return
        for section in key_sections(self.files, store.key_order):
            alone = stands_alone(section)
            for run in section:
                for f in run.files:
                    yield self.files.index(f), filters.rows if alone else filters.key, not alone


def _shaped(store: Store, batch: pa.RecordBatch, names: Sequence[str], *, with_kinds: bool) -> pa.RecordBatch:
    """The columns of the result."""
    fields = [f.arrow for f in store.schema.columns(tuple(names))]
    arrays = [batch.column(n) for n in names]
    if with_kinds:
        keyed = KIND in batch.schema.names
        texts = rowkind.texts(batch.column(KIND)) if keyed else pa.repeat(pa.scalar("+I"), batch.num_rows)
        fields, arrays = [pa.field(ROWKIND, pa.string(), nullable=False), *fields], [texts, *arrays]
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _raw(
    store: Store,
    split: DataSplit,
    names: Sequence[str],
    filters: Filters,
    kinds: bool,
    *,
    keep_retracts: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of raw files, without those that their deletion vectors name.

    At level 0 row kinds are checked, too: some writers never count their deletes.
    """
    keyed = bool(store.schema.primary_keys)
    for number, file in enumerate(split.files):
        system = kinds or (keyed and file.level == 0)
        where = None if filters.rows == TRUE else filters.rows
        living = alive(store, split, number)
        request = FileRequest(names, system=system, predicate=where, rows=living)
        batches = read_file(store, split.partition, split.bucket, file, request)
        batches = tolerated(store, split.partition, split.bucket, file, batches)
        yield from map(without_retracts, batches) if system and not keep_retracts else batches


def _vectors(split: DataSplit, files: Sequence[DataFileMeta]) -> tuple[DeletionFile | None, ...]:
    return tuple(split.deletion_file(split.files.index(f)) for f in files)


def alive(store: Store, split: DataSplit, number: int) -> np.ndarray | None:
    """A mask of the rows of one file of a split that are not deleted; None if none are."""
    where, rows = split.deletion_file(number), split.files[number].row_count
    return None if where is None else deletion_vector.read(store.io, where, rows=rows).alive(0, rows)


def _merged(
    store: Store,
    split: DataSplit,
    names: Sequence[str],
    filters: Filters,
    kinds: bool,
    *,
    keep_retracts: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of sections one after another, the runs of each merged by key."""
    keys = store.schema.key_fields
    function = merge_function(store.schema, store.options, reading=True)
    needed = function.columns(dict.fromkeys((*names, *(f.name for f in keys))))
    where = None if filters.key == TRUE else filters.key
    levels = store.options.merges_by_level
    function = NewestLevels(function) if levels else function

    for section in key_sections(split.files, store.key_order):
        if stands_alone(section):
            alone = replace(split, files=section[0].files, deletion_files=_vectors(split, section[0].files))
            yield from _raw(store, alone, names, filters, kinds)
            continue
        runs = old_to_new(section)
        prefetch = merge_reader.shares([run.rows for run in runs])
        reader = partial(_run, store, split, names=needed, where=where, levels=levels)
        rows = merge_reader.decoded(prefetch)
        readers = [partial(reader, r.files, batch_rows=n) for r, n in zip(runs, rows, strict=True)]
        merged = merge_reader.merge(readers, keys, function, keep_retracts=keep_retracts, prefetch=prefetch)
        yield from map(plain, merged)


def stands_alone(section: Sequence[SortedRun]) -> bool:
    """Whether the rows of a section are those of the table, without a merge."""
    return len(section) == 1 and all(f.level and f.delete_count == 0 for f in section[0].files)


def _run(
    store: Store,
    split: DataSplit,
    files: Sequence[DataFileMeta],
    *,
    names: Sequence[str],
    where: Predicate | None,
    batch_rows: int,
    levels: bool,
) -> Iterator[pa.RecordBatch]:
    for file in files:
        living = alive(store, split, split.files.index(file))
        request = FileRequest(names, predicate=where, rows=living, dictionary=True, batch_rows=batch_rows)
        rows = read_file(store, split.partition, split.bucket, file, request)
        for batch in tolerated(store, split.partition, split.bucket, file, rows):
            yield with_level(batch, file.level) if levels else batch


def partitions_suffice(store: Store, columns: Sequence[str], where: Predicate | None) -> bool:
    """Whether partitions say all that a scan of these columns with this bound condition asks for."""
    schema, options = store.schema, store.options
    if not columns or options.scan_tolerant or schema.row_count_field is not None:
        return False
    fields = [f for f in schema.partition_fields if f.name in columns]
    if len(fields) < len(columns) or any(f.type.root not in ONE_FORM for f in fields):
        return False
    return Filters.of(where, schema).rows == TRUE


def partition_rows(
    store: Store, splits: Sequence[DataSplit], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of whole splits, split after split."""
    by_name = dict(
        zip(
            store.schema.partition_keys,
            zip(*(store.partition_values(s.partition) for s in splits), strict=True),
            strict=True,
        )
    )
    fields = store.schema.columns(tuple(columns))
    arrays = [literal.array(by_name[f.name], f.type) for f in fields]
    partitions = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([f.arrow for f in fields]))
    ends = np.cumsum([s.rows for s in splits])
    for start in range(0, int(ends[-1]), BATCH_ROWS):
        numbers = np.arange(start, min(start + BATCH_ROWS, int(ends[-1])))
        yield partitions.take(pa.array(np.searchsorted(ends, numbers, side="right")))


def chooses_rows(store: Store) -> bool:
    """Whether a merge of this table only chooses rows, by their keys, sequences and kinds."""
    options = store.options
    plain = options.merge_engine is MergeEngine.DEDUPLICATE and not options.merges_by_level
    return (
        bool(store.schema.primary_keys)
        and plain
        and not options.scan_tolerant
        and store.schema.row_count_field is None
    )


def lost_rows(store: Store, split: DataSplit) -> np.ndarray:
    """For each row of the files of a split, one file after the other, whether it is no row of the table.

    Raises NotFound when the snapshot expired meanwhile."""
    first = np.cumsum([0, *(f.row_count for f in split.files)])
    lost = np.ones(first[-1], dtype=bool)
    with expiring(store, split.snapshot_id), in_table(store.paths.root):
        for section in key_sections(split.files, store.key_order):
            if stands_alone(section):
                for file in section[0].files:
                    number = split.files.index(file)
                    mask = alive(store, split, number)
                    lost[first[number] : first[number + 1]] = False if mask is None else ~mask
                continue
            for rows in _winner_places(store, split, first, [run.files for run in old_to_new(section)]):
                lost[rows] = False
    return lost


def _winner_places(
    store: Store, split: DataSplit, first: np.ndarray, runs: Sequence[Sequence[DataFileMeta]]
) -> Iterator[np.ndarray]:
    """The places of the rows that a merge of these runs gives; `first`: that of each file's first row."""
    keys = store.schema.key_fields
    function = merge_function(store.schema, store.options, reading=True)
    names = function.columns([f.name for f in keys])
    prefetch = merge_reader.shares([sum(f.row_count for f in files) for files in runs])
    decoded = merge_reader.decoded(prefetch)
    readers = [
        partial(_placed_run, store, split, first, files, names, batch_rows)
        for files, batch_rows in zip(runs, decoded, strict=True)
    ]
    for rows in merge_reader.merge(readers, keys, function, prefetch=prefetch):
        yield rows.column(_PLACE).to_numpy()


def _placed_run(
    store: Store,
    split: DataSplit,
    first: np.ndarray,
    files: Sequence[DataFileMeta],
    names: Sequence[str],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """The key columns of a run with the places of its rows."""
    for file in files:
        number = split.files.index(file)
        mask = alive(store, split, number)
        rows = np.arange(file.row_count) if mask is None else np.flatnonzero(mask)
        places, at = rows + first[number], 0
        request = FileRequest(names, rows=mask, dictionary=True, batch_rows=batch_rows)
        for batch in read_file(store, split.partition, split.bucket, file, request):
            some = pa.array(places[at : at + batch.num_rows])
            at += batch.num_rows
            yield batch.append_column(_PLACE, some)
