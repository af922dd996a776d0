"""`Scan.explain`: a plan in words and as tables: which files and row groups are read, which are skipped, and
why.

Made from the verdicts of pruning; nothing is decided anew. `steps` is the funnel from all live files to those
that are read; `decisions` has the numbers that were compared. Of row groups the footers of Parquet files are
opened, and nothing else but file indexes and deletion vectors. The filter of each file, its statistics,
indexes and masks are those by which `data_split` and `datafile.read` go. ORC and Avro files are read whole:
such a file counts as one group. `columns` says what the metadata of the files that a plan reads says of each
column: of stored rows; bounds hold every value, and those of long text are cut.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.core import quantities, rich
from tablestore.core.errors import NotFound
from tablestore.core.quantities import many
from tablestore.format import deletion_vector, evolution, stats
from tablestore.format.data_format import complaints
from tablestore.format.manifests.manifest import ManifestEntry
from tablestore.format.parquet.checked_file import open_checked, sound_metadata
from tablestore.format.parquet.data import group_stats
from tablestore.format.predicates import literal, predicate
from tablestore.format.predicates.predicate import Compare, In, Predicate
from tablestore.format.result_tables import result_schema, table_of
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import DataField
from tablestore.insight.explain.key_axis import key_line
from tablestore.io.paths import file_format
from tablestore.meta import statistics
from tablestore.meta.store import Store
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.file_read import select_rows
from tablestore.read.scan.file_stats import stats_by_name
from tablestore.read.scan.plan import Plan
from tablestore.read.scan.pruning import RULES, TRUE, FileVerdict, Filters, buckets_of
from tablestore.read.scan.refusal import Refusal, bounds_text, refusal
from tablestore.read.scan.time_travel import expiring

PARTS = 12
"""Parts of equal width between the bounds of a column of numbers, for which rows are estimated."""
COLUMNS = result_schema(
    "column string, type string, rows int64, nulls int64, distinct int64, distinct_most int64, "
    "min string, max string, spread spread",
    spread=pa.list_(pa.float64()),
)
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE")
_PLACED = (*_WHOLE, "FLOAT", "DOUBLE")


def column_facts(plan: Plan, names: Sequence[str]) -> pa.Table:
    """One row a column of `names`. Unknown is NULL.

    `distinct` is what `analyze` counted of the snapshot, `distinct_most` the most that its rows and bounds
    allow. `spread` estimates the rows in `PARTS` parts from `min` to `max`, as if each file's rows lay evenly
    between the file's own bounds.
    """
    stats_of_files = list(_of_files(plan))
    counted = statistics.read(plan.store, plan.snapshot)
    distinct = {} if counted is None else {n: c.distinct_count for n, c in counted.columns.items()}
    rows = []
    for name in names:
        field = plan.store.schema.by_name[name]
        parts = [of_file.get(name, ColumnStats(None, None, None, n)) for n, of_file in stats_of_files]
        whole = stats.together(parts, field.type.as_nullable())
        bounds = bounds_text(whole, name, plan.store.schema)
        most = _most(whole, field)
        counts = whole.rows, whole.null_count, distinct.get(name), most
        rows.append((name, str(field.type), *counts, *bounds, _spread(parts, whole, field)))
    return table_of(COLUMNS, rows)


def _of_files(plan: Plan) -> Iterator[tuple[int, dict[str, ColumnStats]]]:
    """(rows, statistics by name) of each file that is read."""
    for branch in plan.branches:
        for split in branch.splits:
            for file in split.files:
                written = branch.store.schema_of(file.schema_id)
                yield file.row_count, stats_by_name(file, written, plan.store.schema)


def _most(whole: ColumnStats, field: DataField) -> int | None:
    """The most distinct values, NULL aside, that there can be."""
    rows = whole.rows - (whole.null_count or 0)
    if field.type.root == "BOOLEAN":
        return min(rows, 2)
    if field.type.root in _WHOLE and isinstance(whole.min, int) and isinstance(whole.max, int):
        return min(rows, whole.max - whole.min + 1)
    return rows


def _spread(parts: Sequence[ColumnStats], whole: ColumnStats, field: DataField) -> list[float] | None:
    """Rows of each part; None where values have no place on an axis, or bounds are not known."""
    low, high = whole.min, whole.max
    if (
        field.type.root not in _PLACED
        or not isinstance(low, int | float)
        or not isinstance(high, int | float)
    ):
        return None
    there = [p for p in parts if not p.all_null]
    starts = np.array([p.min for p in there], dtype=float)
    ends = np.array([p.max for p in there], dtype=float)
    rows = np.array([p.rows - (p.null_count or 0) for p in there], dtype=float)
    if not (np.isfinite(starts).all() and np.isfinite(ends).all()):
        return None
    edges = np.linspace(float(low), float(high), PARTS + 1)
    width = np.where(ends > starts, ends - starts, 1.0)
    below = np.clip((edges[:, None] - starts) / width, 0.0, 1.0)
    below = np.where(ends > starts, below, edges[:, None] > starts)  # a lone value lies in one part
    below[0], below[-1] = 0.0, 1.0
    return [float(n) for n in np.diff((below * rows).sum(axis=1))]


_SHOWN = 20


@dataclass(frozen=True, repr=False)
class Explanation:
    """A plan in words: `repr` for a terminal, `to_arrow()` one row a file."""

    plan: Plan

    @property
    def summary(self) -> str:
        """`skipped 214 of 230 files: 180 by partition, 30 by bucket, 4 by key range`."""
        return self.plan.summary

    def to_arrow(self) -> pa.Table:
        """One row a live file: where it is, its size, whether it is read, how, and why not."""
        split_of = {
            (s.partition, s.bucket, f.level, f.file_name): i
            for i, s in enumerate(self.plan.splits)
            for f in s.files
        }
        rows = []
        for v in self.plan.verdicts:  # branches have the same partition columns
            e, f = v.entry, v.entry.file
            i = split_of.get((e.partition, e.bucket, f.level, f.file_name))
            how = None if i is None else "raw" if self.plan.splits[i].raw else "merge"
            place = (self.plan.store.partition_text(e.partition), e.bucket, f.level, f.file_name)
            verdict = (v.kept, i, how, v.rule or None, v.text or None)
            rows.append((*place, f.row_count, f.file_size, *verdict))
        return table_of(_EXPLAIN_SCHEMA, rows)

    def decisions(self) -> pa.Table:
        """One row a live file: whether it is read, the rule that left it out, the numbers compared, and of
        files that are kept for others' sake a `note`."""
        return pa.concat_tables(decision_rows(p.store, p.own_verdicts) for p in self.plan.branches)

    def steps(self) -> pa.Table:
        """Files and bytes left after each rule, from all live files to those that are read."""
        return steps(self.plan.store, self.plan.where, self.plan.verdicts)

    def columns(self, *names: str) -> pa.Table:
        """One row a column (of those named, else all): type, rows, NULLs, distinct values, bounds, and how
        the rows spread between them, from the metadata of the files that are read. Raises NotFound for an
        unknown column."""
        there = self.plan.store.schema.shown.names
        for name in names:
            if name not in there:
                raise NotFound.among("column", name, there)
        return column_facts(self.plan, names or there)

    def row_groups(self, *, files: Collection[str] | None = None, limit: int | None = None) -> pa.Table:
        """One row a row group of the files that are read (of those named, of `limit` at most), with the rule
        that leaves it out. Opens their footers."""
        groups = (
            row_group_plan(p.store, p.splits, p.where, files=files, limit=limit) for p in self.plan.branches
        )
        return pa.concat_tables(groups)

    def asked_keys(self, partition: str, bucket: int) -> RequestedKeys | None:
        """Where the keys asked for lie on the key axis of a bucket, as `inspect.levels` has it; None where
        no part of it is asked for. `partition` is a text such as "l_year=1995"."""
        store = self.plan.store
        here = (v.entry for v in self.plan.own_verdicts if v.entry.bucket == bucket)
        entries = [e for e in here if store.partition_text(e.partition) == partition]
        return asked_keys(store, self.plan.where, entries)

    def __repr__(self) -> str:
        p = self.plan
        if p.snapshot is None and p.other_branch is None:
            return "the table has no snapshot: nothing to read"
        where = "every row" if p.where is None else f"where {p.where!r}"
        lines = [f"{_state(p)}, {where}", self.summary]
        if p.other_branch is not None:
            places = len({s.partition for s in p.other_branch.splits})
            branch = p.other_branch.store.paths.branch
            lines[0] = f"{_state(p)} and of branch {branch} {_state(p.other_branch)}, {where}"
            lines.append(f"{quantities.many(places, 'partition')} read from branch {branch}")
        if p.manifests_skipped:
            lines[1] += f"; {p.manifests_skipped} of {quantities.many(p.manifests, 'manifest')} not opened"
        raw = sum(s.raw for s in p.splits)
        files, rows = sum(len(s.files) for s in p.splits), sum(s.rows for s in p.splits)
        size = quantities.size(sum(s.size for s in p.splits))
        lines.append(
            f"reads {quantities.many(files, 'file')} ({size}, {quantities.many(rows, 'row')}) in"
            f" {quantities.many(len(p.splits), 'split')}: {raw:,} as the files are,"
            f" {len(p.splits) - raw:,} merged"
        )
        skipped = [v for v in p.verdicts if not v.kept]
        for v in skipped[:_SHOWN]:
            place = "/".join(
                t for t in (p.store.partition_text(v.entry.partition), f"bucket-{v.entry.bucket}") if t
            )
            lines.append(f"  {place}/{v.entry.file.file_name} skipped by {v.rule}: {v.text}")
        if len(skipped) > _SHOWN:
            lines.append(f"  … and {len(skipped) - _SHOWN:,} more; to_arrow() has them all")
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        return rich.card("explanation", self)


_EXPLAIN_SCHEMA = result_schema(
    "partition string, bucket int32, level int32, file_name string, rows int64, bytes int64, kept bool, "
    "split int32, read string, rule string, reason string"
)


def _state(plan: Plan) -> str:
    snapshot = plan.snapshot
    return "no snapshot" if snapshot is None else f"snapshot {snapshot.id} ({snapshot.commit_kind})"


ROW_GROUPS = result_schema(
    "partition string, bucket int32, level int32, file_name string, row_group int32, rows int64, "
    "bytes int64, kept bool, rule string, reason string, compared string, merged bool"
)
Verdict = tuple[str | None, str | None, str | None]  # rule, reason, what was compared; of None: read
_READ: Verdict = (None, None, None)


def row_group_plan(
    store: Store,
    splits: Collection[DataSplit],
    where: Predicate | None,
    *,
    files: Collection[str] | None = None,
    limit: int | None = None,
) -> pa.Table:
    """The row groups of the files of `splits`, of those named `files` only, of `limit` files at most."""
    rows: list[tuple[Any, ...]] = []
    chosen = (
        (split, number, asked, merged)
        for split in splits
        for number, asked, merged in split.row_group_filters(store, where)
        if files is None or split.files[number].file_name in files
    )
    for split, number, asked, merged in islice(chosen, limit):
        file = split.files[number]
        place = (store.partition_text(split.partition), split.bucket, file.level, file.file_name)
        with expiring(store, split.snapshot_id):
            groups = list(_groups(store, split, number, asked))
        for group, (count, size, verdict) in enumerate(groups):
            rows.append((*place, group, count, size, verdict[0] is None, *verdict, merged))
    return table_of(ROW_GROUPS, rows)


def _groups(
    store: Store, split: DataSplit, number: int, asked: Predicate
) -> Iterator[tuple[int, int, Verdict]]:
    """Rows, bytes and verdict of each row group of a file."""
    file = split.files[number]
    own, path = store.schema_of(file.schema_id), store.file_path(split.partition, split.bucket, file)
    where = None if asked == TRUE else evolution.evolve_predicate(asked, own, store.schema)
    selected = True if where is None else select_rows(store, path, file, where)
    if file_format(file.file_name) != "parquet":
        missed: Verdict = ("file index", f"its index has no row of {asked!r}", None)
        yield file.row_count, file.file_size, missed if selected is False else _READ
        return
    with complaints(path, "Parquet"), contextlib.closing(open_checked(store.io, path)) as source:
        footer = sound_metadata(source)
    alive = split.deletion_file(number)
    masks: list[tuple[str, str, np.ndarray]] = []
    if not isinstance(selected, bool):
        masks.append(("file index", f"its index has no row of {asked!r} there", selected))
    if alive is not None:
        mask = deletion_vector.read(store.io, alive, rows=file.row_count).alive(0, file.row_count)
        if mask is not None:  # a vector may name no row
            masks.append(("deletion vector", "every row there is deleted", mask))
    at = 0
    for g in range(footer.num_row_groups):
        part = footer.row_group(g)
        size = sum(part.column(c).total_compressed_size for c in range(part.num_columns))
        if selected is False:
            verdict: Verdict = ("file index", f"its index has no row of {asked!r}", None)
        else:
            verdict = _by_stats(footer, g, own, where) or _by_masks(masks, at, at + part.num_rows)
        yield part.num_rows, size, verdict
        at += part.num_rows


def _by_stats(
    footer: pq.FileMetaData, group: int, own: TableSchema, where: Predicate | None
) -> Verdict | None:
    if where is None:
        return None
    reason = refusal(where, group_stats(footer, group, own, where.columns))
    return None if reason is None else ("column stats", reason.text(own), reason.compared())


def _by_masks(masks: list[tuple[str, str, np.ndarray]], start: int, end: int) -> Verdict:
    """What leaves no row of a row group; rows that only both masks together exclude count for the last."""
    left = np.ones(end - start, dtype=bool)
    for rule, reason, mask in masks:
        left &= mask[start:end]
        if not left.any():
            return rule, reason, None
    return _READ


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


def decision_rows(store: Store, verdicts: Sequence[FileVerdict]) -> pa.Table:
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
