"""The part of `check` for tables whose files above level 0 are read unmerged: each key is live there once.

That is so with deletion vectors (but for merge-on-read) and first-row: whatever replaced a row has marked it,
or was dropped itself. A compaction that did not see another one's files would break it, and a reader would
show the key twice. Looks at the newest state; a bucket with one level above 0 needs no look, as I4 holds in a
level. Memory: the keys of one bucket above level 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import TablestoreError
from tablestore.core.options.table_options import MergeEngine
from tablestore.core.options.values import DATA_FORMATS
from tablestore.format import deletion_vector
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.file_spec import file_format
from tablestore.format.manifests.manifest import DataFileMeta, ManifestEntry
from tablestore.format.snapshot import Snapshot
from tablestore.insight.check.findings import Findings
from tablestore.meta.deletion_files import Place, deletion_files
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import stored


def live_once(store: Store, findings: Findings, snapshot: Snapshot, newest: Sequence[ManifestEntry]) -> None:
    """I4: no key has two rows above level 0 that no deletion vector names."""
    vectors_of_table = store.options.deletion_vectors and not store.options.merge_on_read
    if not store.schema.primary_keys or not (
        vectors_of_table or store.options.merge_engine is MergeEngine.FIRST_ROW
    ):
        return
    vectors = deletion_files(store, snapshot) if vectors_of_table else {}
    for place, files in _in_two_levels(newest).items():
        where = store.bucket_dir(*place)
        try:
            twice = _twice(store, place, files, vectors.get(place, {}))
        except (TablestoreError, OSError, pa.ArrowException) as e:
            findings.note(
                f"{where}: keys above level 0 were not compared: {e}"
            )  # `data.py` reports the damage
            continue
        if twice:
            text = f"{twice} keys are live in two files above level 0, which readers do not merge"
            findings.violate("I4", where, text)


def _in_two_levels(newest: Sequence[ManifestEntry]) -> dict[Place, list[DataFileMeta]]:
    """Files above level 0 of the buckets that have them at more than one level."""
    buckets: dict[Place, list[DataFileMeta]] = {}
    for e in newest:
        if e.file.level > 0 and file_format(e.file.file_name) in DATA_FORMATS:
            buckets.setdefault((e.partition, e.bucket), []).append(e.file)
    return {place: files for place, files in buckets.items() if len({f.level for f in files}) > 1}


def _twice(
    store: Store, place: Place, files: Sequence[DataFileMeta], vectors: dict[str, DeletionFile]
) -> int:
    """How many keys have more than one live row."""
    names = store.schema.trimmed_primary_keys
    parts = [b for f in files for b in _live_keys(store, place, f, vectors.get(f.file_name), names)]
    if not parts:
        return 0
    counts = pa.Table.from_batches(parts).group_by(list(names)).aggregate([([], "count_all")])
    return pc.sum(pc.greater(counts.column("count_all"), 1)).as_py() or 0


def _live_keys(
    store: Store, place: Place, file: DataFileMeta, gone: DeletionFile | None, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Key columns, under today's names, of the rows of a file that are not marked."""
    own = store.schema_of(file.schema_id)
    stored_names = [own.by_id[k.id].name for k in store.schema.key_fields]
    batches = stored(store, store.file_path(*place, file), file, stored_names)
    vector = None if gone is None else deletion_vector.read(store.io, gone, rows=file.row_count)
    for batch in deletion_vector.surviving(batches, vector):
        yield batch.select(stored_names).rename_columns(list(names))
