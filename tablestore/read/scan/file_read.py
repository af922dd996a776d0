"""One data file as batches in the columns of the schema that is read with, without what its indexes exclude
(FORMAT.md 10.4).

Callers need not know which schema it was written under, and in which format. Indexes in manifests are used
while planning, those in files of their own when the data file is opened, as in Paimon. Only conditions that
may be applied to a file alone may be given: a row that another file hides or changes must not decide. A file
whose index is missing or damaged is read without it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from tablestore.core.errors import Corrupt
from tablestore.format import checksums, datafile, evolution
from tablestore.format.data_format import FileRequest, counted
from tablestore.format.datafile import INDEX_SUFFIX
from tablestore.format.file_index.reading import Selection, select
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema import TableSchema
from tablestore.io.paths import inside, join
from tablestore.meta.store import Store
from tablestore.read.supported import require_readable_file

log = logging.getLogger(__name__)
BATCH_ROWS = 65_536
TOLERANT = ("scan.ignore-corrupt-files", "scan.ignore-lost-files")


def read_file(
    store: Store, partition: bytes, bucket: int, file: DataFileMeta, request: FileRequest
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
    selected = True if pruned is None else select_rows(store, path, file, pruned)
    if selected is False:
        return
    if not isinstance(selected, bool):
        rows = selected if rows is None else rows & selected
    request = replace(request, columns=mapping.file_columns, predicate=pruned, rows=rows)
    for batch in stored(store, path, file, request):
        yield evolution.evolve(batch, mapping)


def tolerated(
    store: Store, partition: bytes, bucket: int, file: DataFileMeta, batches: Iterator[pa.RecordBatch]
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


def select_embedded(file: DataFileMeta, where: Predicate, own: TableSchema) -> Selection:
    """The rows that the index in a file's metadata leaves to `where`, which is bound to the file's own
    schema."""
    if file.embedded_index is None:
        return True
    name = f"the index in the manifest's entry of {file.file_name}"
    return select(file.embedded_index, name, where, own, file.row_count)


def select_rows(store: Store, path: str, file: DataFileMeta, where: Predicate) -> Selection:
    """The rows of the file at `path` that its indexes, wherever they are, leave to `where`."""
    if not store.options.file_index_read:
        return True
    own = store.schema_of(file.schema_id)
    if file.embedded_index is not None:
        return select_embedded(file, where, own)
    names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    if len(names) != 1:
        return True
    beside = join(path.rsplit("/", 1)[0], inside(names[0]))
    try:
        data = checksums.require_named(beside, store.io.read(beside))
        return select(data, beside, where, own, file.row_count)
    except (FileNotFoundError, Corrupt) as e:
        log.warning("%s is read without its index, which mend() makes again: %s", path, e)
        return True
