"""Which modules have mutants, the tests nearest to each, and the mutants that change nothing."""

from __future__ import annotations

PICKS = ("lsm/compaction/test_compaction.py",)
SPLITS = ("read/scan/test_split_cases.py", "read/scan/test_split.py")
PRUNING = (
    "read/scan/test_pruning_cases.py",
    "read/scan/test_matching_manifests.py",
    "read/scan/test_file_stats.py",
    "read/scan/test_buckets_of.py",
)

TESTS = {
    "tablestore/lsm/compaction/universal.py": PICKS,
    "tablestore/lsm/compaction/leveled.py": (
        *PICKS,
        "lsm/compaction/test_leveled.py",
        "lsm/compaction/test_overlap.py",
    ),
    "tablestore/lsm/compaction/decision.py": PICKS,
    "tablestore/lsm/compaction/append_compaction.py": ("write/test_append_compaction.py",),
    "tablestore/lsm/levels/sorted_run.py": ("lsm/levels/test_sorted_run.py", *PICKS),
    "tablestore/lsm/merge/changelog.py": (
        "lsm/merge/test_changelog.py",
        "lsm/compaction/test_rewriter_changelog.py",
    ),
    "tablestore/lsm/merge/validate.py": (
        "lsm/merge/test_changelog_rules.py",
        "lsm/merge/test_merge_options.py",
        "table/test_row_changes.py",
    ),
    "tablestore/write/full_compaction.py": ("write/test_full_compaction.py",),
    "tablestore/write/commit/conflict_rules.py": (
        "write/commit/test_conflict_cases.py",
        "write/commit/test_conflict_rules.py",
    ),
    "tablestore/meta/expiry_rules.py": ("meta/test_retention_cases.py", "meta/test_expiry_rules.py"),
    "tablestore/read/scan/pruning.py": PRUNING,
    "tablestore/read/scan/file_stats.py": PRUNING,
    "tablestore/read/scan/scan_mode.py": ("read/scan/test_scan_targets.py", "read/scan/test_scan_mode.py"),
    "tablestore/read/scan/split_files.py": SPLITS,
    "tablestore/read/scan/split_generator.py": SPLITS,
    "tablestore/log/offsets.py": ("log/test_offsets.py",),
    "tablestore/read/changes/stream_start.py": (
        "read/changes/test_cursor.py",
        "read/changes/test_stream_start.py",
    ),
    "tablestore/read/changes/log_start.py": (
        "read/changes/test_log_start.py",
        "read/changes/test_log_stream.py",
    ),
    "tablestore/read/changes/log_steps.py": ("read/changes/test_log_steps.py",),
}
"""Files of tests below `tests` by module: those that are about it, no more than seconds each."""

SPLIT_FILES = "tablestore/read/scan/split_files.py"
SPLIT_GENERATOR = "tablestore/read/scan/split_generator.py"
CHANGELOG, EXPIRY = "tablestore/lsm/merge/changelog.py", "tablestore/meta/expiry_rules.py"
SORTED_RUN, LOG_STEPS = "tablestore/lsm/levels/sorted_run.py", "tablestore/read/changes/log_steps.py"
PRUNER = "tablestore/read/scan/pruning.py"
BUCKET_FIELDS = "fields = schema.columns(schema.bucket_keys) if options.bucket > 0 else ()"
MANY = "count *= _MAX_POINTS + 1 if values is None else len(values)"
AT_LEAST_A_ROW = "rows = max(entry.file.row_count, 1)"
LOG_START = "tablestore/read/changes/log_start.py"
OLDEST = "return LogPlace(None, (changelogs.earliest_id(store) or 1) - 1)"
CURSOR = "tablestore/read/changes/stream_start.py"
SOONER = "if mark is None or snapshot < (snapshots.earliest_id() or 0):"
BEHIND = "return snapshot >= (snapshots.earliest_id() or 0)"
LAST = "last = max(now.end.get(bucket, 0), has.get(bucket, 0))"
STOP = "stop = {b: max(at.get(b, 0), min(now.end.get(b, 0), has.get(b, 0))) for b in sorted({*at, *now.end})}"
BELOW = "the greatest of it and an offset, which is at least 0"
WHOLE = {
    "_sections": 'whole = entries.numbers("delete_count", null=-1)[first] == 0',
    "_lifted_groups": 'whole = (levels > 0) & (entries.numbers("delete_count", null=-1) == 0)',
}
FEW = "if len(self._entries) <= _FEW: # others of this plan will be asked for too: all are made at once"
UPPER = "upper += (SortedRun((), level) for level in range(len(upper) + 1, max(come, default=0) + 1))"
LEVEL_BOUNDS = "low, high = np.full(count, 1 << 30), np.full(count, -1)"
PAIRS = 'pairs = codes.astype(np.int64) << 32 | entries.numbers("bucket") & 0xFFFFFFFF'
RANKS = "dense[order] = np.cumsum([0, *(values[low] != values[high] for low, high in pairwise(order))])"
NEWEST = "newest = np.minimum.reduceat(np.where(places > 0, places, 1 << 20), groups.starts)"

EQUIVALENT: dict[tuple[str, str, str, str], str] = {
    **{
        (SPLIT_GENERATOR, function, line, line.replace("null=-1", "null=-2")): "any number but 0 will do"
        for function, line in WHOLE.items()
    },
    **{
        (SPLIT_GENERATOR, "_lifted_groups", LEVEL_BOUNDS, LEVEL_BOUNDS.replace(*change)): "beyond any level"
        for change in (("1 << 30", "2 << 30"), ("1 << 30", "1 << 31"), ("1 << 30", "1 << 29"), ("-1", "-2"))
    },
    (
        SPLIT_GENERATOR,
        "_lifted_groups",
        LEVEL_BOUNDS,
        LEVEL_BOUNDS.replace("-1", "-0"),
    ): "no level is below 0",
    (SPLIT_GENERATOR, "bucket_numbers", PAIRS, PAIRS.replace("32", "33")): "bits that no number has",
    **{
        (SPLIT_GENERATOR, "_ranks", RANKS, RANKS.replace("[0,", f"[{first},")): "all ranks move alike"
        for first in ("1", "(-1)")
    },
    (
        SPLIT_GENERATOR,
        "section_starts",
        "span = np.int64(2 * len(entries)) # more than any rank",
        "span = np.int64(3 * len(entries)) # more than any rank",
    ): "more than any rank, too",
    **{
        (CHANGELOG, "newest_levels", NEWEST, NEWEST.replace("1 << 20", other)): "beyond any level"
        for other in ("2 << 20", "1 << 21", "1 << 19")
    },
    **{
        (PRUNER, "buckets_of", BUCKET_FIELDS, BUCKET_FIELDS.replace("options.bucket > 0", other)): "never 0"
        for other in ("(options.bucket >= 0)", "options.bucket > (-1)")
    },
    (PRUNER, "buckets_of", MANY, MANY.replace("+ 1", "+ 2")): "more than the most, too",
    (
        PRUNER,
        "_hashed",
        "if not len(arrays[0]):",
        "if not len(arrays[(-1)]):",
    ): "columns are equally long",
    (PRUNER, "_hashed", "return frozenset()", "pass"): "no rows are in no bucket",
    (PRUNER, "_hashed", "return None", "pass"): "None is the answer",
    (PRUNER, "Pruner.prune", "return verdicts", "pass"): "the statistics exclude nothing then",
    (PRUNER, "Pruner.keep", "return kept", "pass"): "a verdict on each says the same",
    (PRUNER, "Pruner.keep", "kept &= (totals != total) | there", "pass"): "a verdict on each says so, too",
    **{
        (
            PRUNER,
            "Pruner._partition_stats",
            AT_LEAST_A_ROW,
            AT_LEAST_A_ROW.replace("max(entry.file.row_count, 1)", other),
        ): "all rows of a partition are NULL or none, however many they are"
        for other in (
            "(min(entry.file.row_count, 1))",
            "(entry.file.row_count)",
            "1",
            "max(entry.file.row_count, 2)",
        )
    },
    (
        PRUNER,
        "Pruner._partition_stats",
        AT_LEAST_A_ROW,
        AT_LEAST_A_ROW.replace("1)", "0)"),
    ): "no file is empty",
    **{
        (LOG_START, "_earliest", OLDEST, OLDEST.replace("or 1)", f"or {other})")): "there is a snapshot"
        for other in ("2", "0")
    },
    **{
        (CURSOR, "was_rolled_back", line, line.replace("or 0)", f"or {other})")): "snapshots begin at 1"
        for line in (SOONER, BEHIND)
        for other in ("1", "(-1)")
    },
    (
        CURSOR,
        "was_rolled_back",
        SOONER,
        SOONER.replace("(snapshots.earliest_id() or 0)", "((snapshots.earliest_id() and 0))"),
    ): "what expired is not there, which is looked at behind, too",
    (
        SPLIT_FILES,
        "SplitFiles.made",
        FEW,
        FEW.replace("len(self._entries) <= _FEW", "(len(self._entries) < _FEW)"),
    ): "both roads make the same",
    (SPLIT_GENERATOR, "_cut", "return order, starts", "pass"): "the road for some gives the same",
    (
        SPLIT_GENERATOR,
        "_lifted_groups",
        "count = int(group.max()) + 1",
        "count = int(group.max()) + 2",
    ): "a bucket more, of which nobody asks",
    (CHANGELOG, "newest_levels", "return groups", "pass"): "a copy of all groups is those groups",
    (LOG_STEPS, "next_step", LAST, LAST.replace("has.get(bucket, 0)", "has.get(bucket, (-1))")): BELOW,
    (
        LOG_STEPS,
        "next_step",
        LAST,
        LAST.replace("now.end.get(bucket, 0)", "now.end.get(bucket, (-1))"),
    ): BELOW,
    (LOG_STEPS, "next_step", STOP, STOP.replace("at.get(b, 0)", "at.get(b, (-1))")): BELOW,
    (LOG_STEPS, "next_step", STOP, STOP.replace("has.get(b, 0)", "has.get(b, (-1))")): BELOW,
    (LOG_STEPS, "next_step", STOP, STOP.replace("now.end.get(b, 0)", "now.end.get(b, (-1))")): BELOW,
    (
        EXPIRY,
        "extent",
        "while end > earliest and time_of(end) is None:",
        "while (end >= earliest) and time_of(end) is None:",
    ): "the end is never given as below the earliest",
    (
        SORTED_RUN,
        "Levels.of",
        "if len(level_files) > 1:",
        "if (len(level_files) >= 1):",
    ): "one file is in order",
    (
        SORTED_RUN,
        "Levels.of",
        "count = max(num_levels, max(by_level, default=0) + 1)",
        "count = max(num_levels, max(by_level, default=(-1)) + 1)",
    ): "there are more levels than none",
    **{
        (SORTED_RUN, "Levels.apply", UPPER, UPPER.replace("default=0", f"default={other}")): "below any level"
        for other in ("1", "(-1)")
    },
}
"""(module, function, line, mutated line) of mutants that behave as the module does, each with the reason."""
