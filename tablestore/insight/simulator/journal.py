"""The journal of a simulation: what each flush and each compaction changed, as snapshots of a table have it.

Every step is one commit, numbered from 1: a flush is an APPEND, a compaction a COMPACT with the record that
the engine keeps of one. The newest `keep` commits are kept, each with the metadata of the files it changed
and its row of amplification; sums go back to the first commit. A mark for each sampled key gives the size of
the compacted copy, with which live bytes are compared. One lock, so that a view may read while a worker
steps. Written by `Simulator`, read by `SimulatedInspect`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np

from tablestore.core.errors import NotFound
from tablestore.format.binary_row import comparable_keys
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.snapshot import APPEND, COMPACT
from tablestore.insight.explain.table_history import BucketEvent
from tablestore.insight.inspect.amplification.ledger import Account, Copies, Flow, Space, State, state_of
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
