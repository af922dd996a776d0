"""Two sets of options side by side: the same commits carried out under each, in numbers and in a sentence.

`actual` is A, the baseline; `changed` is B. Both are replays, so errors of estimates are alike on both sides.
Pure. `HistoryWhatIf` is of a table's history, `WorkloadWhatIf` of a workload of the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from tablestore.core import quantities, rich
from tablestore.format.result_tables import table_of
from tablestore.insight.simulator.occasions import Place
from tablestore.insight.simulator.replay_result import Replay, ReplayRow

_ARROW = {"int": pa.int64(), "str": pa.string(), "float": pa.float64(), "bool": pa.bool_()}
REPLAYED = pa.schema(
    [
        pa.field("variant", pa.string()),
        *(pa.field(f.name, _ARROW[str(f.type).split(" |")[0]]) for f in fields(ReplayRow)),
    ]
)
AS_IT_WAS, CHANGED = "as it was", "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One number under the one options and under the others."""

    name: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """After / before, None where that says nothing."""
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def change(self) -> str:
        """`-28 %`, empty where nothing changes."""
        return "" if self.ratio is None or self.ratio == 1 else f"{100 * (self.ratio - 1):+.0f} %"

    @property
    def values(self) -> tuple[str, str]:
        """Both numbers in words."""
        show = _bytes if self.name.startswith("bytes") else shown
        return show(self.before), show(self.after)

    @property
    def text(self) -> str:
        """`write amplification     4.10     2.95    -28 %`."""
        before, after = self.values
        return f"{self.name:<22}{before:>12}{after:>12}  {self.change}".rstrip()


def _bytes(value: float | None) -> str:
    return "–" if value is None else quantities.size(round(value))


def shown(value: float | None) -> str:
    """A count, or a number with two decimals."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


class WhatIf:
    """The same commits under two sets of options; `asked` are those of `changed`. Immutable."""

    names = (AS_IT_WAS, CHANGED)

    def __init__(self, actual: Replay, changed: Replay, asked: Mapping[str, Any]) -> None:
        self.actual, self.changed, self.asked = actual, changed, dict(asked)
        self._ends: dict[Place, frozenset[bytes]] = {}

    @property
    def trust(self) -> str:
        """How reliable the numbers are."""
        raise NotImplementedError

    @property
    def places(self) -> tuple[Place, ...]:
        """The buckets, those with most live bytes first."""
        live = {place: sum(f.file_size for f in levels.files) for place, levels in self.actual.levels.items()}
        return tuple(sorted(live, key=lambda place: (-live[place], place)))

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
            pair("bytes of all files", lambda r: r.total("live_bytes")),
            pair("files", lambda r: r.total("files")),
            pair("runs, mean", lambda r: r.mean("runs")),
            pair("runs, most", lambda r: r.most_runs),
            pair("files a key opens, mean", lambda r: r.mean("point_files")),
            pair("bytes a key opens, mean", lambda r: r.mean("point_bytes")),
        )

    def verdict(self, who: str = "It") -> str:
        """One sentence on what the change does to work, reads and space.

        `It compacts 11 times instead of 33 and writes 1.36 GiB less; a reader merges 5.2 runs on average
        instead of 4.1, and the files at the end hold 155 MiB more.`
        """
        by_name = {d.name: d for d in self.differences}
        often, work = by_name["compactions"], by_name["bytes compacted"]
        runs, live = by_name["runs, mean"], by_name["bytes of all files"]
        times = f"compacts {_instead(often, '{:,.0f}', ' times')} and writes {_more(work)}"
        reads = f"a reader merges {_instead(runs, '{:.1f}', ' runs on average')}"
        return f"{who} {times}; {reads}, and the files at the end hold {_more(live)}."

    def levels(self, place: Place, commit: int) -> tuple[pa.Table, pa.Table]:
        """The files of a bucket after its commit of that number on both sides, as `inspect.levels()` has
        them; all commits of both sides share one key axis."""
        if place not in self._ends:
            self._ends[place] = frozenset(self._extremes(place))
        ends = self._ends[place]
        actual, other = (side.levels_table(place, commit, among=ends) for side in (self.actual, self.changed))
        return actual, other

    def _extremes(self, place: Place) -> set[bytes]:
        """Smallest and greatest key of all files that ever were."""
        key = self.actual.levels[place].key
        ends = self.actual.steps[place].ends | self.changed.steps[place].ends
        return {min(ends, key=key), max(ends, key=key)} if ends else set()

    def to_arrow(self) -> pa.Table:
        """Both sides, a row for each commit to each bucket; `variant` names the side."""
        sides = zip(self.names, (self.actual, self.changed), strict=True)
        rows = ((name, *(getattr(r, f.name) for f in fields(r))) for name, side in sides for r in side.rows)
        return table_of(REPLAYED, rows)

    def __repr__(self) -> str:
        asked = ", ".join(f"{k} = {v}" for k, v in self.asked.items())
        head = f"{'':<22}{self.names[0]:>12}{self.names[1]:>12}"
        return "\n".join([f"WhatIf({asked})", head, *(d.text for d in self.differences), self.trust])

    def _repr_html_(self) -> str | None:
        return rich.card("what-if", self)


def _instead(difference: Difference, form: str, noun: str) -> str:
    """`11 times instead of 33`, `33 times as before`."""
    before, after = (form.format(value or 0) for value in (difference.before, difference.after))
    return f"{after}{noun} as before" if before == after else f"{after}{noun} instead of {before}"


def _more(difference: Difference) -> str:
    """`1.36 GiB less`, `as much`."""
    by = round((difference.after or 0) - (difference.before or 0))
    return f"{quantities.size(abs(by))} {'more' if by > 0 else 'less'}" if by else "as much"
