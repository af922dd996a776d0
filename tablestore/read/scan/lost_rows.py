"""Which rows of files that must be merged are no rows of the table, for engines that read the files natively.

Where the newest row of a key wins whole, a merge only chooses rows, so the keys alone say which: the other
columns are not read. Memory: the windows of a merge of key columns, and a byte a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from tablestore.core.options.table_options import MergeEngine
from tablestore.format.data_format import FileRequest
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.lsm.levels.sorted_run import key_sections, old_to_new
from tablestore.lsm.merge import merge_reader
from tablestore.lsm.merge.changelog import by_level
from tablestore.lsm.merge.merge_function import in_table, merge_function
from tablestore.meta.store import Store
from tablestore.read.scan.data_split import DataSplit, alive, stands_alone
from tablestore.read.scan.file_read import read_file
from tablestore.read.scan.time_travel import expiring

_PLACE = "_tablestore_place"


def chooses_rows(store: Store) -> bool:
    """Whether a merge of this table only chooses rows, by their keys, sequences and kinds."""
    options = store.options
    plain = options.merge_engine is MergeEngine.DEDUPLICATE and not by_level(options)
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
            for rows in _winners(store, split, first, [run.files for run in old_to_new(section)]):
                lost[rows] = False
    return lost


def _winners(
    store: Store, split: DataSplit, first: np.ndarray, runs: Sequence[Sequence[DataFileMeta]]
) -> Iterator[np.ndarray]:
    """The places of the rows that a merge of these runs gives; `first`: that of each file's first row."""
    keys = store.schema.key_fields
    function = merge_function(store.schema, store.options, reading=True)
    names = function.columns([f.name for f in keys])
    prefetch = merge_reader.shares([sum(f.row_count for f in files) for files in runs])
    decoded = merge_reader.decoded(prefetch)
    readers = [
        partial(_run, store, split, first, files, names, batch_rows)
        for files, batch_rows in zip(runs, decoded, strict=True)
    ]
    for rows in merge_reader.merge(readers, keys, function, prefetch=prefetch):
        yield rows.column(_PLACE).to_numpy()


def _run(
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
