"""What `Table.compact` gives: each bucket's pick with its arithmetic, forecast before, measured after.

Values to print (`text`), to study (`explain()`) and to compute with (`to_arrow()`). Made by
`table.compaction` and by simulators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from tablestore.format.compaction_record import CompactionRecord
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm import quantities
from tablestore.lsm.decision import Decision
from tablestore.lsm.forecast import Forecast, total
from tablestore.lsm.outlook import Outlook, outlook

SCHEMA = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("unit", pa.string()),
        pa.field("output_level", pa.int32()),
        pa.field("files_read", pa.int64(), nullable=False),
        pa.field("bytes_read", pa.int64(), nullable=False),
        pa.field("rows_in", pa.int64(), nullable=False),
        pa.field("files_moved", pa.int64(), nullable=False),
        pa.field("bytes_moved", pa.int64(), nullable=False),
        pa.field("bytes_written", pa.int64(), nullable=False),
        pa.field("rows_out", pa.int64(), nullable=False),
        pa.field("rows_least", pa.int64(), nullable=False),
        pa.field("rows_most", pa.int64(), nullable=False),
        pa.field("measured", pa.bool_(), nullable=False),
        pa.field("how", pa.string(), nullable=False),
    ]
)
FILES = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("file_name", pa.string(), nullable=False),
        pa.field("level", pa.int32(), nullable=False),
        pa.field("output_level", pa.int32(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("deletes", pa.int64()),
    ]
)
_WIDTH = 110
_SHOWN = 20  # buckets with work that a text names


@dataclass(frozen=True, slots=True)
class Pick:
    """What one bucket's compaction is or would be. `partition` as text; `forecast` is there where something
    would be done, `record` where it was done."""

    partition: str
    bucket: int
    decision: Decision
    forecast: Forecast | None = None
    record: CompactionRecord | None = None

    @property
    def place(self) -> str:
        """`p=1/bucket-0`."""
        bucket = "bucket-postpone" if self.bucket == POSTPONE_BUCKET else f"bucket-{self.bucket}"
        return "/".join(t for t in (self.partition, bucket) if t)

    @property
    def text(self) -> str:
        """One line: where, what, why."""
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
        """What it costs and gives: measured where it was done, else foretold; empty if nothing is done."""
        if self.record is not None:
            return _measured(self.record)
        return "" if self.forecast is None else self.forecast.text

    def explain(self) -> str:
        """The place, every rule that was tried, and the outcome."""
        lines = [f"{self.place}: {self.decision.explain()}"]
        if self.outcome:
            lines.append(f"  {'did' if self.record is not None else 'would'}: {self.outcome}")
        return "\n".join(lines)

    def files(self) -> Iterator[tuple[Any, ...]]:
        """Values of `FILES`, one tuple a file."""
        unit, found = self.decision.unit, self.forecast
        if unit is None or found is None:
            return
        does = {f.file_name: "rewrite" for f in found.read} | {f.file_name: "move" for f in found.moved}
        for f in unit.files:
            done = does.get(f.file_name, "leave")
            place = (self.partition, self.bucket, f.file_name, f.level, unit.output_level)
            yield (*place, done, f.file_size, f.row_count, f.delete_count)

    def row(self) -> tuple[Any, ...]:
        """Values of `SCHEMA`."""
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
        rows = (out.rows, out.rows_least, out.rows_most)
        return (f.files_read, f.bytes_read, f.rows_in, *moved, *rows, False, how)


class Commit(Protocol):
    """What a compaction committed: a dataclass such as `Committed`."""

    snapshots: tuple[int, ...]

    @property
    def snapshot(self) -> int | None:
        """Id of the last snapshot made."""
        ...


@dataclass(frozen=True, slots=True)
class Compaction:
    """Every bucket's pick; `committed` is None after a dry run. Bytes are those of files that were read and
    written, and of those that only changed their level."""

    picks: tuple[Pick, ...]
    committed: Commit | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_moved: int = 0

    @property
    def busy(self) -> tuple[Pick, ...]:
        """Picks that do something."""
        return tuple(p for p in self.picks if p.decision.unit)

    @property
    def forecast(self) -> Forecast | None:
        """All forecasts of a dry run added up; None if nothing would be done, or when it is done."""
        some = [p.forecast for p in self.picks if p.forecast is not None]
        if not some:
            return None
        read, moved = (tuple(x for f in some for x in getattr(f, name)) for name in ("read", "moved"))
        return Forecast(read, moved, total(f.output for f in some))

    def outlook(self, files: pa.Table, now: pa.Table) -> Outlook | None:
        """What a dry run foretells of write, read and space amplification; None if nothing would be done.

        `files` are the live ones (`inspect.levels()`), `now` is the row of `inspect.amplification()`, of the
        table or of the bucket that is planned, or all rows of its view by snapshot.
        """
        return outlook(self, files, now)

    @property
    def text(self) -> str:
        """What happened (or would), a line for each bucket that has work, and all of it together."""
        busy = self.busy
        if not self.picks:
            return "no buckets: none of those chosen holds files"
        lines = [p.text for p in busy[:_SHOWN]] or [self.picks[0].text]
        more = len(busy) - _SHOWN if busy else len(self.picks) - 1
        if more > 0:
            lines.append(f"… and {_buckets(more)} {'with work' if busy else 'with nothing to do'}")
        return "\n".join([*lines, *self._sums()])

    def _sums(self) -> list[str]:
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
        more = f", only moved {moved}" if self.bytes_moved else ""
        return [f"snapshot {self.committed.snapshot}: read {read}, wrote {wrote}{more}"]

    def _share(self) -> str:
        busy, many = len(self.busy), len(self.picks)
        return f"{busy:,} of {quantities.many(many, 'bucket')}"

    def explain(self) -> str:
        """Every bucket's decision with all rules that were tried and what it costs, then the sums."""
        return "\n".join([*(p.explain() for p in self.picks), *self._sums()])

    def to_arrow(self) -> pa.Table:
        """A row for each bucket: its rule, files and bytes in and out, forecast or measured."""
        rows = [p.row() for p in self.picks]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        return pa.table(arrays, schema=SCHEMA)

    def files(self) -> pa.Table:
        """A row for each file of the picks: whether it is rewritten, only moved or left as it is.

        Known for dry runs; what a compaction did to files the manifests tell.
        """
        rows = [row for p in self.picks for row in p.files()]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(FILES)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, FILES, strict=True)], schema=FILES)

    def then(self, later: Compaction) -> Compaction:
        """Both as one."""
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


def _buckets(more: int) -> str:
    return "1 more bucket" if more == 1 else f"{more:,} more buckets"


def _in_lines(text: str, why: str) -> list[str]:
    """The numbers and what they rest on, which goes below them if the line would be long."""
    if len(text) <= _WIDTH or not text.endswith(why):
        return [text]
    return [text.removesuffix(why), f"  {why.removeprefix(': ')}"]


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
