"""Sums of amplification over buckets, and the columns of the views of `inspect.amplification`: bytes that
moved, what is live, what a compacted copy would take. Used by `views` and by the journal of a simulation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablestore.insight.inspect.amplification.ledger import RANGE_SHARE, Account, Space, quotient

Place = tuple[str, int]  # partition text, bucket
VIEWS = ("table", "snapshot", "bucket", "level")
_MS = pa.timestamp("ms")
_IDENTITY = {
    "table": {},
    "snapshot": {"snapshot_id": pa.int64(), "commit_kind": pa.string(), "commit_time": _MS},
    "bucket": {"partition": pa.string(), "bucket": pa.int32()},
    "level": {"level": pa.int32()},
}
FLOWS = {
    "bytes_ingested": pa.int64(),
    "bytes_compacted": pa.int64(),
    "bytes_read": pa.int64(),
    "bytes_moved": pa.int64(),
    "bytes_changelog": pa.int64(),
    "compactions": pa.int64(),
    "write_amplification": pa.float64(),
    "compactions_exact": pa.bool_(),
}
STATE = {
    "live_bytes": pa.int64(),
    "live_files": pa.int64(),
    "live_rows": pa.int64(),
    "runs": pa.int64(),
    "point_files": pa.float64(),
    "point_bytes": pa.float64(),
    "range_files": pa.float64(),
    "range_bytes": pa.float64(),
}
SPACE = {
    "compacted_bytes": pa.int64(),
    "space_amplification": pa.float64(),
    "space_min": pa.float64(),
    "space_max": pa.float64(),
    "space_exact": pa.bool_(),
    "why": pa.string(),
}


def schema(per: str) -> pa.Schema:
    """The columns of a view; levels have no copy of their own to be compared with."""
    space = {} if per == "level" else SPACE
    return pa.schema({**_IDENTITY[per], **FLOWS, **STATE, **space, "since_snapshot": pa.int64()})


@dataclass
class Flow:
    """Sums of the bytes that flushes and compactions wrote, read and moved. Grows."""

    ingested: int = 0
    compacted: int = 0
    read: int = 0
    moved: int = 0
    changelog: int = 0
    compactions: int = 0
    exact: bool = True

    def add(self, more: Flow) -> None:
        self.ingested += more.ingested
        self.compacted += more.compacted
        self.read += more.read
        self.moved += more.moved
        self.changelog += more.changelog
        self.compactions += more.compactions
        self.exact = self.exact and more.exact

    def row(self, ingested: int) -> tuple[Any, ...]:
        """The columns of FLOWS; the write amplification is per byte of `ingested`."""
        written = (self.ingested + self.compacted) / ingested if ingested else None
        sums = (self.ingested, self.compacted, self.read, self.moved, self.changelog, self.compactions)
        return (*sums, written, self.exact)


@dataclass
class State:
    """Live files, bytes and rows, and what reads open, added up over buckets. A read of one key goes to one
    bucket, with a chance in proportion to its rows, a read of a range to all of them."""

    bytes: int = 0
    files: int = 0
    rows: int = 0
    runs: int = 0
    point: tuple[float, float] = (0.0, 0.0)  # files and bytes, each times the rows of its bucket
    range: tuple[float, float] = (0.0, 0.0)

    def add(self, more: State, sign: int = 1) -> None:
        self.bytes += sign * more.bytes
        self.files += sign * more.files
        self.rows += sign * more.rows
        self.runs += sign * more.runs
        self.point = (self.point[0] + sign * more.point[0], self.point[1] + sign * more.point[1])
        self.range = (self.range[0] + sign * more.range[0], self.range[1] + sign * more.range[1])

    def row(self, rows: int | None = None) -> tuple[Any, ...]:
        """The columns of STATE; `rows`: those of all buckets over which reads are spread."""
        among = self.rows if rows is None else rows
        point = tuple(v / among if among else 0.0 for v in self.point)
        return (self.bytes, self.files, self.rows, self.runs, *point, *self.range)


@dataclass
class Copies:
    """Live bytes and those of a fully compacted copy, added up over buckets."""

    live: int = 0
    compacted: int = 0
    least: int = 0
    most: int = 0
    guessed: dict[Place, str] = field(default_factory=dict)
    buckets: int = 0
    why: str = "nothing is live"

    @classmethod
    def of(cls, spaces: Mapping[Place, Space]) -> Copies:
        copies = cls(buckets=len(spaces))
        for place, space in spaces.items():
            copies.live += space.live_bytes
            copies.compacted += space.compacted_bytes
            copies.least += space.compacted_min
            copies.most += space.compacted_max
            copies.why = space.why
            if not space.exact:
                copies.guessed[place] = space.why
        return copies

    def row(self) -> tuple[Any, ...]:
        """The columns of SPACE."""
        ratio, low, high = (self.live / n if n else None for n in (self.compacted, self.most, self.least))
        why = self.why
        if self.guessed and self.buckets > 1:
            some, whole = next(iter(self.guessed.values())), quotient(self.live, *self._copies)
            why = f"{whole}; {len(self.guessed)} of {self.buckets} buckets estimated, such as {some}"
        elif not self.guessed and self.buckets > 1:
            why = f"all {self.buckets} buckets exact, such as: {self.why}"
        return self.compacted, ratio, low, high, not self.guessed, why

    @property
    def _copies(self) -> tuple[int, int, int]:
        return self.compacted, self.least, self.most


def state_of(account: Account) -> State:
    reads, rows = account.reads, account.live_rows
    point = (reads.point_files * rows, reads.point_bytes * rows)
    ranged = (reads.range_files, reads.range_bytes)
    return State(account.live_bytes, account.live_files, rows, account.runs, point, ranged)


def level_state(account: Account, level: int) -> State:
    """The part of `state_of` that one level has."""
    files = account.files[level] if level < len(account.files) else 0
    if not files:
        return State()
    size, rows, whole = account.bytes[level], account.rows[level], account.live_rows
    opened = files if level == 0 else 1
    many = files if level == 0 else min(float(files), 1.0 + RANGE_SHARE * files)
    point = (float(opened * whole), size / files * opened * whole)
    return State(size, files, rows, opened, point, (float(many), size / files * many))


def whole_state(accounts: Iterable[Account]) -> State:
    """The state of all buckets together."""
    whole = State()
    for account in accounts:
        whole.add(state_of(account))
    return whole


def level_rows(
    accounts: Collection[Account], flows: Mapping[int, Flow], ingested: int, since: int | None
) -> Iterator[tuple[Any, ...]]:
    """The rows of the view by level: `flows` are those of each, `ingested` the bytes that came into all."""
    rows = sum(a.live_rows for a in accounts)
    there = {level for a in accounts for level, count in enumerate(a.files) if count}
    for level in sorted(there | flows.keys()):
        state = State()
        for account in accounts:
            state.add(level_state(account, level))
        yield level, *flows.get(level, Flow()).row(ingested), *state.row(rows), since
