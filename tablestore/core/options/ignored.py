"""Options of Paimon and its connectors that are ignored here, each with the reason why that is harmless.

They change neither rows nor files. They are accepted and stored, as other engines read them;
`options.describe()` shows the reasons. Some are names of Spark's or Flink's connectors, which people find in
tables and copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tablestore.core.options.values import boolean, duration_ms, integer, memory_size, one_of, real


@dataclass(frozen=True, slots=True)
class Ignored:
    """Why an option has no effect here, and the parser that its values must pass all the same."""

    reason: str
    parse: Callable[[str], Any] = str


def _of(reason: str, keys: str, parse: Callable[[str], Any] = str) -> dict[str, Ignored]:
    return dict.fromkeys(keys.split(), Ignored(reason, parse))


_SPILL = "a full write buffer becomes a file of level 0; nothing is spilled"
_BATCH = "readers and writers of files choose the size of their batches by themselves"
_LOOKUP = "lookups are binary searches in cached keys: there are no lookup files"
_THREADS = "tablestore.scan.threads and tablestore.write.threads say how many threads there are"
_BLOB = "of BLOB columns, which are refused"
_CLUSTER = "of clustering, which clustering.columns and clustering.incremental ask for; they are refused"
_EVOLUTION = "of data-evolution.enabled, which is refused"
_GLOBAL = "of global indexes, which belong to tables with data evolution; others' are kept"
_VECTOR = "of VECTOR columns, which are refused"
_CHAIN = "of chain-table.enabled, which is refused"
_FORMAT_TABLE = "of tables of type = format-table, which are refused"
_SHREDDING = "of shredded VARIANT columns, which are refused"
_MANIFESTS = "the order of manifest entries, not what they say"
_FLINK = "of Flink's jobs: their tasks, memory, operators and watermarks"
_DONE = "Flink's sinks mark partitions as done; writers here mark none"
_SPARK = "of Paimon's own Spark connector"
_ICEBERG = "of metadata.iceberg.storage, which is refused"
_JAVA_CODEC = "of Java's readers and writers; encodings are chosen by the data here"

IGNORED: dict[str, Ignored] = {
    # writing
    **_of("writers always wait for the compactions that their commit needs", "commit.force-compact", boolean),
    **_of("rows always keep their order of writing", "bucket-append-ordered", boolean),
    **_of("one writer assigns dynamic buckets", "dynamic-bucket.assigner-parallelism", integer),
    **_of(
        "of batch jobs of engines; writes here always wait in bucket-postpone until they are compacted",
        "postpone.batch-write-fixed-bucket",
        boolean,
    ),
    **_of(
        "of batch jobs of engines; see postpone.batch-write-fixed-bucket",
        "postpone.batch-write-fixed-bucket.max-parallelism "
        "postpone.batch-write-fixed-bucket.rescale-load-factor",
        integer,
    ),
    **_of("DELETE entries keep their statistics", "manifest.delete-file-drop-stats", boolean),
    **_of(
        "row ids are given file by file in the order of a commit; they mean nothing else",
        "row-tracking.partition-group-on-commit",
        boolean,
    ),
    **_of(_SPILL, "write-buffer-for-append write-buffer-spillable", boolean),
    **_of(
        _SPILL, "write-buffer-spill.max-disk-size sort-spill-buffer-size local-merge-buffer-size", memory_size
    ),
    **_of(_SPILL, "write-max-writers-to-spill sort-spill-threshold local-sort.max-num-file-handles", integer),
    **_of(_SPILL, "spill-compression"),
    **_of(_SPILL, "spill-compression.zstd-level", integer),
    **_of("memory of a write buffer is Arrow's", "page-size cache-page-size", memory_size),
    **_of(
        "how sorted runs are merged is chosen by the rows; the result is the same",
        "sort-engine",
        one_of("min-heap", "loser-tree"),
    ),
    **_of(_BATCH, "write.batch-size orc.write.batch-size read.batch-size", integer),
    **_of(_BATCH, "write.batch-memory", memory_size),
    **_of(_THREADS, "async-file-write", boolean),
    **_of(_THREADS, "file-operation.thread-num delete-file.thread-num scan.manifest.parallelism", integer),
    **_of(_THREADS, "cross-partition-upsert.bootstrap-parallelism", integer),
    **_of(_THREADS, "file-reader-async-threshold", memory_size),
    **_of("dictionaries are chosen column by column, by a sample", "parquet.enable.dictionary"),
    **_of(
        "expiry is part of the commit that follows it",
        "snapshot.expire.execution-mode",
        one_of("sync", "async"),
    ),
    **_of(_MANIFESTS, "manifest-sort.enabled manifest.merge-optimize.enabled", boolean),
    **_of(_MANIFESTS, "manifest-sort.max-rewrite-size", memory_size),
    **_of(_MANIFESTS, "manifest-sort.partition-field"),
    # lookups
    **_of(_LOOKUP, "lookup.cache-file-retention", duration_ms),
    **_of(_LOOKUP, "lookup.cache.bloom.filter.enabled lookup.remote-file.enabled", boolean),
    **_of(_LOOKUP, "lookup.cache.bloom.filter.fpp lookup.hash-load-factor", real),
    **_of(_LOOKUP, "lookup.merge-buffer-size local-kv-db.block-size", memory_size),
    **_of(_LOOKUP, "lookup.merge-records-threshold lookup.remote-file.level-threshold", integer),
    **_of(_LOOKUP, "lookup.cache-spill-compression lookup.bootstrap-parallelism"),
    **_of(
        "of scan.partitions, which is refused",
        "lookup.dynamic-partition.refresh-interval lookup.dynamic-partition.refresh.async",
    ),
    # kinds of tables and columns that are refused by other options
    **_of(
        _BLOB,
        "blob-as-descriptor blob-compaction.enabled blob-view.resolve.enabled "
        "blob-write-null-on-fetch-failure blob-write-null-on-missing-file lookup.blob-as-descriptor",
        boolean,
    ),
    **_of(_BLOB, "blob-descriptor.source-table blob.split-by-file-size"),
    **_of(_BLOB, "blob.copy-buffer-size blob.target-file-size", memory_size),
    **_of(_CHAIN, "chain-table.chain-partition-keys"),
    **_of(_CHAIN, "chain-table.split.key-range-enabled chain-table.streaming.merge-snapshot", boolean),
    **_of(
        _CLUSTER,
        "clustering.history-partition.idle-to-full-sort clustering.history-partition.limit "
        "clustering.incremental.mode clustering.incremental.optimize-write clustering.strategy "
        "sink.clustering.sample-factor sink.clustering.sort-in-cluster sink.clustering.strategy "
        "sort-compaction.local-sample.magnification sort-compaction.range-strategy "
        "zorder.var-length-contribution",
    ),
    **_of(
        _EVOLUTION,
        "data-evolution.compaction.rewrite-row-ids data-evolution.merge-into.file-pruning "
        "data-evolution.merge-into.source-persist data-evolution.reassign.skip-contiguous-row-count "
        "data-evolution.row-id-conflict-rewrite.max-size data-evolution.row-sidecar.enabled "
        "data-evolution.row-sidecar.max-selected-rows data-evolution.row-sidecar.max-selection-ratio "
        "write.data-evolution.update-conflict-retry.max-attempts "
        "write.data-evolution.update-conflict-retry.wait-ms",
    ),
    **_of(
        _GLOBAL,
        "global-index.build.max-parallelism global-index.build.max-shard global-index.column-update-action "
        "global-index.enabled global-index.external-path global-index.row-count-per-shard "
        "global-index.search-mode global-index.thread-num full-text-index.search-mode "
        "scalar-index.search-mode vector-index.search-mode vector-search.distribute.enabled "
        "vector-search.lateral-join.batch-size vector-search.lateral-join.parallelism",
    ),
    **_of(_VECTOR, "vector.target-file-size", memory_size),
    **_of(
        _FORMAT_TABLE,
        "format-table.commit-hive-sync-url format-table.file.compression format-table.implementation "
        "format-table.partition-path-only-value format-table.scan.list-parallelism "
        "format-table.repair.collect-statistics format-table.statistics.parallelism",
    ),
    **_of(
        _SHREDDING,
        "variant.shredding.adaptive.maxInferBufferRow variant.shredding.maxInferBufferRow "
        "variant.shredding.maxSchemaDepth variant.shredding.maxSchemaWidth",
        integer,
    ),
    **_of(
        _SHREDDING,
        "variant.shredding.adaptive.retentionRatio variant.shredding.minFieldCardinalityRatio",
        real,
    ),
    **_of(_SHREDDING, "variant.shredding.inferenceMode", one_of("per-file", "adaptive")),
    **_of("of metastore.tag-to-partition, which is refused", "metastore.tag-to-partition.preview"),
    **_of(
        "of visibility-callback.enabled, which is refused", "visibility-callback.check-interval", duration_ms
    ),
    **_of("of visibility-callback.enabled, which is refused", "visibility-callback.timeout", duration_ms),
    # engines
    **_of(
        _FLINK,
        "auto-create changelog-producer.compaction-interval changelog.precommit-compact "
        "changelog.precommit-compact.buffer-size changelog.precommit-compact.thread-num "
        "compaction.bucket-distribution-strategy end-input.watermark "
        "filesystem.job-level-settings.enabled precommit-compact read.shuffle-bucket-with-partition "
        "streaming-read.shuffle-bucket-with-partition scan.bounded scan.dedicated-split-generation "
        "scan.infer-parallelism scan.infer-parallelism.max scan.max-snapshot.count scan.max-splits-per-task "
        "scan.parallelism scan.split-enumerator.batch-size scan.split-enumerator.mode "
        "scan.watermark.alignment.group scan.watermark.alignment.max-drift "
        "scan.watermark.alignment.update-interval scan.watermark.emit.strategy scan.watermark.idle-timeout "
        "sink.committer-cpu sink.committer-memory sink.committer-operator-chaining "
        "sink.coordinator-commit.enabled sink.cross-partition.managed-memory sink.key-only-deletes.enabled "
        "sink.managed.writer-buffer-memory sink.operator-uid.suffix sink.parallelism sink.savepoint.auto-tag "
        "sink.use-managed-memory-allocator sink.writer-coordinator.cache-expire-after-access "
        "sink.writer-coordinator.cache-memory sink.writer-coordinator.cache-soft-values "
        "sink.writer-coordinator.enabled sink.writer-coordinator.page-size "
        "sink.writer-coordinator.prefetch-manifests sink.writer-cpu sink.writer-memory "
        "sink.writer-refresh-detectors snapshot.watermark-idle-timeout source.checkpoint-align.enabled "
        "source.checkpoint-align.timeout source.operator-uid.suffix unaware-bucket.compaction.parallelism "
        "unaware-bucket.no-shuffle",
    ),
    **_of(
        _DONE,
        "partition.end-input-to-done partition.idle-time-to-done partition.idle-time-to-report-statistic "
        "partition.mark-done-action partition.mark-done-action.custom.class partition.mark-done-action.mode "
        "partition.mark-done-action.http.params partition.mark-done-action.http.url "
        "partition.mark-done.recover-from-state partition.sink-strategy partition.time-interval",
    ),
    **_of(
        "a consumer's place is noted once its step is done, in either mode",
        "consumer.mode",
        one_of("exactly-once", "at-least-once"),
    ),
    **_of("a branch that cannot be read fails the read", "scan.fallback-branch.read-fail-fast", boolean),
    **_of(
        _SPARK,
        "legacy-timestamp-mapping.enabled read.allow.fullScan read.changelog read.stream.maxBytesPerTrigger "
        "read.stream.maxFilesPerTrigger read.stream.maxRowsPerTrigger read.stream.maxTriggerDelayMs "
        "read.stream.minRowsPerTrigger requiredSparkConfsCheck.enabled schema-inference "
        "source.split.target-size-with-column-pruning write.hive-style-dynamic-partition.enabled "
        "write.merge-schema write.merge-schema.explicit-cast write.merge-schema.type-widening "
        "write.use-v2-write",
    ),
    **_of("what engines note of a table", "comment connector owner"),
}
# What starts so is of a family of its own; a name listed above or elsewhere comes first.
IGNORED_FAMILIES: dict[str, Ignored] = {
    "avro.": Ignored(_JAVA_CODEC),
    "orc.": Ignored(_JAVA_CODEC),
    "parquet.": Ignored(_JAVA_CODEC),
    "materialized-table.": Ignored("how Flink refreshes a materialized table"),
    "metadata.iceberg.": Ignored(_ICEBERG),
}
