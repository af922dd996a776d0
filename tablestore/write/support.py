"""What this version writes: refused at the table, by name, before a byte is read or written."""

from __future__ import annotations

from tablestore.errors import InvalidOption, InvalidRequest, Unsupported
from tablestore.format.schema import TableSchema
from tablestore.format.types import to_arrow
from tablestore.options import ChangelogProducer, MergeEngine, TableOptions


def require_writable(schema: TableSchema, options: TableOptions) -> None:
    """Raise Unsupported naming the first feature of the table that this version does not write."""
    for f in schema.fields:
        to_arrow(f.type)
    if not schema.primary_keys:
        raise Unsupported("writing tables without a primary key", "pass primary_key=[…]")
    if options.bucket < 1:
        raise Unsupported(f"writing tables with bucket = {options.bucket}", "only a fixed number of buckets")
    refused = {
        f"merge-engine = {options.merge_engine.value}": options.merge_engine is not MergeEngine.DEDUPLICATE,
        f"changelog-producer = {options.changelog_producer.value}": options.changelog_producer
        in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION),
        "sequence.field": bool(options.sequence_field),
        "deletion-vectors.enabled": options.deletion_vectors,
        "row-tracking.enabled": options.row_tracking,
        "record-level.expire-time": options.record_expire is not None,
        "data-file.external-paths": options.external_paths is not None,
        f"file.format = {options.file_format}": options.file_format != "parquet",
        f"changelog-file.format = {options.changelog_file_format}": options.changelog_file_format
        not in (None, "parquet"),
        f"bucket-function.type = {options.bucket_function}": options.bucket_function
        not in ("default", "mod"),
    }
    for key in ("file.format.per.level", "file.compression.per.level", "file-index.bloom-filter.columns"):
        refused[key] = bool(schema.options.get(key))
    for feature, asked in refused.items():
        if asked:
            raise Unsupported(f"writing tables with {feature}")
    _require_keys(schema, options)


def _require_keys(schema: TableSchema, options: TableOptions) -> None:
    for key in schema.bucket_keys:
        if key not in schema.trimmed_primary_keys:
            raise InvalidOption(
                f"option 'bucket-key' names {key!r}; "
                "it must be part of the primary key and no partition column"
            )
    if options.rowkind_field and options.rowkind_field not in schema.by_name:
        raise InvalidOption(f"option 'rowkind.field' names {options.rowkind_field!r}, which is no column")
    if options.compaction_trigger < 1 or options.num_levels < 2:
        raise InvalidRequest("num-sorted-run.compaction-trigger must be at least 1 and num-levels at least 2")
