"""`inspect.commits()`: what each snapshot changed, added up from its delta manifest; `inspect.compactions()`:
every compaction that the table has had, with its reason and its bytes.

What is known of a table's snapshots is neither read nor made again: a refresh costs the new ones. A
snapshot's file never changes, but a rollback gives its id to another: size and time of each file in the
listing say whether it is the same. Sums of a delta are kept by the name of its list, while its snapshot is
among those last asked for; the manifests of some hundred snapshots are read and decoded together.
Compactions come from live snapshots and from `meta.compaction_history`, which keeps what expired ones did.

Those of other engines have no strategy, rule or duration: Paimon keeps no reasons. Its manifests name the
files of a bucket before the commit, and our pick is a function of these, of the table's options then and of
the time. So its verdict stands beside what was done: the rules are those of Paimon 2.0.0, and where the two
differ the other engine was asked to compact, or ran under options of its own. In the same way the sums of our
own picks are computed again where a snapshot of very many buckets had no room for them.

Memory: the snapshots, and the rows. Not thread-safe. Used by `Inspect` and, before snapshots expire, by
history.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import NotFound
from tablestore.core.options.table_options import TableOptions
from tablestore.format.compaction_record import CompactionRecord, MergeShape, inputs_of
from tablestore.format.manifests.manifest import ADD, DataFileMeta
from tablestore.format.result_tables import table_of
from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect.columns import COMMITS, compactions_table
from tablestore.lsm.compaction import recording
from tablestore.lsm.compaction.decision import Decision, shape_text
from tablestore.lsm.compaction.loop import pick
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.meta import compaction_history
from tablestore.meta.compaction_history import lacks_trials
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store
from tablestore.read.scan.time_travel import local_ms

_AT_ONCE = 500  # commits whose manifests are decoded together
_NOTHING = (0,) * 6


class CommitSums:
    """Rows, files and bytes that snapshots added and removed; each delta is added up once."""

    def __init__(self, store: Store, snapshots: SnapshotCache) -> None:
        self._store, self._snapshots = store, snapshots
        self._by_delta: dict[str, tuple[int, ...]] = {}
        self._rows = SnapshotRows(self._made)

    def table(self, newest: int | None = None) -> pa.Table:
        """A row a snapshot, the oldest first; of so many of the `newest`, or all."""
        if newest is None:
            snapshots = self._snapshots.all()
            rows = self._rows.of(snapshots)
        else:
            snapshots = self._store.snapshots.all(newest=newest)
            rows = self._made(snapshots)
        asked = {s.delta_manifest_list for s in snapshots}
        self._by_delta = {name: sums for name, sums in self._by_delta.items() if name in asked}
        return rows

    def _made(self, snapshots: Sequence[Snapshot]) -> pa.Table:
        new = [s for s in snapshots if s.delta_manifest_list not in self._by_delta]
        for at in range(0, len(new), _AT_ONCE):
            self._add_up(new[at : at + _AT_ONCE])
        return table_of(COMMITS, (self._row(s) for s in snapshots))

    def _add_up(self, snapshots: Sequence[Snapshot]) -> None:
        manifests, names = self._store.manifests, [s.delta_manifest_list for s in snapshots]
        with manifests.expiring(*snapshots):
            lists = manifests.read_lists(names)
            entries = iter(manifests.each([m for some in lists for m in some]))
        for name, some in zip(names, lists, strict=True):
            counts = [_sums(next(entries)) for _ in some] or [_NOTHING]
            self._by_delta[name] = tuple(map(sum, zip(*counts, strict=True)))

    def _row(self, s: Snapshot) -> tuple[Any, ...]:
        properties = json.dumps(dict(s.properties or {}), ensure_ascii=False, sort_keys=True)
        rest = (s.changelog_record_count, s.watermark, s.commit_user, s.commit_identifier, properties)
        return s.id, s.commit_kind, local_ms(s.time_millis), *self._by_delta[s.delta_manifest_list], *rest


def _sums(entries: Entries) -> tuple[int, ...]:
    """Rows, files, bytes: each added, then removed."""
    kinds, rows, sizes = (entries.table.column(n).to_pylist() for n in ("kind", "row_count", "file_size"))
    added, removed = [k == ADD for k in kinds], [k != ADD for k in kinds]
    both = [sum(compress(values, some)) for values in (rows, sizes) for some in (added, removed)]
    return *both[:2], sum(added), sum(removed), *both[2:]


class CompactionRows:
    """A row for each compaction of one table."""

    def __init__(self, store: Store, snapshots: SnapshotCache) -> None:
        self._store, self._snapshots = store, snapshots
        self._live = SnapshotRows(self._rows)
        self._expired: tuple[object, pa.Table, str] | None = None

    def table(self, *, partition: str | None = None, bucket: int | None = None) -> pa.Table:
        """The oldest first, of all buckets or of one partition (text) or bucket."""
        snapshots = self._snapshots.all()  # before the expired ones: one that expires now is in both
        gone, missing = self._gone()
        if snapshots:
            gone = gone.filter(pc.less(gone["snapshot_id"], snapshots[0].id))
        rows = pa.concat_tables([gone, self._live.of(snapshots)])
        for name, wanted in (("partition", partition), ("bucket", bucket)):
            rows = rows if wanted is None else rows.filter(pc.equal(rows[name], wanted))
        rows = rows.combine_chunks()
        return rows.replace_schema_metadata({"missing": missing}) if missing else rows

    def _gone(self) -> tuple[pa.Table, str]:
        """The rows of expired snapshots, and the ranges of those that left none."""
        store = self._store
        there = store.snapshots.earliest_id(), compaction_history.names(store)
        if self._expired is None or self._expired[0] != there:
            done = compaction_history.expired(store)
            rows = compactions_table((d.snapshot, d.time_ms, r) for d in done for r in d.compactions)
            ranges = compaction_history.missing(store, done)
            text = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in ranges)
            self._expired = there, rows, text
        return self._expired[1:]

    def _rows(self, snapshots: Sequence[Snapshot]) -> pa.Table:
        return compactions_table(compaction_history.of_live(self._store, snapshots, explained))


_MANY_CHUNKS = 64


class SnapshotCache:
    """The snapshots of one table; each file is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[int, tuple[tuple[int, int], Snapshot]] = {}

    def all(self) -> list[Snapshot]:
        """Every snapshot, ascending, as they were at one moment: where some expire meanwhile it is looked
        again."""
        gone, read = set[int](), dict(self._read)
        while True:
            stamps = {i: stamp for i, stamp in self._store.snapshots.stamps().items() if i not in gone}
            for snapshot_id, stamp in stamps.items():
                cached = read.get(snapshot_id)
                if cached is None or cached[0] != stamp:
                    try:
                        read[snapshot_id] = stamp, self._store.snapshots.get(snapshot_id)
                    except NotFound:
                        gone.add(snapshot_id)
                        break
            else:
                self._read = {i: read[i] for i in stamps}
                return [snapshot for _, snapshot in self._read.values()]


class SnapshotRows:
    """A table with rows of snapshots by `snapshot_id`, oldest first; rows are made of new snapshots alone."""

    def __init__(self, make: Callable[[Sequence[Snapshot]], pa.Table]) -> None:
        self._make = make
        self._kept: tuple[list[Snapshot], pa.Table] | None = None

    def of(self, snapshots: list[Snapshot]) -> pa.Table:
        """The rows of these snapshots, ascending."""
        kept, rows = self._kept or ([], None)
        first = snapshots[0].id if snapshots else 0
        there = [s for s in kept if s.id >= first]
        if rows is None or not there or snapshots[: len(there)] != there:
            rows = self._make(snapshots)
        else:
            if len(there) < len(kept):
                rows = rows.filter(pc.greater_equal(rows["snapshot_id"], first))
            if len(snapshots) > len(there):
                rows = pa.concat_tables([rows, self._make(snapshots[len(there) :])])
            if rows.column(0).num_chunks > _MANY_CHUNKS:
                rows = rows.combine_chunks()
        self._kept = (list(snapshots), rows)
        return rows


def explained(
    store: Store, snapshot: Snapshot, records: Sequence[CompactionRecord]
) -> tuple[CompactionRecord, ...]:
    """The records of one snapshot: those of another engine with the verdict of our pick on the same files,
    ours with the sums that their snapshot had no room for."""
    if not store.schema.primary_keys or not any(map(lacks_trials, records)):
        return tuple(records)
    options = store.options_of(snapshot.schema_id)
    local_ms = store.env.local_ms(snapshot.time_millis)
    before = _before(store, snapshot)
    compactions = []
    for record in records:
        files = before.get((record.partition, record.bucket))
        if lacks_trials(record) and record.bucket >= 0 and files:
            levels = Levels.of(files, options.num_levels, store.key_order)
            decision = pick(levels, CompactionOptions.of(options), PickContext.at(local_ms, levels))
            completed = _with_verdict if record.rule is None else _with_trials
            record = completed(record, levels, decision, options)
        compactions.append(record)
    return tuple(compactions)


def _with_trials(
    record: CompactionRecord, levels: Levels, decision: Decision, options: TableOptions
) -> CompactionRecord:
    """Our own record with the trials of the pick, if that is the one: a later one of its commit began with
    what the first had made."""
    unit = decision.unit
    if unit is None or (decision.reason.rule, unit.shape) != (record.rule, record.shape):
        return record
    return replace(record, trials=recording.kept_trials(decision.reason))


def _before(store: Store, snapshot: Snapshot) -> dict[tuple[str, int], list[DataFileMeta]]:
    """Live files before a snapshot by partition (text) and bucket."""
    files: dict[tuple[str, int], list[DataFileMeta]] = {}
    texts: dict[bytes, str] = {}
    for e in store.manifests.entries_before(snapshot):
        text = texts.get(e.partition)
        if text is None:
            text = texts[e.partition] = store.partition_text(e.partition)
        files.setdefault((text, e.bucket), []).append(e.file)
    return files


def _with_verdict(
    record: CompactionRecord, levels: Levels, decision: Decision, options: TableOptions
) -> CompactionRecord:
    """The record with the layout before, the verdict of our rules and their trials."""
    there = MergeShape(levels.oldest_level, inputs_of(levels.files))
    layout = shape_text(there).rsplit(" → ", 1)[0]
    size = shape_text(there).rsplit(", ", 1)[1]
    unit = decision.unit
    if unit is None:
        verdict = f"taken nothing, so it was asked for: {decision.reason.text}"
    else:
        same = unit.shape.output_level == record.output_level and _moved_alike(unit.shape, record)
        what = "done the same" if same else f"taken {unit.text}"
        verdict = f"{what}, because {decision.reason.rule}: {decision.reason.text}"
    text = f"before it: {layout}, {size}; {options.strategy.value} compaction here would have {verdict}"
    return replace(record, text=text, trials=recording.kept_trials(decision.reason, carried_out=False))


def _moved_alike(shape: MergeShape, record: CompactionRecord) -> bool:
    """Whether a unit takes as many files and bytes as the commit replaced."""
    taken = MergeShape(record.output_level, record.inputs)
    return (shape.files, shape.size) == (taken.files, taken.size)
