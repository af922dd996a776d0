"""Data files and rows that a filter need not read, by the files' indexes (FORMAT.md 10.4).

Indexes in manifests are used while planning, those in files of their own when the data file is opened, as in
Paimon. Only conditions that may be applied to a file alone may be given: a row that another file hides or
changes must not decide. A file whose index is missing or damaged is read without it.
"""

from __future__ import annotations

import logging

from tablestore.core.errors import Corrupt
from tablestore.format import checksums
from tablestore.format.datafile import INDEX_SUFFIX
from tablestore.format.file_index.reading import Selection, select
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema import TableSchema
from tablestore.io.paths import inside, join
from tablestore.meta.store import Store

log = logging.getLogger(__name__)


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
