"""The part of `check` for what snapshots say: live files after each delta, counts, layout, identifiers; and
for schemas, whose ids and those of their fields it looks at.

Where files above level 0 are read unmerged each key is live there once. That is so with deletion vectors (but
for merge-on-read) and first-row: whatever replaced a row has marked it, or was dropped itself. A compaction
that did not see another one's files would break it, and a reader would show the key twice. That part looks at
the newest state; a bucket with one level above 0 needs no look, as I4 holds in a level. Memory: the keys of
one bucket above level 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import TablestoreError
from tablestore.core.options.names import UUID
from tablestore.core.options.table_options import MergeEngine
from tablestore.core.options.values import DATA_FORMATS
from tablestore.format import deletion_vector
from tablestore.format import schema as schema_format
from tablestore.format.data_format import FileRequest
from tablestore.format.deletion_vector import DeletionFile
from tablestore.format.manifests.manifest import ADD, DELETE, DataFileMeta, ManifestEntry
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import ANALYZE, APPEND, BATCH_IDENTIFIER, COMPACT, Snapshot
from tablestore.insight.check.findings import CheckFindings
from tablestore.insight.check.live_files import PlacedFiles
from tablestore.insight.check.metadata_reader import MetadataReader
from tablestore.io.paths import POSTPONE_BUCKET, file_format
from tablestore.meta.deletion_files import Place, deletion_files
from tablestore.meta.store import Store
from tablestore.read.scan.file_read import stored

_OURS = UUID  # an option of every table made here


def check_counts(
    store: Store, findings: CheckFindings, where: str, s: Snapshot, before: int, changed: list[ManifestEntry]
) -> None:
    """I8: record counts are sums over entries."""
    delta = sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in changed)
    if s.delta_record_count is not None and s.delta_record_count != delta:
        text = f"deltaRecordCount is {s.delta_record_count}, its entries sum to {delta}"
        findings.violate("I8", where, text)
    if s.total_record_count is not None and s.total_record_count != before + delta:
        text = f"totalRecordCount is {s.total_record_count}, the live files hold {before + delta}"
        if _OURS in store.schema.options:
            findings.violate("I8", where, text)
        else:
            findings.note(f"{where}: {text}: its writer may count merged rows")


def check_kind(
    store: Store, findings: CheckFindings, where: str, s: Snapshot, changed: list[ManifestEntry]
) -> None:
    """What each kind of commit may do."""
    deletes = sum(e.kind == DELETE for e in changed)
    if s.commit_kind == APPEND and deletes:
        findings.violate("I6", where, f"an APPEND deletes {deletes} files")
    if s.commit_kind == ANALYZE and changed:
        findings.violate("I6", where, f"an ANALYZE changes {len(changed)} files")
    if (
        s.commit_kind == COMPACT
        and any(e.kind == ADD and e.file.level == 0 for e in changed)
        and store.schema.primary_keys
        and not any(e.bucket == POSTPONE_BUCKET for e in changed)  # rows that waited come as if written
    ):
        findings.violate("I7", where, "a COMPACT writes into level 0")


def check_layout(store: Store, findings: CheckFindings, where: str, live: Iterable[PlacedFiles]) -> None:
    """I4: files of a level do not overlap in keys; `live` are all files of a partition, bucket by bucket.

    One file is at one level only; a partition has one number of buckets.
    """
    totals: set[int] = set()
    partition = ""
    for (of, bucket), entries in live:
        partition = store.partition_text(of)
        totals |= {e.total_buckets for e in entries} if bucket != POSTPONE_BUCKET else set()
        for e in entries:
            if e.total_buckets > 0 and not 0 <= bucket < e.total_buckets:
                text = f"{e.file.file_name} is in bucket {bucket} of {e.total_buckets}"
                findings.violate("I10", where, text)
        place = f"{where} {partition}/bucket-{bucket}".replace(" /", " ")
        for name, count in Counter(e.file.file_name for e in entries).items():
            if count > 1:
                findings.violate("I6", place, f"{name} is live at {count} levels")
        if store.schema.primary_keys and bucket != POSTPONE_BUCKET:  # postponed rows wait unsorted
            _check_runs(store, findings, place, [e.file for e in entries])
    if len(totals) > 1:
        findings.violate("I10", where, f"partition {partition!r} mixes bucket counts {sorted(totals)}")


def _check_runs(store: Store, findings: CheckFindings, where: str, files: list[DataFileMeta]) -> None:
    levels: dict[int, list[tuple[Any, Any, str]]] = {}
    for f in files:
        low, high = store.key_order(f.min_key), store.key_order(f.max_key)
        if high < low:
            findings.violate("I4", f"{where}/{f.file_name}", "its greatest key is below its least")
        levels.setdefault(f.level, []).append((low, high, f.file_name))
    for level, spans in levels.items():
        spans.sort()
        for (_, end, a), (begin, _, b) in pairwise(spans) if level > 0 else ():
            if begin <= end:
                findings.violate("I4", where, f"{a} and {b} overlap in keys at level {level}")


def check_identifiers(findings: CheckFindings, snapshots: list[Snapshot]) -> None:
    """I11: a user's streaming identifiers increase.

    Only the snapshots of one commit share one: first the rows, then the COMPACT.
    """
    last: dict[str, Snapshot] = {}
    for s in snapshots:
        if s.commit_identifier == BATCH_IDENTIFIER:
            continue
        before = last.get(s.commit_user)
        last[s.commit_user] = s
        if before is None or s.commit_identifier > before.commit_identifier:
            continue
        same = s.commit_identifier == before.commit_identifier
        if same and s.commit_kind == COMPACT and before.commit_kind != COMPACT:
            continue
        if s.commit_kind in (ANALYZE, COMPACT) or before.commit_kind == ANALYZE:
            continue  # maintenance under the same user: not a replay of rows
        after = f"{before.commit_identifier} in snapshot {before.id}"
        text = f"identifier {s.commit_identifier} of user {s.commit_user!r} follows {after}"
        findings.violate("I11", f"snapshot-{s.id}", text)


def numbered_at_once(before: Iterable[ManifestEntry], changed: Iterable[ManifestEntry]) -> set[Place]:
    """Buckets whose new rows are not numbered above all that were there: their writer began before those
    came, so that lower numbers lie above higher ones for good."""
    lowest: dict[Place, int] = {}
    for e in changed:
        if e.kind == ADD:
            place = e.partition, e.bucket
            lowest[place] = min(lowest.get(place, e.file.min_sequence), e.file.min_sequence)
    return {
        (e.partition, e.bucket)
        for e in before
        if e.file.max_sequence >= lowest.get((e.partition, e.bucket), e.file.max_sequence + 1)
    }


def rows_of(entries: Iterable[ManifestEntry]) -> int:
    """Rows of the files of entries, deletes and replaced ones included."""
    return sum(e.file.row_count for e in entries)


def readable_schemas(reader: MetadataReader) -> set[int]:
    """Ids of the schemas that can be read. I9: ids run without gaps; field ids are unique, never used again,
    never above the highest."""
    store, findings, readable = reader.store, reader.found, set[int]()
    ids = store.schemas.ids()
    if ids != list(range(len(ids))):
        findings.violate("I9", store.paths.schema_dir, f"schema ids {ids} have gaps")
    gone: set[int] = set()
    last: TableSchema | None = None
    for schema_id in ids:
        path = store.paths.schema(schema_id)
        schema = reader.read(path, partial(schema_format.from_json, path=path))
        if schema is None:
            continue
        readable.add(schema_id)
        _schema(findings, path, schema_id, schema, gone, last)
        gone |= (set(last.by_id) if last is not None else set()) - set(schema.by_id)
        last = schema
    return readable


def _schema(
    findings: CheckFindings,
    path: str,
    schema_id: int,
    s: TableSchema,
    gone: set[int],
    last: TableSchema | None,
) -> None:
    ids = [f.id for f in s.fields]
    if s.id != schema_id:
        findings.violate("I1", path, f"holds id {s.id}")
    if len(set(ids)) < len(ids) or len(set(s.names)) < len(s.names):
        findings.violate("I9", path, "a field id or name is there twice")
    if ids and max(ids) > s.highest_field_id:
        findings.violate("I9", path, f"field id {max(ids)} is above highestFieldId {s.highest_field_id}")
    if last is not None and s.highest_field_id < last.highest_field_id:
        findings.violate(
            "I9", path, f"highestFieldId fell from {last.highest_field_id} to {s.highest_field_id}"
        )
    if gone & set(ids):
        findings.violate(
            "I9", path, f"field ids {sorted(gone & set(ids))} were dropped before and are used again"
        )


def live_once(
    store: Store, findings: CheckFindings, snapshot: Snapshot, newest: Iterable[PlacedFiles]
) -> None:
    """I4: no key has two rows above level 0 that no deletion vector names."""
    vectors_of_table = store.options.deletion_vectors and not store.options.merge_on_read
    if not store.schema.primary_keys or not (
        vectors_of_table or store.options.merge_engine is MergeEngine.FIRST_ROW
    ):
        return
    vectors = deletion_files(store, snapshot) if vectors_of_table else {}
    for place, entries in newest:
        files = [e.file for e in entries if e.file.level > 0]
        files = [f for f in files if file_format(f.file_name) in DATA_FORMATS]
        if len({f.level for f in files}) < 2:
            continue
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
    batches = stored(store, store.file_path(*place, file), file, FileRequest(stored_names))
    vector = None if gone is None else deletion_vector.read(store.io, gone, rows=file.row_count)
    for batch in deletion_vector.surviving(batches, vector):
        yield batch.select(stored_names).rename_columns(list(names))
