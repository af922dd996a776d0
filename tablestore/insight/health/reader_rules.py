"""The rule base of readers: which engines and versions read which tables wrongly, and what helps; and the
rules applied to a snapshot (`inspect.readers()`).

A `ReaderRule` is a reader, a trait of the table, what the reader then gives, the cure and the source: the
thread, or the test of ours that makes such a table and reads it so. No rule is here without a source. The
answer is a `Diagnosis` as the doctor's: a finding for each rule that speaks, a line for each reader that no
rule speaks against. Metadata only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tablestore.format.snapshot import Snapshot
from tablestore.insight.doctor.facts import Facts, Limits
from tablestore.insight.doctor.finding import (
    SEVERITIES,
    Diagnosis,
    Finding,
    MendingCall,
    RuleResult,
    Severity,
    look,
)
from tablestore.insight.health import reader_traits as traits
from tablestore.meta.store import Store
from tablestore.read.scan import time_travel

Gives = Literal["wrong rows", "stale rows", "an error"]


@dataclass(frozen=True, slots=True)
class Reader:
    """An engine in some versions. `known` says what speaks for it where no rule speaks against it."""

    name: str
    versions: str
    known: str = "not compared with this engine; no problem is known"

    def __str__(self) -> str:
        return f"{self.name}, {self.versions}"


@dataclass(frozen=True, slots=True)
class ReaderRule:
    """What a `reader` gives of a table with a trait. `why` gives the trait's numbers, or "" where the table
    lacks it; `gives` is wrong rows, stale rows (both without a word) or an error. With `mends` the `calls`
    remove the trait from a keyed table, else they show another way to the rows."""

    name: str
    reader: Reader
    why: Callable[[Facts], str]
    gives: Gives
    what: str
    calls: tuple[MendingCall, ...]
    source: str
    mends: bool = True


_PEERS = "tests/peers/test_readers.py::"
_OURS = "tests/insight/health/test_readers.py::"
_PAIMON, _RUST = "https://github.com/apache/paimon/", "https://github.com/apache/paimon-rust/"
_COMPARED = "compared with this engine, table by table (tests/peers)"

FILES = Reader("readers of the data files (DuckDB, pandas, Polars, spark.read.parquet)", "any version")
JAVA = Reader("Paimon for Java, Flink and Spark", "2.0.0", _COMPARED)
OLD_JAVA = Reader("Paimon for Java, Flink and Spark", "1.0 and older")
PAIMON = Reader(
    "every reader of Paimon tables, this engine too", "any version", "no problem that all of them share"
)
PYTHON = Reader("pypaimon", "2.1.0", _COMPARED)
OLD_PYTHON = Reader("pypaimon", "1.4.2 and older")
RUST = Reader("paimon-rust and pypaimon-rust", "without pull request 785 (September 2026)")
CLICKHOUSE = Reader("ClickHouse", "26.7 and older")
DUCKDB = Reader("DuckDB's extension paimon", "0.1.1")
STARROCKS = Reader("StarRocks", "4.0.10")
NARROW_STARROCKS = Reader("StarRocks", "without pull request 72249 (August 2026)")
ICEBERG = Reader("Iceberg readers of the metadata that Paimon keeps", "any version")
READERS = (
    *(FILES, JAVA, OLD_JAVA, PAIMON, PYTHON, OLD_PYTHON),
    *(RUST, CLICKHOUSE, DUCKDB, STARROCKS, NARROW_STARROCKS, ICEBERG),
)

_MERGED = (MendingCall("compact", keywords={"full": True}),)
_VISIBLE = (MendingCall("compact"),)
THROUGH = (look("duckdb.from_arrow(table.scan().to_reader())"),)
_ANEW = (
    MendingCall("compact", keywords={"full": True}, options={"compaction.force-rewrite-all-files": "true"}),
)
_PARQUET = (MendingCall("set_options", ({"file.format": "parquet"},)), *_ANEW)
_WIDE = "64-bit deletion vectors end the read: 'Invalid magic number', or a size that does not match"

RULES: tuple[ReaderRule, ...] = (
    ReaderRule(
        "unmerged keys",
        FILES,
        traits.unmerged,
        "wrong rows",
        "older rows of a key appear beside the newest",
        _MERGED,
        _OURS + "test_files_hold_older_rows_of_a_key",
    ),
    ReaderRule(
        "parts of rows",
        FILES,
        traits.unmerged_parts,
        "wrong rows",
        "each part of a row is a row of its own, and sums are not added up",
        _MERGED,
        _OURS + "test_files_hold_parts_of_rows",
    ),
    ReaderRule(
        "delete rows",
        FILES,
        traits.deletes,
        "wrong rows",
        "rows that say -D in _VALUE_KIND are read as rows",
        _MERGED,
        _OURS + "test_files_hold_rows_that_delete",
    ),
    ReaderRule(
        "deletion vectors",
        FILES,
        traits.vectors,
        "wrong rows",
        "deleted rows come back",
        _ANEW,
        _OURS + "test_files_hold_rows_that_a_vector_masks",
    ),
    ReaderRule(
        "other files",
        FILES,
        traits.other_files,
        "wrong rows",
        "a pattern over the directory also takes files that the snapshot does not name",
        THROUGH,
        _OURS + "test_directories_hold_files_of_other_snapshots",
        mends=False,
    ),
    ReaderRule(
        "renamed columns",
        FILES,
        traits.renamed,
        "wrong rows",
        "columns of older files go by their old names: NULL under the new one, or a dropped column's values",
        _ANEW,
        _OURS + "test_files_keep_the_names_of_their_columns",
    ),
    ReaderRule(
        "times in Avro",
        FILES,
        traits.avro_times,
        "wrong rows",
        "TIMESTAMP looks like an instant of UTC, and TIMESTAMP_LTZ like local time",
        _PARQUET,
        _OURS + "test_avro_names_the_two_timestamps_the_other_way_round",
    ),
    ReaderRule(
        "TIME in ORC",
        FILES,
        traits.orc_clocks,
        "wrong rows",
        "a time of day is a number of milliseconds",
        _PARQUET,
        _OURS + "test_orc_holds_times_of_day_as_numbers",
    ),
    ReaderRule(
        "rows not visible yet",
        PAIMON,
        traits.hidden,
        "stale rows",
        "the newest rows are not seen before a compaction",
        _VISIBLE,
        _PEERS + "test_rows_at_level_0_are_hidden",
    ),
    ReaderRule(
        "early times in ORC",
        PAIMON,
        traits.early_orc_times,
        "wrong rows",
        "where Java wrote them, times before 1582-10-15 moved by days, those of the last second before 1970 "
        "by a second: write these rows again, in Parquet",
        (look("table.alter(ts.set_options({'file.format': 'parquet'}))"),),
        _PEERS + "test_early_times_in_orc_files_have_moved",
        mends=False,
    ),
    ReaderRule(
        "wide deletion vectors",
        OLD_JAVA,
        traits.wide_vectors,
        "an error",
        _WIDE,
        _ANEW,
        _PAIMON + "pull/5475",
    ),
    ReaderRule(
        "wide deletion vectors",
        PYTHON,
        traits.wide_vectors,
        "an error",
        _WIDE,
        _ANEW,
        _PEERS + "test_pypaimon_refuses_wide_deletion_vectors",
    ),
    ReaderRule(
        "wide deletion vectors",
        RUST,
        traits.wide_vectors,
        "an error",
        _WIDE,
        _ANEW,
        _RUST + "pull/785",
    ),
    ReaderRule(
        "wide deletion vectors",
        NARROW_STARROCKS,
        traits.wide_vectors,
        "an error",
        _WIDE,
        _ANEW,
        "https://github.com/StarRocks/starrocks/issues/73494",
    ),
    ReaderRule(
        "multisets",
        PYTHON,
        traits.multisets,
        "an error",
        "the type MULTISET is unknown",
        THROUGH,
        _PEERS + "test_pypaimon_refuses_multisets",
        mends=False,
    ),
    ReaderRule(
        "sequence groups",
        PYTHON,
        traits.sequence_groups,
        "an error",
        "sequence groups are refused",
        THROUGH,
        _PEERS + "test_pypaimon_refuses_sequence_groups",
        mends=False,
    ),
    ReaderRule(
        "sequence field",
        OLD_PYTHON,
        traits.unmerged_sequence,
        "wrong rows",
        "the row written last wins, whatever the sequence field says; 2.0.0 obeys it",
        _MERGED,
        _PAIMON + "pull/8075",
    ),
    ReaderRule(
        "parts of rows",
        OLD_PYTHON,
        traits.unmerged_parts,
        "wrong rows",
        "only the newest part of a row is read, as if the merge engine were deduplicate; 2.0.0 merges",
        _MERGED,
        _PAIMON + "pull/7952",
    ),
    ReaderRule(
        "first row",
        OLD_PYTHON,
        traits.unmerged_first,
        "wrong rows",
        "the newest row of a key is read, not the first; 2.0.0 merges",
        _MERGED,
        _PAIMON + "pull/7968",
    ),
    ReaderRule(
        "renamed columns",
        OLD_PYTHON,
        traits.renamed,
        "wrong rows",
        "columns of older files are matched by name: NULL, or another column's values; 2.0.0 goes by id",
        _ANEW,
        _PAIMON + "pull/8126",
    ),
    ReaderRule(
        "unmerged keys",
        CLICKHOUSE,
        traits.unmerged,
        "wrong rows",
        "older rows of a key appear beside the newest",
        _MERGED,
        "https://github.com/ClickHouse/ClickHouse/issues/113360",
    ),
    ReaderRule(
        "unmerged keys",
        DUCKDB,
        traits.unmerged,
        "stale rows",
        "older rows of a key are read from level 0",
        THROUGH,
        "https://github.com/polardb/duckdb-paimon/issues/95",
        mends=False,
    ),
    ReaderRule(
        "columns without NULL",
        STARROCKS,
        traits.strict_keys,
        "an error",
        "columns that are NOT NULL, as those of every key, are refused",
        THROUGH,
        "https://github.com/StarRocks/starrocks/issues/73443",
        mends=False,
    ),
    ReaderRule(
        "below the top level",
        ICEBERG,
        traits.iceberg_behind,
        "stale rows",
        "only files of the top level are named there: newer rows are missing until Paimon compacts it fully",
        THROUGH,
        _PEERS + "test_iceberg_metadata_name_the_top_level_alone",
        mends=False,
    ),
)


def readers(store: Store, snapshot: Snapshot | None) -> Diagnosis:
    """What each reader would make of `snapshot`, those first that give wrong or stale rows without a word."""
    name = store.paths.root
    if snapshot is None:
        return Diagnosis(
            name, None, (), (RuleResult("readers", "no snapshot yet: nothing to read"),), readers=True
        )
    facts = Facts(store, snapshot, Limits())
    with time_travel.expiring(store, snapshot.id), store.manifests.naming_rows():
        findings = [f for f in (_finding(facts, rule) for rule in RULES) if f is not None]
    spoken = [f.where for f in findings]
    tried = [RuleResult(str(r), r.known, spoken.count(str(r))) for r in READERS]
    findings.sort(key=lambda f: SEVERITIES.index(f.severity))
    return Diagnosis(name, snapshot.id, tuple(findings), tuple(tried), readers=True)


def _finding(facts: Facts, rule: ReaderRule) -> Finding | None:
    why = rule.why(facts)
    if not why:
        return None
    mends = rule.mends and facts.keyed
    calls = THROUGH if rule.mends and not mends else rule.calls
    severity: Severity = "note" if rule.gives == "an error" else "risk"
    what = f"{rule.gives}: {rule.what} ({why})"
    evidence = {"source": rule.source}
    return Finding(rule.name, severity, str(rule.reader), what, calls, evidence, mends=mends)
