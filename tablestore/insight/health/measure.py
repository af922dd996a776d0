"""The health of a table at a snapshot: its manifests added up by bucket, what the engine would compact, and
the verdict, a sentence and a state.

Only buckets that may have something to do become objects, without the statistics of columns, `MOST_FILES` of
their files at most, fullest first; a bucket beyond them counts as due where its runs exceed the trigger: that
is certain. Where no rule can fire, buckets with as many runs share one decision. Shown by cards and by the
views of health.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from tablestore.core import rich
from tablestore.core.quantities import many, size
from tablestore.format.manifests.index_manifest import DELETION_VECTORS
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.result_tables import result_schema
from tablestore.format.snapshot import Snapshot
from tablestore.insight.doctor.facts import Facts, Limits, added
from tablestore.lsm.compaction import append_compaction
from tablestore.lsm.compaction.append_compaction import AppendCompaction
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.loop import pick
from tablestore.lsm.compaction.options import PickContext
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store
from tablestore.write.routing.routing import BucketMode

MOST_FILES = 50_000
_STATISTICS = ("key_min", "key_max", "key_nulls", "value_min", "value_max", "value_nulls", "value_stats_cols")


def health(store: Store, snapshot: Snapshot | None, *, most_files: int = MOST_FILES) -> Health:
    """How the buckets of `snapshot` (None: of a table without any) stand; at most `most_files` of them are
    looked at one by one."""
    return Healths(store).of(snapshot, most_files=most_files)


class Healths:
    """Health of one table. The last one is kept, and what was decided in its buckets: where the files are the
    same and the time decides nothing else, nothing is decided again. Safe: what is kept is replaced, never
    changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: tuple[Snapshot, int, Health] | None = None
        self._decided: tuple[int, Mapping[_FilesKey, _DueWork]] = 0, {}

    def of(self, snapshot: Snapshot | None, *, most_files: int = MOST_FILES) -> Health:
        """As `health`."""
        store, last = self._store, self._last
        if snapshot is None:
            return Health(None, bool(store.schema.primary_keys), BUCKETS.empty_table())
        facts = Facts(store, snapshot, Limits())
        instant = _instant(facts)
        if last is None or last[:2] != (snapshot, instant):
            at, earlier = self._decided
            work = _Works.of(facts, most_files, earlier if at == instant else {})
            self._decided = instant, work.by_files
            self._last = last = snapshot, instant, _health_of(facts, work)
        return last[2]


def health_of(facts: Facts) -> Health:
    """`health` of a snapshot whose metadata is there."""
    return _health_of(facts, _Works.of(facts, MOST_FILES, {}))


@dataclass(frozen=True, slots=True)
class _DueWork:
    """What a compaction would take of a bucket now, in the engine's words (None: nothing), and why."""

    reason: str
    due: str | None = None
    files: int = 0
    size: int = 0

    @classmethod
    def of(cls, decisions: Sequence[Decision], reason: str) -> _DueWork:
        units = [d.unit for d in decisions if d.unit is not None]
        words = "; ".join(u.text for u in units[:3]) or None
        return cls(reason, words, sum(len(u.files) for u in units), sum(u.size for u in units))


_FilesKey = tuple[bytes, int, int, int]  # partition, bucket, how many files, the sum of their hashes


@dataclass(frozen=True, slots=True)
class _Works:
    """The work of the places of a snapshot that were decided, also by their files; `left` ones were too
    many."""

    by_place: Mapping[int, _DueWork]
    by_files: Mapping[_FilesKey, _DueWork]
    left: np.ndarray

    @classmethod
    def of(cls, facts: Facts, most_files: int, earlier: Mapping[_FilesKey, _DueWork]) -> _Works:
        """Decide in the places in which a rule may ask for something, where nobody has `earlier`."""
        places, candidates = facts.places, _candidates(facts)
        few = _too_few_runs(facts, candidates)
        work = _shared_work(facts, candidates[few])
        candidates = candidates[~few]
        chosen = candidates[np.cumsum(places.files[candidates]) <= max(most_files, 0)]
        named = _named(facts, chosen) if facts.keyed else {}
        work |= {place: earlier[files] for place, files in named.items() if files in earlier}
        new = np.array([place for place in chosen.tolist() if place not in work], dtype=np.int64)
        for place, objects in _files(facts, new):
            work[place] = _keyed(facts, objects) if facts.keyed else _append(facts, objects)
        left = np.setdiff1d(candidates, chosen)
        for place in left[facts.backlog[left] > facts.trigger].tolist() if facts.keyed else ():
            work[place] = _DueWork(f"{facts.backlog[place]} > trigger {facts.trigger}", "a compaction")
        return cls(work, {files: work[place] for place, files in named.items()}, left)


def _named(facts: Facts, chosen: np.ndarray) -> dict[int, _FilesKey]:
    """Each of these places by its files, their levels included."""
    places, at_chosen = facts.places, np.flatnonzero(np.isin(facts.group, chosen))
    files = facts.live.table.select(["file_name", "level"]).take(pa.array(at_chosen))
    hashes = map(hash, zip(*(column.to_pylist() for column in files.columns), strict=True))
    sums = added(facts.group[at_chosen], np.fromiter(hashes, np.int64, len(files)), len(places))
    return {
        at: (places.partition[at], int(places.bucket[at]), int(places.files[at]), int(sums[at]))
        for at in chosen.tolist()
    }


def _instant(facts: Facts) -> int:
    """What decisions depend on beside the files: the hour, or with an interval between full compactions the
    millisecond."""
    now = facts.store.env.local_now_ms()
    return now if facts.rules.interval_ms is not None else now // 3_600_000


def _health_of(facts: Facts, work: _Works) -> Health:
    store, snapshot = facts.store, facts.snapshot
    places, stop = facts.places, facts.rules.stop_trigger
    count, waiting = len(places), len(facts.waiting)
    due_files = np.zeros(count, dtype=np.int64)
    due_bytes = np.zeros(count, dtype=np.int64)
    due: list[str | None] = [None] * count
    reasons: list[str | None] = [None] * count
    for place, at in work.by_place.items():
        reasons[place], due[place] = at.reason, at.due
        due_files[place], due_bytes[place] = at.files, at.size
    texts = {p: store.partition_text(p) for p in set(places.partition)}
    stalls = facts.keyed and not facts.options.write_only  # write-only writers do not wait
    stalled = facts.backlog > stop if stalls else np.zeros(count, dtype=bool)
    columns = [
        [texts[p] for p in places.partition],
        places.bucket,
        places.runs if facts.keyed else np.zeros(count, dtype=np.int64),
        places.level0,
        places.files,
        places.size,
        places.rows,
        places.deletes,
        due_files,
        due_bytes,
        due,
        reasons,
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, BUCKETS, strict=True)]
    table = pa.table(arrays, schema=BUCKETS)
    return Health(
        snapshot.id,
        facts.keyed,
        table.take(_worst_first(table, stalled)),
        stop,
        int(stalled.sum()),
        waiting,
        not len(work.left),
    )


def _worst_first(table: pa.Table, stalled: np.ndarray) -> pa.Array:
    """Those above the stop trigger, then those with work, then most runs, then most bytes; then by name."""
    due = table["due"].is_valid().to_numpy()
    runs, sizes = (table[name].to_numpy().astype(np.int64) for name in ("runs", "bytes"))
    return pa.array(np.lexsort((-sizes, -runs, ~due, ~stalled)))


def _candidates(facts: Facts) -> np.ndarray:
    """Places in which a rule may ask for something, the fullest first."""
    places = facts.places
    if facts.keyed:  # one run of an upper level is where every rule ends
        some = np.flatnonzero((places.runs > 1) | (places.level0 > 0))
        return some[np.argsort(-facts.backlog[some], kind="stable")]
    wanted = AppendCompaction.of(facts.options)
    small = added(facts.group, (facts.sizes < wanted.small).astype(np.int64), len(places))
    some = np.flatnonzero((small > 1) | (np.array([bool(_vectors(facts))] * len(places), dtype=bool)))
    return some[np.argsort(-small[some], kind="stable")]


def _too_few_runs(facts: Facts, chosen: np.ndarray) -> np.ndarray:
    """In which of these places no rule can fire, whatever the files: there are fewer runs than the trigger,
    and every rule that is on counts them (`CompactionOptions.quiet`)."""
    if not facts.keyed or facts.rules.leveled or facts.rules.always_tried:
        return np.zeros(len(chosen), dtype=bool)
    return facts.places.runs[chosen] < facts.rules.trigger


def _shared_work(facts: Facts, few: np.ndarray) -> dict[int, _DueWork]:
    """The decision in places in which no rule can fire: it says how many runs there are, and nothing else of
    them."""
    _, first, alike = np.unique(facts.places.runs[few], return_index=True, return_inverse=True)
    decided = [_keyed(facts, files) for _, files in _files(facts, few[first])]
    return {place: decided[which] for place, which in zip(few.tolist(), alike.tolist(), strict=True)}


def _files(facts: Facts, chosen: np.ndarray) -> Iterator[tuple[int, list[DataFileMeta]]]:
    """The files of these places as objects without statistics, made together."""
    if not len(chosen):
        return
    rank = np.full(len(facts.places), -1, dtype=np.int64)
    rank[chosen] = np.arange(len(chosen))
    mine = np.flatnonzero(rank[facts.group] >= 0)
    ordered = mine[np.argsort(rank[facts.group[mine]], kind="stable")]
    table = facts.live.table.take(pa.array(ordered))
    for name in _STATISTICS:
        field = table.schema.field(name)
        table = table.set_column(table.schema.names.index(name), field, pa.nulls(len(table), field.type))
    objects, at = Entries(table).objects, 0
    for place in chosen.tolist():
        end = at + int(facts.places.files[place])
        yield place, [e.file for e in objects[at:end]]
        at = end


def _keyed(facts: Facts, files: list[DataFileMeta]) -> _DueWork:
    levels = Levels.of(files, facts.options.num_levels, facts.store.key_order)
    decision = pick(levels, facts.rules, PickContext.at(facts.store.env.local_now_ms(), levels))
    rule, text = decision.reason.rule, decision.reason.text
    return _DueWork.of([decision], text if rule == "none" or text.startswith(rule) else f"{rule}: {text}")


def _append(facts: Facts, files: list[DataFileMeta]) -> _DueWork:
    vectors = _vectors(facts)
    wanted = AppendCompaction.of(
        facts.options,
        deleted={name: rows for name, (rows, _) in vectors.items()},
        vectors={name: index for name, (_, index) in vectors.items()},
    )
    if BucketMode.of(facts.schema, facts.options) is BucketMode.UNAWARE:
        decisions = append_compaction.pack(files, wanted, all_small=False)
    else:
        decisions = [append_compaction.pick(files, wanted)]
    return _DueWork.of(decisions, decisions[0].text)


def _vectors(facts: Facts) -> dict[str, tuple[int, str]]:
    """Masked rows and the index file of each data file that has a deletion vector."""
    if not facts.options.deletion_vectors:
        return {}
    return {
        r.data_file: (r.cardinality or 0, e.file.file_name)
        for e in facts.store.manifests.index_entries(facts.snapshot)
        if e.file.index_type == DELETION_VECTORS
        for r in e.file.dv_ranges or ()
    }


HealthState = Literal["empty", "healthy", "due", "risk"]
STATES: tuple[HealthState, ...] = ("empty", "healthy", "due", "risk")
BUCKETS = result_schema(
    "partition string, bucket int32, runs int32, level0_files int32, files int32, bytes int64, "
    "rows int64, deletes int64, due_files int32, due_bytes int64, due string, reason string"
)


@dataclass(frozen=True, slots=True)
class Health:
    """How a table stands at a snapshot.

    `buckets` has a row for each bucket (`BUCKETS`), the worst first: what a compaction would take now, in the
    engine's words (`due`, NULL where nothing is), and why. `merges` is False for tables without sorted runs.
    `stop` is the stop trigger, `stalled` the number of buckets above it, `waiting` that of files in postponed
    buckets. With `complete` False there were too many files to decide each bucket: `due` has those in which
    one is certain.
    """

    snapshot: int | None
    merges: bool
    buckets: pa.Table
    stop: int = 0
    stalled: int = 0
    waiting: int = 0
    complete: bool = True

    @property
    def files(self) -> int:
        """Live data files."""
        return int(_numbers(self.buckets, "files").sum()) + self.waiting

    @property
    def bytes(self) -> int:
        """Bytes of the live data files of buckets."""
        return int(_numbers(self.buckets, "bytes").sum())

    @property
    def rows(self) -> int:
        """Rows stored in them."""
        return int(_numbers(self.buckets, "rows").sum())

    @property
    def due(self) -> int:
        """Buckets in which a compaction is due."""
        return int(self.buckets.num_rows - self.buckets["due"].null_count)

    @property
    def due_bytes(self) -> int:
        """Bytes of the files that these compactions would take."""
        return int(_numbers(self.buckets, "due_bytes").sum())

    @property
    def opened(self) -> float:
        """Sorted runs that a read of one key opens, on average over the rows."""
        runs, rows = _numbers(self.buckets, "runs"), _numbers(self.buckets, "rows")
        return float((runs * rows).sum() / rows.sum()) if rows.sum() else 0.0

    @property
    def most_runs(self) -> int:
        """Sorted runs of the fullest bucket."""
        return int(_numbers(self.buckets, "runs").max(initial=0))

    @property
    def state(self) -> HealthState:
        """`empty`, `healthy`, `due` (a compaction is) or `risk` (writers have to wait for one)."""
        return verdict(self)[0]

    @property
    def verdict(self) -> str:
        """`healthy: 168 buckets, 1 run each, nothing due`."""
        return verdict(self)[1]

    def __repr__(self) -> str:
        held = f"{many(self.files, 'file')}, {size(self.bytes)}, {many(self.rows, 'row')}"
        at = "no snapshot" if self.snapshot is None else f"snapshot {self.snapshot}"
        return f"{self.verdict}\n{at}: {held} in {many(self.buckets.num_rows, 'bucket')}"

    def _repr_html_(self) -> str | None:
        return rich.card("health", self)


def verdict(health: Health) -> tuple[HealthState, str]:
    """The state, and the sentence that says why."""
    buckets = health.buckets.num_rows
    waits = f"{many(health.waiting, 'file')} in postponed buckets"
    if health.snapshot is None:
        return "empty", "empty: no snapshot yet"
    if not buckets:
        return ("due", f"{waits} wait for compaction") if health.waiting else ("empty", "empty: no files")
    more = f"; {waits}" if health.waiting else ""
    if health.stalled:
        over = f"{health.stalled:,} of {many(buckets, 'bucket')} above the stop trigger {health.stop}"
        return "risk", f"writers wait: {over}; {_reads(health)}{more}"
    if not health.due and not health.waiting:
        return "healthy", f"healthy: {many(buckets, 'bucket')}, {_each(health)}, nothing due"
    if not health.due:
        return "due", f"nothing due in {many(buckets, 'bucket')}{more} wait for compaction"
    share = f"{'' if health.complete else 'at least '}{health.due:,} of {many(buckets, 'bucket')}"
    verb = "waits" if health.due == 1 else "wait"
    return "due", f"{share} {verb} for compaction; {_reads(health)}{more}"


def _reads(health: Health) -> str:
    if not health.merges:
        return f"{many(health.files, 'file')} of {size(health.bytes)}"
    opened = f"{health.opened:.1f}".removesuffix(".0")
    return f"reads open {opened} {'run' if opened == '1' else 'runs'}"


def _each(health: Health) -> str:
    """`1 run each`, `1 to 4 runs each`."""
    runs = _numbers(health.buckets, "runs")
    if not health.merges:
        return many(health.files, "file")
    least, most = int(runs.min()), int(runs.max())
    each = "" if len(runs) == 1 else " each"
    return f"{many(most, 'run')}{each}" if least == most else f"{least} to {most} runs{each}"


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    column = table[name]
    return (column.fill_null(0) if column.null_count else column).to_numpy().astype(np.int64)
