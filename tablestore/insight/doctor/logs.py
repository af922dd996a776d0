"""The rules about the log of a table. Of an embedded one: damaged files, and files that are missing; headers
are read, no rows but those of its newest file. Of a topic of Kafka, or a log in Fluss that is tiered: rows
that are gone, or wait so long that they may be; the servers are asked for offsets, and one that does not
answer is said and is no finding.
"""

from __future__ import annotations

from tablestore.core.errors import Corrupt, NotFound, Unavailable
from tablestore.core.quantities import many
from tablestore.insight import topic_log
from tablestore.insight.cluster_log import UNREACHED, missing_rows, open_log
from tablestore.insight.doctor.facts import Facts
from tablestore.insight.doctor.finding import Evidence, Finding, MendingCall, RuleOutcome, look
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import LogExpired
from tablestore.read import log_continuity
from tablestore.read.open_log import embedded_log_of, log_of
from tablestore.read.table_log import offsets_at

_ASKS = "rows that only the damaged or missing files of the log have are given up; the table's files stay"


def embedded_log(facts: Facts) -> RuleOutcome:
    """Damage of the log, and what it lacks of what the newest snapshot names."""
    log = embedded_log_of(facts.store)
    if log is None:
        return RuleOutcome("none")
    problems = log.problems(rows=False) or _lacks(facts, log) or _torn(facts, log)
    if not problems:
        return RuleOutcome("its files follow one another up to the newest snapshot and beyond")
    path, what = problems[0]
    more = f"; {many(len(problems) - 1, 'more problem')}" if len(problems) > 1 else ""
    finding = Finding(
        "damaged log",
        "risk",
        path,
        f"{what}{more}",
        (MendingCall("log.repair"),),
        {"problems": len(problems)},
        asks=_ASKS,
    )
    return RuleOutcome(many(len(problems), "problem"), (finding,))


def topic(facts: Facts) -> RuleOutcome:
    """Rows of a topic that retention took before files had them, those that wait for long, and its end."""
    log = log_of(facts.store)
    if not isinstance(log, KafkaLog):
        return RuleOutcome("no log in Kafka")
    try:
        topic_log.require_whole(facts.store, log)
        waiting = topic_log.waiting_rows(facts.store, log)
        text = topic_log.warning(log, waiting)
    except (LogExpired, Corrupt) as e:
        finding = Finding(
            "damaged log", "risk", f"topic {log.topic}", str(e), (MendingCall("log.repair"),), asks=_ASKS
        )
        return RuleOutcome("1 problem", (finding,))
    except (Unavailable, NotFound) as e:
        return RuleOutcome(f"the topic was not looked at: {e}")
    finally:
        log.close()
    if not waiting:
        return RuleOutcome("it has what no file has, and nothing waits for long")
    calls, evidence = (look("table.log.finish()"),), {"rows": sum(waiting.values())}
    late = Finding("unfinished log", "risk", f"topic {log.topic}", text, calls, evidence, mends=False)
    return RuleOutcome(f"{many(evidence['rows'], 'row')} wait for long", (late,))


def _torn(facts: Facts, log: EmbeddedLog) -> list[tuple[str, str]]:
    return log.torn_rows(offsets_at(facts.store, facts.store.snapshots.latest()))


def _lacks(facts: Facts, log: EmbeddedLog) -> list[tuple[str, str]]:
    try:
        problem = log_continuity.problem(facts.store, log, facts.store.snapshots.latest())
    except Corrupt as e:
        problem = e
    return [] if problem is None else [(problem.path, problem.problem)]


def untiered_rows(facts: Facts) -> RuleOutcome:
    """Rows in the log of a Fluss cluster that the lake lacks."""
    log = open_log(facts.store)
    if log is None:
        return RuleOutcome("no log in Fluss")
    try:
        missing = missing_rows(facts.store, log)
    except UNREACHED as e:
        return RuleOutcome(f"the cluster was not asked: {e}")
    finally:
        log.close()
    calls = (look("table.log.segments()"),)
    lost, waiting = sum(map(len, missing.lost.values())), sum(missing.waiting.values())
    findings = [
        Finding("lost rows", "risk", "log", text, calls, {"rows": lost}, mends=False)
        for text in missing.problems
    ]
    if missing.warning:
        evidence: Evidence = {"rows": waiting}
        findings.append(
            Finding("untiered rows", "risk", "log", missing.warning, calls, evidence, mends=False)
        )
    return RuleOutcome(f"{many(lost, 'row')} lost, {many(waiting, 'row')} wait for long", tuple(findings))
