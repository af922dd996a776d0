"""Rules about the layout of a table: sorted runs, small files, overlap, bucket sizes, skew. Metadata only.

Each rule is a function of `Facts` that says what it looked at and what is wrong. Which compaction is due is
the engine's own `Decision`; nothing here picks files.
"""

from __future__ import annotations

import numpy as np

from tablestore.core.options.table_options import MergeEngine
from tablestore.core.quantities import many
from tablestore.insight.doctor.facts import Facts, added
from tablestore.insight.doctor.finding import (
    Evidence,
    Finding,
    MendingCall,
    RuleOutcome,
    Severity,
    compact_call,
    look,
    set_call,
    size,
    where,
)
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.compaction import append_compaction, recording
from tablestore.lsm.compaction.append_compaction import AppendCompaction
from tablestore.lsm.compaction.decision import Decision
from tablestore.read.scan.split_generator import section_starts

_REWRITTEN = "all rows are written anew, in one commit; while it runs nobody else may write"


def sorted_runs(facts: Facts) -> RuleOutcome:
    """Buckets in which a compaction is due but did not run, or in which none is due in spite of many runs."""
    if not facts.keyed:
        return RuleOutcome("append table: files are not merged")
    places, trigger, stop = facts.places, facts.trigger, facts.rules.stop_trigger
    largest = int(places.runs.max(initial=0))
    crowded = np.flatnonzero((facts.backlog >= max(trigger, 2)) | (places.runs > facts.limits.runs))
    if facts.rules.leveled:  # a level may be over its target with level 0 empty
        crowded = np.flatnonzero(places.runs > 1)
    crowded = crowded[np.argsort(-places.runs[crowded], kind="stable")].tolist()
    line = (
        f"{largest} in the fullest of {many(len(places), 'bucket')}, trigger {trigger}, stop trigger {stop}"
    )
    looked = {p: facts.decision(p) for p in crowded[: facts.limits.decisions]}
    due = [p for p, decision in looked.items() if decision.unit is not None]
    idle = [p for p in looked if p not in due and places.runs[p] > facts.limits.runs]
    more = len(crowded) - len(looked)
    if due and more:
        due += [p for p in crowded[len(looked) :] if facts.backlog[p] > trigger]
    findings = [_due(facts, due, looked[due[0]])] if due else []
    findings += [_idle(facts, idle, looked[idle[0]])] if idle else []
    if not findings and len(places):  # why no compaction runs is a question, too
        first = int(places.runs.argmax())
        decision = looked[first] if first in looked else facts.decision(first)
        line += f"; {facts.name(first)}: {decision.text}"
    return RuleOutcome(line, tuple(findings))


def _due(facts: Facts, due: list[int], worst: Decision) -> Finding:
    places, trigger, stop = facts.places, facts.trigger, facts.rules.stop_trigger
    runs, backlog = int(places.runs[due[0]]), int(facts.backlog[due[0]])
    left = max(0, stop - backlog + 1)
    evidence: Evidence = {
        "runs": runs,
        "trigger": trigger,
        "stop_trigger": stop,
        "flushes_until_stall": left,
        "buckets": len(due),
        "bytes": int(places.size[due].sum()),
        "rule": worst.reason.rule,
        "sum": worst.reason.text,
    }
    what = f"{many(runs, 'sorted run')} to merge in every read; {_why(facts)}"
    severity: Severity = "slow" if left or facts.options.write_only else "risk"
    mode = "full" if trigger > facts.limits.runs else "until_quiet"
    call = compact_call(facts, due, **{mode: True})
    return Finding("sorted runs", severity, where(facts, due), what, call, evidence)


def _why(facts: Facts) -> str:
    """Why a compaction that is due has not run."""
    last = facts.last_compaction
    since = f"the last COMPACT snapshot is #{last}"
    if last is None:
        since = f"no COMPACT among the last {many(len(facts.commits), 'snapshot')}"
    if facts.options.write_only:
        return f"option write-only leaves compaction to a job of its own; {since}"
    return f"the writers since did not compact (Spark tasks, other engines); {since}"


def _idle(facts: Facts, idle: list[int], worst: Decision) -> Finding:
    places = facts.places
    evidence: Evidence = {
        "runs": int(places.runs[idle[0]]),
        "limit": facts.limits.runs,
        "trigger": facts.trigger,
        "buckets": len(idle),
        "bytes": int(places.size[idle].sum()),
    }
    runs = many(int(places.runs[idle[0]]), "sorted run")
    what = f"{runs}, and no rule asks for a compaction: {worst.reason.text}"
    call = compact_call(facts, idle, full=True)
    return Finding("sorted runs", "slow", where(facts, idle), what, call, evidence)


def small_files(facts: Facts) -> RuleOutcome:
    """Small files that could be combined to fewer; those of level 0 are the matter of `sorted_runs`."""
    options, live = facts.options, facts.live
    target = options.target_bytes(keyed=facts.keyed)
    below = int(target * options.small_file_ratio)
    small = facts.sizes < below
    if facts.keyed:
        small &= live.numbers("level") > 0
    number = np.bincount(facts.group[small], minlength=len(facts.places))
    small_bytes = added(facts.group[small], facts.sizes[small], len(facts.places))
    saved = number - -(-small_bytes // target)
    ill = np.flatnonzero(saved >= facts.limits.small_files)
    line = f"{int(small.sum()):,} of {many(len(live), 'file')} below {size(below)}"
    line += f", combining saves {int(saved.max(initial=0)):,} in one bucket at most" if len(live) else ""
    if not facts.keyed and len(live):
        line += f"; {facts.name(int(number.argmax()))}: {_append_reason(facts, int(number.argmax()))}"
    if not len(ill):
        return RuleOutcome(line)
    ill = ill[np.argsort(-saved[ill], kind="stable")].tolist()
    evidence: Evidence = {
        "small_files": int(number[ill].sum()),
        "small_bytes": int(small_bytes[ill].sum()),
        "mean_bytes": int(small_bytes[ill].sum() // number[ill].sum()),
        "target_bytes": target,
        "saved_files": int(saved[ill].sum()),
        "buckets": len(ill),
    }
    alone = facts.keyed and bool((facts.places.runs[ill] == 1).any())
    call = (MendingCall("rescale", (options.bucket,)),) if alone else compact_call(facts, ill, full=True)
    enough = int(-(-small_bytes[ill[0]] // target))
    what = f"{many(int(number[ill[0]]), 'small file')} where {enough:,} would do"
    mends = not alone or options.bucket > 0
    asks = _REWRITTEN if alone else ""
    finding = Finding("small files", "slow", where(facts, ill), what, call, evidence, mends, asks)
    return RuleOutcome(line, (finding,))


def _append_reason(facts: Facts, place: int) -> str:
    """What the compaction of an append table would do there, in the engine's own words."""
    files = [e.file for e in facts.live.filter(facts.group == place)]
    wanted = AppendCompaction.of(facts.options)
    if facts.options.bucket > 0:
        return append_compaction.pick(files, wanted).text
    return append_compaction.pack(files, wanted, all_small=False)[0].text


def key_overlap(facts: Facts) -> RuleOutcome:
    """Many bytes that are merged in every scan for the sake of a few newer rows."""
    options = facts.options
    if not facts.keyed:
        return RuleOutcome("append table: files are not merged")
    if options.deletion_vectors or options.merge_engine is MergeEngine.FIRST_ROW:
        return RuleOutcome("files are read as they are, without a merge")
    if not len(facts.live):
        return RuleOutcome("no files")
    merged, newer = _merged(facts)
    total, all_merged = int(facts.sizes.sum()), int(merged.sum())
    line = f"{size(all_merged)} of {size(total)} are merged in a scan"
    ill = (merged >= facts.limits.merged_bytes) & (newer <= facts.limits.newer_share * merged)
    chosen = np.flatnonzero(ill)
    if not len(chosen):
        return RuleOutcome(line)
    chosen = chosen[np.argsort(-merged[chosen], kind="stable")].tolist()
    evidence: Evidence = {
        "merged_bytes": int(merged[chosen].sum()),
        "newer_bytes": int(newer[chosen].sum()),
        "bytes": total,
        "share": float(merged[chosen].sum() / max(total, 1)),
        "buckets": len(chosen),
    }
    what = "a few newer rows lie over keys of large files, which are merged instead of read as they are"
    call = compact_call(facts, chosen, full=True)
    return RuleOutcome(line, (Finding("key overlap", "slow", where(facts, chosen), what, call, evidence),))


def _merged(facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """For each bucket: bytes of the files that overlap others, and those of them in newer levels than its
    oldest."""
    live, group = facts.live, facts.group
    order, starts = section_starts(live, group, facts.store.key_types, facts.store.key_order)
    sizes, lengths = facts.sizes[order], np.diff(np.r_[starts, len(order)])
    overlapping = np.repeat(lengths > 1, lengths)
    merged = added(group[order][overlapping], sizes[overlapping], len(facts.places))
    levels = live.numbers("level")[order]
    oldest = np.zeros(len(facts.places), dtype=np.int64)
    np.maximum.at(oldest, group[order], levels)
    newer = overlapping & (levels < oldest[group[order]])
    return merged, added(group[order][newer], sizes[newer], len(facts.places))


def bucket_size(facts: Facts) -> RuleOutcome:
    """Buckets beyond Paimon's guidance of 200 MB to 1 GB; for fixed numbers of buckets."""
    places, options, limits = facts.places, facts.options, facts.limits
    if options.bucket <= 0 or not len(places):
        return RuleOutcome("no fixed number of buckets" if len(places) else "no files")
    largest, total = int(places.size.max()), int(places.size.sum())
    line = f"{size(largest)} the largest, {size(total // len(places))} the mean of {len(places):,}"
    if largest > limits.bucket_bytes:
        return RuleOutcome(line, (_too_large(facts),))
    partitions: dict[bytes, list[int]] = {}
    for i, p in enumerate(places.partition):
        partitions.setdefault(p, []).append(i)
    sizes = [int(places.size[some].sum()) for some in partitions.values()]
    needless = options.bucket >= limits.many_buckets and max(sizes) < options.bucket * limits.bucket_min_bytes
    if not needless or len(places) < limits.many_buckets:
        return RuleOutcome(line)
    wanted = max(1, -(-max(sizes) // (limits.bucket_bytes // 2)))
    evidence: Evidence = {
        "buckets": options.bucket,
        "largest_partition_bytes": max(sizes),
        "mean_bytes": total // len(places),
        "guidance_min_bytes": 200_000_000,
        "proposed": wanted,
    }
    what = f"{options.bucket} buckets of {size(total // len(places))} each: many small files, unless it grows"
    call = (MendingCall("rescale", (wanted,)),)
    finding = Finding("bucket size", "note", "table", what, call, evidence, asks=_REWRITTEN)
    return RuleOutcome(line, (finding,))


def _too_large(facts: Facts) -> Finding:
    places, limits = facts.places, facts.limits
    over = np.flatnonzero(places.size > limits.bucket_bytes)
    over = over[np.argsort(-places.size[over], kind="stable")].tolist()
    largest = int(places.size[over[0]])
    factor = -(-largest // max(limits.bucket_bytes // 2, 1))
    wanted = int(places.total[over[0]]) * factor
    evidence: Evidence = {
        "bucket_bytes": largest,
        "limit_bytes": limits.bucket_bytes,
        "buckets_over": len(over),
        "buckets": facts.options.bucket,
        "proposed": wanted,
    }
    what = f"{size(largest)} in one bucket: one writer and one compaction at a time work on all of it"
    call = (MendingCall("rescale", (wanted,)),)
    return Finding("bucket size", "slow", where(facts, over), what, call, evidence, asks=_REWRITTEN)


def bucket_skew(facts: Facts) -> RuleOutcome:
    """One bucket much larger than the others of its partition."""
    places, options, limits = facts.places, facts.options, facts.limits
    if options.bucket <= 1 or not len(places):
        return RuleOutcome("fewer than two fixed buckets" if len(places) else "no files")
    codes = np.unique(np.array(places.partition, dtype=object), return_inverse=True)[1]
    sums = added(codes, places.size, int(codes.max()) + 1)
    means = sums[codes] / np.maximum(places.total, 1)
    ratio = places.size / np.maximum(means, 1)
    line = f"the largest bucket holds {float(ratio.max()):.2f} times the mean of its partition"
    ill = np.flatnonzero((ratio > limits.skew) & (places.size > limits.skew_bytes))
    if not len(ill):
        return RuleOutcome(line)
    ill = ill[np.argsort(-ratio[ill], kind="stable")].tolist()
    key = ", ".join(facts.schema.bucket_keys)
    evidence: Evidence = {
        "times_mean": float(ratio[ill[0]]),
        "bucket_bytes": int(places.size[ill[0]]),
        "mean_bytes": int(means[ill[0]]),
        "rows": int(places.rows[ill[0]]),
        "bucket_key": key,
    }
    what = f"rows crowd in one bucket: few values of the bucket key ({key}), or values that hash alike"
    call = (look(f"ts.advise_buckets(table, bucket_key={list(facts.schema.bucket_keys)})"),)
    return RuleOutcome(
        line, (Finding("bucket skew", "slow", where(facts, ill), what, call, evidence, False),)
    )


def partition_skew(facts: Facts) -> RuleOutcome:
    """One partition so much larger than the others that one number of buckets cannot fit all."""
    places, options, limits = facts.places, facts.options, facts.limits
    if not facts.schema.partition_keys or not len(places):
        return RuleOutcome("no partitions")
    distinct, codes = np.unique(np.array(places.partition, dtype=object), return_inverse=True)
    sums = added(codes, places.size, len(distinct))
    median, largest = float(np.median(sums)), int(sums.max())
    line = f"{size(int(median))} the one in the middle of {len(distinct):,}, {size(largest)} the largest"
    buckets = max(options.bucket, 1)
    ill = len(distinct) > 3 and largest > limits.skew * max(median, 1) and largest > limits.skew_bytes
    over = largest // buckets > limits.bucket_bytes and median // buckets < limits.bucket_min_bytes
    if not ill or not over or options.bucket == POSTPONE_BUCKET:
        return RuleOutcome(line)
    evidence: Evidence = {
        "partitions": len(distinct),
        "largest_bytes": largest,
        "median_bytes": int(median),
        "buckets": options.bucket,
    }
    name = facts.store.partition_text(distinct[int(sums.argmax())])
    what = "one number of buckets is too few for this partition and too many for the others"
    call = (look("ts.advise_buckets(table)"),)
    return RuleOutcome(line, (Finding("partition skew", "slow", name, what, call, evidence, False),))


def write_stalls(facts: Facts) -> RuleOutcome:
    """Writers that waited for compaction, at fewer runs than the stop trigger allows now."""
    stalled = [r for r in facts.records if r.stalled]
    line = f"{many(len(stalled), 'wait')} for compaction in {many(len(facts.commits), 'commit')}"
    again = [r for r in stalled if recording.backlog(r) > facts.rules.stop_trigger]
    if len(again) < facts.limits.stalls:
        return RuleOutcome(line)
    worst = recording.of(again)[0]
    runs = max(map(recording.backlog, again))
    evidence: Evidence = {
        "waits": len(again),
        "seconds": sum(r.millis or 0 for r in again) / 1000,
        "runs": runs,
        "stop_trigger": facts.rules.stop_trigger,
        "read_bytes": sum(r.bytes_read for r in again),
        "commits": len(facts.commits),
    }
    what = f"writers flush faster than runs are merged; a larger write-buffer-size flushes less; {worst.text}"
    call = set_call(**{"num-sorted-run.stop-trigger": runs + 1})
    where_ = "/".join(t for t in (worst.partition, f"bucket-{worst.bucket}") if t)
    asks = f"reads then merge up to {runs + 1} runs a bucket before writers wait"
    return RuleOutcome(line, (Finding("write stalls", "slow", where_, what, call, evidence, asks=asks),))


def stop_trigger(facts: Facts) -> RuleOutcome:
    """A stop trigger below the compaction trigger: writers wait before any rule asks for a merge."""
    if not facts.keyed:
        return RuleOutcome("append table: writers do not wait for merges")
    trigger, stop = facts.trigger, facts.rules.stop_trigger
    line = f"compaction from {trigger} runs on, writers wait above {stop}"
    if stop >= trigger:
        return RuleOutcome(line)
    what = "writers wait for compactions that no rule asks for yet"
    evidence: Evidence = {"trigger": trigger, "stop_trigger": stop}
    call = set_call(**{"num-sorted-run.stop-trigger": trigger + 3})
    return RuleOutcome(line, (Finding("stop trigger", "slow", "table", what, call, evidence),))
