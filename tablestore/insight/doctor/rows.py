"""Rules about what rows cost or hide: deletes that are carried along, postponed rows, rows past their time,
missing statistics, mixed formats, level 0 before its lookup. Metadata only.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from tablestore.core import quantities
from tablestore.core.options.table_options import MergeEngine
from tablestore.core.quantities import many
from tablestore.format.manifests.index_manifest import DELETION_VECTORS
from tablestore.insight.doctor.facts import Facts
from tablestore.insight.doctor.finding import (
    Evidence,
    Finding,
    MendingCall,
    RuleOutcome,
    Severity,
    compact_call,
    look,
    set_call,
    where,
)
from tablestore.io.paths import DEAD_LETTERS, file_format
from tablestore.lsm.merge.record_expiry import RecordExpire

_WITH_STATISTICS = set_call(**{"metadata.stats-mode": "truncate(16)"})


def tombstones(facts: Facts) -> RuleOutcome:
    """Rows that only say that others are gone."""
    places, limits = facts.places, facts.limits
    if not facts.keyed or not len(places):
        return RuleOutcome("none in an append table" if not facts.keyed else "no files")
    deletes, rows = int(places.deletes.sum()), int(places.rows.sum())
    unknown = facts.live.table.column("delete_count").null_count
    line = f"{deletes:,} of {rows:,} rows are deletes"
    line += f"; {many(unknown, 'file')} do not say" if unknown else ""
    ill = np.flatnonzero(
        (places.deletes >= limits.deleted_rows) & (places.deletes > limits.deleted_share * places.rows)
    )
    if not len(ill):
        return RuleOutcome(line)
    ill = ill[np.argsort(-places.deletes[ill], kind="stable")].tolist()
    share = float(places.deletes[ill].sum() / places.rows[ill].sum())
    evidence: Evidence = {
        "deletes": int(places.deletes[ill].sum()),
        "rows": int(places.rows[ill].sum()),
        "share": share,
        "buckets": len(ill),
    }
    what = f"{share:.0%} of the rows are deletes, read and merged each time; only the oldest level drops them"
    call = compact_call(facts, ill, full=True)
    return RuleOutcome(line, (Finding("tombstones", "slow", where(facts, ill), what, call, evidence),))


def deletion_vectors(facts: Facts) -> RuleOutcome:
    """Rows of files that deletion vectors take away: read, then thrown away."""
    limits = facts.limits
    entries = facts.store.manifests.index_entries(facts.snapshot)
    marked = [
        (e.partition, e.bucket, r.cardinality or 0)
        for e in entries
        if e.file.index_type == DELETION_VECTORS
        for r in e.file.dv_ranges or ()
    ]
    if not marked or not len(facts.places):
        return RuleOutcome("none")
    number = {
        (p, b): i
        for i, (p, b) in enumerate(zip(facts.places.partition, facts.places.bucket.tolist(), strict=True))
    }
    gone = np.zeros(len(facts.places), dtype=np.int64)
    for partition, bucket, rows in marked:
        if (partition, bucket) in number:
            gone[number[partition, bucket]] += rows
    line = f"{int(gone.sum()):,} of {int(facts.places.rows.sum()):,} rows in {many(len(marked), 'file')}"
    ill = np.flatnonzero((gone >= limits.deleted_rows) & (gone > limits.deleted_share * facts.places.rows))
    if not len(ill):
        return RuleOutcome(line)
    ill = ill[np.argsort(-gone[ill], kind="stable")].tolist()
    share = float(gone[ill].sum() / facts.places.rows[ill].sum())
    evidence: Evidence = {
        "marked_rows": int(gone[ill].sum()),
        "rows": int(facts.places.rows[ill].sum()),
        "share": share,
        "buckets": len(ill),
    }
    what = f"{share:.0%} of the rows are marked as deleted, and read all the same"
    call = compact_call(facts, ill, full=True)
    return RuleOutcome(line, (Finding("deletion vectors", "slow", where(facts, ill), what, call, evidence),))


def waiting_rows(facts: Facts) -> RuleOutcome:
    """Rows of postponed buckets, which no reader sees before a compaction."""
    waiting = facts.waiting
    if not len(waiting):
        return RuleOutcome("none wait" if facts.options.bucket == -2 else "no postponed buckets")
    rows, total = int(waiting.numbers("row_count").sum()), int(waiting.numbers("file_size").sum())
    oldest_ms = pc.min(waiting.table.column("creation_time_ms")).as_py()
    age = 0 if oldest_ms is None else max(0, facts.store.env.local_now_ms() - oldest_ms)
    severity: Severity = "risk" if age > facts.limits.waiting_ms else "note"
    evidence: Evidence = {
        "rows": rows,
        "files": len(waiting),
        "bytes": total,
        "oldest": quantities.duration(age),
    }
    what = f"{many(rows, 'row')} in postponed buckets, which no reader sees before a compaction"
    finding = Finding("waiting rows", severity, "bucket-postpone", what, (MendingCall("compact"),), evidence)
    return RuleOutcome(f"{rows:,} wait", (finding,))


def pending_lookups(facts: Facts) -> RuleOutcome:
    """Files of level 0 that wait for lookups, where readers see rows or changes only after these."""
    options, places = facts.options, facts.places
    if not (facts.keyed and options.needs_lookup):
        return RuleOutcome("readers need no lookups")
    files = int(places.level0.sum())
    line = f"{many(files, 'file')} of level 0 wait for their lookup"
    allowed = options.lookup_max_interval if options.lookup_compact.value == "gentle" else 0
    ill = np.flatnonzero(places.level0 > allowed)
    if not len(ill):
        return RuleOutcome(line)
    ill = ill[np.argsort(-places.level0[ill], kind="stable")].tolist()
    at0 = facts.live.numbers("level") == 0
    rows = int(facts.live.numbers("row_count")[at0 & np.isin(facts.group, ill)].sum())
    hidden = options.merge_engine is MergeEngine.FIRST_ROW or options.deletion_vectors
    hidden = hidden and not options.merge_on_read
    evidence: Evidence = {
        "files": int(places.level0[ill].sum()),
        "rows": rows,
        "allowed": allowed,
        "buckets": len(ill),
        "write_only": str(options.write_only).lower(),
    }
    what = f"{many(rows, 'row')} not looked up yet: "
    what += "batch readers do not see them" if hidden else "their changes are not published yet"
    severity: Severity = "risk" if hidden else "slow"
    rounds = {"until_quiet": True} if facts.rules.leveled else {}  # a fuller level goes before level 0
    call = compact_call(facts, ill, **rounds)
    finding = Finding("pending lookups", severity, where(facts, ill), what, call, evidence)
    return RuleOutcome(line, (finding,))


def expired_rows(facts: Facts) -> RuleOutcome:
    """Rows past `record-level.expire-time` that no compaction has dropped."""
    if facts.options.record_expire_ms is None:
        return RuleOutcome("rows have no time limit")
    expire = RecordExpire.of(facts.schema, facts.options)
    if expire is None or not len(facts.live):
        return RuleOutcome("no files")
    now = facts.store.env.now_ms() // 1000
    ill = np.array([expire.expired(e.file, facts.store.schema_of, now) for e in facts.live])
    line = f"{int(ill.sum()):,} of {many(len(ill), 'file')} hold a row past its time"
    share = float(facts.sizes[ill].sum() / max(int(facts.sizes.sum()), 1))
    if not ill.any() or share <= facts.limits.deleted_share:
        return RuleOutcome(line)
    places = np.unique(facts.group[ill]).tolist()
    evidence: Evidence = {"files": int(ill.sum()), "bytes": int(facts.sizes[ill].sum()), "share": share}
    what = "rows past their time are still read; only compaction drops them"
    call = compact_call(facts, places, full=True)
    return RuleOutcome(line, (Finding("expired rows", "waste", where(facts, places), what, call, evidence),))


def statistics(facts: Facts) -> RuleOutcome:
    """Files without column statistics, which no filter but one on keys can skip."""
    live = facts.live.table
    if not len(facts.live):
        return RuleOutcome("no files")
    nulls = pc.list_value_length(live.column("value_nulls"))
    stored = pc.list_value_length(live.column("value_stats_cols"))
    without = pc.or_(pc.equal(pc.fill_null(nulls, 0), 0), pc.equal(pc.fill_null(stored, -1), 0))
    missing = without.to_numpy(zero_copy_only=False)
    line = f"{int((~missing).sum()):,} of {many(len(missing), 'file')} have them"
    if int(missing.sum()) * 2 <= len(missing):
        return RuleOutcome(line)
    evidence: Evidence = {
        "files": int(missing.sum()),
        "of_files": len(missing),
        "bytes": int(facts.sizes[missing].sum()),
        "stats_mode": facts.options.stats_mode,
    }
    what = "files without column statistics: filters on columns read all of them"
    off = facts.options.stats_mode in ("none", "counts")
    calls = (*(_WITH_STATISTICS if off else ()), _anew(facts))
    finding = Finding("statistics", "note", "table", what, calls, evidence, facts.keyed)
    return RuleOutcome(line, (finding,))


def dead_letters(facts: Facts) -> RuleOutcome:
    """Rows that a capture could not take, in the table that holds them."""
    if facts.store.paths.root.rpartition("/")[2] != DEAD_LETTERS:
        return RuleOutcome("not a table of dead letters")
    rows = int(facts.places.rows.sum())
    if not rows:
        return RuleOutcome("none")
    what = f"{many(rows, 'row')} of the source {'is' if rows == 1 else 'are'} in no table that it was for"
    calls = (look("table.scan().head()"),)
    finding = Finding("dead letters", "risk", "table", what, calls, {"rows": rows}, mends=False)
    return RuleOutcome(many(rows, "row"), (finding,))


def mixed_formats(facts: Facts) -> RuleOutcome:
    """Files of formats that the options do not ask for: what was written before an ALTER."""
    if not len(facts.live):
        return RuleOutcome("no files")
    options = facts.options
    names = facts.live.table.column("file_name").to_numpy(zero_copy_only=False)
    levels = facts.live.numbers("level")
    formats = np.array([file_format(n) for n in names])
    wanted = np.full(len(formats), options.file_format, dtype=object)
    for level, name in options.file_format_per_level:
        wanted[levels == level] = name
    other = formats != wanted
    distinct, counts = np.unique(formats, return_counts=True)
    line = ", ".join(f"{n:,} {name}" for name, n in zip(distinct, counts, strict=True))
    if not other.any():
        return RuleOutcome(line)
    evidence: Evidence = {
        "other_files": int(other.sum()),
        "of_files": len(other),
        "wanted": options.file_format,
    }
    what = f"{many(int(other.sum()), 'file')} of a format that the options no longer ask for ({line})"
    finding = Finding("mixed formats", "note", "table", what, (_anew(facts),), evidence, facts.keyed)
    return RuleOutcome(line, (finding,))


def _anew(facts: Facts) -> MendingCall:
    """The call that writes files anew: every one with a primary key, small ones without."""
    under = {"compaction.force-rewrite-all-files": "true"} if facts.keyed else {}
    return MendingCall("compact", keywords={"full": True}, options=under)
