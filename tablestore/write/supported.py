"""What this version can write, and what Paimon 2.0.0 would not: decided from schema and options before a byte
is read or written. Pure.

`require_writable` is asked of every table. `require_openable` is asked when a table is created or altered:
without its rules a table would be one of ours alone. A table that has such options already is read and
written all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tablestore.core.errors import InvalidOption, Unsupported
from tablestore.core.options import reading
from tablestore.core.options.rules import refusal_of_stored
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine, TableOptions, require_levels
from tablestore.core.options.values import boolean
from tablestore.format.data_format import FileSpec
from tablestore.format.datafile import require_storable
from tablestore.format.schema import TableSchema, require_plain_map
from tablestore.format.types.arrow_types import to_arrow
from tablestore.io.paths import POSTPONE_BUCKET, ExternalPaths
from tablestore.log.settings import require_log
from tablestore.lsm.compaction.loop import require_strategy
from tablestore.lsm.merge.validate import require_changelog, validate
from tablestore.write.routing.routing import DYNAMIC_BUCKET, BucketMode, key_is_global


def require_writable(schema: TableSchema, options: TableOptions, *, roots: Iterable[str] = ()) -> None:
    """Raise Unsupported naming the first feature of the table that this version does not write, and
    InvalidRequest where its data files go to none of the `roots` that the caller named."""
    refusal = refusal_of_stored(schema.options, keyed=bool(schema.primary_keys), writing=True)
    if refusal is not None:
        raise refusal
    for f in schema.fields:
        require_plain_map(schema, f.name)
        to_arrow(f.type)
    require_storable(schema, options)
    ExternalPaths.of(options).require(roots)
    require_buckets(schema, options)
    validate(schema, options)
    require_changelog(schema, options)
    require_levels(options)
    require_strategy(schema, options)
    require_log(schema, options)


def require_buckets(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOption for a bucket mode that the table's keys do not allow."""
    keyed, given = bool(schema.primary_keys), "bucket-key" in schema.options
    if options.bucket_function not in ("default", "mod", "hive"):
        raise InvalidOption(
            f"option 'bucket-function.type' is {options.bucket_function!r}; mod, hive or default"
        )
    if options.bucket == 0 or options.bucket < POSTPONE_BUCKET:
        raise InvalidOption(f"option 'bucket' is {options.bucket}; a number of buckets, -1 or -2")
    if options.bucket == POSTPONE_BUCKET and not keyed:
        raise InvalidOption("option 'bucket' is -2: only tables with a primary key have postponed buckets")
    if options.bucket > 0 and not keyed and not given:
        raise InvalidOption(f"option 'bucket' is {options.bucket}: an append table needs 'bucket-key' too")
    if options.bucket == DYNAMIC_BUCKET and given:
        raise InvalidOption("option 'bucket-key' needs a number of buckets in 'bucket'")
    if given or keyed:
        for key in schema.bucket_keys:
            if keyed and key not in schema.trimmed_primary_keys:
                raise InvalidOption(
                    f"option 'bucket-key' names {key!r}; "
                    "it must be part of the primary key and no partition column"
                )
            if key not in schema.by_name or key in schema.partition_keys:
                raise InvalidOption(
                    f"option 'bucket-key' names {key!r}; it must be a column and no partition column"
                )
            if schema.by_name[key].type.children:
                raise InvalidOption(f"option 'bucket-key' names {key!r}, whose type is nested")
    across = BucketMode.of(schema, options) is BucketMode.CROSS_PARTITION
    if across and options.ignore_delete and options.merge_engine is MergeEngine.DEDUPLICATE:
        raise InvalidOption(
            "option 'ignore-delete' needs all partition columns in the primary key: a row that moves to "
            "another partition would stay in the first one, too"
        )
    if options.row_tracking and (keyed or options.bucket != DYNAMIC_BUCKET):
        raise InvalidOption("option 'row-tracking.enabled' is for tables without primary key and buckets")


def warning_of(schema: TableSchema, options: TableOptions) -> str | None:
    """A warning for the creator of a table that is accepted; None if there is nothing to say."""
    if schema.primary_keys and not key_is_global(schema) and options.bucket > 0:
        missing = ", ".join(k for k in schema.partition_keys if k not in schema.primary_keys)
        return (
            f"the primary key lacks the partition columns {missing}: with a fixed number of buckets it is "
            "unique in each partition only; with 'bucket' = -1 rows move between partitions"
        )
    return None


def require_parallel_writers(schema: TableSchema, options: TableOptions) -> None:
    """Raise Unsupported for tables that take one writer at a time: a writer that assigns buckets must know
    all keys."""
    if BucketMode.of(schema, options) in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION):
        why = "only one writer may assign buckets: use Table.write, or a fixed number of buckets"
        raise Unsupported("writers of an engine's tasks on tables with dynamic buckets", why)


_OTHER_NAMES = {
    "avro": {"none": "null", "uncompressed": "null", "gzip": "deflate"},
    "orc": {"uncompressed": "none"},
}
_COMPACTING = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)


def require_openable(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidOption naming the first option with which Paimon refuses the table."""
    reading.mode_of(options.scan_mode, schema.options)
    for rule in _RULES:
        problem = rule(schema, options)
        if problem is not None:
            raise InvalidOption(problem)


def _retention(_: TableSchema, options: TableOptions) -> str | None:
    for what in ("snapshot", "changelog"):
        least, most = getattr(options, f"{what}_min_retained"), getattr(options, f"{what}_max_retained")
        if least > most:
            return (
                f"option '{what}.num-retained.max' is {most}, but {least} are always kept: set "
                f"'{what}.num-retained.min' to {most} or less, too"
            )
    return None


def _overwrites(schema: TableSchema, options: TableOptions) -> str | None:
    if not options.streaming_read_overwrite:
        return None
    if not schema.primary_keys:
        return (
            "option 'streaming-read-overwrite' is for tables with a primary key; this one has none: set "
            "'streaming-read-append-overwrite'"
        )
    if options.changelog_producer in _COMPACTING:
        return (
            "option 'streaming-read-overwrite' with changelog-producer "
            f"{options.changelog_producer.value!r} gives changes twice; leave it out"
        )
    return None


def _appended(schema: TableSchema, options: TableOptions) -> str | None:
    if schema.primary_keys:
        return None
    if options.full_delta_commits is not None and options.bucket == DYNAMIC_BUCKET:
        return "option 'full-compaction.delta-commits' needs a primary key or a number of buckets"
    if options.shows_sequence:
        return "option 'table-read.sequence-number.enabled' needs a primary key"
    return None


def _sorted_manifests(schema: TableSchema, _: TableOptions) -> str | None:
    if not boolean(schema.options.get("manifest-sort.enabled", "false")):
        return None
    column = schema.options.get("manifest-sort.partition-field")
    if not schema.partition_keys or (column and column not in schema.partition_keys):
        there = ", ".join(schema.partition_keys) or "none"
        return f"option 'manifest-sort.enabled' needs a partition column to sort by; there are: {there}"
    return None


def _codecs(_: TableSchema, options: TableOptions) -> str | None:
    for spec in sorted(FileSpec.all_of(options), key=lambda s: (s.format, s.compression)):
        name = _OTHER_NAMES.get(spec.format, {}).get(spec.compression)
        if name is not None:
            return (
                f"option {spec.compression_option!r} is {spec.compression!r}, with which Paimon writes no "
                f"{spec.format} files; its name there is {name!r}"
            )
    return None


_RULES: tuple[Callable[[TableSchema, TableOptions], str | None], ...] = (
    _retention,
    _overwrites,
    _appended,
    _sorted_manifests,
    _codecs,
)
