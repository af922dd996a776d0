"""The decisions of a plan as Arrow tables: rule by rule, file by file, and where the requested keys lie.

Made from the verdicts of pruning; nothing is decided anew. `steps` is the funnel from all live files to those
that are read; `decisions` has the numbers that were compared. Used by `Explanation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablestore.core.quantities import many
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.predicates import literal, predicate
from tablestore.format.predicates.predicate import Compare, In, Predicate
from tablestore.format.result_tables import result_schema, table_of
from tablestore.insight.explain.key_axis import key_line
from tablestore.meta.store import Store
from tablestore.read.scan.pruning import RULES, TRUE, FileVerdict, Filters, buckets_of
from tablestore.read.scan.refusal import Refusal, bounds_text

DECISIONS = result_schema(
    "partition string, bucket int32, level int32, file_name string, rows int64, bytes int64, kept bool, "
    "rule string, reason string, condition string, column string, min string, max string, "
    "compared string, note string"
)
STEPS = result_schema(
    "rule string, files int64, files_skipped int64, bytes int64, bytes_skipped int64, reason string"
)


@dataclass(frozen=True, slots=True)
class RequestedKeys:
    """The keys of a bucket that a filter asks for: the part of its key axis, and the condition in words."""

    low: float
    high: float
    text: str


def decisions(store: Store, verdicts: Sequence[FileVerdict]) -> pa.Table:
    """One row a file: whether it is read, the rule that left it out, and the numbers compared."""
    texts: dict[bytes, str] = {}
    rows = []
    for v in verdicts:
        e, f = v.entry, v.entry.file
        if e.partition not in texts:
            texts[e.partition] = store.partition_text(e.partition)
        place = (texts[e.partition], e.bucket, f.level, f.file_name, f.row_count, f.file_size)
        facts = _facts(store, v.refusal)
        rows.append((*place, v.kept, v.rule or None, v.text or None, *facts, v.note or None))
    return table_of(DECISIONS, rows)


def _facts(store: Store, refusal: Refusal | None) -> tuple[str | None, ...]:
    """Condition, column, its bounds in the file, and how they compare."""
    if refusal is None:
        return (None,) * 5
    column, stats = refusal.stats[0] if len(refusal.stats) == 1 else (None, None)
    bounds = (None, None) if column is None else bounds_text(stats, column, store.schema)
    return repr(refusal.part), column, *bounds, refusal.compared()


def steps(store: Store, where: Predicate | None, verdicts: Sequence[FileVerdict]) -> pa.Table:
    """Files and bytes that remain after each rule, in the order in which the rules are applied.

    The first row are all live files; `reason` says what a rule decided by, also where it skipped nothing.
    """
    skipped: dict[str, list[int]] = {rule: [0, 0] for rule in RULES}
    for v in verdicts:
        if not v.kept:
            skipped[v.rule][0] += 1
            skipped[v.rule][1] += v.entry.file.file_size
    files, size = len(verdicts), sum(v.entry.file.file_size for v in verdicts)
    rows: list[tuple[Any, ...]] = [("all files", files, 0, size, 0, "live in this snapshot")]
    for rule in RULES:
        gone, lost = skipped[rule]
        files, size = files - gone, size - lost
        if rule == "invisible" and not gone:
            continue
        rows.append((rule, files, gone, size, lost, _reason(store, where, rule, verdicts)))
    return table_of(STEPS, rows)


def _reason(store: Store, where: Predicate | None, rule: str, verdicts: Sequence[FileVerdict]) -> str:
    if rule == "invisible":
        return next(v.text for v in verdicts if v.rule == rule)
    filters = Filters.of(where, store.schema)
    return {
        "partition": _partition_reason,
        "bucket": _bucket_reason,
        "key range": _key_reason,
        "column stats": _stats_reason,
        "file index": _index_reason,
    }[rule](store, filters, verdicts)


def _partition_reason(store: Store, filters: Filters, verdicts: Sequence[FileVerdict]) -> str:
    if not store.schema.partition_keys:
        return "the table has no partitions" if filters.partition == TRUE else "no row meets FALSE"
    if filters.partition == TRUE:
        return f"no condition on {_listed(store.schema.partition_keys)} alone"
    every = {v.entry.partition for v in verdicts}
    left = {v.entry.partition for v in verdicts if v.rule not in ("partition", "invisible")}
    return f"{filters.partition!r}: {len(every - left):,} of {many(len(every), 'partition')} skipped"


def _bucket_reason(store: Store, filters: Filters, verdicts: Sequence[FileVerdict]) -> str:
    fields = store.schema.columns(store.schema.bucket_keys) if store.options.bucket > 0 else ()
    if not fields:
        return "buckets here are not chosen by the values of columns"
    totals = sorted({v.entry.total_buckets for v in verdicts})
    wanted = [(n, buckets_of(filters.whole, store.schema, store.options)(n)) for n in totals]
    named = [f"{_listed(map(str, sorted(some)))} of {n}" for n, some in wanted if some is not None]
    if not named:
        return f"no condition fixes {_listed(store.schema.bucket_keys)}"
    return f"the keys asked for are in bucket {'; '.join(named)}"


def _key_reason(store: Store, filters: Filters, verdicts: Sequence[FileVerdict]) -> str:
    if not store.schema.primary_keys:
        return "the table has no primary key"
    if filters.key == TRUE:
        return f"no condition on {_listed(store.schema.trimmed_primary_keys)} alone"
    return f"{filters.key!r}"


def _stats_reason(store: Store, filters: Filters, verdicts: Sequence[FileVerdict]) -> str:
    parts = [p for p in predicate.conjuncts(filters.rows) if p not in predicate.conjuncts(filters.key)]
    kept_for_others = sum(v.kept and bool(v.note) for v in verdicts)
    kept = f"; {many(kept_for_others, 'file')} kept for what overlaps" if kept_for_others else ""
    if not parts or filters.rows == TRUE:
        return "no condition on other columns" + kept
    return f"{predicate.all_of(*parts)!r}{kept}"


def _index_reason(store: Store, filters: Filters, verdicts: Sequence[FileVerdict]) -> str:
    if not store.options.file_index_read:
        return "file-index.read.enabled is false"
    if any(v.entry.file.embedded_index is not None for v in verdicts):
        return "indexes in the manifests; others when a file is opened"
    beside = sum(any(n.endswith(".index") for n in v.entry.file.extra_files) for v in verdicts)
    if beside:
        return f"{many(beside, 'index file')}, asked when a file is opened"
    return "the files have no index"


def asked_keys(
    store: Store, where: Predicate | None, entries: Sequence[ManifestEntry]
) -> RequestedKeys | None:
    """Where the filter's keys lie on the axis of a bucket's files, as `inspect.levels` has it; None where no
    part of it is asked for."""
    ends = [k for e in entries for k in (e.file.min_key, e.file.max_key)]
    line = key_line(ends, store.key_types)
    if where is None or line is None:
        return None
    column, place = store.schema.key_fields[line[0]], line[1]
    low, high, parts = 0.0, 1.0, []
    for p in predicate.conjuncts(where):
        if not isinstance(p, Compare | In) or p.column != column.name:
            continue
        if isinstance(p, In) and (p.inverse or not p.values):
            continue
        values = p.values if isinstance(p, In) else (p.value,)
        op = "=" if isinstance(p, In) else p.op
        low = max(low, place(values[0])) if op in ("=", ">", ">=") else low
        high = min(high, place(values[-1])) if op in ("=", "<", "<=") else high
        parts += [p] if op != "!=" else []
    if not parts:
        return None
    low, high = min(low, 1.0), max(high, 0.0)
    return RequestedKeys(min(low, high), max(low, high), _short(parts))


def _short(parts: Sequence[Predicate]) -> str:
    """`k 40 … 70` of two ends, else the condition."""
    ends = [p for p in parts if isinstance(p, Compare)]
    if len(ends) == len(parts) and [p.op for p in ends] == [">=", "<="]:
        first, last = (literal.text(p.value, p.type) for p in ends)
        return f"{ends[0].column} {first} … {last}"
    return repr(predicate.all_of(*parts))


def _listed(names: Any) -> str:
    return ", ".join(names)
