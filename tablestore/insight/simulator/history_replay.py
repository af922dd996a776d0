"""Replays: a table's own history carried out again, under its options or under others.

First every commit is carried out under the table's options in each mode in which it may have compacted, until
one leaves the files that the table had. That finds out who compacted when (`BucketCommit.mode`), and what
each merge gave (`OwnMerges`). Then the same flushes, commits and jobs can be carried out under any options: a
merge that the table made gives its real files, any other an estimate. Commits that no mode explains are
listed. Memory: the metadata of the history's files. Nothing is read; `insight.explain.table_history` gives
the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tablestore.core.errors import Unsupported
from tablestore.core.options.table_options import CompactionStrategy, TableOptions
from tablestore.format.binary_row import comparable_keys
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.schema import TableSchema
from tablestore.insight.explain.merge_size import SizeModel
from tablestore.insight.explain.table_history import (
    BucketCommit,
    BucketEvent,
    CompactionMode,
    Place,
    occasions,
)
from tablestore.insight.inspect.amplification.ledger import Ledger, compactions_of
from tablestore.insight.simulator.replay_bucket import (
    BETWEEN,
    ESTIMATED,
    ExecutedDecision,
    Files,
    OwnMerges,
    ReplayBucket,
    ReplayedMerge,
    fits,
)
from tablestore.insight.simulator.replay_result import Replay, ReplayRow, Steps
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.levels.sorted_run import Levels

ProgressCallback = Callable[[int, int], None]  # (commits done, all of them)


class ReplayedHistory:
    """A table's events, with how each commit compacted, and what its merges gave.

    `options` are those of now; `earlier` those of schemas before it, by id, which were in force when events
    name them. Options of one writer or one job are stored nowhere. `model` estimates merges that the table
    did not make; without one it is learned from these events.
    """

    def __init__(
        self,
        events: Iterable[BucketEvent],
        schema: TableSchema,
        options: TableOptions,
        *,
        earlier: Mapping[int, TableOptions] | None = None,
        model: SizeModel | None = None,
        progress: ProgressCallback | None = None,
    ) -> None:
        if not schema.primary_keys:
            raise Unsupported("replays of tables without a primary key", "they have no levels")
        self.events = tuple(events)
        self.types = tuple(f.type for f in schema.key_fields)
        self.options = CompactionOptions.of(options)
        self._earlier = {i: CompactionOptions.of(o) for i, o in (earlier or {}).items() if i != schema.id}
        self._marked = options.deletion_vectors
        early = options.needs_lookup and not options.lookup_wait
        self._default = (
            CompactionMode.NEVER
            if options.write_only
            else CompactionMode.EARLIER
            if early
            else CompactionMode.SETTLE
        )
        self.places = occasions(self.events)
        learned = model or SizeModel.learned(_merges(self.events), self.types, _flushed(self.events))
        self.model = learned
        self._own: dict[Place, OwnMerges] = {}
        self.real: dict[Place, Levels] = {}
        self.unexplained: list[tuple[int, Place]] = []
        self.halves: list[tuple[int, Place]] = []  # compactions of commits whose flushes have expired
        understood = 0
        for place, place_events in self.places.items():
            if progress is not None:
                progress(understood, self.commits)
            self._understand(place, place_events)
            understood += len(place_events)

    @property
    def commits(self) -> int:
        """Commits to all buckets."""
        return sum(map(len, self.places.values()))

    def ledger(self) -> Ledger:
        """The account of what really happened."""
        ledger = Ledger(self.types, model=self.model)
        for event in self.events:
            if event.bucket >= 0:
                ledger.enter(event)
        return ledger

    def replay(
        self,
        options: CompactionOptions | None = None,
        *,
        estimates: bool = False,
        progress: ProgressCallback | None = None,
    ) -> Replay:
        """The history under other options (None: its own, as they were); `estimates`: no real output is used.

        `progress(commits done, all of them)` is called after each; what it raises ends the replay.
        """
        wanted = options or self.options
        rows: list[ReplayRow] = []
        levels: dict[Place, Levels] = {}
        done: list[tuple[int, Place, ExecutedDecision]] = []
        steps: dict[Place, Steps] = {}
        for place, place_events in self.places.items():
            bucket, steps[place] = self._bucket(place, wanted, estimates=estimates), Steps()
            stalls = 0
            for occasion in place_events:
                if progress is not None:
                    progress(len(rows), self.commits)
                if options is None:
                    bucket.options = self.in_force(occasion)
                _carry_out(bucket, occasion, unchanged=options is None)
                stalls += sum(d.stalled for d in bucket.done)
                done += ((occasion.last_snapshot, place, d) for d in bucket.done)
                bucket.done = []
                row = ReplayRow.of(
                    bucket.account,
                    place,
                    stalls=stalls,
                    snapshot=occasion.last_snapshot,
                    time_ms=occasion.now_ms,
                    kind=occasion.kind,
                )
                rows.append(row)
                steps[place].add(occasion.last_snapshot, bucket.levels)
            levels[place] = bucket.levels
        rows.sort(key=lambda r: r.snapshot)
        merges = [m.known for _, _, d in done for m in d.merges]
        total, tree = sum(merges), (steps, self.types, self.model)
        return Replay(wanted, tuple(rows), levels, tuple(done), total, len(merges) - total, *tree)

    def in_force(self, occasion: BucketCommit) -> CompactionOptions:
        """The table's options at the time of a commit."""
        return self._earlier.get(occasion.schema_id, self.options)

    def _bucket(self, place: Place, options: CompactionOptions, *, estimates: bool = False) -> ReplayBucket:
        learned = self._own[place]
        fresh = OwnMerges(target_bytes=learned.target_bytes)
        measured = fresh if estimates else replace(learned, contents=dict(learned.contents))
        return ReplayBucket(
            options, self.types, self.model, measured, estimates=estimates, marked=self._marked
        )

    def _understand(self, place: Place, occasions: Sequence[BucketCommit]) -> None:
        """Find how each commit to a bucket compacted, and learn what its merges gave."""
        learned = self._own[place] = OwnMerges(target_bytes=self.options.target_bytes)
        bucket = ReplayBucket(
            self.options, self.types, self.model, learned, marked=self._marked, prefix=BETWEEN
        )
        real = bucket.levels
        for occasion in occasions:
            start, real = real, _after(real, occasion)
            bucket.options = self.in_force(occasion)
            occasion.everything = len(occasion.overwritten) == len(start.files)
            occasion.mode = self._mode(bucket, learned, occasion, start, real)
            if occasion.mode is CompactionMode.AS_RECORDED:
                half = (
                    occasion is not occasions[0]
                    and occasions[0].base
                    and occasion.snapshot == occasions[0].snapshot
                )
                missed = self.halves if half else self.unexplained
                missed.append((occasion.last_snapshot, place))
        _settle_doubts(occasions, self._default)
        self.real[place] = real

    def _mode(
        self, bucket: ReplayBucket, contents: OwnMerges, occasion: BucketCommit, start: Levels, goal: Levels
    ) -> CompactionMode | None:
        """The first mode that leads from `start` to `goal`, learned from; None where two would."""
        for mode in _modes(occasion):
            for _ in range(_tries(occasion)):
                bucket.reset(start)
                _carry_out(bucket, replace(occasion, mode=mode), unchanged=True)
                if not _learn_between(contents, bucket, occasion):
                    break
            if _agree(bucket, start, occasion, goal) and _as_recorded(bucket, occasion):
                _learn(contents, bucket, occasion, goal)
                quiet = occasion.compaction is None and not bucket.done and bool(occasion.flushes)
                occasion.left_alone = quiet and mode is not CompactionMode.SETTLE
                return None if quiet else mode
        if occasion.compaction is None:
            return CompactionMode.NEVER
        return CompactionMode.AS_RECORDED


def _modes(occasion: BucketCommit) -> tuple[CompactionMode, ...]:
    """Modes in which a commit may have compacted, the likeliest first."""
    done = occasion.compaction
    if done is None:
        return (
            (CompactionMode.SETTLE, CompactionMode.EARLIER) if occasion.flushes else (CompactionMode.NEVER,)
        )
    if any(r.full and r.asked for r in done.records):
        return (CompactionMode.FULLY,)
    if occasion.flushes:
        return CompactionMode.SETTLE, CompactionMode.ONCE, CompactionMode.EARLIER, CompactionMode.FULLY
    return CompactionMode.ONCE, CompactionMode.FULLY, CompactionMode.SETTLE


def _tries(occasion: BucketCommit) -> int:
    done = occasion.compaction
    return 1 + max(len(done.records), 1) if done is not None else 1


def _carry_out(bucket: ReplayBucket, occasion: BucketCommit, *, unchanged: bool) -> None:
    """One commit: what is overwritten goes, flushes come, and compactions as its mode is."""
    bucket.now_ms = occasion.now_ms
    bucket.restart()
    if occasion.base:
        bucket.replace((), occasion.base)
    if occasion.overwritten:
        bucket.replace(_overwritten(bucket.levels, occasion), ())
    mode = occasion.mode
    for number, files in enumerate(occasion.flushes, start=1):
        if mode is CompactionMode.EARLIER and number == len(occasion.flushes):
            bucket.settle()
        if mode in (CompactionMode.SETTLE, CompactionMode.EARLIER, CompactionMode.FULLY):
            bucket.relieve()
        bucket.flush(files)
        if mode is CompactionMode.ONCE:
            bucket.loop.once()
    if mode is CompactionMode.AS_RECORDED and not (unchanged and _carried_over(bucket, occasion)):
        bucket.loop.once()
    if mode is CompactionMode.ONCE and not occasion.flushes:
        bucket.loop.once()
    if mode is CompactionMode.FULLY:  # files with rows that are deleted or past their time
        due = {f.file_name for f in occasion.compaction.before} if occasion.compaction is not None else set()
        bucket.loop.fully(lambda f: f.file_name in due)
    if mode is CompactionMode.SETTLE or (mode is CompactionMode.FULLY and occasion.flushes):
        bucket.settle()
    bucket.account.changelog += occasion.changelog_bytes


def _carried_over(bucket: ReplayBucket, occasion: BucketCommit) -> bool:
    """Carry over what a compaction did, if its files are there."""
    event = occasion.compaction
    if event is None:
        return False
    there = {(f.level, f.file_name) for f in bucket.levels.files}
    if not all((f.level, f.file_name) in there for f in event.before):
        return False
    bucket.replace(event.before, event.after)
    for level, read, written, moved in compactions_of(event):
        bucket.account.compaction(level, read=read, written=written, moved=moved)
    return True


def _overwritten(levels: Levels, occasion: BucketCommit) -> Files:
    """The files that an overwrite takes away: those it names, and what became of them."""
    names = {f.file_name for f in occasion.overwritten}
    return tuple(f for f in levels.files if occasion.everything or f.file_name in names)


def _after(real: Levels, occasion: BucketCommit) -> Levels:
    """The table's own files after a commit."""
    new = tuple(f for files in occasion.flushes for f in files)
    levels = real.apply(occasion.overwritten, (*occasion.base, *new))
    event = occasion.compaction
    return levels if event is None else levels.apply(event.before, event.after)


def _settle_doubts(occasions: Sequence[BucketCommit], default: CompactionMode) -> None:
    """A commit that had nothing to compact is like the commits before it, else like those after."""
    habit = next((h for h in map(_habit, occasions) if h is not None), default)
    for occasion in occasions:
        if occasion.mode is None:
            left = occasion.left_alone and habit is not CompactionMode.EARLIER
            occasion.mode = CompactionMode.NEVER if left else habit
        else:
            habit = _habit(occasion) or habit


def _habit(occasion: BucketCommit) -> CompactionMode | None:
    """The mode that commits beside this one are likely to have, None if it says nothing about them. A full
    compaction comes every few commits only, and those between settle."""
    if not occasion.flushes or occasion.mode is CompactionMode.AS_RECORDED:
        return None
    return CompactionMode.SETTLE if occasion.mode is CompactionMode.FULLY else occasion.mode


def _agree(bucket: ReplayBucket, start: Levels, occasion: BucketCommit, goal: Levels) -> bool:
    """Whether the replay took the same files, moved the same and wrote to the levels the table wrote to.

    A file may have been moved here and rewritten there; what a merge made may have been nothing there.
    """
    wanted = {(f.level, f.file_name) for f in goal.files}
    old = {(f.level, f.file_name) for f in (*start.files, *occasion.base)}
    old |= {(f.level, f.file_name) for files in occasion.flushes for f in files}
    old_names, wanted_names = {name for _, name in old}, {name for _, name in wanted}
    replayed = {(f.level, f.file_name) for f in bucket.levels.files}
    if not replayed & old <= wanted:
        return False  # a file is left that the table compacted
    kept = {w for w in wanted if w[1] in old_names}
    new = {level for level, name in wanted if name not in old_names}
    levels = {level for level, name in replayed if name not in old_names or name not in wanted_names}
    return {f for f in replayed if f[1] in old_names & wanted_names} == kept and new <= levels


def _as_recorded(bucket: ReplayBucket, occasion: BucketCommit) -> bool:
    """Whether the replay compacted by the rules that the records name, one after the other; without records
    nothing speaks against it."""
    records = occasion.compaction.records if occasion.compaction is not None else ()
    rules = [(d.decision.rule, d.decision.unit and d.decision.unit.output_level) for d in bucket.done]
    return not records or rules == [(r.rule, r.output_level) for r in records]


def _learn(contents: OwnMerges, bucket: ReplayBucket, occasion: BucketCommit, goal: Levels) -> None:
    """Remember the real outputs of merges that the replay made as the table did."""
    if occasion.compaction is None:
        return
    left = {f.file_name: f.level for f in bucket.levels.files}
    key = comparable_keys(bucket.types)
    for done in bucket.done:
        for merge in done.merges:
            levels = {left[f.file_name] for f in merge.outputs if f.file_name in left}  # moved on, maybe
            if merge.known or not levels:
                continue
            low, high = min(key(f.min_key) for f in merge.inputs), max(key(f.max_key) for f in merge.inputs)
            written = (f for f in occasion.compaction.written if f.level in levels)
            contents.learn(merge.content, tuple(f for f in written if low <= key(f.min_key) <= high))
    real = {f.file_name for f in goal.files}
    for f in bucket.levels.files:  # moved by the plan, rewritten by the engine
        if f.file_name not in real and not f.file_name.startswith(ESTIMATED):
            span = key(f.min_key), key(f.max_key)
            written = (w for w in occasion.compaction.written if w.level == f.level)
            contents.lifted[f.file_name, f.level] = tuple(
                w for w in written if span[0] <= key(w.min_key) <= span[1]
            )


def _learn_between(contents: OwnMerges, bucket: ReplayBucket, occasion: BucketCommit) -> bool:
    """Take the sizes of files between two compactions of one commit from their records; True if one was
    learned."""
    event = occasion.compaction
    if event is None:
        return False
    if not event.records:
        return _learn_only_merge(contents, bucket, event)
    later = event.records
    for done, record in zip(bucket.done, event.records, strict=False):
        later = later[1:]
        if not fits(done, record):
            return False
        unknown = [m for m in done.merges if not m.known]
        if _replaced(record, later, event.written) and _learn_lifted(contents, bucket, record, done):
            return True
        if len(done.merges) != 1 or not unknown:
            continue
        (merge,) = unknown
        left = _left(record, merge, event.written, bucket)
        if left:
            contents.learn(merge.content, left)
            return True
        if _replaced(record, later, event.written):
            level = record.output_level
            deletes = 0 if merge.content[1] else sum(f.delete_count or 0 for f in merge.inputs)
            size = record.rows_out, record.bytes_written, min(deletes, record.rows_out)
            outputs = (
                bucket.sized(merge.inputs, level, *size, record.files_written) if record.rows_out else ()
            )
            contents.learn(merge.content, outputs)
            return True
    return False


def _learn_only_merge(contents: OwnMerges, bucket: ReplayBucket, event: BucketEvent) -> bool:
    """Without records: a merge of all files that the commit rewrote gave all files that it wrote; True if
    that was learned. A later compaction of the commit may have moved these because of their real size."""
    rewritten = {f.file_name for f in event.rewritten}
    deletes = any(f.delete_count for f in event.written)
    for merge in (m for done in bucket.done for m in done.merges if not m.known):
        drops = merge.content[1]
        if {f.file_name for f in merge.inputs} == rewritten and event.written and not (drops and deletes):
            contents.learn(merge.content, event.written)
            return True
    return False


def _learn_lifted(
    contents: OwnMerges, bucket: ReplayBucket, record: CompactionRecord, done: ExecutedDecision
) -> bool:
    """Take the sizes of files that the plan only moved and the engine rewrote from their record; False if it
    moved them, too."""
    unit, level = done.decision.unit, record.output_level
    files = [f for f in unit.files if f.level != level] if unit is not None else []
    total = sum(f.file_size for f in files)
    if done.merges or not record.bytes_written or not total:
        return False
    for f in files:
        rows, size = (n * f.file_size // total for n in (record.rows_out, record.bytes_written))
        outputs = bucket.sized((f,), level, rows, size, min(f.delete_count or 0, rows), 1)
        contents.lifted[f.file_name, level] = outputs
    return True


def _replaced(record: CompactionRecord, later: Sequence[CompactionRecord], written: Files) -> bool:
    """Whether `later` compactions of a commit, which left `written`, took all that one wrote before them."""
    level = record.output_level
    if not any(i.level == level for r in later for i in r.inputs):
        return False
    return not any(f.level == level for f in written) or (
        record.strategy != CompactionStrategy.LEVELED.value and any(r.output_level == level for r in later)
    )


def _left(record: CompactionRecord, merge: ReplayedMerge, written: Files, bucket: ReplayBucket) -> Files:
    """What a compaction wrote, if all of it is among what its commit left, at its level or moved on from it:
    files of one level that come to what the record says."""
    key = comparable_keys(bucket.types)
    low, high = min(key(f.min_key) for f in merge.inputs), max(key(f.max_key) for f in merge.inputs)
    by_level: dict[int, list[DataFileMeta]] = {}
    for f in written:
        if low <= key(f.min_key) and key(f.max_key) <= high:
            by_level.setdefault(f.level, []).append(f)
    wrote = record.files_written, record.rows_out, record.bytes_written
    for files in by_level.values():
        if (len(files), sum(f.row_count for f in files), sum(f.file_size for f in files)) == wrote:
            return tuple(files)
    return ()


def _merges(events: Iterable[BucketEvent]) -> Iterator[tuple[Files, Files]]:
    """What was read and written by each compaction."""
    for event in events:
        if len(event.rewritten) > 1:
            yield event.rewritten, event.written


def _flushed(events: Iterable[BucketEvent]) -> Iterator[DataFileMeta]:
    for event in events:
        yield from event.flushed
        yield from event.after
