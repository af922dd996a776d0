"""The tables of `inspect` that are made from live data files and index files: files, levels, table_indexes,
pressure.

Pure but for the store's texts and schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablestore.core.errors import TablestoreError
from tablestore.format import binary_row
from tablestore.format.binary_row import Raw
from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.format.manifests.manifest import DataFileMeta, ManifestEntry
from tablestore.format.predicates import literal
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import Snapshot
from tablestore.format.stats import ColumnStats
from tablestore.format.text import legacy_text
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.doctor.facts import Facts, Limits
from tablestore.insight.inspect.columns import LEVELS, SOURCES, level_rows
from tablestore.io.paths import file_format
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.meta.store import Store, braced_partition
from tablestore.read.scan.file_stats import own_stats, stats_by_name

FILES = result_schema(
    "partition string, bucket int32!, file_path string!, file_format string!, schema_id int64!, "
    "level int32!, record_count int64!, file_size_in_bytes int64!, min_key string, max_key string, "
    "null_value_counts string!, min_value_stats string!, max_value_stats string!, "
    "min_sequence_number int64, max_sequence_number int64, creation_time ms, deleteRowCount int64, "
    "file_source string, first_row_id int64, write_cols strings"
)
KEY_RANGES = [*FILES.names[:10], "first_row_id"]
_RANGE = pa.struct(
    [
        pa.field("f0", pa.string(), nullable=False),
        pa.field("f1", pa.int32(), nullable=False),
        pa.field("f2", pa.int32(), nullable=False),
        pa.field("_CARDINALITY", pa.int64()),
    ]
)
TABLE_INDEXES = result_schema(
    "partition string, bucket int32!, index_type string!, file_name string!, file_size int64!, "
    "row_count int64!, dv_ranges dv_ranges, row_range_start int64, row_range_end int64, "
    "index_field_id int32, index_field_name string",
    dv_ranges=pa.list_(pa.field("element", _RANGE)),
)


def table_indexes(store: Store, entries: Sequence[IndexEntry]) -> pa.Table:
    """One row an index file, as `$table_indexes`."""
    return table_of(TABLE_INDEXES, [_index_row(store, e) for e in entries])


def _index_row(store: Store, e: IndexEntry) -> tuple[Any, ...]:
    f, ranges = e.file, None
    if f.dv_ranges is not None:
        ranges = [
            {"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality}
            for r in f.dv_ranges
        ]
    meta = f.global_index or {}
    column: Any = meta.get("_INDEX_FIELD_ID")
    places = (meta.get("_ROW_RANGE_START"), meta.get("_ROW_RANGE_END"), column)
    name = store.schema.by_id[column].name if column in store.schema.by_id else None
    where = (braced_partition(store, e.partition), e.bucket)
    return *where, f.index_type, f.file_name, f.file_size, f.row_count, ranges, *places, name


def files(store: Store, entries: Sequence[ManifestEntry]) -> pa.Table:
    """One row a live file, as `$files`."""
    return table_of(FILES, [_file_row(store, e) for e in entries])


def _file_row(store: Store, e: ManifestEntry) -> tuple[Any, ...]:
    f = e.file
    columns = _shown_stats(f, store.schema_of(f.schema_id), store.schema)
    types = {field.name: field.type for field in store.schema.fields}
    path = f.external_path or store.file_path(e.partition, e.bucket, f)
    return (
        braced_partition(store, e.partition),
        e.bucket,
        path,
        file_format(f.file_name),
        f.schema_id,
        f.level,
        f.row_count,
        f.file_size,
        _raw_key(store, f.min_key),
        _raw_key(store, f.max_key),
        _named((n, "null" if s.null_count is None else str(s.null_count)) for n, s in columns),
        _named((n, raw_text(s.min, types[n])) for n, s in columns),
        _named((n, raw_text(s.max, types[n])) for n, s in columns),
        f.min_sequence,
        f.max_sequence,
        f.creation_time_ms,
        f.delete_count,
        SOURCES.get(f.file_source) if f.file_source is not None else None,
        f.first_row_id,
        None if f.write_cols is None else list(f.write_cols),
    )


def _shown_stats(
    file: DataFileMeta, written: TableSchema, schema: TableSchema
) -> list[tuple[str, ColumnStats]]:
    """Statistics of every column by name; bounds of columns whose type has changed are cast, for show."""
    own, there = own_stats(file, written), stats_by_name(file, written, schema)
    shown = []
    for f in sorted(schema.fields, key=lambda f: f.name):
        stats = there.get(f.name, ColumnStats(None, None, None, file.row_count))
        before = written.by_id.get(f.id)
        if before is not None and before.name in own and before.type.as_nullable() != f.type.as_nullable():
            stored = own[before.name]
            low, high = (_cast(v, before.type, f.type) for v in (stored.min, stored.max))
            stats = ColumnStats(low, high, stored.null_count, stored.rows)
        shown.append((f.name, stats))
    return shown


def _cast(value: Raw, before: DataType, after: DataType) -> Raw:
    if value is None:
        return None
    before, after = before.as_nullable(), after.as_nullable()
    try:
        return binary_row.raw_values(casts.cast(literal.array([value], before), before, after), after)[0]
    except (TablestoreError, pa.ArrowInvalid):
        return None


def raw_text(value: Raw, t: DataType) -> str:
    """A bound as Java prints its internal value: a DATE is its epoch day; null as `null`."""
    return "null" if value is None else legacy_text(value, t)


def _raw_key(store: Store, key: bytes) -> str | None:
    """`[1, b]` of a serialized key, None without one."""
    types = store.key_types
    if not types:
        return None
    values = binary_row.decode(key, types)
    return "[" + ", ".join(raw_text(v, t) for v, t in zip(values, types, strict=True)) + "]"


def _named(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{n}={v}" for n, v in pairs) + "}"


def levels(
    store: Store,
    entries: Iterable[ManifestEntry],
    *,
    origins: Mapping[str, int],
    masked: Mapping[str, int | None],
) -> pa.Table:
    """One row a live file with its run and its place on the key axis of its bucket; `origins` are the
    snapshots in which files came, `masked` the rows that deletion vectors take away, both by file name."""
    rows: list[tuple[Any, ...]] = []
    for (key, bucket), some in by_bucket(store, entries):
        tree = Levels.of([e.file for e in some], store.options.num_levels, store.key_order)
        rows += level_rows(
            tree,
            store.key_types,
            partition=store.partition_text(key),
            bucket=bucket,
            origins=origins,
            masked=masked,
        )
    return table_of(LEVELS, rows)


def masked_rows(entries: Iterable[IndexEntry]) -> dict[str, int | None]:
    """How many rows of each data file its deletion vector takes away."""
    vectors = (r for e in entries for r in e.file.dv_ranges or ())
    return {r.data_file: r.cardinality for r in vectors}


def by_bucket(
    store: Store, entries: Iterable[ManifestEntry]
) -> list[tuple[tuple[bytes, int], list[ManifestEntry]]]:
    """Entries of each (partition, bucket), in the order of partition values."""
    groups: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for e in entries:
        groups.setdefault((e.partition, e.bucket), []).append(e)
    types = [t.as_nullable() for t in store.partition_types]

    def place(partition: bytes) -> tuple[Any, ...]:
        return binary_row.sort_key(store.partition_values(partition), types)

    return sorted(groups.items(), key=lambda item: (place(item[0][0]), item[0][1]))


SCHEMA = result_schema(
    "partition string!, bucket int32!, runs int32!, level0_files int32!, trigger int32!, "
    "stop_trigger int32!, flushes_until_compaction int32!, flushes_until_stall int32!, bytes int64!, "
    "due string, reason string!"
)


def pressure(store: Store, snapshot: Snapshot | None) -> pa.Table:
    """How far each bucket of a table with a primary key is from a compaction and from a write stall, the
    nearest first; no rows for others.

    Sorted runs (leveled: files of level 0) now, the trigger, the stop trigger, how many more flushes go
    without either, and what the rules would compact now with their reason. From manifests; the files of one
    bucket at a time are objects.
    """
    if snapshot is None or not store.schema.primary_keys:
        return table_of(SCHEMA, [])
    facts = Facts(store, snapshot, Limits())
    places, rules = facts.places, facts.rules
    rows = []
    for place, entries in enumerate(facts.files_by_place()):
        decision, backlog = facts.decided(entries), int(facts.backlog[place])
        until = facts.trigger - backlog
        if rules.force_up_level0:
            until = min(until, rules.level0_interval - int(places.level0[place]))
        rows.append(
            (
                store.partition_text(places.partition[place]),
                int(places.bucket[place]),
                int(places.runs[place]),
                int(places.level0[place]),
                facts.trigger,
                rules.stop_trigger,
                0 if decision.unit is not None else max(until, 1),
                max(0, rules.stop_trigger - backlog + 1),
                int(places.size[place]),
                decision.unit.text if decision.unit is not None else None,
                f"{decision.reason.rule}: {decision.reason.text}",
            )
        )
    return table_of(SCHEMA, sorted(rows, key=lambda r: (r[7], -r[2], r[0], r[1])))
