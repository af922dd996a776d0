"""How rows of one key become one: merge engine, sequence, changelog, deletion vectors, lookups.

One field each: key, parser, default of Paimon 2.0.0, meaning. Part of `options.TableOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.core.options.values import (
    ENDLESS,
    STORED,
    ChangelogProducer,
    LookupCompact,
    MergeEngine,
    SortOrder,
    boolean,
    duration_ms,
    enum,
    integer,
    memory_size,
    names,
    one_of,
    opt,
    real,
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
