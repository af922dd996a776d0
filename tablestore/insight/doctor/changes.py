"""Rules about changes and their writers: changelogs that lack retractions, streams of merge engines without
a changelog producer, deletes that are dropped, writers that interleave. Metadata of the newest commits only.

And rules about the log of a table. Of an embedded one: damaged files, and files that are missing; headers
are read, no rows but those of its newest file. Of a topic of Kafka, or a log in Fluss that is tiered: rows
that are gone, or wait so long that they may be; the servers are asked for offsets, and one that does not
answer is said and is no finding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Corrupt, NotFound, Unavailable
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.core.quantities import duration, many
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import COMPACT, LostRaces
from tablestore.insight import cluster_log
from tablestore.insight.cluster_log import UNREACHED, missing_rows, open_log
from tablestore.insight.doctor.facts import Facts
from tablestore.insight.doctor.finding import (
    Evidence,
    Finding,
    MendingCall,
    RuleOutcome,
    Severity,
    look,
    python,
    set_call,
)
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import LogExpired
from tablestore.meta.entries import Entries
from tablestore.read.scan.split_generator import bucket_numbers
from tablestore.read.table_log import embedded_log_of, lack_of, log_of, offsets_at

_COMPUTING = (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION)
_LOOKED_UP = "writers then look up what each key was, and compact before they commit: writes take longer"
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ", "DATE", "BIGINT", "INT")


def retractions(facts: Facts) -> RuleOutcome:
    """`changelog-producer` = input whose changes replace keys without a −U: consumers count rows twice."""
    if facts.options.changelog_producer is not ChangelogProducer.INPUT:
        return RuleOutcome(f"changelog-producer is {facts.options.changelog_producer.value}")
    changes = sum(int(c.numbers("row_count").sum()) for c in facts.changelogs)
    retracts = sum(int(c.numbers("delete_count").sum()) for c in facts.changelogs)
    replaced = sum(_folded(d, c) for d, c in zip(facts.deltas, facts.changelogs, strict=True))
    fresh: set[str] = set()  # files of these commits: what they replaced, these commits replaced
    for snapshot, delta in zip(facts.commits, facts.deltas, strict=True):
        if snapshot.commit_kind == COMPACT:
            replaced += _merged(delta, fresh)
        else:
            fresh |= set(_names(delta, delta.numbers("kind") == ADD))
    twice = _keys_met_twice(facts.live, facts.group, fresh) if len(facts.live) else 0
    line = f"{retracts:,} −U and −D in {changes:,} changes of {many(len(facts.commits), 'snapshot')}"
    line += f"; at least {max(replaced, twice):,} rows were replaced"
    if not changes or max(replaced, twice) == 0 or 2 * retracts >= replaced + twice:
        return RuleOutcome(line)
    evidence: Evidence = {
        "changes": changes,
        "retractions": retracts,
        "rows_replaced": replaced,
        "keys_met_twice": twice,
        "snapshots": len(facts.commits),
    }
    what = "keys were written again without a −U of their old row: who adds up the changes counts them twice"
    call = set_call(**{"changelog-producer": "lookup"})
    finding = Finding("no retractions", "risk", "changelog", what, call, evidence, asks=_LOOKED_UP)
    return RuleOutcome(line, (finding,))


def _folded(delta: Entries, changelog: Entries) -> int:
    """Rows of a write that its own later rows of the same keys replaced before it was flushed."""
    if not len(changelog):
        return 0
    new = delta.numbers("row_count")[(delta.numbers("kind") == ADD) & (delta.numbers("level") == 0)]
    return max(0, int(changelog.numbers("row_count").sum()) - int(new.sum()))


def _names(entries: Entries, which: np.ndarray) -> list[str]:
    return entries.table.column("file_name").filter(pa.array(which)).to_pylist()


def _merged(delta: Entries, fresh: set[str]) -> int:
    """Rows that a compaction read and did not write, in buckets where all its runs but one are `fresh`: older
    runs may have replaced rows of each other. What it wrote there is fresh, too."""
    if not len(delta):
        return 0
    group, levels = bucket_numbers(delta), delta.numbers("level")
    adding, buckets = delta.numbers("kind") == ADD, int(group.max()) + 1
    names = delta.table.column("file_name").to_numpy(zero_copy_only=False)
    older = ~adding & np.array([name not in fresh for name in names], dtype=bool)
    upper = np.unique((group << 16 | levels)[older & (levels > 0)]) >> 16
    runs = np.bincount(group[older & (levels == 0)], minlength=buckets) + np.bincount(
        upper, minlength=buckets
    )
    here = (runs <= 1)[group]
    fresh |= set(names[here & adding].tolist())
    signs = np.where(adding, 1, -1)
    return max(0, -int((signs * delta.numbers("row_count"))[here].sum()))


def _keys_met_twice(live: Entries, group: np.ndarray, fresh: set[str]) -> int:
    """Keys that begin or end two files of one bucket, one of which is `fresh`: certainly written again."""
    columns = [live.table.column(n).combine_chunks() for n in ("min_key", "max_key")]
    codes = pa.concat_arrays(columns).dictionary_encode().indices.to_numpy().astype(np.int64)
    low, high = np.split(codes, 2)
    span = int(codes.max(initial=0)) + 1
    low, high = group * span + low, group * span + high
    new = np.isin(live.table.column("file_name").to_numpy(zero_copy_only=False).astype(str), list(fresh))
    two = high != low
    ends, of_new = np.r_[low, high[two]], np.r_[new, new[two]]
    _, codes, counts = np.unique(ends, return_inverse=True, return_counts=True)
    return int(((counts > 1) & (np.bincount(codes, weights=of_new) > 0)).sum())


def merged_streams(facts: Facts) -> RuleOutcome:
    """Engines that compute rows, whose readers of changes get no merged rows."""
    options = facts.options
    if options.merge_engine not in _COMPUTING:
        return RuleOutcome(f"merge-engine {options.merge_engine.value} passes rows on")
    producer, readers = options.changelog_producer, sorted(facts.consumers)
    line = f"changelog-producer {producer.value}, {many(len(readers), 'consumer')}"
    wrong = producer is ChangelogProducer.INPUT or (producer is ChangelogProducer.NONE and readers)
    if not wrong:
        return RuleOutcome(line)
    evidence: Evidence = {
        "merge_engine": options.merge_engine.value,
        "changelog_producer": producer.value,
        "consumers": ", ".join(readers[:5]) or "none",
    }
    what = (
        "changes have the rows that were written, not the merged ones"
        if producer is ChangelogProducer.INPUT
        else "streams are refused: the engine needs a producer of merged rows"
    )
    severity: Severity = "risk" if readers else "note"
    call = set_call(**{"changelog-producer": "lookup"})
    finding = Finding("unmerged changes", severity, "changelog", what, call, evidence, asks=_LOOKED_UP)
    return RuleOutcome(line, (finding,))


def dropped_deletes(facts: Facts) -> RuleOutcome:
    """Options that drop deletes without a word, and deletes in files of an engine that cannot read them."""
    options = facts.options
    if not facts.keyed:
        return RuleOutcome("append table: rows are marked as deleted")
    deletes = int(facts.places.deletes.sum())
    line = f"merge-engine {options.merge_engine.value}, {many(deletes, 'delete')} in files"
    ignoring = [k for k, v in facts.schema.options.items() if v.lower() == "true" and _drops(k)]
    if ignoring:
        return RuleOutcome(line, (_ignored_deletes(ignoring, deletes),))
    partial = options.merge_engine is MergeEngine.PARTIAL_UPDATE
    grouped = any(k.startswith("fields.") and k.endswith(".sequence-group") for k in facts.schema.options)
    takes = options.partial_update_removes or bool(options.partial_update_removing_groups) or grouped
    refused = (partial and not takes) or options.merge_engine is MergeEngine.FIRST_ROW
    if not refused or not deletes:
        return RuleOutcome(line)
    evidence: Evidence = {"deletes_in_files": deletes, "merge_engine": options.merge_engine.value}
    what = "files hold deletes that the merge engine refuses: reads of those keys fail"
    call = set_call(**{"ignore-delete": "true"})
    asks = "deletes are then passed over without a word: rows that they should take away stay"
    finding = Finding("refused deletes", "risk", "table", what, call, evidence, asks=asks)
    return RuleOutcome(line, (finding,))


def _ignored_deletes(options: Sequence[str], deletes: int) -> Finding:
    evidence: Evidence = {"options": ", ".join(options), "deletes_in_files": deletes}
    what = "options drop deletes without a word: what is deleted at the source stays"
    call = (MendingCall("reset_options", tuple(options)),)
    asks = "from then on deletes take rows away; those that were dropped do not come back"
    return Finding("dropped deletes", "note", "table", what, call, evidence, asks=asks)


def _drops(option: str) -> bool:
    """Whether an option that is on lets −D rows, or what they take away, be lost."""
    return option.endswith("ignore-delete") or (
        option.startswith("fields.") and option.endswith(".ignore-retract")
    )


def interleaved_writers(facts: Facts) -> RuleOutcome:
    """Streams that commit in turns to a table in which nothing but their order says which row is newer."""
    if not facts.keyed:
        return RuleOutcome("append table: rows do not replace each other")
    users = [s.commit_user for s in facts.commits if s.commit_kind != COMPACT]
    turns = _turns(users)
    line = f"{many(len(set(users)), 'commit user')}; {turns:,} times one went on after another"
    options = facts.options
    if options.sequence_fields or options.merge_engine is MergeEngine.AGGREGATION or turns < 2:
        order = f"; sequence.field is {options.sequence_field}" if options.sequence_fields else ""
        return RuleOutcome(line + order)
    column = _time_column(facts)
    evidence: Evidence = {
        "users": len(set(users)),
        "turns": turns,
        "snapshots": len(users),
        "equal_sequences": _equal_sequences(facts),
    }
    what = "streams write in turns without a sequence.field: of one key, who commits last wins"
    call = set_call(**{"sequence.field": column or "<column that rises with each change>"})
    if column is None:
        call = (look(python(call)),)
    asks = (
        "" if column is None else f"does {column} rise with each change of a key? The largest one wins then"
    )
    finding = Finding("interleaved writers", "risk", "table", what, call, evidence, column is not None, asks)
    return RuleOutcome(line, (finding,))


def lost_races(facts: Facts) -> RuleOutcome:
    """Commits that tried again, since others were first."""
    races = [LostRaces.of(s.properties) for s in facts.commits]
    retries, lost_ms = sum(r.retries for r in races), sum(r.millis for r in races)
    line = f"{many(retries, 'lost race')} in {many(len(races), 'commit')}"
    if retries < facts.limits.lost_races:
        return RuleOutcome(line)
    span_ms = facts.commits[-1].time_millis - facts.commits[0].time_millis
    per_hour = retries * 3_600_000 / max(span_ms, 1)
    evidence: Evidence = {
        "per_hour": round(per_hour, 1),
        "retries": retries,
        "commits": len(races),
        "users": len({s.commit_user for s in facts.commits}),
        "seconds": lost_ms / 1000,
    }
    what = (
        f"others were first {retries:,} times in {len(races):,} commits, {duration(lost_ms)} were lost: "
        "commit more rows at a time, or by fewer writers; compactions by one service alone"
    )
    calls = (look("table.inspect.commits()"),)
    return RuleOutcome(line, (Finding("commit races", "slow", "table", what, calls, evidence, mends=False),))


def _turns(users: Sequence[str]) -> int:
    """How often a user commits again after another one did."""
    before: set[str] = set()
    turns, last = 0, None
    for user in users:
        turns += user != last and user in before
        before.add(user)
        last = user
    return turns


def _equal_sequences(facts: Facts) -> int:
    """Level-0 files whose sequence numbers overlap those of another: rows that only a tie decides."""
    if not len(facts.live):
        return 0
    at0 = facts.live.numbers("level") == 0
    low, high = facts.live.numbers("min_sequence")[at0], facts.live.numbers("max_sequence")[at0]
    group = facts.group[at0]
    order = np.lexsort((low, group))
    same = group[order][1:] == group[order][:-1]
    return int((same & (low[order][1:] <= high[order][:-1])).sum())


def _time_column(facts: Facts) -> str | None:
    """A column that may say which row is newer: a time if there is one, else a whole number."""
    keys = set(facts.schema.primary_keys) | set(facts.schema.partition_keys)
    for root in _TIMES:
        for f in facts.schema.fields:
            if f.type.root == root and f.name not in keys:
                return f.name
    return None


def narrow_key(facts: Facts) -> RuleOutcome:
    """A primary key that is unique in each partition only."""
    missing = [k for k in facts.schema.partition_keys if k not in facts.schema.primary_keys]
    if not facts.keyed or not missing or facts.options.bucket <= 0:
        return RuleOutcome("rows of a key are in one partition" if facts.keyed else "no primary key")
    line = f"the primary key lacks {', '.join(missing)}"
    partitions = len(set(facts.places.partition))
    evidence: Evidence = {"missing": ", ".join(missing), "partitions": partitions}
    what = f"{line}: with fixed buckets a key is unique in each partition only, and may be in many of them"
    key = [*facts.schema.primary_keys, *missing]
    call = (look(f"ts.advise_buckets(table, primary_key={key})"),)
    finding = Finding("narrow key", "risk", "table", what, call, evidence, False)
    return RuleOutcome(line, (finding,))


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
        cluster_log.require_whole(facts.store, log)
        waiting = cluster_log.waiting_rows(facts.store, log)
        text = cluster_log.warning(log, waiting)
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
        problem = lack_of(facts.store, log, facts.store.snapshots.latest())
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
