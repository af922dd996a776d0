"""The health of a table at a snapshot: its manifests added up by bucket, and what the engine would compact.

Only buckets that may have something to do become objects, `MOST_FILES` of their files at most, fullest first;
a bucket beyond them counts as due where its runs exceed the trigger, which is certain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tablestore.format.manifests.index_manifest import DELETION_VECTORS
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.insight.doctor.facts import Facts, Limits, added
from tablestore.insight.health.verdict import BUCKETS, Health
from tablestore.lsm.compaction import PickContext, append_compaction, pick
from tablestore.lsm.compaction.append_compaction import AppendCompaction
from tablestore.lsm.compaction.decision import CompactUnit, Decision
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.meta.store import Store
from tablestore.write.routing.bucket_mode import BucketMode

MOST_FILES = 50_000
Work = tuple[list[CompactUnit], str]


def health(store: Store, snapshot: Snapshot | None, *, most_files: int = MOST_FILES) -> Health:
    """How the buckets of `snapshot` (None: of a table without any) stand; at most `most_files` of them are
    looked at one by one."""
    if snapshot is None:
        return Health(None, bool(store.schema.primary_keys), BUCKETS.empty_table())
    return health_of(Facts(store, snapshot, Limits()), most_files=most_files)


def health_of(facts: Facts, *, most_files: int = MOST_FILES) -> Health:
    """`health` of a snapshot whose metadata is there."""
    store, snapshot = facts.store, facts.snapshot
    places, stop = facts.places, facts.rules.stop_trigger
    count, waiting = len(places), len(facts.waiting)
    work: dict[int, Work] = {}
    candidates = _candidates(facts)
    decided = candidates[np.cumsum(places.files[candidates]) <= max(most_files, 0)]
    for place, files in _files(facts, decided):
        work[place] = _keyed(facts, files) if facts.keyed else _append(facts, files)
    left = np.setdiff1d(candidates, decided)
    for place in left[facts.backlog[left] > facts.trigger].tolist() if facts.keyed else ():
        work[place] = [], f"{facts.backlog[place]} > trigger {facts.trigger}"
    due_files = np.zeros(count, dtype=np.int64)
    due_bytes = np.zeros(count, dtype=np.int64)
    due: list[str | None] = [None] * count
    reasons: list[str | None] = [None] * count
    for place, (units, reason) in work.items():
        reasons[place] = reason
        if units or place in left:
            due_files[place] = sum(len(u.files) for u in units)
            due_bytes[place] = sum(u.size for u in units)
            due[place] = "; ".join(u.text for u in units[:3]) or "a compaction"
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
        not len(left),
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


def _files(facts: Facts, chosen: np.ndarray) -> Iterator[tuple[int, list[DataFileMeta]]]:
    """The files of these places as objects, made together."""
    if not len(chosen):
        return
    rank = np.full(len(facts.places), -1, dtype=np.int64)
    rank[chosen] = np.arange(len(chosen))
    mine = np.flatnonzero(rank[facts.group] >= 0)
    ordered = mine[np.argsort(rank[facts.group[mine]], kind="stable")]
    objects = facts.live.take(ordered).objects
    at = 0
    for place in chosen.tolist():
        end = at + int(facts.places.files[place])
        yield place, [e.file for e in objects[at:end]]
        at = end


def _keyed(facts: Facts, files: list[DataFileMeta]) -> Work:
    levels = Levels.of(files, facts.options.num_levels, facts.store.key_order)
    decision = pick(levels, facts.rules, PickContext.at(facts.store.env.local_now_ms(), levels))
    rule, text = decision.reason.rule, decision.reason.text
    return _units([decision]), text if rule == "none" or text.startswith(rule) else f"{rule}: {text}"


def _append(facts: Facts, files: list[DataFileMeta]) -> Work:
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
    return _units(decisions), decisions[0].text


def _units(decisions: list[Decision]) -> list[CompactUnit]:
    return [d.unit for d in decisions if d.unit is not None]


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
