"""The doctor: why a table is slow or at risk, from its metadata alone (`inspect.doctor()`).

`RULES` are functions of `Facts`. Each says what it looked at, in numbers, and gives findings: what is wrong,
and the call that mends it. Nothing is changed and no data file is opened. Cost: the manifests of one snapshot
by columns, and at most `Limits.commits` of its newest commits; 10,000 files take a few tenths of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import partial

from tablestore.core.errors import Corrupt, InvalidRequest, NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.insight.doctor import changes, layout, retention, rows
from tablestore.insight.doctor.facts import Facts, Limits
from tablestore.insight.doctor.finding import (
    SEVERITIES,
    Diagnosis,
    Finding,
    MendingCall,
    RuleOutcome,
    RuleResult,
    look,
)
from tablestore.meta.snapshots import is_missing
from tablestore.meta.store import Store
from tablestore.read.scan import time_travel

__all__ = [
    "RULES",
    "Diagnosis",
    "Facts",
    "Finding",
    "Limits",
    "MendingCall",
    "RuleOutcome",
    "RuleResult",
    "diagnose",
    "examine",
    "limits_of",
]

Rule = Callable[[Facts], RuleOutcome]
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
    ("pending lookups", rows.pending_lookups),
    ("expired rows", rows.expired_rows),
    ("statistics", rows.statistics),
    ("dead letters", rows.dead_letters),
    ("formats", rows.mixed_formats),
    ("retractions", changes.retractions),
    ("streams", changes.merged_streams),
    ("deletes", changes.dropped_deletes),
    ("writers", changes.interleaved_writers),
    ("commit races", changes.lost_races),
    ("primary key", changes.narrow_key),
    ("snapshots", retention.snapshots),
    ("consumers", retention.consumers),
    ("tags", retention.tags),
    ("manifests", retention.manifests),
    ("log", changes.embedded_log),
    ("topic", changes.topic),
    ("tiering", changes.untiered_rows),
)


def limits_of(values: Mapping[str, float]) -> Limits:
    """Limits by name, defaults for the others. Raises NotFound for an unknown name, with the nearest one, and
    InvalidRequest for what is no number from 0 on."""
    names = {f.name for f in fields(Limits)}
    for name, value in values.items():
        if name not in names:
            raise NotFound.among("limit of the doctor", name, names)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise InvalidRequest(f"the doctor's limit {name} is {value!r}; it must be a number, from 0 on")
    return Limits(**values)  # type: ignore[arg-type]  # 2.5 is a limit of whole numbers, too


def diagnose(
    store: Store, snapshot: Snapshot | None, limits: Limits | None = None, *, listing: bool = False
) -> Diagnosis:
    """What every rule finds in a snapshot; with `listing` also files in the buckets that nothing names.

    Damage that a rule meets is a finding; the other rules go on.
    """
    name, limits = store.paths.root, limits or Limits()
    if snapshot is None:
        return Diagnosis(
            name, None, (), (RuleResult("snapshots", "none yet: nothing to look at"),), limits, listing
        )
    facts = Facts(store, snapshot, limits)
    left_overs: tuple[str, Rule] = ("left-overs", partial(retention.left_overs, listing=listing))
    outcomes = examine(facts, (*RULES, left_overs))
    tried = tuple(RuleResult(rule, o.text, len(o.findings)) for rule, o in outcomes.items())
    # more than one rule may meet the same damage
    once = {(f.kind, f.where, f.what): f for o in outcomes.values() for f in o.findings}
    ordered = sorted(once.values(), key=lambda f: SEVERITIES.index(f.severity))
    return Diagnosis(name, snapshot.id, tuple(ordered), tried, limits, listing)


def examine(facts: Facts, rules: Iterable[tuple[str, Rule]]) -> dict[str, RuleOutcome]:
    """What each of these rules says, by its name. Raises SnapshotExpired."""
    outcomes = {}
    for rule, look_at in rules:
        with time_travel.expiring(facts.store, facts.snapshot.id):
            outcomes[rule] = _looked(look_at, facts)
    return outcomes


def _looked(rule: Rule, facts: Facts) -> RuleOutcome:
    try:
        with facts.store.manifests.naming_rows():
            return rule(facts)
    except Corrupt as e:
        if is_missing(facts.store.io, e.path):
            raise  # expired while it was looked at, or lost: `expiring` finds out which
        calls = (look("table.check()"),)
        finding = Finding("damage", "risk", e.path, e.problem, calls, {"file": e.path}, mends=False)
        return RuleOutcome(f"met damage: {e}", (finding,))
