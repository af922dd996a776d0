"""What is to be done in a table now, most urgent first: buckets to compact, findings, what is due by time;
and which options its own history recommends.

Which compaction a bucket needs is the engine's own `Decision`, under the table's options and the policy's
trigger; what else is wrong are the doctor's findings. Options are found by `Table.what_if`: each candidate is
replayed over the history, the cheapest that keeps to the policy is chosen. Reads metadata alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CommitConflict, InvalidRequest, TablestoreError
from tablestore.core.options.names import LEVELED
from tablestore.core.quantities import duration, many, size
from tablestore.insight.doctor import Finding
from tablestore.insight.doctor.facts import Facts, Limits
from tablestore.insight.health import Health, health
from tablestore.insight.simulator import HistoryWhatIf
from tablestore.insight.simulator.replay_result import Replay
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.maintenance.policy import MaintenancePolicy
from tablestore.table.lake import Lake
from tablestore.table.table import Table

TRIES = 3
"""How often work is tried where other commits come first."""
WorkKind = Literal["compact", "finding", "partitions", "orphans", "analyze"]
TRIGGER = "num-sorted-run.compaction-trigger"
STRATEGY = "tablestore.compaction.strategy"
CANDIDATES: tuple[Mapping[str, str], ...] = (
    *({STRATEGY: "universal", TRIGGER: str(trigger)} for trigger in (2, 3, 5, 8, 12)),
    {STRATEGY: "leveled"},
)
"""Options that are tried unless others are named."""
_COLUMNS = pa.schema(
    {
        "options": pa.string(),
        "bytes_compacted": pa.int64(),
        "write_amplification": pa.float64(),
        "mean_runs": pa.float64(),
        "most_runs": pa.int64(),
        "live_bytes": pa.int64(),
        "keeps_policy": pa.bool_(),
    }
)
LEVEL0_TRIGGER = LEVELED["level0_file_num_compaction_trigger"]
STALLED, LATE, DUE, LATER = 3, 2, 1, 0
"""How urgent work is: writers wait for it; it is later than the policy allows; a rule or a finding asks for
it; its time has come."""
BY_BUCKETS = ("sorted runs", "stop trigger", "small files", "write stalls")
"""Findings whose remedy is the compaction of buckets, which are looked at one by one."""


@dataclass(frozen=True, slots=True)
class MaintenanceWork:
    """One piece of work: what is done where and why. `size` is the bytes that a compaction reads; `options`
    those of this use of the table; `runs` the sorted runs of the bucket now. `apart`: it touches no more than
    its bucket, so that work in other buckets may go on beside it."""

    table: str
    kind: WorkKind
    why: str
    urgency: int
    where: str = ""
    partition: str = ""
    bucket: int = 0
    size: int = 0
    runs: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    finding: Finding | None = None
    apart: bool = False

    @property
    def order(self) -> tuple[int, int, int, str, str]:
        """The most urgent first, then the bucket with most runs, then the smallest."""
        return -self.urgency, -self.runs, self.size, self.table, self.where

    @property
    def place(self) -> tuple[str, str, str]:
        """What it is, without why."""
        return self.table, self.kind, self.where


def due_work(table: Table, state: Health, name: str, policy: MaintenancePolicy) -> list[MaintenanceWork]:
    """The work in a table, whose own health is `state`, but for what comes by time; the most urgent first."""
    some = [*_compactions(table, state, name, policy)]
    if policy.findings:
        some += _findings(table, name, compacts=bool(some))
    if policy.partitions and table.partition_by and table.store.options.partition_expiration_ms is not None:
        preview = table.expire_partitions(dry_run=True)
        if preview.partitions:
            why = f"{many(len(preview.partitions), 'partition')} beyond partition.expiration-time"
            some.append(MaintenanceWork(name, "partitions", why, DUE))
    return sorted(some, key=lambda work: work.order)


def _compactions(
    table: Table, state: Health, name: str, policy: MaintenancePolicy
) -> Iterator[MaintenanceWork]:
    """The buckets that a rule, the policy's runs or its freshness wants compacted."""
    if state.snapshot is None:
        return
    options, snapshot = _with_runs(table, policy), table.store.snapshots.get(state.snapshot)
    if options:
        state = health(table.with_options(options).store, snapshot)
    late = _waits(table.store, snapshot, policy)
    for row in state.buckets.to_pylist():  # a row a bucket
        partition, bucket, runs = row["partition"], row["bucket"], row["runs"]
        where = "/".join(t for t in (partition, f"bucket-{bucket}") if t)
        waited = late.get((partition, bucket))
        stalls = state.merges and state.stop and runs > state.stop
        if row["due"] is not None:
            size, why, wanted = row["due_bytes"], row["reason"] or row["due"], options
        elif waited is not None and runs > 1:
            size, wanted = row["bytes"], {**options, **_picks_level0(table, row)}
            why = f"level 0 waits for {duration(waited)}, freshness {policy.freshness}"
        else:
            continue
        urgency = STALLED if stalls else LATE if waited is not None else DUE
        yield MaintenanceWork(
            *(name, "compact", why, urgency, where, partition, bucket, size, runs),
            options=wanted,
            apart=state.merges,
        )
    if state.waiting:
        why = f"{many(state.waiting, 'file')} in postponed buckets"
        yield MaintenanceWork(name, "compact", why, DUE, "postponed buckets", bucket=-2, options=options)


def _with_runs(table: Table, policy: MaintenancePolicy) -> dict[str, str]:
    """The options under which the engine's rules keep to the policy's runs."""
    store = table.store
    if policy.runs is None or not store.schema.primary_keys:
        return {}
    rules = CompactionOptions.of(store.options)
    if rules.leveled:  # each upper level is a run, too, which no trigger changes
        return {LEVEL0_TRIGGER: str(policy.runs)} if policy.runs < rules.level0_trigger else {}
    return {TRIGGER: str(policy.runs)} if policy.runs < rules.trigger else {}


def _picks_level0(table: Table, row: Mapping[str, Any]) -> dict[str, str]:
    """The trigger at which the rules take the files of level 0, and one run more where there is one file."""
    if CompactionOptions.of(table.store.options).leveled:
        return {LEVEL0_TRIGGER: "1"}
    return {TRIGGER: str(max(row["runs"] - max(row["level0_files"], 2) + 1, 1))}


def _waits(store: Any, snapshot: Any, policy: MaintenancePolicy) -> dict[tuple[str, int], int]:
    """How long the oldest file of level 0 has waited, in milliseconds, in buckets beyond the freshness."""
    limit = policy.milliseconds("freshness")
    if limit is None or not store.schema.primary_keys:
        return {}
    facts = Facts(store, snapshot, Limits())
    live, places = facts.live, facts.places
    level0 = live.numbers("level") == 0
    oldest = np.full(len(places), np.iinfo(np.int64).max)
    np.minimum.at(oldest, facts.group[level0], live.numbers("creation_time_ms")[level0])
    waited = store.env.local_now_ms() - oldest
    return {
        (store.partition_text(places.partition[p]), int(places.bucket[p])): int(waited[p])
        for p in np.flatnonzero((oldest < np.iinfo(np.int64).max) & (waited > limit)).tolist()
    }


def _findings(table: Table, name: str, *, compacts: bool) -> Iterator[MaintenanceWork]:
    """What the doctor finds and mends by itself without an ALTER, but for what buckets bring already."""
    for finding in table.inspect.doctor():
        covered = compacts and any(call.verb == "compact" for call in finding.calls)
        changes = any(call.alters or call.verb in ("rescale", "log.repair") for call in finding.calls)
        if not finding.mends or finding.asks or changes or covered or finding.kind in BY_BUCKETS:
            continue
        where = f"{finding.kind} · {finding.where}"
        size = int(finding.evidence.get("bytes", 0)) if finding.calls[0].verb == "compact" else 0
        yield MaintenanceWork(name, "finding", finding.what, DUE, where, size=size, finding=finding)


@dataclass(frozen=True, slots=True)
class WorkOutcome:
    """What came of a piece of work: in words, and the bytes read and written; or the error, and then nothing
    of it was committed."""

    text: str = ""
    read: int = 0
    written: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """Does a piece of work in a lake. Picklable."""

    lake: Lake

    def __call__(self, work: MaintenanceWork) -> WorkOutcome:
        """What came of it; an error of the store is one, too. A writer that compacts its own buckets may come
        first: then what is left to do is looked for again, `TRIES` times in all. Bytes are those of the last
        try."""
        error = ""
        for _ in range(TRIES):
            try:
                return _outcome(self.lake.table(work.table), work)
            except CommitConflict as e:
                error = f"others were first {TRIES} times: {e}"
            except (TablestoreError, OSError) as e:
                return WorkOutcome(error=str(e) or type(e).__name__)
        return WorkOutcome(error=error)


def _outcome(table: Table, work: MaintenanceWork) -> WorkOutcome:
    if work.kind == "compact":
        own = {**work.options, "write-only": "false"}  # so old snapshots, log and tags go with the commit
        done = table.with_options(own).compact(**_chosen(table, work))
        return WorkOutcome(done.text, done.bytes_read, done.bytes_written)
    if work.kind == "finding":
        assert work.finding is not None, "the work of a finding has it"
        return WorkOutcome(table.mend(work.finding, dry_run=False).text, work.size)
    if work.kind == "partitions":
        return WorkOutcome(repr(table.expire_partitions()))
    if work.kind == "orphans":
        return WorkOutcome(repr(table.remove_orphans(dry_run=False)))
    return WorkOutcome(repr(table.analyze()))


def predicted(table: Table, work: MaintenanceWork) -> tuple[int, int]:
    """The bytes that a compaction would read and write now, as its dry run says; 0 for other work."""
    if work.kind != "compact":
        return 0, 0
    report = table.with_options(work.options).compact(dry_run=True, **_chosen(table, work)).to_arrow()
    return tuple(int(report[name].to_numpy().sum()) for name in ("bytes_read", "bytes_written"))  # type: ignore[return-value]  # two


def _chosen(table: Table, work: MaintenanceWork) -> dict[str, Any]:
    """The bucket as `compact` takes it; all of a table whose buckets are not addressed."""
    named: dict[str, Any] = {"partition": work.partition} if work.partition else {}
    if work.bucket >= 0 and table.store.schema.primary_keys:
        named["bucket"] = work.bucket
    return named


@dataclass(frozen=True, slots=True)
class OptionAdvice:
    """What each candidate would have done. `candidates` has a row for each, the cheapest first, "as it was"
    among them; `chosen` are the options of the cheapest that keeps to the policy: empty where those of the
    table do, None where no candidate does. `trust` says how reliable the replays are."""

    table: str
    candidates: pa.Table
    chosen: Mapping[str, str] | None
    saves: str
    trust: str

    @property
    def text(self) -> str:
        """The choice, then a line for each candidate."""
        lines = [f"{self.table}: {self.saves}"]
        for row in self.candidates.to_pylist():  # a row a candidate
            keeps = "" if row["keeps_policy"] else ", not by the policy"
            lines.append(
                f"  {row['options']}: compacts {size(row['bytes_compacted'])}, "
                f"runs {row['mean_runs']:.1f} on average, {row['most_runs']:,} at most{keeps}"
            )
        return "\n".join([*lines, *(f"  {line}" for line in self.trust.splitlines())])

    def __repr__(self) -> str:
        return self.text


def advise_options(
    table: Table,
    name: str,
    policy: MaintenancePolicy,
    *,
    candidates: Sequence[Mapping[str, str]] = CANDIDATES,
    progress: Callable[[int, int], None] | None = None,
) -> OptionAdvice:
    """Replay the table's history under each of the candidates that change something.

    A candidate keeps to the policy where its mean of sorted runs is at most the policy's `runs`, or at most
    that of the table's own options where it says none. `progress(done, all)` counts candidates. Raises
    InvalidRequest for a table without sorted runs or without a candidate.
    """
    if not table.store.schema.primary_keys:
        raise InvalidRequest(f"{name} has no primary key: no trigger decides what is compacted there")
    own = CompactionOptions.of(table.store.options)
    some = [o for o in candidates if CompactionOptions.of(table.with_options(o).store.options) != own]
    if not some:
        raise InvalidRequest("no candidate changes anything about compaction: name others")
    first: HistoryWhatIf | None = None
    replays: list[tuple[Mapping[str, str], Replay]] = []
    for number, options in enumerate(some):
        first = table.what_if(options) if first is None else first
        replay = first if number == 0 else first.under(options)
        replays.append((options, replay.changed))
        if progress is not None:
            progress(number + 1, len(some))
    assert first is not None, "there is a candidate"
    return _advice(name, policy, [({}, first.actual), *replays], first.trust)


def _advice(
    name: str, policy: MaintenancePolicy, replays: Sequence[tuple[Mapping[str, str], Replay]], trust: str
) -> OptionAdvice:
    now = replays[0][1]
    most = now.mean("runs") if policy.runs is None else policy.runs
    keeps = [replay.mean("runs") <= most for _, replay in replays]
    order = sorted(range(len(replays)), key=lambda i: (replays[i][1].total("bytes_compacted"), i))
    chosen = next((i for i in order if keeps[i]), None)
    rows = [
        [
            _text(replays[i][0]) or "as it was",
            replays[i][1].total("bytes_compacted"),
            replays[i][1].write_amplification,
            replays[i][1].mean("runs"),
            replays[i][1].most_runs,
            replays[i][1].total("live_bytes"),
            keeps[i],
        ]
        for i in order
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), _COLUMNS, strict=True)]
    options = None if chosen is None else replays[chosen][0]
    saves = _saves(options, now, None if chosen is None else replays[chosen][1], most)
    return OptionAdvice(name, pa.table(arrays, schema=_COLUMNS), options, saves, trust)


def _text(options: Mapping[str, str]) -> str:
    """`tablestore.compaction.strategy = leveled`; universal is left out beside a trigger."""
    named = {k: v for k, v in options.items() if k != STRATEGY or v != "universal"}
    return ", ".join(f"{k} = {v}" for k, v in named.items())


def _saves(options: Mapping[str, str] | None, now: Replay, then: Replay | None, most: float) -> str:
    """The choice in a sentence."""
    if options is None or then is None:
        return f"no candidate keeps to {most:g} runs on average"
    if not options:
        return "its own options are the cheapest that keep to the policy"
    before, after = now.total("bytes_compacted"), then.total("bytes_compacted")
    runs = f"{then.mean('runs'):.1f} runs on average instead of {now.mean('runs'):.1f}"
    if after <= before:
        return f"{_text(options)} would have compacted {size(before - after)} less, with {runs}"
    return f"{_text(options)} keeps to the policy, for {size(after - before)} more compacted; {runs}"
