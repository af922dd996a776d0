"""Options with which Paimon 2.0.0 opens no table, or writes none: they are refused when a table is created or
altered.

Without these rules a table would be one of ours alone. A table that has such options already is read and
written all the same. Rules that also decide what is written here are in `supported.py`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from tablestore.core.errors import InvalidOption
from tablestore.core.options import reading
from tablestore.core.options.table_options import ChangelogProducer, TableOptions
from tablestore.core.options.values import boolean
from tablestore.format.data_format import FileSpec
from tablestore.format.schema import TableSchema
from tablestore.write.routing.bucket_mode import DYNAMIC_BUCKET

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
