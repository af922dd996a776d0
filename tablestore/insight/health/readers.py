"""Who would read a table wrongly: the rules of readers, applied to a snapshot (`inspect.readers()`).

The answer is a `Diagnosis` as the doctor's: a finding for each rule that speaks, with reader, versions, what
it gives, the cure and the source; a line for each reader that no rule speaks against. Metadata only.
"""

from __future__ import annotations

from tablestore.format.snapshot import Snapshot
from tablestore.insight.doctor.facts import Facts, Limits
from tablestore.insight.doctor.finding import SEVERITIES, Diagnosis, Finding, RuleResult, Severity
from tablestore.insight.health.reader_rules import READERS, RULES, THROUGH, ReaderRule
from tablestore.meta.store import Store
from tablestore.read.scan import time_travel


def readers(store: Store, snapshot: Snapshot | None) -> Diagnosis:
    """What each reader would make of `snapshot`, those first that give wrong or stale rows without a word."""
    name = store.paths.root
    if snapshot is None:
        return Diagnosis(
            name, None, (), (RuleResult("readers", "no snapshot yet: nothing to read"),), readers=True
        )
    facts = Facts(store, snapshot, Limits())
    with time_travel.expiring(store, snapshot.id), store.manifests.naming_rows():
        findings = [f for f in (_finding(facts, rule) for rule in RULES) if f is not None]
    spoken = [f.where for f in findings]
    tried = [RuleResult(str(r), r.known, spoken.count(str(r))) for r in READERS]
    findings.sort(key=lambda f: SEVERITIES.index(f.severity))
    return Diagnosis(name, snapshot.id, tuple(findings), tuple(tried), readers=True)


def _finding(facts: Facts, rule: ReaderRule) -> Finding | None:
    why = rule.why(facts)
    if not why:
        return None
    mends = rule.mends and facts.keyed
    calls = THROUGH if rule.mends and not mends else rule.calls
    severity: Severity = "note" if rule.gives == "an error" else "risk"
    what = f"{rule.gives}: {rule.what} ({why})"
    evidence = {"source": rule.source}
    return Finding(rule.name, severity, str(rule.reader), what, calls, evidence, mends=mends)
