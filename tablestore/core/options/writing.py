"""How a table is written: buffers, rolling, compaction, commits.

One field each: key, parser, default of Paimon 2.0.0, meaning. Part of `options.TableOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.core.options.values import (
    ENDLESS,
    CompactionStrategy,
    Durability,
    boolean,
    duration_ms,
    enum,
    integer,
    memory_size,
    opt,
)


@dataclass(frozen=True)
class WritingOptions:
    """How a table is written: buffers, rolling, compaction, commits."""

    overwrite_upgrade: bool = opt(
        "overwrite-upgrade", boolean, True, "overwriting files that do not overlap go to the oldest level"
    )
    compaction_min_files: int = opt(
        "compaction.min.file-num", integer, 5, "small files of an append table that are combined"
    )
    compaction_delete_ratio: float = opt(
        "compaction.delete-ratio-threshold",
        float,
        0.2,
        "share of deleted rows above which a file is rewritten",
    )
    write_only: bool = opt(
        "write-only", boolean, False, "no compaction, no expiry by writers", "write.compaction-skip"
    )
    write_buffer_bytes: int = opt(
        "write-buffer-size", memory_size, 256 << 20, "pool of all write buffers of a process"
    )
    write_threads: int | None = opt(
        "tablestore.write.threads",
        integer,
        None,
        "buckets that a write encodes at once beside its thread; if absent as many as Arrow may use, up to 4",
    )
    target_file_bytes: int | None = opt("target-file-size", memory_size, None, "size data files roll at")
    small_file_ratio: float = opt(
        "compaction.small-file-ratio", float, 0.7, "share of the target below which is small"
    )
    compaction_trigger: int = opt(
        "num-sorted-run.compaction-trigger", integer, 5, "sorted runs that start a compaction"
    )
    stop_trigger: int | None = opt(
        "num-sorted-run.stop-trigger", integer, None, "sorted runs at which writers wait"
    )
    levels: int | None = opt("num-levels", integer, None, "levels of the LSM tree")
    max_size_amplification: int = opt(
        "compaction.max-size-amplification-percent", integer, 200, "rule 1 of picking"
    )
    size_ratio: int = opt("compaction.size-ratio", integer, 1, "percent of rule 2 of picking")
    optimization_interval_ms: int | None = opt(
        "compaction.optimization-interval", duration_ms, None, "time between full compactions"
    )
    compaction_total_bytes: int | None = opt(
        "compaction.total-size-threshold", memory_size, None, "below this size every compaction is full"
    )
    compaction_incremental_bytes: int | None = opt(
        "compaction.incremental-size-threshold", memory_size, None, "new bytes that start a full compaction"
    )
    offpeak_start: int = opt("compaction.offpeak.start.hour", integer, -1, "first hour of the quiet time")
    offpeak_end: int = opt("compaction.offpeak.end.hour", integer, -1, "hour after the quiet time")
    offpeak_ratio: int = opt("compaction.offpeak-ratio", integer, 0, "percent added to the size ratio then")
    force_up_level0: bool = opt("compaction.force-up-level-0", boolean, False, "always lift level 0")
    strategy: CompactionStrategy = opt(
        "tablestore.compaction.strategy",
        enum(CompactionStrategy),
        CompactionStrategy.UNIVERSAL,
        "which rules choose what is compacted; engines that do not know leveled go by the universal ones",
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
        "leveled: bytes of level 1 from which on its files move down",
    )
    leveled_multiplier: int = opt(
        "tablestore.compaction.leveled.max-bytes-for-level-multiplier",
        integer,
        5,
        "leveled: how many times as many bytes the next level takes",
    )
    durability: Durability = opt(
        "tablestore.durability",
        enum(Durability),
        Durability.PROCESS,
        "what an answered commit survives on local disks: the end of its process, or (commit) a loss of"
        " power, too, for the time the disk takes; object stores need neither: they keep what they answered",
    )
    keeps_history: bool = opt(
        "tablestore.history.enabled",
        boolean,
        True,
        "expiry keeps what the snapshots' compactions did, in tablestore/history",
    )
    commit_max_retries: int = opt("commit.max-retries", integer, 10, "tries of a commit that loses races")
    commit_min_wait_ms: int = opt("commit.min-retry-wait", duration_ms, 10, "first wait between tries")
    commit_max_wait_ms: int = opt("commit.max-retry-wait", duration_ms, 10_000, "longest wait between tries")
    dynamic_partition_overwrite: bool = opt(
        "dynamic-partition-overwrite", boolean, True, "overwrite what data touch"
    )
    target_file_rows: int = opt("target-file-row-num", integer, ENDLESS, "rows data files roll at")
    compaction_max_files: int = opt(
        "compaction.file-num-limit", integer, 100_000, "files one append compaction looks at"
    )
    compaction_rewrites_all: bool = opt(
        "compaction.force-rewrite-all-files", boolean, False, "full compactions rewrite every file"
    )
    compaction_skips_expired: bool = opt(
        "compaction.skip-expired-partitions",
        boolean,
        False,
        "no compaction of partitions that are due to expire",
    )
    commit_timeout_ms: int | None = opt(
        "commit.timeout", duration_ms, None, "time in which a commit must win"
    )
    commit_discards_duplicates: bool = opt(
        "commit.discard-duplicate-files", boolean, False, "files that are committed twice are taken once"
    )
    commit_always: bool = opt(
        "commit.force-create-snapshot", boolean, False, "a snapshot even for an empty commit"
    )
    commit_user_prefix: str | None = opt(
        "commit.user-prefix", str, None, "start of the names of commit users"
    )
    commit_last_safe: int | None = opt(
        "commit.strict-mode.last-safe-snapshot", integer, None, "strict commits look back to this snapshot"
    )
    ignore_empty_commit: bool | None = opt(
        "snapshot.ignore-empty-commit",
        boolean,
        None,
        "no snapshot for an empty commit; true unless the engine says otherwise",
    )
