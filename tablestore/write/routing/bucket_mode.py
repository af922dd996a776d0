"""Bucket modes: what the option `bucket` means for a table (FORMAT.md 6.1). Pure."""

from __future__ import annotations

from enum import StrEnum

from tablestore.core.options.table_options import TableOptions
from tablestore.format.schema import TableSchema
from tablestore.io.paths import POSTPONE_BUCKET

DYNAMIC_BUCKET = -1


class BucketMode(StrEnum):
    """How rows find their bucket."""

    FIXED = "fixed"  # a function of the bucket key
    UNAWARE = "unaware"  # append tables with bucket = -1: one directory, no buckets
    DYNAMIC = "dynamic"  # hash index: a key stays where it first went
    CROSS_PARTITION = "cross-partition"  # the same, and a key may move to another partition
    POSTPONE = "postpone"  # rows wait until a compaction gives them buckets

    @classmethod
    def of(cls, schema: TableSchema, options: TableOptions) -> BucketMode:
        """The mode of a table."""
        if options.bucket == POSTPONE_BUCKET:
            return cls.POSTPONE
        if options.bucket != DYNAMIC_BUCKET:
            return cls.FIXED
        if not schema.primary_keys:
            return cls.UNAWARE
        return cls.DYNAMIC if key_is_global(schema) else cls.CROSS_PARTITION


def key_is_global(schema: TableSchema) -> bool:
    """Whether the primary key holds all partition columns, so that equal keys share their partition."""
    return set(schema.partition_keys) <= set(schema.primary_keys)
