"""What if a table had had other options: its history replayed under its own and under others, side by side.

Both sides are replays, so what estimates get wrong they get wrong alike; how far the replay under the table's
own options is from what really happened is said, too. Pure. Used by `Table.what_if`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import pyarrow as pa

from tablestore.lsm import quantities
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.simulator.replay import History, Replay, ReplayRow

_ARROW = {"int": pa.int64(), "str": pa.string(), "float": pa.float64()}
REPLAYED = pa.schema(
    [
        pa.field("variant", pa.string()),
        *(pa.field(f.name, _ARROW[str(f.type).split(" |")[0]]) for f in fields(ReplayRow)),
    ]
)
AS_IT_WAS, CHANGED = "as it was", "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One number under the table's own options and under the others."""

    name: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """After / before, None where that says nothing."""
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def text(self) -> str:
        """`write amplification     4.10     2.95    −28 %`."""
        change = "" if self.ratio is None or self.ratio == 1 else f"{100 * (self.ratio - 1):+.0f} %"
        show = _bytes if self.name.startswith("bytes") else _number
        return f"{self.name:<22}{show(self.before):>12}{show(self.after):>12}  {change}".rstrip()


def _bytes(value: float | None) -> str:
    return "–" if value is None else quantities.size(round(value))


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


class WhatIf:
    """A history under its own options (`actual`) and under `options` (`changed`). Immutable."""

    def __init__(self, history: History, options: CompactionOptions, asked: Mapping[str, Any]) -> None:
        self.history, self.options, self.asked = history, options, dict(asked)
        self.actual: Replay = history.replay()
        self.changed: Replay = history.replay(options)

    @cached_property
    def real_write_amplification(self) -> float | None:
        """What the table's snapshots tell, without any replay."""
        accounts = self.history.ledger().accounts.values()
        ingested = sum(a.ingested for a in accounts)
        return (ingested + sum(a.compacted for a in accounts)) / ingested if ingested else None

    @property
    def reproduced(self) -> bool:
        """Whether the replay under the table's own options ends with the table's own files."""
        real, found = self.history.real, self.actual.levels
        return all(
            {(f.level, f.file_name) for f in real[place].files}
            == {(f.level, f.file_name) for f in found[place].files}
            for place in real
        )

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Each number on both sides."""
        sides = self.actual, self.changed

        def pair(name: str, value: Any) -> Difference:
            return Difference(name, *(value(side) for side in sides))

        return (
            pair("write amplification", lambda r: r.write_amplification),
            pair("compactions", lambda r: r.total("compactions")),
            pair("write stalls", lambda r: r.total("stalls")),
            pair("bytes compacted", lambda r: r.total("bytes_compacted")),
            pair("bytes moved", lambda r: r.total("bytes_moved")),
            pair("bytes live", lambda r: r.total("live_bytes")),
            pair("files live", lambda r: r.total("files")),
            pair("runs, mean", lambda r: r.mean("runs")),
            pair("runs, most", lambda r: r.most_runs),
            pair("files a key opens, mean", lambda r: r.mean("point_files")),
            pair("bytes a key opens, mean", lambda r: r.mean("point_bytes")),
        )

    @property
    def trust(self) -> str:
        """How far the replay can be believed, in numbers."""
        history, real = self.history, self.real_write_amplification
        known, estimated = self.changed.known, self.changed.estimated
        same = "ends with the same files" if self.reproduced else "ends with other files"
        lines = [
            f"replayed under its own options the table {same}; write amplification "
            f"{_number(self.actual.write_amplification)}, really {_number(real)}"
        ]
        if history.unexplained:
            many = len(history.unexplained)
            lines.append(f"{many:,} of {history.commits:,} commits compacted by no rule of these options")
        lines.append(f"{quantities.many(known, 'merge')} gave files the table had, {estimated:,} estimated")
        return "\n".join(lines)

    def to_arrow(self) -> pa.Table:
        """Both sides, a row for each commit to each bucket; `variant` tells them apart."""
        rows = [(AS_IT_WAS, r) for r in self.actual.rows] + [(CHANGED, r) for r in self.changed.rows]
        columns = [[variant for variant, _ in rows]]
        columns += [[getattr(r, f.name) for _, r in rows] for f in fields(ReplayRow)]
        return pa.table(
            [pa.array(c, f.type) for c, f in zip(columns, REPLAYED, strict=True)], schema=REPLAYED
        )

    def __repr__(self) -> str:
        asked = ", ".join(f"{k} = {v}" for k, v in self.asked.items())
        head = f"{'':<22}{AS_IT_WAS:>12}{CHANGED:>12}"
        return "\n".join([f"WhatIf({asked})", head, *(d.text for d in self.differences), self.trust])
