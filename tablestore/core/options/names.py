"""Names of table options that are read as text, and old names of the Flink Table Store.

`ALIASES`: old name → (current name, values that changed), `ALIAS_FAMILIES`: the same of beginnings of names.
`LEVELED`: what some of them become where leveled compaction is chosen. `PLACES`: where those that are read as
text may be set. Typed options: `table_options.py`; others: `refused.py`.
"""

from tablestore.core.options.values import EVERYWHERE, STORED, Place

UUID = "tablestore.uuid"
"""The name of the option that is made with a table, and tells it from another one of its name."""
_SCAN = {"initial": "latest-full", "latest-offset": "latest"}
_COMPACTION = "num-sorted-run.compaction-trigger"
_LEVELED = "tablestore.compaction.leveled."
ALIASES: dict[str, tuple[str, dict[str, str]]] = {
    "table-storage.bucket": ("bucket", {}),
    "table-storage.file.format": ("file.format", {}),
    "table-storage.log.consistency": ("log.consistency", {}),
    "table-storage.log.retention": ("log.retention", {}),
    "table-storage.log.scan.startup.mode": ("scan.mode", _SCAN),
    "log.scan": ("scan.mode", {}),
    "log.scan.remove-normalize": ("scan.remove-normalize", {}),
    "log.scan.timestamp-millis": ("scan.timestamp-millis", {}),
    "write.compaction-skip": ("write-only", {}),
    "change-tracking": ("tablestore.change-tracking", {}),
    "compaction.max-sorted-run-num": ("sort-spill-threshold", {}),
    "level0_file_num_compaction_trigger": (_COMPACTION, {}),
    "max_bytes_for_level_base": (_LEVELED + "max-bytes-for-level-base", {}),
    "max_bytes_for_level_multiplier": (_LEVELED + "max-bytes-for-level-multiplier", {}),
    "universal_sort_run_num_compaction_trigger": (_COMPACTION, {}),
    "universal_max_size_amplification_percent": ("compaction.max-size-amplification-percent", {}),
    "universal_size_ratio": ("compaction.size-ratio", {}),
}
# What starts so has another beginning now.
ALIAS_FAMILIES = {"table-storage.log.properties.": "kafka."}
ROOT_PATH = "table-storage.file.root-path"  # of the Flink Table Store: now the warehouse of a catalog
TABLE_DEFAULTS = ("table-default.", "table-storage.")  # of a catalog or session: what new tables start from
# What starts so is passed to another system as it is.
PASSED_ON = {"kafka.": "a property of librdkafka, for the log in Kafka"}
LEVELED = {"level0_file_num_compaction_trigger": _LEVELED + "level0-file-num-trigger"}
# Before the path of a partition: the option of that partition (`format/change_tracking.py`).
CHANGE_TRACKING = "tablestore.change-tracking"
# Names of ours that are no typed options.
ENGINE_NAMES = {
    "tablestore.cdc.columns": "of change capture: the columns of the source that were captured, as JSON",
    "tablestore.full-phase-changelog": "of change capture: false writes no changelog for rows of snapshots",
    "tablestore.log.adopted": "generated: the topic of the log was there before the table, and stays",
    UUID: "generated: identifies the table among others that had its name",
}
# What is read where it is used, from the options as text.
READ_AS_TEXT = {
    "branch": "for one call: the branch that is read and written",
    "external": "Hive: dropping the table keeps its files",
    "fields.default-aggregate-function": "aggregate function of columns that name none",
    "partition": "when a table is created: its partition columns",
    "path": "Hive: where an external table lies",
    "primary-key": "when a table is created: its primary key",
    "write-mode": "change-log without a primary key: equal rows are counted, changes of any kind are taken",
    **ENGINE_NAMES,
}
# `fields.<column>.<name>`
OF_COLUMNS = {
    "aggregate-function": "how values of a key become one",
    "count-limit": "nested_update: maximum number of rows",
    "distinct": "listagg and collect: keep equal values once",
    "ignore-retract": "-U and -D leave the value alone",
    "list-agg-delimiter": "listagg: text between values",
    "nested-key": "nested_update: key of its rows",
    "nested-key-null-strategy": "nested_update: what happens to rows with NULL in the key",
    "nested-sequence-field": "nested_update: columns that order its rows",
    "sequence-group": "partial-update: columns that this one orders",
    "stats-mode": "column statistics in manifests",
    "storage-layout": "of a MAP: only default is accepted",
    "ts-field": "merge_map_with_keytime: the field of a value that says which one is newer",
}
# Where an option that is read as text may be set; others of them are stored.
PLACES = {
    "branch": Place.SCAN,
    "partition": Place.CREATE,
    "path": Place.CREATE,
    "primary-key": Place.CREATE,
    UUID: Place.CREATE,
    "tablestore.full-phase-changelog": EVERYWHERE,
}
OF_CREATION = tuple(key for key, places in PLACES.items() if places is Place.CREATE)
# The same of the beginnings of names; of `fields.<column>.<name>` by the name.
PLACES_OF_FAMILIES = {"file-index.": EVERYWHERE, "kafka.": EVERYWHERE, CHANGE_TRACKING + ".": STORED}
PLACES_OF_COLUMNS = {"stats-mode": EVERYWHERE}
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


def of_new_tables(key: str, value: str) -> tuple[str, str]:
    """The option of new tables, under its current name, that `table-storage.…` or `table-default.…` of a
    catalog or session gives."""
    if key in ALIASES:
        name, values = ALIASES[key]
        return name, values.get(value, value)
    for old, new in ALIAS_FAMILIES.items():
        if key.startswith(old):
            return new + key.removeprefix(old), value
    prefix = next((p for p in TABLE_DEFAULTS if key.startswith(p) and key != ROOT_PATH), "")
    return key.removeprefix(prefix), value
