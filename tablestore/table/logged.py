"""Commits to a table with a log: first the log, which is the order, then the files, always a prefix of it.

A commit appends its rows to the log in one transaction with its mark (user, identifier, position), then
publishes its files on top of a snapshot whose offsets end where the rows begin. Where rows of others lie in
between its files are too old: they go, and what is missing is written from the log (`log_finishing.py`). Once
the log has the rows no error says that they are not there.

Where rows are seen at once (eventual) they carry no mark; who comes next completes them in one commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from tablestore.core.errors import CommitConflict, CommitUnknown, NotFound, RowsNotVisible, TablestoreError
from tablestore.format.commit_message import CommitMessage
from tablestore.format.snapshot import Snapshot
from tablestore.log import offsets
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Appended, Appender, CommitMark, FilesBehindLog, RowsInBetween
from tablestore.log.offsets import Offsets
from tablestore.read.table_log import removes_rows
from tablestore.table import finishing
from tablestore.table.log_finishing import TRIES, LogFinisher, offsets_of
from tablestore.write.commit import changes, conflict_check
from tablestore.write.commit.commit_or_discard import commit_or_discard, discard, discarded_on_error
from tablestore.write.commit.committer import Committer
from tablestore.write.commit.next_snapshot import require_free
from tablestore.write.commit.request import CommitRequest, Committed, LogMoved, LogRange
from tablestore.write.log_tee import LogTee, has_gaps, joined, staged_of, visible_of
from tablestore.write.table_write import TableWrite

log = logging.getLogger(__name__)
_WAIT_SECONDS, _STEP_SECONDS = 0.2, 0.01


@dataclass(frozen=True)
class LogCommitter(LogFinisher):
    """Commits to a table with a log, on top of files that are brought up to it."""

    def tee(self, snapshot: Snapshot | None) -> LogTee:
        """What takes rows to the log, of a writer that goes on from a snapshot."""
        at = {} if snapshot is None else self.position(snapshot)
        self.require_whole(snapshot)
        return LogTee(self.log.appender, self.settings, at)

    def commit(
        self, target: TableWrite, asked: CommitRequest, messages: Sequence[CommitMessage]
    ) -> Committed:
        """Commit what was written to `target`: `messages` are its files."""
        tee = target.tee
        assert tee is not None, "a table with a log is written to through a tee"
        if not target.files:
            with _forgotten_on_error(tee.appender):
                return self._appended(tee.appender, asked, rows=target.rows)
        asked = replace(asked, compacted_from=target.compacted_from)
        with discarded_on_error(self.store, messages), _forgotten_on_error(tee.appender):
            require_free(asked.properties or {})
            if tee.eventual:
                tee.end_batch()
                appended, gaps = tee.flushed(), tee.gaps
            elif self._replays(asked):
                tee.abort()
                appended, gaps = None, False
            else:
                after = self._basis_in_log(asked, messages)
                appended, gaps = tee.appender.commit(_mark_of(asked), after=after), False
        if appended is None:
            return finishing.commit(self.store, messages, asked)
        at: Offsets | None = tee.at
        if asked.basis is not None and not self.keyed:  # rows that others added meanwhile change nothing
            try:
                at = self.position()
            except (TablestoreError, OSError) as e:  # the rows are in the log
                log.info("%s: committing from the log: %s", self.store.paths.root, e)
                at = None
        publish = partial(finishing.commit, self.store, messages)
        return self._placed(messages, asked, appended, None if gaps else at, target.rows, publish)

    def _appended(
        self, appender: Appender, asked: CommitRequest, staged: Sequence[bytes] = (), *, rows: int = 0
    ) -> Committed:
        """The commit of rows that go to the log alone, where they are seen at once. A replay adds nothing:
        between the look at what is there and the append nobody else may append to the same buckets."""
        require_free(asked.properties or {})
        self.require_whole(self.store.snapshots.latest())
        for _ in range(TRIES):
            bounds = self.log.bounds()
            if isinstance(self.log, KafkaLog):
                self.log.require_end(self.position(), bounds)
            end = bounds.end
            if self._replays(asked):
                appender.abort()
                return Committed(replayed=True)
            try:
                done = appender.commit(_mark_of(asked), staged, after=end if asked.streaming else None)
            except RowsInBetween as e:
                log.debug("%s: looking for a replay again: %s", self.store.paths.root, e)
                continue
            if done is not None and staged:
                rows = done.rows
            return Committed(rows=rows)
        raise CommitConflict(f"others appended first {TRIES} times; nothing was appended, retry later")

    def commit_messages(self, messages: Sequence[CommitMessage], asked: CommitRequest) -> Committed:
        """Commit messages of engine writers; what they staged for the log is appended first."""
        parts = [m.log for m in messages if m.log is not None]
        messages = [m for m in messages if m.log is None]
        staged, visible = staged_of(parts), visible_of(parts)
        if self.settings.tiered and not messages:
            return self._appended(self.log.appender(), asked, staged)
        require_free(asked.properties or {})
        replayed = not visible and self._replays(asked)
        at = self.position()
        newer = replayed or not (staged or visible) or self._numbered_after(messages)
        appended = joined(visible)
        if staged and not replayed:
            if asked.handed_over:
                self._require_fresh(messages)
            appended = self.log.appender().commit(_mark_of(asked), staged)

        def publish(request: CommitRequest) -> Committed:
            done = Committer(self.store).commit(messages, request)
            return finishing.finished(self.store, done, messages, request)

        if appended is None:
            return publish(asked)
        fits = newer and not has_gaps(visible)
        rows = sum(f.row_count for m in messages for f in m.new_files)
        return self._placed(messages, asked, appended, at if fits else None, rows, publish)

    def _replays(self, asked: CommitRequest) -> bool:
        """Whether table or log have this commit already; the log's part is finished then. Raises Unavailable
        where a transaction of another writer hides what lies behind it in a topic."""
        if not asked.streaming:
            return False
        if isinstance(self.log, KafkaLog):
            self.log.require_decided()
        tail = self.log.transactions(self.position())
        if any(_is(appended.mark, asked) for appended in tail):
            if self.settings.tiered:
                return True
            self.finish()
        return Committer(self.store).knows(asked)

    def _follows(self, at: Offsets, appended: Appended) -> bool:
        """Whether nothing of others lies between offsets and rows that were appended, or among these, in
        their buckets."""
        if appended.mixed:
            return False
        if all(at.get(bucket, 0) == start for bucket, start in appended.start.items()):
            return True
        seen = False
        for other in self.log.transactions({**self.log.bounds().end, **offsets_of(at, appended.end)}):
            if other.start == appended.start:
                seen = True
            elif any(
                other.start[b] < appended.start.get(b, 0) for b in other.end if other.end[b] > at.get(b, 0)
            ):
                return False
        return seen

    def _placed(
        self,
        messages: Sequence[CommitMessage],
        asked: CommitRequest,
        appended: Appended,
        at: Offsets | None,
        rows: int,
        publish: Callable[[CommitRequest], Committed],
    ) -> Committed:
        """The commit of rows that are in the log: `messages`, whose rows are newer than the files at the
        offsets `at` (None: older than some), on top of these if nothing lies in between, or else what the log
        has. From here on no error says that the rows are not there."""
        if at is not None:
            start = {bucket: at.get(bucket, 0) for bucket in appended.end}
            try:
                if not self._follows(at, appended):
                    raise LogMoved("rows of others come before these in the log")
                done = publish(replace(asked, basis=None, log=LogRange(start, appended.end, appended.last)))
            except LogMoved:
                pass
            except (TablestoreError, OSError) as e:
                if isinstance(e, NotFound):
                    self.store.require_same()
                log.info("%s: committing from the log: %s", self.store.paths.root, e)
                if isinstance(e, CommitUnknown):
                    messages = ()  # a snapshot may name them
            else:
                if not done.replayed:
                    return done
        self._discard(messages)
        try:
            replayed = appended.mark is None and Committer(self.store).knows(asked)
            self._settle(asked, appended, wait=at is not None)
            ids = self._made_by(asked)
            behind = not offsets.reaches(self.position(), appended.end)
        except NotFound:
            self.store.require_same()
            raise
        except RowsNotVisible:
            raise
        except (TablestoreError, OSError) as e:
            raise FilesBehindLog(_behind(e)) from e
        if behind:
            raise FilesBehindLog(_behind("a transaction of another writer before them is still open"))
        return Committed(replayed=True) if replayed else Committed(ids, rows, from_log=True)

    def _settle(self, asked: CommitRequest, appended: Appended, *, wait: bool) -> None:
        """Bring the files up to the rows that were appended, whoever does it."""
        if appended.mark is None:
            return self._settle_visible(asked, appended)
        clock = self.store.env.monotonic()
        while not wait and self.store.env.monotonic() - clock < _WAIT_SECONDS:
            if offsets.reaches(self.position(), appended.start):
                break  # who came before has committed
            self.store.env.sleep(_STEP_SECONDS)
        self.finish()

    def _settle_visible(self, asked: CommitRequest, appended: Appended) -> None:
        """The same for rows without a mark: the commit that brings them, or an empty one, is that of
        `asked`."""
        if Committer(self.store).knows(asked):
            asked = CommitRequest(self.store.fresh_user())
        for _ in range(TRIES):
            at = self.position()
            try:
                if offsets.reaches(at, appended.end):
                    if asked.streaming:
                        commit_or_discard(self.store, [], replace(asked, basis=None, log=LogRange({}, {})))
                    return
                missing = joined(list(self.missing(at)))
                assert missing is not None, "the log ends behind what was appended"
                self.from_log(missing, at, asked)
                return
            except CommitConflict as e:
                log.debug("%s: finishing the log again: %s", self.store.paths.root, e)
        raise CommitConflict(f"others were first {TRIES} times; retry later")

    def _made_by(self, asked: CommitRequest) -> tuple[int, ...]:
        """The ids of the newest snapshots of a commit."""
        ids: list[int] = []
        at = self.store.snapshots.latest()
        for _ in range(TRIES):
            if at is None:
                break
            if (at.commit_user, at.commit_identifier) == (asked.user, asked.identifier):
                ids.insert(0, at.id)
            elif ids:
                break
            try:
                at = self.store.snapshots.get(at.id - 1) if at.id > 1 else None
            except NotFound:
                break
        return tuple(ids)

    def _discard(self, messages: Iterable[CommitMessage]) -> None:
        try:
            discard(self.store, messages)
        except (TablestoreError, OSError) as e:
            log.warning("%s: left files of no snapshot behind: %s", self.store.paths.root, e)

    def _basis_in_log(self, asked: CommitRequest, messages: Sequence[CommitMessage]) -> Offsets | None:
        """The offsets behind which others may not have appended to buckets of this commit, None for all.

        Raises CommitConflict where rows changed that it was made from: later the log would have them.
        Without a key rows that came since change nothing, only those that went do.
        """
        if asked.basis is None:
            return None
        latest, appended = self.store.snapshots.latest(), changes.appended(messages)
        conflict_check.require_basis(self.store, latest, asked.basis, appended)
        based = self.position(asked.basis.snapshot) if asked.basis.snapshot is not None else {}
        if self.keyed:
            return based
        end = self.log.bounds().end
        if removes_rows(self.log, self.settings.schema, based, end):
            raise CommitConflict("others removed rows by way of the log meanwhile; do it again")
        return end

    def _numbered_after(self, messages: Sequence[CommitMessage]) -> bool:
        """Whether the rows of new files are newer than all that their buckets hold: tasks of engines are told
        the numbers before they start."""
        least = {
            (m.partition, m.bucket): min(f.min_sequence for f in m.new_files) for m in messages if m.new_files
        }
        partitions = {partition for partition, _ in least}
        latest = self.store.snapshots.latest()
        for e in self.store.manifests.live_entries(latest, partitions=partitions):
            if least.get((e.partition, e.bucket), e.file.max_sequence + 1) <= e.file.max_sequence:
                return False
        return True

    def _require_fresh(self, messages: Sequence[CommitMessage]) -> None:
        """Raise CommitConflict for files that are in the table: these messages were committed before."""
        names = {f.file_name for m in messages for f in m.new_files}
        partitions = {m.partition for m in messages}
        latest = self.store.snapshots.latest()
        live = self.store.manifests.live_entries(latest, partitions=partitions)
        present = sorted(names.intersection(e.file.file_name for e in live))
        if present:
            text = f"{', '.join(present[:3])}: in the table already; these messages were committed before"
            raise CommitConflict(text, files=tuple(present))


def _mark_of(asked: CommitRequest) -> CommitMark:
    return CommitMark(
        asked.user, asked.identifier, asked.position, dict(asked.properties or {}), asked.watermark
    )


def _is(mark: CommitMark | None, asked: CommitRequest) -> bool:
    return mark is not None and mark.user == asked.user and mark.identifier >= asked.identifier


def _behind(e: object) -> str:
    return (
        f"the rows are in the table's log, but not yet in its files ({e}); the next write, compaction or "
        "table.log.finish() brings them: do not write them again under another name"
    )


@contextmanager
def _forgotten_on_error(appender: Appender) -> Iterator[None]:
    try:
        yield
    except BaseException:
        try:
            appender.abort()
        except (TablestoreError, OSError) as e:
            log.warning("left staged rows of a log behind: %s", e)
        raise
