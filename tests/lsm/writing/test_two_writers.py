"""Two writers at once on one bucket: numbers do not tell who came last, and `check` knows."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.errors import CommitConflict
from tablestore.insight.check.check import examine
from tablestore.table.table import Table
from tests.tables import KEYED

SMALL = {
    "bucket": 1,
    "num-levels": 5,
    "num-sorted-run.compaction-trigger": 2,
    "target-file-size": "2 kb",
    "tablestore.compaction.leveled.level0-file-num-trigger": 2,
    "tablestore.compaction.leveled.max-bytes-for-level-base": "6 kb",
    "tablestore.compaction.leveled.max-bytes-for-level-multiplier": 2,
}


SMALL_BUFFERS = KEYED.with_options(SMALL)


def rows(keys: np.ndarray, tag: str) -> pa.Table:
    rng = np.random.default_rng(len(keys))
    return pa.table({"k": keys, "v": [f"{tag} {rng.bytes(20).hex()}" for _ in keys]})


def shown(table: Table) -> dict[int, str]:
    rows = table.refresh().scan().to_arrow()
    return dict(zip(*rows.to_pydict().values(), strict=True))


@pytest.mark.parametrize("strategy", ["leveled", "universal"])
def test_lower_numbers_above_higher_ones_are_no_violation(tmp_path: Path, strategy: str) -> None:
    table = SMALL_BUFFERS.create(tmp_path, {"tablestore.compaction.strategy": strategy})
    late = table.with_options({"write-only": True})
    with late.writer() as low:  # begins first, commits last: 0..19
        low.write(rows(np.arange(800, 820), "low"))
        table.write(rows(np.arange(700), "high"))  # 0..699
        table.write(rows(np.arange(700, 1000), "high"))  # 700..999, in a file of its own
        table.compact(full=True)
    files = table.refresh().inspect.files().to_pylist()
    (above,) = (f for f in files if f["level"] == 0)
    assert any(f["min_sequence_number"] > above["max_sequence_number"] for f in files)
    assert shown(table)[810].startswith("high")
    assert table.refresh().check() == []
    assert any("two writers wrote at once" in note for note in examine(table.refresh().store).notes)


@pytest.mark.parametrize("strategy", ["leveled", "universal"])
def test_rows_stay_whatever_is_compacted_between_writers_at_once(
    tmp_path: Path, strategy: str, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[::3]:
        rng = np.random.default_rng(seed)
        table = SMALL_BUFFERS.create(tmp_path / str(seed), {"tablestore.compaction.strategy": strategy})
        for step in range(5):
            both = [
                table.with_options({"write-only": bool(rng.integers(0, 2))}).refresh().writer()
                for _ in range(2)
            ]
            for number, writer in enumerate(both):
                writer.write(rows(np.unique(rng.integers(0, 600, rng.integers(5, 200))), f"{step}.{number}"))
            for at in rng.permutation(2):
                with suppress(CommitConflict):  # both had compacted: the first one's files are gone
                    both[at].__exit__(None, None, None)
            before = shown(table)
            table.refresh().compact(full=bool(rng.integers(0, 2)))
            assert shown(table) == before, f"seed {seed}, step {step}"
            assert table.refresh().check() == [], f"seed {seed}, step {step}"
