"""Options of Paimon, Flink and the Flink Table Store that are refused here, as ignoring them would give other
rows or files than they ask for, and those that are ignored; each with the reason.

Ignored ones change neither rows nor files. They are accepted and stored, as other engines read them;
`options.describe()` shows the reasons. Refused ones are refused by name when a table is created or altered
and as options of one use. Another engine may have stored one: `Stored` says what is refused then; `check`
notes it in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tablestore.core.options.names import ROOT_PATH
from tablestore.core.options.values import boolean, duration_ms, integer, memory_size, one_of, real


class Stored(Enum):
    """What this engine refuses to do with a table in which another engine has stored the option."""

    NOTE = "nothing: it changes no row"
    WRITE = "writing: files would not be as the option says"
    READ = "reading too: rows would be others"


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an option is refused. `unless`: the values (lower case) that ask for nothing and are accepted;
    `keyed`: where another engine stored it, it is refused for tables with a primary key only."""

    why: str
    unless: tuple[str, ...] = ()
    stored: Stored = Stored.NOTE
    keyed: bool = False

    def refuses(self, value: str) -> bool:
        """Whether the value asks for what is not done."""
        return value.strip().lower() not in ("", *self.unless)


_OFF = ("false",)
_LOG = "no option of a log that is known here; Table.options.describe() lists them"
_JVM = "classes of the JVM, which commits here do not call"
_SESSION = "a setting of a Flink session, which SET changes; not of a table"
_CATALOG = "an option of a catalog, for ts.connect(…, {…}); not of a table"
_ROOT = "it is the warehouse of a catalog: CREATE CATALOG c WITH ('warehouse' = '…'), ts.connect('…')"
_INDEX = "indexes of primary-key tables are not made"
_PICKS = "small files are combined from compaction.min.file-num on"
_BLOB = "BLOB columns"

REFUSED: dict[str, Refused] = {
    # tables that are others
    "type": Refused(
        "only tables of type = table and materialized-table", ("table", "materialized-table"), Stored.READ
    ),
    "chain-table.enabled": Refused("its rows lie in several branches", _OFF, Stored.READ),
    "sequence.snapshot-ordering": Refused(
        "rows are ordered by their sequence numbers here", _OFF, Stored.READ, keyed=True
    ),
    "postpone.merge-on-read": Refused(
        "rows of bucket-postpone are read once they are compacted", _OFF, Stored.READ
    ),
    "manifest.format": Refused("manifests are Avro files", ("avro",), Stored.READ),
    "data-evolution.enabled": Refused("data files hold all columns of their rows", _OFF, Stored.WRITE),
    "pk-clustering-override": Refused("files are sorted by the primary key", _OFF, Stored.WRITE),
    "clustering.incremental": Refused("rows are written as they come", _OFF, Stored.WRITE),
    "clustering.columns": Refused("rows are written as they come", (), Stored.WRITE),
    "sink.clustering.by-columns": Refused("rows are written as they come", (), Stored.WRITE),
    "metadata.iceberg.storage": Refused(
        "each commit would have to write Iceberg metadata", ("disabled",), Stored.WRITE
    ),
    "primary-key.nullable": Refused("a primary key holds no NULL", _OFF, Stored.WRITE),
    "blob-field": Refused(_BLOB),
    "blob-descriptor-field": Refused(_BLOB),
    "blob.stored-descriptor-fields": Refused(_BLOB),
    "blob-view-field": Refused(_BLOB),
    "vector-field": Refused("VECTOR columns"),
    "vector.file.format": Refused("VECTOR columns"),
    "variant.inferShreddingSchema": Refused("shredded VARIANT columns", _OFF),
    "variant.shreddingSchema": Refused("shredded VARIANT columns"),
    "orc.timestamp-ltz.legacy.type": Refused(
        "ORC files hold local-zone timestamps in the form that is Paimon's default", ("true",), Stored.WRITE
    ),
    # reads that are others
    "scan.bucket": Refused("a condition over the bucket key reads one bucket", (), Stored.READ),
    "scan.partitions": Refused("a condition over partition columns chooses them", (), Stored.READ),
    "scan.fallback-snapshot-branch": Refused("of chain tables", (), Stored.READ),
    "scan.fallback-delta-branch": Refused("of chain tables", (), Stored.READ),
    "batch-scan-mode": Refused("of Paimon's own jobs", ("none",), Stored.READ),
    "stream-scan-mode": Refused("of Paimon's own jobs", ("none",), Stored.READ),
    "key-value.sequence_number.enabled": Refused("of Paimon's own system tables", _OFF),
    "scan.plan-auto-tag-for-read.time-retained": Refused(
        "reads make no tags; a consumer or a tag keeps a snapshot"
    ),
    "query-auth.enabled": Refused("there is no catalog that says what one may read", _OFF),
    "lookup.refresh.time-periods-blacklist": Refused("lookup joins refresh at any hour"),
    # what a write or a commit would have to do beside
    "partition.timestamp-format.strict": Refused(
        "writes take any partition value; one that is no time never expires", _OFF
    ),
    "commit.callbacks": Refused(_JVM),
    "commit.custom-listeners": Refused(_JVM),
    "tag.callbacks": Refused(_JVM),
    "tag.batch.customized-name": Refused("tag.automatic-creation = batch is of jobs of engines"),
    "visibility-callback.enabled": Refused("commits wait for no other service", _OFF),
    "pk-bitmap.index.columns": Refused(_INDEX),
    "pk-btree.index.columns": Refused(_INDEX),
    "pk-full-text.index.columns": Refused(_INDEX),
    "pk-multivalue.index.columns": Refused(_INDEX),
    "pk-vector.index.columns": Refused(_INDEX),
    "metastore.partitioned-table": Refused("partitions are not entered in the metastore", _OFF),
    "metastore.tag-to-partition": Refused("partitions are not entered in the metastore"),
    "upsert-key": Refused("a table with a primary key takes upserts"),
    "write.sequence-number-init-mode": Refused("sequence numbers follow those of the files", ("scan",)),
    # names of the Flink Table Store without a meaning today
    "compaction.early-max.file-num": Refused(_PICKS),
    "compaction.max.file-num": Refused(_PICKS),
    ROOT_PATH: Refused(_ROOT),
    "root-path": Refused(_ROOT),
    # settings of something else
    **dict.fromkeys(
        (
            "alter-table-cascade",
            "cache-enabled",
            "case-sensitive",
            "catalog-key",
            "client-pool-size",
            "default-database",
            "defaultDatabase",
            "disable-create-table-in-default-db",
            "file-io.allow-cache",
            "format-table.enabled",
            "hive-conf-dir",
            "hadoop-conf-dir",
            "lineage-use-catalog-key-as-identifier",
            "location-in-properties",
            "lock-acquire-timeout",
            "lock-check-max-sleep",
            "lock-key-max-length",
            "lock.enabled",
            "lock.type",
            "metastore",
            "metastore.client.class",
            "resolving-file-io.enabled",
            "sync-all-properties",
            "table.type",
            "uri",
            "warehouse",
        ),
        Refused(_CATALOG),
    ),
}
# What starts so is of a family of its own; a name listed above or elsewhere comes first.
REFUSED_FAMILIES: dict[str, Refused] = {
    "log.": Refused(_LOG),
    "table-storage.log.": Refused(_LOG),
    "commit.callback.": Refused(_JVM),
    "tag.callback.": Refused(_JVM),
    "execution.": Refused(_SESSION),
    "pipeline.": Refused(_SESSION),
    "sql-client.": Refused(_SESSION),
    "table.exec.": Refused(_SESSION),
    "table.optimizer.": Refused(_SESSION),
}


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
_OF_BLOBS = "of BLOB columns, which are refused"
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
        _OF_BLOBS,
        "blob-as-descriptor blob-compaction.enabled blob-view.resolve.enabled "
        "blob-write-null-on-fetch-failure blob-write-null-on-missing-file lookup.blob-as-descriptor",
        boolean,
    ),
    **_of(_OF_BLOBS, "blob-descriptor.source-table blob.split-by-file-size"),
    **_of(_OF_BLOBS, "blob.copy-buffer-size blob.target-file-size", memory_size),
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
