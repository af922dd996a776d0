"""The doctor: why a table is slow or at risk, from its metadata alone. Behind `inspect.doctor()`.

`RULES` are functions of `Facts`; each says what it looked at, in numbers, and what is wrong with the call
that mends it. Nothing is changed and no data file is opened. Cost: the manifests of one snapshot by columns,
and at most `Limits.commits` of its newest commits; 10,000 files take a few tenths of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store
from tablestore.read import time_travel
from tablestore.read.doctor import changes, history, layout, rows
from tablestore.read.doctor.facts import Facts, Limits
from tablestore.read.doctor.finding import SEVERITIES, Diagnosis, Finding, Outcome, Tried

__all__ = ["RULES", "Diagnosis", "Facts", "Finding", "Limits", "Outcome", "Tried", "diagnose"]

Rule = Callable[[Facts], Outcome]
RULES: tuple[tuple[str, Rule], ...] = (
    ("sorted runs", layout.sorted_runs),
    ("stop trigger", layout.stop_trigger),
    ("write stalls", layout.write_stalls),
    ("small files", layout.small_files),
    ("key overlap", layout.key_overlap),
    ("bucket size", layout.bucket_size),
    ("bucket skew", layout.bucket_skew),
    ("partition skew", layout.partition_skew),
    ("tombstones", rows.tombstones),
    ("deletion vectors", rows.deletion_vectors),
    ("waiting rows", rows.waiting_rows),
    ("unseen level 0", rows.unseen_level0),
    ("expired rows", rows.expired_rows),
    ("statistics", rows.statistics),
    ("formats", rows.mixed_formats),
    ("retractions", changes.retractions),
    ("streams", changes.merged_streams),
    ("deletes", changes.dropped_deletes),
    ("writers", changes.several_writers),
    ("primary key", changes.narrow_key),
    ("snapshots", history.snapshots),
    ("consumers", history.consumers),
    ("tags", history.tags),
    ("manifests", history.manifests),
)


def diagnose(
    store: Store,
    snapshot: Snapshot | None,
    *,
    limits: Limits | None = None,
    listing: bool = False,
    name: str = "",
) -> Diagnosis:
    """Try every rule on a snapshot. `listing` also lists the buckets for files that nothing names."""
    name = name or store.paths.root
    if snapshot is None:
        return Diagnosis(name, None, (), (Tried("snapshots", "none yet: nothing to look at"),))
    facts = Facts(store, snapshot, limits or Limits())
    rules = (*RULES, ("left-overs", partial(history.left_overs, listing=listing)))
    findings, tried = list[Finding](), list[Tried]()
    with time_travel.expiring(store, snapshot.id):
        for rule, look in rules:
            outcome = look(facts)
            findings += outcome.findings
            tried.append(Tried(rule, outcome.text, len(outcome.findings)))
    findings.sort(key=lambda f: SEVERITIES.index(f.severity))
    return Diagnosis(name, snapshot.id, tuple(findings), tuple(tried))
