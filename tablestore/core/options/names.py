"""Names of table options that are read as text, and those of the Flink Table Store that became others.

`ALIASES`: old name → (name of today, values that changed). `LEVELED`: what some of them mean instead where
leveled compaction is chosen. Typed options: `table_options.py`; others: `ignored.py`, `refused.py`.
"""

_SCAN = {"initial": "latest-full", "latest-offset": "latest"}
_COMPACTION = "num-sorted-run.compaction-trigger"
_LEVELED = "tablestore.compaction.leveled."
ALIASES: dict[str, tuple[str, dict[str, str]]] = {
    "table-storage.bucket": ("bucket", {}),
    "table-storage.file.format": ("file.format", {}),
    "table-storage.log.scan.startup.mode": ("scan.mode", _SCAN),
    "log.scan": ("scan.mode", {}),
    "log.scan.remove-normalize": ("scan.remove-normalize", {}),
    "log.scan.timestamp-millis": ("scan.timestamp-millis", {}),
    "write.compaction-skip": ("write-only", {}),
    "compaction.max-sorted-run-num": ("sort-spill-threshold", {}),
    "level0_file_num_compaction_trigger": (_COMPACTION, {}),
    "max_bytes_for_level_base": (_LEVELED + "max-bytes-for-level-base", {}),
    "max_bytes_for_level_multiplier": (_LEVELED + "max-bytes-for-level-multiplier", {}),
    "universal_sort_run_num_compaction_trigger": (_COMPACTION, {}),
    "universal_max_size_amplification_percent": ("compaction.max-size-amplification-percent", {}),
    "universal_size_ratio": ("compaction.size-ratio", {}),
}
LEVELED = {"level0_file_num_compaction_trigger": _LEVELED + "level0-file-num-trigger"}
# Names of ours that are no typed options.
ENGINE_NAMES = {
    "tablestore.full-phase-changelog": "of the Spark ingest: false writes no changelog files while it loads",
    "tablestore.uuid": "made, not given: tells a table from another one of its name",
}
# What is read where it is used, from the options as text.
READ_AS_TEXT = {
    "branch": "for one use: the branch that is read and written",
    "external": "Hive: dropping the table keeps its files",
    "fields.default-aggregate-function": "aggregate function of columns that name none",
    "partition": "when a table is made: its partition columns",
    "path": "Hive: where an external table lies",
    "primary-key": "when a table is made: its primary key",
    "write-mode": "change-log without a primary key: equal rows are counted, changes of any kind are taken",
    **ENGINE_NAMES,
}
# `fields.<column>.<name>`
OF_COLUMNS = {
    "aggregate-function": "how values of a key become one",
    "count-limit": "nested_update: rows at most",
    "distinct": "listagg and collect: equal values once",
    "ignore-retract": "-U and -D leave the value alone",
    "list-agg-delimiter": "listagg: what stands between values",
    "nested-key": "nested_update: columns that tell its rows apart",
    "nested-key-null-strategy": "nested_update: what rows with NULL in them do",
    "nested-sequence-field": "nested_update: columns that order its rows",
    "sequence-group": "partial-update: columns that this one orders",
    "stats-mode": "column statistics in manifests",
    "storage-layout": "of a MAP: default; others are refused",
    "ts-field": "merge_map_with_keytime: the field of a value that says which one is newer",
}
WRITE_MODES = ("auto", "change-log", "append-only", "table")
# Options that Paimon lets nobody change once a table has snapshots; the last two name directories.
FIXED_WITH_DATA = frozenset(
    [
        "aggregation.remove-record-on-delete",
        "blob-descriptor-field",
        "blob-field",
        "blob-view-field",
        "bucket-function.type",
        "bucket-key",
        "data-evolution.enabled",
        "data-file.path-directory",
        "dynamic-bucket.initial-buckets",
        "force-lookup",
        "index-file-in-data-file-dir",
        "merge-engine",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "partition",
        "pk-clustering-override",
        "primary-key",
        "row-tracking.enabled",
        "rowkind.field",
        "sequence.snapshot-ordering",
        "type",
        "partition.default-name",
        "partition.legacy-name",
    ]
)
