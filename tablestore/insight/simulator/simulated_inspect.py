"""`inspect` of a simulation: what each flush and each compaction changed, kept in a journal, as the tables
of a real table's `inspect` that pictures draw.

The same columns and types, times are virtual. Every step is one commit, numbered from 1: a flush is an
APPEND, a compaction a COMPACT with the record that the engine keeps of one. The newest `keep` commits are
kept, each with the metadata of the files it changed and its row of amplification; sums go back to the first.
A mark for each sampled key gives the size of the compacted copy, with which live bytes are compared. One
lock, so that a view may read while a worker steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format import binary_row
from tablestore.format.binary_row import comparable_keys
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.result_tables import table_of
from tablestore.format.snapshot import APPEND, COMPACT
from tablestore.insight.explain.table_history import BucketEvent
from tablestore.insight.inspect.amplification.ledger import (
    VIEWS,
    Account,
    Copies,
    Flow,
    Space,
    State,
    level_rows,
    schema,
    state_of,
    whole_state,
)
from tablestore.insight.inspect.columns import (
    COMMITS,
    LEVELS,
    SNAPSHOTS,
    SOURCES,
    compactions_table,
    key_text,
    levels_table,
)
from tablestore.insight.inspect.edits import EDITS, with_span
from tablestore.insight.simulator.contents import Drawn
from tablestore.insight.simulator.keyset import KeySet
from tablestore.insight.simulator.sim_bucket import KEY, SimBucket
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.recording import completed, planned
from tablestore.lsm.levels.sorted_run import Levels

USER = "simulator"
_MOST_PLACES = 1 << 27  # marks of sampled keys: 128 MB a bucket
Named = dict[tuple[int, str], DataFileMeta]  # live files by level and name
_ORDER = comparable_keys(KEY)


class LiveKeys:
    """How many sampled keys have a row that is no delete: a mark a place of the key space."""

    def __init__(self) -> None:
        self._marks = np.zeros(1024, dtype=bool)
        self.count: int | None = 0  # None: the key space is too large for a mark each

    def put(self, sample: KeySet) -> None:
        """The newest rows of these keys."""
        top = int(sample.keys[-1]) + 1
        if self.count is None or top > _MOST_PLACES:
            self.count = None
            return
        if top > len(self._marks):
            wider = np.zeros(min(max(2 * len(self._marks), top), _MOST_PLACES), dtype=bool)
            wider[: len(self._marks)] = self._marks
            self._marks = wider
        before = np.count_nonzero(self._marks[sample.keys])
        self._marks[sample.keys] = True if sample.dead is None else ~sample.dead
        self.count += int(np.count_nonzero(self._marks[sample.keys]) - before)


@dataclass(frozen=True, slots=True)
class SimulatedCommit:
    """What one commit did to its bucket, its row of amplification from the flows on, and all rows after
    it."""

    event: BucketEvent
    numbers: tuple[Any, ...]
    live_rows: int

    @property
    def added(self) -> tuple[DataFileMeta, ...]:
        """Files that are live from then on."""
        return (*self.event.flushed, *self.event.after)


class SimulationJournal:
    """Commits in order; `weight` rows stand behind each sampled key."""

    def __init__(self, *, keep: int, weight: float) -> None:
        self.keep, self._weight = keep, weight
        self.commits: deque[SimulatedCommit] = deque()
        self.lock = RLock()
        self.last = 0
        self.total, self.by_bucket, self.by_level = Flow(), dict[int, Flow](), dict[int, Flow]()
        self.accounts: dict[int, Account] = {}
        self.spaces: dict[tuple[str, int], Space] = {}
        self.ends: dict[int, tuple[bytes, bytes]] = {}  # of all keys that a bucket has had
        self.num_levels = 0
        self._state, self._states = State(), dict[int, State]()
        self._keys: dict[int, LiveKeys] = {}
        self._live: dict[int, Named] = {}
        self._shown, self._shown_at = dict[int, Named](), 0  # the files after some commit, and its id

    def enter(
        self,
        bucket: int,
        sim_bucket: SimBucket,
        *,
        identifier: int,
        sample: Any = None,
        decision: Decision | None = None,
        stalled: bool = False,
    ) -> int:
        """Enter what the bucket has just done: the flush of `sample`, or a compaction; the id of its
        commit."""
        with self.lock:
            live = self._live.setdefault(bucket, {})
            gone = tuple(live[f.level, f.file_name] for f in sim_bucket.changed[0])
            come: tuple[DataFileMeta, ...] = tuple(f.meta(self._weight) for f in sim_bucket.changed[1])
            self.last += 1
            parts: dict[str, Any] = {"flushed": come}
            flow, level = Flow(ingested=sum(f.file_size for f in come)), 0
            if sample is not None:
                if isinstance(sim_bucket.contents, Drawn):
                    self._keys.setdefault(bucket, LiveKeys()).put(sample)
                self._widen(bucket, come)
            else:
                assert decision is not None, "what is no flush was decided"
                strategy = sim_bucket.options.strategy.value
                record = planned(decision, strategy=strategy, bucket=bucket, live=len(live), stalled=stalled)
                record = completed(record, before=gone, after=come)
                parts = {"before": gone, "after": come, "records": (record,)}
                read, written, moved = sim_bucket.last
                flow, level = (
                    Flow(compacted=written, read=read, moved=moved, compactions=1),
                    record.output_level,
                )
            kind = APPEND if decision is None else COMPACT
            event = BucketEvent(
                self.last, sim_bucket.now_ms, kind, "", bucket, user=USER, identifier=identifier, **parts
            )
            _carry(live, event)
            self.num_levels = max(self.num_levels, sim_bucket.levels.num_levels)
            self._add(bucket, sim_bucket, event, flow, level)
            return self.last

    def _widen(self, bucket: int, files: tuple[DataFileMeta, ...]) -> None:
        low, high = min(files, key=_low).min_key, max(files, key=_high).max_key
        old = self.ends.get(bucket, (low, high))
        self.ends[bucket] = min(low, old[0], key=_ORDER), max(high, old[1], key=_ORDER)

    def _add(self, bucket: int, sim_bucket: SimBucket, event: BucketEvent, flow: Flow, level: int) -> None:
        """Add a commit to all sums, and keep it."""
        of_bucket, of_level = (
            self.by_bucket.setdefault(bucket, Flow()),
            self.by_level.setdefault(level, Flow()),
        )
        for sums in (self.total, of_bucket, of_level):
            sums.add(flow)
        self._state.add(self._states.get(bucket, State()), -1)
        self._states[bucket] = state_of(sim_bucket.account)
        self._state.add(self._states[bucket])
        self.accounts[bucket] = sim_bucket.account
        self.spaces["", bucket] = self._space(bucket, sim_bucket)
        written = self.total.row(self.total.ingested)[6]
        numbers = (*flow.row(1)[:6], written, flow.exact, *self._state.row(), *self.space())
        self.commits.append(SimulatedCommit(event, numbers, self._state.rows))
        if len(self.commits) > self.keep:
            first = self.commits[0].event.snapshot
            if self._shown_at < first:
                self._walk(first)
            self.commits.popleft()

    def _space(self, bucket: int, sim_bucket: SimBucket) -> Space:
        """Live bytes beside those of the keys that are left, each once."""
        account = sim_bucket.account
        if not isinstance(sim_bucket.contents, Drawn):
            copy = sim_bucket.compacted_bytes()
            return Space(account.live_bytes, copy, copy, copy, False, sim_bucket.contents.why)
        count = self._keys[bucket].count
        files: Sequence[Any] = sim_bucket.levels.files
        sampled = sum(len(f.keys) for f in files)
        rows = round(account.live_rows * (count or 0) / sampled) if sampled else 0
        exact = count is not None and sampled == account.live_rows
        why = "each key that is left once" if exact else f"each key of a sample of {sampled:,} once"
        copy = sim_bucket.bytes_of(rows)
        return Space(account.live_bytes, copy, copy, copy, exact, why)

    def space(self, bucket: int | None = None) -> tuple[Any, ...]:
        """The columns SPACE of all buckets, or of one."""
        if any(keys.count is None for keys in self._keys.values()):
            return *(None,) * 4, False, "the key space is too large to count its keys"
        some = self.spaces if bucket is None else {("", bucket): self.spaces["", bucket]}
        return Copies.of(some).row()

    def files(self, snapshot: int | None = None) -> dict[int, Levels]:
        """The files after a commit (None: the newest) by bucket. Raises NotFound."""
        with self.lock:
            if snapshot is not None and not self.first <= snapshot <= self.last:
                raise NotFound(f"no snapshot {snapshot}; have {self.first}..{self.last}")
            self._walk(self.last if snapshot is None else snapshot)
            return {
                bucket: Levels.of(live.values(), self.num_levels, _ORDER)
                for bucket, live in sorted(self._shown.items())
            }

    def _walk(self, to: int) -> None:
        """Bring what is shown to the files after commit `to`, commit by commit, forward or back."""
        while self._shown_at < to:
            self._shown_at += 1
            event = self._commit(self._shown_at).event
            _carry(self._shown.setdefault(event.bucket, {}), event)
        while self._shown_at > to:
            event = self._commit(self._shown_at).event
            _carry(self._shown[event.bucket], event, back=True)
            self._shown_at -= 1

    @property
    def first(self) -> int:
        """Id of the oldest commit that is kept."""
        return self.last - len(self.commits) + 1

    def _commit(self, snapshot: int) -> SimulatedCommit:
        return self.commits[snapshot - self.first]

    def record(self, snapshot: int) -> CompactionRecord | None:
        """The record of a compaction that has just been entered."""
        return self._commit(snapshot).event.record if snapshot else None

    def origins(self) -> dict[tuple[int, str], int]:
        """The commits that added files, by bucket and name, by flushing them, as far as they are kept."""
        return {
            (c.event.bucket, f.file_name): c.event.snapshot for c in self.commits for f in c.event.flushed
        }


def _carry(live: Named, event: BucketEvent, *, back: bool = False) -> None:
    """Take away and put in what a commit did, or undo it."""
    gone, come = event.before, (*event.flushed, *event.after)
    if back:
        gone, come = come, gone
    for f in gone:
        del live[f.level, f.file_name]
    for f in come:
        live[f.level, f.file_name] = f


def _low(file: DataFileMeta) -> Any:
    return _ORDER(file.min_key)


def _high(file: DataFileMeta) -> Any:
    return _ORDER(file.max_key)


class SimulatedInspect:
    """Metadata of a simulation as Arrow tables."""

    def __init__(self, journal: SimulationJournal) -> None:
        self._journal = journal

    def __repr__(self) -> str:
        first, last = self._journal.first, self._journal.last
        return f"SimulatedInspect(snapshots {first}..{last})" if last else "SimulatedInspect(no snapshot)"

    def snapshots(self) -> pa.Table:
        """Every commit that is kept, oldest first."""
        return table_of(SNAPSHOTS, (_snapshot_row(c) for c in self._commits()))

    def commits(self) -> pa.Table:
        """What each commit changed: rows, files and bytes added and removed, oldest first."""
        return table_of(COMMITS, (_commit_row(c) for c in self._commits()))

    def edits(self) -> pa.Table:
        """A row for each file, from the commit that `added` it to the one that `removed` it, as of a table;
        null is before the oldest commit that is kept, and not yet."""
        journal = self._journal
        with journal.lock:
            rows: list[list[Any]] = []
            at: dict[tuple[int, int, str], list[Any]] = {}

            def add(bucket: int, file: DataFileMeta, snapshot: int | None, *, flushed: bool) -> None:
                keys = [key_text(k, KEY) for k in (file.min_key, file.max_key)]
                source = None if file.file_source is None else SOURCES.get(file.file_source)
                row = [snapshot, None, "", bucket, file.level, file.file_name, file.row_count]
                row += [file.delete_count, file.file_size, *keys, file.min_sequence, file.max_sequence]
                row += [file.schema_id, file.creation_time_ms, source, snapshot if flushed else None, None]
                rows.append([*row, *map(_number, (file.min_key, file.max_key))])
                at[bucket, file.level, file.file_name] = rows[-1]

            commits = list(journal.commits)
            if commits:
                event = commits[0].event
                new = {f.file_name for f in event.flushed} | {f.file_name for f in event.after}
                for bucket, levels in journal.files(event.snapshot).items():
                    for file in levels.files:
                        fresh = bucket == event.bucket and file.file_name in new
                        add(bucket, file, event.snapshot if fresh else None, flushed=fresh and not file.level)
            for commit in commits[1:]:
                event = commit.event
                for file in event.before:
                    at.pop((event.bucket, file.level, file.file_name))[1] = event.snapshot
                for file in event.flushed:
                    add(event.bucket, file, event.snapshot, flushed=True)
                for file in event.after:
                    add(event.bucket, file, event.snapshot, flushed=False)
            axes = {f"/{b}": (_number(low), _number(high)) for b, (low, high) in journal.ends.items()}
            first, last = (journal.first, journal.last) if commits else (None, None)
            return with_span(table_of(EDITS, rows), first, last, axes=axes)

    def levels(
        self, snapshot: int | None = None, *, partition: str | None = None, bucket: int | None = None
    ) -> pa.Table:
        """Live files after a commit (None: the newest), newest run first. The key axis of a bucket is that of
        all its keys, so pictures of several snapshots share it. Raises NotFound."""
        journal = self._journal
        with journal.lock:
            files, origins = journal.files(snapshot), journal.origins()
            tables = [
                levels_table(
                    levels,
                    KEY,
                    bucket=number,
                    among=journal.ends[number],
                    origins={
                        f.file_name: origins[number, f.file_name]
                        for f in levels.level0
                        if (number, f.file_name) in origins
                    },
                )
                for number, levels in files.items()
                if bucket in (None, number) and partition in (None, "")
            ]
        return pa.concat_tables(tables) if tables else LEVELS.empty_table()

    def compactions(self, *, partition: str | None = None, bucket: int | None = None) -> pa.Table:
        """Every compaction that is kept, oldest first: the rule and its sum, files and bytes."""
        rows = [
            (c.event.snapshot, c.event.time_ms, record)
            for c in self._commits()
            for record in c.event.records
            if bucket in (None, c.event.bucket) and partition in (None, "")
        ]
        return compactions_table(rows)

    def amplification(
        self, per: str = "table", *, partition: str | None = None, bucket: int | None = None
    ) -> pa.Table:
        """Write, read and space amplification of all, or `per` "snapshot", "bucket" or "level", since the
        first flush. A `bucket` can be chosen of the views "bucket" and, if there is only that one, of the
        others."""
        if per not in VIEWS:
            raise InvalidRequest(f"per {per!r} must be one of {', '.join(VIEWS)}")
        with self._journal.lock:
            buckets = sorted(self._journal.accounts)
            chosen = [b for b in buckets if bucket in (None, b) and partition in (None, "")]
            if not chosen:
                return schema(per).empty_table()
            if per != "bucket" and chosen != buckets:
                raise InvalidRequest(
                    f"a simulation shows one of its {len(buckets)} buckets per 'bucket' only"
                )
            rows = {"table": self._whole, "snapshot": self._snapshots, "level": self._levels}
            table = self._buckets(chosen) if per == "bucket" else rows[per]()
            return table_of(schema(per), table)

    def _commits(self) -> list[SimulatedCommit]:
        with self._journal.lock:
            return list(self._journal.commits)

    def _whole(self) -> Iterator[tuple[Any, ...]]:
        journal = self._journal
        whole = whole_state(journal.accounts.values())
        yield (*journal.total.row(journal.total.ingested), *whole.row(), *journal.space(), 1)

    def _snapshots(self) -> Iterator[tuple[Any, ...]]:
        for c in self._commits():
            yield c.event.snapshot, c.event.kind, c.event.time_ms, *c.numbers, 1

    def _buckets(self, chosen: list[int]) -> Iterator[tuple[Any, ...]]:
        journal = self._journal
        for bucket in chosen:
            flow = journal.by_bucket[bucket]
            state = state_of(journal.accounts[bucket]).row()
            yield "", bucket, *flow.row(flow.ingested), *state, *journal.space(bucket), 1

    def _levels(self) -> Iterator[tuple[Any, ...]]:
        journal = self._journal
        return level_rows(journal.accounts.values(), journal.by_level, journal.total.ingested, 1)


def _number(key: bytes) -> float:
    """The key of a simulation as a number."""
    (value,) = binary_row.decode(key, KEY)
    assert isinstance(value, int), "keys of a simulation are BIGINT"
    return float(value)


def _snapshot_row(c: SimulatedCommit) -> tuple[Any, ...]:
    event = c.event
    delta = sum(f.row_count for f in c.added) - sum(f.row_count for f in event.before)
    columns = (event.snapshot, 0, event.user, event.identifier, event.kind, event.time_ms, "", "", None)
    return (*columns, c.live_rows, delta, None, None, None, None)


def _commit_row(c: SimulatedCommit) -> tuple[Any, ...]:
    event, sums = c.event, []
    for value in (lambda f: f.row_count, lambda f: 1, lambda f: f.file_size):
        sums += [sum(map(value, c.added)), sum(map(value, event.before))]
    return event.snapshot, event.kind, event.time_ms, *sums, None, None, event.user, event.identifier, "{}"
