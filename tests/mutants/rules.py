"""Which modules have mutants, the tests nearest to each, and the mutants that change nothing."""

from __future__ import annotations

PICKS = ("lsm/compaction/test_compaction.py", "lsm/compaction/test_leveled.py")
SPLITS = ("read/scan/test_split_cases.py", "read/scan/test_split.py")
LOG_STREAM = ("read/changes/test_log_stream.py", "read/changes/test_stream.py")

TESTS = {
    "tablestore/lsm/compaction/universal.py": PICKS,
    "tablestore/lsm/compaction/leveled.py": PICKS,
    "tablestore/lsm/compaction/decision.py": PICKS,
    "tablestore/lsm/compaction/overlap.py": PICKS,
    "tablestore/lsm/compaction/append_compaction.py": ("write/test_append_compaction.py",),
    "tablestore/lsm/compaction/rewrite_plan.py": ("lsm/compaction/test_rewriter.py",),
    "tablestore/lsm/levels/interval.py": ("lsm/levels/test_interval.py", *PICKS[:1]),
    "tablestore/lsm/levels/sorted_run.py": ("lsm/levels/test_sorted_run.py", *PICKS[:1]),
    "tablestore/lsm/merge/changelog.py": (
        "lsm/merge/test_changelog.py",
        "lsm/compaction/test_rewriter_changelog.py",
    ),
    "tablestore/lsm/merge/changelog_rules.py": ("lsm/merge/test_changelog_rules.py",),
    "tablestore/write/full_compaction.py": ("write/test_full_compaction.py",),
    "tablestore/write/commit/conflict_rules.py": (
        "write/commit/test_conflict_cases.py",
        "write/commit/test_conflict_rules.py",
    ),
    "tablestore/meta/expiry_rules.py": ("meta/test_retention_cases.py", "meta/test_expiry_rules.py"),
    "tablestore/read/scan/pruning.py": ("read/scan/test_pruning_cases.py", "read/scan/test_pruning.py"),
    "tablestore/read/scan/file_stats.py": ("read/scan/test_pruning_cases.py", "read/scan/test_pruning.py"),
    "tablestore/read/scan/sections.py": SPLITS,
    "tablestore/read/scan/split_generator.py": SPLITS,
    "tablestore/read/scan/scan_mode.py": ("read/scan/test_scan_mode.py",),
    "tablestore/log/offsets.py": ("log/test_offsets.py",),
    "tablestore/read/changes/log_start.py": LOG_STREAM,
    "tablestore/read/changes/log_steps.py": LOG_STREAM,
    "tablestore/read/changes/stream_start.py": LOG_STREAM,
    "tablestore/read/changes/cursor.py": LOG_STREAM,
}
"""Files of tests below `tests` by module: those that are about it, no more than seconds each."""

EQUIVALENT: dict[tuple[str, str, str, str], str] = {}
"""(module, function, line, mutated line) of mutants that behave as the module does, each with the reason."""
