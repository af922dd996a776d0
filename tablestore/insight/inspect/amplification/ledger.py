"""The ledger: what flushes and compactions of each bucket wrote, what is live, and what a read opens.

    write amplification = (bytes flushed + bytes written by compactions) / bytes ingested
    read amplification  = sorted runs, and files and bytes of the files that a point or a range read opens
    space amplification = live bytes / bytes of a fully compacted copy

Bytes ingested are those of the data files that writers flushed, before any compaction; changelog files are
counted separately. One `Account` a bucket, kept by sums, so adding an event costs what the event changed.
Used by inspection over a table's history and by the simulator, which keeps the same accounts.

Sums over buckets (`Flow`, `State`, `Copies`) make the columns of the views of `inspect.amplification`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablestore.core import quantities
from tablestore.core.errors import Corrupt
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.snapshot import COMPACT
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.merge_size import UNKNOWN, Estimate, SizeModel, merged
from tablestore.insight.explain.table_history import BucketEvent

RANGE_SHARE = 0.01  # part of the keys that the range read of read amplification asks for


@dataclass(frozen=True, slots=True)
class ReadAmplification:
    """Files and bytes that reads open at most, without use of indexes and statistics: a read of one key, and
    of a range with RANGE_SHARE of all keys."""

    runs: int
    point_files: float
    point_bytes: float
    range_files: float
    range_bytes: float


@dataclass(frozen=True, slots=True)
class Space:
    """Live bytes beside those of a fully compacted copy. These are `exact`, or estimated in a range that
    holds them in 95 of 100 cases; `why` says how."""

    live_bytes: int
    compacted_bytes: int
    compacted_min: int
    compacted_max: int
    exact: bool
    why: str

    @classmethod
    def known(cls, live: int, copy: int, why: str) -> Space:
        """A copy whose bytes are known."""
        return cls(live, copy, copy, copy, True, why)

    @classmethod
    def of(cls, live: int, copy: int, least: int, most: int, why: str) -> Space:
        """A copy of `least` to `most` bytes, `copy` of which are to be expected; the sum is part of why."""
        return cls(live, copy, least, most, False, f"{quotient(live, copy, least, most)}; {why}")

    @property
    def amplification(self) -> float | None:
        """Live bytes / compacted bytes, None where nothing would be left."""
        return self.live_bytes / self.compacted_bytes if self.compacted_bytes else None


class Account:
    """Sums of one bucket. Mutable; not thread-safe."""

    __slots__ = (
        "bytes",
        "changelog",
        "compacted",
        "compactions",
        "deletes",
        "exact",
        "files",
        "ingested",
        "moved",
        "read",
        "rows",
        "written",
    )

    def __init__(self) -> None:
        self.files: list[int] = [0]  # by level
        self.bytes: list[int] = [0]
        self.rows: list[int] = [0]
        self.written: list[int] = [0]  # bytes that compactions wrote into each level
        self.deletes = 0  # rows that take keys away, files whose number is unknown counting as one
        self.ingested = self.compacted = self.read = self.moved = self.changelog = 0
        self.compactions = 0
        self.exact = True

    def _reach(self, level: int) -> None:
        while len(self.files) <= level:
            for sums in (self.files, self.bytes, self.rows, self.written):
                sums.append(0)

    def put(self, level: int, size: int, rows: int, deletes: int | None = 0) -> None:
        """Add a live file."""
        if level >= len(self.files):
            self._reach(level)
        self.files[level] += 1
        self.bytes[level] += size
        self.rows[level] += rows
        self.deletes += 1 if deletes is None else deletes

    def take(self, level: int, size: int, rows: int, deletes: int | None = 0) -> None:
        """Remove a live file."""
        assert self.files[level : level + 1] > [0], f"I6: level {level} holds no file to take away"
        self.files[level] -= 1
        self.bytes[level] -= size
        self.rows[level] -= rows
        self.deletes -= 1 if deletes is None else deletes

    def compaction(self, level: int, *, read: int, written: int, moved: int) -> None:
        """Add one compaction: bytes that it read, wrote into `level` and only moved there."""
        self._reach(level)
        self.compactions += 1
        self.read += read
        self.compacted += written
        self.written[level] += written
        self.moved += moved

    @property
    def live_files(self) -> int:
        """Files of all levels."""
        return sum(self.files)

    @property
    def live_bytes(self) -> int:
        """Bytes of all levels."""
        return sum(self.bytes)

    @property
    def live_rows(self) -> int:
        """Rows of all files, deletes and older rows of a key included."""
        return sum(self.rows)

    @property
    def runs(self) -> int:
        """Sorted runs: each file of level 0, each level above that holds files."""
        return self.files[0] + sum(1 for n in self.files[1:] if n)

    @property
    def write_amplification(self) -> float | None:
        """Bytes written for each byte ingested, None before the first."""
        return (self.ingested + self.compacted) / self.ingested if self.ingested else None

    @property
    def reads(self) -> ReadAmplification:
        """Files and bytes that reads open: of each run one file for a key; for a range a hundredth of its
        files, but at least one."""
        point_bytes = range_bytes = float(self.bytes[0])
        point_files = range_files = float(self.files[0])
        for count, size in zip(self.files[1:], self.bytes[1:], strict=True):
            if count:
                many = min(float(count), 1.0 + RANGE_SHARE * count)
                point_files, point_bytes = point_files + 1, point_bytes + size / count
                range_files, range_bytes = range_files + many, range_bytes + size / count * many
        return ReadAmplification(self.runs, point_files, point_bytes, range_files, range_bytes)

    @property
    def compacted_fully(self) -> bool:
        """Whether a full compaction would change no row: one run above level 0 that holds no deletes."""
        return not self.files[0] and self.runs <= 1 and not self.deletes


class Ledger:
    """Accounts of a table's buckets. `types` are those of the key columns, none of a table without a key;
    `model` estimates the sizes of merges."""

    def __init__(self, types: Sequence[DataType] = (), *, model: SizeModel = UNKNOWN) -> None:
        self._types, self._model = tuple(types), model
        self.accounts: dict[tuple[str, int], Account] = {}
        self._live: dict[tuple[str, int], dict[tuple[int, str], DataFileMeta]] = {}

    def enter(self, event: BucketEvent) -> Account:
        """The bucket's account after one event. Raises Corrupt if it removes a file that is not live (I6)."""
        account = self.accounts.setdefault(event.place, Account())
        live = self._live.setdefault(event.place, {})
        for file in event.before:
            if live.pop((file.level, file.file_name), None) is None:
                what = f"I6: it deletes {file.file_name} at level {file.level}, which is not live there"
                raise Corrupt(f"snapshot-{event.snapshot}", what)
            account.take(file.level, file.file_size, file.row_count, file.delete_count)
        for file in (*event.flushed, *event.after):
            account.put(file.level, file.file_size, file.row_count, file.delete_count)
            live[file.level, file.file_name] = file
        account.ingested += _bytes(event.flushed)
        account.changelog += _bytes(event.changelog)
        if event.kind == COMPACT:
            account.exact = account.exact and bool(event.records)
            for level, read, written, moved in compactions_of(event):
                account.compaction(level, read=read, written=written, moved=moved)
        return account

    def files(self, place: tuple[str, int]) -> tuple[DataFileMeta, ...]:
        """Live files of a bucket."""
        return tuple(self._live.get(place, {}).values())

    def space(self, place: tuple[str, int]) -> Space:
        """Live bytes of a bucket beside those of its fully compacted copy."""
        account = self.accounts.get(place, Account())
        live = account.live_bytes
        if not self._types:
            return Space.known(live, live, "a table without a key merges no rows")
        if account.compacted_fully:
            return Space.known(live, live, "one sorted run without deletes")
        return estimated(live, self._copy(place, account))

    def _copy(self, place: tuple[str, int], account: Account) -> Estimate:
        among = max(account.rows[1:], default=0)
        return merged(self.files(place), self._types, drop_deletes=True, model=self._model, among=among)


def estimated(live: int, copy: Estimate) -> Space:
    """Live bytes beside those of a copy that was estimated."""
    return Space.of(live, copy.bytes, copy.bytes_min, copy.bytes_max, copy.why)


def quotient(live: int, copy: int, least: int, most: int) -> str:
    """`16.5 KiB / 12.4 KiB = 1.33, 1.21 to 1.48`; empty where nothing would be left."""
    if not copy:
        return f"{quantities.size(live)} beside nothing"
    low, high = live / most, live / least if least else None
    ends = f", {low:.2f} to {high:.2f}" if high is not None else f", {low:.2f} or more"
    return f"{quantities.size(live)} / {quantities.size(copy)} = {live / copy:.2f}{ends}"


def compactions_of(event: BucketEvent) -> list[tuple[int, int, int, int]]:
    """(output level, bytes read, written, moved) of each compaction of a commit; without records, of all of
    them as one."""
    if event.records:
        return [(r.output_level, r.bytes_read, r.bytes_written, r.bytes_moved) for r in event.records]
    level, moved = max((f.level for f in event.after), default=0), event.moved
    lifted = sum(f.file_size for f in event.after if f.file_name in moved)
    return [(level, _bytes(event.rewritten), _bytes(event.written), lifted)]


def _bytes(files: Iterable[DataFileMeta]) -> int:
    return sum(f.file_size for f in files)


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
