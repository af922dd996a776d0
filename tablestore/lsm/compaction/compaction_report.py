"""Compaction: the result of `Table.compact`, with each bucket's pick, its sums, and its forecast or measured
numbers.

A `Pick` is what one bucket's compaction did or would do. Both have a `text` to print, `explain()` with every
rule, and rows. Made by compactions, dry runs and simulators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import pyarrow as pa

from tablestore.core import quantities, rich
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.result_tables import result_schema, table_of
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.compaction.decision import Decision

SCHEMA = result_schema(
    "partition string!, bucket int32!, rule string!, reason string!, unit string, output_level int32, "
    "files_read int64!, bytes_read int64!, rows_in int64!, files_moved int64!, bytes_moved int64!, "
    "bytes_written int64!, rows_out int64!, rows_min int64!, rows_max int64!, measured bool!, "
    "how string!"
)
FILES = result_schema(
    "partition string!, bucket int32!, file_name string!, level int32!, output_level int32!, "
    "action string!, bytes int64!, rows int64!, deletes int64"
)


class Output(Protocol):
    """Rows and bytes that would be written; rows are `exact`, or between `rows_min` and `rows_max`."""

    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def exact(self) -> bool: ...
    @property
    def why(self) -> str: ...
    @property
    def rows_min(self) -> int: ...
    @property
    def rows_max(self) -> int: ...


class ForecastOfPick(Protocol):
    """What a pick would read, move and write, from a dry run: `insight.explain.forecast`."""

    @property
    def read(self) -> tuple[DataFileMeta, ...]: ...
    @property
    def moved(self) -> tuple[DataFileMeta, ...]: ...
    @property
    def output(self) -> Output: ...
    @property
    def files_read(self) -> int: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def rows_in(self) -> int: ...
    @property
    def files_moved(self) -> int: ...
    @property
    def bytes_moved(self) -> int: ...
    @property
    def text(self) -> str: ...
    def with_others(self, others: Sequence[Self]) -> Self: ...
    def amplification_after(self, picks: Sequence[Pick], files: pa.Table, now: pa.Table) -> Any: ...


class Pick:
    """What one bucket's compaction did or would do. `partition` as text; a dry run has a `forecast` where
    there is work, a compaction a `record`. The forecast is computed on first access, from the state when the
    bucket was planned."""

    __slots__ = ("_forecast", "_made", "bucket", "decision", "partition", "record")

    def __init__(
        self,
        partition: str,
        bucket: int,
        decision: Decision,
        forecast: ForecastOfPick | Callable[[], ForecastOfPick | None] | None = None,
        record: CompactionRecord | None = None,
    ) -> None:
        self.partition, self.bucket, self.decision, self.record = partition, bucket, decision, record
        self._forecast: ForecastOfPick | None = None
        self._made: Callable[[], ForecastOfPick | None] | None = None
        if callable(forecast):
            self._made = forecast
        else:
            self._forecast = forecast

    @property
    def forecast(self) -> ForecastOfPick | None:
        """What carrying it out would read, move and write; None where there is no work, or it was carried
        out."""
        if self._made is not None:
            self._forecast, self._made = self._made(), None
        return self._forecast

    def _values(self) -> tuple[Any, ...]:
        return self.partition, self.bucket, self.decision, self.forecast, self.record

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, Pick) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.partition, self.bucket, self.decision))

    def __repr__(self) -> str:
        return f"Pick({self.text})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Pick, self._values()

    @property
    def place(self) -> str:
        """`p=1/bucket-0`."""
        bucket = "bucket-postpone" if self.bucket == POSTPONE_BUCKET else f"bucket-{self.bucket}"
        return "/".join(t for t in (self.partition, bucket) if t)

    @property
    def text(self) -> str:
        """One line: the bucket, the work, the reason."""
        what = self.decision.unit.text if self.decision.unit else "nothing"
        reason = self.decision.reason
        rule = (
            ""
            if reason.rule in ("none", "full") or reason.text.startswith(reason.rule)
            else f"{reason.rule}: "
        )
        return f"{self.place}: {what}, because {rule}{reason.text}"

    @property
    def outcome(self) -> str:
        """What was read and written, measured, or the forecast; empty if there is no work."""
        if self.record is not None:
            return _measured(self.record)
        return "" if self.forecast is None else self.forecast.text

    def explain(self) -> str:
        """The bucket, every rule that was tried, and the outcome."""
        lines = [f"{self.place}: {self.decision.explain()}"]
        if self.outcome:
            lines.append(f"  {'did' if self.record is not None else 'would'}: {self.outcome}")
        return "\n".join(lines)

    def files(self) -> Iterator[tuple[Any, ...]]:
        """Rows of `FILES`, one tuple a file."""
        unit, forecast = self.decision.unit, self.forecast
        if unit is None or forecast is None:
            return
        does = {f.file_name: "rewrite" for f in forecast.read} | {f.file_name: "move" for f in forecast.moved}
        for f in unit.files:
            done = does.get(f.file_name, "leave")
            place = (self.partition, self.bucket, f.file_name, f.level, unit.output_level)
            yield (*place, done, f.file_size, f.row_count, f.delete_count)

    def row(self) -> tuple[Any, ...]:
        """The row of `SCHEMA`."""
        unit, reason = self.decision.unit, self.decision.reason
        what = (None, None) if unit is None else (unit.text, unit.output_level)
        return (self.partition, self.bucket, reason.rule, reason.text, *what, *self._numbers())

    def _numbers(self) -> tuple[Any, ...]:
        r, f = self.record, self.forecast
        if r is not None:
            moved = (r.files_moved, r.bytes_moved, r.bytes_written)
            return (
                r.files_read,
                r.bytes_read,
                r.rows_in,
                *moved,
                *[r.rows_out] * 3,
                True,
                f"measured, {r.millis} ms",
            )
        if f is None:
            return (*[0] * 9, False, "nothing to do")
        out = f.output
        how = f"{'exact rows' if out.exact else 'estimated'}: {out.why}"
        moved = (f.files_moved, f.bytes_moved, out.bytes)
        rows = (out.rows, out.rows_min, out.rows_max)
        return (f.files_read, f.bytes_read, f.rows_in, *moved, *rows, False, how)


def _measured(record: CompactionRecord) -> str:
    said = []
    if record.files_read:
        said.append(f"read {_files(record.files_read, record.bytes_read)} of {record.rows_in:,} rows")
    if record.files_moved:
        said.append(f"only moved {_files(record.files_moved, record.bytes_moved)}")
    if record.files_written:
        said.append(f"wrote {_files(record.files_written, record.bytes_written)} of {record.rows_out:,} rows")
    took = "" if record.millis is None else f" in {quantities.duration(record.millis)}"
    return (", ".join(said) or "changed nothing") + took


def _files(count: int, size: int) -> str:
    return f"{count} file{'' if count == 1 else 's'} {quantities.size(size)}"


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
