"""Views whose rows are values of metadata files, one each: snapshots, schemas, manifests, statistics,
aggregations of columns, tags; and sums of files: partitions and buckets. Columns and text forms are those of
Paimon's system tables (FORMAT.md 23).

`references` names what keeps snapshots: tags and branches. A branch begins at the oldest snapshot it has;
whoever draws a timeline bends it off there if the snapshot is also this branch's own (same user, identifier
and time, since ids count anew in each branch). Partitions and buckets are made from all entries of a state,
deletions included: the newest creation time is that of any file. Pure but for the files they are about. Used
by `Inspect`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, NotFound, brief
from tablestore.core.options.secrets import hidden
from tablestore.format import schema as schema_format
from tablestore.format import stats
from tablestore.format.manifests.index_manifest import IndexEntry
from tablestore.format.manifests.manifest import ADD, ManifestEntry, ManifestFileMeta, SimpleStats
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.snapshot import Snapshot
from tablestore.format.text import cast_text
from tablestore.insight.inspect.columns import SNAPSHOTS
from tablestore.insight.inspect.files import by_bucket
from tablestore.meta import refs, statistics
from tablestore.meta.store import Store, braced, braced_partition
from tablestore.read.scan.time_travel import local_ms

SCHEMAS = result_schema(
    "schema_id int64!, fields string!, partition_keys string!, primary_keys string!, options string!, "
    "comment string, update_time ms!"
)
MANIFESTS = result_schema(
    "file_name string!, file_size int64!, num_added_files int64!, num_deleted_files int64!, "
    "schema_id int64!, min_partition_stats string, max_partition_stats string, min_row_id int64, "
    "max_row_id int64"
)
STATISTICS = result_schema(
    "snapshot_id int64!, schema_id int64!, mergedRecordCount int64, mergedRecordSize int64, colstat string"
)
AGGREGATION_FIELDS = result_schema(
    "field_name string!, field_type string!, function string, function_options string, comment string"
)
OPTIONS = result_schema("key string!, value string!")
BRANCHES = result_schema("branch_name string!, create_time ms!")
CONSUMERS = result_schema("consumer_id string!, next_snapshot_id int64!")
TAGS = result_schema(
    "tag_name string!, snapshot_id int64!, schema_id int64!, commit_time ms!, record_count int64, "
    "create_time ms, time_retained string"
)


def snapshots(chosen: Iterable[Snapshot]) -> pa.Table:
    """A row a snapshot, in the same order."""
    return table_of(SNAPSHOTS, map(_snapshot_row, chosen))


def _snapshot_row(s: Snapshot) -> tuple[Any, ...]:
    other = {"snapshot_id": s.id, "commit_time": local_ms(s.time_millis)}
    return tuple(other[name] if name in other else getattr(s, name) for name in SNAPSHOTS.names)


def schemas(store: Store) -> pa.Table:
    """Every schema, from the files themselves: types of any kind are shown as they are stored."""
    return table_of(SCHEMAS, (_schema_row(store, i) for i in store.schemas.ids()))


def _schema_row(store: Store, schema_id: int) -> tuple[Any, ...]:
    path = store.paths.schema(schema_id)
    body = _json(store.io.read(path), path)
    options = body.get("options")
    options = hidden(options) if isinstance(options, dict) else options
    parts = (body.get("fields"), body.get("partitionKeys"), body.get("primaryKeys"), options)
    texts = [json.dumps(p, ensure_ascii=False, separators=(",", ":")) for p in parts]
    comment = body.get("comment")
    try:
        schema_format.require_encodable(texts if comment is None else [*texts, comment])
        return schema_id, *texts, comment, local_ms(int(body.get("timeMillis") or 0))
    except (ValueError, TypeError, AttributeError, OverflowError) as e:
        raise Corrupt(path, f"not a schema file: {brief(e)}") from e


def _json(data: bytes, path: str) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise Corrupt(path, f"not JSON: {brief(e)}") from e
    if not isinstance(body, dict):
        raise Corrupt(path, "not a JSON object")
    return body


def manifests(store: Store, metas: Iterable[ManifestFileMeta]) -> pa.Table:
    """A row a manifest, with the bounds of its partitions."""
    return table_of(MANIFESTS, (_manifest_row(store, m) for m in metas))


def _manifest_row(store: Store, m: ManifestFileMeta) -> tuple[Any, ...]:
    counts = (m.file_size, m.num_added, m.num_deleted, m.schema_id)
    return m.file_name, *counts, *_bounds(store, m.partition_stats), None, None


def _bounds(store: Store, partition_stats: SimpleStats) -> tuple[str, str]:
    types = [t.as_nullable() for t in store.partition_types]
    columns = stats.decode(partition_stats, types, 0) if types else []
    return braced([c.min for c in columns], types), braced([c.max for c in columns], types)


def statistics_of(store: Store, snapshot: Snapshot | None) -> pa.Table:
    """What ANALYZE found, if the snapshot's columns are those it was made of; one row or none."""
    figures = statistics.read(store, snapshot)
    if figures is None or figures.schema_id != store.schema.id:
        return table_of(STATISTICS, [])
    columns = json.dumps(
        statistics.columns_json(figures.columns), indent=2, ensure_ascii=False, separators=(",", " : ")
    )
    counts = (figures.merged_record_count, figures.merged_record_size)
    return table_of(STATISTICS, [(figures.snapshot_id, figures.schema_id, *counts, columns)])


def aggregation_fields(store: Store) -> pa.Table:
    """Each column with the `fields.<column>.…` options it has."""
    own: dict[str, list[tuple[str, str]]] = {f.name: [] for f in store.schema.fields}
    for key, value in store.schema.options.items():
        parts = key.split(".")
        if len(parts) > 2 and parts[0] == "fields" and parts[1] in own:
            own[parts[1]].append((value, key))
    rows = (
        (
            f.name,
            str(f.type),
            _listed(v for v, _ in own[f.name]),
            _listed(k for _, k in own[f.name]),
            f.description,
        )
        for f in store.schema.fields
    )
    return table_of(AGGREGATION_FIELDS, rows)


def _listed(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"


def tags(chosen: Iterable[refs.Tag]) -> pa.Table:
    """A row a tag."""
    return table_of(TAGS, map(_tag_row, chosen))


def _tag_row(tag: refs.Tag) -> tuple[Any, ...]:
    s, kept = tag.snapshot, tag.retained_seconds
    times = (local_ms(s.time_millis), s.total_record_count, tag.created_ms)
    return tag.name, s.id, s.schema_id, *times, None if kept is None else java_duration(kept)


def java_duration(seconds: float) -> str:
    """Seconds as Java prints a Duration: PT24H, PT1M0.5S."""
    whole, nanos = divmod(round(seconds * 1_000_000_000), 1_000_000_000)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    parts.append(f"{rest}{fraction}S" if rest or nanos or not whole else "")
    return "PT" + "".join(parts)


TAG, BRANCH = "tag", "branch"
REFERENCES = result_schema(
    "kind string!, name string!, snapshot_id int64, commit_kind string, commit_time ms, "
    "record_count int64, in_history bool!"
)


def references(store: Store) -> pa.Table:
    """Rows of REFERENCES, tags first, each kind by name."""
    return table_of(REFERENCES, [*_tags(store), *_branches(store)])


def _tags(store: Store) -> Iterator[tuple[Any, ...]]:
    for tag in refs.all_tags(store):
        yield _row(TAG, tag.name, tag.snapshot, _in_history(store, tag.snapshot))


def _branches(store: Store) -> Iterator[tuple[Any, ...]]:
    for name in sorted(refs.branches(store)):
        if name == store.paths.branch:
            continue
        there = refs.on_branch(store, name)
        ids = there.snapshots.ids()
        first = there.snapshots.get(ids[0]) if ids else None
        yield _row(BRANCH, name, first, first is not None and _in_history(store, first))


def _row(kind: str, name: str, snapshot: Snapshot | None, shared: bool) -> tuple[Any, ...]:
    if snapshot is None:
        return kind, name, None, None, None, None, False
    when = local_ms(snapshot.time_millis)
    return kind, name, snapshot.id, snapshot.commit_kind, when, snapshot.total_record_count, shared


def _in_history(store: Store, snapshot: Snapshot) -> bool:
    """Whether this branch still has the very same snapshot."""
    try:
        own = store.snapshots.get(snapshot.id)
    except NotFound:
        return False
    mine, other = ((s.commit_user, s.commit_identifier, s.time_millis) for s in (own, snapshot))
    return mine == other


PARTITIONS = result_schema(
    "partition string, record_count int64!, file_size_in_bytes int64!, file_count int64!, "
    "last_update_time ms, created_at ms, created_by string, updated_by string, options string, "
    "total_buckets int32!, done bool!, deleted_record_count int64"
)
BUCKETS = result_schema(
    "partition string, bucket int32!, record_count int64!, file_size_in_bytes int64!, "
    "file_count int64!, last_update_time ms"
)


def partitions(
    store: Store,
    entries: Iterable[ManifestEntry],
    indexes: Iterable[IndexEntry] = (),
    *,
    as_directories: bool = False,
) -> pa.Table:
    """One row a partition, as `$partitions`, by the text of its name, from all entries of a state, deletions
    included. `indexes` have the rows deleted by vectors; `as_directories` names values as directories do."""
    groups: dict[bytes, list[ManifestEntry]] = {}
    for (partition, _), some in by_bucket(store, entries):
        groups.setdefault(partition, []).extend(some)
    deleted = _deleted(indexes)
    rows = []
    for partition, some in groups.items():
        counts = _added_up(some)
        if counts[2]:
            tail = (None, None, None, None, some[-1].total_buckets, False, deleted.get(partition, 0))
            name = _partition_name(store, partition)
            if as_directories:
                name = "/".join(f"{key}={value}" for key, value in store.partition_pairs(partition))
            rows.append((name, *counts, *tail))
    return table_of(PARTITIONS, sorted(rows, key=lambda row: row[0]))


def of_state(store: Store, snapshot: Snapshot | None) -> pa.Table:
    """The partitions of one snapshot, none of a table without any."""
    manifests = store.manifests
    return partitions(store, manifests.stored_entries(snapshot), manifests.index_entries(snapshot))


def united(first: pa.Table, second: pa.Table) -> pa.Table:
    """The partitions of two branches; the first one's where both have one."""
    new = pc.invert(pc.is_in(second.column("partition"), first.column("partition")))
    return pa.concat_tables([first, second.filter(new)]).sort_by("partition")


def _partition_name(store: Store, partition: bytes) -> str:
    """`day=2024-01-02/region=eu`; blank values have the name of the default partition."""
    default, parts = store.options.partition_default_name, []
    for f, value in zip(store.schema.partition_fields, store.partition_values(partition), strict=True):
        blank = value is None or (isinstance(value, str) and not value.strip())
        parts.append(f"{f.name}={default if blank else cast_text(value, f.type)}")
    return "/".join(parts)


def _deleted(indexes: Iterable[IndexEntry]) -> dict[bytes, int | None]:
    """Rows that deletion vectors take away, by partition; None where a container does not say how many."""
    deleted: dict[bytes, int | None] = {}
    for e in indexes:
        for r in e.file.dv_ranges or ():
            rows = deleted.get(e.partition, 0)
            deleted[e.partition] = None if rows is None or r.cardinality is None else rows + r.cardinality
    return deleted


def buckets(store: Store, entries: Iterable[ManifestEntry]) -> pa.Table:
    """One row a bucket, as `$buckets`, from all entries of a state, deletions included."""
    rows = ((braced_partition(store, p), b, *_added_up(some)) for (p, b), some in by_bucket(store, entries))
    return table_of(BUCKETS, [row for row in rows if row[4]])


def _added_up(entries: Sequence[ManifestEntry]) -> tuple[Any, ...]:
    """Rows, bytes and files that are left, and the newest creation time of any file, a deleted one too."""
    times = [e.file.creation_time_ms for e in entries if e.file.creation_time_ms is not None]
    signs = [(1 if e.kind == ADD else -1, e.file) for e in entries]
    rows, size = sum(n * f.row_count for n, f in signs), sum(n * f.file_size for n, f in signs)
    return rows, size, sum(n for n, _ in signs), max(times, default=None)
