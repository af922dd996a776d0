"""A table's history replayed under its own options and under others, side by side.

It also says how far the replay under the table's own options is from what really happened. Pure. Used by
`Table.what_if`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from tablestore.core import quantities
from tablestore.core.errors import InvalidRequest
from tablestore.insight.simulator.history_replay import ProgressCallback, ReplayedHistory
from tablestore.insight.simulator.replay_result import Replay
from tablestore.insight.simulator.what_if import WhatIf, shown
from tablestore.lsm.compaction.options import CompactionOptions

Resolve = Callable[[Mapping[str, Any]], tuple[CompactionOptions, dict[str, str]]]


class HistoryWhatIf(WhatIf):
    """A history under its own options, or under those of a baseline (`actual`), and under `options`
    (`changed`). Immutable."""

    def __init__(
        self,
        history: ReplayedHistory,
        options: CompactionOptions,
        asked: Mapping[str, Any],
        *,
        baseline: CompactionOptions | None = None,
        resolve: Resolve | None = None,
        progress: ProgressCallback | None = None,
        actual: Replay | None = None,
    ) -> None:
        self.history, self.options, self.baseline = history, options, baseline
        self._resolve = resolve
        require_change(options, baseline or history.options)
        first = actual or history.replay(baseline, progress=phase(progress, 0, 2))
        second = history.replay(options, progress=progress if actual is not None else phase(progress, 1, 2))
        super().__init__(first, second, asked)

    def under(self, options: Mapping[str, Any], *, progress: ProgressCallback | None = None) -> HistoryWhatIf:
        """The same history and the same A beside a B under other table options; only B is carried out again.

        `progress(done, all)` is called after each commit; what it raises ends the replay.
        """
        if self._resolve is None:
            raise InvalidRequest("options by name need the table, to parse them: call `Table.what_if`")
        wanted, asked = self._resolve(options)
        return HistoryWhatIf(
            self.history,
            wanted,
            asked,
            baseline=self.baseline,
            resolve=self._resolve,
            progress=progress,
            actual=self.actual,
        )

    @cached_property
    def real_write_amplification(self) -> float | None:
        """The write amplification that the table's snapshots show, without any replay."""
        accounts = self.history.ledger().accounts.values()
        ingested = sum(a.ingested for a in accounts)
        return (ingested + sum(a.compacted for a in accounts)) / ingested if ingested else None

    @cached_property
    def own(self) -> Replay:
        """The history under the table's own options."""
        return self.actual if self.baseline is None else self.history.replay()

    @property
    def reproduced(self) -> bool:
        """Whether the replay under the table's own options ends with the table's own files."""
        real, replayed = self.history.real, self.own.levels
        return all(
            {(f.level, f.file_name) for f in real[place].files}
            == {(f.level, f.file_name) for f in replayed[place].files}
            for place in real
        )

    @property
    def trust(self) -> str:
        """How reliable the replay is, in numbers."""
        history, real = self.history, self.real_write_amplification
        measured, estimated = self.changed.known, self.changed.estimated
        same = "ends with the same files" if self.reproduced else "ends with other files"
        lines = [
            f"replayed under its own options the table {same}; write amplification "
            f"{shown(self.own.write_amplification)}, measured {shown(real)}"
        ]
        if history.unexplained:
            many = len(history.unexplained)
            lines.append(f"{many:,} of {history.commits:,} commits compacted by no rule of these options")
        if history.halves:
            buckets = quantities.many(len(history.halves), "bucket")
            left = f"of the first commit to {buckets} only the compaction is left"
            lines.append(f"{left}: it is taken as it was")
        lines.append(
            f"{quantities.many(measured, 'merge')} made files that the table has, {estimated:,} are estimated"
        )
        return "\n".join(lines)


def require_change(options: CompactionOptions, base: CompactionOptions) -> None:
    """Raise InvalidRequest if there is nothing to compare."""
    if options == base:
        raise InvalidRequest("these options change nothing about compaction")


def phase(progress: ProgressCallback | None, number: int, phases: int) -> ProgressCallback | None:
    """The progress of pass `number` of `phases` passes over the same commits, as that of all of them."""
    return None if progress is None else lambda done, whole: progress(number * whole + done, phases * whole)
