"""Chunks of tables of any sizes are all their keys, each once and in order; a batch has as many as it may."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.databases.chunks import FOLLOWED, READING, SETTLING, chunk_plan, chunk_ranges
from tablestore.cdc.mysql.database_offset import TableProgress
from tablestore.cdc.mysql.snapshot import Key

Sizes = Mapping[SourceName, int]


def planned(
    tables: Mapping[SourceName, TableProgress], sizes: Sizes, chunks: int, rows: int, share: float = 1.0
) -> dict[SourceName, TableProgress]:
    """The plan of tables with the keys 1 … size; the digest of a table is its name."""
    size_of = {str(name): size for name, size in sizes.items()}

    def next_bound(progress: TableProgress, low: Key | None) -> Key | None:
        high = int(low or 0) + rows
        return high if high < size_of[progress.digest] else None

    return chunk_plan(tables, chunks, next_bound, lambda _: share)


def test_all_keys_are_read_once_and_in_order(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        r = random.Random(seed)
        rows, chunks = r.randrange(1, 8), r.randrange(5)
        sizes = {SourceName("d", f"t{n}"): r.randrange(30) for n in range(r.randrange(1, 6))}
        tables = {name: TableProgress(READING, str(name)) for name in sizes}
        read: dict[SourceName, list[int]] = {name: [] for name in sizes}
        while any(progress.state == READING for progress in tables.values()):
            plan = planned(tables, sizes, chunks, rows)
            count = 0
            for name, progress in plan.items():
                for low, high in chunk_ranges(
                    tables[name].key, progress.bounds, last=progress.state == SETTLING
                ):
                    end = sizes[name] if high is None else int(high)
                    read[name] += range(int(low or 0) + 1, end + 1)
                    count += 1
            rest = any(progress.state == READING for progress in {**tables, **plan}.values())
            assert count == max(1, chunks) if rest else 0 < count <= max(1, chunks), seed
            tables |= plan
        assert read == {name: list(range(1, size + 1)) for name, size in sizes.items()}, seed


def test_the_last_chunk_of_a_table_counts_as_its_share() -> None:
    sizes = {SourceName("d", f"t{n}"): 1 for n in range(9)}
    tables = {name: TableProgress(READING, str(name)) for name in sizes}
    whole, quarters = (planned(tables, sizes, 2, 10, share) for share in (1.0, 0.25))
    assert list(whole) == list(sizes)[:2]
    assert list(quarters) == list(sizes)[:8]
    assert {progress.state for progress in quarters.values()} == {SETTLING}


def test_only_tables_that_are_read_have_chunks() -> None:
    followed, reading = SourceName("d", "a"), SourceName("d", "b")
    tables = {
        followed: TableProgress(FOLLOWED, str(followed)),
        reading: TableProgress(READING, str(reading), key=5),
    }
    plan = planned(tables, {followed: 100, reading: 100}, 2, 10)
    assert plan == {reading: TableProgress(READING, str(reading), key=25, bounds=(15, 25))}
    assert chunk_ranges(5, (15, 25), last=False) == [(5, 15), (15, 25)]
    assert chunk_ranges(5, (), last=True) == [(5, None)]
