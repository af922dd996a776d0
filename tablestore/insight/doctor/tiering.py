"""The rule about rows that come by tiering: which are lost before a round, which wait so long that they may.

The cluster is asked for the offsets of its logs; one that does not answer is said and is no finding.
"""

from __future__ import annotations

from tablestore.insight.cluster_log import UNREACHED, missing_rows, open_log
from tablestore.insight.doctor.calls import look
from tablestore.insight.doctor.facts import Facts
from tablestore.insight.doctor.finding import Evidence, Finding, Outcome
from tablestore.insight.doctor.words import count


def untiered_rows(facts: Facts) -> Outcome:
    """Rows in the log of a Fluss cluster that the lake lacks."""
    log = open_log(facts.store)
    if log is None:
        return Outcome("no log in Fluss")
    try:
        missing = missing_rows(facts.store, log)
    except UNREACHED as e:
        return Outcome(f"the cluster was not asked: {e}")
    finally:
        log.close()
    calls = (look("table.log.segments()"),)
    lost, waiting = sum(map(len, missing.lost.values())), sum(missing.waiting.values())
    found = [
        Finding("lost rows", "risk", "log", text, calls, {"rows": lost}, mends=False)
        for text in missing.problems
    ]
    if missing.warning:
        evidence: Evidence = {"rows": waiting}
        found.append(Finding("untiered rows", "risk", "log", missing.warning, calls, evidence, mends=False))
    return Outcome(f"{count(lost, 'row')} lost, {count(waiting, 'row')} wait for long", tuple(found))
