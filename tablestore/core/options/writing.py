"""How a table is written: buffers, rolling, compaction, commits; and how rows of one key become one: merge
engine, sequence, changelog, deletion vectors, lookups.

One field each: key, parser, default of Paimon 2.0.0, meaning. Part of `options.TableOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.core.options.values import (
    ENDLESS,
    STORED,
    ChangelogProducer,
    CompactionStrategy,
    Durability,
    LookupCompact,
    MergeEngine,
    SortOrder,
    boolean,
    duration_ms,
    enum,
    integer,
    long,
    memory_size,
    names,
    one_of,
    opt,
    real,
)


@dataclass(frozen=True)
class WritingOptions:
    """How a table is written: buffers, rolling, compaction, commits."""

    overwrite_upgrade: bool = opt(
        "overwrite-upgrade", boolean, True, "overwriting files that do not overlap go to the oldest level"
    )
    compaction_min_files: int = opt(
        "compaction.min.file-num",
        integer,
        5,
        "small files of an append table that start a compaction",
        least=1,
    )
    compaction_delete_ratio: float = opt(
        "compaction.delete-ratio-threshold",
        real,
        0.2,
        "share of deleted rows beyond which a file is rewritten",
        least=0,
        most=1,
    )
    write_only: bool = opt(
        "write-only", boolean, False, "no compaction, no expiry by writers", "write.compaction-skip"
    )
    write_buffer_bytes: int = opt(
        "write-buffer-size", memory_size, 256 << 20, "memory of all write buffers of a process", least=1
    )
    write_threads: int | None = opt(
        "tablestore.write.threads",
        integer,
        None,
        "background threads of a write, each encoding a bucket; Arrow's threads, up to 4, if absent",
        least=0,
    )
    target_file_bytes: int | None = opt("target-file-size", memory_size, None, "target size of data files")
    small_file_ratio: float = opt(
        "compaction.small-file-ratio",
        real,
        0.7,
        "share of the target size below which a file is small",
        least=0,
        most=1,
    )
    compaction_trigger: int = opt(
        "num-sorted-run.compaction-trigger", integer, 5, "sorted runs that start a compaction"
    )
    stop_trigger: int | None = opt(
        "num-sorted-run.stop-trigger", integer, None, "sorted runs at which writers wait", least=1
    )
    levels: int | None = opt("num-levels", integer, None, "levels of the LSM tree")
    max_size_amplification: int = opt(
        "compaction.max-size-amplification-percent",
        integer,
        200,
        "bytes of newer runs, in percent of the oldest run, beyond which all runs are merged",
        least=0,
    )
    size_ratio: int = opt(
        "compaction.size-ratio",
        integer,
        1,
        "percent by which the next run may be larger than those taken so far",
        least=0,
    )
    optimization_interval_ms: int | None = opt(
        "compaction.optimization-interval", duration_ms, None, "maximum time between full compactions"
    )
    compaction_total_bytes: int | None = opt(
        "compaction.total-size-threshold", memory_size, None, "below this size every compaction is full"
    )
    compaction_incremental_bytes: int | None = opt(
        "compaction.incremental-size-threshold",
        memory_size,
        None,
        "bytes in levels newer than the oldest that start a full compaction",
    )
    offpeak_start: int = opt(
        "compaction.offpeak.start.hour", integer, -1, "first hour of the off-peak time", least=-1, most=24
    )
    offpeak_end: int = opt(
        "compaction.offpeak.end.hour", integer, -1, "hour after the off-peak time", least=-1, most=24
    )
    offpeak_ratio: int = opt(
        "compaction.offpeak-ratio", integer, 0, "percent added to the size ratio at off-peak hours", least=0
    )
    force_up_level0: bool = opt(
        "compaction.force-up-level-0", boolean, False, "every compaction includes level 0"
    )
    strategy: CompactionStrategy = opt(
        "tablestore.compaction.strategy",
        enum(CompactionStrategy),
        CompactionStrategy.UNIVERSAL,
        "universal or leveled: the rules that choose what is compacted; other engines use the universal ones",
    )
    leveled_level0_trigger: int = opt(
        "tablestore.compaction.leveled.level0-file-num-trigger",
        integer,
        4,
        "leveled: files of level 0 that are merged into level 1",
    )
    leveled_base_bytes: int = opt(
        "tablestore.compaction.leveled.max-bytes-for-level-base",
        memory_size,
        1 << 30,
        "leveled: target bytes of level 1; what exceeds them moves to level 2",
    )
    leveled_multiplier: int = opt(
        "tablestore.compaction.leveled.max-bytes-for-level-multiplier",
        integer,
        5,
        "leveled: target bytes of a level over those of the one before",
    )
    durability: Durability = opt(
        "tablestore.durability",
        enum(Durability),
        Durability.PROCESS,
        "what a commit on local disks survives once it returned: the end of its process, or (commit) also a"
        " loss of power, at the cost of syncing; object stores keep every answered write",
    )
    keeps_history: bool = opt(
        "tablestore.history.enabled",
        boolean,
        True,
        "expiry keeps what the snapshots' compactions did, in tablestore/history",
    )
    commit_max_retries: int = opt(
        "commit.max-retries", integer, 10, "retries of a commit that loses a race", least=0
    )
    commit_min_wait_ms: int = opt("commit.min-retry-wait", duration_ms, 10, "first wait between retries")
    commit_max_wait_ms: int = opt(
        "commit.max-retry-wait", duration_ms, 10_000, "longest wait between retries"
    )
    dynamic_partition_overwrite: bool = opt(
        "dynamic-partition-overwrite",
        boolean,
        True,
        "an overwrite replaces only the partitions that its rows touch",
    )
    target_file_rows: int = opt("target-file-row-num", long, ENDLESS, "maximum rows of a data file", least=1)
    compaction_max_files: int = opt(
        "compaction.file-num-limit",
        integer,
        100_000,
        "maximum files that one append compaction looks at",
        least=1,
    )
    compaction_rewrites_all: bool = opt(
        "compaction.force-rewrite-all-files", boolean, False, "full compactions rewrite every file"
    )
    compaction_skips_expired: bool = opt(
        "compaction.skip-expired-partitions", boolean, False, "skip partitions that are due to expire"
    )
    commit_timeout_ms: int | None = opt(
        "commit.timeout", duration_ms, None, "time after which a commit gives up"
    )
    commit_discards_duplicates: bool = opt(
        "commit.discard-duplicate-files", boolean, False, "files that are already committed are left out"
    )
    commit_always: bool = opt(
        "commit.force-create-snapshot", boolean, False, "an empty commit makes a snapshot too"
    )
    commit_user_prefix: str | None = opt("commit.user-prefix", str, None, "prefix of commit users")
    commit_last_safe: int | None = opt(
        "commit.strict-mode.last-safe-snapshot",
        long,
        None,
        "strict commits look back to this snapshot",
        least=-1,
    )
    ignore_empty_commit: bool | None = opt(
        "snapshot.ignore-empty-commit",
        boolean,
        None,
        "no snapshot for an empty commit; true unless the engine says otherwise",
    )


@dataclass(frozen=True)
class MergingOptions:
    """How rows of one key become one: merge engine, sequence, changelog, deletion vectors, lookups."""

    delete_makes_changelog: bool = opt(
        "delete.force-produce-changelog", boolean, False, "deletes of whole partitions write -D rows, too"
    )
    merge_engine: MergeEngine = opt(
        "merge-engine",
        enum(MergeEngine),
        MergeEngine.DEDUPLICATE,
        "how rows of one key become one",
        places=STORED,
    )
    changelog_producer: ChangelogProducer = opt(
        "changelog-producer",
        enum(ChangelogProducer),
        ChangelogProducer.NONE,
        "where changelog files come from",
        places=STORED,
    )
    change_tracking: bool = opt(
        "tablestore.change-tracking",
        boolean,
        True,
        "commits write the changelog files of the producer",
        places=STORED,
    )
    ignore_delete: bool = opt(
        "ignore-delete",
        boolean,
        False,
        "drop -U and -D rows",
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
        places=STORED,
    )
    sequence_field: str | None = opt(
        "sequence.field", str, None, "columns that order rows of one key", places=STORED
    )
    rowkind_field: str | None = opt(
        "rowkind.field", str, None, "column that holds the row kind", places=STORED
    )
    record_expire_ms: int | None = opt(
        "record-level.expire-time", duration_ms, None, "age at which compaction drops rows"
    )
    deletion_vectors: bool = opt(
        "deletion-vectors.enabled", boolean, False, "mark superseded rows instead of merging", places=STORED
    )
    bitmap64: bool = opt("deletion-vectors.bitmap64", boolean, False, "64-bit deletion vectors")
    merge_on_read: bool = opt(
        "deletion-vectors.merge-on-read", boolean, False, "deletion-vector tables show level 0, by merging"
    )
    dv_target_bytes: int = opt(
        "deletion-vector.index-file.target-size", memory_size, 2 << 20, "target size of deletion-vector files"
    )
    row_deduplicate: bool = opt(
        "changelog-producer.row-deduplicate", boolean, False, "leave out -U/+U pairs of equal rows"
    )
    row_deduplicate_ignored: str | None = opt(
        "changelog-producer.row-deduplicate-ignore-fields",
        str,
        None,
        "columns that row-deduplicate does not compare",
    )
    full_delta_commits: int | None = opt(
        "full-compaction.delta-commits", integer, None, "commits between full compactions", least=1
    )
    force_lookup: bool = opt(
        "force-lookup",
        boolean,
        False,
        "compact level 0 with lookups, whatever the merge engine and changelog producer",
        places=STORED,
    )
    lookup_wait: bool = opt(
        "lookup-wait", boolean, True, "commits wait for lookups", "changelog-producer.lookup-wait"
    )
    lookup_compact: LookupCompact = opt(
        "lookup-compact",
        enum(LookupCompact),
        LookupCompact.RADICAL,
        "how soon compaction looks up the keys of level 0",
    )
    lookup_interval: int | None = opt(
        "lookup-compact.max-interval",
        integer,
        None,
        "gentle: compaction triggers between forced lookups",
        least=1,
    )
    ignore_update_before: bool = opt("ignore-update-before", boolean, False, "drop -U rows", places=STORED)
    sequence_sort_order: SortOrder = opt(
        "sequence.field.sort-order",
        enum(SortOrder),
        SortOrder.ASCENDING,
        "whether the greatest or the least sequence wins",
        places=STORED,
    )
    record_time_field: str | None = opt(
        "record-level.time-field", str, None, "column that holds the time of a row"
    )
    aggregation_removes: bool = opt(
        "aggregation.remove-record-on-delete",
        boolean,
        False,
        "aggregation: -D removes the row",
        places=STORED,
    )
    partial_update_removes: bool = opt(
        "partial-update.remove-record-on-delete",
        boolean,
        False,
        "partial-update: -D removes the row",
        places=STORED,
    )
    partial_update_removing_groups: tuple[str, ...] = opt(
        "partial-update.remove-record-on-sequence-group",
        names,
        (),
        "sequence fields whose -D removes the row",
        places=STORED,
    )
    on_merge_error: str = opt(
        "tablestore.merge.on-error",
        str.lower,
        "fail",
        "skip: reads leave out keys that cannot be merged, instead of failing",
        strict=one_of("fail", "skip"),
    )
    row_count_field: str | None = opt(
        "tablestore.row-count-field",
        str,
        None,
        "column of counts of a change-log table without primary key",
        places=STORED,
    )
    dv_modifiable: bool = opt(
        "deletion-vectors.modifiable",
        boolean,
        False,
        "deletion-vectors.enabled may be changed",
        places=STORED,
    )
    lookup_cache_bytes: int = opt(
        "lookup.cache-max-memory-size", memory_size, 256 << 20, "memory for caching looked-up files"
    )
    lookup_cache_key_share: float = opt(
        "lookup.cache.high-priority-pool-ratio",
        real,
        0.25,
        "share of lookup.cache-max-memory-size that is reserved for keys",
        least=0,
        most=1,
    )
    lookup_cache_disk_bytes: int = opt(
        "lookup.cache-max-disk-size", memory_size, ENDLESS, "disk for caching looked-up files"
    )
