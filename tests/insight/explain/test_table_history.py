"""History as events: what they add up to is what is live, whoever wrote the table."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import NotFound
from tablestore.insight.explain.table_history import BASE, EventCache, events, flushes
from tablestore.table.table import Table
from tests.faults import SimEnv
from tests.lsm.trees import data_file
from tests.tables import TableSpec

SMALL_TRIGGER = TableSpec(
    {"k": ts.INT, "p": ts.INT, "v": ts.STRING},
    primary_key=("k", "p"),
    partition_by=("p",),
    options={"bucket": 2, "num-sorted-run.compaction-trigger": 3},
    new_env=SimEnv,
)


def live(seed: int, table: Table, steps: int = 12) -> None:
    chance = random.Random(seed)
    for step in range(steps):
        keys = [chance.randrange(200) for _ in range(chance.randrange(1, 80))]
        rows = pa.table(
            {
                "k": pa.array(keys, pa.int32()),
                "p": pa.array([k % 2 for k in keys], pa.int32()),
                "v": pa.array([f"{step}" for _ in keys]),
            }
        )
        if chance.random() < 0.1:
            table.overwrite(rows)
        else:
            table.write(rows)
        if chance.random() < 0.2:
            table.compact(full=chance.random() < 0.5)


def added_up(table: Table, **span: int) -> set[tuple[str, int, int, str]]:
    """(partition, bucket, level, name) of all files after the events."""
    collected: set[tuple[str, int, int, str]] = set()
    for event in events(table.store, **span):
        for f in event.before:
            collected.remove((*event.place, f.level, f.file_name))
        for f in (*event.flushed, *event.after):
            assert (*event.place, f.level, f.file_name) not in collected
            collected.add((*event.place, f.level, f.file_name))
    return collected


def files_of(table: Table) -> set[tuple[str, int, int, str]]:
    entries = table.store.manifests.live_entries(table.store.snapshots.latest())
    text = table.store.partition_text
    return {(text(e.partition), e.bucket, e.file.level, e.file.file_name) for e in entries}


def test_events_add_up_to_the_live_files(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        table = SMALL_TRIGGER.create(tmp_path / str(seed))
        live(seed, table)
        assert added_up(table) == files_of(table)
        ids = table.store.snapshots.ids()
        assert added_up(table, first=ids[len(ids) // 2]) == files_of(table)
        table.expire_snapshots(keep=3)
        assert added_up(table) == files_of(table)
        assert {e.kind for e in events(table.store)} >= {BASE}


def test_a_history_that_has_expired_says_what_is_there(tmp_path: Path) -> None:
    table = SMALL_TRIGGER.create(tmp_path)
    assert list(events(table.store)) == []
    live(1, table, steps=4)
    table.expire_snapshots(keep=1)
    with pytest.raises(NotFound, match="have"):
        list(events(table.store, first=1))


def test_a_moved_file_is_neither_read_nor_written(tmp_path: Path) -> None:
    table = SMALL_TRIGGER.create(tmp_path, {"target-file-size": "1 b", "write-only": True, "bucket": 1})
    keys = pa.array(range(10), pa.int32())
    table.write(pa.table({"k": keys, "p": pa.array([0] * 10, pa.int32()), "v": pa.array(["a"] * 10)}))
    table.compact(full=True)
    last = list(events(table.store))[-1]
    assert last.kind == "COMPACT"
    assert len(last.moved) == 1
    assert last.rewritten == last.written == ()


def test_files_of_one_flush_are_distinguished_from_those_of_the_next() -> None:
    first = [
        data_file("a", 0, 4, min_sequence=0, max_sequence=8),
        data_file("b", 5, 9, min_sequence=1, max_sequence=9),
    ]
    second = [data_file("c", 0, 9, min_sequence=10, max_sequence=19)]
    assert [[f.file_name for f in group] for group in flushes([*second, *first])] == [["a", "b"], ["c"]]


def test_cached_events_are_those_that_are_read_also_after_a_rollback(tmp_path, monkeypatch):
    table, cache = SMALL_TRIGGER.create(tmp_path), EventCache()
    live(3, table, steps=4)
    assert list(events(table.store, cache=cache)) == list(events(table.store))
    read, read_delta = [], type(table.store.manifests).delta_entries
    with monkeypatch.context() as patched:
        patched.setattr(
            type(table.store.manifests),
            "delta_entries",
            lambda self, snapshot: read.append(snapshot.id) or read_delta(self, snapshot),
        )
        before = table.store.snapshots.latest_id()
        table.write(pa.table({"k": pa.array([1], pa.int32()), "p": pa.array([1], pa.int32()), "v": ["x"]}))
        list(events(table.store, cache=cache))
        after = table.store.snapshots.latest_id()
        assert set(range(1, before + 1)).isdisjoint(read), "what was read is kept"
        assert after in read
    table.rollback(snapshot=1)
    live(4, table, steps=4)
    assert list(events(table.store, cache=cache)) == list(events(table.store))
    cache.drop_before(3)
    assert list(events(table.store, cache=cache)) == list(events(table.store))


def test_a_full_cache_of_events_takes_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("tablestore.insight.explain.table_history.MOST_CACHED", 3)
    table, cache = SMALL_TRIGGER.create(tmp_path), EventCache()
    live(5, table, steps=6)
    for _ in range(2):
        assert list(events(table.store, cache=cache)) == list(events(table.store))
    assert sum(e.files for _, some in cache._cached.values() for e in some) <= 3
