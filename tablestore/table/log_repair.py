"""Repair of a log: it goes on with what the files of the table have, and what is sound of it.

What the log still has is brought into files first. Then the table passes rows that are gone. Of an embedded
log damaged files in its middle go, so it begins behind them; where its end is damaged or missing, or it is
another log, it begins anew. A topic of Kafka that ends before the files is lengthened by offsets without
rows. Each step is one file or one transaction, so a kill leaves a log that the same call mends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tablestore.core.errors import CommitConflict, Corrupt, Unsupported
from tablestore.format.snapshot import Snapshot
from tablestore.log import offsets, transaction_id
from tablestore.log.embedded.continuity import LogMismatch
from tablestore.log.embedded.files import LostEnd
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Log, LogExpired
from tablestore.log.offsets import Offsets
from tablestore.log.transaction_id import TransactionId
from tablestore.meta.store import Store
from tablestore.read.table_log import lack_of
from tablestore.write.commit.commit_or_discard import commit_or_discard
from tablestore.write.commit.request import CommitRequest, LogRange

log = logging.getLogger(__name__)
_TRIES = 50


@dataclass(frozen=True)
class LogRepair:
    """Repairs the log of one table. `finish` writes what a log has and the files have not."""

    store: Store
    log: Log
    finish: Callable[[Log], object]

    def require_whole(self, latest: Snapshot | None) -> None:
        """Raise Corrupt where an embedded log lacks what the newest snapshot names: rows appended to it would
        not be seen. Where a loss of power tore its end, it goes on behind what the files have."""
        if not isinstance(self.log, EmbeddedLog):
            return
        for _ in range(_TRIES):
            problem = lack_of(self.store, self.log, latest)
            if problem is None:
                return
            if not isinstance(problem, LostEnd):
                raise problem
            try:
                self.finish(self.log)
                self._begin_anew(self.log)
                return
            except CommitConflict as e:
                log.debug("%s: looking at the end of the log again: %s", self.store.paths.root, e)
            latest = self.store.snapshots.latest()
        raise CommitConflict(f"others were first {_TRIES} times while the log was repaired; retry later")

    def run(self) -> dict[int, int]:
        """Per bucket how many offsets went whose rows no file of the table has, as far as that is known."""
        if isinstance(self.log, KafkaLog):
            return self._of_topic(self.log)
        if isinstance(self.log, EmbeddedLog):
            return self._of_files(self.log)
        raise Unsupported("repair of this log", "logs in files and in Kafka are repaired")

    def _of_topic(self, topic: KafkaLog) -> dict[int, int]:
        self._finish_sound(topic)
        topic.reach(self._at)
        gone = self._pass_lost(topic)
        self.finish(topic)
        return gone

    def _of_files(self, whole: EmbeddedLog) -> dict[int, int]:
        saved = whole.salvaging()  # passes over damaged files at its end
        try:
            saved.require_same(self._last)
        except LogMismatch as e:
            log.warning("%s: nothing is taken from its log: %s", self.store.paths.root, e)
            self._begin_anew(saved)
            self._ended(whole, saved)
            return {}
        except Corrupt as e:
            log.info("%s: %s", self.store.paths.root, e)
        self._finish_sound(saved)
        saved.remove_damaged()
        gone = self._pass_lost(saved)
        self.finish(saved)
        at = self._at
        ends_whole = offsets.reaches(saved.bounds().end, at) and not saved.torn_end()
        if saved.ends_in_damage(self._last) or not ends_whole:
            for bucket, rows in saved.passed_rows(at).items():
                gone[bucket] = gone.get(bucket, 0) + rows
            self._begin_anew(saved)
        self._ended(whole, saved)
        return gone

    def _ended(self, whole: EmbeddedLog, saved: EmbeddedLog) -> None:
        saved.remove_unneeded(self._at)
        saved.accept_start()
        whole.reset()

    def _finish_sound(self, of: Log) -> None:
        """Bring what the log has up to the first rows that are damaged or gone into files."""
        try:
            self.finish(of)
        except (Corrupt, LogExpired) as e:
            log.info("%s: finished up to what is damaged: %s", self.store.paths.root, e)

    def _pass_lost(self, of: EmbeddedLog | KafkaLog) -> dict[int, int]:
        """Commit that the files are where the log begins, if that is behind them; per bucket how many offsets
        were passed."""
        at, start = self._at, of.bounds().start
        if isinstance(of, KafkaLog):
            lost = of.lost(at, start)
        else:
            lost = {b: range(at.get(b, 0), first) for b, first in start.items() if at.get(b, 0) < first}
        if lost:
            self._pass(at, {bucket: gone.stop for bucket, gone in lost.items()}, None)
        return {bucket: len(gone) for bucket, gone in lost.items()}

    def _begin_anew(self, to: EmbeddedLog) -> None:
        """Let the log begin behind what it has, all of which is in files, and what these have."""
        at = self._at
        begun = to.begin_anew(at, self._last)
        self._pass(at, to.bounds().end, begun)

    def _pass(self, at: Offsets, end: Offsets, last: TransactionId | None) -> None:
        """Commit that the files are at `end`."""
        start = {bucket: at.get(bucket, 0) for bucket in end}
        commit_or_discard(
            self.store, [], CommitRequest(self.store.fresh_user(), log=LogRange(start, end, last))
        )

    @property
    def _at(self) -> dict[int, int]:
        """The offsets up to which the files have the rows of the log."""
        return offsets.known(self.store.snapshots.latest(), self.store.snapshots.get)

    @property
    def _last(self) -> TransactionId | None:
        return transaction_id.known(self.store.snapshots.latest(), self.store.snapshots.get)
