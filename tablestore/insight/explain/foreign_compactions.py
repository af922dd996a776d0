"""Compactions of other engines explained: the files before each, and what this engine's pick says of them.

Paimon keeps no reasons. Its manifests name the files of a bucket before the commit, and our pick is a
function of these, of the table's options then and of the time. So its verdict stands beside what was done:
the rules are those of Paimon 2.0.0, and where the two differ the other engine was asked to compact, or ran
under options of its own. In the same way the sums of our own picks are computed again where a snapshot of
very many buckets had no room for them. Reads the manifests before one snapshot. Used by inspection and,
before snapshots expire, by history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tablestore.core.options.table_options import TableOptions
from tablestore.format.compaction_record import CompactionRecord, MergeShape, inputs_of
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.lsm.compaction import recording
from tablestore.lsm.compaction.decision import Decision, shape_text
from tablestore.lsm.compaction.loop import pick
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.levels.sorted_run import Levels
from tablestore.meta.compaction_history import lacks_trials
from tablestore.meta.store import Store


def explained(
    store: Store, snapshot: Snapshot, records: Sequence[CompactionRecord]
) -> tuple[CompactionRecord, ...]:
    """The records of one snapshot: those of another engine with the verdict of our pick on the same files,
    ours with the sums that their snapshot had no room for."""
    if not store.schema.primary_keys or not any(map(lacks_trials, records)):
        return tuple(records)
    options = store.options_of(snapshot.schema_id)
    local_ms = store.env.local_ms(snapshot.time_millis)
    before = _before(store, snapshot)
    compactions = []
    for record in records:
        files = before.get((record.partition, record.bucket))
        if lacks_trials(record) and record.bucket >= 0 and files:
            levels = Levels.of(files, options.num_levels, store.key_order)
            decision = pick(levels, CompactionOptions.of(options), PickContext.at(local_ms, levels))
            completed = _with_verdict if record.rule is None else _with_trials
            record = completed(record, levels, decision, options)
        compactions.append(record)
    return tuple(compactions)


def _with_trials(
    record: CompactionRecord, levels: Levels, decision: Decision, options: TableOptions
) -> CompactionRecord:
    """Our own record with the trials of the pick, if that is the one: a later one of its commit began with
    what the first had made."""
    unit = decision.unit
    if unit is None or (decision.reason.rule, unit.shape) != (record.rule, record.shape):
        return record
    return replace(record, trials=recording.kept_trials(decision.reason))


def _before(store: Store, snapshot: Snapshot) -> dict[tuple[str, int], list[DataFileMeta]]:
    """Live files before a snapshot by partition (text) and bucket."""
    files: dict[tuple[str, int], list[DataFileMeta]] = {}
    texts: dict[bytes, str] = {}
    for e in store.manifests.entries_before(snapshot):
        text = texts.get(e.partition)
        if text is None:
            text = texts[e.partition] = store.partition_text(e.partition)
        files.setdefault((text, e.bucket), []).append(e.file)
    return files


def _with_verdict(
    record: CompactionRecord, levels: Levels, decision: Decision, options: TableOptions
) -> CompactionRecord:
    """The record with the layout before, the verdict of our rules and their trials."""
    there = MergeShape(levels.oldest_level, inputs_of(levels.files))
    layout = shape_text(there).rsplit(" → ", 1)[0]
    size = shape_text(there).rsplit(", ", 1)[1]
    unit = decision.unit
    if unit is None:
        verdict = f"taken nothing, so it was asked for: {decision.reason.text}"
    else:
        same = unit.shape.output_level == record.output_level and _moved_alike(unit.shape, record)
        what = "done the same" if same else f"taken {unit.text}"
        verdict = f"{what}, because {decision.reason.rule}: {decision.reason.text}"
    text = f"before it: {layout}, {size}; {options.strategy.value} compaction here would have {verdict}"
    return replace(record, text=text, trials=recording.kept_trials(decision.reason, carried_out=False))


def _moved_alike(shape: MergeShape, record: CompactionRecord) -> bool:
    """Whether a unit takes as many files and bytes as the commit replaced."""
    taken = MergeShape(record.output_level, record.inputs)
    return (shape.files, shape.size) == (taken.files, taken.size)
