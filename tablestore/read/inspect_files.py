"""The tables of `inspect` that are made from live data files: files, levels, partitions, buckets.

Pure but for the store's texts and schemas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablestore.format import binary_row
from tablestore.format.binary_row import Raw
from tablestore.format.index_manifest import IndexEntry
from tablestore.format.manifest import ManifestEntry
from tablestore.format.text import cast_text, legacy_text
from tablestore.format.types import DataType
from tablestore.lsm.sorted_run import Levels
from tablestore.meta.store import Store
from tablestore.read.file_stats import stats_by_name
from tablestore.read.support import file_format

_MS = pa.timestamp("ms")
_SOURCES = {0: "APPEND", 1: "COMPACT"}


def required(schema: pa.Schema, names: str) -> pa.Schema:
    """The schema with these columns NOT NULL."""
    wanted = names.split()
    return pa.schema([f.with_nullable(f.name not in wanted) for f in schema])


FILES = required(
    pa.schema(
        {
            "partition": pa.string(),
            "bucket": pa.int32(),
            "file_path": pa.string(),
            "file_format": pa.string(),
            "schema_id": pa.int64(),
            "level": pa.int32(),
            "record_count": pa.int64(),
            "file_size_in_bytes": pa.int64(),
            "min_key": pa.string(),
            "max_key": pa.string(),
            "null_value_counts": pa.string(),
            "min_value_stats": pa.string(),
            "max_value_stats": pa.string(),
            "min_sequence_number": pa.int64(),
            "max_sequence_number": pa.int64(),
            "creation_time": _MS,
            "deleteRowCount": pa.int64(),
            "file_source": pa.string(),
            "first_row_id": pa.int64(),
            "write_cols": pa.list_(pa.string()),
        }
    ),
    "bucket file_path file_format schema_id level record_count file_size_in_bytes null_value_counts "
    "min_value_stats max_value_stats",
)
LEVELS = pa.schema(
    {
        "partition": pa.string(),
        "bucket": pa.int32(),
        "level": pa.int32(),
        "run": pa.int32(),
        "file_name": pa.string(),
        "rows": pa.int64(),
        "deletes": pa.int64(),
        "bytes": pa.int64(),
        "min_key": pa.string(),
        "max_key": pa.string(),
        "min_key_pos": pa.float64(),
        "max_key_pos": pa.float64(),
        "min_sequence": pa.int64(),
        "max_sequence": pa.int64(),
        "schema_id": pa.int64(),
        "creation_time": _MS,
        "file_source": pa.string(),
        "snapshot_id": pa.int64(),
    }
)
PARTITIONS = required(
    pa.schema(
        {
            "partition": pa.string(),
            "record_count": pa.int64(),
            "file_size_in_bytes": pa.int64(),
            "file_count": pa.int64(),
            "last_update_time": _MS,
            "created_at": _MS,
            "created_by": pa.string(),
            "updated_by": pa.string(),
            "options": pa.string(),
            "total_buckets": pa.int32(),
            "done": pa.bool_(),
            "deleted_record_count": pa.int64(),
        }
    ),
    "record_count file_size_in_bytes file_count total_buckets done",
)
BUCKETS = required(
    pa.schema(
        {
            "partition": pa.string(),
            "bucket": pa.int32(),
            "record_count": pa.int64(),
            "file_size_in_bytes": pa.int64(),
            "file_count": pa.int64(),
            "last_update_time": _MS,
        }
    ),
    "bucket record_count file_size_in_bytes file_count",
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
TABLE_INDEXES = required(
    pa.schema(
        {
            "partition": pa.string(),
            "bucket": pa.int32(),
            "index_type": pa.string(),
            "file_name": pa.string(),
            "file_size": pa.int64(),
            "row_count": pa.int64(),
            "dv_ranges": pa.list_(pa.field("element", _RANGE)),
            "row_range_start": pa.int64(),
            "row_range_end": pa.int64(),
            "index_field_id": pa.int32(),
            "index_field_name": pa.string(),
        }
    ),
    "bucket index_type file_name file_size row_count",
)


def table_indexes(store: Store, entries: Sequence[IndexEntry]) -> pa.Table:
    """One row an index file, as `$table_indexes`."""
    return made(TABLE_INDEXES, [_index_row(store, e) for e in entries])


def _index_row(store: Store, e: IndexEntry) -> tuple[Any, ...]:
    f, ranges = e.file, None
    if f.dv_ranges is not None:
        ranges = [
            {"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality}
            for r in f.dv_ranges
        ]
    meta = f.global_index or {}
    places = (meta.get("_ROW_RANGE_START"), meta.get("_ROW_RANGE_END"), meta.get("_INDEX_FIELD_ID"))
    name = store.schema.by_id[places[2]].name if places[2] in store.schema.by_id else None
    where = (_partition(store, e.partition), e.bucket)
    return *where, f.index_type, f.file_name, f.file_size, f.row_count, ranges, *places, name


def files(store: Store, entries: Sequence[ManifestEntry]) -> pa.Table:
    """One row a live file, as `$files`."""
    return made(FILES, [_file_row(store, e) for e in entries])


def _file_row(store: Store, e: ManifestEntry) -> tuple[Any, ...]:
    f = e.file
    known = sorted(stats_by_name(f, store.schema_of(f.schema_id), store.schema).items())
    types = {field.name: field.type for field in store.schema.fields}
    path = f.external_path or store.file_path(e.partition, e.bucket, f)
    return (
        _partition(store, e.partition),
        e.bucket,
        path,
        file_format(f.file_name),
        f.schema_id,
        f.level,
        f.row_count,
        f.file_size,
        *_key_texts(store, e),
        _named((n, "null" if s.null_count is None else str(s.null_count)) for n, s in known),
        _named((n, raw_text(s.min, types[n])) for n, s in known),
        _named((n, raw_text(s.max, types[n])) for n, s in known),
        f.min_sequence,
        f.max_sequence,
        f.creation_time_ms,
        f.delete_count,
        _SOURCES.get(f.file_source) if f.file_source is not None else None,
        f.first_row_id,
        None if f.write_cols is None else list(f.write_cols),
    )


def raw_text(value: Raw, t: DataType) -> str:
    """A bound as Java prints its internal value: a DATE is its epoch day; null as `null`."""
    return "null" if value is None else legacy_text(value, t)


def braced(values: Sequence[Raw], types: Sequence[DataType]) -> str:
    """`{1, b}`, null as `null`."""
    return "{" + ", ".join(cast_text(v, t) for v, t in zip(values, types, strict=True)) + "}"


def _partition(store: Store, partition: bytes) -> str:
    return braced(store.partition_values(partition), store.partition_types)


def _key_texts(store: Store, e: ManifestEntry) -> tuple[str | None, str | None]:
    if not store.key_types:
        return None, None
    return store.key_text(e.file.min_key), store.key_text(e.file.max_key)


def _named(pairs: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{n}={v}" for n, v in pairs) + "}"


def levels(
    store: Store,
    entries: Iterable[ManifestEntry],
    *,
    partition: str | None,
    bucket: int | None,
    origins: Mapping[str, int],
) -> pa.Table:
    """One row a live file with its run and its place on the key axis of its bucket."""
    chosen = (e for e in entries if bucket is None or e.bucket == bucket)
    rows: list[tuple[Any, ...]] = []
    for (key, number), some in _by_bucket(store, chosen):
        text = store.partition_text(key)
        if partition is None or text == partition:
            found = _bucket_levels(store, text, number, some)
            rows += [(*row, origins.get(row[4])) for row in found]  # by file name
    return made(LEVELS, rows)


def _by_bucket(
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


def _bucket_levels(
    store: Store, text: str, bucket: int, entries: list[ManifestEntry]
) -> list[tuple[Any, ...]]:
    tree = Levels.of([e.file for e in entries], store.options.num_levels, store.key_order)
    by_file = {id(e.file): e for e in entries}
    ends = [k for e in entries for k in (e.file.min_key, e.file.max_key)]
    position = key_axis(ends, store.key_types)
    rows = []
    for run, sorted_run in enumerate(tree.runs):
        for f in sorted_run.files:
            keys = _key_texts(store, by_file[id(f)])
            source = _SOURCES.get(f.file_source) if f.file_source is not None else None
            places = sorted(
                (position(f.min_key), position(f.max_key)), key=lambda p: p or 0.0
            )  # postponed: any order
            counts = (f.row_count, f.delete_count, f.file_size)
            tail = (f.min_sequence, f.max_sequence, f.schema_id, f.creation_time_ms, source)
            rows.append((text, bucket, f.level, run, f.file_name, *counts, *keys, *places, *tail))
    return rows


def key_axis(keys: Sequence[bytes], types: Sequence[DataType]) -> Callable[[bytes], float | None]:
    """A map of serialized keys to 0..1, linear in the first column in which `keys` differ."""
    if not types or not keys:
        return lambda key: None
    rows = [binary_row.decode(k, types) for k in keys]
    for i, t in enumerate(types):
        values = [r[i] for r in rows]
        if len(set(map(repr, values))) > 1:
            number = _number_line([v for v in values if v is not None], t)
            numbers = [number(v) for v in values]
            low, high = min(numbers), max(numbers)
            if high > low:
                column = i
                return lambda key: (number(binary_row.decode(key, types)[column]) - low) / (high - low)
    return lambda key: 0.5


def _number_line(values: Sequence[Raw], t: DataType) -> Callable[[Raw], float]:
    """Numbers in the order of the values; of texts, eight bytes after what all of them begin with."""
    if not (t.is_string or t.is_binary):
        finite = [float(v) for v in values if math.isfinite(v)] or [0.0]  # type: ignore[arg-type]
        low, high = min(finite), max(finite)
        return lambda v: low if v is None else high if v != v else min(max(float(v), low), high)  # type: ignore[arg-type]
    raw = [_bytes(v) for v in values]
    first, last = min(raw), max(raw)
    shared = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return lambda v: float(int.from_bytes(_bytes(v)[shared : shared + 8].ljust(8, b"\0"), "big"))


def _bytes(value: Raw) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value or b"")  # type: ignore[arg-type]


def partitions(
    store: Store, entries: Iterable[ManifestEntry], indexes: Iterable[IndexEntry] = ()
) -> pa.Table:
    """One row a partition, as `$partitions`, by the text of its name; `indexes` tell the rows deleted by
    vectors."""
    groups: dict[bytes, list[ManifestEntry]] = {}
    for (partition, _), some in _by_bucket(store, entries):
        groups.setdefault(partition, []).extend(some)
    deleted = _deleted(indexes)
    rows = []
    for partition, some in groups.items():
        tail = (None, None, None, None, some[0].total_buckets, False, deleted.get(partition, 0))
        rows.append((store.partition_text(partition), *_added_up(some), *tail))
    return made(PARTITIONS, sorted(rows, key=lambda row: row[0]))


def _deleted(indexes: Iterable[IndexEntry]) -> dict[bytes, int | None]:
    """Rows that deletion vectors take away, by partition; None where a container does not say how many."""
    found: dict[bytes, int | None] = {}
    for e in indexes:
        for r in e.file.dv_ranges or ():
            known = found.get(e.partition, 0)
            found[e.partition] = None if known is None or r.cardinality is None else known + r.cardinality
    return found


def buckets(store: Store, entries: Iterable[ManifestEntry]) -> pa.Table:
    """One row a bucket, as `$buckets`."""
    rows = ((_partition(store, p), b, *_added_up(some)) for (p, b), some in _by_bucket(store, entries))
    return made(BUCKETS, rows)


def _added_up(entries: Sequence[ManifestEntry]) -> tuple[Any, ...]:
    """Rows, bytes, files, newest creation time."""
    made = [e.file.creation_time_ms for e in entries if e.file.creation_time_ms is not None]
    rows, size = sum(e.file.row_count for e in entries), sum(e.file.file_size for e in entries)
    return rows, size, len(entries), max(made, default=None)


def made(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """A table of few rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
