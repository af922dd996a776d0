"""What carrying out a compaction would do: files and bytes read, moved, and about how much is written.

The decision and the plan of its unit are the engine's own, so what is read and what only changes its level is
known; how many rows come out is estimated from metadata (`insight.explain.merge_size`), each number labelled.
Pure but for `of_decision` and `of_append_files`, which read the deletion vectors of the bucket. Used by
`verbs.what_if`. What then becomes of write, read and space amplification is counted from the live files
(`inspect.levels()`) and the amplification of now: runs exactly, bytes as exactly as the forecast.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core import quantities
from tablestore.core.options.table_options import MergeEngine, TableOptions
from tablestore.format.binary_row import comparable_keys
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.merge_size import UNKNOWN, Estimate, SizeModel, merged
from tablestore.lsm.compaction.compaction_report import Pick
from tablestore.lsm.compaction.decision import CompactUnit, Decision
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.compaction.rewrite_plan import Step, drops_deletes, plan_unit
from tablestore.lsm.levels.bucket import Bucket
from tablestore.lsm.levels.sorted_run import Levels


@dataclass(frozen=True, slots=True)
class AmplificationAfter:
    """Write, read (sorted runs) and space amplification after compactions; None where one is not known.
    `exact`: no byte was estimated."""

    write_amplification: float | None
    runs: int
    space_amplification: float | None
    exact: bool


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a compaction would do: files it would read and rewrite, files it would only move to another level,
    and its `output`, whose rows are exact or lie between bounds. `drops_deletes`: whether tombstones are
    dropped; None where the table has none, or where they become rows."""

    read: tuple[DataFileMeta, ...]
    moved: tuple[DataFileMeta, ...]
    output: Estimate
    drops_deletes: bool | None = None

    def with_others(self, others: Iterable[Forecast]) -> Forecast:
        """This and others as one."""
        some = [self, *others]
        read, moved = (tuple(x for f in some for x in getattr(f, name)) for name in ("read", "moved"))
        return Forecast(read, moved, total(f.output for f in some))

    def amplification_after(
        self, picks: Sequence[Pick], files: pa.Table, now: pa.Table
    ) -> AmplificationAfter | None:
        """Amplification after `picks`, whose forecasts add up to this one, over buckets with these live
        `files`; None if the picks do nothing. `now` is the row of `inspect.amplification()`, of the table or
        of the bucket that is planned, or all rows of its view by snapshot, which add up to it."""
        busy = [pick for pick in picks if pick.decision.unit]
        if not busy or not now.num_rows:
            return None
        at = now.slice(now.num_rows - 1).to_pylist()[0]
        ingested, compacted = (
            pc.sum(now[name]).as_py() or 0 for name in ("bytes_ingested", "bytes_compacted")
        )
        written = ingested + compacted + self.output.bytes if ingested else None
        copy, live = at["compacted_bytes"], (at["live_bytes"] or 0) - self.bytes_read + self.output.bytes
        left = sum(_runs_after(pick, files) for pick in picks)
        copy = live if left == len(busy) == len(picks) else min(copy, live) if copy else copy
        return AmplificationAfter(
            written / ingested if written is not None else None,
            left,
            live / copy if copy else None,
            self.output.exact and not self.output.bytes,
        )

    @property
    def files_read(self) -> int:
        """How many files are rewritten."""
        return len(self.read)

    @property
    def bytes_read(self) -> int:
        """Bytes of the files that are rewritten."""
        return sum(f.file_size for f in self.read)

    @property
    def rows_in(self) -> int:
        """Rows of the files that are rewritten, deleted ones included."""
        return sum(f.row_count for f in self.read)

    @property
    def files_moved(self) -> int:
        """How many files only change their level."""
        return len(self.moved)

    @property
    def bytes_moved(self) -> int:
        """Bytes of the files that only change their level."""
        return sum(f.file_size for f in self.moved)

    @property
    def deletes_text(self) -> str:
        """`drops 1,200 deletes: nothing older lies below`, or that they are kept and why; empty without
        any."""
        counts = [f.delete_count for f in self.read]
        if self.drops_deletes is None or not any(c is None or c for c in counts):
            return ""
        many = "deletes" if None in counts else quantities.many(sum(c or 0 for c in counts), "delete")
        if self.drops_deletes:
            return f"drops {many}: nothing older lies below"
        return f"keeps {many}: older rows may lie below"

    @property
    def text(self) -> str:
        """`reads 5 files 20.1 MiB, moves 1 file 90.0 MiB, writes 13.1 MiB to 15.9 MiB, 1,200 rows: …`."""
        parts = []
        if self.files_read:
            parts.append(f"reads {_files(self.files_read, self.bytes_read)}")
            parts.append(f"writes {self.output.bytes_text}, {self.output.text}")
        if self.files_moved:
            parts.insert(len(parts) // 2, f"only moves {_files(self.files_moved, self.bytes_moved)}")
        return ", ".join(parts) or "changes nothing"


def forecast(
    unit: CompactUnit,
    levels: Levels,
    options: TableOptions,
    types: Sequence[DataType],
    *,
    expired: Container[str] = (),
    gone: Mapping[str, int] | None = None,
    model: SizeModel = UNKNOWN,
) -> Forecast:
    """The forecast of a unit that was picked from `levels` of a table with these key types.

    `expired` names files with rows past their time; `gone`, on tables with deletion vectors, counts the rows
    of files that are marked as deleted.
    """
    rules = CompactionOptions.of(options)
    key = comparable_keys(types)
    drop = drops_deletes(unit, levels, marked=gone is not None, newest_wins=rules.newest_wins)
    moved: list[DataFileMeta] = []
    read: list[DataFileMeta] = []
    outputs: list[Estimate] = []
    stay = False
    for step in plan_unit(unit, levels, key, small_bytes=rules.small_file_bytes, expired=expired):
        if step.upgrade is not None and not _read_all_the_same(step.upgrade, unit, levels, options):
            moved.append(step.upgrade)
            continue
        files = [_alive(f, gone or {}) for f in step.files]
        stays = _retracts_stay(step, options)
        stay = stay or stays
        merge = merged(
            files,
            types,
            drop_deletes=drop and not stays,
            model=model,
            among=max((run.rows for run in levels.upper), default=0),
        )
        outputs.append(_uncertain(merge, _left_out(step, unit, levels, options, expired)))
        read += step.files
    return Forecast(tuple(read), tuple(moved), total(outputs), None if stay else drop)


def of_decision(
    bucket: Bucket,
    decision: Decision,
    *,
    expired: frozenset[str] = frozenset(),
    model: SizeModel = UNKNOWN,
) -> Forecast | None:
    """The forecast of a decision over a bucket of a table with a primary key; None if nothing is done."""
    if decision.unit is None:
        return None
    gone = _marked_rows(bucket) if bucket.options.deletion_vectors else None
    types, levels = [f.type for f in bucket.schema.key_fields], bucket.levels
    return forecast(decision.unit, levels, bucket.options, types, expired=expired, gone=gone, model=model)


def of_append_files(portion: Bucket) -> Forecast:
    """The forecast of combining files of an append table."""
    return combined(portion.files, _marked_rows(portion))


def _marked_rows(bucket: Bucket) -> dict[str, int]:
    """How many rows of each file are marked deleted."""
    return BucketDeletions(bucket).counts({f.file_name: f.row_count for f in bucket.files})


def combined(files: Sequence[DataFileMeta], gone: Mapping[str, int]) -> Forecast:
    """The forecast of combining files of an append table: every row that is not marked as deleted stays."""
    alive = [_alive(f, gone) for f in files]
    rows = sum(f.row_count for f in alive)
    before = sum(f.row_count for f in files)
    size = sum(f.file_size for f in files)
    why = "rows are copied" if rows == before else f"{before - rows:,} rows are marked as deleted"
    left = round(size * rows / before) if before else 0
    estimate = Estimate(rows, left, True, why, rows, rows, left, left)
    return Forecast(tuple(files), (), estimate)


def placed(files: Sequence[DataFileMeta]) -> Forecast:
    """The forecast of giving postponed rows their buckets: at most as many rows come out."""
    rows, size = sum(f.row_count for f in files), sum(f.file_size for f in files)
    why = "rows of equal keys become one, how many is not known"
    return Forecast(
        tuple(files), (), Estimate(rows, size, False, why, min(rows, 1), rows, min(size, 1), size)
    )


def _read_all_the_same(file: DataFileMeta, unit: CompactUnit, levels: Levels, options: TableOptions) -> bool:
    """Whether a file that could move is rewritten, because the table looks its rows up: to merge them with
    older rows, or to drop deletes that deletion vectors make needless."""
    if not options.needs_lookup or file.level > 0:
        return False
    plain = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields
    if options.deletion_vectors and file.delete_count != 0:
        return True
    return unit.output_level != levels.oldest_level and not plain


def _alive(file: DataFileMeta, gone: Mapping[str, int]) -> DataFileMeta:
    """The file as if it had only the rows that are not marked as deleted."""
    marked = gone.get(file.file_name, 0)
    return file if not marked else replace(file, row_count=max(0, file.row_count - marked))


def _retracts_stay(step: Step, options: TableOptions) -> bool:
    """Whether retractions come out as rows: lookups merge lone rows, too, and aggregate functions make a row
    of a retraction alone."""
    computes = options.merge_engine is MergeEngine.AGGREGATION and not options.aggregation_removes
    return options.needs_lookup and computes and any(f.level == 0 for f in step.files)


def _left_out(
    step: Step, unit: CompactUnit, levels: Levels, options: TableOptions, expired: Container[str]
) -> list[str]:
    """Texts of the rows that a step leaves out; how many these are is known only when they are read."""
    texts = []
    if any(f.file_name in expired for f in step.files):
        texts.append("rows past their time")
    below = any(run.files for run in levels.upper[unit.output_level :])
    if options.merge_engine is MergeEngine.FIRST_ROW and below and any(f.level == 0 for f in step.files):
        texts.append("rows of keys that lie below")
    return texts


def _uncertain(estimate: Estimate, left_out: Sequence[str]) -> Estimate:
    if not left_out:
        return estimate
    why = f"{estimate.why}; {' and '.join(left_out)} are left out"
    return replace(estimate, exact=False, rows_min=0, bytes_min=0, why=why)


def total(estimates: Iterable[Estimate]) -> Estimate:
    """The sum of outputs: exact if each is."""
    some = [e for e in estimates if e.rows_max]
    return Estimate(
        sum(e.rows for e in some),
        sum(e.bytes for e in some),
        all(e.exact for e in some),
        "; ".join(dict.fromkeys(e.why for e in some)) or "no rows are written",
        sum(e.rows_min for e in some),
        sum(e.rows_max for e in some),
        sum(e.bytes_min for e in some),
        sum(e.bytes_max for e in some),
    )


def _files(count: int, size: int) -> str:
    return f"{count} file{'' if count == 1 else 's'} {quantities.size(size)}"


def _runs_after(pick: Pick, files: pa.Table) -> int:
    """The sorted runs of a bucket when its pick is done: those not taken whole, and the one that is made."""
    here = pc.and_(pc.equal(files["partition"], pick.partition), pc.equal(files["bucket"], pick.bucket))
    rows, unit = files.filter(here).select(["run", "level", "file_name"]), pick.decision.unit
    if unit is None:
        return int(pc.count_distinct(rows["run"]).as_py())
    taken = pa.array([f.file_name for f in unit.files], pa.string())
    left = rows.filter(pc.invert(pc.is_in(rows["file_name"], value_set=taken)))
    makes = pick.forecast is not None and bool(pick.forecast.output.rows or pick.forecast.moved)
    joins = unit.output_level in pc.unique(left["level"]).to_pylist()
    return int(pc.count_distinct(left["run"]).as_py()) + int(makes and not joins)
