"""One bucket of a replay: real flushes under the engine's loop, merges by metadata alone.

Every file has a content: a number that a merge's output takes over from its inputs, whatever the order of
merges. Where the content of a merge is known from the table's own compactions its real files come out, else
files are estimated (`insight.explain.merge_size`), cut at keys that are known. Levels, picks, plans and
accounts are the engine's. Not thread-safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tablestore.format.binary_row import comparable_keys
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import COMPACT_SOURCE, DataFileMeta
from tablestore.format.types.arrow_types import DataType
from tablestore.insight.explain.merge_size import SizeModel, merged
from tablestore.insight.inspect.amplification.ledger import Account
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.loop import CompactionLoop
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.compaction.rewrite_plan import drops_deletes, plan_unit
from tablestore.lsm.levels.bucket import file_rows
from tablestore.lsm.levels.sorted_run import Levels

Content = tuple[int, bool]  # what went in, and whether deletes were dropped
Files = tuple[DataFileMeta, ...]
ESTIMATED = "estimated-"  # names of made-up files begin so
BETWEEN = "estimated-between-"  # of those that the table replaced within one commit


@dataclass(slots=True)
class ReplayedMerge:
    """One rewriting of a compaction: its inputs and what came out, estimated or known."""

    content: Content
    inputs: Files
    outputs: Files
    known: bool


@dataclass(slots=True)
class ExecutedDecision:
    """One decision that was carried out."""

    decision: Decision
    read: int
    written: int
    moved: int
    merges: list[ReplayedMerge]
    stalled: bool = False
    runs: int = 0  # before it


@dataclass
class OwnMerges:
    """What the table's own merges gave, by content; contents of files by name."""

    outputs: dict[Content, Files] = field(default_factory=dict)
    lifted: dict[tuple[str, int], Files] = field(default_factory=dict)  # files rewritten to reach a level
    contents: dict[str, int] = field(default_factory=dict)
    target_bytes: int = 0  # at which these files were cut

    def content(self, files: Iterable[DataFileMeta]) -> int:
        """The content of files together."""
        content = 0
        for f in files:
            content ^= self.contents.get(f.file_name) or _fresh(f.file_name)
        return content

    def learn(self, content: Content, outputs: Files) -> None:
        """Remember what a merge of that content gives; its files take the content over between them."""
        self.outputs[content] = outputs
        self.name(content[0], outputs)

    def name(self, content: int, outputs: Files) -> None:
        """Give files their contents, which are `content` together."""
        rest = content
        for f in outputs[1:]:
            self.contents[f.file_name] = _fresh(f.file_name)
            rest ^= self.contents[f.file_name]
        if outputs:
            self.contents[outputs[0].file_name] = rest or _fresh(outputs[0].file_name)


def _fresh(name: str) -> int:
    """A number for a name. Not a CRC: those of names that differ in few bits cancel each other out."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


class ReplayBucket:
    """Levels of one bucket. `own` gives contents, and real outputs unless only `estimates` are wanted.

    `marked`: rows below are marked as deleted, so deletes always vanish. `done` gathers what was carried out
    since it was last emptied.
    """

    def __init__(
        self,
        options: CompactionOptions,
        types: Sequence[DataType],
        model: SizeModel,
        own: OwnMerges,
        *,
        estimates: bool = False,
        marked: bool = False,
        prefix: str = ESTIMATED,
    ) -> None:
        self._prefix = prefix
        self.types, self.model, self.own = tuple(types), model, own
        self.account, self.now_ms = Account(), 0
        self.done: list[ExecutedDecision] = []
        self.options, self._marked, self._estimates, self._number = options, marked, estimates, 0
        self._key: Callable[[bytes], Any] = comparable_keys(types)
        self.loop = self._loop(Levels.of((), options.num_levels, self._key))

    def _loop(self, levels: Levels) -> CompactionLoop:
        return CompactionLoop(levels, self.options, carry_out=self._carry_out, now_ms=lambda: self.now_ms)

    @property
    def levels(self) -> Levels:
        """The files as they are."""
        return self.loop.levels

    def reset(self, levels: Levels) -> None:
        """Other files in their stead, and a new account that knows only them."""
        self.account, self.done, self.loop = Account(), [], self._loop(levels)
        for f in levels.files:
            self.account.put(f.level, f.file_size, f.row_count, f.delete_count)

    def restart(self) -> None:
        """Open the bucket as a new writer does: with the levels that the options ask for, and the time of the
        last full compaction read from files."""
        levels, wanted = self.levels, self.options.num_levels
        if max(wanted, levels.oldest_nonempty_level + 1) != levels.num_levels:
            levels = Levels.of(levels.files, wanted, self._key)
        self.loop = self._loop(levels)

    def replace(self, before: Iterable[DataFileMeta], after: Files) -> None:
        """Take files away, put others there."""
        gone = tuple(before)
        self.loop.levels = self.levels.apply(gone, after)
        for f in gone:
            self.account.take(f.level, f.file_size, f.row_count, f.delete_count)
        for f in after:
            self.account.put(f.level, f.file_size, f.row_count, f.delete_count)

    def flush(self, files: Files) -> None:
        """New files of level 0 (or where they are put)."""
        self.replace((), files)
        self.account.ingested += sum(f.file_size for f in files)

    def relieve(self) -> None:
        """The write stall before a flush."""
        start = len(self.done)
        for _ in self.loop.relieve():
            pass
        for done in self.done[start:]:
            done.stalled = True

    def settle(self) -> None:
        """Pick until no rule fires."""
        for _ in self.loop.settle():
            pass

    def _carry_out(self, decision: Decision, levels: Levels) -> Levels | None:
        unit = decision.unit
        assert unit is not None
        drop = drops_deletes(unit, levels, marked=self._marked, newest_wins=self.options.newest_wins)
        before: list[DataFileMeta] = []
        after: list[DataFileMeta] = []
        merges: list[ReplayedMerge] = []
        moved = 0
        for step in plan_unit(unit, levels, self._key, small_bytes=self.options.small_file_bytes):
            before += step.files
            lifted = None if step.upgrade is None else self._lifted(step.upgrade, unit.output_level)
            if lifted is not None:
                merges.append(ReplayedMerge((0, drop), step.files, lifted, True))
            elif step.upgrade is not None:
                moved += step.upgrade.file_size
                after.append(step.upgrade.upgraded(unit.output_level))
                continue
            else:
                merges.append(
                    self._merge(step.files, unit.output_level, drop, file_by_file=unit.file_by_file)
                )
            after += merges[-1].outputs
        if not before:
            return None
        read = sum(f.file_size for m in merges for f in m.inputs)
        written = sum(f.file_size for m in merges for f in m.outputs)
        self.done.append(ExecutedDecision(decision, read, written, moved, merges, runs=levels.run_count))
        self.account.compaction(unit.output_level, read=read, written=written, moved=moved)
        self.replace(before, tuple(after))
        return self.loop.levels

    def _lifted(self, file: DataFileMeta, level: int) -> Files | None:
        """What became of a file that the table's engine rewrote where a move would have done."""
        return None if self._estimates else self.own.lifted.get((file.file_name, level))

    def _merge(self, files: Files, level: int, drop: bool, *, file_by_file: bool = False) -> ReplayedMerge:
        """One rewriting; of files that are rewritten each for itself rows vanish that no merge drops, which
        makes them something else."""
        content = self.own.content(files) ^ (_fresh("file by file") if file_by_file else 0), drop
        outputs = None if self._estimates else self.own.outputs.get(content)
        if outputs is not None:
            return ReplayedMerge(content, files, self._cut(content[0], files, outputs, level), True)
        written = self._estimated(files, level, drop)
        self.own.name(content[0], written)
        return ReplayedMerge(content, files, written, False)

    def _cut(self, content: int, files: Files, outputs: Files, level: int) -> Files:
        """Known outputs at their level, cut anew under another target size."""
        target = self.options.target_bytes
        if not outputs or target == self.own.target_bytes:
            return tuple(f.upgraded(level) for f in outputs)
        rows, size = sum(f.row_count for f in outputs), sum(f.file_size for f in outputs)
        deletes = sum(f.delete_count or 0 for f in outputs)
        sized = self.sized(files, level, rows, size, deletes, self._count(rows, size))
        self.own.name(content, sized)
        return sized

    def _count(self, rows: int, size: int) -> int:
        """Into how many files rows are cut: each ends where rows are counted and the target is reached."""
        return -(-rows // file_rows(max(size, 1) / rows, target_bytes=self.options.target_bytes))

    def _estimated(self, files: Files, level: int, drop: bool) -> Files:
        estimate = merged(files, self.types, drop_deletes=drop, model=self.model)
        if not estimate.rows:
            return ()
        deletes = 0 if drop else min(sum(f.delete_count or 0 for f in files), estimate.rows)
        return self.sized(
            files, level, estimate.rows, estimate.bytes, deletes, self._count(estimate.rows, estimate.bytes)
        )

    def sized(self, files: Files, level: int, rows: int, size: int, deletes: int, count: int) -> Files:
        """Made-up files of `rows` rows in all, with the key range of `files`, cut at keys that these know."""
        ends = sorted({k for f in files for k in (f.min_key, f.max_key)}, key=self._key)
        count = max(1, min(count, len(ends) // 2, rows))
        files_out = []
        for i in range(count):
            part = ends[len(ends) * i // count : len(ends) * (i + 1) // count]
            self._number += 1
            share = [n * (i + 1) // count - n * i // count for n in (rows, size, deletes)]
            files_out.append(
                replace(
                    files[0],
                    file_name=f"{self._prefix}{self._number}",
                    row_count=share[0],
                    file_size=share[1],
                    delete_count=share[2],
                    min_key=part[0],
                    max_key=part[-1],
                    min_sequence=min(f.min_sequence for f in files),
                    max_sequence=max(f.max_sequence for f in files),
                    level=level,
                    creation_time_ms=self.now_ms,
                    file_source=COMPACT_SOURCE,
                )
            )
        return tuple(files_out)


def fits(done: ExecutedDecision, record: CompactionRecord) -> bool:
    """Whether a record is of that compaction: the same rule and bytes of the same levels."""
    unit = done.decision.unit
    assert unit is not None
    size = sum(f.file_size for f in unit.files)
    return (record.rule, record.output_level, record.shape.size) == (
        done.decision.rule,
        unit.output_level,
        size,
    )
