"""The trees of a shop: what each bucket holds, what its rules pick next, and the compaction at work in it.

Invariants: until a compaction is done its inputs are shown, with a frontier as far as the disk has come, as
readers meet them; files that were flushed meanwhile lie above. Pure: from the simulation's `inspect`. Called
by the model.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from widgets.game.rules import GameShop, GameWork
from widgets.kit import format as fmt
from widgets.levels.model import CompactionPlan, LsmModel, Running, lsm_model

SLOTS = 8
"""Rows of level 0 that a picture has at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One bucket: its levels with the plan, whether a step would do anything, and that in words."""

    levels: LsmModel
    due: bool
    words: str

    @property
    def running(self) -> Running | None:
        """The compaction at work."""
        return self.levels.plan.running


def trees_of(shop: GameShop) -> tuple[Tree, ...]:
    """Every bucket as it stands, with as many rows of level 0 as the fullest needs."""
    picks = shop.table.compact(dry_run=True).picks
    files = [_files(shop, pick.bucket) for pick in picks]
    level0 = (pc.count_distinct(some.filter(pc.equal(some["level"], 0))["run"]).as_py() for some in files)
    slots = max(SLOTS, *level0)
    pairs = zip(picks, files, strict=True)
    return tuple(_tree(shop, pick.bucket, pick.decision, some, slots) for pick, some in pairs)


def _files(shop: GameShop, bucket: int) -> pa.Table:
    """The files that readers of a bucket meet."""
    inspect, work = shop.table.inspect, shop.works[bucket]
    now = inspect.levels(bucket=bucket)
    return now if work is None else _meanwhile(inspect.levels(work.snapshot, bucket=bucket), now, work)


def _tree(shop: GameShop, bucket: int, decision: Any, files: pa.Table, slots: int) -> Tree:
    work = shop.works[bucket]
    unit = decision.unit
    if work is None:
        inputs = frozenset(f.file_name for f in unit.files) if unit else frozenset()
        plan = CompactionPlan(inputs, unit.output_level if unit else None)
        words = decision.text
    else:
        share = work.share(shop.busy[bucket])
        running = Running(share, int(share * work.written), work.written)
        plan = CompactionPlan(work.inputs, work.output_level, running)
        words = (
            f"compaction into L{work.output_level}: {fmt.percent(share, 1)} of {fmt.bytes_text(work.bytes)}"
        )
    drawn = lsm_model(
        files,
        num_levels=6,
        bucket=bucket,
        l0_slots=slots,
        stop_trigger=shop.table.rules.stop_trigger,
        plan=plan,
    )
    return Tree(drawn, bool(unit) or work is not None, words)


def _meanwhile(before: pa.Table, now: pa.Table, work: GameWork) -> pa.Table:
    """The files of a bucket while a compaction is at work: of now, but its inputs for its outputs."""
    outputs, inputs = (pa.array(sorted(names), pa.string()) for names in (work.outputs, work.inputs))
    kept = now.filter(pc.invert(pc.is_in(now["file_name"], value_set=outputs)))
    files = pa.concat_tables([kept, before.filter(pc.is_in(before["file_name"], value_set=inputs))])
    files = files.sort_by(
        [("level", "ascending"), ("max_sequence", "descending"), ("min_key_pos", "ascending")]
    )
    runs: list[int] = []
    last: tuple[int, int] | None = None
    for level, newest in zip(files["level"].to_pylist(), files["max_sequence"].to_pylist(), strict=True):
        run = (level, newest if not level else 0)
        runs.append((runs[-1] if runs else -1) + (run != last))
        last = run
    return files.set_column(files.column_names.index("run"), "run", pa.array(runs, pa.int32()))
