"""Which options a table's own history recommends: each candidate replayed over it, the cheapest that keeps to
the policy chosen.

The replay is `Table.what_if`: metadata alone, the engine's own rules. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.core.quantities import size
from tablestore.insight.simulator import HistoryWhatIf
from tablestore.insight.simulator.replay_result import Replay
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.maintenance.policy import MaintenancePolicy
from tablestore.maintenance.work import TRIGGER
from tablestore.table.table import Table

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
