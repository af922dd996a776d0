"""Options of Paimon, Flink and the Flink Table Store that are refused here, as ignoring them would give other
rows or files than they ask for; each with the reason.

They are refused by name when a table is created or altered and as options of one use. Another engine may have
stored one: `Stored` says what is refused then; `check` notes it in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tablestore.core.options.names import ROOT_PATH


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
        "only tables of type = table and materialized-table",
        ("table", "materialized-table"),
        Stored.READ,
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
