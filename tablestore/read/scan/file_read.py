"""One data file as batches in the columns of the schema that is read with.

Callers need not know which schema it was written under, and in which format.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from tablestore.core.errors import Corrupt
from tablestore.format import datafile, evolution
from tablestore.format.data_format import FileRequest, counted
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.meta.store import Store
from tablestore.read.scan import file_index
from tablestore.read.supported import require_readable_file

log = logging.getLogger(__name__)
BATCH_ROWS = 65_536
TOLERANT = ("scan.ignore-corrupt-files", "scan.ignore-lost-files")


def read_file(
    store: Store,
    partition: bytes,
    bucket: int,
    file: DataFileMeta,
    request: FileRequest,
) -> Iterator[pa.RecordBatch]:
    """kv batches (value columns only without `system`) of a file, in its order.

    The columns and the predicate of `request` are of the schema of `store`. The predicate also leaves out
    rows that the file's indexes exclude. Raises Corrupt naming the file, also when it does not hold the rows
    that its metadata say.
    """
    own = store.schema_of(file.schema_id)
    require_readable_file(file, own)
    mapping = evolution.projection(own, store.schema, request.columns)
    path = store.file_path(partition, bucket, file)
    where, rows = request.predicate, request.rows
    pruned = None if where is None else evolution.evolve_predicate(where, own, store.schema)
    selected = True if pruned is None else file_index.select_rows(store, path, file, pruned)
    if selected is False:
        return
    if not isinstance(selected, bool):
        rows = selected if rows is None else rows & selected
    request = replace(request, columns=mapping.file_columns, predicate=pruned, rows=rows)
    for batch in stored(store, path, file, request):
        yield evolution.evolve(batch, mapping)


def tolerated(
    store: Store,
    partition: bytes,
    bucket: int,
    file: DataFileMeta,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The batches of a file up to where it cannot be read, where `scan.ignore-corrupt-files` (it is there) or
    `scan.ignore-lost-files` (it is not) allow that; a warning names the file and what is wrong with it."""
    options = store.options
    if not options.scan_tolerant:
        yield from batches
        return
    path = store.file_path(partition, bucket, file)
    try:
        yield from batches
    except Corrupt as e:
        lost = e.path == path and not store.io.exists(path)
        if e.path != path or not (options.scan_ignore_lost if lost else options.scan_ignore_corrupt):
            raise
        log.warning("left out of this scan: %s (%d rows): %s", path, file.row_count, e.problem)


def strictly(store: Store) -> Store:
    """The table without the options that pass over unreadable files: for rows that are written again."""
    return store.with_schema(store.schema.with_options(dict.fromkeys(TOLERANT)))


def stored(store: Store, path: str, file: DataFileMeta, request: FileRequest) -> Iterator[pa.RecordBatch]:
    """The batches of a file in columns of its own schema, whatever its format."""
    batches = datafile.read(
        store.io,
        path,
        store.schema_of(file.schema_id),
        request,
        file_size=file.file_size,
        checksums_dir=store.checksums_dir,
    )
    whole = request.predicate is None and request.rows is None
    return counted(batches, file.row_count, path) if whole else batches
