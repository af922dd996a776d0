"""Leveled compaction and kept compactions beside Java Paimon and pypaimon: one table, three engines.

Paimon has no leveled strategy: it reads what ours leaves, and compacts it by universal rules. Its records
of compactions are what its manifests tell; ours travel in snapshots, which it must read and clean around.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format.compaction_record import PROPERTY
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon
from tests.peers.pypaimon import PyPaimon
from tests.tables import TableSpec

pytestmark = pytest.mark.peer
COLUMNS = {"k": "INT NOT NULL", "v": "INT", "s": "STRING"}
SMALL = {
    "bucket": "1",
    "tablestore.compaction.strategy": "leveled",
    "tablestore.compaction.leveled.level0-file-num-trigger": "2",
    "tablestore.compaction.leveled.max-bytes-for-level-base": "6 kb",
    "tablestore.compaction.leveled.max-bytes-for-level-multiplier": "2",
    "num-levels": "5",
    "target-file-size": "3 kb",
    "snapshot.num-retained.min": "1000",
}
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
KINDS = {
    "deduplicate": {},
    "lookup changelog": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "first row": {"merge-engine": "first-row"},
    "partial update in order of a field": {"merge-engine": "partial-update", "sequence.field": "v"},
    "full-compaction changelog": {
        "changelog-producer": "full-compaction",
        "full-compaction.delta-commits": "4",
    },
    "sum": SUM | {"fields.s.aggregate-function": "last_non_null_value"},
}


SMALL_FILES = TableSpec({"k": ts.INT, "v": ts.INT, "s": ts.STRING}, primary_key=("k",), options=SMALL)


def some_rows(chance: random.Random, many: int = 60) -> pa.Table:
    first = chance.randrange(1500)
    keys = sorted(chance.sample(range(first, first + 400), many))
    return pa.table(
        {
            "k": pa.array(keys, pa.int32()),
            "v": pa.array([chance.randrange(99) for _ in keys], pa.int32()),
            "s": [chance.randbytes(20).hex() for _ in keys],
        }
    )


def ours(table: ts.Table) -> list[list[object]]:
    return in_order(cells(table.refresh().scan().to_arrow()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1)
def test_java_reads_and_compacts_what_leveled_compaction_leaves(
    tmp_path: Path, java: JavaPaimon, kind: str, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[::5]:
        chance = random.Random(seed)
        table = SMALL_FILES.create(tmp_path / str(seed), KINDS[kind])
        deepest = 0
        for turn in range(10):
            table.write(some_rows(chance))
            if kind not in ("first row", "sum", "partial update in order of a field") and turn % 3 == 2:
                low = chance.randrange(1500)
                table.delete((ts.col("k") >= low) & (ts.col("k") < low + 200))
            deepest = max(deepest, *(f[1] for f in java.levels(table.location)))
            if turn in (4, 6):
                java.write(table.location, some_rows(chance), identifier=turn)
            if turn in (5, 8):
                java.compact(table.location, full=turn == 8, identifier=100 + turn)
            assert java.rows(table.location) == ours(table), f"seed {seed}, turn {turn}"
        assert table.check() == []
        assert deepest >= 2


def test_pypaimon_reads_a_leveled_table(tmp_path: Path) -> None:
    peer = PyPaimon(tmp_path)
    table = SMALL_FILES.create(tmp_path)
    chance = random.Random(7)
    for _ in range(6):
        table.write(some_rows(chance))
    assert max(table.inspect.files().column("level").to_pylist()) >= 2
    assert in_order(cells(peer.read("d.t"))) == ours(table)
    assert PROPERTY in (table.store.snapshots.latest().properties or {})


def test_java_reads_snapshots_that_keep_their_compactions(tmp_path: Path, java: JavaPaimon) -> None:
    table = SMALL_FILES.create(tmp_path)
    chance = random.Random(3)
    for _ in range(4):
        table.write(some_rows(chance))
    latest = java.snapshot(table.location)
    assert latest["commitKind"] == "COMPACT"
    assert latest["properties"][PROPERTY].startswith(("[", "zstd:"))
    assert java.rows(table.location) == ours(table)


def test_compactions_of_java_are_rows_without_a_rule(tmp_path: Path, java: JavaPaimon) -> None:
    table = SMALL_FILES.create(tmp_path, {"write-only": "true"})
    chance = random.Random(5)
    for _ in range(4):
        table.write(some_rows(chance))
    before = {f[4]: f for f in java.levels(table.location)}
    java.compact(table.location, full=True)
    (row,) = table.refresh().inspect.compactions().to_pylist()
    assert (row["strategy"], row["rule"], row["reason"], row["millis"]) == (None, None, None, None)
    assert (row["files_read"], row["rows_in"]) == (4, sum(f[2] for f in before.values()))
    after = java.levels(table.location)
    assert (row["files_written"], row["rows_out"]) == (len(after), sum(f[2] for f in after))
    assert row["output_level"] == after[0][1]
    assert "by another engine, which records no reasons" in row["explanation"]
    assert "would have" in row["explanation"]


def test_java_cleans_orphans_and_expires_around_the_history(tmp_path: Path, java: JavaPaimon) -> None:
    table = SMALL_FILES.create(tmp_path, {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"})
    chance = random.Random(9)
    for _ in range(8):
        table.write(some_rows(chance))
    kept = table.inspect.compactions()
    history = [s.name for s in table.store.io.list(table.store.paths.history_dir)]
    assert history
    assert kept.num_rows > 3
    java.clean_orphans(table.location, older_than_ms=0, dry_run=False)
    assert [s.name for s in table.store.io.list(table.store.paths.history_dir)] == history
    assert table.refresh().inspect.compactions() == kept
    assert java.rows(table.location) == ours(table)
    assert table.check() == []
