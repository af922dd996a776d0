"""The embedded log of a table.

What is visible is all that is appended: transactional readers of the table go no further than the offsets of
its newest snapshot, which is for the caller to see to.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Corrupt, TablestoreError, Unavailable
from tablestore.core.options.log_store import LogCompression
from tablestore.format.evolution import Projection, evolve, projection
from tablestore.format.schema import TableSchema
from tablestore.io.fileio import FileIO
from tablestore.io.paths import is_object_location, join
from tablestore.log.embedded import continuity, files, roll_up
from tablestore.log.embedded.appender import EmbeddedAppender
from tablestore.log.embedded.directory import SPAN, LogDirectory, segment_of
from tablestore.log.embedded.files import LogChunk, LogHeader
from tablestore.log.embedded.folder import LogFile
from tablestore.log.embedded.roll_up import RollUp
from tablestore.log.log import Appended, LogBatch, LogBounds, LogExpired, Milliseconds, Seconds
from tablestore.log.offsets import Offsets, reaches
from tablestore.log.settings import LogSettings
from tablestore.log.transaction_id import TransactionId

log = logging.getLogger(__name__)
T = TypeVar("T")
_STEPS = (0.001, 0.006)  # seconds between two looks of a reader that waits: at first, at last
_REMOTE_STEPS = (0.05, 0.5)  # the same where a look is a request
_NEVER = 1 << 62  # an offset behind all others
_GONE = 5  # times that a file may vanish below a reader without a new row


class EmbeddedLog:
    """The log in the directory that the settings name, with rows of their schema. Safe to share between
    threads.

    `schemas` gives the schema of an id, for rows that were appended before it changed; `memory_bytes`: what
    an appender keeps of one transaction before rows go to a file.
    """

    def __init__(
        self,
        io: FileIO,
        settings: LogSettings,
        *,
        schemas: Callable[[int], TableSchema],
        env: Env = SYSTEM,
        memory_bytes: int = 8 << 20,
    ) -> None:
        self._directory = LogDirectory(
            io,
            settings.directory,
            env,
            root=settings.root,
            table=settings.uuid,
            synced=settings.fsync,
        )
        self._settings, self._schemas, self._memory_bytes = settings, schemas, memory_bytes
        self._schema, self._buckets = settings.schema, settings.buckets
        self._seen_at_once = settings.eventual or settings.tiered
        codec = settings.compression
        self._roll_up = RollUp(
            None if codec is LogCompression.NONE else codec.value,
            settings.schema.primary_keys if settings.upsert else (),
        )
        self._steps = _REMOTE_STEPS if is_object_location(settings.directory) else _STEPS

    def bounds(self) -> LogBounds:
        """Where the log starts and ends now; every bucket is named."""
        end = self._directory.end().offsets
        self._directory.look_at_start()
        return LogBounds(self._start(), {b: end.get(b, 0) for b in range(self._buckets)})

    def appender(self) -> EmbeddedAppender:
        """A new appender."""
        return EmbeddedAppender(
            self._directory,
            self._settings,
            memory_bytes=self._memory_bytes,
            appended=self._appended,
        )

    def read(self, start: Offsets, stop: Offsets, columns: Sequence[str] | None = None) -> Iterator[LogBatch]:
        """The rows from `start` up to but without `stop`, of each bucket in order; none of a bucket that
        `stop` does not name. Raises LogExpired where rows behind `start` are no longer there, or the log ends
        before `stop`, Corrupt where they are damaged. Memory: a chunk."""
        names = tuple(self._schema.names if columns is None else columns)
        at, gone = dict(start), 0
        if not reaches(self._directory.last_end().offsets, stop):
            self._directory.end()
        while True:
            self._require_there(at, stop)
            try:
                for file in self._directory.files_from(self._asked(at, stop)):
                    if reaches(file.header.start, stop):
                        return
                    for chunk in file.header.chunks_between(at, stop):
                        for batch in self._batches(
                            file, chunk, names, at.get(chunk.bucket, 0), stop[chunk.bucket]
                        ):
                            yield batch
                            at[chunk.bucket], gone = batch.end, 0
                    if reaches(file.header.end, stop):  # whatever lies behind it
                        return
                return self._require_end(at, stop)
            except FileNotFoundError as e:
                gone = self._vanished(e, gone)

    def _asked(self, at: Offsets, stop: Offsets) -> dict[int, int]:
        """From which offset of each bucket rows are wanted."""
        return {b: at.get(b, 0) if at.get(b, 0) < stop.get(b, 0) else _NEVER for b in range(self._buckets)}

    def _vanished(self, error: FileNotFoundError, gone: int) -> int:
        """Look at the directory again, since a file was rolled up or expired; how often that was so. Raises
        Corrupt after too many times."""
        if gone >= _GONE:
            raise Corrupt(str(error.filename or error), "the log names it, but it is not there") from error
        self._directory.forget()
        return gone + 1

    def sound_end(self, start: Offsets, stop: Offsets) -> tuple[Offsets, Corrupt | None]:
        """Up to where the rows between offsets are sound, whole files at a time, and what is wrong behind
        that: (`stop`, None) if nothing. The rows are compared with their checksums, but not in an object
        store, which does that itself. Raises LogExpired as `read` does."""
        self._require_there(start, stop)
        sound = dict(start)
        checked = not is_object_location(self._directory.path)
        try:
            for file in self._directory.files_from(self._asked(start, stop)):
                header = file.header
                if reaches(header.start, stop):
                    break
                for chunk in header.chunks_between(start, stop) if checked else ():
                    files.require_intact(self._directory.rows_of(file, chunk), chunk, file.path)
                sound = {b: max(offset, sound.get(b, 0)) for b, offset in header.end.items()}
        except Corrupt as e:
            return {b: min(sound.get(b, 0), offset) for b, offset in stop.items()}, e
        except FileNotFoundError:  # rolled up or expired meanwhile
            self._directory.forget()
            return self.sound_end(start, stop)
        return stop, None

    def transactions(self, start: Offsets) -> Iterator[Appended]:
        """What was appended behind `start`, in the order of the log."""
        self._directory.end()
        number, gone = 0, 0
        while True:
            try:
                for file in self._directory.files_from(start):
                    for transaction in file.header.transactions:
                        is_behind = any(
                            behind > start.get(bucket, 0)
                            for bucket, (_, behind) in transaction.ranges.items()
                        )
                        if transaction.number > number and is_behind:
                            yield transaction.appended
                            number, gone = transaction.number, 0
                return
            except FileNotFoundError as e:
                gone = self._vanished(e, gone)

    def headers(self) -> list[LogHeader]:
        """What the files of the log say of themselves, oldest first."""
        self._directory.end()
        self._directory.look_at_start()
        return self._tried(
            lambda: [file.header for file in self._directory.files_of(self._directory.chain())]
        )

    def _tried(self, action: Callable[[], T]) -> T:
        """What an action gives, again where a file was rolled up or expired meanwhile."""
        for _ in range(_GONE):
            try:
                return action()
            except FileNotFoundError:
                self._directory.forget()
        raise Unavailable(f"the files of {self._directory.path} change faster than they are read")

    def at(self, timestamp_ms: Milliseconds) -> dict[int, int]:
        """The offset of the first row of each bucket that is not older than a moment; the end, if none."""
        end = self._directory.end()
        offsets = {b: end.offsets.get(b, 0) for b in range(self._buckets)}
        torn = set(end.cut)
        for numbers in reversed(self._directory.chain()):
            try:
                header = self._directory.file(numbers).header
            except Corrupt as e:
                if numbers[1] not in torn:
                    raise Corrupt(e.path, e.problem, remedy=files.REMEDY) from e
                continue
            except FileNotFoundError:
                self._directory.forget()
                return self.at(timestamp_ms)
            torn.update(header.cut)
            if header.timestamp_ms < timestamp_ms:
                break
            for transaction in reversed(header.transactions):
                if transaction.timestamp_ms >= timestamp_ms and transaction.number not in torn:
                    offsets.update({bucket: first for bucket, (first, _) in transaction.ranges.items()})
        return offsets

    def wait(self, offsets: Offsets, seconds: Seconds) -> Offsets | None:
        """Wait until a bucket has rows behind `offsets`; then the end, None after that time without any."""
        env = self._directory.env
        began = env.monotonic()
        step, longest = self._steps
        while True:
            end = self._directory.end().offsets
            if any(behind > offsets.get(bucket, 0) for bucket, behind in end.items()):
                return {b: max(end.get(b, 0), offsets.get(b, 0)) for b in range(self._buckets)}
            waited = env.monotonic() - began
            if waited >= seconds:
                return None
            env.sleep(min(max(step, min(waited / 50, longest)), seconds - waited))

    def expire(self, keep: Offsets, *, everywhere: Offsets | None = None) -> int:
        """Remove old rows as the table's options say, none from `keep` on; how many bytes went.

        Small files are rolled up, too. `everywhere`: what the oldest snapshot has, so that nobody reads
        older states from the log: where the newest row of a key is its state, only that one remains.
        """
        settings = self._settings
        removed = roll_up.expire(
            self._directory,
            keep,
            retention_ms=settings.retention_ms,
            retention_bytes=settings.retention_bytes,
        )
        roll_up.roll_up_due(self._directory, self._roll_up, everywhere=everywhere)
        return removed

    def remove_orphans(self, *, older_than_ms: int, dry_run: bool = True) -> list[tuple[str, int]]:
        """(path, bytes) of files that killed writers left and that are older; removed unless `dry_run`."""
        orphans = roll_up.orphans(self._directory, older_than_ms=older_than_ms)
        for path, _ in () if dry_run else orphans:
            self._directory.io.delete(path)
        return orphans

    def problems(self, *, rows: bool) -> list[tuple[str, str]]:
        """(path, what is wrong) of the files of the log; with `rows` the rows are read, too."""
        return self._tried(lambda: list(continuity.problems(self._directory, rows=rows)))

    def unneeded(self) -> list[str]:
        """Files that a roll-up has covered, or retention left, whose remover was killed."""
        return [join(self._directory.path, name) for name in self._directory.listed()[1]]

    # what the table's snapshots say of it

    def require_same(self, last: TransactionId | None) -> None:
        """Raise LogMismatch where the last transaction of a snapshot is another one here, Corrupt where that
        cannot be read."""
        continuity.require_same(self._directory, last)

    def require_end(self, last: TransactionId | None) -> None:
        """Raise Corrupt where rows are missing that were seen before a snapshot has them; `last`: the last
        transaction that one has."""
        problem = continuity.missing_end(self._directory, last) if self._seen_at_once else None
        if problem is not None:
            raise problem

    def lacks(self, at: Offsets, last: TransactionId | None) -> Corrupt | None:
        """What the log lacks of what a snapshot names, its offsets and last transaction; LostEnd where a loss
        of power took it. Raises LogMismatch and Corrupt."""
        self.require_end(last)
        return continuity.lacks(self._directory, at, last)

    def reset(self) -> None:
        """Know nothing of the files any more."""
        self._directory.reset()

    def salvaging(self) -> EmbeddedLog:
        """The same log without damaged files at its end, to save what is before them."""
        salvaging = copy.copy(self)
        salvaging._directory = self._directory.salvaging()
        return salvaging

    def ends_in_damage(self, last: TransactionId | None) -> bool:
        """Whether files at the end are missing or torn that no snapshot has, or damaged and were passed
        over."""
        missing = continuity.missing_end(self._directory, last) if self._seen_at_once else None
        if missing is not None:
            log.warning("what %s had alone is lost", missing.path)
        self._directory.end()
        torn = self._seen_at_once and self._directory.torn
        return bool(self._directory.passed or torn) or missing is not None

    def torn_rows(self, at: Offsets) -> list[tuple[str, str]]:
        """(path, what is lost) of each torn file at the end, where its rows were seen before a snapshot has
        them; `at`: up to where files of the table have the rows of the log."""
        return continuity.torn_rows(self._directory, at) if self._seen_at_once else []

    def torn_end(self) -> list[str]:
        """Paths of the newest files, as far as a loss of power tore them: the next append leaves them out."""
        directory = self._directory.salvaging()
        return [directory.file_path((number, number)) for number in directory.end().cut]

    def passed_rows(self, at: Offsets) -> dict[int, int]:
        """Per bucket how many offsets behind `at` these have, as far as they still say so."""
        return continuity.passed_rows(self._directory, at)

    def begin_anew(self, at: Offsets, last: TransactionId | None) -> TransactionId:
        """Let the log begin behind all that it has and a snapshot names; the transaction with which it
        does. Raises CommitConflict where somebody else was first."""
        return continuity.begin_anew(self._directory, at, last, buckets=self._buckets)

    def accept_start(self) -> None:
        """Let the log begin with its oldest file: what is missing before that is given up."""
        self._directory.forget()
        if chain := self._directory.chain():
            continuity.note_start(self._directory, chain[0][0])

    def remove_unneeded(self, keep: Offsets) -> None:
        """Remove files that do not belong to the log any more; what they had alone lies below `keep`."""
        for name in self._directory.unneeded(keep):
            self._directory.io.delete(join(self._directory.path, name))

    def remove_damaged(self) -> list[str]:
        """Remove files that are torn or damaged, though not at the end of the log: it begins behind the last
        of them then. The paths."""
        end = self._directory.end()
        cut, removed = set(end.cut), list[str]()
        self._directory.forget()
        for numbers in reversed(self._directory.chain()):
            path = self._directory.file_path(numbers)
            try:
                file = self._directory.file(numbers)
                self._directory.require_whole(file)
                cut.update(file.header.cut)
            except Corrupt:
                if numbers[0] != numbers[1] or numbers[0] not in cut:
                    removed.append(path)
        for path in removed:
            self._directory.io.delete(path)
            log.warning("removed %s, which is torn or damaged: the log begins behind it", path)
        self._directory.reset()
        return removed

    def drop(self) -> None:
        """Remove the log with all its rows."""
        self._directory.io.delete_tree(self._directory.path)

    def close(self) -> None:
        """Nothing to let go of: no file stays open."""

    def _appended(self, number: int) -> None:
        """Note the start of a new log, and the end, where no snapshot does so at once; roll up what is due. A
        failure is left to the next."""
        if self._seen_at_once:
            continuity.note_end(self._directory, number)
        if number == 1:
            continuity.note_start(self._directory, number)
        if number % SPAN or number <= SPAN:
            return
        try:
            roll_up.roll_up(self._directory, segment_of(number - SPAN, SPAN), self._roll_up)
        except (TablestoreError, OSError) as e:
            log.warning("files of %s are not rolled up: %s", self._directory.path, e)

    def _start(self) -> dict[int, int]:
        """Where it starts; 0 where that is damaged, so that who reads from there meets it."""
        start = self._directory.start() or {}
        return {b: start.get(b, 0) for b in range(self._buckets)}

    def _require_there(self, at: Offsets, stop: Offsets) -> None:
        for bucket, first in self._start().items():
            if at.get(bucket, 0) < min(first, stop.get(bucket, 0)):
                raise LogExpired(
                    f"the log of bucket {bucket} starts at offset {first}; the rows from "
                    f"{at.get(bucket, 0)} on are no longer there"
                )

    def _require_end(self, at: Offsets, stop: Offsets) -> None:
        end = self._directory.last_end().offsets
        for bucket, offset in stop.items():
            if max(end.get(bucket, 0), at.get(bucket, 0)) < offset:
                raise LogExpired(
                    f"the log of bucket {bucket} ends at offset {end.get(bucket, 0)}; the rows from there up "
                    f"to {offset} are missing"
                )

    def _batches(
        self, file: LogFile, chunk: LogChunk, columns: tuple[str, ...], start: int, stop: int
    ) -> Iterator[LogBatch]:
        """The rows of a chunk between two offsets."""
        through = self._projection(chunk.schema_id, columns)
        data = self._directory.rows_of(file, chunk)
        files.require_intact(data, chunk, file.path)
        first = chunk.start
        for batch in files.decode_rows(data, chunk, through.file_columns):
            if chunk.sparse:
                offsets = batch.column(files.OFFSET).to_numpy()
            else:
                offsets = np.arange(first, first + batch.num_rows)
            first += batch.num_rows
            low, high = np.searchsorted(offsets, [start, stop])
            if low >= high:
                continue
            batch, offsets = batch.slice(low, high - low), offsets[low:high]
            rows = evolve(batch.select(through.file_columns), through)
            yield LogBatch(
                chunk.bucket,
                offsets,
                _timestamps(file.header, chunk.bucket, offsets),
                batch.column(files.KIND),
                rows,
                int(offsets[-1]) + 1,
            )

    def _projection(self, schema_id: int, columns: tuple[str, ...]) -> Projection:
        same = schema_id == self._schema.id
        return projection(self._schema if same else self._schemas(schema_id), self._schema, columns)


def _timestamps(header: LogHeader, bucket: int, offsets: np.ndarray) -> np.ndarray:
    """When each row was appended."""
    if len(header.transactions) == 1:
        return np.full(len(offsets), header.timestamp_ms)
    ends = [(t.ranges[bucket][1], t.timestamp_ms) for t in header.transactions if bucket in t.ranges]
    behind, timestamps = np.array(ends, np.int64).T
    return timestamps[np.searchsorted(behind, offsets, side="right")]
