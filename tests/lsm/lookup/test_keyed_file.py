"""Keys in one data file: page by page or by whole row groups, what a plain search of all keys finds."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tablestore.format.types.arrow_types import BIGINT, DATE, INT, STRING, DataField, DataType
from tablestore.lsm.lookup.cache import CacheBounds, LookupCache
from tablestore.lsm.lookup.keyed_file import KeyedFile
from tablestore.lsm.merge import keys as key_columns
from tests.lsm.bucket import LiveBucket
from tests.lsm.lookup.test_lookup import put

ROWS = 40_000
DECIMAL = DataType("DECIMAL", precision=12, scale=2)
KEYS: dict[str, tuple[DataType, ...]] = {
    "numbers": (BIGINT,),
    "numbers, several to an order": (BIGINT, INT),
    "few first parts, over many pages": (INT, BIGINT),
    "text": (STRING,),
    "text and number": (STRING, INT),
    "dates": (DATE, BIGINT),
    "decimals": (DECIMAL,),
}


def made(form: str, rng: random.Random) -> tuple[np.ndarray, ...]:
    """Key columns, strictly increasing."""
    steps = np.cumsum([rng.randrange(1, 4) for _ in range(ROWS)]) - 30_000
    if form == "numbers, several to an order":
        return steps // 7, steps % 7
    if form == "few first parts, over many pages":
        return steps // 50_000, steps
    if form == "dates":
        return steps // 40, steps
    return (steps,) if len(KEYS[form]) == 1 else (steps // 5, steps % 5)


def column(values: np.ndarray, t: DataType) -> pa.Array:
    if t == STRING:
        return pa.array([f"é{v + 100_000:07d}" for v in values.tolist()])
    if t == DATE:
        return pa.array(values.astype(np.int32)).cast(pa.date32())
    if t == DECIMAL:
        return pa.array(values).cast(pa.decimal128(21, 0)).cast(pa.decimal128(t.precision, t.scale))
    return pa.array(values).cast(DataField(0, "x", t).arrow.type)


def components(columns: list[np.ndarray], types: tuple[DataType, ...]) -> list[key_columns.Component]:
    arrays = [column(c, t) for c, t in zip(columns, types, strict=True)]
    return key_columns.components(arrays, [replace(t, nullable=False) for t in types])


@pytest.mark.parametrize("form", KEYS)
@pytest.mark.sample(3)
def test_a_file_finds_what_a_search_of_all_its_keys_finds(
    tmp_path: Path, seeds: tuple[int, ...], form: str
) -> None:
    for seed in seeds[::2]:
        rng, types = random.Random(seed), KEYS[form]
        names = [f"k{i}" for i in range(len(types))]
        fields = [DataField(i, n, t) for i, (n, t) in enumerate(zip(names, types, strict=True))]
        bucket = LiveBucket(f"{tmp_path}/{seed}", fields=tuple(fields), primary_key=tuple(names))
        whole = made(form, rng)
        arrays = [column(c, t) for c, t in zip(whole, types, strict=True)]
        put(bucket, 1, list(zip(*(a.to_pylist() for a in arrays), strict=True)))
        (file,) = bucket.live
        place = {key: i for i, key in enumerate(zip(*(c.tolist() for c in whole), strict=True))}
        keyed = opened(bucket, file, LookupCache())
        for _ in range(6):
            keyed = opened(bucket, file, LookupCache()) if rng.random() < 0.5 else keyed
            first, count = rng.randrange(-1_000, ROWS), rng.choice([1, 1, 2, 5, 9, 300])
            spread = rng.sample(range(ROWS), count) if rng.random() < 0.5 else range(first, first + count)
            asked = sorted({near(whole, i, rng) for i in spread})
            wanted = components([np.array(c) for c in zip(*asked, strict=True)], types)
            places, positions = keyed.find(wanted)
            actual = dict(zip(places.tolist(), positions.tolist(), strict=True))
            assert actual == {n: place[key] for n, key in enumerate(asked) if key in place}, (seed, asked)
        assert len(keyed._pages(keyed._opened(), 0).firsts) > 4, "its pages are known"


def near(whole: tuple[np.ndarray, ...], row: int, rng: random.Random) -> tuple[int, ...]:
    """The key of a row, or one that may be in no row, also beside the file's."""
    key = [int(c[min(max(row, 0), ROWS - 1)]) for c in whole]
    if rng.random() < 0.4:
        key[rng.randrange(len(key))] += rng.choice([-40_000, -1, 1, 60_000])
    return tuple(key)


def opened(bucket: LiveBucket, file: object, cache: LookupCache) -> KeyedFile:
    files = bucket.files
    path = files.path(file)
    return KeyedFile(
        bucket.io, path, file, bucket.schema, bucket.schema, bounds=CacheBounds(1 << 30), cache=cache
    )


def test_one_key_costs_a_page_and_many_keys_cost_the_row_group_once(tmp_path: Path) -> None:
    bucket = LiveBucket(str(tmp_path))
    put(bucket, 1, [(2 * i, "v") for i in range(ROWS)])
    (file,), cache = bucket.live, LookupCache()
    keyed = opened(bucket, file, cache)
    for n, key in enumerate((7, 20_000, 20_002, 60_000)):
        actual = keyed.find(components([np.array([key])], (BIGINT,)))
        assert actual[1].tolist() == ([] if key % 2 else [key // 2]), n
    one_page = cache.state.key_bytes
    assert one_page < 8 * ROWS
    keyed.find(components([np.arange(0, 2_000)], (BIGINT,)))
    assert cache.state.key_bytes - one_page > 8 * ROWS
    before = cache.state.misses
    keyed.find(components([np.array([33])], (BIGINT,)))
    assert cache.state.misses == before


def test_many_single_lookups_end_in_the_keys_of_the_row_group(tmp_path: Path) -> None:
    bucket = LiveBucket(str(tmp_path))
    put(bucket, 1, [(2 * i, "v") for i in range(ROWS)])
    (file,), cache = bucket.live, LookupCache()
    keyed = opened(bucket, file, cache)
    for key in range(0, 2 * ROWS, 4_000):
        assert keyed.find(components([np.array([key])], (BIGINT,)))[1].tolist() == [key // 2]
    assert cache.state.key_bytes > 8 * ROWS
