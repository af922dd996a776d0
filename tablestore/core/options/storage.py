"""How a table lies on disk: buckets, file formats and names, partitions, manifests, schemas.

One field each: key, parser, default of Paimon 2.0.0, meaning. Part of `options.TableOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.core.options.values import (
    DATA_FORMATS,
    STORED,
    boolean,
    by_level,
    by_level_of,
    directory_inside,
    duration_ms,
    integer,
    long,
    memory_size,
    name_start,
    names,
    one_of,
    opt,
    statistics_mode,
)


@dataclass(frozen=True)
class StorageOptions:
    """How a table lies on disk: buckets, file formats and names, partitions, manifests, schemas."""

    bucket: int = opt(
        "bucket",
        integer,
        -1,
        "LSM trees per partition; -1 dynamic, -2 postponed",
        places=STORED,
        least=-2,
        most=100_000,
    )
    bucket_function: str = opt(
        "bucket-function.type",
        str,
        "default",
        "hash of the bucket key",
        strict=one_of("default", "mod", "hive"),
        places=STORED,
    )
    file_format: str = opt(
        "file.format", str.lower, "parquet", "format of data files", strict=one_of(*DATA_FORMATS)
    )
    changelog_file_format: str | None = opt(
        "changelog-file.format", str.lower, None, "format of changelog files", strict=one_of(*DATA_FORMATS)
    )
    file_format_per_level: tuple[tuple[int, str], ...] = opt(
        "file.format.per.level",
        by_level,
        (),
        "format of data files by level",
        strict=by_level_of(one_of(*DATA_FORMATS)),
    )
    changelog_file_compression: str | None = opt(
        "changelog-file.compression", str.lower, None, "codec of changelog files"
    )
    changelog_file_stats_mode: str | None = opt(
        "changelog-file.stats-mode",
        str.lower,
        None,
        "column statistics of changelog files",
        strict=statistics_mode,
    )
    file_compression_per_level: tuple[tuple[int, str], ...] = opt(
        "file.compression.per.level", by_level, (), "codec of data files by level", strict=by_level_of(str)
    )
    suffix_with_compression: bool = opt(
        "file.suffix.include.compression", boolean, False, "data file names contain the codec"
    )
    file_compression: str = opt("file.compression", str.lower, "zstd", "codec of data files")
    zstd_level: int = opt(
        "file.compression.zstd-level",
        integer,
        1,
        "zstd compression level of data files",
        least=-131_072,
        most=22,
    )
    row_group_bytes: int | None = opt("file.block-size", memory_size, None, "bytes of a Parquet row group")
    data_file_prefix: str = opt("data-file.prefix", name_start, "data-", "start of data file names")
    changelog_file_prefix: str = opt(
        "changelog-file.prefix", name_start, "changelog-", "start of changelog file names"
    )
    data_directory: str = opt(
        "data-file.path-directory",
        directory_inside,
        "",
        "directory between table and partitions",
        places=STORED,
    )
    external_paths: str | None = opt("data-file.external-paths", str, None, "other roots for data files")
    external_strategy: str = opt(
        "data-file.external-paths.strategy",
        str.lower,
        "none",
        "how a root of external-paths is chosen",
        strict=one_of("none", "round-robin", "specific-fs", "entropy-inject", "weight-robin"),
    )
    external_specific_fs: str | None = opt(
        "data-file.external-paths.specific-fs", str.lower, None, "scheme of the roots that are used"
    )
    external_weights: tuple[str, ...] = opt(
        "data-file.external-paths.weights", names, (), "shares of the roots of external-paths"
    )
    file_index_threshold: int = opt(
        "file-index.in-manifest-threshold",
        memory_size,
        500,
        "file indexes up to this size are stored in manifests",
    )
    file_index_read: bool = opt("file-index.read.enabled", boolean, True, "file indexes skip files and rows")
    thin_mode: bool = opt("data-file.thin-mode", boolean, False, "data files without _KEY_ columns")
    manifest_compression: str = opt(
        "manifest.compression",
        str.lower,
        "zstd",
        "codec of manifests",
        strict=one_of("zstd", "zstandard", "none", "null", "deflate"),
    )
    manifest_target_bytes: int = opt(
        "manifest.target-file-size", memory_size, 8 << 20, "target size of merged manifests"
    )
    manifest_full_bytes: int = opt(
        "manifest.full-compaction-threshold-size",
        memory_size,
        16 << 20,
        "size at which all manifests are rewritten",
    )
    manifest_merge_min_count: int = opt(
        "manifest.merge-min-count", integer, 30, "small manifests that start a merge", least=1
    )
    partition_default_name: str = opt(
        "partition.default-name",
        str,
        "__DEFAULT_PARTITION__",
        "directory of null and blank partition values",
        places=STORED,
    )
    partition_legacy_name: bool = opt(
        "partition.legacy-name",
        boolean,
        True,
        "partition values as Java's toString prints them",
        places=STORED,
    )
    row_tracking: bool = opt("row-tracking.enabled", boolean, False, "rows have ids for life", places=STORED)
    dynamic_bucket_rows: int = opt(
        "dynamic-bucket.target-row-num", long, 2_000_000, "maximum keys of a dynamic bucket", least=1
    )
    dynamic_bucket_max: int = opt(
        "dynamic-bucket.max-buckets",
        integer,
        -1,
        "maximum dynamic buckets of a partition; -1 no limit",
        least=-1,
    )
    key_index_ttl_ms: int | None = opt(
        "cross-partition-upsert.index-ttl",
        duration_ms,
        None,
        "age of files whose keys upserts across partitions do not look for",
    )
    dynamic_bucket_initial: int | None = opt(
        "dynamic-bucket.initial-buckets",
        integer,
        None,
        "dynamic buckets that new keys are spread over from the start",
        places=STORED,
        least=1,
    )
    postpone_buckets: int = opt(
        "postpone.default-bucket-num",
        integer,
        1,
        "buckets of a partition that is compacted for the first time",
        least=1,
    )
    postpone_bucket_rows: int | None = opt(
        "postpone.target-row-num-per-bucket",
        long,
        None,
        "rows that decide the buckets of such a partition",
        least=1,
    )
    postpone_bucket_bytes: int | None = opt(
        "postpone.target-size-per-bucket",
        memory_size,
        None,
        "bytes that decide the buckets of such a partition, where no rows do",
    )
    stats_mode: str = opt(
        "metadata.stats-mode",
        str.lower,
        "truncate(16)",
        "column statistics in manifests",
        strict=statistics_mode,
    )
    stats_mode_per_level: tuple[tuple[int, str], ...] = opt(
        "metadata.stats-mode.per.level",
        by_level,
        (),
        "column statistics of files by level",
        strict=by_level_of(statistics_mode),
    )
    stats_first_columns: int = opt(
        "metadata.stats-keep-first-n-columns", integer, -1, "columns with statistics; -1 all", least=-1
    )
    stats_dense: bool = opt("metadata.stats-dense-store", boolean, True, "keep only statistics that exist")
    bucket_key: tuple[str, ...] = opt(
        "bucket-key", names, (), "columns that decide the bucket of a row", places=STORED
    )
    indexes_beside_data: bool = opt(
        "index-file-in-data-file-dir", boolean, False, "index files lie in bucket directories", places=STORED
    )
    partition_expiration_ms: int | None = opt(
        "partition.expiration-time", duration_ms, None, "age at which a partition expires"
    )
    partition_expiration_interval_ms: int = opt(
        "partition.expiration-check-interval",
        duration_ms,
        3_600_000,
        "how often old partitions are looked for",
    )
    partition_expiration_strategy: str = opt(
        "partition.expiration-strategy",
        str.lower,
        "values-time",
        "what the age of a partition is measured from",
        strict=one_of("values-time", "update-time"),
    )
    partition_expiration_max: int = opt(
        "partition.expiration-max-num", integer, 100, "maximum partitions that expire at once", least=1
    )
    partition_expiration_batch: int | None = opt(
        "partition.expiration-batch-size",
        integer,
        None,
        "partitions that expire in one snapshot; all if absent",
        least=1,
    )
    end_input_expires: bool = opt(
        "end-input.check-partition-expire", boolean, False, "batch commits look for old partitions, too"
    )
    partition_timestamp_pattern: str | None = opt(
        "partition.timestamp-pattern", str, None, "partition values as one text: '$dt $hour'"
    )
    partition_timestamp_formatter: str | None = opt(
        "partition.timestamp-formatter", str, None, "pattern of that text: 'yyyyMMdd'"
    )
    no_explicit_casts: bool = opt(
        "disable-explicit-type-casting", boolean, False, "types of columns may only be widened"
    )
    no_null_to_not_null: bool = opt(
        "alter-column-null-to-not-null.disabled", boolean, True, "columns with NULL cannot become NOT NULL"
    )
    add_before_partition: bool = opt(
        "add-column-before-partition", boolean, False, "new columns come before the partition columns"
    )
