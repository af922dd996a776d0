"""Typed table options, parsed once from a table's string map.

A key that is absent always means what it means in Paimon 2.0.0 (format facts section 24). Unknown keys
survive a round trip, since
other engines may own them; a near miss of a known name is refused with the name that was meant. Keys of ours
start with
`tablestore.` and are ignored by Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from enum import Enum, StrEnum
from typing import Any

from tablestore.errors import InvalidOption
from tablestore.option_names import NAMES

_SIZES = {
    "": 1,
    "b": 1,
    "bytes": 1,
    "k": 10,
    "kb": 10,
    "m": 20,
    "mb": 20,
    "g": 30,
    "gb": 30,
    "t": 40,
    "tb": 40,
}
_TIMES = {
    "ms": 1,
    "milli": 1,
    "millis": 1,
    "millisecond": 1,
    "milliseconds": 1,
    "s": 1000,
    "sec": 1000,
    "second": 1000,
    "seconds": 1000,
    "": 1,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "days": 86_400_000,
}
_AMOUNT = re.compile(r"\s*(\d+)\s*([A-Za-z]*)\s*")
_OPEN_PREFIXES = ("fields.", "file-index.", "log.", "kafka.", "table-storage.", "tablestore.", "metastore.")
INFINITE = 2147483647


class MergeEngine(StrEnum):
    """How rows of one key become one row."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class LookupCompact(StrEnum):
    """How eagerly tables that look rows up compact level 0."""

    RADICAL = "radical"
    GENTLE = "gentle"


class ChangelogProducer(StrEnum):
    """Where changelog files come from."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


def memory_size(text: str) -> int:
    """Bytes of `128 mb`, `64kb`, `1024`."""
    match = _AMOUNT.fullmatch(text)
    if not match or match[2].lower() not in _SIZES:
        raise ValueError("a size such as '128 mb'")
    unit = _SIZES[match[2].lower()]
    return int(match[1]) << unit if unit > 1 else int(match[1])


def duration_ms(text: str) -> int:
    """Milliseconds of `1 h`, `10 min`, `30s`, `500 ms`; a bare number is milliseconds."""
    match = _AMOUNT.fullmatch(text)
    if not match or match[2].lower() not in _TIMES:
        raise ValueError("a duration such as '10 min'")
    return int(match[1]) * _TIMES[match[2].lower()]


def boolean(text: str) -> bool:
    """true or false, in any case."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def mapping(text: str) -> dict[str, str]:
    """Pairs of `0:avro,3:parquet`."""
    pairs = [part.split(":", 1) for part in text.split(",") if part.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("pairs such as '0:avro,5:parquet'")
    return {key.strip(): value.strip() for key, value in pairs}


def by_level(text: str) -> tuple[tuple[int, str], ...]:
    """Values by level of `0:avro,3:parquet`."""
    try:
        return tuple((int(level), value.lower()) for level, value in mapping(text).items())
    except ValueError:
        raise ValueError("pairs of a level and a value such as '0:avro,5:parquet'") from None


def names(text: str) -> tuple[str, ...]:
    """The parts of `a, b`."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def integer(text: str) -> int:
    """A whole number; `infinite` is the largest one of 32 bits."""
    if text.strip().lower() == "infinite":
        return INFINITE
    try:
        return int(text)
    except ValueError:
        raise ValueError("a whole number") from None


def _enum(kind: type[Enum]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return kind(text.strip().lower())
        except ValueError:
            raise ValueError("one of " + ", ".join(str(e.value) for e in kind)) from None

    return parse


def _opt(key: str, parse: Callable[[str], Any], default: Any, meaning: str, *aliases: str) -> Any:
    return field(
        default=default, metadata={"key": key, "parse": parse, "meaning": meaning, "aliases": aliases}
    )


_MERGE_ENGINE, _PRODUCER = _enum(MergeEngine), _enum(ChangelogProducer)
_LOOKUP_COMPACT = _enum(LookupCompact)


@dataclass(frozen=True)
class TableOptions:
    """Options the engine reads. Each field: key, parser, default of Paimon 2.0.0, meaning."""

    bucket: int = _opt("bucket", integer, -1, "LSM trees per partition; -1 dynamic, -2 postponed")
    bucket_function: str = _opt("bucket-function.type", str, "default", "hash of the bucket key")
    file_format: str = _opt("file.format", str.lower, "parquet", "format of data files")
    changelog_file_format: str | None = _opt(
        "changelog-file.format", str.lower, None, "format of changelog files"
    )
    file_format_per_level: tuple[tuple[int, str], ...] = _opt(
        "file.format.per.level", by_level, (), "format of data files at some levels"
    )
    changelog_file_compression: str | None = _opt(
        "changelog-file.compression", str.lower, None, "codec of changelog files"
    )
    changelog_file_stats_mode: str | None = _opt(
        "changelog-file.stats-mode", str.lower, None, "column statistics of changelog files"
    )
    file_compression_per_level: tuple[tuple[int, str], ...] = _opt(
        "file.compression.per.level", by_level, (), "codec of data files at some levels"
    )
    suffix_with_compression: bool = _opt(
        "file.suffix.include.compression", boolean, False, "the codec in data file names"
    )
    file_compression: str = _opt("file.compression", str.lower, "zstd", "codec of data files")
    zstd_level: int = _opt("file.compression.zstd-level", integer, 1, "level of zstd in data files")
    row_group_bytes: int | None = _opt("file.block-size", memory_size, None, "bytes of a Parquet row group")
    data_file_prefix: str = _opt("data-file.prefix", str, "data-", "start of data file names")
    changelog_file_prefix: str = _opt(
        "changelog-file.prefix", str, "changelog-", "start of changelog file names"
    )
    data_directory: str = _opt("data-file.path-directory", str, "", "directory between table and partitions")
    external_paths: str | None = _opt("data-file.external-paths", str, None, "other roots for data files")
    external_strategy: str = _opt(
        "data-file.external-paths.strategy", str.lower, "none", "how a root of external-paths is chosen"
    )
    external_specific_fs: str | None = _opt(
        "data-file.external-paths.specific-fs", str.lower, None, "scheme of the roots that are used"
    )
    external_weights: tuple[str, ...] = _opt(
        "data-file.external-paths.weights", names, (), "shares of the roots of external-paths"
    )
    file_index_threshold: int = _opt(
        "file-index.in-manifest-threshold", memory_size, 500, "file indexes up to this size are in manifests"
    )
    file_index_read: bool = _opt("file-index.read.enabled", boolean, True, "file indexes skip files and rows")
    thin_mode: bool = _opt("data-file.thin-mode", boolean, False, "data files without _KEY_ columns")
    manifest_compression: str = _opt("manifest.compression", str.lower, "zstd", "codec of manifests")
    manifest_target_bytes: int = _opt(
        "manifest.target-file-size", memory_size, 8 << 20, "size manifests merge to"
    )
    manifest_full_bytes: int = _opt(
        "manifest.full-compaction-threshold-size",
        memory_size,
        16 << 20,
        "size at which all manifests are rewritten",
    )
    manifest_merge_min_count: int = _opt(
        "manifest.merge-min-count", integer, 30, "small manifests that merge"
    )
    partition_default_name: str = _opt(
        "partition.default-name", str, "__DEFAULT_PARTITION__", "directory of null and blank partition values"
    )
    partition_legacy_name: bool = _opt(
        "partition.legacy-name", boolean, True, "partition values in Java's toString"
    )
    snapshot_min_retained: int = _opt("snapshot.num-retained.min", integer, 10, "snapshots always kept")
    snapshot_max_retained: int = _opt(
        "snapshot.num-retained.max", integer, INFINITE, "snapshots kept at most"
    )
    snapshot_time_retained_ms: int = _opt(
        "snapshot.time-retained", duration_ms, 3_600_000, "age a snapshot is kept to"
    )
    snapshot_expire_limit: int = _opt("snapshot.expire.limit", integer, 50, "snapshots expired at once")
    merge_engine: MergeEngine = _opt(
        "merge-engine", _MERGE_ENGINE, MergeEngine.DEDUPLICATE, "how rows of one key become one"
    )
    changelog_producer: ChangelogProducer = _opt(
        "changelog-producer",
        _PRODUCER,
        ChangelogProducer.NONE,
        "where changelog files come from",
    )
    ignore_delete: bool = _opt(
        "ignore-delete",
        boolean,
        False,
        "drop -U and -D rows",
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    )
    sequence_field: str | None = _opt("sequence.field", str, None, "columns that order rows of one key")
    rowkind_field: str | None = _opt("rowkind.field", str, None, "column that holds the row kind")
    record_expire: str | None = _opt("record-level.expire-time", str, None, "age at which rows vanish")
    deletion_vectors: bool = _opt(
        "deletion-vectors.enabled", boolean, False, "mark superseded rows instead of merging"
    )
    bitmap64: bool = _opt("deletion-vectors.bitmap64", boolean, False, "64-bit deletion vectors")
    merge_on_read: bool = _opt(
        "deletion-vectors.merge-on-read", boolean, False, "deletion-vector tables show level 0, by merging"
    )
    dv_target_bytes: int = _opt(
        "deletion-vector.index-file.target-size",
        memory_size,
        2 << 20,
        "size deletion-vector files roll at",
    )
    row_deduplicate: bool = _opt(
        "changelog-producer.row-deduplicate", boolean, False, "no -U/+U pairs of equal rows"
    )
    row_deduplicate_ignored: str | None = _opt(
        "changelog-producer.row-deduplicate-ignore-fields",
        str,
        None,
        "columns that row-deduplicate does not compare",
    )
    full_delta_commits: int | None = _opt(
        "full-compaction.delta-commits", integer, None, "commits between full compactions"
    )
    force_lookup: bool = _opt("force-lookup", boolean, False, "compact level 0 with lookups all the same")
    lookup_wait: bool = _opt(
        "lookup-wait", boolean, True, "commits wait for lookups", "changelog-producer.lookup-wait"
    )
    lookup_compact: LookupCompact = _opt(
        "lookup-compact", _LOOKUP_COMPACT, LookupCompact.RADICAL, "how eagerly level 0 is looked up"
    )
    lookup_interval: int | None = _opt(
        "lookup-compact.max-interval", integer, None, "gentle: triggers between forced lookups"
    )
    row_tracking: bool = _opt("row-tracking.enabled", boolean, False, "row ids")
    dynamic_bucket_rows: int = _opt(
        "dynamic-bucket.target-row-num", integer, 2_000_000, "keys a dynamic bucket takes"
    )
    dynamic_bucket_most: int = _opt(
        "dynamic-bucket.max-buckets", integer, -1, "dynamic buckets a partition has at most; -1 no limit"
    )
    dynamic_bucket_initial: int | None = _opt(
        "dynamic-bucket.initial-buckets",
        integer,
        None,
        "dynamic buckets that new keys are spread over at once",
    )
    postpone_buckets: int = _opt(
        "postpone.default-bucket-num",
        integer,
        1,
        "buckets of a partition that is compacted for the first time",
    )
    postpone_bucket_rows: int | None = _opt(
        "postpone.target-row-num-per-bucket",
        integer,
        None,
        "rows that decide the buckets of such a partition",
    )
    overwrite_upgrade: bool = _opt(
        "overwrite-upgrade", boolean, True, "overwriting files that do not overlap go to the top level"
    )
    compaction_min_files: int = _opt(
        "compaction.min.file-num", integer, 5, "small files of an append table that are combined"
    )
    compaction_delete_ratio: float = _opt(
        "compaction.delete-ratio-threshold",
        float,
        0.2,
        "share of deleted rows above which a file is rewritten",
    )
    write_only: bool = _opt(
        "write-only", boolean, False, "no compaction, no expiry by writers", "write.compaction-skip"
    )
    write_buffer_bytes: int = _opt(
        "write-buffer-size", memory_size, 256 << 20, "pool of all write buffers of a process"
    )
    target_file_bytes: int | None = _opt("target-file-size", memory_size, None, "size data files roll at")
    small_file_ratio: float = _opt(
        "compaction.small-file-ratio", float, 0.7, "share of the target below which is small"
    )
    compaction_trigger: int = _opt(
        "num-sorted-run.compaction-trigger", integer, 5, "sorted runs that start a compaction"
    )
    stop_trigger: int | None = _opt(
        "num-sorted-run.stop-trigger", integer, None, "sorted runs at which writers wait"
    )
    levels: int | None = _opt("num-levels", integer, None, "levels of the LSM tree")
    max_size_amplification: int = _opt(
        "compaction.max-size-amplification-percent", integer, 200, "rule 1 of picking"
    )
    size_ratio: int = _opt("compaction.size-ratio", integer, 1, "percent of rule 2 of picking")
    optimization_interval_ms: int | None = _opt(
        "compaction.optimization-interval", duration_ms, None, "time between full compactions"
    )
    compaction_total_bytes: int | None = _opt(
        "compaction.total-size-threshold", memory_size, None, "below this size every compaction is full"
    )
    compaction_incremental_bytes: int | None = _opt(
        "compaction.incremental-size-threshold", memory_size, None, "new bytes that start a full compaction"
    )
    offpeak_start: int = _opt("compaction.offpeak.start.hour", integer, -1, "first hour of the quiet time")
    offpeak_end: int = _opt("compaction.offpeak.end.hour", integer, -1, "hour after the quiet time")
    offpeak_ratio: int = _opt("compaction.offpeak-ratio", integer, 0, "percent added to the size ratio then")
    force_up_level0: bool = _opt("compaction.force-up-level-0", boolean, False, "always lift level 0")
    commit_force_compact: bool = _opt("commit.force-compact", boolean, False, "compact before each commit")
    commit_max_retries: int = _opt("commit.max-retries", integer, 10, "tries of a commit that loses races")
    commit_min_wait_ms: int = _opt("commit.min-retry-wait", duration_ms, 10, "first wait between tries")
    commit_max_wait_ms: int = _opt("commit.max-retry-wait", duration_ms, 10_000, "longest wait between tries")
    split_target_bytes: int = _opt("source.split.target-size", memory_size, 128 << 20, "size of a split")
    split_open_bytes: int = _opt(
        "source.split.open-file-cost", memory_size, 4 << 20, "least weight of a file in a split"
    )
    dynamic_partition_overwrite: bool = _opt(
        "dynamic-partition-overwrite", boolean, True, "overwrite what data touch"
    )
    stats_mode: str = _opt("metadata.stats-mode", str.lower, "truncate(16)", "column statistics in manifests")
    stats_mode_per_level: tuple[tuple[int, str], ...] = _opt(
        "metadata.stats-mode.per.level", by_level, (), "column statistics of files at some levels"
    )
    stats_first_columns: int = _opt(
        "metadata.stats-keep-first-n-columns", integer, -1, "columns with statistics; -1 all"
    )
    stats_dense: bool = _opt("metadata.stats-dense-store", boolean, True, "keep only statistics that exist")
    discovery_interval_ms: int = _opt(
        "continuous.discovery-interval", duration_ms, 10_000, "wait between looks for snapshots"
    )
    consumer_expiration_ms: int | None = _opt(
        "consumer.expiration-time", duration_ms, None, "age a consumer is kept to"
    )
    consumer_id: str | None = _opt(
        "consumer-id", str, None, "name under which a stream reader keeps its place"
    )
    consumer_mode: str = _opt("consumer.mode", str.lower, "exactly-once", "when a consumer's place is noted")
    consumer_ignore_progress: bool = _opt(
        "consumer.ignore-progress", boolean, False, "start anew although the consumer is known"
    )
    consumer_changelog_only: bool = _opt(
        "consumer.changelog-only", boolean, False, "consumers hold changelogs only, not snapshots"
    )
    changelog_min_retained_own: int | None = _opt(
        "changelog.num-retained.min", integer, None, "changelogs always kept; as snapshots if absent"
    )
    changelog_max_retained_own: int | None = _opt(
        "changelog.num-retained.max", integer, None, "changelogs kept at most; as snapshots if absent"
    )
    changelog_time_retained_own_ms: int | None = _opt(
        "changelog.time-retained", duration_ms, None, "age a changelog is kept to; as snapshots if absent"
    )
    clean_empty_directories: bool = _opt(
        "snapshot.clean-empty-directories",
        boolean,
        False,
        "expiry removes bucket directories it empties",
        "snapshot.expire.clean-empty-directories",
    )
    scan_mode: str = _opt("scan.mode", str.lower, "default", "where a read starts", "log.scan")
    scan_snapshot_id: int | None = _opt(
        "scan.snapshot-id", integer, None, "snapshot to read or to start from"
    )
    scan_tag_name: str | None = _opt("scan.tag-name", str, None, "tag to read")
    scan_watermark: int | None = _opt("scan.watermark", integer, None, "read the first snapshot to reach it")
    scan_timestamp: str | None = _opt("scan.timestamp", str, None, "local time to read at or to start from")
    scan_timestamp_millis: int | None = _opt(
        "scan.timestamp-millis",
        integer,
        None,
        "epoch milliseconds to read at or to start from",
        "log.scan.timestamp-millis",
    )
    scan_version: str | None = _opt("scan.version", str, None, "tag, snapshot id or watermark-<n> to read")
    scan_file_creation_millis: int | None = _opt(
        "scan.file-creation-time-millis", integer, None, "read files made at that time or later"
    )
    scan_creation_millis: int | None = _opt(
        "scan.creation-time-millis", integer, None, "start at the first snapshot or file made then or later"
    )
    scan_bounded_watermark: int | None = _opt(
        "scan.bounded.watermark", integer, None, "a stream ends at the snapshot that passes it"
    )
    incremental_between: str | None = _opt(
        "incremental-between", str, None, "changes after one snapshot or tag up to another: 'a,b'"
    )
    incremental_between_timestamp: str | None = _opt(
        "incremental-between-timestamp", str, None, "changes after one time up to another: 'a,b'"
    )
    incremental_scan_mode: str = _opt(
        "incremental-between-scan-mode", str.lower, "auto", "auto, delta, changelog or diff"
    )
    incremental_tag_to_snapshot: bool = _opt(
        "incremental-between-tag-to-snapshot", boolean, False, "two tags mean their snapshots, no diff"
    )
    incremental_to_auto_tag: str | None = _opt(
        "incremental-to-auto-tag", str, None, "diff from the automatic tag before to this one"
    )
    streaming_read_overwrite: bool = _opt(
        "streaming-read-overwrite", boolean, False, "streams tell what an overwrite replaced"
    )
    streaming_read_append_overwrite: bool = _opt(
        "streaming-read-append-overwrite", boolean, False, "streams of append tables tell overwritten rows"
    )
    tag_automatic_creation: str = _opt(
        "tag.automatic-creation", str.lower, "none", "when tags are made unasked"
    )
    tag_time_retained_ms: int | None = _opt(
        "tag.default-time-retained", duration_ms, None, "age a tag is kept to unless it says otherwise"
    )
    tag_num_retained_max: int | None = _opt(
        "tag.num-retained-max", integer, None, "automatic tags kept at most"
    )
    tag_expire_enabled: bool = _opt(
        "tag.time-expire-enabled", boolean, True, "tags whose time is over are removed after commits"
    )

    @property
    def num_levels(self) -> int:
        """Levels of a fresh tree: `num-levels`, else the trigger plus one."""
        return self.levels if self.levels is not None else self.compaction_trigger + 1

    @property
    def run_stop_trigger(self) -> int:
        """Sorted runs above which a writer compacts before it goes on."""
        return self.stop_trigger if self.stop_trigger is not None else self.compaction_trigger + 3

    @property
    def changelog_min_retained(self) -> int:
        """Changelogs always kept."""
        own = self.changelog_min_retained_own
        return self.snapshot_min_retained if own is None else own

    @property
    def changelog_max_retained(self) -> int:
        """Changelogs kept at most."""
        own = self.changelog_max_retained_own
        return self.snapshot_max_retained if own is None else own

    @property
    def changelog_time_retained_ms(self) -> int:
        """Age a changelog is kept to."""
        own = self.changelog_time_retained_own_ms
        return self.snapshot_time_retained_ms if own is None else own

    @property
    def changelog_decoupled(self) -> bool:
        """Whether changelogs outlive their snapshots."""
        return (
            self.changelog_max_retained > self.snapshot_max_retained
            or self.changelog_time_retained_ms > self.snapshot_time_retained_ms
            or self.changelog_min_retained > self.snapshot_min_retained
        )

    @property
    def sequence_fields(self) -> tuple[str, ...]:
        """Columns of `sequence.field`."""
        return tuple(n.strip() for n in (self.sequence_field or "").split(",") if n.strip())

    @property
    def needs_lookup(self) -> bool:
        """Whether compaction of level 0 looks keys up in the levels above (primary-key tables)."""
        producer, engine = self.changelog_producer, self.merge_engine
        wanted = producer is ChangelogProducer.LOOKUP or engine is MergeEngine.FIRST_ROW
        return wanted or self.deletion_vectors or self.force_lookup

    @property
    def lookup_max_interval(self) -> int:
        """Triggers after which a gentle table forces level 0 up."""
        given = 2 * self.compaction_trigger if self.lookup_interval is None else self.lookup_interval
        return max(self.compaction_trigger, given)

    def target_bytes(self, *, keyed: bool) -> int:
        """Size at which a data file rolls: 128 MB with a primary key, 256 MB without."""
        return self.target_file_bytes or ((128 << 20) if keyed else (256 << 20))

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> TableOptions:
        """Read the keys this engine knows; raises InvalidOption that names key, value and what is allowed."""
        values: dict[str, Any] = {}
        for f in fields(cls):
            for key in (f.metadata["key"], *f.metadata["aliases"]):
                if key in options:
                    values[f.name] = _parsed(key, options[key], f.metadata["parse"])
                    break
        return cls(**values)


def _parsed(key: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except ValueError as e:
        raise InvalidOption(f"option {key!r} is {text!r}; it must be {e}") from None


def as_text(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Options as users give them (int, bool, str) as the strings that are stored."""
    return {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in (options or {}).items()}


def refuse_near_misses(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for a key that looks like a misspelt known one. Really foreign keys pass."""
    for key in options:
        if key in NAMES or key.startswith(_OPEN_PREFIXES):
            continue
        near = get_close_matches(key, NAMES, n=1, cutoff=0.75)
        if near:
            raise InvalidOption(f"unknown option {key!r}; did you mean {near[0]!r}?")


def describe() -> list[tuple[str, str, str]]:
    """(key, default, meaning) of every option the engine reads."""
    rows = []
    for f in fields(TableOptions):
        default = (
            "" if f.default is None or f.default is MISSING else str(getattr(f.default, "value", f.default))
        )
        rows.append((f.metadata["key"], default, f.metadata["meaning"]))
    return rows
