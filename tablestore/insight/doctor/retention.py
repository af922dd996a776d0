"""Rules about what is kept: snapshots beyond their time, consumers that stand still, tags, manifests, and
files that nothing names. Snapshot files, deltas, tags and consumers are read, within `Limits`.
"""

from __future__ import annotations

import numpy as np

from tablestore.core import quantities
from tablestore.core.errors import NotFound
from tablestore.core.quantities import many
from tablestore.insight.doctor.facts import Facts, gone_bytes
from tablestore.insight.doctor.finding import Evidence, Finding, MendingCall, RuleOutcome, size
from tablestore.meta import changelogs, expiry_rules, positions, refs
from tablestore.meta import consumers as stored


def snapshots(facts: Facts) -> RuleOutcome:
    """Snapshots that the options let go, and that are still there."""
    ids, o = facts.snapshot_ids, facts.options
    allowed = _expirable_until(facts)
    holder = positions.holder(facts.store.snapshots, facts.snapshot)
    end = min([allowed, *(b.first for b in facts.consumer_bounds), *([] if holder is None else [holder])])
    over = [i for i in ids if i < end]
    line = f"{many(len(ids), 'snapshot')}, {len(over):,} of which the options let expire"
    if holder is not None and allowed - holder >= facts.limits.kept_snapshots:
        return RuleOutcome(line, (_kept_by_positions(facts, holder, allowed),))
    if len(over) < facts.limits.kept_snapshots:
        return RuleOutcome(line)
    evidence: Evidence = {
        "snapshots": len(ids),
        "beyond_options": len(over),
        "kept_bytes": _bytes_between(facts, over[0] + 1, end),
        "time_retained": expiry_rules.duration(o.snapshot_time_retained_ms),
        "num_retained_min": o.snapshot_min_retained,
    }
    why = "write-only writers do not expire them" if o.write_only else "the writers since did not expire them"
    what = f"snapshots {over[0]} to {over[-1]} are kept longer than the options say; {why}"
    return RuleOutcome(
        line, (Finding("old snapshots", "waste", "table", what, (_expiry_call(facts),), evidence),)
    )


def _expiry_call(facts: Facts) -> MendingCall:
    """Everything that the options let go, however much."""
    o = facts.options
    if len(facts.snapshot_ids) > o.snapshot_max_retained:
        return MendingCall("expire_snapshots", keywords={"keep": o.snapshot_max_retained})
    age = f"{o.snapshot_time_retained_ms} ms"
    return MendingCall("expire_snapshots", keywords={"keep": o.snapshot_min_retained, "older_than": age})


def _kept_by_positions(facts: Facts, holder: int, allowed: int) -> Finding:
    """The finding on snapshots that are kept as only an old one has the positions of streams; a commit of
    this engine carries these on."""
    ids = [i for i in facts.snapshot_ids if holder <= i < allowed]
    evidence: Evidence = {
        "holder": holder,
        "snapshots_kept": len(ids),
        "kept_bytes": _bytes_between(facts, holder + 1, allowed),
    }
    what = "only commits of this engine carry the positions of its streams on; others committed since"
    calls = (MendingCall("compact_manifests"), _expiry_call(facts))
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


def _bytes_between(facts: Facts, first: int, end: int) -> int:
    """Bytes of the files that commits removed from snapshot `first` on, before `end`, as far back as the
    newest commits go."""
    pairs = zip(facts.commits, facts.deltas, strict=True)
    return sum(gone_bytes(d) for s, d in pairs if first <= s.id <= end and len(d))


def consumers(facts: Facts) -> RuleOutcome:
    """Stream readers that stand still and keep snapshots from expiring."""
    places = facts.consumers
    if not places:
        return RuleOutcome("none")
    end, now = _expirable_until(facts), facts.store.env.now_ms()
    moved = stored.names(facts.store)
    age = facts.options.consumer_expiration_ms
    limit = facts.limits.consumer_ms if age is None else min(age, facts.limits.consumer_ms)
    line = f"{many(len(places), 'consumer')}, the farthest behind waits for snapshot {min(places.values())}"
    findings = []
    for name, after in sorted((b.name, b.first) for b in facts.consumer_bounds):
        kept = sum(after <= i < end for i in facts.snapshot_ids)
        idle = now - moved.get(name, now)
        if kept < facts.limits.kept_snapshots or idle < limit:
            continue
        evidence: Evidence = {
            "next_snapshot": after,
            "snapshots_kept": kept,
            "kept_bytes": _bytes_between(facts, after + 1, end),
            "idle": quantities.duration(idle),
        }
        what = f"has not moved for {quantities.duration(idle)} and keeps {many(kept, 'snapshot')}"
        call = (MendingCall("consumers.delete", (name,)),)
        asks = f"the stream {name} loses its place: if it ever comes back, it starts anew"
        findings.append(
            Finding("stale consumer", "waste", f"consumer {name}", what, call, evidence, asks=asks)
        )
    return RuleOutcome(line, tuple(findings))


def tags(facts: Facts) -> RuleOutcome:
    """Tags that keep bytes which no snapshot needs any more."""
    if not facts.tags:
        return RuleOutcome("none")
    looked = sorted(facts.tags, key=lambda t: t.snapshot.id)[: facts.limits.tags]
    kept = _kept_names(facts)
    live, findings, largest = int(facts.sizes.sum()), [], 0
    for tag in looked:
        alone = _only_in(facts, tag, kept)
        largest = max(largest, alone)
        if alone < facts.limits.kept_bytes or alone < facts.limits.kept_share * live:
            continue
        evidence: Evidence = {"snapshot": tag.snapshot.id, "kept_bytes": alone, "live_bytes": live}
        what = f"keeps {size(alone)} that the table's snapshots no longer need"
        call = (MendingCall("tags.delete", (tag.name,)),)
        asks = f"the state of snapshot {tag.snapshot.id} can no longer be read under this name"
        findings.append(Finding("tag", "waste", f"tag {tag.name}", what, call, evidence, asks=asks))
    line = f"{many(len(facts.tags), 'tag')}; one keeps {size(largest)} that no snapshot needs"
    line += f", of the {len(looked)} oldest" if len(looked) < len(facts.tags) else ""
    return RuleOutcome(line, tuple(findings))


def _kept_names(facts: Facts) -> np.ndarray:
    """Names of files that this snapshot needs, or one of the newest commits before it (what the first of
    these removed only older ones needed)."""
    names = [facts.live.table.column("file_name")]
    names += [d.table.column("file_name") for d in facts.deltas[1:] if len(d)]
    return np.unique(np.concatenate([n.to_numpy(zero_copy_only=False).astype(str) for n in names]))


def _only_in(facts: Facts, tag: refs.Tag, kept: np.ndarray) -> int:
    entries = facts.store.manifests.live_entries(tag.snapshot)
    if not len(entries):
        return 0
    names = entries.table.column("file_name").to_numpy(zero_copy_only=False).astype(str)
    return int(entries.numbers("file_size")[~np.isin(names, kept)].sum())


def manifests(facts: Facts) -> RuleOutcome:
    """Manifests that every plan reads: too many of them, or full of files that are gone."""
    manifests, live = facts.manifests, len(facts.live) + len(facts.waiting)
    entries = sum(m.num_added + m.num_deleted for m in manifests)
    dead = entries - live
    total = sum(m.file_size for m in manifests)
    line = f"{many(len(manifests), 'manifest')} of {size(total)}"
    line += f", {entries:,} entries for {many(live, 'live file')}"
    enough = 2 * total // facts.options.manifest_target_bytes
    crowded = len(manifests) > facts.limits.manifests and len(manifests) > enough
    stale = dead > facts.limits.dead_entries and dead > live
    if not (crowded or stale):
        return RuleOutcome(line)
    evidence: Evidence = {
        "manifests": len(manifests),
        "bytes": total,
        "entries": entries,
        "live_files": live,
        "merge_min_count": facts.options.manifest_merge_min_count,
    }
    what = (
        "many small manifests, opened by each plan" if crowded else "most entries are of files that are gone"
    )
    call = (MendingCall("compact_manifests"),)
    return RuleOutcome(line, (Finding("manifests", "slow", "manifest", what, call, evidence),))


def left_overs(facts: Facts, *, listing: bool) -> RuleOutcome:
    """Files that no snapshot or tag names. Only with `listing`, since buckets have to be listed for it."""
    if not listing:
        return RuleOutcome("not looked for; doctor(listing=True) looks, table.remove_orphans() finds all")
    older = len(facts.snapshot_ids) > len(facts.commits) or changelogs.ids(facts.store)
    if refs.branches(facts.store) or older or facts.options.indexes_beside_data:
        return RuleOutcome("branches or older snapshots may name them: table.remove_orphans() finds out")
    named = _named(facts)
    before = facts.store.env.now_ms() - facts.limits.consumer_ms
    number, total = 0, 0
    for place in range(len(facts.places)):
        folder = facts.store.bucket_dir(facts.places.partition[place], int(facts.places.bucket[place]))
        for status in facts.store.io.list(folder):
            if not status.is_dir and status.name not in named and status.modified_ms < before:
                number, total = number + 1, total + status.size
    line = f"{many(number, 'file')} in {many(len(facts.places), 'bucket')}"
    if not number:
        return RuleOutcome(line)
    evidence: Evidence = {"files": number, "bytes": total}
    what = "files older than a day that no snapshot or tag names: a writer was killed"
    call = (MendingCall("remove_orphans", keywords={"dry_run": False}),)
    return RuleOutcome(line, (Finding("left-overs", "waste", "table", what, call, evidence),))


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
