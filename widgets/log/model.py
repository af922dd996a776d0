"""The log and the snapshots of a table at one moment, from `table.log`; the text form.

Invariants: values are frozen; offsets stay as the engine gives them, per bucket; what is summed over buckets
is said to be. A file of the log belongs to no bucket alone, so it has its rows of each. Pure. Called by the
figures and by the widget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

import pyarrow as pa

from widgets.kit import format as fmt
from widgets.kit.svg import plain
from widgets.log.steps import ReaderModel, steps_text

Offsets = Mapping[int, int]
GLYPHS = {"APPEND": "●", "COMPACT": "◆", "OVERWRITE": "■", "ANALYZE": "○"}
_BAR = 48


@dataclass(frozen=True, slots=True)
class LogSegment:
    """A file of an embedded log: the numbers it has, and per bucket with rows in it the offsets, the rows
    and their bytes."""

    name: str
    first: int
    last: int
    start: Offsets = field(hash=False)
    end: Offsets = field(hash=False)
    rows: Mapping[int, int] = field(hash=False)
    bytes: Mapping[int, int] = field(hash=False)
    transactions: int
    first_time: datetime
    last_time: datetime

    @property
    def rolled_up(self) -> bool:
        """Whether it has the transactions of a range of numbers."""
        return self.first != self.last


@dataclass(frozen=True, slots=True)
class Transaction:
    """What was appended at once: where it begins and ends in its buckets, and who committed it; nobody, where
    rows are seen before their commit."""

    start: Offsets = field(hash=False)
    end: Offsets = field(hash=False)
    time: datetime
    user: str | None
    identifier: int | None


@dataclass(frozen=True, slots=True)
class NamedSnapshot:
    """A snapshot and the offsets up to which its files have the rows of the log; None if not known."""

    id: int
    kind: str
    user: str
    time: datetime
    offsets: Offsets | None = field(hash=False)


@dataclass(frozen=True, slots=True, eq=False)
class LogModel:
    """One moment of a table with a log. `bucket`: the one that is shown, None for all together."""

    title: str
    system: str
    consistency: str
    topic: str | None
    bucket: int | None
    start: Offsets
    end: Offsets
    visible: Offsets
    in_files: Offsets
    segments: tuple[LogSegment, ...]
    transactions: tuple[Transaction, ...]
    """The newest ones; of a topic those behind the newest snapshot."""
    snapshots: tuple[NamedSnapshot, ...]
    older_snapshots: int = 0
    """Snapshots before those that are shown."""
    reader: ReaderModel | None = None

    @property
    def buckets(self) -> tuple[int, ...]:
        """Every bucket of the log."""
        return tuple(sorted(self.end))

    @property
    def shown(self) -> tuple[int, ...]:
        """The buckets that are shown."""
        return self.buckets if self.bucket is None else (self.bucket,)

    def at(self, offsets: Offsets) -> int:
        """A place on the axis: the offset of the bucket that is shown, or the sum of those of all."""
        return sum(offsets.get(bucket, 0) for bucket in self.shown)

    @property
    def files(self) -> tuple[LogSegment, ...]:
        """The files with rows of the buckets that are shown."""
        return tuple(
            segment for segment in self.segments if any(bucket in segment.end for bucket in self.shown)
        )

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Where each of `files` begins and ends on the axis; of all buckets together, files lie one after
        another."""
        at, spans = dict(self.start), list[tuple[int, int]]()
        for segment in self.segments:
            begin = self.at({**at, **segment.start})
            at.update(segment.end)
            if any(bucket in segment.end for bucket in self.shown):
                spans.append((begin, self.at(at)))
        return tuple(spans)

    @property
    def log_only(self) -> int:
        """Offsets that the newest snapshot does not reach; of a topic 0 where these are no rows but ends of
        transactions."""
        if self.topic is not None and not any(self.at(transaction.end) for transaction in self.transactions):
            return 0
        return max(self.at(self.end) - self.at(self.in_files), 0)

    @property
    def hidden(self) -> int:
        """Offsets that are in the log and that readers do not see yet."""
        return max(self.at(self.end) - self.at(self.visible), 0)

    @property
    def size(self) -> int | None:
        """Bytes of rows in the log; None for a topic."""
        if self.topic is not None:
            return None
        return sum(
            size
            for segment in self.segments
            for bucket, size in segment.bytes.items()
            if bucket in self.shown
        )

    @property
    def rows(self) -> int | None:
        """Rows in the log; None for a topic."""
        if self.topic is not None:
            return None
        return sum(
            rows for segment in self.segments for bucket, rows in segment.rows.items() if bucket in self.shown
        )

    @property
    def newest(self) -> NamedSnapshot | None:
        """The newest snapshot."""
        return self.snapshots[-1] if self.snapshots else None

    def named(self, snapshot: int) -> Offsets | None:
        """The offsets that a snapshot names; None of one that is not known."""
        return next(
            (named_snapshot.offsets for named_snapshot in self.snapshots if named_snapshot.id == snapshot),
            None,
        )

    @property
    def rest_words(self) -> str:
        """What lies behind the newest snapshot, and whether readers see it."""
        if not self.log_only:
            return "every row of the log is in files"
        count = fmt.plural(self.log_only, "offset")
        if not self.hidden:
            return f"{count} in the log only: readers of the log see them"
        if self.hidden < self.log_only:
            return f"{count} in the log only, {self.hidden:,} of them hidden until a snapshot names them"
        return f"{count} in the log only: hidden until a snapshot names them"


def segments_of(table: pa.Table) -> tuple[LogSegment, ...]:
    """The files of `table.log.segments()`; none of a topic."""
    rows = [row for row in table.to_pylist() if row["file_name"] is not None]
    return tuple(_segment(list(some)) for _, some in groupby(rows, key=lambda row: row["file_name"]))


def _segment(rows: Sequence[Mapping[str, object]]) -> LogSegment:
    def per_bucket(name: str) -> dict[int, int]:
        return {int(str(row["bucket"])): int(str(row[name])) for row in rows}

    first: Mapping[str, object] = rows[0]
    first_time, last_time = first["first_time"], first["last_time"]
    assert isinstance(first_time, datetime)
    assert isinstance(last_time, datetime)
    return LogSegment(
        str(first["file_name"]),
        int(str(first["first"])),
        int(str(first["last"])),
        per_bucket("start"),
        per_bucket("end"),
        per_bucket("record_count"),
        per_bucket("bytes"),
        max(per_bucket("transactions").values()),
        first_time,
        last_time,
    )


def transactions_of(table: pa.Table) -> tuple[Transaction, ...]:
    """Those of `table.log.transactions()`."""
    return tuple(
        Transaction(
            dict(row["start"]), dict(row["end"]), row["time"], row["commit_user"], row["commit_identifier"]
        )
        for row in table.to_pylist()
    )


def snapshots_of(table: pa.Table) -> tuple[NamedSnapshot, ...]:
    """Those of `table.log.snapshots()`."""
    return tuple(
        NamedSnapshot(
            row["snapshot_id"],
            row["commit_kind"],
            row["commit_user"],
            row["commit_time"],
            None if row["offsets"] is None else dict(row["offsets"]),
        )
        for row in table.to_pylist()
    )


def offsets_text(offsets: Offsets, buckets: Iterable[int] | None = None) -> str:
    """`20` of one bucket, `0: 20 · 1: 31` of several; of more than four their sum."""
    shown = {b: offsets.get(b, 0) for b in (sorted(offsets) if buckets is None else buckets)}
    if len(shown) == 1:
        return fmt.count(next(iter(shown.values())))
    if len(shown) > 4:
        return f"{sum(shown.values()):,} in {len(shown)} buckets"
    return " · ".join(f"{bucket}: {offset:,}" for bucket, offset in shown.items())


def kept_in(model: LogModel) -> str:
    """`embedded, transactional`; of a topic its name."""
    place = model.system if model.topic is None else f"{model.system}, topic {model.topic}"
    return f"{place} · {model.consistency} · {fmt.plural(len(model.buckets), 'bucket')}"


def text_form(model: LogModel) -> str:
    """The two lanes and the reader as text."""
    whole = max(model.at(model.end), 1)
    start, files_end, end = (model.at(place) for place in (model.start, model.in_files, model.end))
    lines = [plain(f"{model.title}: {kept_in(model)}")]
    gone, kept, only = (round(_BAR * part / whole) for part in (start, files_end, end))
    kept = max(kept, gone)
    bar = "·" * gone + "█" * (kept - gone) + "▒" * max(only - kept, int(end > files_end))
    lines.append(f"  log   {bar}  offsets {start:,} … {end:,}{_held(model)}")
    if start:
        lines.append(f"        {fmt.plural(start, 'offset')} expired")
    lines.append(f"  lake  {'█' * kept}  {_newest_text(model)}")
    lines += [f"        {line}" for line in _snapshot_lines(model)]
    lines.append(f"  {model.rest_words}")
    if model.reader is not None:
        lines += [f"  {line}" for line in steps_text(model.reader)]
    return "\n".join(lines)


def _held(model: LogModel) -> str:
    if model.topic is not None:
        return ", in segments that the brokers keep for themselves"
    rolled_up = sum(segment.rolled_up for segment in model.files)
    files = fmt.plural(len(model.files) - rolled_up, "single file")
    more = f", {fmt.plural(rolled_up, 'segment')}" if rolled_up else ""
    return f", {files}{more}, {fmt.plural(model.rows or 0, 'row')}, {fmt.bytes_text(model.size)}"


def _newest_text(model: LogModel) -> str:
    newest = model.newest
    if newest is None:
        return "no snapshot yet"
    return f"{fmt.snapshot_id(newest.id)} names {offsets_text(model.in_files, model.shown)}"


def _snapshot_lines(model: LogModel) -> list[str]:
    shown = model.snapshots[-5:]
    return [
        f"{GLYPHS.get(snapshot.kind, '?')} {fmt.snapshot_id(snapshot.id)} {snapshot.kind} at "
        f"{fmt.ABSENT if snapshot.offsets is None else offsets_text(snapshot.offsets, model.shown)} by "
        f"{fmt.value(snapshot.user)}"
        for snapshot in shown
    ]
