"""Pick: what one bucket's compaction did or would do, as text, as numbers and as rows.

Made by compactions, dry runs and simulators, one a bucket; `Compaction` (`compaction_report`) holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self

import pyarrow as pa

from tablestore.core import quantities
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.result_tables import result_schema
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
