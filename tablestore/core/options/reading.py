"""Where reads start and what is kept: scans, streams, consumers, snapshots, tags, changelogs; how lookup
joins keep and refresh what they look up; the scan mode that options ask for (FORMAT.md 21.2).

One field each: key, parser, default of Paimon 2.0.0, meaning. Part of `options.TableOptions`. Options of
lookup joins have the names of Paimon's Flink connector, two of them those of Flink's own connectors. Paimon
does not open a table whose scan options contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tablestore.core.errors import InvalidOption
from tablestore.core.options.values import (
    INFINITE,
    SCAN_MODES,
    boolean,
    duration_ms,
    enum,
    integer,
    long,
    memory_size,
    one_of,
    opt,
    time_zone,
)

_PLACES = {
    "scan.snapshot-id": ("from-snapshot", "from-snapshot-full"),
    "scan.tag-name": ("from-snapshot",),
    "scan.watermark": ("from-snapshot",),
    "scan.version": ("from-snapshot",),
    "scan.timestamp": ("from-timestamp",),
    "scan.timestamp-millis": ("from-timestamp",),
    "scan.file-creation-time-millis": ("from-file-creation-time",),
    "scan.creation-time-millis": ("from-creation-timestamp",),
    "incremental-between": ("incremental",),
    "incremental-between-timestamp": ("incremental",),
    "incremental-to-auto-tag": ("incremental",),
}
_OLD_NAMES = {"scan.timestamp-millis": "log.scan.timestamp-millis"}


@dataclass(frozen=True)
class ReadingOptions:
    """Where reads start and what is kept: scans, streams, consumers, snapshots, tags, changelogs."""

    snapshot_min_retained: int = opt(
        "snapshot.num-retained.min", integer, 10, "snapshots always kept", least=1
    )
    snapshot_max_retained: int = opt(
        "snapshot.num-retained.max", integer, INFINITE, "maximum snapshots kept", least=1
    )
    snapshot_time_retained_ms: int = opt(
        "snapshot.time-retained", duration_ms, 3_600_000, "age at which a snapshot may expire"
    )
    snapshot_expire_limit: int = opt(
        "snapshot.expire.limit", integer, 50, "maximum snapshots that one expiry removes", least=1
    )
    split_target_bytes: int = opt("source.split.target-size", memory_size, 128 << 20, "size of a split")
    split_open_bytes: int = opt(
        "source.split.open-file-cost", memory_size, 4 << 20, "minimum weight of a file in a split"
    )
    scan_threads: int | None = opt(
        "tablestore.scan.threads",
        integer,
        None,
        "splits read and buckets compacted in parallel by one call; Arrow's threads, up to 4, if absent",
        least=0,
    )
    verify_checksums: bool = opt(
        "tablestore.read.verify-checksums",
        boolean,
        True,
        "reads verify ORC and Avro files before they decode them, else a process beside them decodes ORC; "
        "Parquet and metadata are always verified",
    )
    discovery_interval_ms: int = opt(
        "continuous.discovery-interval", duration_ms, 10_000, "how often streams look for new snapshots"
    )
    consumer_expiration_ms: int | None = opt(
        "consumer.expiration-time", duration_ms, None, "age at which a consumer is forgotten"
    )
    consumer_id: str | None = opt(
        "consumer-id", str, None, "name under which a stream reader stores its position"
    )
    consumer_ignore_progress: bool = opt(
        "consumer.ignore-progress", boolean, False, "start afresh although the consumer has a position"
    )
    consumer_changelog_only: bool = opt(
        "consumer.changelog-only", boolean, False, "consumers keep changelogs from expiring, not snapshots"
    )
    changelog_min_retained_own: int | None = opt(
        "changelog.num-retained.min", integer, None, "changelogs always kept; as snapshots if absent", least=1
    )
    changelog_max_retained_own: int | None = opt(
        "changelog.num-retained.max",
        integer,
        None,
        "maximum changelogs kept; as snapshots if absent",
        least=1,
    )
    changelog_time_retained_own_ms: int | None = opt(
        "changelog.time-retained",
        duration_ms,
        None,
        "age at which a changelog may expire; as snapshots if absent",
    )
    clean_empty_directories: bool = opt(
        "snapshot.clean-empty-directories",
        boolean,
        False,
        "expiry removes bucket directories it empties",
        "snapshot.expire.clean-empty-directories",
    )
    scan_mode: str = opt(
        "scan.mode", str.lower, "default", "where a read starts", "log.scan", strict=one_of(*SCAN_MODES)
    )
    scan_snapshot_id: int | None = opt("scan.snapshot-id", long, None, "snapshot to read or to start from")
    scan_tag_name: str | None = opt("scan.tag-name", str, None, "tag to read")
    scan_watermark: int | None = opt("scan.watermark", long, None, "read the first snapshot to reach it")
    scan_timestamp: str | None = opt("scan.timestamp", str, None, "local time to read at or to start from")
    scan_timestamp_millis: int | None = opt(
        "scan.timestamp-millis",
        long,
        None,
        "epoch milliseconds to read at or to start from",
        "log.scan.timestamp-millis",
    )
    scan_version: str | None = opt("scan.version", str, None, "tag, snapshot id or watermark-<n> to read")
    scan_file_creation_millis: int | None = opt(
        "scan.file-creation-time-millis", long, None, "read files made at that time or later"
    )
    scan_creation_millis: int | None = opt(
        "scan.creation-time-millis", long, None, "start at the first snapshot or file made then or later"
    )
    scan_bounded_watermark: int | None = opt(
        "scan.bounded.watermark", long, None, "a stream ends at the snapshot that passes it"
    )
    incremental_between: str | None = opt(
        "incremental-between", str, None, "changes after one snapshot or tag up to another: 'a,b'"
    )
    incremental_between_timestamp: str | None = opt(
        "incremental-between-timestamp", str, None, "changes after one time up to another: 'a,b'"
    )
    incremental_scan_mode: str = opt(
        "incremental-between-scan-mode",
        str.lower,
        "auto",
        "auto, delta, changelog or diff",
        strict=one_of("auto", "delta", "changelog", "diff"),
    )
    incremental_tag_to_snapshot: bool = opt(
        "incremental-between-tag-to-snapshot", boolean, False, "two tags mean their snapshots, no diff"
    )
    incremental_to_auto_tag: str | None = opt(
        "incremental-to-auto-tag", str, None, "diff from the automatic tag before to this one"
    )
    streaming_read_overwrite: bool = opt(
        "streaming-read-overwrite", boolean, False, "streams report what an overwrite replaced"
    )
    scan_log: bool = opt(
        "tablestore.scan.log", boolean, False, "scans add rows of the log that are not yet in a snapshot"
    )
    remove_normalize: bool = opt(
        "scan.remove-normalize", boolean, False, "streams report upserts as they were written"
    )
    streaming_read_append_overwrite: bool = opt(
        "streaming-read-append-overwrite", boolean, False, "streams of append tables report overwritten rows"
    )
    tag_automatic_creation: str = opt(
        "tag.automatic-creation",
        str.lower,
        "none",
        "when tags are created automatically",
        strict=one_of("none", "process-time", "watermark", "batch"),
    )
    tag_time_retained_ms: int | None = opt(
        "tag.default-time-retained", duration_ms, None, "age at which a tag is removed unless it has its own"
    )
    tag_num_retained_max: int | None = opt(
        "tag.num-retained-max", integer, None, "maximum automatic tags kept", least=1
    )
    tag_expire_enabled: bool = opt(
        "tag.time-expire-enabled", boolean, True, "expired tags are removed after commits"
    )
    scan_fallback_branch: str | None = opt(
        "scan.fallback-branch", str, None, "branch read for partitions this one has not"
    )
    scan_primary_branch: str | None = opt(
        "scan.primary-branch", str, None, "branch read before this one: its partitions win"
    )
    scan_ignore_corrupt: bool = opt(
        "scan.ignore-corrupt-files", boolean, False, "skip data files that are damaged"
    )
    scan_ignore_lost: bool = opt("scan.ignore-lost-files", boolean, False, "skip data files that are missing")
    scan_partitions_sorted: bool = opt(
        "scan.plan-sort-partition", boolean, False, "splits in the order of partitions"
    )
    shows_sequence: bool = opt(
        "table-read.sequence-number.enabled", boolean, False, "$audit_log and $binlog show sequence numbers"
    )
    streaming_delay_ms: int | None = opt(
        "streaming.read.snapshot.delay", duration_ms, None, "streams deliver rows with this delay"
    )
    tag_creation_period: str = opt(
        "tag.creation-period",
        str.lower,
        "daily",
        "period of automatic tags",
        strict=one_of("daily", "hourly", "two-hours"),
    )
    tag_period_ms: int | None = opt(
        "tag.creation-period-duration",
        duration_ms,
        None,
        "length of the period of automatic tags, in place of tag.creation-period",
    )
    process_time_zone: str | None = opt(
        "sink.process-time-zone",
        str,
        None,
        "zone of automatic tags by process-time; the process's if absent",
        strict=time_zone,
    )
    watermark_time_zone: str = opt(
        "sink.watermark-time-zone", str, "UTC", "zone of automatic tags by watermark", strict=time_zone
    )
    tag_creation_delay_ms: int = opt("tag.creation-delay", duration_ms, 0, "wait after the end of a period")
    tag_period_formatter: str = opt(
        "tag.period-formatter",
        str.lower,
        "with_dashes",
        "names of automatic tags",
        strict=one_of("with_dashes", "without_dashes", "without_dashes_and_spaces"),
    )
    tag_completes: bool = opt(
        "tag.automatic-completion", boolean, False, "missed automatic tags are created later"
    )
    tag_success_file: bool = opt("tag.create-success-file", boolean, False, "a success file beside each tag")


def mode_of(mode: str, options: Mapping[str, str]) -> str:
    """The scan mode in force where `scan.mode` is `mode`; raises InvalidOption for unknown ones and for
    options that contradict it."""
    if mode not in SCAN_MODES:
        raise InvalidOption(f"option 'scan.mode' is {mode!r}; it must be one of {', '.join(SCAN_MODES)}")
    set_keys = places_given(options)
    if mode == "default":
        mode = _PLACES[set_keys[0]][0] if set_keys else "latest-full"
    wrong = [key for key in set_keys if mode not in _PLACES[key]]
    if wrong:
        raise InvalidOption(f"option {wrong[0]!r} has no place in scan.mode {mode!r}; leave out one of them")
    wanted = [key for key, modes in _PLACES.items() if mode in modes]
    if wanted and len(set_keys) != 1:
        raise InvalidOption(f"scan.mode {mode!r} wants exactly one of {', '.join(wanted)}; given: {set_keys}")
    return "latest-full" if mode == "full" else mode


def places_given(options: Mapping[str, str]) -> list[str]:
    """The options there are that say where a read starts, by their current names."""
    return [key for key in _PLACES if key in options or _OLD_NAMES.get(key, key) in options]


class LookupCacheMode(StrEnum):
    """Which rows of its table a lookup join caches; `partial` is our name for one choice of `auto`."""

    AUTO = "auto"
    FULL = "full"
    MEMORY = "memory"
    PARTIAL = "partial"


@dataclass(frozen=True)
class LookupOptions:
    """How lookup joins keep and refresh what they look up."""

    lookup_cache_mode: LookupCacheMode = opt(
        "lookup.cache",
        enum(LookupCacheMode),
        LookupCacheMode.AUTO,
        "what a lookup join caches: full (all rows, on disk beyond lookup.cache-max-memory-size), memory "
        "(all, never on disk), partial (rows that were looked up), auto",
    )
    lookup_cache_rows: int = opt(
        "lookup.cache-rows", long, 10_000, "maximum keys in the partial cache of a lookup join", least=0
    )
    lookup_discovery_ms: int | None = opt(
        "lookup.continuous.discovery-interval",
        duration_ms,
        None,
        "how often a lookup join looks for new snapshots; continuous.discovery-interval if absent",
    )
    lookup_async: bool = opt(
        "lookup.async", boolean, False, "a lookup join of a stream prefetches on threads"
    )
    lookup_threads: int = opt("lookup.async-thread-number", integer, 16, "threads of lookup.async", least=1)
    lookup_refresh_async: bool = opt(
        "lookup.refresh.async",
        boolean,
        False,
        "a lookup join refreshes in the background and answers meanwhile",
    )
    lookup_refresh_pending: int = opt(
        "lookup.refresh.async.pending-snapshot-count",
        integer,
        5,
        "with lookup.refresh.async: snapshots behind at which a lookup join waits for the refresh",
        least=1,
    )
    lookup_full_load: int = opt(
        "lookup.refresh.full-load-threshold",
        integer,
        INFINITE,
        "snapshots behind at which a lookup join reads its whole table again",
        least=1,
    )
    lookup_expire_write_ms: int | None = opt(
        "lookup.partial-cache.expire-after-write",
        duration_ms,
        None,
        "time after which a partial cache drops a key",
    )
    lookup_expire_access_ms: int | None = opt(
        "lookup.partial-cache.expire-after-access",
        duration_ms,
        None,
        "time after its last lookup when a partial cache drops a key",
    )
