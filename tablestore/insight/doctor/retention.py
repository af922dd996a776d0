"""Rules about what is kept: snapshots beyond their time, consumers that stand still, tags, manifests, and
files that nothing names. Snapshot files, deltas, tags and consumers are read, within `Limits`.
"""

from __future__ import annotations

import numpy as np

from tablestore.core import quantities
from tablestore.core.errors import NotFound
from tablestore.insight.doctor.calls import Call
from tablestore.insight.doctor.facts import Facts, gone_bytes
from tablestore.insight.doctor.finding import Evidence, Finding, Outcome
from tablestore.insight.doctor.words import count, size
from tablestore.meta import changelogs, expiry_rules, positions, refs
from tablestore.meta import consumers as stored


def snapshots(facts: Facts) -> Outcome:
    """Snapshots that the options let go, and that are still there."""
    ids, o = facts.snapshot_ids, facts.options
    allowed = _expirable_until(facts)
    held = positions.holder(facts.store.snapshots, facts.snapshot)
    end = min([allowed, *(b.first for b in facts.holds), *([] if held is None else [held])])
    over = [i for i in ids if i < end]
    line = f"{count(len(ids), 'snapshot')}, {len(over):,} of them beyond the options"
    if held is not None and allowed - held >= facts.limits.held_snapshots:
        return Outcome(line, (_held_by_positions(facts, held, allowed),))
    if len(over) < facts.limits.held_snapshots:
        return Outcome(line)
    evidence: Evidence = {
        "snapshots": len(ids),
        "beyond_options": len(over),
        "held_bytes": _held_bytes(facts, over[0] + 1, end),
        "time_retained": expiry_rules.duration(o.snapshot_time_retained_ms),
        "num_retained_min": o.snapshot_min_retained,
    }
    why = "write-only writers do not expire them" if o.write_only else "the writers since did not expire them"
    what = f"snapshots {over[0]} to {over[-1]} are kept longer than the options say; {why}"
    return Outcome(
        line, (Finding("old snapshots", "waste", "table", what, (_expiry_call(facts),), evidence),)
    )


def _expiry_call(facts: Facts) -> Call:
    """Everything that the options let go, however much."""
    o = facts.options
    if len(facts.snapshot_ids) > o.snapshot_max_retained:
        return Call("expire_snapshots", named={"keep": o.snapshot_max_retained})
    age = f"{o.snapshot_time_retained_ms} ms"
    return Call("expire_snapshots", named={"keep": o.snapshot_min_retained, "older_than": age})


def _held_by_positions(facts: Facts, holder: int, allowed: int) -> Finding:
    """Snapshots kept since only an old one knows where streams are; a commit of ours carries that on."""
    ids = [i for i in facts.snapshot_ids if holder <= i < allowed]
    evidence: Evidence = {
        "holder": holder,
        "snapshots_held": len(ids),
        "held_bytes": _held_bytes(facts, holder + 1, allowed),
    }
    what = "only commits of this engine carry the positions of its streams on; others committed since"
    calls = (Call("compact_manifests"), _expiry_call(facts))
    return Finding("stream positions", "waste", f"snapshot {holder}", what, calls, evidence)


def _expirable_until(facts: Facts) -> int:
    """First id that the options keep, whatever consumers and streams hold. Commit times ascend with ids."""
    ids, o = facts.snapshot_ids, facts.options
    if not ids:
        return 0
    latest, now = ids[-1], facts.store.env.now_ms()
    by_number = max(latest - o.snapshot_max_retained + 1, ids[0])
    last = min(latest - o.snapshot_min_retained + 1, latest)
    low, high = by_number, max(by_number, last)
    while low < high:  # a snapshot goes when the one after it is too old
        middle = (low + high) // 2
        if _older(facts, middle + 1, now - o.snapshot_time_retained_ms):
            low = middle + 1
        else:
            high = middle
    return min(low, max(last, by_number))


def _older(facts: Facts, snapshot_id: int, than_ms: int) -> bool:
    try:
        return facts.store.snapshots.get(snapshot_id).time_millis <= than_ms
    except NotFound:  # expired meanwhile, or a gap that a rollback left
        return True


def _held_bytes(facts: Facts, first: int, end: int) -> int:
    """Bytes of files that went between two snapshots, as far as the newest commits tell."""
    pairs = zip(facts.commits, facts.deltas, strict=True)
    return sum(gone_bytes(d) for s, d in pairs if first <= s.id <= end and len(d))


def consumers(facts: Facts) -> Outcome:
    """Stream readers that stand still and keep snapshots from expiring."""
    places = facts.consumers
    if not places:
        return Outcome("none")
    end, now = _expirable_until(facts), facts.store.env.now_ms()
    moved = stored.names(facts.store)
    age = facts.options.consumer_expiration_ms
    limit = facts.limits.consumer_ms if age is None else min(age, facts.limits.consumer_ms)
    line = f"{count(len(places), 'consumer')}, the farthest behind waits for snapshot {min(places.values())}"
    found = []
    for name, after in sorted((b.name, b.first) for b in facts.holds):
        held = sum(after <= i < end for i in facts.snapshot_ids)
        idle = now - moved.get(name, now)
        if held < facts.limits.held_snapshots or idle < limit:
            continue
        evidence: Evidence = {
            "next_snapshot": after,
            "snapshots_held": held,
            "held_bytes": _held_bytes(facts, after + 1, end),
            "stands_still": quantities.duration(idle),
        }
        what = f"has not moved for {quantities.duration(idle)} and holds {count(held, 'snapshot')}"
        call = (Call("consumers.delete", (name,)),)
        asks = f"the stream {name} loses its place: if it ever comes back, it starts anew"
        found.append(Finding("stale consumer", "waste", f"consumer {name}", what, call, evidence, asks=asks))
    return Outcome(line, tuple(found))


def tags(facts: Facts) -> Outcome:
    """Tags that keep bytes which no snapshot needs any more."""
    if not facts.tags:
        return Outcome("none")
    looked = sorted(facts.tags, key=lambda t: t.snapshot.id)[: facts.limits.tags]
    kept = _kept_names(facts)
    live, found, most = int(facts.sizes.sum()), [], 0
    for tag in looked:
        held = _only_in(facts, tag, kept)
        most = max(most, held)
        if held < facts.limits.held_bytes or held < facts.limits.held_share * live:
            continue
        evidence: Evidence = {"snapshot": tag.snapshot.id, "held_bytes": held, "live_bytes": live}
        what = f"keeps {size(held)} that the table's snapshots no longer need"
        call = (Call("tags.delete", (tag.name,)),)
        asks = f"the state of snapshot {tag.snapshot.id} can no longer be read under this name"
        found.append(Finding("tag", "waste", f"tag {tag.name}", what, call, evidence, asks=asks))
    line = f"{count(len(facts.tags), 'tag')}; one keeps {size(most)} that no snapshot needs"
    line += f", of the {len(looked)} oldest" if len(looked) < len(facts.tags) else ""
    return Outcome(line, tuple(found))


def _kept_names(facts: Facts) -> np.ndarray:
    """Names of files that this snapshot, or one of the newest commits before, needs. What the first of them
    took away only those before it needed."""
    names = [facts.live.table.column("file_name")]
    names += [d.table.column("file_name") for d in facts.deltas[1:] if len(d)]
    return np.unique(np.concatenate([n.to_numpy(zero_copy_only=False).astype(str) for n in names]))


def _only_in(facts: Facts, tag: refs.Tag, kept: np.ndarray) -> int:
    entries = facts.store.manifests.live_entries(tag.snapshot)
    if not len(entries):
        return 0
    names = entries.table.column("file_name").to_numpy(zero_copy_only=False).astype(str)
    return int(entries.numbers("file_size")[~np.isin(names, kept)].sum())


def manifests(facts: Facts) -> Outcome:
    """Manifests that every plan reads: too many of them, or full of files that are gone."""
    found, live = facts.manifests, len(facts.live) + len(facts.waiting)
    entries = sum(m.num_added + m.num_deleted for m in found)
    dead = entries - live
    held = sum(m.file_size for m in found)
    line = (
        f"{count(len(found), 'manifest')} of {size(held)}, {entries:,} entries for {count(live, 'live file')}"
    )
    many = (
        len(found) > facts.limits.manifests and len(found) > 2 * held // facts.options.manifest_target_bytes
    )
    stale = dead > facts.limits.dead_entries and dead > live
    if not (many or stale):
        return Outcome(line)
    evidence: Evidence = {
        "manifests": len(found),
        "bytes": held,
        "entries": entries,
        "live_files": live,
        "merge_min_count": facts.options.manifest_merge_min_count,
    }
    what = "many small manifests, opened by each plan" if many else "most entries are of files that are gone"
    call = (Call("compact_manifests"),)
    return Outcome(line, (Finding("manifests", "slow", "manifest", what, call, evidence),))


def left_overs(facts: Facts, *, listing: bool) -> Outcome:
    """Files that no snapshot or tag names. Only with `listing`, since buckets have to be listed for it."""
    if not listing:
        return Outcome("not looked for; doctor(listing=True) looks, table.remove_orphans() finds all")
    older = len(facts.snapshot_ids) > len(facts.commits) or changelogs.ids(facts.store)
    if refs.branches(facts.store) or older or facts.options.indexes_beside_data:
        return Outcome("branches or older snapshots may name them: table.remove_orphans() finds out")
    known = _named(facts)
    before = facts.store.env.now_ms() - facts.limits.consumer_ms
    number, held = 0, 0
    for place in range(len(facts.places)):
        folder = facts.store.bucket_dir(facts.places.partition[place], int(facts.places.bucket[place]))
        for status in facts.store.io.list(folder):
            if not status.is_dir and status.name not in known and status.modified_ms < before:
                number, held = number + 1, held + status.size
    line = f"{count(number, 'file')} in {count(len(facts.places), 'bucket')}"
    if not number:
        return Outcome(line)
    evidence: Evidence = {"files": number, "bytes": held}
    what = "files older than a day that no snapshot or tag names: a writer was killed"
    call = (Call("remove_orphans", named={"dry_run": False}),)
    return Outcome(line, (Finding("left-overs", "waste", "table", what, call, evidence),))


def _named(facts: Facts) -> set[str]:
    """Names of the data and changelog files of every snapshot and tag."""
    states = (*facts.commits[:1], *(t.snapshot for t in facts.tags))
    parts = [facts.store.manifests.live_entries(s) for s in states]
    parts += [*facts.deltas, *facts.changelogs]
    names: set[str] = set()
    for entries in parts:
        names |= set(entries.table.column("file_name").to_pylist())
        for extra in entries.table.column("extra_files").to_pylist():
            names |= set(extra or ())
    return names
