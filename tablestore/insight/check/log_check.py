"""I14: the files of a table are the prefix of its log that the newest snapshot names.

Offsets of snapshots never go back and lie in the log; files of an embedded log are sound. Then the rows: in a
table with merge-engine deduplicate the newest row of each key that the end of the log has is the row in the
files. Of other tables the rows that a commit added are counted. An overwrite, a truncation, expired
partitions, and other engines change files and no log: the log is looked at from there on. Memory: the newest
rows of the log of one bucket, at most `_ROWS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, NotFound, Unavailable
from tablestore.core.options.table_options import MergeEngine
from tablestore.format import binary_row, rowkind
from tablestore.format.snapshot import COMPACT, OVERWRITE, Snapshot
from tablestore.insight import cluster_log
from tablestore.insight.check.findings import CheckFindings
from tablestore.log import offsets, transaction_id
from tablestore.log.embedded.continuity import REMEDY, LogMismatch
from tablestore.log.embedded.files import LostEnd
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.fluss_log import FlussLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.kafka.tail import missing_text
from tablestore.log.log import Log, LogExpired
from tablestore.log.offsets import Offsets, reaches
from tablestore.lsm.merge.groups import joined
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import with_level_0
from tablestore.read.scan.plan import FileChoice, plan
from tablestore.read.table_log import furthest, lack_of, offsets_at

_INVARIANT = "I14"
_ROWS = 1 << 20
_DAY_MS = 86_400_000
_SHOWN = 3


class LogCheck:
    """Compares the log of a table with its snapshots. With `data` False no rows are read."""

    def __init__(self, store: Store, log: Log, findings: CheckFindings, *, data: bool) -> None:
        self._store, self._log, self._found, self._data = store, log, findings, data

    def run(self, snapshots: Sequence[Snapshot]) -> None:
        """Look at the log; `snapshots` are those of the table, oldest first."""
        if isinstance(self._log, FlussLog):
            self._in_cluster(self._log, snapshots)
            return
        sound = not isinstance(self._log, EmbeddedLog) or self._files(self._log)
        try:
            bounds = self._log.bounds()
        except (Unavailable, NotFound) as e:
            self._found.note(f"the log was not looked at: {e}")
            return
        except Corrupt as e:
            if sound:
                self._found.violate(_INVARIANT, e.path, e.problem)
            return
        sound = self._named(snapshots, bounds.last) and sound
        if isinstance(self._log, KafkaLog):
            self._kept(self._log, snapshots, bounds.start)
        elif isinstance(self._log, EmbeddedLog):
            sound = self._same(self._log, snapshots) and sound
        if sound and self._data and snapshots:
            try:
                self._rows(snapshots, bounds.start)
            except LogExpired as e:
                self._found.note(f"rows of the log expired while they were compared: {e}")

    def _in_cluster(self, log: FlussLog, snapshots: Sequence[Snapshot]) -> None:
        """Rows that the log of a Fluss cluster lost before the lake had them, or soon will."""
        try:
            missing = cluster_log.missing_rows(self._store, log)
        except cluster_log.UNREACHED as e:
            self._found.note(f"the log in the cluster was not looked at: {e}")
            return
        where = f"snapshot-{snapshots[-1].id}" if snapshots else "log"
        for text in missing.problems:
            self._found.violate(_INVARIANT, where, text)
        if missing.warning:
            self._found.note(missing.warning)

    def _files(self, log: EmbeddedLog) -> bool:
        """Whether the files of an embedded log are sound."""
        problems = log.problems(rows=self._data)
        whole = not problems
        try:
            problems = problems or log.torn_rows(offsets_at(self._store, self._store.snapshots.latest()))
            for path in log.unneeded():
                self._found.note(f"{path}: rolled up or expired; the next expiry removes it")
            for path, _ in log.remove_orphans(older_than_ms=_DAY_MS):
                self._found.note(f"{path}: no file of the log names it; remove_orphans() removes it")
        except Corrupt as e:  # which files a damaged log needs is not known
            problems = problems or [(e.path, f"{e.problem}; {e.remedy or REMEDY}")]
            whole = False
        for path, text in problems:
            self._found.violate(_INVARIANT, path, text)
        return whole

    def _same(self, log: EmbeddedLog, snapshots: Sequence[Snapshot]) -> bool:
        """Whether the transactions that snapshots name are those of the log, and its end is there."""
        named = {last: s for s in snapshots if (last := transaction_id.of_snapshot(s)) is not None}
        different = 0
        try:
            log.require_end(next(reversed(named), None))
        except Corrupt as e:
            different += 1
            self._found.violate(_INVARIANT, e.path, f"{e.problem}; {e.remedy}")
        for last, s in named.items():
            try:
                log.require_same(last)
            except LogMismatch as e:
                different += 1
                text = f"names transaction {last.number} of a log that is not the one at {e.path}"
                self._found.violate(_INVARIANT, f"snapshot-{s.id}", f"{text}; {e.remedy}")
            except Corrupt:  # said of its file
                continue
        different += self._lacking(log, snapshots[-1] if snapshots else None) if not different else 0
        return not different

    def _lacking(self, log: EmbeddedLog, latest: Snapshot | None) -> bool:
        """Whether the log lacks rows that no file of the table has."""
        try:
            problem = lack_of(self._store, log, latest)
        except Corrupt:  # said of its file
            return False
        if problem is None or isinstance(problem, LostEnd):
            return False
        self._found.violate(_INVARIANT, problem.path, f"{problem.problem}; {problem.remedy}")
        return True

    def _named(self, snapshots: Sequence[Snapshot], end: Offsets) -> bool:
        """The offsets that snapshots name; whether the log reaches up to them."""
        named = [(s, at) for s in snapshots if (at := offsets.of_snapshot(s)) is not None]
        for (_, before), (s, at) in pairwise(named):
            if not reaches(at, before):
                text = f"names offsets {at} of the log, behind which the snapshot before it is: {before}"
                self._found.violate(_INVARIANT, f"snapshot-{s.id}", text)
        for s, at in named[-1:]:
            if not reaches(end, at):
                text = f"names offsets {at} of the log, which ends at {dict(end)}; {REMEDY}"
                self._found.violate(_INVARIANT, f"snapshot-{s.id}", text)
                return False
        return True

    def _kept(self, log: KafkaLog, snapshots: Sequence[Snapshot], start: Offsets) -> None:
        """Rows that the files do not have yet are still in the topic."""
        lost = log.lost(offsets_at(self._store, snapshots[-1]) if snapshots else {}, start)
        if lost:
            what = f"{missing_text(log.topic, lost)}, and no file of the table has them"
            self._found.violate(_INVARIANT, "log", f"{what}: table.log.repair() goes on without them")
            return
        try:
            late = cluster_log.warning(log, cluster_log.waiting_rows(self._store, log))
        except (Unavailable, NotFound) as e:
            self._found.note(f"which rows wait for files was not asked: {e}")
            return
        if late:
            self._found.note(late)

    def _rows(self, snapshots: Sequence[Snapshot], start: Offsets) -> None:
        own = _since_the_log_is_all(snapshots)
        begin = furthest({} if own[0].id == 1 else offsets_at(self._store, own[0]), start)
        options = self._store.options
        if not self._store.schema.primary_keys:
            self._added(own, start)
        elif options.merge_engine is not MergeEngine.DEDUPLICATE or options.sequence_fields:
            self._found.note(
                "rows of the log are compared with files where merge-engine is deduplicate, "
                "without sequence.field"
            )
        elif options.record_expire_ms is None:
            stop = offsets_at(self._store, own[-1])
            for bucket in sorted(stop):
                self._newest(own[-1], bucket, begin.get(bucket, 0), stop[bucket])

    def _added(self, snapshots: Sequence[Snapshot], start: Offsets) -> None:
        """Rows that commits added, by their number."""
        for before, s in pairwise(snapshots):
            begin, end = offsets_at(self._store, before), offsets_at(self._store, s)
            if s.commit_kind == COMPACT or not reaches(begin, start):
                continue
            kinds = [b.kinds.to_numpy(zero_copy_only=False) for b in self._log.read(begin, end)]
            rows = sum(int((~rowkind.retracts(k)).sum()) for k in kinds)
            if rows != s.delta_record_count:
                text = f"its files add {s.delta_record_count} rows, its part of the log {rows}"
                self._found.violate(_INVARIANT, f"snapshot-{s.id}", text)

    def _newest(self, snapshot: Snapshot, bucket: int, start: int, stop: int) -> None:
        """The newest row of each key in a part of the log of a bucket, against the files."""
        begin = max(start, stop - _ROWS)
        if begin > start:
            self._found.note(f"bucket {bucket} of the log: offsets from {begin} on were compared with files")
        if begin >= stop:
            return
        batches = list(self._log.read({bucket: begin}, {bucket: stop}))
        if not batches:
            return
        logged = joined([b.rows for b in batches])
        gone = rowkind.retracts(np.concatenate([b.kinds.to_numpy(zero_copy_only=False) for b in batches]))
        newest = {key: row for row, key in enumerate(self._keys(logged))}
        wrong: list[str] = []
        for rows in self._state(snapshot, bucket):
            positions = ((at, newest.pop(key, -1)) for at, key in enumerate(self._keys(rows)))
            pairs = np.array([pair for pair in positions if pair[1] >= 0], np.int64).reshape(-1, 2)
            removed, there = pairs[gone[pairs[:, 1]]], pairs[~gone[pairs[:, 1]]]
            wrong += [f"{self._named_key(rows, at)} was removed" for at, _ in removed.tolist()]
            places = _different(rows.take(pa.array(there[:, 0])), logged.take(pa.array(there[:, 1])))
            wrong += [f"{self._named_key(rows, at)} has other values" for at in there[places, 0].tolist()]
        missing = (row for row in newest.values() if not gone[row])
        wrong += [f"{self._named_key(logged, row)} is not in files" for row in missing]
        if wrong:
            more = f" and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
            text = f"bucket {bucket} differs from its log: {', '.join(wrong[:_SHOWN])}{more}"
            self._found.violate(_INVARIANT, f"snapshot-{snapshot.id}", text)

    def _state(self, snapshot: Snapshot, bucket: int) -> Iterator[pa.RecordBatch]:
        store, names = with_level_0(self._store), self._store.schema.shown.names
        for split in plan(store, snapshot, files=FileChoice(bucket=bucket)).splits:
            yield from split.read(store, names, None)

    def _keys(self, rows: pa.RecordBatch) -> list[bytes]:
        fields = self._store.schema.columns(self._store.schema.primary_keys)
        return binary_row.encode_many([rows.column(f.name) for f in fields], [f.type for f in fields])

    def _named_key(self, rows: pa.RecordBatch, row: int) -> str:
        return str({name: rows.column(name)[row].as_py() for name in self._store.schema.primary_keys})


def _since_the_log_is_all(snapshots: Sequence[Snapshot]) -> Sequence[Snapshot]:
    """The newest snapshots, from the last one that came from elsewhere than the log: without offsets, or an
    overwrite with those of the one before."""
    for number in range(len(snapshots) - 1, 0, -1):
        at, before = (offsets.of_snapshot(snapshots[n]) for n in (number, number - 1))
        if at is None or (snapshots[number].commit_kind == OVERWRITE and at == before):
            return snapshots[number:]
    return snapshots


def _different(rows: pa.RecordBatch, others: pa.RecordBatch) -> np.ndarray:
    """Positions at which the rows have other values; NaN is one."""
    different = np.zeros(rows.num_rows, dtype=bool)
    for name in rows.schema.names:
        some, more = rows.column(name), others.column(name)
        if pa.types.is_nested(some.type):
            same = np.zeros(len(some), dtype=bool)
        else:
            same = pc.fill_null(pc.equal(some, more), False).to_numpy(zero_copy_only=False)
        for at in np.flatnonzero(~same):
            different[at] |= str(some[int(at)]) != str(more[int(at)])
    return np.flatnonzero(different)
