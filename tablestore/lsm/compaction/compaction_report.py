"""Compaction: the result of `Table.compact`, with each bucket's pick, its sums, and its forecast or measured
numbers.

It has a `text` to print, `explain()` with every rule, and `to_arrow()`. Made by compactions, dry
runs and simulators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from tablestore.core import quantities, rich
from tablestore.format.result_tables import table_of
from tablestore.lsm.compaction.bucket_pick import FILES, SCHEMA, ForecastOfPick, Pick

_WIDTH = 110
_SHOWN = 20  # buckets with work that the text names


class CompactionCommit(Protocol):
    """What a compaction has committed: a dataclass such as `Committed`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def snapshots(self) -> tuple[int, ...]:
        """Ids of the snapshots made, oldest first."""
        ...

    @property
    def snapshot(self) -> int | None:
        """Id of the last snapshot made."""
        ...


@dataclass(frozen=True, slots=True)
class Compaction:
    """Every bucket's pick; `committed` is None after a dry run. Bytes count the files that were read,
    written and only moved to another level."""

    picks: tuple[Pick, ...]
    committed: CompactionCommit | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_moved: int = 0

    @property
    def busy(self) -> tuple[Pick, ...]:
        """Picks that have work."""
        return tuple(p for p in self.picks if p.decision.unit)

    @property
    def forecast(self) -> ForecastOfPick | None:
        """The sum of all forecasts of a dry run; None if there is no work, or it was carried out."""
        some = [p.forecast for p in self.picks if p.forecast is not None]
        return some[0].with_others(some[1:]) if some else None

    def amplification_after(self, files: pa.Table, now: pa.Table) -> Any:
        """What write, read and space amplification would be after a dry run's picks (an
        `AmplificationAfter`); None if
        nothing would be done.

        `files` are the live ones (`inspect.levels()`), `now` is the row of `inspect.amplification()`, of the
        table or of the bucket that is planned, or all rows of its view by snapshot.
        """
        forecast = self.forecast
        return None if forecast is None else forecast.amplification_after(self.picks, files, now)

    @property
    def text(self) -> str:
        """What happened or would happen: a line for each bucket with work, and the sums."""
        busy = self.busy
        if not self.picks:
            return "no buckets: none of the chosen ones has files"
        lines = [p.text for p in busy[:_SHOWN]] or [self.picks[0].text]
        more = len(busy) - _SHOWN if busy else len(self.picks) - 1
        if more > 0:
            lines.append(f"… and {_buckets(more)} {'with work' if busy else 'with nothing to do'}")
        return "\n".join([*lines, *self.sums])

    @property
    def sums(self) -> list[str]:
        """The numbers of all buckets together, forecast or measured, in a line or two; none without work."""
        whole = self.forecast
        if self.committed is None:
            return (
                []
                if whole is None
                else _in_lines(f"dry run, {self._share()}: {whole.text}", f": {whole.output.why}")
            )
        if self.committed.snapshot is None:
            return []
        read, wrote, moved = map(quantities.size, (self.bytes_read, self.bytes_written, self.bytes_moved))
        done = [f"read {read}, wrote {wrote}"] if self.bytes_read or self.bytes_written else []
        done += [f"only moved {moved}"] if self.bytes_moved else []
        return [f"snapshot {self.committed.snapshot}: {', '.join(done) or 'read nothing'}"]

    def _share(self) -> str:
        busy, many = len(self.busy), len(self.picks)
        return f"{busy:,} of {quantities.many(many, 'bucket')}"

    def explain(self) -> str:
        """Every bucket's decision with all rules that were tried and its outcome, then the sums."""
        return "\n".join([*(p.explain() for p in self.picks), *self.sums])

    def to_arrow(self) -> pa.Table:
        """A row for each bucket: its rule, files and bytes in and out, forecast or measured."""
        rows = [p.row() for p in self.picks]
        return table_of(SCHEMA, rows)

    def files(self) -> pa.Table:
        """A row for each file of the picks: whether it is rewritten, only moved or left as it is.

        Of dry runs only; after a compaction the manifests show what became of each file.
        """
        rows = [row for p in self.picks for row in p.files()]
        return table_of(FILES, rows)

    def then(self, later: Compaction) -> Compaction:
        """Both compactions as one."""
        committed = later.committed
        if self.committed is not None and committed is not None:
            committed = replace(committed, snapshots=(*self.committed.snapshots, *committed.snapshots))
        return Compaction(
            (*self.picks, *later.picks),
            committed,
            self.bytes_read + later.bytes_read,
            self.bytes_written + later.bytes_written,
            self.bytes_moved + later.bytes_moved,
        )

    def __repr__(self) -> str:
        return f"Compaction({self.text})"

    def _repr_html_(self) -> str | None:
        return rich.card("compaction", self)


def _buckets(more: int) -> str:
    return "1 more bucket" if more == 1 else f"{more:,} more buckets"


def _in_lines(text: str, why: str) -> list[str]:
    """The numbers and their basis, on a second line if one line would be long."""
    if len(text) <= _WIDTH or not text.endswith(why):
        return [text]
    return [text.removesuffix(why), f"  {why.removeprefix(': ')}"]
