"""Files brought up to the log of a table: what it has and they have not, in its order.

Each commit whose rows are in the log alone comes into files under its own mark (user, identifier, position),
so its replay adds nothing. That is the recovery with which every writer begins: whoever comes next completes
what a kill interrupted between log and snapshot.

Those of a tiered table come in one commit, a round, with the positions of their streams. Who appended is
recognised afterwards by the marks in the log, and once the files have the rows by the positions in the
snapshot. A round has the newest watermark of its commits, and of their properties those of the last.
"""

from __future__ import annotations

import logging
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import CommitConflict
from tablestore.format import rowkind
from tablestore.format.snapshot import BATCH_IDENTIFIER, Snapshot
from tablestore.log import offsets
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Appended, CommitMark, Log, LogBounds
from tablestore.log.offsets import Offsets
from tablestore.log.settings import LogSettings
from tablestore.log.transaction_id import TransactionId, newest
from tablestore.meta import positions
from tablestore.meta.open_writers import writing
from tablestore.meta.positions import Position
from tablestore.meta.store import Store
from tablestore.read.table_log import removes_rows
from tablestore.table import deleting, finishing
from tablestore.table.log_repair import LogRepair
from tablestore.table.row_changes import ChangeSteps, RowChanges
from tablestore.write.commit.commit_or_discard import commit_or_discard
from tablestore.write.commit.committer import Committer
from tablestore.write.commit.request import CommitRequest, Committed, LogMoved, LogRange
from tablestore.write.log_tee import joined
from tablestore.write.table_write import TableWrite

log = logging.getLogger(__name__)
TRIES = 50
"""How often a commit is done again where others come first."""


@dataclass(frozen=True)
class LogFinisher:
    """Brings the files of a table up to its log. `write` makes a writer of its files for a commit user."""

    store: Store
    log: Log
    settings: LogSettings
    write: Callable[[str], TableWrite]

    def position(self, snapshot: Snapshot | None = None) -> dict[int, int]:
        """The offsets up to which the files of a snapshot (None: the newest) hold the rows of the log."""
        at = snapshot or self.store.snapshots.latest()
        return offsets.known(at, self.store.snapshots.get)

    def require_whole(self, latest: Snapshot | None) -> None:
        """Raise Corrupt where an embedded log lacks what the newest snapshot names of it. Of a topic `_whole`
        says so, whose bounds are asked for only once."""
        self._repair.require_whole(latest)

    @property
    def _repair(self) -> LogRepair:
        return LogRepair(self.store, self.log, lambda log: replace(self, log=log)._finish_each())

    def finish(self) -> tuple[int, ...]:
        """Write what the log has and the files have not; the ids of the snapshots made. Raises what commits
        raise; the same call later goes on."""
        self.require_whole(self.store.snapshots.latest())
        done = self._finish_at_once() if self.settings.tiered else None
        return self._finish_each() if done is None else done

    def _finish_at_once(self) -> tuple[int, ...] | None:
        """The same in one commit, which knows the marks of all; None where that cannot be: rows without a key
        are removed."""
        for _ in range(TRIES):
            latest = self.store.snapshots.latest()
            at = self.position(latest) if latest is not None else {}
            end = self._whole(at).end
            if offsets.reaches(at, end):
                return ()
            if not self.keyed and removes_rows(self.log, self.settings.schema, at, end):
                return None
            log_round = self.round(latest, end)
            try:
                asked = log_round.request(self.store.fresh_user())
                parts = log_round.parts() if log_round.repeated else None
                ids = self._published(asked, log_round.start, log_round.end, parts).snapshots
            except CommitConflict as e:
                log.debug("%s: finishing the log again: %s", self.store.paths.root, e)
                continue
            for appended in log_round.repeated:
                self._warn_of(appended.mark)
            return ids
        raise CommitConflict(f"others were first {TRIES} times while the log was finished; retry later")

    def round(self, latest: Snapshot | None, end: Offsets, passed: Offsets | None = None) -> LogRound:
        """What a commit on top of a snapshot brings that has the log up to `end`. `passed`: where the log
        goes on in buckets of which rows are lost."""
        at = {} if latest is None else self.position(latest)
        return round_of(self.log, at, end, positions.known(self.store, latest), passed or {})

    def _finish_each(self) -> tuple[int, ...]:
        """`finish`, a snapshot for each commit."""
        ids: list[int] = []
        for _ in range(TRIES):
            at = self.position()
            if offsets.reaches(at, self._whole(at).end):
                return tuple(ids)
            try:
                for appended in self.missing(at):
                    at = self.position()
                    if offsets.reaches(at, appended.end):  # it came with another, or others were first
                        ids += self._noted(appended)
                        continue
                    if appended.mixed:  # rows of another commit are among its own
                        together = self._finish_at_once()
                        if together is not None:
                            return (*ids, *together)
                    ids += self.from_log(appended, at)
                return (*ids, *self._behind_last_row())
            except CommitConflict as e:  # another writer finished it first, or what is written upon expired
                log.debug("%s: finishing the log again: %s", self.store.paths.root, e)
        raise CommitConflict(f"others were first {TRIES} times while the log was finished; retry later")

    def _behind_last_row(self) -> tuple[int, ...]:
        """Note the offsets behind the last row that have none: once retention passes them, nobody can say
        that they were no rows. The ids of the snapshots made."""
        at = {**dict.fromkeys(self.log.bounds().end, 0), **self.position()}
        moved = {b: offset for b, offset in self._without_rows(at).items() if offset > at[b]}
        if not moved:
            return ()
        asked = CommitRequest(self.store.fresh_user(), log=LogRange(offsets_of(at, moved), moved))
        return commit_or_discard(self.store, [], asked).snapshots

    def _without_rows(self, at: Offsets) -> Offsets:
        """The offsets up to which no row follows `at`: in a topic behind ends of transactions."""
        return self.log.without_rows(at) if isinstance(self.log, KafkaLog) else at

    def _whole(self, at: Offsets) -> LogBounds:
        """Where the log starts and ends. Raises LogExpired or Corrupt where rows behind those in files, which
        end `at`, are gone from a topic."""
        return self.log.whole_bounds(at) if isinstance(self.log, KafkaLog) else self.log.bounds()

    def repair(self) -> dict[int, int]:
        """Go on without what is damaged or gone; per bucket how many offsets went whose rows no file of the
        table has."""
        return self._repair.run()

    def missing(self, at: Offsets) -> Iterator[Appended]:
        """What the files do not have, in the order of the log; rows without a mark as one."""
        waiting: list[Appended] = []
        for appended in self.log.transactions(at):
            if offsets.reaches(at, appended.end):
                continue
            if appended.mark is None:
                waiting.append(appended)
                continue
            if waiting:
                yield _together(waiting)
                waiting = []
            yield appended
        if waiting:
            yield _together(waiting)

    def from_log(
        self, appended: Appended, at: Offsets, asked: CommitRequest | None = None
    ) -> tuple[int, ...]:
        """Write rows of the log to the files, on top of `at`, under their mark, `asked` or a name of their
        own."""
        asked = asked or _request_of(appended.mark) or CommitRequest(self.store.fresh_user())
        start = offsets_of(at, appended.end)
        end = self._without_rows({b: max(start[b], offset) for b, offset in appended.end.items()})
        asked = replace(asked, basis=None, log=LogRange(start, end, appended.last), handed_over=False)
        if appended.mark is not None and Committer(self.store).knows(asked):
            return self._passed_over(appended, asked)
        with writing(self.store):
            committed = deleting.again(lambda: self._published(asked, start, end), unless=LogMoved)
        log.info("%s: %d rows came from the log into files", self.store.paths.root, committed.rows)
        if committed.replayed and not offsets.reaches(self.position(), appended.end):
            return self._passed_over(appended, asked)
        return committed.snapshots

    def _noted(self, appended: Appended) -> tuple[int, ...]:
        """Note the commit of rows that came into files with those of another, among which they are: its
        replay adds nothing."""
        asked = _request_of(appended.mark)
        if asked is None or not asked.streaming or Committer(self.store).knows(asked):
            return ()
        return commit_or_discard(self.store, [], replace(asked, log=LogRange({}, {}))).snapshots

    def _published(
        self,
        asked: CommitRequest,
        start: Offsets,
        stop: Offsets,
        parts: Sequence[tuple[Offsets, Offsets]] | None = None,
    ) -> Committed:
        """The commit of the rows of the log between two offsets, or of those in `parts` of that."""
        gone = RowsToRemove()
        snapshot = self.store.snapshots.latest()
        with self.write(asked.user) as target:
            read = (self.log.read(*part) for part in ([(start, stop)] if parts is None else parts))
            for batch in chain.from_iterable(read):
                rows, kinds = batch.rows, batch.kinds
                if not self.keyed:
                    rows, kinds = gone.taken_from(rows, kinds)
                target.write(rows, kinds)
            if gone.missing:
                messages, _ = deleting.changed(self.store, snapshot, None, gone.steps, target)
            else:
                messages = target.prepare()
        if gone.missing:
            text = "%s: %d rows that the log removes were not there: an overwrite or another engine did"
            log.warning(text, self.store.paths.root, gone.missing)
        done = finishing.commit(self.store, messages, replace(asked, compacted_from=target.compacted_from))
        finishing.require_visible(self.store, done)
        return done

    def _passed_over(self, appended: Appended, asked: CommitRequest) -> tuple[int, ...]:
        """Go past rows of a commit that the table has already: two writers of one name appended it both. Rows
        of others that lie before or among them come into files. Raises LogMoved where another writer has just
        brought these very rows."""
        assert asked.log is not None, "they are in the log"
        at, end = asked.log.start, asked.log.end
        parts = [(at, {b: min(o, end[b]) for b, o in appended.start.items()})]
        for bucket, gaps in appended.between.items():
            parts += [({bucket: max(at[bucket], g.start)}, {bucket: g.stop}) for g in gaps]
        unnamed = CommitRequest(self.store.fresh_user(), log=asked.log)
        ids = deleting.again(lambda: self._published(unnamed, at, end, parts), unless=LogMoved).snapshots
        self._warn_of(appended.mark)
        return ids

    def _warn_of(self, mark: CommitMark | None) -> None:
        """Say that a commit was appended twice."""
        assert mark is not None, "its commit is known by it"
        text = "%s: the log has the rows of commit %d of %s twice; the files have them once"
        log.warning(text, self.store.paths.root, mark.identifier, mark.user)

    @property
    def keyed(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self.settings.schema.primary_keys)


@dataclass(frozen=True, slots=True)
class LogRound:
    """The rows of a log from `start` up to `end`, in some buckets, and what their commits say. `repeated`:
    what was appended of commits that are there already, by two writers of one name."""

    start: Offsets
    end: Offsets
    positions: Mapping[str, Position] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    last: TransactionId | None = None
    repeated: Sequence[Appended] = ()

    def request(self, user: str) -> CommitRequest:
        """The commit of the round."""
        return CommitRequest(
            user,
            properties=dict(self.properties) or None,
            watermark=self.watermark,
            log=LogRange(self.start, self.end, self.last),
            positions=self.positions,
        )

    def parts(self) -> list[tuple[Offsets, Offsets]]:
        """Where the rows are that files lack: from the first offsets of each pair up to the others."""
        missing: list[tuple[Offsets, Offsets]] = []
        for bucket, end in self.end.items():
            at = self.start.get(bucket, 0)
            there = (own for part in self.repeated if bucket in part.start for own in _own(part, bucket))
            for own in sorted(there, key=lambda r: r.start):
                if at < own.start:
                    missing.append(({bucket: at}, {bucket: own.start}))
                at = max(at, own.stop)
            if at < end:
                missing.append(({bucket: at}, {bucket: end}))
        return missing


def _own(appended: Appended, bucket: int) -> Iterator[range]:
    """Where the rows of a transaction are in a bucket, without those of others among them."""
    at = appended.start[bucket]
    for others in appended.between.get(bucket, ()):
        yield range(at, others.start)
        at = others.stop
    yield range(at, appended.end[bucket])


def round_of(
    log: Log, start: Offsets, end: Offsets, reached: Mapping[str, Position], passed: Offsets
) -> LogRound:
    """The round between two offsets, on top of a snapshot that knows these positions; of buckets of which
    rows are lost, behind those that are `passed`."""
    repeated: list[Appended] = []
    by_user: dict[str, Position] = {}
    properties: dict[str, str] = {}
    watermark: int | None = None
    last: TransactionId | None = None
    for appended in log.transactions({**start, **passed}):
        mark = appended.mark
        if not any(first < end.get(b, 0) for b, first in appended.start.items()):
            continue
        last = newest(last, appended.last)
        if mark is None:
            continue
        before = by_user.get(mark.user) or reached.get(mark.user)
        streaming = mark.identifier != BATCH_IDENTIFIER
        if streaming and before is not None and mark.identifier <= before[0]:
            repeated.append(appended)
            continue
        properties |= mark.properties
        watermark = mark.watermark if watermark is None else max(watermark, mark.watermark or watermark)
        if not streaming:
            continue
        kept = mark.position if mark.position is not None else (before[1] if before else None)
        by_user[mark.user] = mark.identifier, kept
    moved = {b: offset for b, offset in end.items() if offset > start.get(b, 0)}
    begin = {b: start.get(b, 0) for b in moved}
    return LogRound(begin, moved, by_user, properties, watermark, last, tuple(repeated))


def offsets_of(at: Offsets, buckets: Iterable[int]) -> dict[int, int]:
    """The offsets `at` in these buckets, 0 where there is none."""
    return {bucket: at.get(bucket, 0) for bucket in buckets}


def _together(parts: Sequence[Appended]) -> Appended:
    together = joined(parts)
    assert together is not None, "there are parts"
    return together


def _request_of(mark: CommitMark | None) -> CommitRequest | None:
    if mark is None:
        return None
    return CommitRequest(
        mark.user, mark.identifier, mark.position, dict(mark.properties) or None, mark.watermark
    )


class RowsToRemove:
    """Collects rows that a log removes from a table without a key, then finds rows that are equal to them:
    so many go, whichever. `missing`: how many were not found. Only a writer that completes what another one
    began removes rows so. Memory: those rows."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._counts: Counter[tuple[Any, ...]] = Counter()

    def taken_from(self, rows: pa.RecordBatch, kinds: pa.Array) -> tuple[pa.RecordBatch, pa.Array]:
        """Collect the rows of kinds −U and −D; the others, which are insertions."""
        retracts = rowkind.retracts(kinds.to_numpy(zero_copy_only=False))
        if retracts.any():
            gone = rows.filter(pa.array(retracts))
            self._batches.append(gone)
            self._counts.update(zip(*map(_values, gone.columns), strict=True))
            rows = rows.filter(pa.array(~retracts))
        return rows, pa.array(np.full(rows.num_rows, rowkind.INSERT, np.int8))

    @property
    def missing(self) -> int:
        """How many collected rows were not found yet."""
        return self._counts.total()

    @property
    def steps(self) -> ChangeSteps:
        """The run over the table that removes them."""
        return ChangeSteps(self._removed)

    def _removed(self, batch: pa.RecordBatch) -> RowChanges:
        if not self.missing:
            return RowChanges()
        gone = []
        likely = self._likely(batch)
        chosen = batch.take(pa.array(likely)).select(self._batches[0].schema.names)
        for place, row in zip(likely, zip(*map(_values, chosen.columns), strict=True), strict=True):
            if self._counts[row] > 0:
                self._counts[row] -= 1
                gone.append(int(place))
        return RowChanges(deleted=gone)

    def _likely(self, batch: pa.RecordBatch) -> np.ndarray:
        """Positions of the rows each of whose plain values is one of those of a collected row."""
        likely = np.ones(batch.num_rows, dtype=bool)
        for name in self._batches[0].schema.names:
            column = batch.column(name)
            if pa.types.is_nested(column.type):
                continue
            wanted = pa.chunked_array([b.column(name) for b in self._batches]).cast(column.type)
            likely &= np.asarray(pc.is_in(column, wanted.combine_chunks()))
        return np.flatnonzero(likely)


def _values(column: pa.Array) -> list[Any]:
    """The values of a column such that equal ones are equal in Python: NaN is a value, too."""
    return [_value(value) for value in column]


def _value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    if pa.types.is_map(scalar.type) or pa.types.is_list(scalar.type) or pa.types.is_large_list(scalar.type):
        return tuple(map(_value, scalar.values))
    if pa.types.is_struct(scalar.type):
        return tuple(map(_value, scalar.values()))
    if pa.types.is_floating(scalar.type):
        return struct.pack("<d", scalar.as_py())
    if pa.types.is_timestamp(scalar.type):
        return scalar.value
    return scalar.as_py()
